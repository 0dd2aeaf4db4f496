//! Runs real processes through `millpond run`: their output, its order, and the end of the run.
//!
//! Jobs wait for each other by files, never by time. If a bug could make a job wait for ever, the
//! test has a timeout.
//!
//! The command exists on Unix only; elsewhere there is nothing to test.

#![cfg(unix)]

#[path = "../support/mod.rs"]
mod support;

mod arguments;
mod back_pressure;
mod failure;
mod habits;
mod joblog;
mod output;
mod pool;
mod signals;
mod terminal;

use std::fs::{self, File};
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use support::{Ran, command, directory, ran};

/// `millpond run` with `arguments`, and `input` on its stdin.
fn run(arguments: &[&str], input: impl AsRef<[u8]>) -> Ran {
    ran(run_raw(command().arg("run").args(arguments), input))
}

fn run_raw(command: &mut Command, input: impl AsRef<[u8]>) -> std::process::Output {
    let mut child = spawn(command);
    let mut stdin = child.stdin.take().expect("piped");
    let input = input.as_ref().to_vec();
    let writing = thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().expect("it ends");
    if let Err(error) = writing.join().expect("no panic") {
        assert_eq!(error.kind(), ErrorKind::BrokenPipe, "it need not read all");
    }
    output
}

fn spawn(command: &mut Command) -> Child {
    support::handle_interrupts();
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs")
}

/// `millpond run` in `directory`, where jobs create their files.
fn in_directory(directory: &Path) -> Command {
    let mut command = command();
    command.arg("run").current_dir(directory);
    command
}

fn run_in(directory: &Path, arguments: &[&str], input: &str) -> Ran {
    ran(run_raw(in_directory(directory).args(arguments), input))
}

/// Shell code that waits for a file.
fn until(file: &str) -> String {
    format!("until [ -e {file} ]; do sleep 0.02; done")
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < Duration::from_secs(120), "waited too long until {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn wait_for_file(path: &Path) {
    eventually(&format!("{} is there", path.display()), || path.exists());
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).expect("it runs");
}

fn lines(text: &str) -> Vec<&str> {
    text.lines().collect()
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines = lines(text);
    lines.sort_unstable();
    lines
}

fn ended(child: Child) -> Ran {
    ran(child.wait_with_output().expect("it ends"))
}

/// Waits for the end of a child that could hang. Kills it after `limit`.
fn ended_within(mut child: Child, limit: Duration) -> Ran {
    let begin = Instant::now();
    while child.try_wait().expect("a child").is_none() {
        if begin.elapsed() > limit {
            child.kill().expect("it runs");
            panic!("it did not end within {limit:?}");
        }
        thread::sleep(Duration::from_millis(5));
    }
    ended(child)
}

/// The number in `VmHWM:  1234 kB`.
#[cfg(target_os = "linux")]
fn kilobytes(line: &str) -> u64 {
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{line}"))
}
