//! Runs `millpond plan` as a user would and checks what it prints.

#[path = "../support/mod.rs"]
mod support;
mod target;

use std::fs;
use std::path::Path;

use serde_json::Value;
use support::{assert_fits_80_columns, assert_well_formed, directory, millpond, printed};

/// Returns a plan as text, after the checks that apply to every plan.
fn plan(arguments: &[&str]) -> String {
    let text = printed(&[&["plan"], arguments].concat());
    assert_fits_80_columns(&text);
    text
}

/// Returns the first load of a plan as JSON.
fn figures(arguments: &[&str]) -> Value {
    let ran = millpond(&[&["plan", "--json"], arguments].concat());
    assert!(ran.status < 2, "{arguments:?}: {}", ran.stderr);
    let json: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    json["loads"][0].clone()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("no number: {value}"))
}

/// The cells of the `nth` row that begins with `name`.
fn row(text: &str, name: &str, nth: usize) -> Vec<String> {
    let line = text.lines().filter(|line| line.trim_start().starts_with(name)).nth(nth);
    let line = line.unwrap_or_else(|| panic!("no row {name} in\n{text}"));
    let cells = line.trim_start()[name.len()..].split("  ").map(str::trim).filter(|cell| !cell.is_empty());
    cells.map(str::to_owned).collect()
}

const STEADY: [&str; 4] = ["--arrivals", "constant 100/s", "--takes", "20ms"];

#[test]
fn a_plan_agrees_with_mental_arithmetic() {
    // Two threads are always busy: a task ends every 10 ms, and none waits.
    let text = plan(&[&STEADY[..], &["--count", "1000", "--pool", "fixed 2", "--pool", "fixed 4"]].concat());
    assert_eq!(row(&text, "throughput", 0), ["99.9/s", "99.9/s"]);
    assert_eq!(row(&text, "refused", 0), ["0%", "0%"]);
    assert_eq!(row(&text, "had to wait", 0), ["0%", "0%"]);
    assert_eq!(row(&text, "total mean", 0), ["20.0 ms", "20.0 ms"]);
    assert_eq!(row(&text, "threads mean", 0), ["2.00", "3.99"]);
    // 20.00 s of work. The threads live for 20.01 s (two) and 39.98 s (four) in total.
    assert_eq!(row(&text, "utilisation", 0), ["100%", "50.0%"]);
    assert_eq!(row(&text, "drained after", 0), ["20.0 ms", "20.0 ms"]);
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let law = "Little's law: 100/s × 20 ms keep 2.00 threads busy; fewer than 2 cannot carry it.";
    assert!(words.contains(law), "{text}");
    // One thread can do half: it starts 500 tasks during the arrivals and 10 more from the queue.
    let text = plan(&[&STEADY[..], &["--count", "1000", "--pool", "core=1,queue=10"]].concat());
    assert_eq!(row(&text, "refused", 0), ["49.0%"]);
    assert_eq!(row(&text, "peak", 1), ["10"]);
}

#[test]
fn every_arrival_process_has_its_number_of_tasks() {
    let directory = directory("plan-arrivals");
    let csv = directory.join("log.csv");
    fs::write(&csv, "id,at\n1,1000\n2,1250\n3,3000\n").expect("writable");
    let csv = format!("{} column at in ms", csv.display());
    let dates = directory.join("dates.csv");
    fs::write(&dates, "2031-05-17T09:30:00Z\n2031-05-17T09:30:00.5Z\n").expect("writable");
    for (arrivals, limit, expected) in [
        (&["constant 50/s"][..], &["--for", "10s"][..], 500..=500),
        (&["poisson 50/s"], &["--for", "100s"], 4700..=5300),
        (&["ramp 0/s..100/s"], &["--for", "10s"], 499..=501),
        (&["ramp 0/s..100/s over 10s"], &["--for", "20s"], 1499..=1501),
        (&["burst 30"], &[], 30..=30),
        (&["burst 30 every 2s"], &["--for", "9s"], 150..=150),
        (&["constant 10/s", "burst 5 every 1s"], &["--for", "10s"], 150..=150),
        (&["poisson 50/s"], &["--count", "777"], 777..=777),
        (&["poisson 50/s"], &[], 98_500..=101_500),
        (&[csv.as_str()], &[], 3..=3),
        (&[dates.to_str().expect("a plain path")], &[], 2..=2),
    ] {
        let mut arguments: Vec<&str> = arrivals.iter().flat_map(|one| ["--arrivals", *one]).collect();
        arguments.extend(["--takes", "1ms", "--pool", "cached"]);
        arguments.extend(limit);
        let pool = &figures(&arguments)["pools"][0]["figures"];
        let arrived = pool["arrived"].as_u64().expect("a count");
        assert!(expected.contains(&arrived), "{arrivals:?}: {arrived}");
        assert_eq!(pool["completed"], pool["arrived"]);
    }
    let recorded = figures(&["--arrivals", &csv, "--takes", "1ms", "--pool", "cached"]);
    assert_eq!(number(&recorded["pools"][0]["figures"]["end"]), 2.001);
}

