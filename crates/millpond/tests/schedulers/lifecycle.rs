//! The end of schedulers: forceful, graceful, as a future, by dropping the last handle, and in
//! races.

use std::sync::{Arc, mpsc};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Duration;

use crate::scheduling::{
    EndsOnDrop, Held, MINUTE, assert_settled, block_on, builder, elastic, end, ended, hold, hold_lane,
    per_task, poll_once, strict,
};
use crate::support::{
    Counter, Gate, LONG, Rng, SHORT, await_end, block, block_elsewhere, eventually, interrupt_myself, rounds,
    threads_named, together,
};
use millpond::interrupt::{self, Interrupted};
use millpond::schedulers::{self, Disposable, Scheduler, SchedulerExt};
use millpond::{JoinError, ManualClock, RejectReason, TaskOf, WorkerBody, executors};

/// One scheduler of each kind with its own threads.
fn kinds(name: &str) -> Vec<Arc<dyn Scheduler>> {
    vec![
        schedulers::new_single(name).unwrap(),
        schedulers::new_parallel(2, name).unwrap(),
        schedulers::new_bounded_elastic(2, 1000, name, MINUTE).unwrap(),
        Arc::new(strict(2, 1000)),
        Arc::new(per_task(2, 1000)),
    ]
}

fn count(counter: &Counter) -> impl FnMut() + Send + 'static {
    let counter = counter.clone();
    move || counter.add()
}

// RS-089, RS-092: there is no separate start: a scheduler is live from the beginning, and remains
// ended.
#[test]
fn a_scheduler_is_live_from_the_beginning_and_takes_nothing_after_its_end() {
    for scheduler in kinds("live") {
        assert!(!scheduler.is_disposed() && !scheduler.stats().disposed);
        assert_eq!(scheduler.stats().live_threads, 0);
        ended(&scheduler.schedule(|| {}).unwrap());
        end(&scheduler);
        assert!(scheduler.is_disposed() && scheduler.stats().disposed);
        assert_eq!(scheduler.schedule(|| {}).unwrap_err().reason(), RejectReason::Shutdown);
        assert!(scheduler.create_worker().is_disposed());
    }
}

// RS-093: better than Reactor, where some kinds were revived.
#[test]
fn a_scheduler_disposed_before_its_first_use_is_disposed_for_good() {
    for scheduler in kinds("unused") {
        scheduler.dispose();
        assert!(scheduler.is_disposed());
        for refused in [
            scheduler.schedule(|| {}).unwrap_err(),
            scheduler.schedule_after(MINUTE, || {}).unwrap_err(),
            scheduler.schedule_periodically(MINUTE, MINUTE, || {}).unwrap_err(),
            scheduler.create_worker().schedule(|| {}).unwrap_err(),
        ] {
            assert_eq!(refused.reason(), RejectReason::Shutdown);
        }
        end(&scheduler);
        assert_eq!(scheduler.stats().live_threads, 0);
    }
}

// RS-094
#[test]
fn disposal_interrupts_what_runs_cancels_what_waits_and_refuses_the_rest() {
    for scheduler in kinds("by-force") {
        let worker = scheduler.create_worker();
        let (running, (tell, told)) = (Gate::new(), mpsc::channel());
        let knock = running.clone();
        let runs = worker.schedule(move || {
            knock.open();
            tell.send(interrupt::sleep(LONG)).unwrap();
        });
        running.pass();
        let (ran, dropped) = (Counter::new(), Counter::new());
        let task = || {
            let (count, captured) = (ran.clone(), dropped.on_drop());
            move || {
                let _captured = &captured;
                count.add();
            }
        };
        let mut waiting = vec![
            worker.schedule(task()).unwrap(),
            worker.schedule_after(MINUTE, task()).unwrap(),
            worker.schedule_periodically(MINUTE, MINUTE, task()).unwrap(),
            scheduler.schedule_after(MINUTE, task()).unwrap(),
            scheduler.schedule_periodically(MINUTE, MINUTE, task()).unwrap(),
        ];
        waiting.push(runs.unwrap());
        let before = scheduler.stats();
        assert_eq!((before.submitted, before.queued), (6, 5));
        scheduler.dispose();
        assert_eq!(told.recv_timeout(LONG), Ok(Err(Interrupted)));
        assert!(waiting.iter().all(Disposable::is_cancelled));
        assert_eq!((dropped.get(), ran.get()), (5, 0), "what they captured is gone");
        assert!(worker.is_disposed());
        assert_eq!(worker.schedule(|| {}).unwrap_err().reason(), RejectReason::Shutdown);
        assert_eq!(scheduler.schedule(|| {}).unwrap_err().reason(), RejectReason::Shutdown);
        end(&scheduler);
        let after = scheduler.stats();
        scheduler.dispose();
        worker.dispose();
        assert_eq!(scheduler.stats(), after, "a second call changes nothing");
        assert_eq!((after.completed, after.cancelled, after.queued, after.busy), (1, 5, 0, 0), "{after:?}");
    }
}

