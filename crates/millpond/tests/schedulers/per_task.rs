//! Bounded-elastic with a fresh thread for every task.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use crate::scheduling::{
    MINUTE, assert_settled, builder, end, ended, hold, hold_lane, per_task, start, thread_of,
};
use crate::support::{Counter, Gate, LONG, Rng, die, eventually, threads_named};
use millpond::interrupt::{self, Interrupted};
use millpond::schedulers::{BoundedElasticScheduler, Disposable, Scheduler, SchedulerExt, Worker};
use millpond::{ManualClock, RejectReason};

fn slots(scheduler: &BoundedElasticScheduler) -> (usize, usize, usize) {
    let stats = scheduler.stats();
    (stats.slots, stats.busy, stats.idle)
}

fn count(counter: &Counter) -> impl FnMut() + Send + 'static {
    let counter = counter.clone();
    move || counter.add()
}

#[test]
fn every_task_has_a_fresh_thread_also_those_of_one_worker() {
    let scheduler = per_task(2, 100);
    let worker = scheduler.create_worker();
    let threads: HashSet<_> = (0..10).map(|_| thread_of(&worker)).collect();
    assert_eq!(threads.len(), 10);
    // Including tasks that were queued.
    let held = hold_lane(&worker);
    let seen = Arc::new(Mutex::new(HashSet::new()));
    for _ in 0..10 {
        let seen = Arc::clone(&seen);
        let note = move || assert!(seen.lock().unwrap().insert(thread::current().id()));
        worker.schedule(note).unwrap();
    }
    held.let_go();
    end(&scheduler);
    assert_eq!(seen.lock().unwrap().len(), 10);
    assert_settled(&scheduler, 21, 200);
}

// RS-130
#[test]
fn a_slot_goes_with_the_last_that_holds_it() {
    let scheduler = per_task(4, 10);
    let worker = scheduler.create_worker();
    assert_eq!((slots(&scheduler), scheduler.live_threads()), ((1, 1, 0), 0));
    thread_of(&worker);
    assert_eq!(slots(&scheduler), (1, 1, 0));
    let held = hold(&scheduler);
    assert_eq!(slots(&scheduler), (2, 2, 0));
    held.let_go();
    assert_eq!(slots(&scheduler), (1, 1, 0), "no idle ones");
    worker.dispose();
    assert_eq!(slots(&scheduler), (0, 0, 0));
    eventually(|| scheduler.live_threads() == 0);
    end(&scheduler);
}

// RS-130: between two tasks there is no thread, however long the worker lives.
#[test]
fn a_worker_between_two_tasks_has_no_thread() {
    let scheduler = builder(1, 10, &ManualClock::new()).thread_per_task(true).name("between-tasks").build();
    let scheduler = scheduler.unwrap();
    let worker = scheduler.create_worker();
    for _ in 0..3 {
        thread_of(&worker);
        eventually(|| scheduler.live_threads() == 0);
        eventually(|| threads_named("between-tasks").is_none_or(|threads| threads == 0));
        assert_eq!(scheduler.busy(), 1);
    }
    end(&scheduler);
}

// RS-130: the thread that ends one periodic task finds cancelled ones in its queue. With the last
// of them the slot may be freed while the thread still examines it.
#[test]
fn a_slot_whose_last_holders_wait_in_line_for_nothing_is_free() {
    for scheduler in [per_task(1, 10), crate::scheduling::elastic(1, 10), crate::scheduling::strict(1, 10)] {
        let (gate, running) = (Gate::new(), Gate::new());
        let (pass, knock) = (gate.clone(), running.clone());
        let body = move || {
            knock.open();
            pass.pass();
        };
        let runs = scheduler.schedule_periodically(Duration::ZERO, MINUTE, body).unwrap();
        running.pass();
        let waits = scheduler.schedule_periodically(Duration::ZERO, MINUTE, || {}).unwrap();
        let (dropped, disposed) = (scheduler.create_worker(), scheduler.create_worker());
        let cancelled = dropped.schedule(|| {}).unwrap();
        disposed.schedule(|| {}).unwrap();
        assert!(waits.dispose() && cancelled.dispose() && runs.dispose());
        drop(dropped);
        disposed.dispose();
        gate.open();
        ended(&runs);
        eventually(|| scheduler.busy() == 0);
        ended(&scheduler.schedule(|| {}).unwrap());
        end(&scheduler);
        assert_settled(&scheduler, 5, 10);
    }
}

