//! Real processes through `millpond run`: what they print, in which order, how the run ends.
//!
//! Jobs wait for each other by files that they make, never by time. Where a job would wait for ever if we were wrong, the test has
//! a limit, so that it fails instead.
//!
//! Elsewhere than on Unix the command says that it cannot run, and there is nothing to test.

#![cfg(unix)]

mod support;

use std::fs::{self, File};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
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
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs")
}

/// `millpond run` in `directory`, where jobs leave their files.
fn in_directory(directory: &Path) -> Command {
    let mut command = command();
    command.arg("run").current_dir(directory);
    command
}

fn run_in(directory: &Path, arguments: &[&str], input: &str) -> Ran {
    ran(run_raw(in_directory(directory).args(arguments), input))
}

/// A shell's way to wait for a file.
fn until(file: &str) -> String {
    format!("until [ -e {file} ]; do sleep 0.02; done")
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < Duration::from_secs(120), "waited in vain until {what}");
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

// Arguments and commands

#[test]
fn every_placeholder_stands_for_its_part() {
    let words = ["-k", "--", "printf", "%s|%s|%s|%s|%s|%s\\n", "{}", "{.}", "{/}", "{//}", "{/.}", "{#}"];
    let ran = run(&words, "in/a b.tar.gz\nplain\n");
    assert_eq!(ran.stdout, "in/a b.tar.gz|in/a b.tar|a b.tar.gz|in|a b.tar|1\nplain|plain|plain|.|plain|2\n");
    assert_eq!((ran.status, ran.stderr.as_str()), (0, ""));
}

#[test]
fn without_a_placeholder_the_argument_is_the_last_word() {
    assert_eq!(run(&["-k", "printf", "<%s>"], "a b\nc\n").stdout, "<a b><c>");
    assert_eq!(run(&["-k", "printf '<%s>' x"], "a b\nc\n").stdout, "<x><a b><x><c>");
}

#[test]
fn arguments_may_come_after_the_command() {
    let ran = run(&["-k", "echo", "{}", "-n", ":::", "a", "-b", "--", "c d"], "not read\n");
    assert_eq!(ran.stdout, "a -n\n-b -n\n-- -n\nc d -n\n");
}

#[test]
fn nul_separated_arguments_may_contain_anything_else() {
    let ran = run(&["-0", "-k", "printf", "<%s>"], "a\nb\0 c \0\0d");
    assert_eq!(ran.stdout, "<a\nb>< c ><><d>");
}

#[test]
fn arguments_need_not_be_text() {
    let output = run_raw(command().args(["run", "printf", "%s"]), b"\xff\xfe\n");
    assert_eq!(output.stdout, b"\xff\xfe");
    let argument = std::ffi::OsStr::from_bytes(b"\xff");
    let output = run_raw(command().args(["run", "printf '%s' {}", ":::"]).arg(argument), "");
    assert_eq!(output.stdout, b"\xff");
}

#[test]
fn arguments_may_come_from_a_file() {
    let directory = directory("run-arg-file");
    fs::write(directory.join("list"), "a\nb\n").unwrap();
    assert_eq!(run_in(&directory, &["-k", "-a", "list", "echo"], "not read").stdout, "a\nb\n");
    let missing = run_in(&directory, &["-a", "nowhere", "echo"], "");
    assert_eq!(missing.status, 2);
    assert!(missing.stderr.starts_with("millpond: cannot read nowhere: "), "{}", missing.stderr);
}

/// A word with a space is for the shell, several words are not.
#[test]
fn a_shell_sees_the_command_only_if_it_is_one_word_with_spaces_or_if_asked() {
    assert_eq!(run(&["echo {} | tr a-z A-Z"], "a\n").stdout, "A\n");
    assert_eq!(run(&["echo", "{}", "|", "cat"], "a\n").stdout, "a | cat\n");
    assert_eq!(run(&["--shell", "echo", "{}", "|", "tr", "a-z", "A-Z"], "a\n").stdout, "A\n");
}

