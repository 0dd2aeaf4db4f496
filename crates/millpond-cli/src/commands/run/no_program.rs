//! Messages for a command that cannot be started, with advice.

use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::io::Errno;

use super::tally::status;

/// Whether the error concerns the program, so that every job would fail in the same way.
pub(super) fn is_permanent(error: &io::Error) -> bool {
    let kinds = [ErrorKind::NotFound, ErrorKind::NotADirectory, ErrorKind::PermissionDenied];
    kinds.contains(&error.kind()) || has_no_format(error)
}

/// Probably a script without a `#!` line: a shell would run it, the kernel does not.
fn has_no_format(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::NOEXEC.raw_os_error())
}

/// The message and exit status for a program that cannot be started.
pub(super) fn explain(program: &OsStr, error: &io::Error) -> (String, u8) {
    let name = program.to_string_lossy();
    match error.kind() {
        ErrorKind::NotFound if is_a_file(program) => {
            let message =
                format!("cannot run '{name}': the interpreter named in its first line (#!) was not found");
            (message, status::NOT_EXECUTABLE)
        }
        ErrorKind::NotFound | ErrorKind::NotADirectory => {
            (format!("no command '{name}' was found; {}", advice(program)), status::NOT_FOUND)
        }
        _ if has_no_format(error) => {
            let message =
                format!("cannot run '{name}': {error}; a script needs a first line such as #!/bin/sh");
            (message, status::NOT_EXECUTABLE)
        }
        _ => (format!("cannot run '{name}': {error}; is it executable?"), status::NOT_EXECUTABLE),
    }
}

/// False for a name without a slash: it was looked up in `PATH` and is no file here.
fn is_a_file(program: &OsStr) -> bool {
    program.as_bytes().contains(&b'/') && Path::new(program).is_file()
}

fn advice(program: &OsStr) -> String {
    let name = program.to_string_lossy();
    if is_exported_function(&name) {
        return format!("bash functions are run with `bash -c '{name} \"$1\"' bash {{}}`");
    }
    match program.as_bytes() {
        // As in `run 'date; cat' -j4`.
        name if name.contains(&b' ') => {
            "options come before the command, and a shell command of several words needs --shell".to_owned()
        }
        _ => "is it installed?".to_owned(),
    }
}

/// Whether `export -f` put a function of this name into the environment.
fn is_exported_function(name: &str) -> bool {
    !name.is_empty() && std::env::var_os(format!("BASH_FUNC_{name}%%")).is_some()
}

/// The message for one job whose program depends on the argument.
pub(super) fn explain_one(number: u64, program: &OsStr, error: &io::Error) -> String {
    let name = program.to_string_lossy();
    let hint = match program.as_bytes().contains(&b' ') {
        true => "; to run a whole line as a command, write `millpond run sh -c`",
        false => "",
    };
    format!("job {number} cannot be started: '{name}': {error}{hint}")
}