// RS-131
#[test]
fn twice_as_many_blocking_tasks_as_threads_run_in_two_waves() {
    const CAP: usize = 8;
    let scheduler = per_task(CAP, 100);
    let gates = [Gate::new(), Gate::new()];
    let running = Counter::new();
    let order = Arc::new(Mutex::new(0));
    let tasks: Vec<_> = (0..2 * CAP)
        .map(|_| {
            let (gates, running, order) = (gates.clone(), running.clone(), Arc::clone(&order));
            let task = move || {
                let mut started = order.lock().unwrap();
                let wave = *started / CAP;
                *started += 1;
                drop(started);
                running.add();
                gates[wave].pass();
            };
            scheduler.schedule(task).unwrap()
        })
        .collect();
    assert_eq!((slots(&scheduler), scheduler.queued()), ((CAP, CAP, 0), CAP as u64));
    eventually(|| running.get() == CAP);
    gates[0].open();
    eventually(|| running.get() == 2 * CAP); // all at once: no task can pass the second gate
    gates[1].open();
    tasks.iter().for_each(ended);
    assert_eq!(slots(&scheduler), (0, 0, 0));
    end(&scheduler);
}

// RS-131
#[test]
fn workers_get_new_slots_below_the_cap_and_share_evenly_at_the_cap() {
    let scheduler = per_task(3, 100);
    let workers: Vec<Worker> = (1..=9)
        .map(|n: usize| {
            let worker = scheduler.create_worker();
            assert_eq!(scheduler.slots(), n.min(3));
            worker
        })
        .collect();
    // Three on each slot: a slot is freed with the last of its three.
    workers[..3].iter().for_each(Worker::dispose);
    workers[3..6].iter().for_each(Worker::dispose);
    assert_eq!(slots(&scheduler), (3, 3, 0));
    for (n, worker) in workers[6..].iter().enumerate() {
        worker.dispose();
        assert_eq!(scheduler.slots(), 2 - n);
    }
    end(&scheduler);
}

// RS-132
#[test]
fn the_bound_is_exact_from_the_first_task_on() {
    let scheduler = per_task(1, 2);
    let gate = Gate::new();
    let tasks: Vec<_> = (0..3)
        .map(|_| {
            let gate = gate.clone();
            scheduler.schedule(move || gate.pass()).unwrap() // the first does not wait
        })
        .collect();
    let refused = scheduler.schedule(|| {}).unwrap_err();
    assert_eq!(refused.reason(), RejectReason::Saturated);
    assert!(refused.to_string().contains("3 tasks would wait, but at most 2 may"), "{refused}");
    gate.open();
    tasks.iter().for_each(ended);
    end(&scheduler);
    assert_settled(&scheduler, 3, 2);
}

// RS-133
#[test]
fn room_comes_back_with_what_is_cancelled_however_it_was_scheduled() {
    for by_worker in [true, false] {
        let scheduler = per_task(2, 1000);
        let worker = scheduler.create_worker();
        let held = hold_lane(&worker);
        let ran = Counter::new();
        let tasks: Vec<_> = (0..1000)
            .map(|n| match n % 3 {
                0 => worker.schedule(count(&ran)).unwrap(),
                1 => worker.schedule_after(MINUTE, count(&ran)).unwrap(),
                _ => worker.schedule_periodically(MINUTE, MINUTE, count(&ran)).unwrap(),
            })
            .collect();
        assert_eq!((scheduler.remaining_capacity(), worker.queued()), (1000, 1000));
        assert_eq!(worker.schedule(|| {}).unwrap_err().reason(), RejectReason::Saturated);
        if by_worker {
            worker.dispose();
        } else {
            assert!(tasks.iter().all(Disposable::dispose));
        }
        assert_eq!((scheduler.remaining_capacity(), worker.queued()), (2000, 0));
        held.let_go();
        worker.dispose();
        end(&scheduler);
        assert_eq!(ran.get(), 0);
        assert_settled(&scheduler, 1001, 2000);
    }
}

// RS-134: the timer starts the threads for delayed tasks, which may take long.
#[test]
fn work_without_delay_does_not_pass_through_the_timer() {
    let time = ManualClock::new();
    let (knock, gate) = (Gate::new(), Gate::new());
    let (knocks, pass, main) = (knock.clone(), gate.clone(), thread::current().id());
    let slow_for_others = move |body| {
        if thread::current().id() != main {
            knocks.open();
            pass.pass();
        }
        start(body)
    };
    let scheduler =
        builder(2, 10, &time).thread_per_task(true).thread_factory(slow_for_others).build().unwrap();
    let worker = scheduler.create_worker();
    let delayed = scheduler.schedule_after(MINUTE, || {}).unwrap();
    thread::scope(|s| {
        s.spawn(|| time.advance(MINUTE));
        knock.pass(); // the timer is blocked
        ended(&worker.schedule_after(Duration::ZERO, || {}).unwrap());
        assert!(!delayed.is_disposed());
        gate.open();
    });
    ended(&delayed);
    let later = worker.schedule_after(MINUTE, || {}).unwrap();
    assert!(!later.is_disposed());
    time.advance(MINUTE);
    ended(&later);
    end(&scheduler);
}

