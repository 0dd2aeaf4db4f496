#![doc = include_str!("../README.md")]

mod events;
mod limit;

pub use events::{TracingObserver, observe};
