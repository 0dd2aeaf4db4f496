//! Memory, counted by an allocator that sees the whole process.

#[path = "../support/mod.rs"]
mod support;

mod allocations;
mod counting;
mod memory;
mod registry;
mod timer_bytes;
