//! `millpond cluster` on a SQLite file that the test fills.

#![cfg(feature = "cluster")]

mod support;

use std::path::PathBuf;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use millpond_cluster::{Cluster, Every, State, TaskError, TaskId, TaskType, Worker};
use serde_json::Value;
use support::{Ran, assert_fits_80_columns, assert_is_file, directory, millpond, printed};

const SQUARE: TaskType<u64, u64> = TaskType::new("square");
const FAIL: TaskType<String, ()> = TaskType::new("fail");
const LONG: TaskType<(), ()> = TaskType::new("long");

const COMMANDS: [&str; 16] = [
    "status", "queues", "tasks", "task", "workers", "dead", "cancel", "pause", "resume", "drain", "watch",
    "doctor", "bench", "init", "migrate", "compact",
];

/// A database, and helpers to run the command on it.
struct Jobs {
    file: PathBuf,
    cluster: Cluster,
}

impl Jobs {
    fn new(test: &str) -> Jobs {
        let file = directory(&format!("cluster-{test}")).join("jobs.db");
        let cluster = Cluster::open(&format!("sqlite:{}", file.display())).expect("it opens");
        Jobs { file, cluster }
    }

    fn address(&self) -> String {
        format!("sqlite:{}", self.file.display())
    }

    /// Runs `millpond cluster --on FILE` with `arguments`.
    fn run(&self, arguments: &[&str]) -> Ran {
        let address = self.address();
        millpond(&[&["cluster", "--on", &address], arguments].concat())
    }

    /// Like `run`, but asserts success. Returns stdout.
    fn printed(&self, arguments: &[&str]) -> String {
        let ran = self.run(arguments);
        assert_eq!((ran.status, ran.stderr.as_str()), (0, ""), "{arguments:?}: {}", ran.stdout);
        ran.stdout
    }

    fn json(&self, arguments: &[&str]) -> Value {
        parsed(&self.printed(&[arguments, &["--json"]].concat()))
    }

    fn state(&self, id: TaskId) -> State {
        self.cluster.admin().task(id).expect("the engine works").expect("it is there").task.state
    }

