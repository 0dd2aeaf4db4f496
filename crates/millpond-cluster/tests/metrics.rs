//! The metrics: their values, their documentation, and their check by `promtool`.

mod common;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use common::Folder;
use millpond_cluster::{Backoff, Cluster, TaskError, TaskType};

const WORK: TaskType<u32, u32> = TaskType::new("work");

/// Values of the queue `default`, by name.
fn values(cluster: &Cluster) -> BTreeMap<String, f64> {
    let text = cluster.render_metrics().unwrap();
    let of = |line: &str| {
        let (name, value) = line.strip_prefix("millpond_cluster_")?.split_once("{queue=\"default\"} ")?;
        Some((name.to_owned(), value.parse().unwrap()))
    };
    text.lines().filter_map(of).collect()
}

/// Runs tasks to each final state, and leaves some waiting.
fn play(cluster: &Cluster) {
    let handler = |context: &millpond_cluster::TaskContext, n: u32| match n {
        0 => Err(TaskError::permanent("never")),
        1 if context.attempt() == 1 => Err(TaskError::new("not yet")),
        n => Ok(n),
    };
    let worker = cluster.worker().handle(&WORK, handler).start().unwrap();
    cluster.submit(&WORK, &0).unwrap().join().unwrap_err();
    let retry = WORK.task(&1).retry(Backoff::constant(Duration::ZERO));
    assert_eq!(cluster.submit_task(retry).unwrap().join().unwrap(), 1);
    assert_eq!(cluster.submit(&WORK, &2).unwrap().join().unwrap(), 2);
    let later = cluster.submit_task(WORK.task(&3).delay(Duration::from_secs(3600))).unwrap();
    later.cancel().unwrap();
    worker.drain(Duration::from_secs(10));
    cluster.submit_task(WORK.task(&4).delay(Duration::from_secs(3600))).unwrap().detach();
    cluster.submit_all(&WORK, 5..8).unwrap();
}

#[test]
fn metrics_count_what_happened() {
    let folder = Folder::new("metrics");
    for address in ["memory:".to_owned(), folder.sqlite()] {
        let cluster = Cluster::open(&address).unwrap();
        assert_eq!(cluster.render_metrics().unwrap(), "");
        play(&cluster);
        let values = values(&cluster);
        for (name, value) in [
            ("submitted_tasks_total", 8.0),
            ("started_attempts_total", 4.0),
            ("failed_attempts_total", 2.0),
            ("crashed_attempts_total", 0.0),
            ("given_back_attempts_total", 0.0),
            ("ended_tasks_total", 4.0),
            ("fence_refused_reports_total", 0.0),
            ("ready_tasks", 3.0),
            ("delayed_tasks", 1.0),
            ("running_tasks", 0.0),
            ("dead_letters", 1.0),
            ("process_succeeded_tasks_total", 2.0),
            ("process_dead_tasks_total", 1.0),
            ("process_cancelled_tasks_total", 1.0),
            // Of a worker that has ended.
            ("process_lease_lost_total", 0.0),
            ("process_no_handler_total", 0.0),
        ] {
            assert_eq!(values.get(name), Some(&value), "{address} {name}");
        }
    }
}

#[test]
fn other_process_tells_the_same_of_the_queue_and_nothing_of_its_own() {
    let folder = Folder::new("metrics-other");
    let cluster = Cluster::open(&folder.sqlite()).unwrap();
    play(&cluster);
    // A second engine on the file stands for another process.
    let other = Cluster::open(&folder.sqlite()).unwrap();
    let (ours, theirs) = (values(&cluster), values(&other));
    for (name, value) in theirs {
        match name.starts_with("process_") {
            true => assert_eq!(value, 0.0, "{name}"),
            false if name == "oldest_ready_seconds" => assert!(value >= ours[&name]),
            false => assert_eq!(value, ours[&name], "{name}"),
        }
    }
}

#[test]
fn worker_without_a_handler_is_counted_also_after_its_end() {
    let cluster = Cluster::open("memory:").unwrap();
    let count = || values(&cluster).get("process_no_handler_total").copied();
    for round in 1..=2 {
        let other = TaskType::<u32, u32>::new("other");
        let worker = cluster.worker().handle(&other, |_, n| Ok(n)).start().unwrap();
        cluster.submit(&WORK, &1).unwrap().detach();
        common::eventually("it is given back", || count() == Some(f64::from(round)));
        drop(worker);
        assert_eq!(count(), Some(f64::from(round)));
    }
}

/// The text of the guide, if it exists: the published crate does not contain it.
fn guide() -> Option<String> {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cluster.md")).ok()
}

#[test]
fn every_metric_is_documented() {
    let Some(guide) = guide() else { return };
    let cluster = Cluster::open("memory:").unwrap();
    play(&cluster);
    for name in values(&cluster).keys() {
        assert!(guide.contains(&format!("| `{name}` |")), "{name} is not in docs/cluster.md");
    }
}

/// Path of `promtool`: the variable `PROMTOOL`, or the search path. `ci/metrics.sh` installs it.
fn promtool() -> Option<PathBuf> {
    let named = std::env::var_os("PROMTOOL").map(PathBuf::from);
    let found = named.or_else(|| {
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path).map(|folder| folder.join("promtool")).find(|file| file.is_file())
    });
    if found.is_none() {
        println!("SKIPPED: there is no promtool on the search path; `ci/metrics.sh --install` gets one");
    }
    found
}

/// Runs `promtool` with this input, asserts success, and returns its output.
fn run(tool: &Path, arguments: &[&str], input: &str) -> String {
    let mut command = Command::new(tool);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "promtool {arguments:?}: {said}");
    said
}

#[test]
fn promtool_accepts_the_metrics_in_silence() {
    let Some(tool) = promtool() else { return };
    let cluster = Cluster::open("memory:").unwrap();
    play(&cluster);
    play(&cluster.queue("a\"b\\c{d}=\"e\" 貯水池,\\n\n"));
    assert_eq!(run(&tool, &["check", "metrics"], &cluster.render_metrics().unwrap()), "");
}

#[test]
fn promtool_accepts_the_alert_rules_of_the_guide() {
    let (Some(tool), Some(guide)) = (promtool(), guide()) else { return };
    let (_, rules) = guide.split_once("```yaml\n").expect("the guide has rules");
    let (rules, _) = rules.split_once("```").expect("the block ends");
    let folder = Folder::new("rules");
    let file = folder.path("rules.yml");
    std::fs::write(&file, rules).unwrap();
    let said = run(&tool, &["check", "rules", file.to_str().unwrap()], "");
    assert!(said.contains("SUCCESS: 3 rules found"), "{said}");
    let cluster = Cluster::open("memory:").unwrap();
    play(&cluster);
    for name in rules.split(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
        if let Some(name) = name.strip_prefix("millpond_cluster_") {
            assert!(values(&cluster).contains_key(name), "{name} is not exported");
        }
    }
}
