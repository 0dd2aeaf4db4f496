//! Bounded-elastic: slots are evicted when they were idle for their time to live, and only then.

use std::io;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::scheduling::{Held, MINUTE, builder, end, ended, hold, hold_lane, thread_of};
use crate::support::{Counter, Gate, LONG, SHORT, block, eventually, threads_named};
use millpond::schedulers::{self, BoundedElasticScheduler, Scheduler, SchedulerExt, Worker};
use millpond::{ManualClock, WorkerBody};

const INSTANT: Duration = Duration::from_millis(10);

fn slots(scheduler: &BoundedElasticScheduler) -> (usize, usize, usize) {
    let stats = scheduler.stats();
    (stats.slots, stats.busy, stats.idle)
}

// RS-060
#[test]
fn idle_slots_are_kept_for_their_time_to_live_and_then_let_go() {
    let time = ManualClock::new();
    let scheduler = builder(4, 10, &time).build().unwrap();
    let workers = [scheduler.create_worker(), scheduler.create_worker()];
    for worker in &workers {
        thread_of(worker);
    }
    workers.iter().for_each(Worker::dispose);
    time.advance(INSTANT);
    assert_eq!(slots(&scheduler), (2, 0, 2));
    time.advance(MINUTE - INSTANT - Duration::from_nanos(1));
    assert_eq!(slots(&scheduler), (2, 0, 2), "a moment too early");
    time.advance(Duration::from_nanos(1));
    assert_eq!(slots(&scheduler), (0, 0, 0));
    eventually(|| scheduler.live_threads() == 0);
    end(&scheduler);
}

// RS-060: also slots of workers that never got a task.
#[test]
fn slots_that_were_held_and_not_used_are_let_go_after_their_time_to_live() {
    let time = ManualClock::new();
    let scheduler = builder(4, 10, &time).build().unwrap();
    let workers = [scheduler.create_worker(), scheduler.create_worker(), scheduler.create_worker()];
    assert_eq!(slots(&scheduler), (3, 3, 0));
    workers[..2].iter().for_each(Worker::dispose);
    time.advance(INSTANT);
    assert_eq!(slots(&scheduler), (3, 1, 2));
    time.advance(MINUTE);
    assert_eq!(slots(&scheduler), (1, 1, 0));
    workers[2].dispose();
    time.advance(MINUTE);
    assert_eq!(slots(&scheduler), (0, 0, 0));
    end(&scheduler);
}

// RS-060: each slot has its own time, counted from when it last became idle.
#[test]
fn each_slot_goes_when_its_own_time_is_over() {
    let time = ManualClock::new();
    let scheduler = builder(3, 10, &time).build().unwrap();
    let mut held: Vec<Held> = (0..3).map(|_| hold(&scheduler)).collect();
    for left in (0..3).rev() {
        held.pop().unwrap().let_go();
        assert_eq!(slots(&scheduler), (3, left, 3 - left));
        time.advance(MINUTE / 4);
    }
    assert_eq!(slots(&scheduler), (3, 0, 3));
    for left in (0..3).rev() {
        time.advance(MINUTE / 4);
        assert_eq!(slots(&scheduler), (left, 0, left));
    }
    end(&scheduler);
}

// RS-063
#[test]
fn after_eviction_a_worker_gets_a_fresh_slot_with_a_fresh_thread() {
    let time = ManualClock::new();
    let scheduler = builder(1, 10, &time).build().unwrap();
    let worker = scheduler.create_worker();
    let before = thread_of(&worker);
    worker.dispose();
    time.advance(MINUTE);
    assert_eq!(slots(&scheduler), (0, 0, 0));
    let again = scheduler.create_worker();
    assert_eq!(slots(&scheduler), (1, 1, 0));
    assert_ne!(thread_of(&again), before);
    assert!(worker.is_disposed() && !again.is_disposed());
    end(&scheduler);
}