#[test]
fn no_argument_becomes_shell_code() {
    let directory = directory("run-evil");
    let evil = "'; touch evil; echo '$(touch evil)`touch evil`\"; touch evil; \"&& touch evil #";
    for command in ["echo {}", "echo \"{}\"", "echo '{}'", "echo \"$(echo {})\"", "echo"] {
        let ran = run_in(&directory, &["--shell", command], &format!("{evil}\n"));
        assert_eq!(ran.stdout, format!("{evil}\n"), "{command}");
        assert!(!directory.join("evil").exists(), "{command}");
    }
}

#[test]
fn a_dry_run_prints_what_could_be_typed() {
    let directory = directory("run-dry");
    let ran = run_in(&directory, &["--dry-run", "touch", "{}", "{#}"], "it's\nb\n");
    assert_eq!(ran.stdout, "touch 'it'\\''s' 1\ntouch b 2\n");
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
}

#[test]
fn jobs_have_no_input_of_their_own() {
    assert_eq!(run(&["-k", "cat; echo {}"], "a\nb\n").stdout, "a\nb\n");
}

#[test]
fn jobs_at_the_same_time_have_different_slots_and_slots_are_used_again() {
    let directory = directory("run-slots");
    let command = format!("echo {{%}}; touch at-{{}}; {}; {}", until("at-a"), until("at-b"));
    let ran = run_in(&directory, &["-j2", &command], "a\nb\n");
    assert_eq!(sorted(&ran.stdout), ["1", "2"]);
    assert_eq!(run(&["-j1", "echo", "{%}"], "a\nb\nc\n").stdout, "1\n1\n1\n");
}

// The pool

/// Core 1, queue 2: the second and third wait, the fourth and fifth find the queue full and get threads.
#[test]
fn more_threads_than_core_come_when_the_queue_is_full() {
    let directory = directory("run-growth");
    let all = [until("at-1"), until("at-4"), until("at-5")].join("; ");
    let command = format!("touch at-{{}}; {all}; [ {{}} != 5 ] || ls at-*");
    let options = ["--core", "1", "--max", "3", "--queue", "2", "--timeout", "100s", &command];
    let ran = run_in(&directory, &options, "1\n2\n3\n4\n5\n");
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let seen = lines(&ran.stdout);
    assert!(["at-1", "at-4", "at-5"].iter().all(|file| seen.contains(file)), "{seen:?}");
}

#[test]
fn no_more_jobs_run_at_a_time_than_allowed() {
    let directory = directory("run-at-most");
    let command = "touch now-{}; ls now-* | wc -l; rm now-{}";
    for options in [&["-j2"][..], &["-j2", "--queue", "0"], &["--core", "0", "--max", "2", "--queue", "1"]] {
        let input: String = (0..40).map(|n| format!("{n}\n")).collect();
        let ran = run_in(&directory, &[options, &[command]].concat(), &input);
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        let counts: Vec<u32> = lines(&ran.stdout).iter().map(|count| count.trim().parse().unwrap()).collect();
        assert_eq!(counts.len(), 40, "{options:?}");
        assert!(counts.iter().all(|count| (1..=2).contains(count)), "{options:?}: {counts:?}");
    }
}

#[test]
fn many_jobs_at_a_time_get_the_open_files_that_they_need() {
    let directory = directory("run-many");
    let millpond = env!("CARGO_BIN_EXE_millpond");
    let job = "touch at-{}; until [ $(ls at-* | wc -l) = 60 ]; do sleep 0.2; done; echo {}";
    let script = format!("ulimit -Sn 128 && seq 60 | {millpond} run -j60 --timeout 200s '{job}'");
    let ran = ran(Command::new("sh").args(["-c", &script]).current_dir(&directory).output().unwrap());
    assert_eq!((ran.status, lines(&ran.stdout).len()), (0, 60), "{}", ran.stderr);
    let script = format!("ulimit -n 128 && seq 60 | {millpond} run -j60 true");
    let ran = support::ran(Command::new("sh").args(["-c", &script]).output().unwrap());
    assert_eq!(ran.status, 2);
    assert!(ran.stderr.contains("the limit allows 10 jobs; raise it with `ulimit -n`"), "{}", ran.stderr);
}

// Output

/// Both jobs write their first line before either writes its second.
fn interleaved(options: &[&str], name: &str) -> Ran {
    let directory = directory(name);
    let command = format!(
        "echo {{}}1; echo {{}}1 >&2; touch at-{{}}; {}; {}; echo {{}}2",
        until("at-a"),
        until("at-b")
    );
    run_in(&directory, &[options, &["-j2", &command]].concat(), "a\nb\n")
}

