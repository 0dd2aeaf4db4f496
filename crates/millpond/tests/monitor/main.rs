//! Names, the registry, and looking at pools.

#[path = "../support/mod.rs"]
mod support;

mod names;
mod observers;
mod panics;
mod pause;
mod propagate;
mod reconfigure;
mod registry;
mod rejections;
mod scheduler_pause;
mod scheduler_times;
mod schedulers;
mod times;
mod views;
