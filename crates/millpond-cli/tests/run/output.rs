//! The output of jobs and its order.

use super::*;

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

/// Eighty megabytes wait for the first job, which reads the memory usage.
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

#[test]
fn a_large_output_comes_out_as_it_went_in() {
    let ran = run(&["-j2", "-k", "seq {}"], "300000\n1\n200000\n");
    let expected = |n: u32| (1..=n).map(|n| format!("{n}\n")).collect::<String>();
    assert!(ran.stdout == [expected(300_000), expected(1), expected(200_000)].concat());
}

#[test]
fn background_processes_of_a_job_are_not_waited_for() {
    let directory = directory("run-background");
    let ran = run_in(&directory, &["sleep 1000 & echo $! > pid; echo {}", ":::", "done"], "");
    assert_eq!((ran.status, ran.stdout.as_str()), (0, "done\n"));
    let pid =
        Pid::from_raw(fs::read_to_string(directory.join("pid")).unwrap().trim().parse().unwrap()).unwrap();
    kill_process(pid, Signal::KILL).expect("it still runs");
}

/// Reads one line of the output, then closes the pipe.
fn read_one_line(options: &[&str]) -> Ran {
    let mut child = spawn(command().arg("run").args(options));
    let mut stdin = child.stdin.take().expect("piped");
    let writing = thread::spawn(move || (0..50_000).all(|_| stdin.write_all(b"y\n").is_ok()));
    let mut reader = BufReader::new(child.stdout.take().expect("piped"));
    reader.read_line(&mut String::new()).expect("a line");
    drop(reader);
    let ran = ended(child);
    writing.join().expect("no panic");
    ran
}

#[test]
fn a_reader_that_has_seen_enough_ends_the_run() {
    let ran = read_one_line(&["-j2", "echo"]);
    assert_eq!((ran.status, ran.stderr.as_str()), (0, ""));
}

/// Each job gets `SIGPIPE`, and so would the next one.
#[test]
fn a_reader_that_has_seen_enough_of_ungrouped_jobs_ends_the_run_too() {
    let ran = read_one_line(&["-j2", "--ungroup", "--attempts", "3", "echo"]);
    assert_eq!((ran.status, ran.stderr.as_str()), (0, ""));
}

#[test]
fn a_reader_that_has_seen_enough_of_line_buffered_jobs_ends_the_run() {
    let ran = read_one_line(&["-j2", "--line-buffer", "echo"]);
    assert_eq!((ran.status, ran.stderr.as_str()), (0, ""));
}

/// A job with endless output must end when stdout is closed.
#[test]
fn a_line_buffered_job_ends_with_its_reader() {
    let mut child = spawn(command().args(["run", "--line-buffer", "yes", ":::", "a"]));
    let mut reader = BufReader::new(child.stdout.take().expect("piped"));
    reader.read_line(&mut String::new()).expect("a line");
    drop(reader);
    assert_eq!(ended_within(child, Duration::from_secs(60)).status, 0);
}

/// The first lines of both jobs arrive while the jobs are still running.
#[test]
fn line_buffered_jobs_print_whole_lines_at_once() {
    let directory = directory("run-lines");
    let job = format!("echo {{}}1; {}; echo {{}}2", until("go"));
    let mut child = spawn(in_directory(&directory).args(["--lb", "-j2", &job, ":::", "a", "b"]));
    let mut reader = BufReader::new(child.stdout.take().expect("piped"));
    let mut next_two = || {
        let mut lines = [String::new(), String::new()];
        lines.iter_mut().for_each(|line| assert!(reader.read_line(line).expect("readable") > 0));
        lines.sort();
        lines
    };
    assert_eq!(next_two(), ["a1\n", "b1\n"]);
    File::create(directory.join("go")).expect("created");
    assert_eq!(next_two(), ["a2\n", "b2\n"]);
    assert_eq!(ended_within(child, Duration::from_secs(60)).status, 0);
}

#[test]
fn line_buffered_lines_stay_whole() {
    let ran = run(&["-j2", "--line-buffer", "printf {}; sleep 0.1; echo {}; printf end"], "a\nb\n");
    for line in ["aa", "bb"] {
        assert!(ran.stdout.contains(&format!("{line}\n")), "a line stays whole: {:?}", ran.stdout);
    }
    let long = run(&["--line-buffer", "head -c 300000 /dev/zero | tr '\\0' x; : {}"], "a\n");
    assert_eq!(long.stdout.len(), 300_000);
}

#[test]
fn tags_name_the_job_of_each_line() {
    let command = "printf '1\\n2\\n'; echo {} >&2";
    for mode in [&["-k"][..], &["--line-buffer", "-j1"]] {
        let ran = run(&[mode, &["--tag", command]].concat(), "a b\nc\n");
        assert_eq!(ran.stdout, "a b\t1\na b\t2\nc\t1\nc\t2\n", "{mode:?}");
        assert_eq!(ran.stderr, "a b\ta b\nc\tc\n", "{mode:?}");
    }
}