#[test]
fn the_output_of_a_job_is_kept_together() {
    let ran = interleaved(&[], "run-group");
    assert!(["a1\na2\nb1\nb2\n", "b1\nb2\na1\na2\n"].contains(&ran.stdout.as_str()), "{}", ran.stdout);
    assert_eq!(sorted(&ran.stderr), ["a1", "b1"]);
}

#[test]
fn ungrouped_jobs_write_when_they_like() {
    let ran = interleaved(&["--ungroup"], "run-ungroup");
    let lines = lines(&ran.stdout);
    assert!(lines[..2].iter().all(|line| line.ends_with('1')), "{lines:?}");
    assert!(lines[2..].iter().all(|line| line.ends_with('2')), "{lines:?}");
}

#[test]
fn outputs_come_in_the_order_of_the_arguments_if_asked() {
    let directory = directory("run-order");
    let first_waits = format!("if [ {{}} = 1 ]; then {}; fi; echo {{}}; touch done-{{}}", until("done-9"));
    let input: String = (1..=9).map(|n| format!("{n}\n")).collect();
    assert_eq!(run_in(&directory, &["-j2", "--keep-order", &first_waits], &input).stdout, input);
}

/// Eighty megabytes wait for the first job, and it looks how much memory they take.
#[test]
#[cfg(target_os = "linux")]
fn outputs_that_wait_for_their_turn_take_little_memory() {
    let directory = directory("run-large");
    let first = format!("{}; grep VmHWM: /proc/$PPID/status", until("done-20"));
    let others = "head -c 4000000 /dev/zero; echo; touch done-{}";
    let command = format!("if [ {{}} = 0 ]; then {first}; else {others}; fi");
    let input: String = (0..=20).map(|n| format!("{n}\n")).collect();
    let output = run_raw(in_directory(&directory).args(["-j2", "-k", &command]), input);
    assert_eq!(output.status.code(), Some(0));
    let (first, rest) =
        output.stdout.split_at(output.stdout.iter().position(|byte| *byte == b'\n').unwrap() + 1);
    assert!(rest.len() == 20 * 4_000_001, "{} bytes", rest.len());
    assert!(
        rest.chunks(4_000_001).all(|one| one.ends_with(b"\0\n") && one[..4_000_000].iter().all(|b| *b == 0))
    );
    assert!(kilobytes(&String::from_utf8_lossy(first)) < 40_000, "{}", String::from_utf8_lossy(first));
}

/// What `VmHWM:  1234 kB` says.
fn kilobytes(line: &str) -> u64 {
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{line}"))
}

#[test]
fn a_large_output_comes_out_as_it_went_in() {
    let ran = run(&["-j2", "-k", "seq {}"], "300000\n1\n200000\n");
    let expected = |n: u32| (1..=n).map(|n| format!("{n}\n")).collect::<String>();
    assert!(ran.stdout == [expected(300_000), expected(1), expected(200_000)].concat());
}

#[test]
fn what_a_job_leaves_in_the_background_is_not_waited_for() {
    let directory = directory("run-background");
    let ran = run_in(&directory, &["sleep 1000 & echo $! > pid; echo {}", ":::", "done"], "");
    assert_eq!((ran.status, ran.stdout.as_str()), (0, "done\n"));
    let pid =
        Pid::from_raw(fs::read_to_string(directory.join("pid")).unwrap().trim().parse().unwrap()).unwrap();
    kill_process(pid, Signal::KILL).expect("it still runs");
}

#[test]
fn a_reader_that_has_seen_enough_ends_the_run() {
    let mut child = spawn(command().args(["run", "-j2", "echo"]));
    let mut stdin = child.stdin.take().expect("piped");
    let writing = thread::spawn(move || while stdin.write_all(b"y\n").is_ok() {});
    let mut reader = BufReader::new(child.stdout.take().expect("piped"));
    reader.read_line(&mut String::new()).expect("a line");
    drop(reader);
    let ran = ended(child);
    assert_eq!((ran.status, ran.stderr.as_str()), (0, ""));
    writing.join().expect("it could not write on");
}

