//! One suite that every engine runs, and random sequences that every engine answers alike.

#[path = "../common/mod.rs"]
mod common;
mod conformance;
mod differential;
mod kit;