    /// Submits a task that will become a dead letter.
    fn dead_letter(&self, error: &str) -> TaskId {
        let worker = self.cluster.worker().handle(&FAIL, |_, error: String| Err(TaskError::permanent(error)));
        let worker = worker.start().expect("it starts");
        let handle = self.cluster.submit(&FAIL, &error.to_owned()).expect("accepted");
        let id = handle.id();
        handle.join().expect_err("it is dead");
        worker.drain(Duration::from_secs(10));
        id
    }
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Polls for a condition that holds within milliseconds on an idle machine.
fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let limit = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < limit, "it did not happen within a minute: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A worker whose task runs until the sender is dropped or the task is cancelled.
fn busy(jobs: &Jobs) -> (Worker, TaskId, mpsc::Sender<()>) {
    let (release, gate) = mpsc::channel::<()>();
    let gate = std::sync::Mutex::new(gate);
    let handler = move |_: &millpond_cluster::TaskContext, (): ()| {
        while gate.lock().unwrap().recv_timeout(Duration::from_millis(5))
            == Err(mpsc::RecvTimeoutError::Timeout)
        {
            millpond::interrupt::check().map_err(|_| TaskError::permanent("interrupted"))?;
        }
        Ok(())
    };
    let worker = jobs.cluster.worker().handle(&LONG, handler).start().expect("it starts");
    let id = jobs.cluster.submit(&LONG, &()).expect("accepted").id();
    eventually("the task runs", || jobs.state(id) == State::Running);
    (worker, id, release)
}

#[test]
fn the_help_texts_are_those_in_the_files() {
    for command in COMMANDS {
        let help = printed(&["cluster", command, "--help"]);
        assert_fits_80_columns(&help);
    }
    assert_is_file(&printed(&["cluster", "tasks", "--help"]), "help/cluster-tasks.txt");
    assert_is_file(&printed(&["cluster", "dead", "retry", "--help"]), "help/cluster-dead-retry.txt");
}

#[test]
fn status_shows_queues_and_what_needs_attention() {
    let jobs = Jobs::new("status");
    assert!(jobs.printed(&["status"]).contains("Nothing was submitted yet"));
    jobs.cluster.submit_all(&SQUARE, 0..1234).expect("accepted");
    jobs.cluster.queue("mail").submit(&SQUARE, &1).expect("accepted").detach();
    jobs.cluster.queue("mail").pause().expect("the engine works");
    let text = jobs.printed(&[]);
    assert!(text.contains("2 queues, 0 workers"), "{text}");
    let row =
        |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{text}"));
    assert!(row("default").contains("open    1 234"), "{text}");
    assert!(row("mail").contains("paused"), "{text}");
    assert!(text.contains("default: tasks wait, but no worker was seen"), "{text}");
    assert!(text.contains("mail: the queue is paused; `resume` opens it"), "{text}");
    let json = jobs.json(&["status"]);
    assert_eq!((&json["schema"], &json["queues"][0]["ready"]), (&1.into(), &1234.into()));
    for figure in [
        "submitted",
        "started",
        "failed",
        "crashed",
        "given_back",
        "ended",
        "fence_refused",
        "ready",
        "delayed",
        "running",
        "dead",
        "oldest_ready_ms",
    ] {
        assert!(json["queues"][0][figure].is_u64(), "{figure}: {json}");
    }
    assert_eq!(jobs.json(&["status", "--queue", "mail"])["queues"].as_array().map(Vec::len), Some(1));
}

#[test]
fn every_view_fits_80_columns() {
    let jobs = Jobs::new(&"a-long-path-".repeat(8));
    jobs.dead_letter(&"a long explanation of what went wrong ".repeat(6));
    let (_worker, id, _release) = busy(&jobs);
    jobs.cluster.queue("a-queue-with-quite-a-long-name").submit_all(&SQUARE, 0..2000).expect("accepted");
    jobs.cluster.periodic("clean up", Every::rate(Duration::from_secs(60)), &SQUARE, &1).expect("set");
    for arguments in [
        &["queues"][..],
        &["tasks"],
        &["task", &id.to_string()],
        &["workers"],
        &["dead"],
        &["tasks", "--state", "dead"],
        &["watch", "--count", "2", "--every", "100ms"],
    ] {
        assert_fits_80_columns(&jobs.printed(arguments));
    }
}

#[test]
fn queues_show_limits_counters_and_periodic_tasks() {
    let jobs = Jobs::new("queues");
    jobs.dead_letter("no");
    jobs.cluster.periodic("tidy", Every::delay(Duration::from_secs(90)), &SQUARE, &1).expect("set");
    let text = jobs.printed(&["queues"]);
    assert!(text.contains("0 succeeded, 1 dead, 0 cancelled"), "{text}");
    assert!(text.contains("1 accepted, 1 started"), "{text}");
    assert!(text.contains("tidy runs square 90 s after each run; next in"), "{text}");
    let json = jobs.json(&["queues"]);
    let periodic = &json["queues"][0]["periodic"][0];
    assert_eq!((&periodic["kind"], &periodic["period_ms"]), (&"delay".into(), &90_000.into()));
}

#[test]
fn tasks_are_filtered_and_listed_page_by_page() {
    let jobs = Jobs::new("tasks");
    jobs.dead_letter("no");
    jobs.cluster.submit_all(&SQUARE, 0..1300).expect("accepted");
    let ids = |json: &Value| json["tasks"].as_array().map_or(0, Vec::len);
    let first = jobs.json(&["tasks", "--state", "ready", "--limit", "1200"]);
    assert_eq!(ids(&first), 1200);
    let after = first["next"].to_string();
    let rest = jobs.json(&["tasks", "--state", "ready", "--limit", "1200", "--after", &after]);
    assert_eq!((ids(&rest), &rest["next"]), (100, &Value::Null));
    assert_eq!(ids(&jobs.json(&["tasks", "--name", "fail"])), 1);
    assert_eq!(ids(&jobs.json(&["tasks", "--older", "1h"])), 0);
    assert_eq!(jobs.printed(&["tasks", "--older", "1h"]), "No such task.\n");
    let text = jobs.printed(&["tasks", "--limit", "2"]);
    assert!(text.contains("There are more: add --after"), "{text}");
    let ran = jobs.run(&["tasks", "--limit", "0"]);
    assert!(ran.status == 2 && ran.stderr.contains("use at least 1"), "{}", ran.stderr);
    let ran = jobs.run(&["tasks", "--queue", "other"]);
    assert_eq!(ran.stderr, "millpond: there is no queue 'other'; there is only 'default'\n");
    let ran = jobs.run(&["tasks", "--state", "asleep"]);
    assert_eq!((ran.status, ran.stdout.as_str()), (2, ""));
    assert!(ran.stderr.contains("'asleep' is not a state: use ready"), "{}", ran.stderr);
}

#[test]
fn task_shows_everything_and_an_unknown_one_is_status_1() {
    let jobs = Jobs::new("task");
    let id = jobs.dead_letter("the disk is full\n\x1b[2J");
    let text = jobs.printed(&["task", &id.to_string()]);
    for part in
        ["fail", "dead", "permanent failure", "the disk is full", "arguments", "accepted", "kept until"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains('\x1b'), "{text:?}");
    let json = jobs.json(&["task", &id.to_string()]);
    assert_eq!((&json["state"], &json["reason"]), (&"dead".into(), &"permanent".into()));
    let other = TaskId::from_name("other");
    let ran = jobs.run(&["task", &other.to_string()]);
    assert_eq!((ran.status, ran.stdout.as_str()), (1, ""));
    assert_eq!(ran.stderr, format!("millpond: there is no task {other}, or its record is no longer kept\n"));
    let ran = jobs.run(&["task", "42"]);
    assert_eq!(ran.status, 2);
    assert!(ran.stderr.contains("'42' is not a task id"), "{}", ran.stderr);
}

#[test]
fn commands_that_change_something_need_write() {
    let jobs = Jobs::new("write");
    let id = jobs.cluster.submit(&SQUARE, &1).expect("accepted").id();
    let text = id.to_string();
    for arguments in [
        &["cancel", &text][..],
        &["pause"],
        &["resume"],
        &["drain", "w"],
        &["dead", "retry", &text],
        &["dead", "purge", "--older", "0"],
        &["init"],
        &["migrate"],
        &["compact"],
    ] {
        let ran = jobs.run(arguments);
        assert_eq!((ran.status, ran.stdout.as_str()), (2, ""), "{arguments:?}");
        assert!(ran.stderr.ends_with("changes the database; add --write to allow it\n"), "{}", ran.stderr);
    }
    assert_eq!(jobs.state(id), State::Ready);
    assert_eq!(jobs.json(&["queues"])["queues"][0]["mode"], "open");
}

#[test]
fn cancel_ends_a_waiting_task_and_asks_a_running_one_to_stop() {
    let jobs = Jobs::new("cancel");
    let (_worker, running, _release) = busy(&jobs);
    let waiting =
        jobs.cluster.submit_task(SQUARE.task(&1).delay(Duration::from_secs(3600))).expect("accepted").id();
    let text = jobs.printed(&["--write", "cancel", &waiting.to_string(), &running.to_string()]);
    assert_eq!(
        text,
        format!("{waiting} is cancelled\n{running} is running; its worker was asked to stop it\n")
    );
    assert_eq!(jobs.state(waiting), State::Cancelled);
    eventually("the worker stops it", || jobs.state(running) == State::Cancelled);
    let ran = jobs.run(&["--write", "--json", "cancel", &waiting.to_string()]);
    assert_eq!((ran.status, parsed(&ran.stdout)["tasks"][0]["answer"].as_str()), (1, Some("already_done")));
}

#[test]
fn pause_holds_tasks_back_until_resume() {
    let jobs = Jobs::new("pause");
    let worker = jobs.cluster.worker().handle(&SQUARE, |_, n| Ok(n * n)).start().expect("it starts");
    jobs.cluster.submit(&SQUARE, &1).expect("accepted").join().expect("it runs");
    assert!(jobs.printed(&["--write", "pause"]).starts_with("queue default is paused"));
    let handle = jobs.cluster.submit(&SQUARE, &3).expect("accepted");
    assert_eq!(jobs.state(handle.id()), State::Ready);
    assert_eq!(jobs.json(&["--write", "resume"])["mode"], "open");
    assert_eq!(handle.join().expect("it runs"), 9);
    drop(worker);
}

#[test]
fn a_change_needs_the_name_of_a_queue_that_is_there() {
    let jobs = Jobs::new("names");
    let refused = |arguments: &[&str]| {
        let ran = jobs.run(arguments);
        assert_eq!((ran.status, ran.stdout.as_str()), (2, ""));
        ran.stderr
    };
    assert_eq!(
        refused(&["--write", "pause"]),
        "millpond: there is no queue yet: nothing was ever submitted\n"
    );
    for queue in ["a", "b"] {
        jobs.cluster.queue(queue).submit(&SQUARE, &1).expect("accepted").detach();
    }
    assert_eq!(refused(&["--write", "pause"]), "millpond: name a queue with --queue; there are a, b\n");
    assert_eq!(refused(&["status", "--queue", "c"]), "millpond: there is no queue 'c'; there are a, b\n");
    jobs.printed(&["--write", "pause", "--queue", "b"]);
    assert_eq!(jobs.json(&["queues", "--queue", "b"])["queues"][0]["mode"], "paused");
}

#[test]
fn drain_asks_a_worker_and_an_unknown_one_is_status_1() {
    let jobs = Jobs::new("drain");
    let (worker, _, release) = busy(&jobs);
    eventually("the worker is listed", || !jobs.cluster.admin().workers().unwrap().is_empty());
    let name = worker.id().to_string();
    assert!(jobs.printed(&["workers"]).contains(&name));
    assert!(jobs.printed(&["--write", "drain", &name]).contains("was asked to drain"));
    eventually("the worker drains", || worker.is_draining());
    assert!(jobs.printed(&["workers"]).contains("draining"));
    assert!(jobs.printed(&["status"]).contains("tasks wait, but every worker is draining"));
    drop(release);
    let ran = jobs.run(&["--write", "drain", "nobody"]);
    assert_eq!((ran.status, ran.stdout.as_str()), (1, ""));
    assert_eq!(ran.stderr, "millpond: there is no worker 'nobody'; `workers` lists them\n");
}

#[test]
fn dead_letters_are_listed_retried_once_and_purged() {
    let jobs = Jobs::new("dead");
    assert_eq!(jobs.printed(&["dead"]), "There are no dead letters.\n");
    let (first, second) = (jobs.dead_letter("one"), jobs.dead_letter("two"));
    let text = jobs.printed(&["dead", "list"]);
    assert!(text.contains(&first.to_string()) && text.contains("two"), "{text}");
    let answer = jobs.json(&["--write", "dead", "retry", &first.to_string()]);
    let new: TaskId = answer["tasks"][0]["new_id"].as_str().expect("an id").parse().expect("an id");
    assert_eq!(jobs.state(new), State::Ready);
    assert_eq!(jobs.cluster.admin().task(new).unwrap().unwrap().task.retry_of, Some(first));
    let text = jobs.printed(&["--write", "dead", "retry", "--all"]);
    assert_eq!(text, "1 dead letter retried; 1 had been retried before\n");
    assert_eq!(jobs.cluster.stats().unwrap().ready, 2);
    let ran = jobs.run(&["--write", "dead", "retry", &new.to_string()]);
    assert_eq!((ran.status, ran.stderr), (1, format!("millpond: there is no dead letter {new}\n")));
    assert_eq!(jobs.printed(&["--write", "dead", "purge", "--older", "1h"]), "0 dead letters removed\n");
    assert_eq!(jobs.json(&["--write", "dead", "purge", "--older", "0"])["purged"], 2);
    assert_eq!(jobs.run(&["task", &second.to_string()]).status, 1);
}

#[test]
fn retry_of_all_goes_beyond_one_batch() {
    let jobs = Jobs::new("dead-many");
    let never = jobs.cluster.worker().handle(&FAIL, |_, _| Err(TaskError::permanent("no"))).start();
    let handles = jobs.cluster.submit_all(&FAIL, (0..1203).map(|n| n.to_string())).expect("accepted");
    handles.into_iter().for_each(|handle| drop(handle.join().expect_err("it fails")));
    drop(never);
    assert_eq!(jobs.printed(&["--write", "dead", "retry", "--all"]), "1 203 dead letters retried\n");
    assert_eq!(jobs.cluster.stats().unwrap().ready, 1203);
    let text = jobs.printed(&["--write", "dead", "retry", "--all"]);
    assert_eq!(text, "0 dead letters retried; 1203 had been retried before\n");
}

#[test]
fn retry_on_a_closed_queue_says_so() {
    let jobs = Jobs::new("closed");
    let id = jobs.dead_letter("one");
    jobs.cluster.close().expect("the engine works");
    let ran = jobs.run(&["--write", "dead", "retry", &id.to_string()]);
    assert_eq!((ran.status, ran.stdout.as_str()), (2, ""));
    assert!(ran.stderr.contains("its queue is closed"), "{}", ran.stderr);
}

#[test]
fn watch_shows_rates_one_line_of_json_each() {
    let jobs = Jobs::new("watch");
    jobs.cluster.submit(&SQUARE, &1).expect("accepted").detach();
    let text = jobs.printed(&["watch", "--json", "--count", "3", "--every", "100ms"]);
    let views: Vec<Value> = text.lines().map(parsed).collect();
    assert_eq!(views.len(), 3);
    assert_eq!(
        (&views[2]["queues"][0]["ready"], &views[2]["queues"][0]["accepted_per_second"]),
        (&1.into(), &0.0.into())
    );
    assert!(jobs.printed(&["watch", "--count", "1", "--every", "100ms"]).contains("out/s"));
}

#[test]
fn doctor_is_status_1_if_something_is_wrong() {
    let jobs = Jobs::new("doctor");
    let text = jobs.printed(&["doctor"]);
    assert!(text.contains("integrity: no damage found") && text.ends_with("No problem found.\n"), "{text}");
    assert_eq!(jobs.json(&["doctor"])["healthy"], true);
    let relaxed = format!("{}?durability=relaxed", jobs.address());
    assert_eq!(millpond(&["cluster", "--on", &relaxed, "doctor"]).status, 0);
    let ran = millpond(&["cluster", "--on", &relaxed, "doctor", "--strict", "--json"]);
    assert_eq!((ran.status, &parsed(&ran.stdout)["healthy"]), (1, &false.into()));
}

#[test]
fn doctor_names_damage_and_is_status_1() {
    let Jobs { file, cluster } = Jobs::new("doctor-damage");
    cluster.submit_all(&SQUARE, 0..3000).expect("accepted");
    drop(cluster); // the last connection moves the log into the file
    let mut bytes = std::fs::read(&file).expect("it is there");
    let middle = bytes.len() / 4096 / 2 * 4096;
    bytes[middle..middle + 4096].fill(0xa5);
    std::fs::write(&file, bytes).expect("written");
    let address = format!("sqlite:{}", file.display());
    let ran = millpond(&["cluster", "--on", &address, "doctor"]);
    assert_eq!((ran.status, ran.stderr.as_str()), (1, ""), "{}", ran.stdout);
    assert!(ran.stdout.contains("error    integrity: "), "{}", ran.stdout);
    assert!(ran.stdout.ends_with("1 problem found.\n"), "{}", ran.stdout);
    assert_fits_80_columns(&ran.stdout);
    let ran = millpond(&["cluster", "--on", &address, "doctor", "--json"]);
    let json = parsed(&ran.stdout);
    assert_eq!((ran.status, &json["healthy"]), (1, &false.into()));
    let findings = json["findings"].as_array().expect("a list");
    let errors: Vec<_> = findings.iter().filter(|one| one["severity"] == "error").collect();
    assert_eq!((errors.len(), &errors[0]["check"]), (1, &"integrity".into()));
}

#[test]
fn init_makes_the_database_and_nothing_else_does() {
    let file = directory("cluster-init").join("new.db");
    let address = format!("sqlite:{}", file.display());
    for arguments in [&["status"][..], &["--write", "migrate"], &["doctor"], &["--write", "compact"]] {
        let ran = millpond(&[&["cluster", "--on", &address], arguments].concat());
        assert_eq!((ran.status, ran.stdout.as_str()), (2, ""), "{arguments:?}");
        assert!(
            ran.stderr.contains("there is no database") && ran.stderr.contains("--write init"),
            "{}",
            ran.stderr
        );
        assert!(!file.exists(), "{arguments:?} made it");
    }
    let init = ["cluster", "--on", &address, "--write", "init"];
    assert_eq!(printed(&init), format!("{address} is made, with schema 1\n"));
    assert_eq!(printed(&init), format!("{address} was there already, with schema 1\n"));
    let migrate = printed(&["cluster", "--on", &address, "--write", "migrate"]);
    assert_eq!(migrate, format!("{address} has schema 1\n"));
    assert!(
        printed(&["cluster", "--on", &address, "--write", "compact"])
            .ends_with("given back to the file system\n")
    );
}

#[test]
fn an_address_that_cannot_be_served_is_refused_in_one_line() {
    let folder = directory("cluster-address");
    std::fs::write(folder.join("text"), "not a database, but long enough to be one ".repeat(200))
        .expect("written");
    let text = format!("sqlite:{}", folder.join("text").display());
    for (address, complaint) in [
        ("memory:", "the memory engine exists only inside its process"),
        ("redis://here", "'redis://here' names no engine: use sqlite:FILE"),
        ("sqlite:", "names no file"),
        (text.as_str(), "is not a sound database"),
    ] {
        let ran = millpond(&["cluster", "--on", address, "status"]);
        assert_eq!((ran.status, ran.stdout.as_str()), (2, ""), "{address}");
        assert!(ran.stderr.starts_with("millpond: ") && ran.stderr.contains(complaint), "{}", ran.stderr);
        assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
    }
    let ran = millpond(&["cluster"]);
    assert_eq!((ran.status, ran.stdout.as_str()), (2, ""));
    assert_eq!(ran.stderr, "millpond: name the database with --on, such as --on sqlite:jobs.db\n");
}

/// Small numbers, so that a bench takes about a second.
const SMALL: [&str; 5] = ["bench", "--tasks", "700", "--in-flight", "8"];
const BENCH: &str = "millpond-bench";

/// Everything that a bench must not change.
fn everything(jobs: &Jobs) -> (Value, Value, Value) {
    let mut queues = jobs.json(&["queues"]);
    queues["queues"][0]["oldest_ready_ms"].take();
    (queues, jobs.json(&["tasks", "--limit", "1000"]), jobs.json(&["workers"]))
}

/// A bench that runs until it is killed, on a database with other tasks.
#[cfg(unix)]
fn endless_bench(jobs: &Jobs) -> std::process::Child {
    let mut command = support::command();
    command.args(["cluster", "--on", &jobs.address(), "--write", "bench", "--tasks", "10M"]);
    let child = command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    support::handle_interrupts();
    let child = child.spawn().expect("the binary runs");
    eventually("the bench runs tasks", || jobs.cluster.queue(BENCH).stats().unwrap().succeeded > 10);
    child
}

#[test]
fn bench_measures_and_leaves_the_database_as_it_was() {
    let jobs = Jobs::new("bench");
    jobs.dead_letter("no");
    jobs.cluster.submit_all(&SQUARE, 0..100).expect("accepted");
    let before = everything(&jobs);
    let json = jobs.json(&[&SMALL[..], &["--write", "--bytes", "1k"]].concat());
    assert_eq!(
        (&json["tasks"], &json["in_flight"], &json["argument_bytes"]),
        (&700.into(), &8.into(), &1000.into())
    );
    for (name, tasks, per_call) in
        [("many_in_flight", 700, 1), ("one_in_flight", 200, 1), ("submit", 700, 500), ("claim", 300, 100)]
    {
        let figures = &json[name];
        assert_eq!((&figures["tasks"], &figures["tasks_per_call"]), (&tasks.into(), &per_call.into()));
        let figure = |name: &str| figures[name].as_f64().unwrap_or_else(|| panic!("{json}"));
        assert!(figure("tasks_per_second") > 0.0, "{json}");
        let times = ["p50_ms", "p99_ms", "worst_ms"].map(figure);
        assert!(times[0] > 0.0 && times.is_sorted(), "{json}");
    }
    let bytes = json["bytes_per_waiting_task"].as_f64().expect("a file has a size");
    assert!((1000.0..2000.0).contains(&bytes), "{bytes}");
    assert_eq!(everything(&jobs), before);

    let ran = jobs.run(&[&SMALL[..], &["--write"]].concat());
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(ran.stderr.starts_with("millpond: bench writes 1 400 tasks"), "{}", ran.stderr);
    let (address, rest) = ran.stdout.split_once('\n').expect("several lines");
    assert_eq!(address, jobs.address());
    assert_fits_80_columns(rest);
    assert!(ran.stdout.contains("submit to result, 8 in flight"), "{}", ran.stdout);
    assert!(ran.stdout.contains("bytes of disk"), "{}", ran.stdout);
    assert_eq!(everything(&jobs), before);
    assert!(jobs.printed(&["doctor"]).ends_with("No problem found.\n"));
}

#[test]
fn bench_needs_write_and_says_what_it_would_do() {
    let jobs = Jobs::new("bench-write");
    let ran = jobs.run(&SMALL);
    assert_eq!((ran.status, ran.stdout.as_str()), (2, ""));
    assert!(ran.stderr.contains("to the queue 'millpond-bench' of sqlite:"), "{}", ran.stderr);
    assert!(ran.stderr.ends_with("; add --write to allow it\n"), "{}", ran.stderr);
    assert_eq!(jobs.run(&["--write", "bench", "--queue", "default"]).status, 2);
    let ran = jobs.run(&["--write", "bench", "--in-flight", "0"]);
    assert!(ran.stderr.contains("'0' is not between 1 and 4096"), "{}", ran.stderr);
    assert_eq!(jobs.json(&["queues"])["queues"].as_array().map(Vec::len), Some(0));
}

#[test]
fn bench_removes_the_file_that_it_made_and_no_other() {
    let folder = directory("cluster-bench-file");
    let address = format!("sqlite:{}", folder.join("new.db").display());
    let is_empty = || std::fs::read_dir(&folder).expect("readable").next().is_none();
    let bench = |address: &str, write: &[&str]| {
        millpond(&[&["cluster", "--on", address], &SMALL[..], write, &["--json"]].concat())
    };
    assert_eq!((bench(&address, &[]).status, is_empty()), (2, true));
    let ran = bench(&address, &["--write"]);
    assert_eq!((ran.status, ran.stderr.as_str(), is_empty()), (0, "", true));
    let ran = bench(&format!("{address}?durability=none"), &["--write"]);
    assert_eq!((ran.status, is_empty()), (2, true), "{}", ran.stderr);
    std::fs::write(folder.join("new.db"), "").expect("written");
    let ran = bench(&address, &["--write"]);
    assert_eq!((ran.status, is_empty()), (2, false));
    assert!(ran.stderr.contains("is an empty file, not a database"), "{}", ran.stderr);
}

#[test]
fn bench_of_the_memory_engine_needs_no_write() {
    let ran = millpond(&[&["cluster", "--on", "memory:", "--json"], &SMALL[..]].concat());
    assert_eq!((ran.status, ran.stderr.as_str()), (0, ""));
    assert_eq!(parsed(&ran.stdout)["bytes_per_waiting_task"], Value::Null);
}

#[test]
#[cfg(unix)]
fn bench_cleans_up_after_a_signal() {
    use rustix::process::{Pid, Signal, kill_process};

    let jobs = Jobs::new("bench-signal");
    jobs.cluster.submit_all(&SQUARE, 0..100).expect("accepted");
    let before = everything(&jobs);
    for (signal, status) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let child = endless_bench(&jobs);
        kill_process(Pid::from_child(&child), signal).expect("it runs");
        let ran = support::ran(child.wait_with_output().expect("it ends"));
        assert_eq!((ran.status, ran.stdout.as_str()), (status, ""), "{}", ran.stderr);
        assert!(ran.stderr.contains("\nmillpond: interrupted"), "{}", ran.stderr);
        assert_eq!(everything(&jobs), before);
    }
}

