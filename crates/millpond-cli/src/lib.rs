//! The `millpond` command: `lab` shows how a pool behaves, `plan` sizes one, `run` runs commands
//! through one, `cluster` manages durable tasks.
//!
//! This library exists for the binary and for fuzzing. It has no stable API.
//!
//! Results go to stdout, errors to stderr in one line. Exit status: 0 on success; 1 if the command
//! ran and the answer is no; 2 if it could not run. If the reader closes the pipe early, this is
//! success.

mod canvas;
mod cli;
mod commands;
mod error;
mod figure;
mod files;
#[cfg(fuzzing)]
pub mod fuzzing;
mod html;
mod lengths;
mod picture;
mod term;
mod units;

use std::io::{self, Write};
use std::process::ExitCode;

use error::{Error, Outcome};

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    match cli::run(std::env::args_os()) {
        Ok(Outcome::Yes) | Err(Error::ReaderGone) => ExitCode::SUCCESS,
        Ok(Outcome::No) => ExitCode::from(1),
        Ok(Outcome::Status(status)) => ExitCode::from(status),
        Err(Error::Message(message)) => {
            let _ = writeln!(io::stderr(), "millpond: {message}");
            ExitCode::from(2)
        }
    }
}