// Back-pressure

/// Lines of a kilobyte, without end. What was read when the second job failed is what pipe, buffer and queue hold.
#[test]
fn endless_input_is_read_no_further_than_the_queue_has_room() {
    let directory = directory("run-endless");
    let command = format!("{}; exit 1", until("go"));
    let mut child = spawn(
        in_directory(&directory).args(["-j1", "--queue", "10", "--halt", "soon,1", "--shell", &command]),
    );
    let mut stdin = child.stdin.take().expect("piped");
    let line = [vec![b'y'; 1023], vec![b'\n']].concat();
    let counter = thread::spawn({
        let go = directory.join("go");
        move || {
            let count = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
            let seen = std::sync::Arc::clone(&count);
            let writing = thread::spawn(move || {
                while stdin.write_all(&line).is_ok() {
                    seen.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                }
            });
            // 64 kB fit into the pipe alone: more than that, and the command has read some.
            eventually("it reads", || count.load(std::sync::atomic::Ordering::Relaxed) > 70);
            File::create(go).unwrap();
            writing.join().expect("no panic");
            count.load(std::sync::atomic::Ordering::Relaxed)
        }
    });
    let ran = ended(child);
    assert_eq!(ran.status, 101, "{}", ran.stderr);
    let written = counter.join().expect("no panic");
    // The pipe (64), what was read ahead (64), the queue (10), the job, the one at the door; and as much again to spare.
    assert!(written < 300, "{written} kB were taken");
}

/// A hundred megabytes of arguments go through a queue of ten; each job looks how much memory its parent has needed.
#[test]
#[cfg(target_os = "linux")]
fn memory_does_not_grow_with_the_input() {
    let look = "while read key value; do case $key in VmHWM:) echo $key $value;; esac; done < /proc/$PPID/status; : {}";
    let argument = "x".repeat(100_000);
    let input = format!("{argument}\n").repeat(1000);
    for order in [&["-j2", "--queue", "10"][..], &["-j2", "--queue", "10", "-k"]] {
        let ran = run(&[order, &["--shell", look]].concat(), &input);
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        let peaks: Vec<u64> = lines(&ran.stdout).into_iter().map(kilobytes).collect();
        assert_eq!(peaks.len(), 1000);
        let peak = peaks.iter().max().unwrap();
        assert!(*peak < 40_000, "{peak} kB");
    }
}

// Failure

#[test]
fn the_status_is_the_number_of_failed_jobs_and_a_line_names_them() {
    let ran = run(&["-j1", "exit {}"], "0\n3\n0\n7\n9\n");
    assert_eq!(ran.status, 3);
    assert_eq!(ran.stderr, "millpond: 3 of 5 jobs failed: 2 (exit 3), 4 (exit 7), 5 (exit 9)\n");
    assert_eq!(run(&["kill -9 $$; : {}"], "a\n").stderr, "millpond: 1 of 1 job failed: 1 (signal 9)\n");
    let many: String = (0..130).map(|n| format!("{n}\n")).collect();
    assert_eq!(run(&["false"], &many).status, 100);
    assert_eq!(run(&["true"], "").status, 0, "nothing to do is done");
}

#[test]
fn a_command_that_is_not_there_is_tried_once() {
    let ran = run(&["-j1", "--retries", "5", "no-such-command", "{}"], "a\nb\n");
    assert_eq!(ran.status, 127);
    assert_eq!(ran.stderr, "millpond: no command 'no-such-command' was found; is it installed?\n");
    let directory = directory("run-not-executable");
    fs::write(directory.join("script"), "true\n").unwrap();
    fs::set_permissions(directory.join("script"), PermissionsExt::from_mode(0o644)).unwrap();
    let ran = run_in(&directory, &["./script", "{}"], "a\nb\n");
    assert_eq!(ran.status, 126);
    assert!(ran.stderr.starts_with("millpond: cannot run './script': Permission denied"), "{}", ran.stderr);
    assert_eq!(lines(&ran.stderr).len(), 1);
}

