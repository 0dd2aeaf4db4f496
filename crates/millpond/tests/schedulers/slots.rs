//! Bounded-elastic: which slot is picked, what holds it, and what a held slot means.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, ThreadId};
use std::time::Duration;

use crate::scheduling::{
    Held, MINUTE, assert_settled, builder, elastic, end, ended, failing, hold, hold_lane, start, strict,
    thread_of,
};
use crate::support::{Counter, Gate, LONG, SHORT, SMALL, eventually, rounds, together};
use millpond::interrupt;
use millpond::schedulers::{BoundedElasticScheduler, Disposable, Scheduler, SchedulerExt, Worker};
use millpond::{ManualClock, RejectReason};

fn workers(scheduler: &BoundedElasticScheduler, n: usize) -> Vec<Worker> {
    (0..n).map(|_| scheduler.create_worker()).collect()
}

/// Numbers of slots, busy slots and idle slots.
fn slots(scheduler: &BoundedElasticScheduler) -> (usize, usize, usize) {
    let stats = scheduler.stats();
    (stats.slots, stats.busy, stats.idle)
}

// RS-020
#[test]
fn workers_beyond_the_cap_share_slots_beginning_with_the_first() {
    let scheduler = strict(4, 10);
    let workers = workers(&scheduler, 5);
    assert_eq!(slots(&scheduler), (4, 4, 0));
    let threads: Vec<ThreadId> = workers.iter().map(thread_of).collect();
    assert_eq!(threads[..4].iter().collect::<HashSet<_>>().len(), 4, "the first four have one each");
    assert_eq!(threads[4], threads[0], "the fifth is with the first");
    end(&scheduler);
}

// RS-021
#[test]
fn a_worker_without_work_makes_a_slot_busy_and_starts_no_thread() {
    let (starts, factory) = failing(|_| false);
    let scheduler = builder(4, 10, &ManualClock::new()).thread_factory(factory).build().unwrap();
    let worker = scheduler.create_worker();
    assert_eq!(slots(&scheduler), (1, 1, 0));
    assert_eq!((scheduler.live_threads(), starts.load(Ordering::SeqCst)), (0, 0));
    thread_of(&worker);
    assert_eq!((scheduler.live_threads(), starts.load(Ordering::SeqCst)), (1, 1));
    end(&scheduler);
}

// RS-021: first the slot that last became idle, then a new one, then a busy one.
#[test]
fn the_slot_that_became_idle_last_is_picked_before_a_new_one() {
    let scheduler = strict(3, 10);
    let pair = workers(&scheduler, 2);
    let threads: Vec<ThreadId> = pair.iter().map(thread_of).collect();
    pair[0].dispose();
    pair[1].dispose();
    assert_eq!(slots(&scheduler), (2, 0, 2));
    let again = workers(&scheduler, 4);
    let found: Vec<ThreadId> = again.iter().map(thread_of).collect();
    assert_eq!(found[..2], [threads[1], threads[0]], "the newest idle one first");
    assert!(!threads.contains(&found[2]), "then a new one");
    assert_eq!(found[3], found[0], "then the one that has been busy longest");
    end(&scheduler);
}

// RS-021: a slot whose worker never got a task also becomes idle and is picked again.
#[test]
fn a_slot_that_was_held_and_not_used_becomes_idle() {
    let scheduler = elastic(4, 10);
    let pair = workers(&scheduler, 2);
    pair.iter().for_each(Worker::dispose);
    assert_eq!(slots(&scheduler), (2, 0, 2));
    let _again = scheduler.create_worker();
    assert_eq!(slots(&scheduler), (2, 1, 1));
    end(&scheduler);
}

// RS-022
#[test]
fn at_the_cap_the_slot_with_the_fewest_holders_is_picked() {
    let scheduler = strict(4, 10);
    let all = workers(&scheduler, 16); // four on each slot, round-robin
    let threads: Vec<ThreadId> = all[..4].iter().map(thread_of).collect();
    for (n, worker) in all.iter().enumerate() {
        assert_eq!(thread_of(worker), threads[n % 4]);
    }
    // Keep four on slot 0, three on slot 1, two on slot 2, one on slot 3.
    for (n, worker) in all.iter().enumerate() {
        if n / 4 > 3 - n % 4 {
            worker.dispose();
        }
    }
    let next = workers(&scheduler, 3);
    let next: Vec<ThreadId> = next.iter().map(thread_of).collect();
    assert_eq!(next[0], threads[3]);
    let then = HashSet::from([next[1], next[2]]);
    assert_eq!(then, HashSet::from([threads[2], threads[3]]));
    end(&scheduler);
}