// RS-135
#[test]
fn short_lived_workers_do_not_disturb_the_tasks_of_another_in_the_same_slot() {
    const TASKS: usize = 100;
    let time = ManualClock::new();
    let scheduler = builder(1, 10_000, &time).thread_per_task(true).build().unwrap();
    let steady = scheduler.create_worker();
    let (ran, of_others) = (Counter::new(), Counter::new());
    let mut tasks = Vec::new();
    for n in 0..TASKS {
        tasks.push(match n % 2 {
            0 => steady.schedule(count(&ran)).unwrap(),
            _ => steady.schedule_after(MINUTE, count(&ran)).unwrap(),
        });
        let short_lived = scheduler.create_worker();
        short_lived.schedule(count(&of_others)).unwrap();
        short_lived.schedule_after(MINUTE, count(&of_others)).unwrap();
        short_lived.dispose();
    }
    assert_eq!(scheduler.slots(), 1);
    time.advance(MINUTE);
    tasks.iter().for_each(ended);
    assert_eq!(ran.get(), TASKS);
    assert!(!tasks.iter().any(Disposable::is_cancelled));
    assert!(of_others.get() <= TASKS, "what was delayed never ran");
    steady.dispose();
    end(&scheduler);
    assert_settled(&scheduler, 3 * TASKS, 10_000);
}

// RS-139: better than Reactor, which added an entry at every tick.
#[test]
fn a_series_slower_than_its_period_has_one_entry_at_most() {
    let time = ManualClock::new();
    let scheduler = builder(1, 10, &time).thread_per_task(true).build().unwrap();
    let worker = scheduler.create_worker();
    let (gate, running, runs) = (Gate::new(), Gate::new(), Counter::new());
    let (pass, knock, counts) = (gate.clone(), running.clone(), runs.clone());
    let slow = move || {
        counts.add();
        knock.open();
        pass.pass();
    };
    let period = Duration::from_millis(5);
    let series = worker.schedule_periodically(Duration::ZERO, period, slow).unwrap();
    running.pass();
    for _ in 0..100 {
        time.advance(period);
        assert_eq!((worker.queued(), scheduler.queued(), scheduler.remaining_capacity()), (0, 0, 9));
    }
    assert!(series.dispose());
    gate.open();
    ended(&series);
    assert_eq!(runs.get(), 1);
    worker.dispose();
    end(&scheduler);
    assert_settled(&scheduler, 1, 10);
}

// RS-141
#[test]
fn a_series_without_a_pause_survives_a_run_that_panics() {
    let scheduler = per_task(1, 10);
    let runs = Counter::new();
    let counts = runs.clone();
    let dies = move || {
        counts.add();
        die("each time");
    };
    let series = scheduler.schedule_periodically(Duration::ZERO, Duration::ZERO, dies).unwrap();
    eventually(|| runs.get() > 10);
    assert!(series.dispose());
    end(&scheduler);
    let stats = scheduler.stats();
    assert_eq!((stats.panicked, stats.completed), (runs.get() as u64, 0));
    assert_eq!(stats.submitted, stats.panicked + stats.cancelled, "{stats:?}");
}

// RS-142, for all kinds of threads.
#[test]
fn a_task_that_cancels_itself_is_not_interrupted_and_one_cancelled_by_another_is() {
    for scheduler in [per_task(2, 10), crate::scheduling::elastic(2, 10)] {
        let (own, (tell, told)) = (Arc::new(Mutex::new(None::<Disposable>)), mpsc::channel());
        let (mine, ready) = (Arc::clone(&own), Gate::new());
        let wait = ready.clone();
        let itself = scheduler.schedule(move || {
            wait.pass();
            let disposed = mine.lock().unwrap().as_ref().unwrap().dispose();
            tell.send((disposed, interrupt::is_interrupted())).unwrap();
        });
        *own.lock().unwrap() = Some(itself.unwrap());
        ready.open();
        assert_eq!(told.recv_timeout(LONG), Ok((true, false)));

        let worker = scheduler.create_worker();
        let (running, (tell, told)) = (Gate::new(), mpsc::channel());
        let knock = running.clone();
        let by_another = worker.schedule(move || {
            knock.open();
            tell.send(interrupt::sleep(LONG)).unwrap();
        });
        running.pass();
        assert!(by_another.unwrap().dispose());
        assert_eq!(told.recv_timeout(LONG), Ok(Err(Interrupted)));
        worker.dispose();
        end(&scheduler);
    }
}