#[test]
fn a_command_that_is_part_of_the_argument_fails_only_its_own_job() {
    let ran = run(&["-k", "-j1", "{}", "x"], "echo\nno-such-command\necho\n");
    assert_eq!((ran.status, ran.stdout.as_str()), (1, "x\nx\n"));
    let told = lines(&ran.stderr);
    assert!(told[0].starts_with("millpond: job 2 cannot be started: No such file"), "{told:?}");
    assert_eq!(told[1], "millpond: 1 of 3 jobs failed: 2 (not started)");
}

#[test]
fn a_job_that_takes_too_long_is_terminated_and_keeps_its_output() {
    let begin = Instant::now();
    let ran = run(&["--timeout", "300ms", "echo begun; sleep 1000; echo {}"], "a\n");
    assert!(begin.elapsed() >= Duration::from_millis(300));
    assert_eq!((ran.status, ran.stdout.as_str()), (1, "begun\n"));
    assert_eq!(ran.stderr, "millpond: 1 of 1 job failed: 1 (timeout)\n");
}

#[test]
fn a_job_that_does_not_terminate_is_killed_after_the_grace() {
    let begin = Instant::now();
    let stubborn = "trap 'echo no' TERM; while :; do sleep 0.05; done; : {}";
    let ran = run(&["--timeout", "200ms", "--grace", "300ms", stubborn], "a\n");
    assert!(begin.elapsed() >= Duration::from_millis(500));
    assert_eq!((ran.status, ran.stdout.as_str()), (1, "no\n"));
}

/// The shell waits for a child of its own, which would outlive it.
#[test]
fn what_a_job_has_started_is_ended_with_it() {
    let directory = directory("run-family");
    let ran = run_in(&directory, &["--timeout", "1s", "sleep 1000 & echo $! > pid; wait; : {}"], "a\n");
    assert_eq!(ran.status, 1);
    let pid = fs::read_to_string(directory.join("pid")).unwrap().trim().parse().unwrap();
    eventually("the grandchild is gone", || is_gone(Pid::from_raw(pid).unwrap()));
}

/// Gone, or ended and only waiting to be noticed by whoever inherited it.
fn is_gone(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    test_kill_process(pid).is_err() || stat.contains(") Z ")
}

#[test]
fn a_failed_job_is_run_again_as_often_as_asked_and_only_the_last_output_is_printed() {
    let directory = directory("run-retries");
    let third_time = "echo x >> tries; n=$(wc -l < tries); echo try $n; [ $n -ge {} ]";
    let log = ["--joblog", "log"];
    let ran = run_in(&directory, &[&log[..], &["--retries", "5", third_time, ":::", "3"]].concat(), "");
    assert_eq!((ran.status, ran.stdout.trim()), (0, "try 3"), "{}", ran.stderr);
    let line = fs::read_to_string(directory.join("log")).unwrap().lines().nth(1).unwrap().to_owned();
    let fields: Vec<&str> = line.split('\t').collect();
    assert_eq!((fields[0], fields[3], fields[4]), ("1", "3", "ok"));

    fs::remove_file(directory.join("tries")).unwrap();
    let ran = run_in(&directory, &["--retries", "2", third_time, ":::", "9"], "");
    assert_eq!((ran.status, ran.stdout.trim()), (1, "try 3"));
}

#[test]
fn an_attempt_that_takes_too_long_is_tried_again() {
    let directory = directory("run-slow-once");
    let slow_once = "[ -e {} ] || { touch {}; sleep 1000; }; echo fine";
    let ran = run_in(&directory, &["--timeout", "1s", "--retries", "1", slow_once, ":::", "file"], "");
    assert_eq!((ran.status, ran.stdout.as_str()), (0, "fine\n"));
}

#[test]
fn halt_soon_starts_no_job_after_so_many_failures() {
    let ran = run(&["-j1", "--halt", "soon,2", "echo {}; exit 1"], "1\n2\n3\n4\n");
    assert_eq!((ran.status, ran.stdout.as_str()), (101, "1\n2\n"));
    assert!(ran.stderr.contains("millpond: ended by --halt: 2 finished, "), "{}", ran.stderr);
}

