//! Plans with a target: the answer, its confidence, and refused command lines.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::{self, assert_fits_80_columns, directory, millpond};
use crate::{SEARCH, figures, number, plan, row};

#[test]
fn first_line_is_the_answer_with_the_line_to_paste() {
    let text = plan(&[&SEARCH[..], &["--max-rejects", "0.1%"]].concat());
    let first = text.lines().next().expect("a line");
    let (threads, rest) = first
        .strip_prefix("At today's load: ")
        .and_then(|rest| rest.split_once(" threads, queue "))
        .unwrap_or_else(|| panic!("{text}"));
    let (queue, paste) = rest.split_once(": ").expect("a line to paste");
    assert_eq!(paste, format!("executors::bounded({threads}, {threads}, {queue})?"));
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("Holds in 20 of 20 runs; p99 of the total time"), "{text}");
    assert!(words.contains("% more load. With"), "{text}");
    assert!(words.contains("At 10 times the load: "), "{text}");

    // The pool holds with fresh seeds. With one thread fewer, no queue suffices.
    let threads: usize = threads.parse().expect("a number");
    let queue: usize = queue.parse().expect("a number");
    let held = |threads: usize, queue: usize| {
        let pool = format!("core={threads},queue={queue}");
        let plan = figures(&[&SEARCH[..], &["--load", "1.05", "--seed", "5000", "--pool", &pool]].concat());
        plan["pools"][0]["held"].as_u64().expect("a count")
    };
    assert!(held(threads, queue) >= 16, "at the load with headroom most runs still hold");
    assert!(held(threads - 1, queue) < 16 && held(threads - 1, 10 * queue) < 16);
}

/// A regression test: 398 and 3825 threads were recommended where 400 and 4000 are busy.
#[test]
fn large_loads_get_more_threads_than_are_busy() {
    let arguments = ["--arrivals", "poisson 200/s", "--takes", "exponential 20ms", "--target-p99", "100ms"];
    let plan = figures(&[&arguments[..], &["--load", "100", "--runs", "3"]].concat());
    assert!(number(&plan["search"]["found"]["threads"]) > 400.0, "{}", plan["search"]["found"]);
    assert_eq!(plan["least_threads"], 401);
    // The run is long enough for 300 mean durations.
    let arrived = number(&plan["pools"][0]["figures"]["arrived"]);
    assert!(arrived > 3.0 * 118_000.0, "{arrived}");
}

/// A regression test: one seed recommended 41 threads and a queue of 118. Only 12 of 20 runs hold,
/// and the formula says no.
#[test]
fn a_pool_at_the_limit_is_not_called_good() {
    let arguments = ["plan", "--arrivals", "poisson 2000/s", "--takes", "exponential 20ms", "--load", "1"];
    let pool = ["--target-p99", "120ms", "--pool", "old: core=41,queue=118", "--json"];
    let ran = millpond(&[&arguments[..], &pool].concat());
    assert_eq!(ran.status, 1);
    let json: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    let [old, found] = [0, 1].map(|at| json["loads"][0]["pools"][at].clone());
    assert!(number(&old["held"]) < 20.0, "{}", old["held"]);
    assert!((number(&old["formula"]["rejected"]) - 0.001_139).abs() < 1e-6);
    assert!((number(&old["formula"]["total_p50_p90_p99_p999"][2]) - 0.1122).abs() < 1e-4);
    assert_eq!((&found["held"], &found["meets"]), (&20.into(), &true.into()));
    assert!(number(&found["formula"]["rejected"]) < 0.001);
    assert!(number(&found["breaks_at"]) > 1.05);
}

#[test]
fn a_target_of_no_refusals_says_what_is_known() {
    let arguments = ["--arrivals", "poisson 200/s", "--takes", "20ms", "--count", "5k", "--load", "1"];
    let text = plan(&[&arguments[..], &["--target-p99", "50ms", "--max-rejects", "0%"]].concat());
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains("None of 100 000 tasks was refused: the share is below 0.003% with 95% confidence"),
        "{text}"
    );
}

#[test]
fn several_time_limits_all_hold() {
    let limits =
        ["--target-p95", "60ms", "--target-p99.9", "150ms", "--target-wait-p99", "20ms", "--load", "1"];
    let plan = figures(
        &[&["--arrivals", "poisson 200/s", "--takes", "exponential 18ms", "--count", "20k"], &limits[..]]
            .concat(),
    );
    let figures = &plan["pools"][0]["figures"];
    assert!(
        number(&figures["total"]["p999"]) <= 0.150 && number(&figures["wait"]["p99"]) <= 0.020,
        "{figures}"
    );
    assert_eq!(plan["pools"][0]["runs"][0]["late"].as_array().map(Vec::len), Some(3));
}

