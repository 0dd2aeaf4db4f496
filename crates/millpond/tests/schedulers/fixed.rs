//! Single and parallel: a fixed number of threads, used round-robin.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::Duration;

use crate::scheduling::{Held, end, ended, hold, hold_lane, thread_of};
use crate::support::{Counter, eventually, threads_named};
use millpond::schedulers::{self, Scheduler, SchedulerExt, Worker};
use millpond::{ConfigError, RejectReason};

// RS-105
#[test]
fn direct_tasks_of_a_parallel_scheduler_are_dealt_out_evenly_and_by_turns() {
    let scheduler = schedulers::new_parallel(4, "deal").unwrap();
    let threads = Arc::new(Mutex::new(vec![None; 100]));
    let tasks: Vec<_> = (0..100)
        .map(|n| {
            let threads = Arc::clone(&threads);
            scheduler.schedule(move || threads.lock().unwrap()[n] = Some(thread::current().id())).unwrap()
        })
        .collect();
    tasks.iter().for_each(ended);
    let threads: Vec<ThreadId> = threads.lock().unwrap().iter().map(|thread| thread.unwrap()).collect();
    let mut shares = HashMap::new();
    threads.iter().for_each(|thread| *shares.entry(thread).or_insert(0) += 1);
    assert_eq!(shares.values().copied().collect::<Vec<_>>(), [25; 4]);
    assert!((0..100).all(|n| threads[n] == threads[n % 4]), "by turns");
    end(&scheduler);
}

// RS-105: workers are assigned round-robin too.
#[test]
fn workers_and_tasks_share_the_turns() {
    let scheduler = schedulers::new_parallel(2, "turns").unwrap();
    let workers: Vec<Worker> = (0..4).map(|_| scheduler.create_worker()).collect();
    let threads: Vec<ThreadId> = workers.iter().map(thread_of).collect();
    assert_eq!((threads[0], threads[1]), (threads[2], threads[3]));
    assert_ne!(threads[0], threads[1]);
    end(&scheduler);
}

// RS-106
#[test]
fn a_parallel_scheduler_has_all_slots_and_no_thread_and_starts_one_with_each_first_task() {
    let scheduler = schedulers::new_parallel(4, "fixed-lazy").unwrap();
    let stats = scheduler.stats();
    assert_eq!((stats.slots, stats.busy, stats.idle, stats.live_threads), (4, 0, 4, 0));
    for n in 1..=4 {
        ended(&scheduler.schedule(|| {}).unwrap());
        assert_eq!(scheduler.stats().live_threads, n);
    }
    ended(&scheduler.schedule(|| {}).unwrap());
    assert_eq!(scheduler.stats().live_threads, 4);
    if let Some(threads) = threads_named("fixed-lazy") {
        assert_eq!(threads, 4);
    }
    end(&scheduler);
    eventually(|| threads_named("fixed-lazy").is_none_or(|threads| threads == 0));
}

// RS-106
#[test]
fn a_worker_of_a_parallel_scheduler_stays_with_its_thread_for_life() {
    let scheduler = schedulers::new_parallel(3, "for-life").unwrap();
    let worker = scheduler.create_worker();
    let home = thread_of(&worker);
    for _ in 0..20 {
        ended(&scheduler.schedule(|| {}).unwrap()); // advances the round-robin counter
        assert_eq!(thread_of(&worker), home);
    }
    // Even if its thread is busy and others are idle.
    let held: Vec<Held> = (0..3).map(|_| hold(&scheduler)).collect();
    let log = Arc::new(Mutex::new(None));
    let noted = Arc::clone(&log);
    let waits = worker.schedule(move || *noted.lock().unwrap() = Some(thread::current().id())).unwrap();
    held.into_iter().for_each(Held::let_go);
    ended(&waits);
    assert_eq!(*log.lock().unwrap(), Some(home));
    end(&scheduler);
}

// RS-107
#[test]
fn size_and_capacity_are_the_number_of_threads() {
    for (scheduler, n) in [
        (schedulers::new_parallel(3, "size").unwrap(), 3),
        (schedulers::new_parallel(1, "size").unwrap(), 1),
        (schedulers::new_single("size").unwrap(), 1),
    ] {
        let stats = scheduler.stats();
        assert_eq!((stats.max_threads, stats.slots, stats.idle), (n, n, n));
        assert_eq!(stats.remaining_capacity, u64::MAX);
        end(&scheduler);
        let stats = scheduler.stats();
        assert_eq!((stats.max_threads, stats.slots), (n, 0), "after its end");
    }
}

