//! A command that can never be run, and what to do about it.

use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::io::Errno;

use super::tally::status;

/// Whether the next job would fare no better: it is about the program, not about its argument or about the moment.
pub(super) fn is_so(error: &io::Error) -> bool {
    let kinds = [ErrorKind::NotFound, ErrorKind::NotADirectory, ErrorKind::PermissionDenied];
    kinds.contains(&error.kind()) || has_no_format(error)
}

/// A text, most likely: a shell would run it as a script of its own, the system does not.
fn has_no_format(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::NOEXEC.raw_os_error())
}

/// One line, and the exit status.
pub(super) fn told(program: &OsStr, error: &io::Error) -> (String, u8) {
    let name = program.to_string_lossy();
    match error.kind() {
        ErrorKind::NotFound if is_a_file(program) => {
            let message = format!("cannot run '{name}': what its first line names after #! was not found");
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

/// Only with a slash in it is the name that of a file; else it was looked for in `PATH`.
fn is_a_file(program: &OsStr) -> bool {
    program.as_bytes().contains(&b'/') && Path::new(program).is_file()
}

fn advice(program: &OsStr) -> &'static str {
    match program.as_bytes() {
        // As in `run 'date; cat' -j4`.
        name if name.contains(&b' ') => "options come before it, and if it is for a shell, add --shell",
        _ => "is it installed?",
    }
}