// RS-023
#[test]
fn among_equals_the_slot_that_has_been_busy_longest_is_picked() {
    let scheduler = strict(3, 10);
    let mut all = workers(&scheduler, 3);
    let threads: Vec<ThreadId> = all.iter().map(thread_of).collect();
    // The first slot becomes idle and then busy again: it is now the most recent.
    all[0].dispose();
    all[0] = scheduler.create_worker();
    assert_eq!(thread_of(&all[0]), threads[0]);
    let next = workers(&scheduler, 3);
    let next: Vec<ThreadId> = next.iter().map(thread_of).collect();
    assert_eq!(next, [threads[1], threads[2], threads[0]]);
    end(&scheduler);
}

// RS-022: a worker without work does not count as load; a slot with a long task does.
#[test]
fn at_the_cap_a_slot_whose_thread_is_free_is_picked_before_one_that_works() {
    let scheduler = strict(2, 10);
    let busy = scheduler.create_worker();
    let held = hold_lane(&busy);
    let crowd = [scheduler.create_worker(), scheduler.create_worker(), scheduler.create_worker()];
    let direct = scheduler.schedule(|| {}).unwrap();
    ended(&direct);
    for worker in &crowd {
        thread_of(worker);
    }
    held.let_go();
    end(&scheduler);
}

// RS-025
#[test]
fn short_tasks_one_after_the_other_stay_on_the_thread_that_became_idle_last() {
    let scheduler = elastic(5, 10);
    let held: Vec<Held> = (0..5).map(|_| hold(&scheduler)).collect();
    assert_eq!(slots(&scheduler), (5, 5, 0));
    held.into_iter().for_each(Held::let_go);
    assert_eq!(slots(&scheduler), (5, 0, 5));
    let threads = Arc::new(Mutex::new(HashSet::new()));
    for _ in 0..20 {
        let threads = Arc::clone(&threads);
        let note = move || {
            threads.lock().unwrap().insert(thread::current().id());
        };
        ended(&scheduler.schedule(note).unwrap());
    }
    assert_eq!(threads.lock().unwrap().len(), 1);
    end(&scheduler);
}

// RS-025: the four unused slots age meanwhile.
#[test]
fn idle_slots_that_are_not_used_age_while_another_works() {
    let time = ManualClock::new();
    let scheduler = builder(5, 10, &time).build().unwrap();
    let held: Vec<Held> = (0..5).map(|_| hold(&scheduler)).collect();
    held.into_iter().for_each(Held::let_go);
    time.advance(MINUTE / 2);
    ended(&scheduler.schedule(|| {}).unwrap());
    time.advance(MINUTE / 2);
    assert_eq!(slots(&scheduler), (1, 0, 1));
    eventually(|| scheduler.live_threads() == 1);
    end(&scheduler);
}

// RS-029: better than Reactor, where the slot counted as idle at once.
#[test]
fn a_series_disposed_while_its_body_runs_holds_its_slot_until_the_body_returns() {
    let scheduler = elastic(2, 10);
    let (gate, running) = (Gate::new(), Gate::new());
    let (pass, knock) = (gate.clone(), running.clone());
    let body = move || {
        knock.open();
        pass.pass();
    };
    let series = scheduler.schedule_periodically(Duration::ZERO, MINUTE, body).unwrap();
    running.pass();
    assert!(series.dispose());
    assert!(series.is_disposed() && series.is_cancelled());
    assert_eq!(slots(&scheduler), (1, 1, 0));
    assert_eq!(series.wait(Duration::ZERO), Ok(false), "its body still runs");
    gate.open();
    ended(&series);
    assert_eq!(slots(&scheduler), (1, 0, 1));
    end(&scheduler);
    assert_settled(&scheduler, 1, 20);
}

