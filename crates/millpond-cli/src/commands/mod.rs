//! One module per command: its arguments, and a function `run`.

#[cfg(feature = "cluster")]
pub(crate) mod cluster;
pub(crate) mod lab;
pub(crate) mod plan;
pub(crate) mod run;
pub(crate) mod shell;
