//! `conform`: scenarios on standard input, traces on standard output, in the same order.
//!
//! Exits 0 when every scenario has its line, also if that line is an error; 2 if it could not read or write.

use std::io::{self, BufReader, BufWriter, ErrorKind};
use std::process::ExitCode;

fn main() -> ExitCode {
    match conformance::runner::run(BufReader::new(io::stdin()), BufWriter::new(io::stdout().lock())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) if why.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("conform: {why}");
            ExitCode::from(2)
        }
    }
}