#[test]
fn a_load_that_no_pool_is_large_enough_for_is_planned_all_the_same() {
    let text = plan(&["--arrivals", "constant 1k/s", "--takes", "50h", "--count", "10"]);
    assert!(text.contains("fixed 1000000"), "{text}");
    assert!(text.contains("keep 180 000 000 threads busy"), "{text}");
}

#[test]
fn every_kind_of_length_has_the_mean_that_it_should() {
    for (takes, mean, p50) in [
        ("20ms", 0.020, 0.020),
        ("10ms..30ms", 0.020, 0.020),
        ("exponential 20ms", 0.020, 0.020 * std::f64::consts::LN_2),
        ("log-normal 20ms sigma 0.5", 0.020 * 0.125_f64.exp(), 0.020),
        ("75% 4ms, 25% 68ms", 0.020, 0.004),
    ] {
        let plan = figures(&["--arrivals", "poisson 10/s", "--takes", takes, "--pool", "cached"]);
        let total = &plan["pools"][0]["figures"]["total"];
        assert!((number(&total["mean"]) / mean - 1.0).abs() < 0.02, "{takes}: {total}");
        assert!((number(&total["p50"]) / p50 - 1.0).abs() < 0.03, "{takes}: {total}");
    }
}

#[test]
fn computing_tasks_compete_for_few_cores() {
    let cores = |cores: &str| {
        let arguments = ["--arrivals", "poisson 100/s", "--takes", "exponential 20ms", "--cpu", "75%"];
        figures(&[&arguments[..], &["--pool", "fixed 8", "--cores", cores]].concat())
    };
    let (two, sixteen) = (cores("2"), cores("16"));
    let mean = |plan: &Value| number(&plan["pools"][0]["figures"]["total"]["mean"]);
    assert!(mean(&two) > 1.5 * mean(&sixteen), "{} {}", mean(&two), mean(&sixteen));
    for plan in [&two, &sixteen] {
        let busy = number(&plan["pools"][0]["figures"]["cores_busy"]);
        assert!((busy - 1.5).abs() < 0.03, "the work is the same: {busy}");
    }
    // 2 cores × (1 + 5 ms / 15 ms), rounded up.
    assert_eq!(two["threads_by_waiting_and_computing"], 3);
    assert_eq!(sixteen["threads_by_waiting_and_computing"], 22);
}

#[test]
fn the_formula_stands_beside_the_figures_and_agrees_with_them() {
    let arguments = [
        "--arrivals",
        "poisson 200/s",
        "--takes",
        "exponential 20ms",
        "--pool",
        "fixed 6",
        "--count",
        "400k",
    ];
    let text = plan(&arguments);
    assert!(text.contains("fixed 6  Erlang C"), "{text}");
    let waits = row(&text, "had to wait", 0);
    assert_eq!(waits[1], "28.5%", "C(6, 4)");
    let case = figures(&arguments)["pools"][0].clone();
    let formula = &case["formula"];
    assert_eq!((&formula["name"], &formula["model"]), (&"Erlang C".into(), &"M/M/6".into()));
    for (simulated, said) in [
        (number(&case["figures"]["wait"]["mean"]), number(&formula["wait_mean"])),
        (number(&case["figures"]["wait"]["p99"]), number(&formula["wait_p50_p90_p99_p999"][2])),
        (number(&case["figures"]["threads"]["busy"]), number(&formula["busy"])),
    ] {
        assert!((simulated / said - 1.0).abs() < 0.05, "{simulated} beside {said}");
    }
    let inside = &case["figures"]["inside"];
    assert!((number(&inside["mean"]) / number(&inside["by_little"]) - 1.0).abs() < 1e-6, "{inside}");
}

#[test]
fn an_overload_is_reported() {
    let text =
        plan(&["--arrivals", "poisson 200/s", "--takes", "exponential 20ms", "--pool", "few: fixed 3"]);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("few: 3 threads for a load that keeps 4.00 busy: the queue grows"), "{text}");
}

#[test]
fn without_a_pool_three_kinds_are_compared() {
    let text = plan(&["--arrivals", "poisson 200/s", "--takes", "exponential 20ms"]);
    for pool in [
        "fixed 5  core 5, max 5, unbounded queue",
        "cached   core 0, max unlimited, synchronous queue, keep-alive 60 s",
        "custom   core 5, max 10, queue 50, keep-alive 60 s",
    ] {
        assert!(text.contains(pool), "{text}");
    }
}