#[test]
fn recorded_durations_are_paired_with_their_arrivals() {
    let csv = directory("plan-pairs").join("requests.csv");
    fs::write(&csv, "start,ms\n0,1000\n2,10\n1,10\n").expect("writable");
    let (start, ms) =
        (format!("{} column start", csv.display()), format!("{} column ms in ms", csv.display()));
    let plan = figures(&["--arrivals", &start, "--takes", &ms, "--pool", "fixed 1"]);
    let figures = &plan["pools"][0]["figures"];
    // The task at 1 s starts when the first one ends, at 1 s.
    assert_eq!(
        (&figures["arrived"], number(&figures["end"]), number(&figures["total"]["most"])),
        (&3.into(), 2.01, 1.0)
    );
    // With other arrivals, durations are drawn at random.
    let drawn =
        crate::figures(&["--arrivals", "poisson 1/s", "--takes", &ms, "--pool", "cached", "--count", "20k"]);
    let mean = number(&drawn["pools"][0]["figures"]["total"]["mean"]);
    assert!((mean / 0.340 - 1.0).abs() < 0.04, "{mean}");
}

#[test]
fn oversized_loads_are_refused_at_once() {
    for (arguments, complaint) in [
        (
            &["--arrivals", "burst 1G", "--takes", "20ms", "--pool", "fixed 4"][..],
            "a burst of 1 000 000 000 tasks is too large",
        ),
        (
            &["--arrivals", "burst 99999999999", "--takes", "20ms"],
            "a burst of 99 999 999 999 tasks is too large",
        ),
        (
            &["--arrivals", "burst 1M every 1s", "--for", "1h", "--takes", "20ms"],
            "a run would have 3 600 000 000 tasks and need up to 86.4 GB",
        ),
        (
            &["--arrivals", "poisson 1/s", "--count", "1000000000000", "--takes", "20ms"],
            "1 000 000 000 000 tasks are too many",
        ),
        (
            &["--arrivals", "burst 1M", "--load", "100", "--takes", "20ms"],
            "at 100 times the load, a run would have 100 000 000 tasks",
        ),
        (
            &["--arrivals", "burst 10M", "--takes", "20ms", "--target-p99", "1s"],
            "a search simulates at most 1 000 000 tasks in a run",
        ),
        (
            &["--arrivals", "poisson 1M/s", "--takes", "1s", "--target-p99", "9s", "--load", "1"],
            "a plan searches up to 100000",
        ),
        (&["--arrivals", "csv /dev/zero", "--takes", "20ms"], "is not a CSV file; it contains zero bytes"),
    ] {
        let ran = millpond(&[&["plan"], arguments].concat());
        assert_eq!(ran.status, 2, "{arguments:?}: {}", ran.stdout);
        assert!(
            ran.stderr.contains(complaint) && ran.stderr.lines().count() == 1,
            "{arguments:?}: {}",
            ran.stderr
        );
    }
}

#[test]
fn a_narrow_terminal_gets_narrow_text() {
    let output = support::command()
        .env("COLUMNS", "40")
        .args(["plan"])
        .args(SEARCH)
        .output()
        .expect("the binary runs");
    for line in support::ran(output).stdout.lines() {
        assert!(line.chars().count() <= 40, "{} columns: {line}", line.chars().count());
    }
}

#[test]
fn a_target_that_no_pool_meets_is_status_1_and_says_why() {
    let arguments = ["plan", "--arrivals", "poisson 50/s", "--takes", "80ms", "--count", "1k"];
    let ran = millpond(&[&arguments[..], &["--target-p99", "50ms"]].concat());
    assert_eq!((ran.status, ran.stderr.as_str()), (1, ""));
    assert_fits_80_columns(&ran.stdout);
    assert!(!ran.stdout.contains('┴'), "no pool, no picture:\n{}", ran.stdout);
    let text = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        text.contains("With a thread for every task, p99 of the total time is 80.0 ms already"),
        "{text}"
    );
    assert_eq!(millpond(&[&arguments[..], &["--target-wait-p99", "50ms"]].concat()).status, 0);

    let cores = ["--cpu", "100%", "--cores", "2", "--target-p99", "5s"];
    let ran = millpond(&[&arguments[..], &cores].concat());
    let text = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(ran.status, 1);
    assert!(text.contains("The tasks need 4.0 cores and there are 2. Give more with --cores"), "{text}");
}

#[test]
fn a_pool_that_misses_the_target_is_told_so_with_status_1() {
    let pools = ["--pool", "fixed 2", "--pool", "fixed 30", "--load", "1"];
    let ran = millpond(&[&["plan"], &SEARCH[..], &pools].concat());
    assert_eq!(ran.status, 1, "{}", ran.stderr);
    assert_eq!(row(&ran.stdout, "target", 0), ["MISSED 20/20", "met 20/20", "met 20/20"]);
}

/// A regression test: the target of the example could not be met by any pool.
#[test]
#[cfg(unix)]
fn the_example_in_the_readme_has_an_answer() {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let readme = fs::read_to_string(readme).expect("it is there");
    let example = readme.lines().find_map(|line| line.strip_prefix("millpond plan ")).expect("an example");
    let script = format!("'{}' plan {example}", env!("CARGO_BIN_EXE_millpond"));
    let ran = support::ran(std::process::Command::new("sh").args(["-c", &script]).output().expect("a shell"));
    assert_eq!(ran.status, 0, "{example}: {}{}", ran.stdout, ran.stderr);
}