// RS-029, for a one-shot task and for a worker.
#[test]
fn a_task_or_worker_disposed_while_its_body_runs_holds_its_slot_until_the_body_returns() {
    let scheduler = elastic(2, 10);
    let direct = hold(&scheduler);
    let worker = scheduler.create_worker();
    let in_lane = hold_lane(&worker);
    assert!(direct.handle.dispose());
    worker.dispose();
    assert!(in_lane.handle.is_cancelled());
    assert_eq!(slots(&scheduler), (2, 2, 0));
    direct.let_go();
    assert_eq!(slots(&scheduler), (2, 1, 1));
    in_lane.let_go();
    assert_eq!(slots(&scheduler), (2, 0, 2));
    end(&scheduler);
}

// RS-031
#[test]
fn a_series_and_a_worker_hold_their_slots_until_disposed_and_are_not_evicted() {
    let time = ManualClock::new();
    let scheduler = builder(3, 10, &time).build().unwrap();
    let runs = Counter::new();
    let count = runs.clone();
    let series = scheduler.schedule_periodically(MINUTE, MINUTE, move || count.add()).unwrap();
    let worker = scheduler.create_worker();
    thread_of(&worker);
    assert_eq!(slots(&scheduler), (2, 2, 0));
    for run in 1..=3 {
        time.advance(MINUTE);
        eventually(|| runs.get() == run && scheduler.stats().completed == run as u64 + 1);
    }
    time.advance(MINUTE / 2);
    assert_eq!(slots(&scheduler), (2, 2, 0));
    assert!(series.dispose());
    worker.dispose();
    assert_eq!(slots(&scheduler), (2, 0, 2));
    time.advance(MINUTE);
    assert_eq!(slots(&scheduler), (0, 0, 0));
    assert_eq!(runs.get(), 3);
    end(&scheduler);
}

// RS-032
#[test]
fn a_strict_worker_runs_all_on_one_thread_in_order_and_never_two_at_a_time() {
    const TASKS: usize = 100_000;
    let scheduler = strict(4, TASKS);
    let _others = workers(&scheduler, 3);
    let worker = scheduler.create_worker();
    let seen = Arc::new(Mutex::new((Vec::with_capacity(TASKS), HashSet::new())));
    let inside = Arc::new(AtomicUsize::new(0));
    for n in 0..TASKS {
        let (seen, inside) = (Arc::clone(&seen), Arc::clone(&inside));
        let task = move || {
            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two at a time");
            let mut seen = seen.lock().unwrap();
            seen.0.push(n);
            seen.1.insert(thread::current().id());
            inside.fetch_sub(1, Ordering::SeqCst);
        };
        worker.schedule(task).unwrap();
    }
    end(&scheduler);
    let seen = seen.lock().unwrap();
    assert!(seen.0.iter().copied().eq(0..TASKS));
    assert_eq!(seen.1.len(), 1);
    assert_eq!(scheduler.stats().panicked, 0);
}

// RS-033
#[test]
fn blocking_direct_tasks_spread_over_as_many_threads_as_there_may_be() {
    let scheduler = elastic(4, 10);
    let (gate, threads) = (Gate::new(), Arc::new(Mutex::new(HashSet::new())));
    let handles: Vec<_> = (1..=8)
        .map(|n: usize| {
            let (gate, threads) = (gate.clone(), Arc::clone(&threads));
            let task = move || {
                threads.lock().unwrap().insert(thread::current().id());
                gate.pass();
            };
            let handle = scheduler.schedule(task).unwrap();
            assert_eq!(scheduler.slots(), n.min(4), "at submission");
            handle
        })
        .collect();
    assert_eq!(scheduler.queued(), 4);
    gate.open();
    handles.iter().for_each(ended);
    assert_eq!(threads.lock().unwrap().len(), 4);
    end(&scheduler);
}

// RS-035
#[test]
fn picks_and_releases_of_two_threads_leave_one_slot() {
    let scheduler = elastic(1, 10);
    let pick_and_release = || {
        for _ in rounds(100_000) {
            scheduler.create_worker().dispose();
            let stats = scheduler.stats();
            assert_eq!(stats.busy + stats.idle, stats.slots);
            assert!(stats.slots <= 1, "{stats:?}");
        }
    };
    together(pick_and_release, pick_and_release);
    ended(&scheduler.schedule(|| {}).unwrap());
    assert_eq!(slots(&scheduler), (1, 0, 1));
    end(&scheduler);
}

