//! The `millpond` command. For now it plays one demonstration: how a pool grows, works and ends.
//!
//! Results go to stdout, errors to stderr in one line. Exit status: 0, or 2 if it could not run. A reader that closes
//! the pipe early has seen enough: that is success.

mod demo;
mod gate;
mod picture;

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

const HELP: &str = "\
millpond: a demonstration of how a thread pool grows, works and ends

usage: millpond [--help]

Hands 9 tasks to a pool with core size 2, maximum size 4 and a queue of 4, and
shows for each whether it got a new core thread, a place in the queue, an extra
thread or a rejection, and on which thread it ran.
";

fn main() -> ExitCode {
    let arguments: Vec<String> =
        std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned()).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "millpond: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let text = match arguments {
        [] => picture::draw(&demo::play()?),
        [only] if only == "--help" || only == "-h" => HELP.to_owned(),
        [unknown, ..] => return Err(format!("unexpected argument '{unknown}'; try --help").into()),
    };
    Ok(show(&text)?)
}

fn show(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}
