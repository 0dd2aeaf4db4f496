//! Races that are too large for a loom model, with exact accounting.

#[path = "../support/mod.rs"]
mod support;

mod accounting;
mod growth;
mod handles;
mod panics;
mod policy;
mod shutdown;
#[cfg(target_os = "linux")]
mod soak;
mod spawn;