// RS-035, with slots that are used and evicted meanwhile.
#[test]
fn picks_racing_eviction_lose_no_task_and_no_slot() {
    let time = ManualClock::new();
    let scheduler = builder(1, 1000, &time).ttl(Duration::from_nanos(1)).build().unwrap();
    let ran = Counter::new();
    let stop = AtomicBool::new(false);
    let submitted = thread::scope(|s| {
        s.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                time.advance(Duration::from_nanos(1));
            }
        });
        let _stop = crate::support::SetOnDrop(&stop);
        rounds(20_000)
            .map(|_| {
                let ran = ran.clone();
                ended(&scheduler.schedule(move || ran.add()).unwrap());
                assert!(scheduler.slots() <= 1);
            })
            .count()
    });
    assert_eq!(ran.get(), submitted);
    time.advance(MINUTE);
    assert_eq!(slots(&scheduler), (0, 0, 0));
    end(&scheduler);
    assert_settled(&scheduler, submitted, 1000);
}

// RS-036
#[test]
fn slots_become_idle_after_refusals_and_the_end_of_the_work() {
    let scheduler = elastic(2, 10);
    let held = [hold(&scheduler), hold(&scheduler)];
    let queued: Vec<_> = (0..20).map(|_| scheduler.schedule(|| {}).unwrap()).collect();
    let refusals = [
        scheduler.schedule(|| {}).unwrap_err(),
        scheduler.schedule_after(MINUTE, || {}).unwrap_err(),
        scheduler.schedule_periodically(MINUTE, MINUTE, || {}).unwrap_err(),
    ];
    for refused in refusals {
        assert_eq!(refused.reason(), RejectReason::Saturated);
    }
    held.into_iter().for_each(Held::let_go);
    queued.iter().for_each(ended);
    eventually(|| scheduler.idle() == 2);
    assert_settled(&scheduler, 22, 20);
    assert_eq!(scheduler.stats().rejected, 3);
    end(&scheduler);
}

// RS-039: better than Reactor, where the task was both returned and kept.
#[test]
fn a_task_for_which_no_thread_starts_comes_back_and_does_not_stay() {
    let (starts, factory) = failing(|call| call == 0);
    let scheduler = builder(1, 10, &ManualClock::new()).thread_factory(factory).build().unwrap();
    let ran = Counter::new();
    let count = ran.clone();
    let refused = scheduler.schedule(move || count.add()).unwrap_err();
    assert_eq!(refused.reason(), RejectReason::SpawnFailed);
    let source = std::error::Error::source(&refused).expect("the reason of the system");
    assert_eq!(source.to_string(), "out of threads");
    let stats = scheduler.stats();
    assert_eq!((stats.submitted, stats.rejected, stats.queued, stats.busy), (0, 1, 0, 0), "{stats:?}");
    assert_eq!((stats.live_threads, stats.remaining_capacity), (0, 10));
    ended(&scheduler.schedule(|| {}).unwrap());
    assert_eq!((ran.get(), starts.load(Ordering::SeqCst)), (0, 2));
    refused.into_task().run();
    assert_eq!(ran.get(), 1);
    end(&scheduler);
}

// RS-039, through a worker, which remains usable and keeps its slot.
#[test]
fn a_worker_whose_thread_does_not_start_gives_the_task_back_and_goes_on() {
    let (_, factory) = failing(|call| call < 2);
    let scheduler = builder(1, 10, &ManualClock::new()).thread_factory(factory).build().unwrap();
    let worker = scheduler.create_worker();
    assert_eq!(worker.schedule(|| {}).unwrap_err().reason(), RejectReason::SpawnFailed);
    let series = worker.schedule_periodically(Duration::ZERO, MINUTE, || {}).unwrap_err();
    assert_eq!(series.reason(), RejectReason::SpawnFailed);
    assert_eq!((worker.queued(), scheduler.busy(), scheduler.remaining_capacity()), (0, 1, 10));
    thread_of(&worker);
    worker.dispose();
    end(&scheduler);
    assert_settled(&scheduler, 1, 10);
}

