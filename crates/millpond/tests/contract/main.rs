//! The public contract, and regression tests for mistakes of other pools.

#[path = "../support/mod.rs"]
mod support;

mod names;
mod peers;
mod time;
