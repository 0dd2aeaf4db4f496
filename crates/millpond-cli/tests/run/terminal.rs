//! What is different on a terminal.

use super::*;

#[test]
fn there_is_no_progress_in_a_pipe() {
    let ran = run(&["-j2", "echo"], "a\nb\n");
    assert_eq!(ran.stderr, "");
}

/// A terminal, and what `millpond run` with `arguments` does there. None, with a word, where `setsid` is not.
#[cfg(target_os = "linux")]
fn on_a_terminal(directory: &Path, arguments: &[&str]) -> Option<(Child, File)> {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&terminal).expect("ours");
    unlockpt(&terminal).expect("ours");
    let name = ptsname(&terminal, Vec::new()).expect("a name");
    let side = || {
        let path = PathBuf::from(std::ffi::OsStr::from_bytes(name.as_bytes()));
        Stdio::from(File::options().read(true).write(true).open(path).expect("the other side"))
    };
    let mut command = Command::new("setsid");
    command.args(["--ctty", "--wait", env!("CARGO_BIN_EXE_millpond"), "run"]).args(arguments);
    command.current_dir(directory).env("TERM", "xterm").env_remove("COLUMNS").env_remove("NO_COLOR");
    match command.stdin(side()).stdout(side()).stderr(side()).spawn() {
        Ok(child) => Some((child, File::from(terminal))),
        Err(_) => {
            eprintln!("skipped: no setsid here");
            None
        }
    }
}

/// All that is written to the terminal until everybody has left it.
#[cfg(target_os = "linux")]
fn seen(mut terminal: File) -> String {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    // At the end Linux gives an error instead of nothing.
    while let Ok(length @ 1..) = terminal.read(&mut buffer) {
        bytes.extend_from_slice(&buffer[..length]);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
#[cfg(target_os = "linux")]
fn on_a_terminal_there_is_a_bar_with_rate_and_time_left() {
    let directory = directory("run-bar");
    let Some((mut child, terminal)) =
        on_a_terminal(&directory, &["-j1", "sleep 0.4; echo out-{}", ":::", "1", "2", "3"])
    else {
        return;
    };
    let seen = seen(terminal);
    assert!(child.wait().unwrap().success(), "{seen}");
    assert!(seen.contains("/s, ") && seen.contains(" left") && seen.contains("1/3"), "{seen:?}");
    for line in ["out-1", "out-2", "out-3"] {
        assert!(seen.contains(&format!("{line}\r\n")), "an output has lines of its own: {seen:?}");
    }
    let Some((mut child, terminal)) = on_a_terminal(&directory, &["--no-progress", "echo", ":::", "1"])
    else {
        return;
    };
    assert_eq!(self::seen(terminal), "1\r\n");
    assert!(child.wait().unwrap().success());
}

/// The terminal sends the signal to everybody in its foreground, so the job must not be among them.
#[test]
#[cfg(target_os = "linux")]
fn a_ctrl_c_at_the_terminal_does_not_reach_the_jobs() {
    let directory = directory("run-ctrl-c");
    let job = format!("touch at-{{}}; {}; echo out-{{}}", until("go"));
    let Some((mut child, terminal)) = on_a_terminal(&directory, &["-j1", &job, ":::", "1", "2"]) else {
        return;
    };
    wait_for_file(&directory.join("at-1"));
    (&terminal).write_all(b"\x03").expect("typed");
    let mut screen = String::new();
    let mut reader = BufReader::new(terminal.try_clone().expect("another"));
    eventually("it says so", || {
        screen.push_str(&String::from_utf8_lossy(reader.fill_buf().expect("more")));
        let length = reader.buffer().len();
        reader.consume(length);
        screen.contains("finished first")
    });
    File::create(directory.join("go")).unwrap();
    screen.push_str(&seen(terminal));
    assert!(child.wait().unwrap().success(), "{screen}");
    assert!(screen.contains("out-1") && screen.contains("out-2"), "{screen}");
}
