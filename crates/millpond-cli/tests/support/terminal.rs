//! Runs the command on a pseudo-terminal.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// Starts `millpond` on a terminal, and returns the user's side of it. `None` if `setsid` is
/// missing.
pub(crate) fn on_a_terminal(directory: &Path, arguments: &[&str], no_color: bool) -> Option<(Child, File)> {
    start(directory, &[&[env!("CARGO_BIN_EXE_millpond")], arguments].concat(), no_color)
}

/// Runs a script with `millpond` as its `$0`.
pub(crate) fn shell_on_a_terminal(directory: &Path, script: &str) -> Option<(Child, File)> {
    start(directory, &["sh", "-c", script, env!("CARGO_BIN_EXE_millpond")], false)
}

fn start(directory: &Path, words: &[&str], no_color: bool) -> Option<(Child, File)> {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&terminal).expect("ours");
    unlockpt(&terminal).expect("ours");
    let name = ptsname(&terminal, Vec::new()).expect("a name");
    let side = || {
        let path = PathBuf::from(OsStr::from_bytes(name.as_bytes()));
        Stdio::from(File::options().read(true).write(true).open(path).expect("the other side"))
    };
    let mut command = Command::new("setsid");
    command.args(["--ctty", "--wait"]).args(words);
    command.current_dir(directory).env("TERM", "xterm").env_remove("COLUMNS").env_remove("NO_COLOR");
    if no_color {
        command.env("NO_COLOR", "1");
    }
    match command.stdin(side()).stdout(side()).stderr(side()).spawn() {
        Ok(child) => Some((child, File::from(terminal))),
        Err(_) => {
            eprintln!("skipped: no setsid here");
            None
        }
    }
}

/// Everything written to the terminal until all processes have closed it.
pub(crate) fn seen(mut terminal: File) -> String {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    // At the end Linux returns an error instead of 0.
    while let Ok(length @ 1..) = terminal.read(&mut buffer) {
        bytes.extend_from_slice(&buffer[..length]);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
