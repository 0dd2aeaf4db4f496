//! What is different on a terminal.

use super::*;
#[cfg(target_os = "linux")]
use support::terminal::seen;

#[test]
fn there_is_no_progress_in_a_pipe() {
    let ran = run(&["-j2", "echo"], "a\nb\n");
    assert_eq!(ran.stderr, "");
}

/// What `millpond run` with `arguments` does on a terminal.
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
