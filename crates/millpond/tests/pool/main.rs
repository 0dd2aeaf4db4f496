//! The thread pool.

#[path = "../support/mod.rs"]
mod support;

mod construction;
mod growth;
mod hooks;
mod keep_alive;
mod own_waits;
mod panics;
mod queue_kinds;
mod queue_time;
mod rejection;
mod shutdown;
mod spawn_failures;
mod stats;
mod submit_async;
mod try_submit;
mod wait;
