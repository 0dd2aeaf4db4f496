//! Ctrl-C once, twice and three times, and other signals.

use super::joblog::logged;
use super::*;

/// Starts a run whose input remains open. Returns when all arguments have been read.
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
    // Blank lines are skipped. These exceed pipe and buffer: once they are written, all lines
    // before them have been read.
    stdin.write_all(&[b'\n'; 300_000]).unwrap();
    (child, stdin)
}

fn next_line(stderr: &mut impl BufRead) -> String {
    let mut line = String::new();
    stderr.read_line(&mut line).expect("a line");
    line
}

#[test]
fn the_first_interrupt_starts_nothing_new_and_finishes_running_jobs() {
    let directory = directory("run-first");
    let command = format!("touch at-{{}}; {}; echo {{}}", until("go"));
    let (mut child, stdin) = waiting_jobs(&directory, &["-j2", "-k"], &command, 5);
    wait_for_file(&directory.join("at-1"));
    wait_for_file(&directory.join("at-2"));
    signal(&child, Signal::INT);
    let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
    assert_eq!(
        next_line(&mut stderr),
        "millpond: starting no more jobs; waiting for 2 running; Ctrl-C again ends them\n"
    );
    File::create(directory.join("go")).unwrap();
    let ran = ended(child);
    assert_eq!((ran.status, ran.stdout.as_str()), (130, "1\n2\n"));
    let rest = "and the rest of the input was not read";
    assert_eq!(
        next_line(&mut stderr),
        format!("millpond: ended by SIGINT: 2 jobs finished, 3 did not, {rest}\n")
    );
    assert!(!directory.join("at-3").exists());
    drop(stdin);
}

#[test]
fn an_interrupt_decides_the_status_even_if_all_jobs_finish() {
    let directory = directory("run-late");
    let command = format!("touch at-{{}}; {}; exit {{}}", until("go"));
    let mut child = spawn(in_directory(&directory).args(["-j2", &command, ":::", "0", "1"]));
    wait_for_file(&directory.join("at-0"));
    wait_for_file(&directory.join("at-1"));
    signal(&child, Signal::INT);
    next_line(&mut BufReader::new(child.stderr.take().expect("piped")));
    File::create(directory.join("go")).unwrap();
    assert_eq!(ended(child).status, 130);
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
    assert_eq!(ran.stdout, "1\n", "only the running job finishes");
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
    assert!(!directory.join("at-3").exists(), "no more jobs start");
    assert_eq!(logged(&directory.join("log")), []);
    assert_eq!(
        next_line(&mut stderr),
        "millpond: ended by SIGINT: 0 jobs finished, 5 did not, and the rest of the input was not read; \
         --resume runs the rest\n"
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

/// A run with one endless job, which prints its process id.
fn one_endless_job(directory: &Path, options: &[&str]) -> (Child, Pid) {
    let command = "trap '' TERM; echo $$ > new; mv new pid; while :; do sleep 0.02; done; : {}";
    let child = spawn(in_directory(directory).args(options).args([command, ":::", "a"]));
    wait_for_file(&directory.join("pid"));
    let pid = fs::read_to_string(directory.join("pid")).unwrap().trim().parse().unwrap();
    (child, Pid::from_raw(pid).unwrap())
}

/// Jobs have their own process groups, so the terminal does not end them.
#[test]
fn a_quit_signal_leaves_no_job_behind() {
    let directory = directory("run-quit");
    let (child, job) = one_endless_job(&directory, &["--grace", "1h"]);
    signal(&child, Signal::QUIT);
    let ran = ended_within(child, Duration::from_secs(60));
    let is_left = test_kill_process(job).is_ok() && kill_process(job, Signal::KILL).is_ok();
    assert!(!is_left, "the job still runs");
    assert_eq!(ran.status, 131);
    let expected = "millpond: killing the jobs\nmillpond: ended by SIGQUIT: 0 jobs finished, 1 did not\n";
    assert_eq!(ran.stderr, expected);
}

#[test]
fn a_user_signal_prints_progress_and_changes_nothing() {
    let directory = directory("run-usr1");
    let command = format!("touch at-{{}}; {}; echo {{}}", until("go"));
    let (mut child, stdin) = waiting_jobs(&directory, &["-j2", "-k"], &command, 5);
    wait_for_file(&directory.join("at-1"));
    wait_for_file(&directory.join("at-2"));
    let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
    signal(&child, Signal::USR1);
    let line = next_line(&mut stderr);
    assert!(line.starts_with("millpond: 0 finished, 0 failed, 2 running, 3 waiting, after "), "{line}");
    File::create(directory.join("go")).unwrap();
    drop(stdin);
    let ran = ended(child);
    assert_eq!((ran.status, ran.stdout.as_str()), (0, "1\n2\n3\n4\n5\n"));
}

/// A stopped process acts on `SIGTERM` only when it continues.
#[test]
#[cfg(target_os = "linux")]
fn a_stopped_job_ends_without_waiting_for_the_grace() {
    let directory = directory("run-stopped");
    let command = "trap 'touch told; exit 0' TERM; echo $$ > new; mv new pid; kill -STOP $$; : {}";
    let child = spawn(in_directory(&directory).args(["--grace", "1h", command, ":::", "a"]));
    wait_for_file(&directory.join("pid"));
    let pid = fs::read_to_string(directory.join("pid")).unwrap();
    eventually("the job is stopped", || {
        fs::read_to_string(format!("/proc/{}/stat", pid.trim())).is_ok_and(|stat| stat.contains(") T "))
    });
    signal(&child, Signal::TERM);
    assert_eq!(ended_within(child, Duration::from_secs(60)).status, 143);
    assert!(directory.join("told").exists());
}

#[test]
fn an_interrupt_ends_the_wait_for_the_next_start() {
    let directory = directory("run-delay");
    let (mut child, stdin) = waiting_jobs(&directory, &["-j2", "--delay", "1h"], "touch at-{}", 3);
    wait_for_file(&directory.join("at-1"));
    signal(&child, Signal::INT);
    next_line(&mut BufReader::new(child.stderr.take().expect("piped")));
    assert_eq!(ended_within(child, Duration::from_secs(60)).status, 130);
    assert!(!directory.join("at-2").exists() && !directory.join("at-3").exists());
    drop(stdin);
}
