//! The result of a command: [`Outcome`] if it ran, [`Error`] if it could not run.

use std::fmt;
use std::io;

/// The result of a command that ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Exit status 0.
    Yes,
    /// It ran, but the answer is no: a job failed, no plan meets the target. Exit status 1.
    No,
    /// A command-specific exit status; see `run`.
    #[cfg_attr(
        not(unix),
        allow(dead_code, reason = "only commands that handle signals need it, and those are for Unix")
    )]
    Status(u8),
}

/// Why a command could not run. There is no conversion from `io::Error`, because a message needs
/// the name of the file, which only the caller knows.
#[derive(Debug)]
pub(crate) enum Error {
    /// One line that says what is wrong and what to do about it. Exit status 2.
    Message(String),
    /// The reader of stdout has closed the pipe. Not a failure: exit status 0.
    ReaderGone,
}

impl Error {
    pub(crate) fn new(message: impl fmt::Display) -> Error {
        Error::Message(message.to_string())
    }

    /// Converts the error of a write to stdout.
    pub(crate) fn stdout(error: io::Error) -> Error {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Error::ReaderGone,
            _ => Error::Message(format!("cannot write to stdout: {error}")),
        }
    }
}

impl From<millpond::ConfigError> for Error {
    fn from(error: millpond::ConfigError) -> Error {
        Error::Message(format!("no such pool can be built: {error}"))
    }
}