// RS-039: the second task relies on a thread that the first submitter is failing to start.
#[test]
fn a_task_queued_behind_a_thread_that_fails_to_start_still_runs() {
    let (knock, gate) = (Gate::new(), Gate::new());
    let (knocks, pass, calls) = (knock.clone(), gate.clone(), AtomicUsize::new(0));
    let factory = move |body| {
        if calls.fetch_add(1, Ordering::SeqCst) == 0 {
            knocks.open();
            pass.pass();
            return Err(std::io::Error::other("out of threads"));
        }
        start(body)
    };
    let scheduler = BoundedElasticScheduler::builder()
        .max_threads(1)
        .queue_capacity_per_thread(10)
        .thread_factory(factory)
        .build()
        .unwrap();
    let second = thread::scope(|s| {
        let first = s.spawn(|| scheduler.schedule(|| {}));
        knock.pass();
        let second = scheduler.schedule(|| {}).unwrap();
        gate.open();
        assert_eq!(first.join().unwrap().unwrap_err().reason(), RejectReason::SpawnFailed);
        second
    });
    ended(&second);
    end(&scheduler);
    assert_settled(&scheduler, 1, 10);
}

// RS-039: a factory that takes the body and drops it, at once or later, or panics.
#[test]
fn a_thread_factory_that_drops_the_body_or_panics_is_a_failed_start() {
    let calls = AtomicUsize::new(0);
    let factory = move |body| match calls.fetch_add(1, Ordering::SeqCst) {
        0 => {
            drop(body);
            Ok(thread::spawn(|| {}))
        }
        1 => crate::support::die("no threads today"),
        _ => start(body),
    };
    let scheduler = builder(1, 10, &ManualClock::new()).thread_factory(factory).build().unwrap();
    for _ in 0..2 {
        match scheduler.schedule(|| {}) {
            Err(refused) => assert_eq!(refused.reason(), RejectReason::SpawnFailed),
            Ok(taken) => panic!("no thread will run {taken:?}"),
        }
        assert_eq!((scheduler.live_threads(), scheduler.busy(), scheduler.queued()), (0, 0, 0));
    }
    ended(&scheduler.schedule(|| {}).unwrap());
    end(&scheduler);
    assert_settled(&scheduler, 1, 10);
}

// RS-040
#[test]
fn a_task_that_hops_onto_its_own_full_scheduler_twice_gets_there() {
    let scheduler = elastic(1, 10);
    let (tell, told) = mpsc::channel();
    let (first, second) = (scheduler.clone(), scheduler.clone());
    let hop = move || {
        let hop = move || drop(second.schedule(move || tell.send("there").unwrap()).unwrap());
        first.schedule(hop).unwrap();
    };
    scheduler.schedule(hop).unwrap();
    assert_eq!(told.recv_timeout(LONG), Ok("there"));
    end(&scheduler);
    assert_settled(&scheduler, 3, 10);
}

/// Schedules a task that schedules a task and waits for it, and so on, `depth` times. Counts the
/// waits that ended.
fn nest(scheduler: &BoundedElasticScheduler, depth: usize, done: &Counter) {
    if depth > 0 {
        let (inner, count) = (scheduler.clone(), done.clone());
        let task = scheduler.schedule(move || nest(&inner, depth - 1, &count)).unwrap();
        assert_eq!(task.wait(LONG), Ok(true));
        done.add();
    }
}

// RS-041: better than Reactor, where this never ends.
#[test]
fn a_task_that_waits_for_a_task_of_its_own_full_scheduler_runs_it_in_place() {
    for scheduler in [elastic(1, 10), strict(1, 10), crate::scheduling::per_task(1, 10)] {
        let done = Counter::new();
        nest(&scheduler, 6, &done);
        assert_eq!(done.get(), 6);
        eventually(|| scheduler.busy() == 0);
        assert_settled(&scheduler, 6, 10);
        end(&scheduler);
    }
}

