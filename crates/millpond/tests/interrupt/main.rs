//! Interrupt flags and interrupt callbacks.

#[path = "../support/mod.rs"]
mod support;

mod callbacks;
mod flag;
