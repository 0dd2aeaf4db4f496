//! Processes are killed, stopped, or run out of disk space: no accepted task is lost or ends twice,
//! and every handle resolves or reports an error.
#![cfg(target_os = "linux")]

mod common;

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{Folder, eventually};
use millpond_cluster::engine::{Durability, SqliteEngine};
use millpond_cluster::{Certainty, Cluster, RemoteState, State, SubmitReason, TaskType};
use rustix::process::{Pid, Signal, kill_process};

const ECHO: TaskType<String, String> = TaskType::new("echo");

/// An example of this crate. `cargo test` of the whole crate builds it; running only this file does
/// not.
fn example(name: &str) -> Command {
    static BUILD: Once = Once::new();
    let test = std::env::current_exe().unwrap();
    let path = test.parent().and_then(|deps| deps.parent()).unwrap().join("examples").join(name);
    BUILD.call_once(|| {
        if !path.exists() {
            let mut cargo = Command::new(env!("CARGO"));
            cargo.args(["build", "--package", "millpond-cluster", "--examples"]);
            cargo.args((!cfg!(debug_assertions)).then_some("--release"));
            assert!(cargo.status().unwrap().success());
        }
    });
    Command::new(path)
}

fn pid(child: &Child) -> Pid {
    Pid::from_raw(child.id().try_into().unwrap()).unwrap()
}

