//! Names, the registry, and monitoring of pools.

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
mod scheduler_views;
mod schedulers;
mod times;
mod views;
