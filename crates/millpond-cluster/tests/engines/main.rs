//! One suite that every engine runs, and random sequences that compare the engines.

#[path = "../common/mod.rs"]
mod common;
mod conformance;
mod differential;
mod kit;
