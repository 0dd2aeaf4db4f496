//! Behaviour on a terminal.

use super::*;
#[cfg(target_os = "linux")]
use support::terminal::seen;

#[test]
fn there_is_no_progress_in_a_pipe() {
    let ran = run(&["-j2", "echo"], "a\nb\n");
    assert_eq!(ran.stderr, "");
}

/// Starts `millpond run` on a terminal.
#[cfg(target_os = "linux")]
fn on_a_terminal(directory: &Path, arguments: &[&str]) -> Option<(Child, File)> {
    let arguments: Vec<&str> = ["run"].into_iter().chain(arguments.iter().copied()).collect();
    support::terminal::on_a_terminal(directory, &arguments, false)
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
    assert_eq!(support::terminal::seen(terminal), "1\r\n");
    assert!(child.wait().unwrap().success());
}

/// The terminal signals its whole foreground group, to which jobs must not belong.
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
        screen.contains("starting no more jobs")
    });
    File::create(directory.join("go")).unwrap();
    screen.push_str(&seen(terminal));
    assert_eq!(child.wait().unwrap().code(), Some(130), "{screen}");
    assert!(screen.contains("out-1") && !screen.contains("out-2"), "{screen}");
}

/// Otherwise the system would stop it, silently and for ever.
#[test]
#[cfg(target_os = "linux")]
fn a_job_that_reads_from_the_terminal_fails_with_a_reason() {
    let directory = directory("run-tty");
    let options = ["--attempts", "3", "--grace", "1h", "--joblog", "log"];
    let arguments = [&options[..], &["read x </dev/tty; echo got $x {}", ":::", "1"]].concat();
    let Some((mut child, terminal)) = on_a_terminal(&directory, &arguments) else { return };
    let seen = seen(terminal);
    assert_eq!(child.wait().unwrap().code(), Some(1), "{seen}");
    assert!(seen.contains("job 1 waits for the terminal, which jobs do not have"), "{seen}");
    assert!(seen.contains("failed: 1 (needs a terminal, 1 of 3 attempts)"), "{seen}");
    assert_eq!(super::joblog::logged(&directory.join("log")), [(1, "needs a terminal".to_owned())]);
}

/// In 20 columns the progress line shows only counts. A longer line would wrap.
#[test]
#[cfg(target_os = "linux")]
fn the_progress_line_fits_a_narrow_terminal() {
    let directory = directory("run-narrow");
    let script = "stty rows 24 cols 20; exec \"$0\" run -j1 'sleep 0.3; : {}' ::: 1 2 3";
    let Some((mut child, terminal)) = support::terminal::shell_on_a_terminal(&directory, script) else {
        return;
    };
    let seen = seen(terminal);
    assert!(child.wait().unwrap().success(), "{seen}");
    assert!(seen.contains("1/3"), "{seen:?}");
    for line in seen.split(['\r', '\n']).map(|line| console::strip_ansi_codes(line).into_owned()) {
        assert!(line.chars().count() <= 20, "{line:?} in {seen:?}");
    }
}
