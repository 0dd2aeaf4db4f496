//! Shared parts of the measurements.

pub mod charts;
// Implements `GlobalAlloc`, an unsafe trait.
#[allow(unsafe_code)]
pub mod counting;
pub mod distance;
pub mod machine;
pub mod processor;

/// True if mimalloc replaces the system's allocator.
pub const MIMALLOC: bool = cfg!(feature = "mimalloc");

#[cfg(feature = "mimalloc")]
#[global_allocator]
static GLOBAL: counting::Counting<mimalloc::MiMalloc> = counting::Counting(mimalloc::MiMalloc);

#[cfg(not(feature = "mimalloc"))]
#[global_allocator]
static GLOBAL: counting::Counting<std::alloc::System> = counting::Counting(std::alloc::System);