#[test]
fn a_parallel_scheduler_without_threads_is_refused() {
    let refused = schedulers::new_parallel(0, "none").unwrap_err();
    assert!(matches!(refused, ConfigError::ZeroThreads { .. }));
    assert!(refused.to_string().contains("parallelism"), "{refused}");
}

// RS-108
#[test]
fn a_great_many_tasks_of_one_worker_run_and_leave_nothing_behind() {
    let tasks = if cfg!(debug_assertions) { 100_000 } else { 1_000_000 };
    let scheduler = schedulers::new_single("great-many").unwrap();
    let worker = scheduler.create_worker();
    let (ran, dropped) = (Counter::new(), Counter::new());
    for _ in 0..tasks {
        let (count, captured) = (ran.clone(), dropped.on_drop());
        let task = move || {
            let _captured = &captured;
            count.add();
        };
        worker.schedule(task).unwrap();
    }
    ended(&worker.schedule(|| {}).unwrap());
    assert_eq!((ran.get(), dropped.get(), worker.queued()), (tasks, tasks, 0));
    let stats = scheduler.stats();
    assert_eq!((stats.completed, stats.queued), (tasks as u64 + 1, 0));
    end(&scheduler);
}

// RS-108
#[test]
fn different_workers_of_a_single_scheduler_are_independent() {
    let scheduler = schedulers::new_single("independent").unwrap();
    let held = hold(&scheduler);
    let (one, other) = (scheduler.create_worker(), scheduler.create_worker());
    let (of_one, of_other) = (Counter::new(), Counter::new());
    let (count_one, count_other) = (of_one.clone(), of_other.clone());
    let first = one.schedule(move || count_one.add()).unwrap();
    let second = other.schedule(move || count_other.add()).unwrap();
    one.dispose();
    assert!(first.is_cancelled() && one.is_disposed());
    assert!(!second.is_disposed() && !other.is_disposed());
    held.let_go();
    ended(&second);
    assert_eq!((of_one.get(), of_other.get()), (0, 1));
    assert_eq!(one.schedule(|| {}).unwrap_err().reason(), RejectReason::WorkerDisposed);
    end(&scheduler);
}

// RS-108: work of different lanes on one thread does not overlap.
#[test]
fn a_single_scheduler_runs_one_thing_at_a_time() {
    let scheduler = schedulers::new_single("one-at-a-time").unwrap();
    let worker = scheduler.create_worker();
    let held = hold_lane(&worker);
    let waits = [
        scheduler.schedule(|| {}).unwrap(),
        worker.schedule(|| {}).unwrap(),
        scheduler.create_worker().schedule(|| {}).unwrap(),
        scheduler.schedule_after(Duration::from_nanos(1), || {}).unwrap(),
    ];
    eventually(|| scheduler.stats().queued == 4);
    assert!(!waits.iter().any(|waits| waits.is_disposed()));
    assert_eq!(scheduler.stats().live_threads, 1);
    held.let_go();
    waits.iter().for_each(ended);
    end(&scheduler);
}

// Threads are named after the scheduler, with a number.
#[test]
fn threads_are_called_after_their_scheduler() {
    for scheduler in
        [schedulers::new_single("called").unwrap(), schedulers::new_parallel(1, "called").unwrap()]
    {
        let name = Arc::new(Mutex::new(String::new()));
        let noted = Arc::clone(&name);
        let note = move || *noted.lock().unwrap() = thread::current().name().unwrap().to_owned();
        ended(&scheduler.schedule(note).unwrap());
        let name = name.lock().unwrap();
        let number = name.strip_prefix("called-").expect("the prefix");
        assert!(number.parse::<u64>().unwrap() >= 1);
        end(&scheduler);
    }
}

// A thread name must not contain NUL: no task would ever run.
#[test]
fn a_scheduler_name_with_a_nul_is_refused_when_it_is_made() {
    let nul = |position| Some(ConfigError::NulInName { option: "name", position });
    assert_eq!(schedulers::new_single("\0").err(), nul(0));
    assert_eq!(schedulers::new_parallel(2, "sum\0").err(), nul(3));
    assert_eq!(schedulers::new_bounded_elastic(2, 10, "a\0b", Duration::from_secs(1)).err(), nul(1));
    assert_eq!(schedulers::BoundedElasticScheduler::builder().name("\0").build().err(), nul(0));
}