#[test]
fn durable_example_is_killed_again_and_again_and_loses_nothing() {
    let folder = Folder::new("durable");
    let file = folder.path("jobs.db");
    let tasks = "600";
    let start = || example("durable").arg(&file).arg(tasks).stdout(Stdio::piped()).spawn().unwrap();
    for round in 1..=5u64 {
        let mut child = start();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        if round > 1 {
            // After it has submitted; a little later in each round.
            assert_eq!(lines.next().unwrap().unwrap(), format!("submitted {tasks}"));
        }
        std::thread::sleep(Duration::from_millis(30 * round));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let mut child = start();
    let mut output = String::new();
    child.stdout.take().unwrap().read_to_string(&mut output).unwrap();
    assert!(child.wait().unwrap().success(), "{output}");
    assert!(output.ends_with(&format!("done {tasks}\n")), "{output}");
    let cluster = Cluster::open(&format!("sqlite:{}", file.display())).unwrap();
    let stats = cluster.stats().unwrap();
    assert_eq!((stats.submitted, stats.succeeded, stats.dead, stats.running), (600, 600, 0, 0));
}

#[test]
fn workers_are_killed_and_stopped_and_every_task_has_one_outcome() {
    let folder = Folder::new("chaos");
    let mut run = example("chaos");
    let run = run.arg("run").arg(folder.path("jobs.db")).args(["3000", "6", "2"]);
    let output = run.output().unwrap();
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{text}");
    assert!(text.contains("3000 outcomes, 3000 tasks ran"), "{text}");
}

#[test]
fn disk_full_refuses_with_a_reason_and_keeps_what_was_accepted() {
    let folder = Folder::new("disk-full");
    let path = folder.path("jobs.db");
    let engine = SqliteEngine::open(&path, Durability::Relaxed).unwrap();
    // Gives the same error as a full disk.
    engine.limit_pages(200).unwrap();
    let cluster = Cluster::builder().with_engine(std::sync::Arc::new(engine)).unwrap();
    let mut accepted = Vec::new();
    let error = loop {
        match cluster.submit(&ECHO, &"x".repeat(2000)) {
            Ok(handle) => accepted.push(handle),
            Err(error) => break error,
        }
        assert!(accepted.len() < 10_000, "the limit has no effect");
    };
    let SubmitReason::Engine(engine_error) = error.reason() else { panic!("{error}") };
    assert_eq!(engine_error.certainty(), Certainty::NotDone);
    assert!(engine_error.to_string().contains("the disk is full"), "{engine_error}");
    let task = error.into_task();
    assert_eq!(cluster.stats().unwrap().submitted, accepted.len() as u64);

    // Without space a worker cannot settle, but keeps trying. With space again, all tasks end.
    let worker = cluster.worker().handle(&ECHO, |_, text| Ok(text)).start().unwrap();
    drop(cluster.clone());
    let other = SqliteEngine::open(&path, Durability::Relaxed).unwrap();
    let other = Cluster::builder().with_engine(std::sync::Arc::new(other)).unwrap();
    let helper = other.worker().handle(&ECHO, |_, text| Ok(text)).start().unwrap();
    for handle in accepted {
        assert_eq!(handle.join().unwrap().len(), 2000);
    }
    assert_eq!(other.submit_task(*task).unwrap().join().unwrap().len(), 2000);
    drop((worker, helper));
}

/// Holds a write transaction until it is killed. The test below starts it as a process.
#[test]
#[ignore = "a part of the next test"]
fn hold_the_write_lock() {
    let Ok(path) = std::env::var("MILLPOND_TEST_LOCK") else { return };
    let conn = rusqlite::Connection::open(path).unwrap();
    conn.execute_batch("BEGIN IMMEDIATE; UPDATE queue SET submitted = submitted").unwrap();
    println!("locked");
    std::thread::sleep(Duration::from_secs(3600));
}

#[test]
fn process_stopped_inside_a_write_transaction_blocks_but_loses_nothing() {
    let folder = Folder::new("locked");
    let path = folder.path("jobs.db");
    let cluster = Cluster::open(&format!("sqlite:{}?durability=relaxed", path.display())).unwrap();
    let handle = cluster.submit(&ECHO, &"first".to_owned()).unwrap();
    let mut holder = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", "hold_the_write_lock"])
        .env("MILLPOND_TEST_LOCK", &path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(holder.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().ends_with("locked")));
    kill_process(pid(&holder), Signal::STOP).unwrap();

    // Readers continue, a join times out, a submit blocks.
    assert_eq!(handle.state(), RemoteState::Known(State::Ready));
    let worker = cluster.worker().handle(&ECHO, |_, text| Ok(text)).start().unwrap();
    let mut handle = handle;
    assert!(handle.join_timeout(Duration::from_millis(300)).is_none());
    let is_submitted = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let submit = scope.spawn(|| {
            let handle = cluster.submit(&ECHO, &"second".to_owned());
            is_submitted.store(true, Ordering::SeqCst);
            handle
        });
        assert!(handle.join_timeout(Duration::from_millis(300)).is_none());
        assert!(!is_submitted.load(Ordering::SeqCst));
        kill_process(pid(&holder), Signal::KILL).unwrap();
        holder.wait().unwrap();
        assert_eq!(submit.join().unwrap().unwrap().join().unwrap(), "second");
    });
    assert_eq!(handle.join().unwrap(), "first");
    drop(worker);
}

#[test]
fn task_of_a_killed_worker_starts_elsewhere() {
    let folder = Folder::new("takeover");
    let file = folder.path("jobs.db");
    let begin = Instant::now();
    let mut child = example("chaos").arg("work").arg(&file).arg(folder.path("log")).arg("1").spawn().unwrap();
    eventually("the file is there", || file.exists());
    let double = TaskType::<u64, u64>::new("double");
    let open =
        || Cluster::builder().lease(Duration::from_secs(1)).open(&format!("sqlite:{}", file.display()));
    let mut cluster = open();
    eventually("it opens", || {
        cluster = open();
        cluster.is_ok()
    });
    let cluster = cluster.unwrap();
    let handles = cluster.submit_all(&double, 0..500).unwrap();
    eventually("some run", || cluster.stats().unwrap().succeeded > 5);
    child.kill().unwrap();
    child.wait().unwrap();
    let _worker = cluster.worker().handle(&double, |_, n| Ok(n * 2)).start().unwrap();
    for (n, handle) in (0..).zip(handles) {
        assert_eq!(handle.join().unwrap(), n * 2);
    }
    let stats = cluster.stats().unwrap();
    assert_eq!((stats.submitted, stats.succeeded), (500, 500), "after {:?}", begin.elapsed());
}