// RS-063: an idle slot that is picked again in time is the same slot.
#[test]
fn a_worker_that_comes_before_the_time_is_over_gets_the_old_slot() {
    let time = ManualClock::new();
    let scheduler = builder(2, 10, &time).build().unwrap();
    let worker = scheduler.create_worker();
    let before = thread_of(&worker);
    worker.dispose();
    time.advance(MINUTE - INSTANT);
    let again = scheduler.create_worker();
    time.advance(MINUTE);
    assert_eq!((slots(&scheduler), thread_of(&again)), ((1, 1, 0), before));
    end(&scheduler);
}

// RS-065: better than Reactor, which evicted a slot with a stuck task and gave its place to another
// thread.
#[test]
fn a_slot_whose_task_is_stuck_is_not_let_go_and_counts_against_the_cap() {
    let time = ManualClock::new();
    let scheduler = builder(1, 10, &time).build().unwrap();
    let worker = scheduler.create_worker();
    let stuck = hold_lane(&worker); // it ignores interrupts
    worker.dispose();
    assert!(stuck.handle.is_disposed());
    time.advance(2 * MINUTE);
    assert_eq!((slots(&scheduler), scheduler.live_threads()), ((1, 1, 0), 1));
    let waits = scheduler.schedule(|| {}).unwrap();
    time.advance(2 * MINUTE);
    assert_eq!((scheduler.queued(), scheduler.live_threads()), (1, 1), "no thread beyond the cap");
    stuck.let_go();
    ended(&waits);
    eventually(|| scheduler.idle() == 1);
    time.advance(MINUTE);
    assert_eq!(slots(&scheduler), (0, 0, 0));
    end(&scheduler);
}

// RS-066: better than Reactor, where each scheduler had its own evictor.
#[test]
fn all_schedulers_share_one_timer_thread() {
    let kinds: Vec<_> = (0..3)
        .flat_map(|n| {
            let name = format!("timer-{n}");
            let elastic = schedulers::new_bounded_elastic(2, 10, &name, MINUTE).unwrap();
            [elastic, schedulers::new_parallel(2, &name).unwrap(), schedulers::new_single(&name).unwrap()]
        })
        .collect();
    for scheduler in &kinds {
        ended(&scheduler.schedule_after(INSTANT, || {}).unwrap());
        scheduler.schedule_after(LONG, || {}).unwrap();
    }
    if let Some(timers) = threads_named("millpond-timer") {
        assert_eq!(timers, 1);
    }
    kinds.iter().for_each(|scheduler| scheduler.dispose());
    kinds.iter().for_each(|scheduler| end(scheduler));
}

// RS-066: delayed work occupies no thread.
#[test]
fn timers_hold_no_thread_and_no_slot_of_a_direct_task() {
    let time = ManualClock::new();
    let scheduler = builder(2, 100, &time).build().unwrap();
    let ran = Counter::new();
    for _ in 0..50 {
        let count = ran.clone();
        scheduler.schedule_after(MINUTE, move || count.add()).unwrap();
    }
    assert_eq!((slots(&scheduler), scheduler.live_threads()), ((0, 0, 0), 0));
    time.advance(MINUTE);
    eventually(|| ran.get() == 50);
    assert!(scheduler.live_threads() <= 2);
    end(&scheduler);
}

// RS-067: the operating system agrees.
#[test]
fn threads_are_gone_when_the_end_in_good_order_says_so() {
    let scheduler = schedulers::new_bounded_elastic(3, 10, "gone-good", MINUTE).unwrap();
    let held: Vec<Held> = (0..3).map(|_| hold(&scheduler)).collect();
    if let Some(there) = threads_named("gone-good") {
        assert_eq!(there, 3);
    }
    held.into_iter().for_each(Held::let_go);
    end(&scheduler);
    assert_eq!(scheduler.stats().live_threads, 0);
    eventually(|| threads_named("gone-good").is_none_or(|left| left == 0));
}

