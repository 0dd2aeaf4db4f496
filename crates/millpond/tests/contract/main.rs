//! The public contract, and mistakes that other pools made.

#[path = "../support/mod.rs"]
mod support;

mod names;
mod peers;
mod time;