#[test]
fn halt_soon_lets_running_jobs_end() {
    let directory = directory("run-halt-soon");
    let command = format!(
        "if [ {{}} = 1 ]; then touch at; {}; echo ended; else {}; exit 1; fi",
        until("go"),
        until("at")
    );
    let mut child =
        spawn(in_directory(&directory).args(["-j2", "--halt", "soon,1", "--joblog", "log", &command]));
    child.stdin.take().expect("piped").write_all(b"1\n2\n3\n").unwrap();
    let failed = || fs::read_to_string(directory.join("log")).is_ok_and(|log| log.contains("exit 1"));
    eventually("the second has failed", failed);
    File::create(directory.join("go")).unwrap();
    let ran = ended(child);
    assert_eq!((ran.status, ran.stdout.as_str()), (101, "ended\n"));
}

#[test]
fn halt_now_ends_running_jobs() {
    let directory = directory("run-halt-now");
    let long = "trap 'touch told; exit 0' TERM; touch at; while :; do sleep 0.02; done";
    let command = format!("if [ {{}} = 1 ]; then {long}; else {}; exit 1; fi", until("at"));
    let ran = run_in(&directory, &["-j2", "--halt", "now,1", "--joblog", "log", &command], "1\n2\n3\n");
    assert_eq!(ran.status, 101);
    assert!(directory.join("told").exists());
    let log = fs::read_to_string(directory.join("log")).unwrap();
    assert_eq!(lines(&log).len(), 2, "a job that was ended has not finished: {log}");
    assert!(ran.stderr.contains("1 finished, "), "{}", ran.stderr);
}

#[test]
fn a_share_of_failures_is_judged_from_the_tenth_job_on() {
    let input: String = (1..=30).map(|n| format!("{n}\n")).collect();
    let ran = run(&["-j1", "--halt", "soon,50%", "echo {}; exit $(({#} % 2))"], &input);
    assert_eq!((ran.status, lines(&ran.stdout).len()), (101, 10), "{}", ran.stderr);
    let ran = run(&["-j1", "--halt", "soon,55%", "echo {}; exit $(({#} % 2))"], &input);
    assert_eq!((ran.status, lines(&ran.stdout).len()), (15, 30), "{}", ran.stderr);
}

#[test]
fn mistakes_are_told_in_one_line_and_no_job_is_run() {
    for (arguments, complaint) in [
        (&["--halt", "later", "echo"][..], "'later' is no rule such as never, soon,3, now,1 or soon,20%"),
        (&["--timeout", "5", "echo"], "'5' has no unit"),
        (&["--timeout", "0", "echo"], "a command needs more time than none"),
        (&["--core", "4", "--max", "2", "echo"], "--core 4 is more than --max 2"),
        (&["-j0", "echo"], "no job can run with 0 at a time"),
        (&["-j2", "--max", "3", "echo"], "cannot be used with"),
        (&["-k", "-u", "echo"], "cannot be used with"),
        (&["--resume", "echo"], "--joblog <FILE>"),
        (&["--tiemout", "5s", "echo"], "a similar argument exists: '--timeout'"),
        (&[":::", "a"], "no command; write it before :::"),
        (&["echo", ":::", "a", ":::", "b"], "more than one :::"),
        (&["-0", "echo", ":::", "a"], "leave out --arg-file and -0"),
        (&["echo '{}"], "single quote that is not closed"),
        (&[], "COMMAND"),
    ] {
        let ran = run(arguments, "a\n");
        assert_eq!((ran.status, ran.stdout.as_str()), (2, ""), "{arguments:?}");
        assert!(ran.stderr.starts_with("millpond: ") && ran.stderr.contains(complaint), "{}", ran.stderr);
        assert_eq!(lines(&ran.stderr).len(), 1, "{}", ran.stderr);
    }
}

#[test]
fn input_that_makes_no_sense_ends_the_run_after_what_was_sound() {
    let ran = run(&["echo"], "a\nb\0c\n");
    assert_eq!((ran.status, ran.stdout.as_str()), (102, "a\n"));
    assert_eq!(
        ran.stderr,
        "millpond: argument 2 of stdin contains a NUL byte; if NULs separate the arguments, add -0\n"
    );
}