/// A factory whose threads exit slowly, and count their exits.
fn slow_to_leave() -> (Counter, Counter, impl Fn(WorkerBody) -> io::Result<JoinHandle<()>>) {
    let (come, gone) = (Counter::new(), Counter::new());
    let (comes, goes) = (come.clone(), gone.clone());
    let factory = move |body: WorkerBody| {
        comes.add();
        let goes = goes.clone();
        thread::Builder::new().spawn(move || {
            body.run();
            thread::sleep(SHORT); // exposes a caller that does not wait
            goes.add();
        })
    };
    (come, gone, factory)
}

// RS-067, also for threads that were just evicted, or exited after their only task.
#[test]
fn threads_that_left_before_the_end_are_gone_when_it_says_so() {
    let time = ManualClock::new();
    let (come, gone, factory) = slow_to_leave();
    let evicting = builder(3, 10, &time).thread_factory(factory).build().unwrap();
    let held: Vec<Held> = (0..3).map(|_| hold(&evicting)).collect();
    held.into_iter().for_each(Held::let_go);
    time.advance(MINUTE);
    end(&evicting);
    assert_eq!((come.get(), gone.get()), (3, 3), "let go by time");

    let (come, gone, factory) = slow_to_leave();
    let fresh = builder(3, 10, &time).thread_per_task(true).thread_factory(factory).build().unwrap();
    let tasks: Vec<_> = (0..5).map(|_| fresh.schedule(|| {}).unwrap()).collect();
    tasks.iter().for_each(ended);
    end(&fresh);
    assert_eq!((come.get(), gone.get()), (5, 5), "thread per task");
}

// RS-067, for several waiting threads.
#[test]
fn everybody_who_waits_for_the_end_finds_the_threads_gone() {
    let (come, gone, factory) = slow_to_leave();
    let scheduler = builder(3, 10, &ManualClock::new()).thread_factory(factory).build().unwrap();
    let held: Vec<Held> = (0..3).map(|_| hold(&scheduler)).collect();
    thread::scope(|s| {
        let waits = || {
            end(&scheduler);
            gone.get()
        };
        let waiting: Vec<_> = (0..3).map(|_| block(s, waits)).collect();
        held.into_iter().for_each(Held::let_go);
        for waiting in waiting {
            assert_eq!(waiting.join(), 3);
        }
    });
    assert_eq!(come.get(), 3);
}

// RS-067
#[test]
fn threads_are_gone_after_a_forceful_end() {
    let scheduler = schedulers::new_bounded_elastic(3, 10, "gone-by-force", MINUTE).unwrap();
    let held: Vec<Held> = (0..2).map(|_| hold(&scheduler)).collect();
    ended(&scheduler.schedule(|| {}).unwrap());
    scheduler.dispose();
    eventually(|| scheduler.stats().live_threads == 2); // the idle thread exits at once
    held.into_iter().for_each(Held::let_go);
    end(&scheduler);
    eventually(|| threads_named("gone-by-force").is_none_or(|left| left == 0));
}

// RS-067: also if the last handle is dropped without a call that ends the scheduler.
#[test]
fn threads_are_gone_after_the_last_handle() {
    let scheduler = schedulers::new_bounded_elastic(2, 10, "gone-dropped", MINUTE).unwrap();
    let gate = Gate::new();
    let (pass, worker) = (gate.clone(), scheduler.create_worker());
    let task = worker.schedule(move || pass.pass()).unwrap();
    drop(scheduler);
    drop(worker);
    gate.open();
    ended(&task);
    assert!(!task.is_cancelled());
    eventually(|| threads_named("gone-dropped").is_none_or(|left| left == 0));
}

// An infinite time to live.
#[test]
fn a_time_to_live_without_end_keeps_idle_slots() {
    let time = ManualClock::new();
    let scheduler = builder(2, 10, &time).ttl(Duration::MAX).build().unwrap();
    ended(&scheduler.schedule(|| {}).unwrap());
    time.advance(Duration::from_secs(100 * 365 * 24 * 3600));
    assert_eq!(slots(&scheduler), (1, 0, 1));
    let there = scheduler.schedule(|| assert!(thread::current().name().is_some())).unwrap();
    ended(&there);
    end(&scheduler);
}
