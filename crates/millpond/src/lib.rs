#![doc = include_str!("../README.md")]

mod config;
pub mod interrupt;
pub mod queue;
mod sync;

#[cfg(all(test, loom))]
mod loom_tests;

pub use config::ConfigError;
