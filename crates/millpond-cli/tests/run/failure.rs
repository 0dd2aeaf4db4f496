//! Failed jobs, timeouts, retries, `--halt`, and mistakes on the command line.

use super::*;

#[test]
fn the_status_is_the_number_of_failed_jobs_and_each_is_named_by_its_argument() {
    let ran = run(&["-j1", "exit {}"], "0\n3\n0\n7\n9\n");
    assert_eq!(ran.status, 3);
    let expected = "millpond: failed: 3 (exit 3)\nmillpond: failed: 7 (exit 7)\nmillpond: failed: 9 (exit 9)\n\
                    millpond: 3 of 5 jobs failed\n";
    assert_eq!(ran.stderr, expected);
    let expected = "millpond: failed: 'a\\t b' (signal 9)\nmillpond: 1 of 1 job failed\n";
    assert_eq!(run(&["kill -9 $$; : {}"], "a\t b\n").stderr, expected);
    let many: String = (0..130).map(|n| format!("{n}\n")).collect();
    assert_eq!(run(&["false"], &many).status, 100);
    assert_eq!(run(&["true"], "").status, 0, "nothing to do is done");
}

#[test]
fn a_command_that_is_not_there_is_tried_once() {
    let ran = run(&["-j1", "--attempts", "5", "no-such-command", "{}"], "a\nb\n");
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

/// Runs an executable script with this text, with three arguments.
fn run_script(directory: &Path, text: &str) -> Ran {
    fs::write(directory.join("script"), text).unwrap();
    fs::set_permissions(directory.join("script"), PermissionsExt::from_mode(0o755)).unwrap();
    run_in(directory, &["-j1", "--attempts", "5", "./script", "{}"], "a\nb\nc\n")
}

#[test]
fn a_script_that_the_system_cannot_run_is_tried_once_and_told_what_it_needs() {
    let directory = directory("run-no-format");
    let ran = run_script(&directory, "echo hello\n");
    assert_eq!(ran.status, 126);
    assert!(ran.stderr.starts_with("millpond: cannot run './script': "), "{}", ran.stderr);
    assert!(ran.stderr.ends_with("; a script needs a first line such as #!/bin/sh\n"), "{}", ran.stderr);
    assert_eq!(lines(&ran.stderr).len(), 1);
    let ran = run_script(&directory, "#!/no/such/shell\necho hello\n");
    let expected =
        "millpond: cannot run './script': the interpreter named in its first line (#!) was not found\n";
    assert_eq!((ran.status, ran.stderr.as_str()), (126, expected));
}

#[test]
fn a_command_that_cannot_be_found_comes_with_advice() {
    let ran = run(&["date; cat", "-j4", ":::", "a"], "");
    let expected = "millpond: no command 'date; cat' was found; options come before the command, and a shell \
                    command of several words needs --shell\n";
    assert_eq!((ran.status, ran.stderr.as_str()), (127, expected));
    let ran = run(&["/dev/null/tool", ":::", "a", "b"], "");
    let expected = "millpond: no command '/dev/null/tool' was found; is it installed?\n";
    assert_eq!((ran.status, ran.stderr.as_str()), (127, expected));
}

#[test]
fn a_command_that_is_part_of_the_argument_fails_only_its_own_job() {
    let ran = run(&["-k", "-j1", "{}", "x"], "echo\nno-such-command\necho\n");
    assert_eq!((ran.status, ran.stdout.as_str()), (1, "x\nx\n"));
    let told = lines(&ran.stderr);
    assert!(
        told[0].starts_with("millpond: job 2 cannot be started: 'no-such-command': No such file"),
        "{told:?}"
    );
    assert_eq!(
        told[1..],
        ["millpond: failed: no-such-command (not started)", "millpond: 1 of 3 jobs failed"]
    );
    let ran = run(&["{}"], "echo a\n");
    assert!(ran.stderr.contains("'echo a': No such file"), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("to run a whole line as a command, write `millpond run sh -c`"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_job_that_takes_too_long_is_terminated_and_keeps_its_output() {
    let begin = Instant::now();
    // Long enough for a shell to start on a busy machine.
    let ran = run(&["--timeout", "2s", "echo begun; sleep 1000; echo {}"], "a\n");
    assert!(begin.elapsed() >= Duration::from_secs(2));
    assert_eq!((ran.status, ran.stdout.as_str()), (1, "begun\n"));
    assert_eq!(ran.stderr, "millpond: failed: a (timeout)\nmillpond: 1 of 1 job failed\n");
}

#[test]
fn a_job_that_does_not_terminate_is_killed_after_the_grace() {
    let begin = Instant::now();
    let stubborn = "trap 'echo no' TERM; while :; do sleep 0.05; done; : {}";
    // Long enough for a shell to set its trap, and to run it, on a busy machine.
    let ran = run(&["--timeout", "2s", "--grace", "2s", stubborn], "a\n");
    assert!(begin.elapsed() >= Duration::from_secs(4));
    assert_eq!((ran.status, ran.stdout.as_str()), (1, "no\n"));
}

/// The shell waits for its child, which would outlive the shell.
#[test]
fn the_children_of_a_job_end_with_it() {
    let directory = directory("run-family");
    let ran = run_in(&directory, &["--timeout", "1s", "sleep 1000 & echo $! > pid; wait; : {}"], "a\n");
    assert_eq!(ran.status, 1);
    let pid = fs::read_to_string(directory.join("pid")).unwrap().trim().parse().unwrap();
    eventually("the grandchild is gone", || is_gone(Pid::from_raw(pid).unwrap()));
}

/// The shell exits on SIGTERM, but its child does not.
#[test]
fn the_stubborn_children_of_a_job_are_killed_after_the_grace() {
    let directory = directory("run-stubborn-family");
    let stubborn = "(trap '' TERM; exec sleep 1000) & echo $! > pid; wait; : {}";
    let begin = Instant::now();
    let ran = run_in(&directory, &["--timeout", "2s", "--grace", "300ms", stubborn], "a\n");
    let took = begin.elapsed();
    let pid = fs::read_to_string(directory.join("pid")).unwrap().trim().parse().unwrap();
    let pid = Pid::from_raw(pid).unwrap();
    let begin = Instant::now();
    while !is_gone(pid) && begin.elapsed() < Duration::from_secs(10) {
        thread::sleep(Duration::from_millis(5));
    }
    // Clean up even if the assertion fails.
    let left = !is_gone(pid) && kill_process(pid, Signal::KILL).is_ok();
    assert!(!left, "the grandchild still runs");
    assert!(took >= Duration::from_millis(2300), "it had its grace: {took:?}");
    assert_eq!(
        (ran.status, ran.stderr.as_str()),
        (1, "millpond: failed: a (timeout)\nmillpond: 1 of 1 job failed\n")
    );
}

/// The grace period is a limit, not a wait.
#[test]
fn children_that_terminate_end_the_wait() {
    let directory = directory("run-obedient-family");
    let begin = Instant::now();
    let obedient = "sleep 1000 | cat & wait; : {}";
    let ran = run_in(&directory, &["--timeout", "100ms", "--grace", "100s", obedient], "a\n");
    assert_eq!(ran.status, 1);
    assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", begin.elapsed());
}

/// Whether the process is gone, or a zombie that its new parent has not reaped.
fn is_gone(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    test_kill_process(pid).is_err() || stat.contains(") Z ")
}

#[test]
fn a_failed_job_is_run_again_as_often_as_asked_and_only_the_last_output_is_printed() {
    let directory = directory("run-retries");
    let third_time = "echo x >> tries; n=$(wc -l < tries); echo try $n; [ $n -ge {} ]";
    let log = ["--joblog", "log"];
    let ran = run_in(&directory, &[&log[..], &["--attempts", "6", third_time, ":::", "3"]].concat(), "");
    assert_eq!((ran.status, ran.stdout.trim()), (0, "try 3"), "{}", ran.stderr);
    let line = fs::read_to_string(directory.join("log")).unwrap().lines().nth(1).unwrap().to_owned();
    let fields: Vec<&str> = line.split('\t').collect();
    assert_eq!((fields[0], fields[3], fields[4]), ("1", "3", "ok"));

    fs::remove_file(directory.join("tries")).unwrap();
    let ran = run_in(&directory, &["--attempts", "3", third_time, ":::", "9"], "");
    assert_eq!((ran.status, ran.stdout.trim()), (1, "try 3"));
}

#[test]
fn an_attempt_that_takes_too_long_is_tried_again() {
    let directory = directory("run-slow-once");
    let slow_once = "[ -e {} ] || { touch {}; sleep 1000; }; echo fine";
    let ran = run_in(&directory, &["--timeout", "1s", "--attempts", "2", slow_once, ":::", "file"], "");
    assert_eq!((ran.status, ran.stdout.as_str()), (0, "fine\n"));
}

#[test]
fn halt_soon_starts_no_job_after_so_many_failures() {
    let ran = run(&["-j1", "--halt", "soon,2", "echo {}; exit 1"], "1\n2\n3\n4\n");
    assert_eq!((ran.status, ran.stdout.as_str()), (101, "1\n2\n"));
    assert!(ran.stderr.contains("millpond: ended by --halt: 2 jobs finished, "), "{}", ran.stderr);
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
    assert!(ran.stderr.contains("1 job finished, "), "{}", ran.stderr);
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
        (&["--halt", "later", "echo"][..], "'later' is not a rule such as never, soon,3, now,1 or soon,20%"),
        (&["--timeout", "5", "echo"], "'5' has no unit"),
        (&["--timeout", "0", "echo"], "the timeout must be above zero"),
        (&["--core", "4", "--max", "2", "echo"], "--core 4 is more than --max 2"),
        (&["-j0", "echo"], "no job can run with 0 at a time"),
        (&["-j2", "--max", "3", "echo"], "cannot be used with"),
        (&["-k", "-u", "echo"], "cannot be used with"),
        (&["--resume", "echo"], "--joblog <FILE>"),
        (&["--tiemout", "5s", "echo"], "a similar one is --timeout"),
        (&["-0", "echo", ":::", "a"], "leave out --arg-file, -0 and -d"),
        (&["-0", "-d,", "echo"], "cannot be used with"),
        (&["-u", "--tag", "echo"], "cannot be used with"),
        (&["echo '{}"], "single quote that is not closed"),
    ] {
        let ran = run(arguments, "a\n");
        assert_eq!((ran.status, ran.stdout.as_str()), (2, ""), "{arguments:?}");
        assert!(ran.stderr.starts_with("millpond: ") && ran.stderr.contains(complaint), "{}", ran.stderr);
        assert_eq!(lines(&ran.stderr).len(), 1, "{}", ran.stderr);
    }
}

#[test]
fn bad_input_ends_the_run_after_the_good_part() {
    let ran = run(&["echo"], "a\nb\0c\n");
    assert_eq!((ran.status, ran.stdout.as_str()), (102, "a\n"));
    assert_eq!(
        ran.stderr,
        "millpond: argument 2 of stdin contains a NUL byte; if NULs separate the arguments, add -0\n"
    );
}

#[test]
fn outputs_that_cannot_be_kept_end_the_run_with_advice() {
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