// RS-094: a task that disposes its own scheduler is not interrupted, but ends as cancelled.
#[test]
fn a_task_that_disposes_its_own_scheduler_is_not_interrupted() {
    for scheduler in kinds("suicide") {
        let (inner, (tell, told)) = (Arc::clone(&scheduler), mpsc::channel());
        let task = move || {
            inner.dispose();
            tell.send(interrupt::is_interrupted()).unwrap();
        };
        scheduler.schedule(task).unwrap();
        assert_eq!(told.recv_timeout(LONG), Ok(false));
        end(&scheduler);
    }
}

// RS-094: a thread that joins a discarded task does not wait forever.
#[test]
fn handles_of_tasks_that_are_thrown_away_resolve() {
    for scheduler in kinds("handles") {
        let held: Vec<Held> = (0..scheduler.stats().max_threads).map(|_| hold(&scheduler)).collect();
        let joined = |delay| {
            let (task, handle) = TaskOf::new(|| 42).into_parts();
            scheduler.schedule_task_after(delay, task).unwrap();
            handle
        };
        let mut handles = [joined(Duration::ZERO), joined(MINUTE)];
        scheduler.dispose();
        for handle in &mut handles {
            let outcome = handle.join_timeout(LONG).expect("it resolves");
            assert!(matches!(outcome, Err(JoinError::Abandoned | JoinError::Cancelled)), "{outcome:?}");
        }
        held.into_iter().for_each(Held::let_go);
        end(&scheduler);
    }
}

// RS-097
#[test]
fn an_end_in_good_order_begins_at_once_and_lets_run_what_was_accepted() {
    for scheduler in kinds("graceful") {
        let worker = scheduler.create_worker();
        let (gate, running, (tell, told)) = (Gate::new(), Gate::new(), mpsc::channel());
        let (pass, knock) = (gate.clone(), running.clone());
        let runs = worker.schedule(move || {
            knock.open();
            pass.pass();
            tell.send(interrupt::is_interrupted()).unwrap();
        });
        running.pass();
        let ran = Counter::new();
        for _ in 0..5 {
            worker.schedule(count(&ran)).unwrap();
            scheduler.schedule(count(&ran)).unwrap();
        }
        assert_eq!(scheduler.dispose_gracefully(Duration::ZERO), Ok(false));
        assert!(scheduler.is_disposed());
        assert_eq!(scheduler.schedule(|| {}).unwrap_err().reason(), RejectReason::Shutdown);
        assert_eq!(worker.schedule(|| {}).unwrap_err().reason(), RejectReason::Shutdown);
        assert!(!runs.unwrap().is_cancelled());
        gate.open();
        end(&scheduler);
        assert_eq!((told.try_recv(), ran.get()), (Ok(false), 10));
        let stats = scheduler.stats();
        assert_eq!((stats.completed, stats.queued, stats.live_threads), (11, 0, 0), "{stats:?}");
    }
}

