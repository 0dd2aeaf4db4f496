//! One, two or three times Ctrl-C, and other signals.

use super::joblog::logged;
use super::*;

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