#[test]
fn many_pools_are_shown_in_several_tables() {
    let mut arguments = vec!["--arrivals", "poisson 200/s", "--takes", "exponential 20ms", "--count", "1k"];
    arguments
        .extend(["a", "b", "c", "d", "e", "f"].map(|_| ["--pool", "named at some length: fixed 9"]).concat());
    let text = plan(&arguments);
    assert_eq!(text.matches("Erlang C").count(), 6);
    assert!(text.lines().filter(|line| line.trim_start().starts_with("throughput")).count() > 1, "{text}");
}

#[test]
fn the_same_seed_prints_the_same_bytes_and_another_seed_others() {
    let arguments =
        ["plan", "--arrivals", "poisson 200/s", "--takes", "log-normal 20ms p99 90ms", "--count", "5k"];
    let with = |seed: &str, json: &str| {
        printed(&[&arguments[..], &["--cpu", "20%", "--cores", "4", "--seed", seed, json]].concat())
    };
    assert_eq!(with("1", "--json"), with("1", "--json"));
    assert_ne!(with("1", "--json"), with("2", "--json"));
    assert_eq!(with("7", "--one-caller"), with("7", "--one-caller"));
}

const SEARCH: [&str; 8] = [
    "--arrivals",
    "poisson 200/s",
    "--takes",
    "log-normal 8ms p99 40ms",
    "--target-p99",
    "50ms",
    "--count",
    "20k",
];

#[test]
fn charts_and_report_are_written_whole() {
    let directory = directory("plan-files");
    let (svg, html) = (directory.join("plan.svg"), directory.join("plan.html"));
    let path = |path: &Path| path.to_str().expect("a plain path").to_owned();
    let (svg_path, html_path) = (path(&svg), path(&html));
    let pool = ["--pool", "a & <b>: fixed 90"];
    let text =
        printed(&[&["plan"], &SEARCH[..], &pool, &["--svg", &svg_path, "--html", &html_path]].concat());
    // The length of the last line depends on the names of the files.
    let (report, written) = text.split_once("\nWritten: ").expect("the files are told");
    assert_fits_80_columns(report);
    assert_eq!(written, format!("{svg_path}, {html_path}\n"));
    let svg = fs::read_to_string(svg).expect("written");
    assert_well_formed(&svg);
    for title in
        ["At today's load", "At 10 times the load", "by number of threads", "share that takes longer than"]
    {
        assert!(svg.contains(title), "no {title}");
    }
    let html = fs::read_to_string(html).expect("written");
    assert!(html.contains("a &amp; &lt;b&gt;") && html.contains("The smallest pool"));
    let folded = html.find("<details>").expect("the long table is folded");
    assert!(html.find("total p99").is_some_and(|at| at < folded), "p99 is not folded away");
    assert_eq!(html.matches("<svg").count(), 8);
    assert!(
        !html.contains("http://")
            || html.matches("http://").count() == html.matches("http://www.w3.org").count()
    );
}