// RS-097: delayed one-shots run when they are due, and periodic tasks end.
#[test]
fn an_end_in_good_order_waits_for_delayed_work_and_ends_series() {
    let time = ManualClock::new();
    let scheduler = builder(2, 10, &time).build().unwrap();
    let worker = scheduler.create_worker();
    let (once, runs) = (Counter::new(), Counter::new());
    let delayed = scheduler.schedule_after(MINUTE, count(&once)).unwrap();
    worker.schedule_after(MINUTE, count(&once)).unwrap();
    let series = [
        scheduler.schedule_periodically(MINUTE, MINUTE, count(&runs)).unwrap(),
        worker.schedule_periodically(MINUTE, MINUTE, count(&runs)).unwrap(),
    ];
    assert_eq!(scheduler.dispose_gracefully(Duration::ZERO), Ok(false));
    assert!(series.iter().all(Disposable::is_cancelled));
    assert!(!delayed.is_disposed());
    assert_eq!(scheduler.queued(), 2);
    assert_eq!(scheduler.dispose_gracefully(SHORT), Ok(false), "their time has not come");
    time.advance(MINUTE);
    end(&scheduler);
    assert_eq!((once.get(), runs.get()), (2, 0));
    assert_settled(&scheduler, 4, 20);
    assert_eq!((scheduler.slots(), scheduler.live_threads()), (0, 0));
}

// RS-097: a periodic task that is running ends after this run.
#[test]
fn a_run_of_a_series_that_is_under_way_when_the_end_begins_is_its_last() {
    let scheduler = elastic(1, 10);
    let (gate, running, runs) = (Gate::new(), Gate::new(), Counter::new());
    let (pass, knock, counts) = (gate.clone(), running.clone(), runs.clone());
    let body = move || {
        counts.add();
        knock.open();
        pass.pass();
        assert!(!interrupt::is_interrupted());
    };
    let series = scheduler.schedule_periodically(Duration::ZERO, Duration::ZERO, body).unwrap();
    running.pass();
    assert_eq!(scheduler.dispose_gracefully(Duration::ZERO), Ok(false));
    assert!(series.is_disposed(), "no further run will start");
    assert_eq!(series.wait(Duration::ZERO), Ok(false), "its last one is under way");
    gate.open();
    end(&scheduler);
    ended(&series);
    assert_eq!((runs.get(), scheduler.stats().panicked), (1, 0));
}

// RS-097: the forceful end may come after the graceful one has begun.
#[test]
fn a_forceful_end_cuts_a_graceful_one_short() {
    for scheduler in kinds("cut-short") {
        let held = hold(&scheduler);
        let worker = scheduler.create_worker();
        let waiting =
            [worker.schedule_after(MINUTE, || {}).unwrap(), scheduler.schedule_after(MINUTE, || {}).unwrap()];
        assert_eq!(scheduler.dispose_gracefully(Duration::ZERO), Ok(false));
        assert!(!waiting.iter().any(Disposable::is_cancelled));
        scheduler.dispose();
        assert!(waiting.iter().all(Disposable::is_cancelled));
        assert!(held.handle.is_cancelled());
        held.let_go();
        end(&scheduler);
    }
}

// RS-099
#[test]
fn those_who_wait_too_short_for_the_end_may_wait_again_and_share_one_end() {
    let scheduler = elastic(2, 10);
    let held = hold(&scheduler);
    thread::scope(|s| {
        for _ in 0..10 {
            s.spawn(|| assert_eq!(scheduler.dispose_gracefully(SHORT), Ok(false)));
        }
    });
    let waiting: Vec<_> = thread::scope(|s| {
        let waiting: Vec<_> = (0..4).map(|_| block(s, || scheduler.dispose_gracefully(LONG))).collect();
        assert!(!waiting.iter().any(|waiting| waiting.is_finished()));
        held.let_go();
        waiting.into_iter().map(|waiting| waiting.join()).collect()
    });
    assert_eq!(waiting, [Ok(true); 4]);
    assert_eq!(scheduler.dispose_gracefully(Duration::ZERO), Ok(true), "over is over");
}

