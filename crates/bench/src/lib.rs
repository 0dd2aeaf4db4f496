//! What the measurements share.

// Implements `GlobalAlloc`, an unsafe trait.
#[allow(unsafe_code)]
pub mod counting;
pub mod distance;
pub mod machine;
pub mod processor;

/// Memory is given by mimalloc, and not by the system's allocator.
pub const MIMALLOC: bool = cfg!(feature = "mimalloc");

#[cfg(feature = "mimalloc")]
#[global_allocator]
static GLOBAL: counting::Counting<mimalloc::MiMalloc> = counting::Counting(mimalloc::MiMalloc);

#[cfg(not(feature = "mimalloc"))]
#[global_allocator]
static GLOBAL: counting::Counting<std::alloc::System> = counting::Counting(std::alloc::System);
