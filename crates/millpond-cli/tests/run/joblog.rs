//! The job log, and resuming from it.

use super::*;

/// The numbers and outcomes of the jobs in a log.
pub(super) fn logged(path: &Path) -> Vec<(u64, String)> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n')).skip(1);
    whole
        .map(|line| {
            let fields: Vec<&str> = line.trim_end().split('\t').collect();
            (fields[0].parse().expect("a number"), fields[4].to_owned())
        })
        .collect()
}

/// Kills a run, truncates a line of its log, and resumes it: all output is there, and no logged job
/// ran twice.
fn survives_a_kill(options: &[&str], name: &str) {
    let directory = directory(name);
    let log = directory.join("log");
    let input: String = (1..=40).map(|n| format!("{n}\n")).collect();
    // The tenth job waits, so that the kill hits the middle of the run.
    let command = format!("echo {{}} >> started; if [ {{}} = 10 ]; then {}; fi; echo {{}}", until("go"));
    let arguments = [options, &["-j2", "--joblog", "log", &command]].concat();
    let mut child = spawn(in_directory(&directory).args(&arguments));
    child.stdin.take().expect("piped").write_all(input.as_bytes()).unwrap();
    eventually("some are logged", || logged(&log).len() >= 9);
    signal(&child, Signal::KILL);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), None, "it was killed");
    let first = String::from_utf8(output.stdout).unwrap();
    let done: Vec<u64> = logged(&log).into_iter().map(|(number, _)| number).collect();
    for number in &done {
        assert!(
            lines(&first).contains(&number.to_string().as_str()),
            "{number} is in the log, but not printed"
        );
    }
    File::options().append(true).open(&log).unwrap().write_all(b"40\t17000000").unwrap();
    File::create(directory.join("go")).unwrap();
    fs::remove_file(directory.join("started")).unwrap();

    let arguments = [&["--resume"][..], &arguments].concat();
    let second = ran(run_raw(in_directory(&directory).args(&arguments), &input));
    assert_eq!((second.status, second.stderr.as_str()), (0, ""));
    let mut printed: Vec<u64> =
        lines(&(first + &second.stdout)).iter().map(|line| line.parse().unwrap()).collect();
    printed.sort_unstable();
    printed.dedup();
    assert_eq!(printed, (1..=40).collect::<Vec<u64>>(), "every output is there");
    let started = fs::read_to_string(directory.join("started")).unwrap();
    for number in &done {
        assert!(!lines(&started).contains(&number.to_string().as_str()), "{number} was run again");
    }
    let mut numbers: Vec<u64> = logged(&log).into_iter().map(|(number, _)| number).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=40).collect::<Vec<u64>>(), "each once");
}

#[test]
fn a_killed_run_can_be_resumed_without_loss() {
    survives_a_kill(&[], "run-kill");
}

#[test]
fn a_killed_run_in_order_can_be_resumed_without_loss() {
    survives_a_kill(&["--keep-order"], "run-kill-in-order");
}

#[test]
fn resume_skips_failures_and_resume_failed_runs_them_again() {
    let directory = directory("run-resume");
    let command = "echo {}; [ {} != 2 ] || [ -e mended ]";
    let again = |option| run_in(&directory, &[option, "--joblog", "log", "-k", command], "1\n2\n3\n4\n");
    let first = run_in(&directory, &["--joblog", "log", "-k", command], "1\n2\n3\n");
    assert_eq!((first.status, first.stdout.as_str()), (1, "1\n2\n3\n"));
    let resumed = again("--resume");
    assert_eq!((resumed.status, resumed.stdout.as_str()), (0, "4\n"), "{}", resumed.stderr);
    File::create(directory.join("mended")).unwrap();
    let mended = again("--resume-failed");
    assert_eq!((mended.status, mended.stdout.as_str()), (0, "2\n"));
    assert_eq!(again("--resume-failed").stdout, "");
}

#[test]
fn resume_matches_jobs_by_their_command() {
    let directory = directory("run-changed");
    let log = ["--joblog", "log", "-k", "echo"];
    run_in(&directory, &log, "a\nb\nc\n");
    let ran = run_in(&directory, &[&["--resume"], &log[..]].concat(), "a\nX\nc\n");
    assert_eq!(ran.stdout, "X\n");
    let again = |input| run_in(&directory, &[&["--resume"], &log[..]].concat(), input);
    assert_eq!(again("new\nc\nX\nb\na\n").stdout, "new\n", "the order and the numbers do not matter");
    assert_eq!(again("a\na\nb\n").stdout, "a\n", "a command that occurs twice is a second job");
    assert_eq!(again("a\na\nb\n").stdout, "");
    assert_eq!(ran.stderr, "");
}

#[test]
fn a_log_is_not_overwritten() {
    let directory = directory("run-log-there");
    let log = ["--joblog", "log", "echo"];
    assert_eq!(run_in(&directory, &log, "a\n").status, 0);
    let ran = run_in(&directory, &log, "a\n");
    assert_eq!((ran.status, ran.stdout.as_str()), (2, ""));
    assert_eq!(ran.stderr, "millpond: log exists; add --resume to go on with it, or remove it\n");
}

#[test]
#[cfg(target_os = "linux")]
fn a_log_that_cannot_be_written_is_told_before_any_job() {
    let ran = run(&["-j1", "--joblog", "/dev/full", "echo"], "a\nb\n");
    assert_eq!((ran.status, ran.stdout.as_str()), (2, ""));
    assert!(ran.stderr.contains("cannot write the job log /dev/full"), "{}", ran.stderr);
}

#[test]
fn a_log_of_another_command_is_pointed_out() {
    let directory = directory("run-log-other");
    run_in(&directory, &["--joblog", "log", "echo"], "a\n");
    let ran = run_in(&directory, &["--joblog", "log", "--resume", "printf", "%s"], "a\n");
    assert_eq!((ran.status, ran.stdout.as_str()), (0, "a"));
    assert_eq!(ran.stderr, "millpond: the job log has other commands than this run; nothing was skipped\n");
}

/// Opening it for reading would wait for ever for a writer.
#[test]
#[cfg(target_os = "linux")]
fn a_fifo_is_refused_at_once_as_a_log_to_resume_from() {
    let directory = directory("run-log-fifo");
    assert!(Command::new("mkfifo").arg(directory.join("log")).status().expect("mkfifo").success());
    let child = spawn(in_directory(&directory).args(["--joblog", "log", "--resume", "echo", ":::", "a"]));
    let ran = ended_within(child, Duration::from_secs(60));
    assert_eq!((ran.status, ran.stdout.as_str()), (2, ""));
    let expected = "millpond: cannot resume from log: it is not a regular file; give a file to --joblog\n";
    assert_eq!(ran.stderr, expected);
}

#[test]
#[cfg(target_os = "linux")]
fn a_log_may_be_a_pipe_that_somebody_reads() {
    let directory = directory("run-log-pipe");
    assert!(Command::new("mkfifo").arg(directory.join("log")).status().expect("mkfifo").success());
    let child = spawn(in_directory(&directory).args(["--joblog", "log", "echo", ":::", "a"]));
    let text = fs::read_to_string(directory.join("log")).expect("it ends with the run");
    assert_eq!(ended(child).status, 0);
    assert!(text.starts_with("job\tstarted") && text.ends_with("\tok\techo a\n"), "{text}");
}