// RS-099: waiting for the end can be interrupted, and the end continues.
#[test]
fn waiting_for_the_end_is_interruptible() {
    let scheduler = elastic(1, 10);
    let held = hold(&scheduler);
    thread::scope(|s| {
        let waits = block(s, || scheduler.dispose_gracefully(LONG));
        waits.interrupt();
        assert_eq!(waits.join(), Err(Interrupted));
    });
    assert!(scheduler.is_disposed());
    held.let_go();
    end(&scheduler);
    interrupt_myself();
    assert_eq!(scheduler.dispose_gracefully(LONG), Ok(true), "the end wins over a pending interrupt");
    assert!(interrupt::interrupted());
}

// RS-099: the same for a single task.
#[test]
fn waiting_for_a_task_is_interruptible() {
    let scheduler = elastic(1, 10);
    let held = hold(&scheduler);
    thread::scope(|s| {
        let waits = block(s, || held.handle.wait(LONG));
        waits.interrupt();
        assert_eq!(waits.join(), Err(Interrupted));
    });
    held.let_go();
    end(&scheduler);
}

// RS-101: better than Reactor, which polled for the end.
#[test]
fn an_idle_scheduler_ends_at_once_and_an_idle_worker_does_not_hold_it_back() {
    for scheduler in kinds("idle-end") {
        let worker = scheduler.create_worker();
        ended(&worker.schedule(|| {}).unwrap());
        end(&scheduler);
        assert!(worker.is_disposed());
        let stats = scheduler.stats();
        assert_eq!((stats.live_threads, stats.busy, stats.idle), (0, 0, 0), "{stats:?}");
    }
}

// RS-101: the future of the disposal begins with the first poll, and wakes its waiters.
#[test]
fn the_end_as_a_future_begins_with_the_first_poll() {
    for scheduler in kinds("future") {
        let held = hold(&scheduler);
        let mut ends = scheduler.disposal();
        drop(scheduler.disposal());
        assert!(!scheduler.is_disposed(), "it has not been polled yet");
        assert!(!poll_once(&mut ends));
        assert!(scheduler.is_disposed());
        thread::scope(|s| {
            let waits = block_elsewhere(s, || block_on(scheduler.disposal()));
            assert!(!waits.is_finished());
            held.let_go();
            waits.join();
        });
        block_on(ends);
        assert_eq!(scheduler.stats().live_threads, 0);
        block_on(scheduler.disposal());
    }
}

// RS-101: a waiter that is dropped, or polls with another waker, does not delay other waiters.
#[test]
fn the_end_as_a_future_wakes_the_waker_it_was_polled_with_last() {
    let scheduler = elastic(1, 10);
    let held = hold(&scheduler);
    let mut ends = scheduler.disposal();
    assert!(!poll_once(&mut ends));
    thread::scope(|s| {
        let waits = block_elsewhere(s, || block_on(ends));
        held.let_go();
        waits.join();
    });
}

/// A waker with a counted number of clones.
struct Silent;

impl Wake for Silent {
    fn wake(self: Arc<Self>) {}
}

#[test]
fn the_end_as_a_future_keeps_no_waker_when_it_is_dropped_or_ready() {
    for scheduler in kinds("wakers") {
        let held = hold(&scheduler);
        let [dropped, replaced, ready] = [(); 3].map(|()| Arc::new(Silent));
        let wakers = [&dropped, &replaced, &ready].map(|waker| Waker::from(Arc::clone(waker)));
        let [first, second, third] = &wakers;
        let mut ends = scheduler.disposal();
        assert!(ends.as_mut().poll(&mut Context::from_waker(first)).is_pending());
        drop(ends);
        assert_eq!(Arc::strong_count(&dropped), 2, "ours and that in `wakers`");
        let mut ends = scheduler.disposal();
        assert!(ends.as_mut().poll(&mut Context::from_waker(second)).is_pending());
        assert!(ends.as_mut().poll(&mut Context::from_waker(third)).is_pending());
        assert_eq!(Arc::strong_count(&replaced), 2, "a future waits with one waker");
        held.let_go();
        eventually(|| ends.as_mut().poll(&mut Context::from_waker(third)).is_ready());
        assert_eq!(Arc::strong_count(&ready), 2, "one that is ready waits no more");
    }
}

