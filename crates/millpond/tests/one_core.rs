//! A process that may use only one processor: threads yield to each other instead of parking for
//! each task.
#![cfg(target_os = "linux")]

use std::fs;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use millpond::policy::Block;
use millpond::{ThreadPoolExecutor, WorkQueue};

const TASKS: usize = 50_000;

/// Number of voluntary context switches of all threads of this process so far.
fn voluntary_switches() -> usize {
    let of_thread = |status: String| -> usize {
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line.expect("Linux tells it").trim().parse().expect("a number")
    };
    let threads = fs::read_dir("/proc/self/task").expect("Linux lists them");
    let statuses = threads.filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("status")).ok());
    statuses.map(of_thread).sum()
}

/// Runs in its own process, which is restricted to one processor.
#[test]
#[ignore = "run by `a_bounded_pool_on_one_processor_seldom_parks`"]
fn run_short_tasks_through_a_bounded_queue() {
    let pool = ThreadPoolExecutor::builder()
        .core_pool_size(1)
        .maximum_pool_size(1)
        .work_queue(WorkQueue::array(1024))
        .rejected_execution_handler(Block::forever())
        .build()
        .unwrap();
    pool.prestart_all_core_threads();
    let done = Arc::new(AtomicUsize::new(0));
    let before = voluntary_switches();
    for _ in 0..TASKS {
        let done = Arc::clone(&done);
        pool.execute(move || {
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_micros(1) {}
            done.fetch_add(1, Ordering::Relaxed);
        })
        .unwrap();
    }
    pool.submit(|| ()).unwrap().join().unwrap();
    let switches = voluntary_switches() - before;
    assert_eq!(done.load(Ordering::Relaxed), TASKS);
    pool.close();
    // Without yielding there are 0.4 switches per task.
    assert!(switches < TASKS / 20, "threads parked {switches} times for {TASKS} tasks");
}

#[test]
fn a_bounded_pool_on_one_processor_seldom_parks() {
    let this = std::env::current_exe().unwrap();
    let child = Command::new("taskset")
        .args(["-c", "0"])
        .arg(this)
        .args(["--ignored", "--exact", "run_short_tasks_through_a_bounded_queue"])
        .output();
    let output = match child {
        Ok(output) => output,
        Err(error) => {
            println!("skipped, there is no taskset here: {error}");
            return;
        }
    };
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if err.contains("failed to set pid") {
        println!("skipped, this process may not use processor 0: {err}");
        return;
    }
    assert!(output.status.success(), "{out}{err}");
}
