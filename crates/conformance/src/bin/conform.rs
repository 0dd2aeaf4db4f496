//! `conform`: reads scenarios from standard input, writes traces to standard output in the same
//! order.
//!
//! `conform [--manual-clock]`. With the option, scheduled pools use a clock that the driver
//! advances, so playing takes no time.
//!
//! Exits with 0 when every scenario has its line, even if that line is an error, and with 2 if it
//! could not read or write.

use std::io::{self, BufReader, BufWriter, ErrorKind};
use std::process::ExitCode;

use conformance::runner;
use conformance::time::TimeKind;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let time = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => TimeKind::Real,
        ["--manual-clock"] => TimeKind::Manual,
        _ => {
            eprintln!("usage: conform [--manual-clock] < scenarios > traces");
            return ExitCode::from(2);
        }
    };
    match runner::run(BufReader::new(io::stdin()), BufWriter::new(io::stdout().lock()), time) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) if why.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("conform: {why}");
            ExitCode::from(2)
        }
    }
}
