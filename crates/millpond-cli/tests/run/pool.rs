//! The number of concurrent jobs.

use super::*;

/// Core 1, queue 2: jobs 2 and 3 wait, jobs 4 and 5 find the queue full and get extra threads.
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

/// Six files per job: the product must not overflow to a small number.
#[test]
fn a_number_of_jobs_that_no_system_has_files_for_is_refused() {
    for jobs in ["18446744073709551615", "3074457345618258603"] {
        let ran = run(&["-j", jobs, "true"], "a\n");
        assert_eq!(ran.status, 2, "{}", ran.stderr);
        let expected = format!("millpond: {jobs} jobs at a time need 18446744073709551615 open files, ");
        assert!(ran.stderr.starts_with(&expected), "{}", ran.stderr);
    }
}

#[test]
fn a_limit_that_allows_no_job_at_all_is_told_as_such() {
    let script = format!("ulimit -n 64 && {} run -j1 true ::: a", env!("CARGO_BIN_EXE_millpond"));
    let ran = ran(Command::new("sh").args(["-c", &script]).output().unwrap());
    let expected =
        "millpond: even one job needs 70 open files, and the limit is 64; raise it with `ulimit -n`\n";
    assert_eq!((ran.status, ran.stderr.as_str()), (2, expected));
}

/// Between the starts of four jobs there are three delays.
#[test]
fn starts_keep_the_delay_between_them() {
    let begin = Instant::now();
    let ran = run(&["-j4", "--delay", "200ms", "true"], "1\n2\n3\n4\n");
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(begin.elapsed() >= Duration::from_millis(600), "{:?}", begin.elapsed());
}

/// Eight workers race to start their jobs. `--verbose` shows the order.
#[test]
fn with_a_delay_jobs_of_a_fixed_pool_start_in_order() {
    let numbers: String = (1..=60).map(|n| format!("{n}\n")).collect();
    let ran = run(&["-j8", "--delay", "1ms", "--verbose", "true"], &numbers);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let started: Vec<String> = ran.stderr.lines().map(|line| line.replace("true ", "")).collect();
    let expected: Vec<String> = (1..=60).map(|n| n.to_string()).collect();
    assert_eq!(started, expected);
}

/// An extra thread runs the newest job, and must not wait for older jobs in the queue.
#[test]
fn a_delay_does_not_hold_back_a_pool_that_grows() {
    let directory = directory("run-delay-grow");
    let job = format!("touch at-{{}}; test {{}} != 1 || {}", until("at-3"));
    let arguments =
        ["--core", "1", "--max", "2", "--queue", "1", "--delay", "1ms", &job, ":::", "1", "2", "3"];
    let ran = ran(in_directory(&directory).args(arguments).output().unwrap());
    assert_eq!((ran.status, ran.stderr.as_str()), (0, ""));
}
