#![doc = include_str!("../README.md")]

mod config;
pub mod interrupt;
pub mod queue;
mod sync;

pub use config::ConfigError;