// RS-142: a task that disposes its own worker is not interrupted.
#[test]
fn a_task_that_disposes_its_own_worker_is_not_interrupted() {
    for scheduler in [per_task(2, 10), crate::scheduling::elastic(2, 10)] {
        let worker = scheduler.create_worker();
        let (own, (tell, told)) = (worker.clone(), mpsc::channel());
        let task = worker.schedule(move || {
            own.dispose();
            tell.send(interrupt::is_interrupted()).unwrap();
        });
        assert_eq!(told.recv_timeout(LONG), Ok(false));
        ended(&task.unwrap());
        assert_eq!(scheduler.busy(), 0);
        end(&scheduler);
    }
}

// RS-143: a smaller number. Here periodic tasks end with the scheduler, so each runs once before.
#[test]
fn an_end_in_good_order_runs_all_that_was_accepted() {
    const LANES: usize = 20;
    const TASKS: usize = 20;
    let time = ManualClock::new();
    let scheduler = builder(LANES, 1000, &time).thread_per_task(true).build().unwrap();
    let (once, delayed) = (Counter::new(), Counter::new());
    let series: Vec<Counter> = (0..LANES).map(|_| Counter::new()).collect();
    let workers: Vec<Worker> = (0..LANES).map(|_| scheduler.create_worker()).collect();
    for (worker, runs) in workers.iter().zip(&series) {
        worker.schedule_periodically(Duration::ZERO, Duration::ZERO, count(runs)).unwrap();
    }
    eventually(|| series.iter().all(|runs| runs.get() > 0));
    for worker in &workers {
        for _ in 0..TASKS {
            worker.schedule(count(&once)).unwrap();
            worker.schedule_after(MINUTE, count(&delayed)).unwrap();
        }
    }
    assert_eq!(scheduler.dispose_gracefully(Duration::ZERO), Ok(false));
    time.advance(MINUTE);
    end(&scheduler);
    assert_eq!((once.get(), delayed.get()), (LANES * TASKS, LANES * TASKS));
    let stats = scheduler.stats();
    assert_eq!(stats.submitted, stats.completed + stats.cancelled, "{stats:?}");
    assert_eq!((stats.live_threads, stats.slots, stats.queued), (0, 0, 0), "{stats:?}");
}

// RS-145: better than Reactor, which reported the capacity as the reason.
#[test]
fn after_the_end_a_task_is_refused_because_of_the_end() {
    let scheduler = per_task(2, 10);
    let worker = scheduler.create_worker();
    scheduler.dispose();
    for refused in [
        scheduler.schedule(|| {}).unwrap_err(),
        worker.schedule(|| {}).unwrap_err(),
        scheduler.create_worker().schedule(|| {}).unwrap_err(),
    ] {
        assert_eq!(refused.reason(), RejectReason::Shutdown);
    }
    assert_eq!(
        scheduler.to_string(),
        r#"loomBoundedElastic("elastic",maxThreads=2,maxTaskQueuedPerThread=10)"#
    );
    end(&scheduler);
}

// A task is retried if no fresh thread can be started for it after its predecessor.
#[test]
fn a_waiting_task_for_which_no_thread_starts_is_tried_again() {
    let time = ManualClock::new();
    let (calls, factory) = crate::scheduling::failing(|call| (1..4).contains(&call));
    let scheduler = builder(1, 10, &time).thread_per_task(true).thread_factory(factory).build().unwrap();
    let held = hold(&scheduler);
    let waits = [scheduler.schedule(|| {}).unwrap(), scheduler.schedule(|| {}).unwrap()];
    held.let_go();
    for call in 2..=4 {
        eventually(|| calls.load(std::sync::atomic::Ordering::SeqCst) >= call);
        assert!(!waits[0].is_disposed());
        eventually(|| scheduler.live_threads() == 0);
        // The retry is set shortly after the failed start.
        eventually(|| {
            time.advance(MINUTE);
            calls.load(std::sync::atomic::Ordering::SeqCst) > call
        });
    }
    waits.iter().for_each(ended);
    end(&scheduler);
    assert_settled(&scheduler, 3, 10);
}

#[test]
fn many_short_tasks_of_many_threads_are_all_accounted_for() {
    let scheduler = per_task(4, 10_000);
    let ran = Counter::new();
    let accepted = Counter::new();
    thread::scope(|s| {
        let mut rng = Rng::new();
        for _ in 0..3 {
            let mut rng = rng.fork();
            let (scheduler, ran, accepted) = (&scheduler, &ran, &accepted);
            s.spawn(move || {
                for _ in 0..100 {
                    let task = scheduler.schedule(count(ran)).unwrap();
                    accepted.add();
                    if rng.once_in(4) {
                        task.dispose();
                    }
                }
            });
        }
    });
    end(&scheduler);
    assert_settled(&scheduler, accepted.get(), 40_000);
    assert!(ran.get() as u64 >= scheduler.stats().completed);
}