#[test]
fn outputs_that_have_no_place_end_the_run_with_advice() {
    let output =
        run_raw(command().env("TMPDIR", "/nowhere").args(["run", "-j1", "seq 100000; : {}"]), "a\nb\n");
    let ran = ran(output);
    assert_eq!((ran.status, ran.stdout.as_str()), (102, ""));
    assert!(
        ran.stderr.contains("cannot keep the output of a job in /nowhere: No such file"),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("set TMPDIR to a place with room, or use --ungroup"), "{}", ran.stderr);
}

// The job log

/// The numbers of the jobs in a log, and their outcomes.
fn logged(path: &Path) -> Vec<(u64, String)> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n')).skip(1);
    whole
        .map(|line| {
            let fields: Vec<&str> = line.trim_end().split('\t').collect();
            (fields[0].parse().expect("a number"), fields[4].to_owned())
        })
        .collect()
}

/// Killed in the middle, a line torn, resumed: every job's output is there, and no job of the log was run again.
fn survives_a_kill(options: &[&str], name: &str) {
    let directory = directory(name);
    let log = directory.join("log");
    let input: String = (1..=40).map(|n| format!("{n}\n")).collect();
    // The tenth job stays until it is told, so that the kill finds the run in its middle.
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
fn a_run_that_was_killed_can_be_resumed_and_nothing_is_lost() {
    survives_a_kill(&[], "run-kill");
}

#[test]
fn a_run_in_order_that_was_killed_can_be_resumed_and_nothing_is_lost() {
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
fn a_job_whose_command_has_changed_is_run() {
    let directory = directory("run-changed");
    let log = ["--joblog", "log", "-k", "echo"];
    run_in(&directory, &log, "a\nb\nc\n");
    let ran = run_in(&directory, &[&["--resume"], &log[..]].concat(), "a\nX\nc\n");
    assert_eq!(ran.stdout, "X\n");
    assert_eq!(
        ran.stderr,
        "millpond: 1 job had another command in the job log, so it was run; has the input changed?\n"
    );
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

// Signals

/// Jobs that wait for `go` in the directory, as many as arguments were given, and all of those taken in.
fn waiting_jobs(
    directory: &Path,
    options: &[&str],
    command: &str,
    jobs: usize,
) -> (Child, std::process::ChildStdin) {
    let mut child = spawn(in_directory(directory).args(options).args(["--shell", command]));
    let mut stdin = child.stdin.take().expect("piped");
    let input: String = (1..=jobs).map(|n| format!("{n}\n")).collect();
    stdin.write_all(input.as_bytes()).unwrap();
    // Blank lines mean nothing. So many do not fit into the pipe and the buffer: once they are written, what came before
    // has been taken in.
    stdin.write_all(&[b'\n'; 300_000]).unwrap();
    (child, stdin)
}

fn next_line(stderr: &mut impl BufRead) -> String {
    let mut line = String::new();
    stderr.read_line(&mut line).expect("a line");
    line
}

/// Its input stays open: only the signal ends the intake.
#[test]
fn the_first_interrupt_stops_reading_and_finishes_what_was_read() {
    let directory = directory("run-first");
    let command = format!("touch at-{{}}; {}; echo {{}}", until("go"));
    let (mut child, stdin) = waiting_jobs(&directory, &["-j2", "-k"], &command, 5);
    wait_for_file(&directory.join("at-1"));
    wait_for_file(&directory.join("at-2"));
    signal(&child, Signal::INT);
    let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
    assert_eq!(
        next_line(&mut stderr),
        "millpond: reading no more; 2 running and 3 waiting jobs are finished first; Ctrl-C again ends them\n"
    );
    File::create(directory.join("go")).unwrap();
    let ran = ended(child);
    assert_eq!((ran.status, ran.stdout.as_str()), (130, "1\n2\n3\n4\n5\n"));
    assert_eq!(next_line(&mut stderr), "millpond: ended by a signal: 5 finished, 0 not\n");
    drop(stdin);
}

#[test]
fn an_interrupt_after_all_was_read_and_done_changes_nothing_in_the_status() {
    let directory = directory("run-late");
    let command = format!("touch at-{{}}; {}; exit {{}}", until("go"));
    let mut child = spawn(in_directory(&directory).args(["-j2", &command, ":::", "0", "1"]));
    wait_for_file(&directory.join("at-0"));
    wait_for_file(&directory.join("at-1"));
    signal(&child, Signal::INT);
    next_line(&mut BufReader::new(child.stderr.take().expect("piped")));
    File::create(directory.join("go")).unwrap();
    assert_eq!(ended(child).status, 1);
}

#[test]
fn the_intake_is_stopped_while_it_waits_for_room() {
    let directory = directory("run-door");
    let command = format!("touch at-{{}}; {}; echo {{}}", until("go"));
    let mut child = spawn(in_directory(&directory).args(["-j1", "--queue", "1", &command]));
    let mut stdin = child.stdin.take().expect("piped");
    stdin.write_all(b"1\n2\n3\n4\n5\n6\n").unwrap();
    wait_for_file(&directory.join("at-1"));
    signal(&child, Signal::INT);
    next_line(&mut BufReader::new(child.stderr.take().expect("piped")));
    File::create(directory.join("go")).unwrap();
    let ran = ended(child);
    assert_eq!(ran.status, 130);
    assert!(
        lines(&ran.stdout).len() <= 3,
        "one ran, one waited, one was at the door at most: {}",
        ran.stdout
    );
    assert!(ran.stdout.starts_with("1\n"));
}

#[test]
fn the_second_interrupt_terminates_jobs_and_they_do_not_count_as_done() {
    let directory = directory("run-second");
    let command = "trap 'touch told-{}; exit 0' TERM; touch at-{}; while :; do sleep 0.02; done";
    let (mut child, stdin) = waiting_jobs(&directory, &["-j2", "--joblog", "log"], command, 5);
    wait_for_file(&directory.join("at-1"));
    wait_for_file(&directory.join("at-2"));
    let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
    signal(&child, Signal::INT);
    next_line(&mut stderr);
    signal(&child, Signal::INT);
    assert_eq!(next_line(&mut stderr), "millpond: ending the jobs; Ctrl-C again kills them\n");
    assert_eq!(ended(child).status, 130);
    assert!(directory.join("told-1").exists() && directory.join("told-2").exists());
    assert!(!directory.join("at-3").exists(), "no job is begun any more");
    assert_eq!(logged(&directory.join("log")), []);
    assert_eq!(
        next_line(&mut stderr),
        "millpond: ended by a signal: 0 finished, 5 not; --resume runs the rest\n"
    );
    drop(stdin);
}

#[test]
fn the_third_interrupt_kills_without_waiting_for_the_grace() {
    let directory = directory("run-third");
    let command = "trap '' TERM; touch at-{}; while :; do sleep 0.02; done";
    let (mut child, stdin) = waiting_jobs(&directory, &["-j1", "--grace", "1h"], command, 1);
    wait_for_file(&directory.join("at-1"));
    let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
    for _ in 0..3 {
        signal(&child, Signal::INT);
        next_line(&mut stderr);
    }
    assert_eq!(ended(child).status, 130);
    drop(stdin);
}

#[test]
fn a_job_that_ignores_the_end_is_killed_after_the_grace() {
    let directory = directory("run-grace");
    let command = "trap '' TERM; touch at-{}; while :; do sleep 0.02; done";
    let (child, stdin) = waiting_jobs(&directory, &["-j1", "--grace", "300ms"], command, 1);
    wait_for_file(&directory.join("at-1"));
    let begin = Instant::now();
    signal(&child, Signal::TERM);
    assert_eq!(ended(child).status, 143);
    assert!(begin.elapsed() >= Duration::from_millis(300));
    drop(stdin);
}

#[test]
#[cfg(target_os = "linux")]
fn a_signal_that_was_ignored_at_the_start_stays_ignored() {
    let directory = directory("run-nohup");
    let job = format!("touch at; {}; echo {{}}", until("go"));
    let script = format!("trap '' HUP; exec {} run \"$1\" ::: a", env!("CARGO_BIN_EXE_millpond"));
    let child = spawn(Command::new("sh").args(["-c", &script, "sh", &job]).current_dir(&directory));
    wait_for_file(&directory.join("at"));
    signal(&child, Signal::HUP);
    File::create(directory.join("go")).unwrap();
    let ran = ended(child);
    assert_eq!((ran.status, ran.stdout.as_str(), ran.stderr.as_str()), (0, "a\n", ""));
}

// Terminals

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
