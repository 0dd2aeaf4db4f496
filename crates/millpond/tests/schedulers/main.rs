//! Reactor's schedulers.

#[path = "../support/schedulers.rs"]
mod scheduling;
#[path = "../support/mod.rs"]
mod support;

mod capacity;
mod eviction;
mod executor_panics;
mod executors;
mod fixed;
mod lanes;
mod lifecycle;
mod per_task;
mod series;
mod single_worker;
mod slots;
mod starts;
mod stress;