// RS-041, for the head of a lane.
#[test]
fn a_task_that_waits_for_the_work_of_a_worker_of_its_own_full_scheduler_runs_it_in_place() {
    let scheduler = elastic(1, 10);
    let worker = scheduler.create_worker();
    let (tell, told) = mpsc::channel();
    let outer = scheduler.schedule(move || {
        let here = thread::current().id();
        let inner = worker.schedule(move || tell.send(thread::current().id() == here).unwrap()).unwrap();
        assert_eq!(inner.wait(LONG), Ok(true));
    });
    ended(&outer.unwrap());
    assert_eq!(told.recv(), Ok(true));
    end(&scheduler);
    assert_eq!(scheduler.stats().panicked, 0);
}

// RS-041, for work that becomes due while the only thread waits for it.
#[test]
fn a_task_that_waits_for_delayed_work_of_its_own_full_scheduler_runs_it_when_it_is_due() {
    let scheduler = BoundedElasticScheduler::builder().max_threads(1).build().unwrap();
    let (inner, (tell, told)) = (scheduler.clone(), mpsc::channel());
    let outer = scheduler.schedule(move || {
        let delayed = inner.schedule_after(SMALL, || {}).unwrap();
        tell.send(delayed.wait(LONG)).unwrap();
    });
    ended(&outer.unwrap());
    assert_eq!(told.recv(), Ok(Ok(true)));
    end(&scheduler);
}

// RS-041: work that runs in place is interrupted with its scheduler.
#[test]
fn a_task_that_runs_in_place_of_waiting_is_interrupted_by_the_end_of_its_scheduler() {
    let scheduler = elastic(1, 10);
    let (inner, running) = (scheduler.clone(), Gate::new());
    let (knock, (tell, told)) = (running.clone(), mpsc::channel());
    scheduler
        .schedule(move || {
            let nested = inner.schedule(move || {
                knock.open();
                tell.send(interrupt::sleep(LONG)).unwrap();
            });
            let _ = nested.unwrap().wait(LONG);
        })
        .unwrap();
    running.pass();
    scheduler.dispose();
    assert_eq!(told.recv_timeout(LONG), Ok(Err(interrupt::Interrupted)));
    end(&scheduler);
}

// RS-041: work that runs in place has its own interrupt flag and its own panic.
#[test]
fn a_task_that_runs_in_place_of_waiting_is_interrupted_and_panics_by_itself() {
    let scheduler = elastic(1, 10);
    let (inner, (pass_on, passed)) = (scheduler.clone(), mpsc::channel());
    let (running, (tell, told)) = (Gate::new(), mpsc::channel());
    let knock = running.clone();
    let outer = scheduler.schedule(move || {
        let sleeps = inner.schedule(move || {
            knock.open();
            assert_eq!(interrupt::sleep(LONG), Err(interrupt::Interrupted));
        });
        let (sleeps, dies) = (sleeps.unwrap(), inner.schedule(|| crate::support::die("alone")).unwrap());
        pass_on.send(sleeps.clone()).unwrap();
        tell.send((sleeps.wait(LONG), dies.wait(LONG), interrupt::is_interrupted())).unwrap();
    });
    running.pass();
    assert!(passed.recv().unwrap().dispose());
    assert_eq!(told.recv_timeout(LONG), Ok((Ok(true), Ok(true), false)));
    ended(&outer.unwrap());
    end(&scheduler);
    assert_settled(&scheduler, 3, 10);
    assert_eq!((scheduler.stats().completed, scheduler.stats().panicked), (2, 1));
}

// RS-041: a task that waits for the end of its own scheduler does not wait forever.
#[test]
fn a_task_that_ends_its_own_scheduler_in_good_order_does_not_wait_for_itself() {
    let scheduler = elastic(1, 10);
    let (inner, (tell, told)) = (scheduler.clone(), mpsc::channel());
    scheduler.schedule(move || tell.send(inner.dispose_gracefully(LONG)).unwrap()).unwrap();
    assert_eq!(told.recv_timeout(LONG), Ok(Ok(false)));
    end(&scheduler);
}