#[test]
#[cfg(unix)]
fn bench_cleans_up_after_an_error() {
    let jobs = Jobs::new("bench-error");
    jobs.cluster.submit_all(&SQUARE, 0..100).expect("accepted");
    let before = everything(&jobs);
    let child = endless_bench(&jobs);
    jobs.cluster.queue(BENCH).close().expect("the engine works");
    let ran = support::ran(child.wait_with_output().expect("it ends"));
    assert_eq!((ran.status, ran.stdout.as_str()), (2, ""));
    assert!(ran.stderr.contains("closed"), "{}", ran.stderr);
    assert_eq!(everything(&jobs), before);
}

#[test]
#[cfg(unix)]
fn bench_that_was_killed_is_cleaned_up_by_hand() {
    let jobs = Jobs::new("bench-killed");
    jobs.cluster.submit_all(&SQUARE, 0..100).expect("accepted");
    assert_eq!(jobs.printed(&["--write", "bench", "--clean"]), "0 tasks of a bench removed\n");
    let before = jobs.json(&["tasks"]);
    let mut child = endless_bench(&jobs);
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    let ran = jobs.run(&[&SMALL[..], &["--write"]].concat());
    assert_eq!((ran.status, ran.stdout.as_str()), (2, ""));
    assert!(ran.stderr.contains("`bench --clean` removes what it has left"), "{}", ran.stderr);
    assert_eq!(jobs.run(&["bench", "--clean"]).status, 2, "it needs --write");
    assert!(jobs.json(&["--write", "bench", "--clean"])["removed"].as_u64() > Some(10));
    assert_eq!(jobs.json(&["tasks"]), before);

    // A queue of another user with the same name.
    jobs.cluster.queue(BENCH).submit(&SQUARE, &1).expect("accepted").detach();
    assert_eq!(jobs.run(&[&SMALL[..], &["--write"]].concat()).status, 2);
    let ran = jobs.run(&["--write", "bench", "--clean"]);
    assert_eq!(ran.status, 2);
    assert!(ran.stderr.contains("is not of a bench but of type 'square'"), "{}", ran.stderr);
    assert_eq!(jobs.cluster.queue(BENCH).stats().unwrap().ready, 1);
}