#[test]
fn dropped_futures_of_the_end_leave_no_waker() {
    const MANY: usize = 20_000;
    let scheduler = elastic(1, 10);
    let held = hold(&scheduler);
    let wakers: Vec<_> = (0..MANY).map(|_| Arc::new(Silent)).collect();
    let mut ends: Vec<_> = (0..MANY).map(|_| scheduler.disposal()).collect();
    for _ in 0..2 {
        for (ends, waker) in ends.iter_mut().zip(&wakers) {
            let waker = Waker::from(Arc::clone(waker));
            assert!(ends.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        }
    }
    ends.truncate(1);
    let kept = wakers.iter().filter(|waker| Arc::strong_count(waker) > 1).count();
    assert_eq!(kept, 1);
    held.let_go();
    block_on(ends.remove(0));
}

// RS-103
#[test]
fn racing_ends_leave_one_ended_scheduler() {
    for _ in rounds(100) {
        for scheduler in kinds("race-end") {
            let ran = Counter::new();
            let tasks: Vec<_> = (0..4).map(|_| scheduler.schedule(count(&ran)).unwrap()).collect();
            let other = Arc::clone(&scheduler);
            let (graceful, ()) = together(|| scheduler.dispose_gracefully(LONG), move || other.dispose());
            assert_eq!(graceful, Ok(true));
            assert!(scheduler.is_disposed());
            tasks.iter().for_each(ended);
            let stats = scheduler.stats();
            assert_eq!(stats.completed + stats.cancelled, 4, "{stats:?}");
            assert_eq!((stats.live_threads, stats.busy, stats.queued), (0, 0, 0), "{stats:?}");
            assert!(ran.get() as u64 >= stats.completed);
        }
    }
}

// RS-103: submissions race the end: accepted tasks end, and others are returned.
#[test]
fn submissions_racing_the_end_are_accepted_or_come_back() {
    let mut rng = Rng::new();
    for round in rounds(200) {
        for scheduler in kinds("race-in") {
            let (ran, dropped) = (Counter::new(), Counter::new());
            let worker = scheduler.create_worker();
            let mut pause = rng.fork();
            let other = Arc::clone(&scheduler);
            let submit = || {
                let mut taken = Vec::new();
                for n in 0..20 {
                    let (count, captured) = (ran.clone(), dropped.on_drop());
                    let task = move || {
                        let _captured = &captured;
                        count.add();
                    };
                    let outcome = match n % 3 {
                        0 => scheduler.schedule(task),
                        1 => worker.schedule(task),
                        _ => scheduler.schedule_after(Duration::from_nanos(1), task),
                    };
                    match outcome {
                        Ok(handle) => taken.push(handle),
                        Err(refused) => assert_eq!(refused.reason(), RejectReason::Shutdown),
                    }
                }
                taken
            };
            let forceful = round % 2 == 0;
            let (taken, ()) = together(submit, move || {
                pause.dawdle();
                if forceful {
                    other.dispose();
                } else {
                    other.dispose_gracefully(Duration::ZERO).unwrap();
                }
            });
            if scheduler.stats().name.contains("elastic") && !forceful {
                scheduler.dispose(); // with a stopped clock delayed work would wait forever
            }
            end(&scheduler);
            taken.iter().for_each(ended);
            assert_eq!(dropped.get(), 20, "all captures are gone, whatever became of the tasks");
            let stats = scheduler.stats();
            assert_eq!((stats.submitted, stats.rejected), (taken.len() as u64, 20 - taken.len() as u64));
            assert_eq!(stats.submitted, stats.completed + stats.cancelled, "{stats:?}");
            assert_eq!((stats.queued, stats.busy, stats.live_threads), (0, 0, 0), "{stats:?}");
        }
    }
}

// RS-104: better than Reactor, where these ended forcefully.
#[test]
fn schedulers_over_executors_end_in_good_order_and_leave_the_executor_alone() {
    let pool = executors::fixed(2).unwrap();
    let scheduler = schedulers::from_executor(pool.clone());
    let worker = scheduler.create_worker();
    let held = hold_lane(&worker);
    let ran = Counter::new();
    worker.schedule(count(&ran)).unwrap();
    scheduler.schedule(count(&ran)).unwrap();
    assert_eq!(scheduler.dispose_gracefully(Duration::ZERO), Ok(false));
    held.let_go();
    end(&scheduler);
    assert_eq!(ran.get(), 2);
    assert!(!pool.is_shutdown());
    crate::support::end(&pool);
}

// RS-104: an executor that belongs to its scheduler ends with it.
#[test]
fn an_executor_service_ends_with_the_scheduler_that_owns_it() {
    let pool = executors::fixed(2).unwrap();
    let scheduler = schedulers::from_executor_service(pool.clone());
    let held = hold(&scheduler);
    let ran = Counter::new();
    scheduler.schedule(count(&ran)).unwrap();
    assert_eq!(scheduler.dispose_gracefully(Duration::ZERO), Ok(false));
    held.let_go();
    end(&scheduler);
    assert!(pool.is_terminated());
    assert_eq!(ran.get(), 1);

    let pool = executors::fixed(1).unwrap();
    let scheduler = schedulers::from_executor_service(pool.clone());
    let held = hold(&scheduler);
    let waits = scheduler.schedule(|| {}).unwrap();
    scheduler.dispose();
    assert!(pool.is_shutdown() && waits.is_cancelled());
    held.let_go();
    await_end(&pool);
    end(&scheduler);
}

// RS-104: for a single worker of another scheduler.
#[test]
fn a_single_worker_ends_in_good_order_and_leaves_its_original_alone() {
    let original = elastic(2, 10);
    let one = schedulers::single_worker(&original);
    let held = hold(&one);
    let ran = Counter::new();
    one.schedule(count(&ran)).unwrap();
    assert_eq!(one.dispose_gracefully(Duration::ZERO), Ok(false));
    assert!(one.is_disposed());
    assert!(one.schedule(|| {}).is_err());
    held.let_go();
    end(&one);
    assert_eq!(ran.get(), 1);
    assert!(!original.is_disposed());
    eventually(|| original.busy() == 0);
    ended(&original.schedule(|| {}).unwrap());
    end(&original);
}

// Dropping the last handle: every accepted task still runs, in order, and the drop does not block.
#[test]
fn with_the_last_handle_what_was_accepted_still_runs() {
    for scheduler in kinds("last-handle") {
        let (gate, ran) = (Gate::new(), Counter::new());
        let held: Vec<_> = (0..2)
            .map(|_| {
                let pass = gate.clone();
                scheduler.schedule(move || pass.pass()).unwrap()
            })
            .collect();
        let queued: Vec<_> = (0..10).map(|_| scheduler.schedule(count(&ran)).unwrap()).collect();
        drop(scheduler);
        assert_eq!(ran.get(), 0);
        gate.open();
        held.iter().chain(&queued).for_each(ended);
        assert_eq!(ran.get(), 10);
        assert!(!queued.iter().any(Disposable::is_cancelled));
    }
    eventually(|| threads_named("last-handle").is_none_or(|left| left == 0));
}

// The same for delayed work of a scheduler that currently has no thread.
#[test]
fn with_the_last_handle_delayed_work_still_runs_when_its_time_comes() {
    let time = ManualClock::new();
    for per_task in [false, true] {
        let scheduler = builder(2, 10, &time).thread_per_task(per_task).build().unwrap();
        let ran = Counter::new();
        let delayed = scheduler.schedule_after(MINUTE, count(&ran)).unwrap();
        let worker = scheduler.create_worker();
        let in_lane = worker.schedule_after(MINUTE, count(&ran)).unwrap();
        let series = scheduler.schedule_periodically(MINUTE, MINUTE, count(&ran)).unwrap();
        drop(scheduler);
        assert!(!series.is_disposed(), "the worker keeps its scheduler alive");
        drop(worker);
        assert!(series.is_cancelled());
        time.advance(MINUTE);
        ended(&delayed);
        ended(&in_lane);
        assert_eq!(ran.get(), 2);
    }
}

// The same with the system clock, which holds only weak references to schedulers.
#[test]
fn with_the_last_handle_delayed_work_still_runs_on_the_clock_of_the_machine() {
    for scheduler in [
        schedulers::new_bounded_elastic(2, 10, "last-delayed", MINUTE).unwrap(),
        schedulers::new_single("last-delayed").unwrap(),
    ] {
        let ran = Counter::new();
        let delayed = scheduler.schedule_after(SHORT, count(&ran)).unwrap();
        drop(scheduler);
        ended(&delayed);
        assert_eq!((ran.get(), delayed.is_cancelled()), (1, false));
    }
}

// A task may hold the last handle of its own scheduler.
#[test]
fn a_task_that_drops_the_last_handle_of_its_scheduler_ends_it() {
    for scheduler in kinds("self-drop") {
        let (inner, (tell, told)) = (Arc::clone(&scheduler), mpsc::channel());
        let task = scheduler.schedule(move || {
            let after = inner.schedule(move || tell.send(()).unwrap());
            drop(inner);
            drop(after);
        });
        drop(scheduler);
        ended(&task.unwrap());
        assert_eq!(told.recv_timeout(LONG), Ok(()));
    }
    eventually(|| threads_named("self-drop").is_none_or(|left| left == 0));
}

/// Regression: a graceful end joined the threads without a time limit. If a factory's thread was
/// still busy after the worker's end, a timeout of 50 ms became two seconds.
#[test]
fn a_graceful_end_does_not_wait_longer_than_asked_for_what_a_factory_does_after_the_life_of_a_thread() {
    let gate = Gate::new();
    let pass = gate.clone();
    let factory = move |body: WorkerBody| {
        let pass = pass.clone();
        thread::Builder::new().spawn(move || {
            body.run();
            pass.pass();
        })
    };
    let scheduler = builder(1, 10, &ManualClock::new()).thread_factory(factory).build().unwrap();
    ended(&scheduler.schedule(|| {}).unwrap());
    assert_eq!(scheduler.dispose_gracefully(SHORT), Ok(false), "a thread is left");
    assert_eq!(scheduler.live_threads(), 0, "which has done all that it had to do here");
    thread::scope(|scope| {
        let waiting = block(scope, || scheduler.dispose_gracefully(LONG));
        waiting.interrupt();
        assert_eq!(waiting.join(), Err(Interrupted));
    });
    assert_eq!(scheduler.dispose_gracefully(Duration::ZERO), Ok(false));
    gate.open();
    end(&scheduler);
}

/// Regression: the destructor ran before the threads of the removed slots were unparked.
#[test]
fn a_destructor_of_cancelled_work_can_wait_for_the_end_of_idle_threads() {
    let scheduler = schedulers::new_bounded_elastic(1, 10, "destructor", MINUTE).unwrap();
    let (tell, told) = mpsc::channel();
    ended(&scheduler.schedule(move || tell.send(interrupt::current()).unwrap()).unwrap());
    let thread = told.recv().unwrap();
    eventually(|| thread.is_parked());
    let (tell, told) = mpsc::channel();
    let guard = EndsOnDrop(Arc::clone(&scheduler), LONG, tell);
    let delayed = scheduler.schedule_after(MINUTE, move || drop(guard)).unwrap();
    scheduler.dispose();
    assert!(delayed.is_cancelled());
    assert_eq!(told.recv().unwrap(), Ok(true));
    end(&scheduler);
}

/// Regression: a task without a lane that ran in place was not found, so it was not cancelled.
#[test]
fn disposal_cancels_a_task_that_runs_in_place() {
    let scheduler = elastic(1, 10);
    let running = Gate::new();
    let (mine, knock) = (scheduler.clone(), running.clone());
    let (tell, told) = mpsc::channel();
    let outer = scheduler.schedule(move || {
        let inner = mine.schedule(move || {
            knock.open();
            let _ = interrupt::sleep(LONG);
        });
        let inner = inner.unwrap();
        let _ = inner.wait(LONG);
        tell.send(inner).unwrap();
    });
    running.pass();
    scheduler.dispose();
    let inner = told.recv_timeout(LONG).unwrap();
    ended(&inner);
    ended(&outer.unwrap());
    assert!(inner.is_cancelled(), "it ran when the scheduler was disposed");
    end(&scheduler);
}

/// A factory whose threads pass the gate after their worker has ended.
fn lingering(
    gate: &Gate,
) -> impl Fn(WorkerBody) -> std::io::Result<thread::JoinHandle<()>> + Send + Sync + 'static {
    let gate = gate.clone();
    move |body: WorkerBody| {
        let pass = gate.clone();
        thread::Builder::new().spawn(move || {
            body.run();
            pass.pass();
        })
    }
}

