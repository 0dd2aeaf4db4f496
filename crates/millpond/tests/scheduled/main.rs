//! Scheduled pools: delayed and periodic tasks.

#[path = "../support/mod.rs"]
mod support;

mod before_hook;
mod cancel;
mod pool;
mod repeating;
mod shutdown;
mod stress;
mod timing;
