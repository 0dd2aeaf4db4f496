//! Runs the other programs as child processes.
#![cfg(unix)]

mod support;

use std::fs::{self, File};
use std::process::Command;

use support::{Folder, Program, Signal};

fn run(program: &str, argument: &str) -> String {
    let output = Command::new(program).arg(argument).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn file_pipeline_prints_in_order() {
    let folder = Folder::new();
    fs::create_dir(folder.0.join("5")).unwrap();
    let mut expected = Vec::new();
    for number in 0..200 {
        let name = if number == 50 { "5/50".to_owned() } else { format!("{:03}", number) };
        fs::write(folder.0.join(&name), "line\n".repeat(1000 - number)).unwrap();
        if number != 50 {
            expected.push(1000 - number);
        }
    }
    expected.push(950); // the folder "5" comes after "199"
    let output = run(env!("CARGO_BIN_EXE_file_pipeline"), folder.0.to_str().unwrap());
    let counts = output.lines().map(|line| line.split_whitespace().next().unwrap().parse::<usize>().unwrap());
    assert_eq!(counts.collect::<Vec<_>>(), expected);
}

#[test]
fn file_pipeline_ends_at_ctrl_c_with_the_beginning_of_its_output() {
    let folder = Folder::new();
    fs::write(folder.0.join("1"), "a\nb\n").unwrap();
    // A sparse file: it takes no space on the disk, but minutes to read.
    File::create(folder.0.join("2")).unwrap().set_len(1 << 40).unwrap();
    fs::write(folder.0.join("3"), "a\n").unwrap();
    let mut program = Program::start(Command::new(env!("CARGO_BIN_EXE_file_pipeline")).arg(&folder.0));
    assert!(program.line().trim_start().starts_with("2 "));
    program.signal(Signal::INT);
    let (status, output, errors) = program.end();
    assert_eq!(status.code(), Some(130), "{errors}");
    assert_eq!(output, "");
    assert!(errors.starts_with("interrupted: "), "{errors}");
}

#[test]
fn staged_shutdown_loses_nothing() {
    let mut program = Program::start(&mut Command::new(env!("CARGO_BIN_EXE_staged_shutdown")));
    assert_eq!(program.line(), "running");
    program.signal(Signal::TERM);
    let (status, output, errors) = program.end();
    assert!(status.success(), "{status}\n{output}\n{errors}");
    let counts = output.lines().last().and_then(|line| {
        let (accepted, reported) = line.strip_prefix("accepted ")?.split_once(", reported ")?;
        Some((accepted.parse::<u64>().ok()?, reported.parse::<u64>().ok()?))
    });
    let (accepted, reported) = counts.unwrap_or_else(|| panic!("{output}"));
    assert_eq!(accepted, reported, "{errors}");
}

#[test]
fn periodic_jobs_end_in_good_order() {
    let output = run(env!("CARGO_BIN_EXE_periodic_jobs"), "1");
    assert_eq!(output.lines().last(), Some("all work ended within the grace period"), "{output}");
}

#[test]
fn tower_layer_answers_six_of_ten_calls() {
    let output = run(env!("CARGO_BIN_EXE_tower_layer"), "");
    assert_eq!(output.lines().count(), 10, "{output}");
    assert!(output.lines().filter(|line| line.contains("row")).count() >= 6, "{output}");
}

#[test]
fn worker_state_uses_few_buffers() {
    let output = run(env!("CARGO_BIN_EXE_worker_state"), "");
    assert!(output.starts_with("7890 characters, "), "{output}");
}
