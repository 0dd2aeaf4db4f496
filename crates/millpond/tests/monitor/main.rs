//! Names, the registry, and looking at pools.

#[path = "../support/mod.rs"]
mod support;

mod names;
mod observers;
mod panics;
mod reconfigure;
mod registry;
mod rejections;
