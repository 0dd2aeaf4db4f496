//! Executors, completion services and factories.

#[path = "../support/mod.rs"]
mod support;

mod completion;
mod factories;
mod helping;
mod invoke;
mod service;
mod sizing;