#[test]
fn errors_are_one_line_on_stderr_with_a_remedy() {
    let directory = directory("plan-mistakes");
    let file = |name: &str, text: &str| {
        let path = directory.join(name);
        fs::write(&path, text).expect("writable");
        path.display().to_string()
    };
    let (words, empty) = (file("words.csv", "at\n1\nsoon\n"), file("empty.csv", ""));
    for (arguments, complaint) in [
        (
            &[][..],
            "plan needs --arrivals and --takes: `millpond plan --arrivals 'poisson 50/s' --takes 20ms`",
        ),
        (&["--arrivals", "poisson 5/s"], "plan needs --arrivals and --takes"),
        (&["--arrivals", "often", "--takes", "1s"], "unknown arrival process 'often'; use constant, poisson"),
        (&["--arrivals", "poisson 5/s", "--takes", "long"], "'long' is not a duration such as 50ms"),
        (
            &["--arrivals", "ramp 1/s..5/s", "--takes", "1s"],
            "a ramp needs a length; write 'ramp 10/s..500/s over 30s'",
        ),
        (&["--arrivals", "nowhere.csv", "--takes", "1s"], "cannot read nowhere.csv: "),
        (&["--arrivals", words.as_str(), "--takes", "1s"], "words.csv:3: 'soon' is not a time in seconds"),
        (&["--arrivals", empty.as_str(), "--takes", "1s"], "empty.csv: no rows"),
        (&["--arrivals", "burst 5", "--takes", "1s", "--pool", "core=4,max=2"], "raise max or lower core"),
        (&["--arrivals", "burst 5", "--takes", "1s", "--cores", "0"], "give 1 to 1000000"),
        (&["--arrivals", "burst 5", "--takes", "1s", "--count", "0"], "give a number above zero"),
        (&["--arrivals", "burst 5", "--takes", "1s", "--load", "0"], "give 0.001 to 1000000"),
        (&["--arrivals", "burst 5", "--takes", "1s", "--cpu", "150%"], "'150%' is more than 100%"),
        (&["--arrivals", "burst 5", "--takes", "1s", "--max-rejects", "1%"], "add --target-p99 TIME"),
        (&["--arrivals", "burst 5", "--takes", "1s", "--target-p99", "0"], "give a time above zero"),
        (
            &["--arrivals", "burst 5", "--takes", "1s", "--target-p99", "1s", "--max-rejects", "0.5"],
            "'0.5' has no percent sign; write 0.5%",
        ),
        (
            &["--arrivals", "poisson 0.001/s", "--takes", "1s", "--for", "1us"],
            "no task arrives in that time; give a longer --for",
        ),
        (
            &["--arrivals", "poisson 0.001/s", "--takes", "1s", "--for", "1us", "--target-p99", "1s"],
            "no task arrives in that time; give a longer --for",
        ),
        (&["--arrivals", "burst 5", "--takes", "1s", "--seed", "x"], "the seed 'x' is not a whole number"),
        (&["--arrivals", "burst 5", "--takes", "1s", "--for", "1s", "--count", "5"], "cannot be used with"),
        (
            &["--arrivals", "burst 5", "--takes", "1s", "--svg", "/nowhere/a.svg"],
            "cannot write /nowhere/a.svg",
        ),
    ] {
        let ran = millpond(&[&["plan"], arguments].concat());
        assert_eq!(ran.status, 2, "{arguments:?}: {}", ran.stdout);
        assert!(
            ran.stderr.starts_with("millpond: ") && ran.stderr.contains(complaint),
            "{arguments:?}: {}",
            ran.stderr
        );
        assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
    }
}

#[test]
fn an_impossible_report_path_is_refused_before_the_simulation() {
    let directory = directory("plan-no-place");
    let here = directory.to_str().expect("UTF-8");
    for (option, path, why) in [
        ("--svg", here.to_owned(), "it is a directory"),
        ("--html", format!("{here}/no/x"), "there is no directory"),
    ] {
        let ran = millpond(&[&["plan"], &STEADY[..], &["--count", "10", option, &path]].concat());
        assert_eq!((ran.status, ran.stdout.as_str()), (2, ""));
        assert!(ran.stderr.starts_with(&format!("millpond: cannot write {path}: {why}")), "{}", ran.stderr);
    }
}

/// Shows the attempts of the search and the finished runs, and removes the line at the end.
#[test]
#[cfg(target_os = "linux")]
fn a_search_on_a_terminal_shows_its_progress() {
    let directory = directory("plan-progress");
    let search = ["--takes", "exponential 20ms", "--target-p99", "120ms"];
    let arguments = [&["plan", "--arrivals", "poisson 200/s"], &search[..]].concat();
    let Some((mut child, terminal)) = support::terminal::on_a_terminal(&directory, &arguments, true) else {
        return;
    };
    let seen = support::terminal::seen(terminal);
    assert!(child.wait().unwrap().success(), "{seen}");
    // The answer follows the last clearing of the line.
    let (progress, answer) = seen.rsplit_once("\u{1b}[2K").expect("a line that is cleared");
    let shown: Vec<String> =
        progress.split(['\r', '\n']).map(|line| console::strip_ansi_codes(line).trim().to_owned()).collect();
    let shows = |what: &str| shown.iter().any(|line| line.contains(what));
    assert!(shows("tries ") || shows("confirms "), "{shown:?}");
    let done: Vec<usize> = shown.iter().filter_map(|line| runs_done(line)).collect();
    assert!(done.iter().any(|done| *done > 0), "{shown:?}");
    assert!(answer.contains("threads") && !answer.contains("tries "), "{answer}");
}

/// The first number of `run 7/20`, if it is at most the second.
#[cfg(target_os = "linux")]
fn runs_done(line: &str) -> Option<usize> {
    let (done, after) = line.split_once("run ")?.1.split_once('/')?;
    let (done, of): (usize, usize) = (done.parse().ok()?, after.split(' ').next()?.parse().ok()?);
    assert!(done <= of, "{line}");
    Some(done)
}

#[test]
fn there_is_no_progress_in_a_pipe() {
    let ran = millpond(&[&["plan"], &STEADY[..], &["--target-p99", "100ms"]].concat());
    assert_eq!((ran.status, ran.stderr.as_str()), (0, ""));
}