// RS-042: thirty hops of ten elements over three threads.
#[test]
fn a_pipeline_of_many_workers_completes_on_few_threads_and_shrinks_to_nothing() {
    const HOPS: usize = 30;
    const ELEMENTS: usize = 10;
    let time = ManualClock::new();
    let (starts, factory) = failing(|_| false);
    let scheduler = builder(3, 10, &time).thread_factory(factory).build().unwrap();
    let stages: Arc<Vec<Worker>> = Arc::new(workers(&scheduler, HOPS));
    let (tell, told) = mpsc::channel();
    fn hop(stages: &Arc<Vec<Worker>>, stage: usize, element: usize, tell: mpsc::Sender<(usize, usize)>) {
        let next = Arc::clone(stages);
        let task = move || match stage + 1 {
            HOPS => tell.send((element, stage)).unwrap(),
            after => hop(&next, after, element, tell),
        };
        stages[stage].schedule(task).unwrap();
    }
    for element in 0..ELEMENTS {
        hop(&stages, 0, element, tell.clone());
        // Like a pipeline with demand: the work in flight never exceeds the capacity of one slot.
        assert_eq!(told.recv_timeout(LONG), Ok((element, HOPS - 1)));
    }
    assert!(starts.load(Ordering::SeqCst) <= 3);
    assert_eq!(scheduler.slots(), 3);
    stages.iter().for_each(Worker::dispose);
    eventually(|| scheduler.busy() == 0);
    time.advance(MINUTE);
    assert_eq!(slots(&scheduler), (0, 0, 0));
    assert_eq!(scheduler.stats().rejected, 0);
    end(&scheduler);
    assert_settled(&scheduler, HOPS * ELEMENTS, 30);
}

// RS-043
#[test]
fn sleeping_tasks_on_one_thread_end_when_their_workers_are_disposed() {
    let scheduler = elastic(1, 10);
    let (completed, running) = (Counter::new(), Gate::new());
    let sleepers: Vec<Worker> = (0..5)
        .map(|_| {
            let (worker, completed, knock) = (scheduler.create_worker(), completed.clone(), running.clone());
            let sleep = move || {
                knock.open();
                if interrupt::sleep(LONG).is_ok() {
                    completed.add();
                }
            };
            worker.schedule(sleep).unwrap();
            worker
        })
        .collect();
    running.pass();
    // In reverse order: otherwise the thread would continue with the next sleeper.
    sleepers.iter().rev().for_each(Worker::dispose);
    eventually(|| scheduler.busy() == 0);
    assert_eq!(completed.get(), 0);
    let stats = scheduler.stats();
    assert_eq!((stats.completed, stats.cancelled), (1, 4), "one was running, and returned");
    end(&scheduler);
    assert_settled(&scheduler, 5, 10);
}

// RS-044
#[test]
fn a_scheduler_goes_on_after_all_of_its_sleeping_work_was_cancelled() {
    let scheduler = elastic(3, 100);
    let running = Counter::new();
    let sleepers: Vec<_> = (0..50)
        .map(|_| {
            let running = running.clone();
            let sleep = move || {
                running.add();
                let _ = interrupt::sleep(LONG);
            };
            scheduler.schedule(sleep).unwrap()
        })
        .collect();
    eventually(|| running.get() == 3);
    assert!(sleepers.iter().rev().all(Disposable::dispose), "first those that wait, then those that run");
    ended(&scheduler.schedule(|| {}).unwrap());
    sleepers.iter().for_each(ended);
    end(&scheduler);
    assert_settled(&scheduler, 51, 300);
}

// RS-044: an interrupt for one task does not reach the next one on its thread.
#[test]
fn an_interrupt_of_a_cancelled_task_does_not_reach_the_next() {
    let scheduler = elastic(1, 10);
    for _ in rounds(500) {
        let running = Gate::new();
        let knock = running.clone();
        let first = scheduler.schedule(move || knock.open()).unwrap();
        running.pass();
        first.dispose();
        let (tell, told) = mpsc::channel();
        let next = scheduler.schedule(move || tell.send(interrupt::is_interrupted()).unwrap()).unwrap();
        ended(&next);
        assert_eq!(told.recv(), Ok(false));
    }
    end(&scheduler);
}

#[test]
fn a_handle_that_waits_too_short_says_so() {
    let scheduler = elastic(1, 1);
    let held = hold(&scheduler);
    assert_eq!(held.handle.wait(SHORT), Ok(false));
    held.let_go();
    end(&scheduler);
}