/// Regression: without a limit the threads were joined one by one, which no interrupt ends.
#[test]
fn a_graceful_end_without_a_limit_is_interrupted_while_it_waits_for_a_thread() {
    let gate = Gate::new();
    let scheduler = builder(1, 10, &ManualClock::new()).thread_factory(lingering(&gate)).build().unwrap();
    ended(&scheduler.schedule(|| {}).unwrap());
    assert_eq!(scheduler.dispose_gracefully(Duration::ZERO), Ok(false));
    eventually(|| scheduler.live_threads() == 0);
    let (ending, (tell, told)) = (scheduler.clone(), mpsc::channel());
    let waits = thread::spawn(move || {
        interrupt_myself();
        tell.send(ending.dispose_gracefully(Duration::MAX)).unwrap();
    });
    let result = told.recv_timeout(LONG);
    gate.open();
    waits.join().unwrap();
    assert_eq!(result, Ok(Err(Interrupted)));
    end(&scheduler);
}

/// Regression: a poll joined the threads, and blocked the runtime's thread until they had exited.
#[test]
fn a_poll_of_the_end_does_not_wait_for_a_thread() {
    let gate = Gate::new();
    let scheduler = builder(1, 10, &ManualClock::new()).thread_factory(lingering(&gate)).build().unwrap();
    ended(&scheduler.schedule(|| {}).unwrap());
    assert_eq!(scheduler.dispose_gracefully(Duration::ZERO), Ok(false));
    eventually(|| scheduler.live_threads() == 0);
    let mut disposal = scheduler.disposal();
    let (tell, told) = mpsc::channel();
    let polls = thread::spawn(move || {
        tell.send(poll_once(&mut disposal)).unwrap();
        disposal
    });
    let result = told.recv_timeout(LONG);
    gate.open();
    let disposal = polls.join().unwrap();
    assert_eq!(result, Ok(false), "a thread is left");
    block_on(disposal); // the thread that joins it wakes this one
    end(&scheduler);
}

/// Regression: the interrupt of the outer task reached the inner one before that was cancelled. So
/// the inner one could end as if it had not been cancelled. Here it always has the time.
#[test]
fn disposal_cancels_a_task_that_runs_in_place_before_it_interrupts_the_outer_one() {
    let scheduler = elastic(1, 10);
    let (running, over) = (Gate::new(), Gate::new());
    let (mine, knock, leave) = (scheduler.clone(), running.clone(), over.clone());
    let (tell, told) = mpsc::channel();
    let outer = scheduler.schedule(move || {
        let _registration = interrupt::current().on_interrupt(move || over.pass());
        let inner = mine.schedule(move || {
            knock.open();
            let _ = interrupt::sleep(LONG);
        });
        let inner = inner.unwrap();
        let _ = inner.wait(LONG);
        leave.open();
        tell.send(inner.is_cancelled()).unwrap();
    });
    running.pass();
    scheduler.dispose();
    assert_eq!(told.recv_timeout(LONG), Ok(true), "it ran when the scheduler was disposed");
    ended(&outer.unwrap());
    end(&scheduler);
}
