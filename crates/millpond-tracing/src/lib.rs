#![doc = include_str!("../README.md")]

mod events;
mod limit;
mod span;

pub use events::{TracingObserver, observe};
pub use span::CurrentSpan;
