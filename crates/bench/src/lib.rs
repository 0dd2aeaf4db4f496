//! What the measurements share.

pub mod distance;
pub mod machine;

/// Memory is given by mimalloc, and not by the system's allocator.
pub const MIMALLOC: bool = cfg!(feature = "mimalloc");

#[cfg(feature = "mimalloc")]
#[global_allocator]
static GLOBAL: mimalloc::MiMalloc = mimalloc::MiMalloc;
