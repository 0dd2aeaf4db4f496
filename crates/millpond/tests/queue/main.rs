//! The blocking queues.

#[path = "../support/mod.rs"]
mod support;

mod array;
mod contract;
mod delay;
mod linked;
mod priority;
mod properties;
mod stress;
mod synchronous;
