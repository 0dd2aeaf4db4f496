//! Futures and streams on executors and schedulers.

#[path = "../support/futures.rs"]
mod future_fixtures;
#[path = "../support/mod.rs"]
mod support;

mod futures;
mod futures_order;
mod futures_schedulers;
mod own_waits;
mod streams;
mod tokio_runtime;
