//! The `millpond` command. Everything is in the library of this crate.

use std::process::ExitCode;

fn main() -> ExitCode {
    millpond_cli::main()
}
