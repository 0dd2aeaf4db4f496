//! Runs the command, and checks what it really prints.

use std::io::Read;
use std::process::{Command, Output, Stdio};

fn millpond(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_millpond")).args(arguments).output().expect("the binary runs")
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("output is UTF-8")
}

/// The lines of the table: task number, what the pool gave it, and on which thread it ran.
fn table(output: &str) -> Vec<(usize, &str, &str)> {
    let after_rule = output.lines().skip_while(|line| !line.starts_with("----")).skip(1);
    let rows = after_rule.take_while(|line| !line.is_empty());
    rows.map(|line| {
        let (task, rest) = line.trim_start().split_once("  ").expect("a task number");
        let (how, rest) = rest.split_once("  ").expect("how it was admitted");
        let ran_on = rest.split_whitespace().last().expect("a last column");
        (task.parse().expect("a number"), how, ran_on)
    })
    .collect()
}

#[test]
fn nine_tasks_get_two_core_threads_four_places_two_extra_threads_and_a_rejection() {
    let output = millpond(&[]);
    let printed = text(output.stdout);
    assert!(output.status.success(), "{}", text(output.stderr));
    let rows = table(&printed);
    let admitted: Vec<(usize, &str)> = rows.iter().map(|(task, how, _)| (*task, *how)).collect();
    assert_eq!(
        admitted,
        [
            (1, "a new core thread"),
            (2, "a new core thread"),
            (3, "a queue place"),
            (4, "a queue place"),
            (5, "a queue place"),
            (6, "a queue place"),
            (7, "an extra thread"),
            (8, "an extra thread"),
            (9, "a rejection"),
        ],
        "{printed}"
    );
    let ran_on = |task: usize| rows[task - 1].2;
    let first_of_each_thread = [1, 2, 7, 8].map(ran_on);
    assert_eq!(first_of_each_thread, ["pond-1", "pond-2", "pond-3", "pond-4"], "{printed}");
    for queued in 3..=6 {
        assert!(first_of_each_thread.contains(&ran_on(queued)), "{printed}");
    }
    assert_eq!(ran_on(9), "-", "{printed}");
    assert!(
        printed.contains("2 core threads, 4 queued, 2 extra threads, 1 rejected; 8 tasks ran."),
        "{printed}"
    );
}

#[test]
fn the_pool_is_seen_full_then_shrunk_then_terminated() {
    let printed = text(millpond(&[]).stdout);
    let unwrapped = printed.split_whitespace().collect::<Vec<_>>().join(" ");
    for line in [
        "pool-1[Running, pool size = 4, active threads = 4, queued tasks = 4, completed tasks = 0]",
        "pool-1[Running, pool size = 2, active threads = 0, queued tasks = 0, completed tasks = 8]",
        "pool-1[Terminated, pool size = 0, active threads = 0, queued tasks = 0, completed tasks = 8]",
        "all that was accepted had run, 0 tasks came back unrun",
    ] {
        assert!(unwrapped.contains(line), "no `{line}` in\n{printed}");
    }
}

#[test]
fn the_picture_fits_into_80_columns_and_has_no_control_codes() {
    let printed = text(millpond(&[]).stdout);
    for line in printed.lines() {
        assert!(line.chars().count() <= 80, "{} columns: {line}", line.chars().count());
        assert!(!line.contains(char::is_control), "{line:?}");
        assert_eq!(line, line.trim_end(), "trailing spaces");
    }
}

#[test]
fn a_reader_that_closes_the_pipe_early_is_no_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_millpond"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    drop(child.stdout.take());
    let status = child.wait().expect("it ends");
    let mut complaints = String::new();
    child.stderr.take().expect("piped").read_to_string(&mut complaints).expect("readable");
    assert!(status.success(), "{status}");
    assert_eq!(complaints, "");
}
