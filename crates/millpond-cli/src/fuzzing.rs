//! Entry points for the fuzz targets in `fuzz/`: the parsers of the command.
//!
//! Each function panics if an invariant is broken, and accepts any input.

use std::ffi::OsString;

use crate::cli;
use crate::commands::lab;
use crate::error::Error;

/// Parses a command line of `run`, builds its template and fills in arguments.
#[cfg(unix)]
pub fn run(data: &[u8]) {
    crate::commands::run::fuzzing::run(data);
}

/// Reads the lines of a job log.
#[cfg(unix)]
pub fn job_log(data: &[u8]) {
    crate::commands::run::fuzzing::job_log(data);
}

/// Parses the lines of `text` as the phrases of `plan`: arrivals, durations, pool, target.
pub fn plan(text: &str) {
    let options = ["--arrivals", "--takes", "--pool", "--max-rejects", "--target-p99", "--load", "--for"];
    let words = options.into_iter().zip(text.lines()).flat_map(|(option, phrase)| [option, phrase]);
    let words: Vec<OsString> = ["millpond", "plan"].into_iter().chain(words).map(OsString::from).collect();
    cli::is_valid(&words);
}

/// Reads a workload of `lab`. An error names the place in one line.
pub fn workload(text: &str) {
    if let Err(Error::Message(message)) = lab::read_workload("fuzz.toml", text) {
        assert!(message.starts_with("fuzz.toml:"), "{message}");
    }
}
