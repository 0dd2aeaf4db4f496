//! Regression tests of schedulers. The comments describe the former fault.

use crate::scheduling::{EndsOnDrop, builder, end, ended, hold_lane};
use crate::support::{Counter, Gate, LONG, SHORT, alone, block, block_elsewhere, die, eventually, soon};
use millpond::interrupt;
use millpond::monitor::Actor;
use millpond::schedulers::{
    self, BoundedElasticScheduler, Decorator, Disposable, Scheduler, SchedulerExt, SlotInfo,
    VirtualTimeScheduler,
};
use millpond::{
    Executor, ExecutorCompletionService, Interrupted, ManualClock, Rejected, Task, TaskHandle, TaskOf,
    executors,
};
use std::sync::{Arc, OnceLock, mpsc};
use std::thread;
use std::time::Duration;

#[test]
fn a_callback_of_a_disposable_may_look_at_it() {
    let _alone = alone();
    let cell = Arc::new(OnceLock::<Disposable>::new());
    let mine = Arc::clone(&cell);
    let handle = Disposable::from_fn(move || assert!(mine.get().unwrap().is_disposed()));
    cell.set(handle.clone()).unwrap();
    assert!(handle.dispose());
}

/// Waiting returned at once, whatever the timeout: a caller that repeated it until true would spin.
#[test]
fn waiting_for_a_disposable_of_ones_own_ends_when_it_has_been_disposed_of() {
    let _alone = alone();
    let (go, called) = (Gate::new(), Counter::new());
    let (pass, count) = (go.clone(), called.clone());
    let handle = Disposable::from_fn(move || {
        pass.pass();
        count.add();
    });
    assert_eq!(handle.wait(Duration::ZERO), Ok(false));
    thread::scope(|s| {
        let waits = block(s, || (handle.wait(LONG), called.get()));
        let disposes = block_elsewhere(s, || handle.dispose());
        assert!(!waits.is_finished(), "the callback is still running");
        go.open();
        assert!(disposes.join());
        assert_eq!(waits.join(), (Ok(true), 1));
    });
    assert_eq!(handle.wait(Duration::ZERO), Ok(true));
    thread::scope(|s| {
        let never = Disposable::from_fn(|| {});
        let waits = block(s, move || never.wait(LONG));
        waits.interrupt();
        assert_eq!(waits.join(), Err(Interrupted));
    });
}

/// The check for the own thread was made only for work with a scheduler.
#[test]
fn a_callback_that_waits_for_its_own_disposable_does_not_block() {
    let _alone = alone();
    let (cell, (tell, told)) = (Arc::new(OnceLock::<Disposable>::new()), mpsc::channel());
    let mine = Arc::clone(&cell);
    let handle = Disposable::from_fn(move || tell.send(mine.get().unwrap().wait(Duration::MAX)).unwrap());
    cell.set(handle.clone()).unwrap();
    let disposes = thread::spawn(move || handle.dispose());
    assert_eq!(told.recv_timeout(LONG), Ok(Ok(false)));
    assert!(disposes.join().unwrap());
    assert_eq!(cell.get().unwrap().wait(LONG), Ok(true));
}

#[test]
fn a_panic_that_a_handle_keeps_counts_as_a_panic() {
    let _alone = alone();
    let scheduler = schedulers::new_single("one").unwrap();
    let (task, handle) = TaskOf::new(|| -> u32 { die("boom") }).into_parts();
    scheduler.schedule_task(task).unwrap().wait(LONG).unwrap();
    assert!(handle.join().is_err());
    assert_eq!((scheduler.stats().completed, scheduler.stats().panicked), (0, 1));
}

/// Is slow when a slot is closed.
struct Slow(Counter);
impl Decorator for Slow {
    fn slot_closed(&self, slot: &SlotInfo) {
        if slot.scheduler().contains("slow") {
            std::thread::sleep(SHORT);
            self.0.add();
        }
    }
}

#[test]
fn after_a_graceful_end_no_thread_is_left_also_with_a_thread_per_task() {
    let _alone = alone();
    let closed = Counter::new();
    assert!(schedulers::add_decorator("slow", Arc::new(Slow(closed.clone()))));
    let scheduler =
        BoundedElasticScheduler::builder().max_threads(1).thread_per_task(true).name("slow").build().unwrap();
    scheduler.schedule(|| {}).unwrap().wait(LONG).unwrap();
    assert_eq!(scheduler.dispose_gracefully(LONG), Ok(true));
    schedulers::remove_decorator("slow");
    assert_eq!(closed.get(), 1, "the thread is still calling slot_closed");
}

#[test]
fn more_threads_than_a_system_has_are_refused() {
    let _alone = alone();
    let error = schedulers::new_parallel(usize::MAX, "many").unwrap_err();
    assert!(error.to_string().contains(&usize::MAX.to_string()), "{error}");
}

#[test]
fn immediate_counts_what_its_workers_run() {
    let _alone = alone();
    let before = schedulers::immediate().stats().completed;
    schedulers::immediate().create_worker().schedule(|| {}).unwrap();
    assert_eq!(schedulers::immediate().stats().completed, before + 1);
}

/// The lane was queued behind the very thread that waited, and only waiters for its first job were
/// notified. When the second job was due nothing happened, because the lane was queued already.
#[test]
fn a_task_that_waits_for_the_second_job_of_a_worker_runs_both() {
    let _alone = alone();
    const STEP: Duration = Duration::from_secs(10);
    let time = ManualClock::new();
    let scheduler = builder(1, 10, &time).build().unwrap();
    let worker = scheduler.create_worker();
    let first = worker.schedule_after(STEP, || {}).unwrap();
    let second = worker.schedule_after(2 * STEP, || {}).unwrap();
    let (tell, told) = mpsc::channel();
    let waits = scheduler.schedule(move || {
        tell.send(interrupt::current()).unwrap();
        assert_eq!(second.wait(LONG), Ok(true));
    });
    let waiter = told.recv().unwrap();
    eventually(|| waiter.is_parked());
    time.advance(STEP);
    ended(&first);
    time.advance(STEP);
    ended(&waits.unwrap());
    assert_eq!(scheduler.stats().panicked, 0);
    end(&scheduler);
}

/// The same with two threads: the lane ran on the other thread, which then took a task queued
/// before the lane, and waited too.
#[test]
fn a_task_that_waits_for_a_later_job_of_a_worker_is_told_when_the_worker_goes_into_line() {
    let _alone = alone();
    let scheduler = builder(2, 10, &ManualClock::new()).build().unwrap();
    let worker = scheduler.create_worker();
    let done = Gate::new();
    let open = done.clone();
    let held = hold_lane(&worker);
    worker.schedule(|| {}).unwrap();
    let last = worker.schedule(move || open.open()).unwrap();
    let (tell, told) = mpsc::channel();
    let waits = scheduler.schedule(move || {
        tell.send(interrupt::current()).unwrap();
        assert_eq!(last.wait(LONG), Ok(true));
    });
    let waiter = told.recv().unwrap();
    eventually(|| waiter.is_parked());
    let in_line = scheduler.schedule(move || done.pass()).unwrap();
    held.let_go();
    [waits.unwrap(), in_line].iter().for_each(ended);
    assert_eq!(scheduler.stats().panicked, 0);
    end(&scheduler);
}

/// A scheduler as an executor.
struct On(Arc<dyn Scheduler>);

impl Executor for On {
    fn execute_task(&self, task: Task) -> Result<(), Rejected> {
        self.0.schedule_task(task).map(drop)
    }
}

/// Of two schedulers on one thread, only the inner one was known there. If its task waited for work
/// of the outer one, whose only thread this was, it waited forever; so did a graceful end.
#[test]
fn a_task_works_for_all_schedulers_on_whose_thread_it_runs() {
    let _alone = alone();
    let outer = schedulers::new_single("outer").unwrap();
    let inner = schedulers::from_executor(On(Arc::clone(&outer)));
    let (tell, told) = mpsc::channel();
    let below = Arc::clone(&outer);
    let task = inner.schedule(move || {
        let helped = below.schedule(|| {}).unwrap().wait(LONG);
        let itself = below.dispose_gracefully(LONG);
        tell.send((helped, itself)).unwrap();
    });
    ended(&task.unwrap());
    assert_eq!(told.recv(), Ok((Ok(true), Ok(false))));
    end(&*outer);
}

/// A task of a scheduler takes from a completion service on that scheduler, which has one thread.
#[test]
fn a_task_that_takes_from_a_service_on_its_own_scheduler_runs_what_the_service_waits_for() {
    let _alone = alone();
    let single = schedulers::new_single("single").unwrap();
    let service = Arc::new(ExecutorCompletionService::new(On(Arc::clone(&single))));
    let (tell, told) = mpsc::channel();
    let taker = Arc::clone(&service);
    let task = single.schedule(move || {
        (1..=2).for_each(|n| drop(taker.submit(move || n).unwrap()));
        let first = taker.take().unwrap().join().unwrap();
        let second = taker.poll_timeout(LONG).unwrap().expect("in time").join().unwrap();
        tell.send((first + second, Some(interrupt::current()))).unwrap();
        tell.send((taker.take().unwrap().join().unwrap(), None)).unwrap(); // submitted below
    });
    let (sum, waiter) = told.recv_timeout(LONG).unwrap();
    let waiter = waiter.expect("the first message has it");
    eventually(|| waiter.is_parked());
    drop(service.submit(|| 7).unwrap());
    let last = told.recv_timeout(LONG / 4).map(|(n, _)| n);
    waiter.interrupt(); // so that a failure does not hang
    assert_eq!((sum, last), (3, Ok(7)));
    ended(&task.unwrap());
    end(&*single);
}

/// A task with a handle, and the handle.
fn with_handle(n: u32) -> (Task, TaskHandle<u32>) {
    TaskOf::new(move || n).into_parts()
}

/// Only a worker of a pool helped with work that it joined: on the only thread of a scheduler a
/// join waited forever.
#[test]
fn a_task_that_joins_work_of_its_own_scheduler_runs_it() {
    let _alone = alone();
    let per_task = builder(1, 10, &ManualClock::new()).thread_per_task(true);
    let schedulers: [Arc<dyn Scheduler>; 4] = [
        schedulers::new_single("one").unwrap(),
        Arc::new(builder(1, 10, &ManualClock::new()).build().unwrap()),
        Arc::new(per_task.build().unwrap()),
        schedulers::from_executor_service(executors::fixed(1).unwrap()),
    ];
    for scheduler in schedulers {
        let mine = Arc::clone(&scheduler);
        let joins = scheduler.schedule(move || {
            let (task, handle) = with_handle(1);
            mine.schedule_task(task).unwrap();
            assert_eq!(soon(handle).unwrap(), 1);
            let worker = mine.create_worker();
            let before = worker.schedule(|| {}).unwrap();
            let (task, handle) = with_handle(2);
            worker.schedule_task(task).unwrap();
            assert_eq!(soon(handle).unwrap(), 2);
            assert!(before.is_disposed(), "it is before the other in its lane");
        });
        ended(&joins.unwrap());
        end(&*scheduler);
        let stats = scheduler.stats();
        assert_eq!((stats.completed, stats.panicked), (4, 0), "{stats:?}");
    }
}

/// The same for work that is not due, and for a worker with earlier work.
#[test]
fn a_task_that_joins_later_work_of_its_own_scheduler_is_told_when_it_is_due() {
    let _alone = alone();
    const STEP: Duration = Duration::from_secs(10);
    for by_worker in [false, true] {
        let time = ManualClock::new();
        let scheduler = builder(1, 10, &time).build().unwrap();
        let worker = scheduler.create_worker();
        let (task, handle) = with_handle(3);
        let before = worker.schedule_after(STEP, || {}).unwrap();
        if by_worker {
            worker.schedule_task_after(2 * STEP, task).unwrap();
        } else {
            scheduler.schedule_task_after(2 * STEP, task).unwrap();
        }
        let (tell, told) = mpsc::channel();
        let joins = scheduler.schedule(move || {
            tell.send(interrupt::current()).unwrap();
            assert_eq!(soon(handle).unwrap(), 3);
        });
        let joiner = told.recv().unwrap();
        eventually(|| joiner.is_parked());
        time.advance(STEP);
        if by_worker {
            ended(&before);
        }
        time.advance(STEP);
        ended(&joins.unwrap());
        ended(&before);
        assert_eq!(scheduler.stats().panicked, 0);
        end(&scheduler);
    }
}

/// The stack overflowed, and the process was aborted.
#[test]
fn a_long_chain_of_waits_for_tasks_of_the_own_scheduler_does_not_overflow_the_stack() {
    let _alone = alone();
    fn descend(scheduler: &Arc<dyn Scheduler>, depth: usize, deepest: &Counter) -> Disposable {
        let (inner, deepest) = (Arc::clone(scheduler), deepest.clone());
        scheduler
            .schedule(move || match depth {
                0 => deepest.add(),
                _ => assert_eq!(descend(&inner, depth - 1, &deepest).wait(LONG), Ok(true)),
            })
            .unwrap()
    }
    let elastic = schedulers::new_bounded_elastic(1, 10, "deep", LONG).unwrap();
    let over_a_pool = schedulers::from_executor(executors::fixed(1).unwrap());
    let virtual_time = VirtualTimeScheduler::new();
    let schedulers: [Arc<dyn Scheduler>; 3] = [elastic, over_a_pool, Arc::new(virtual_time.clone())];
    for scheduler in schedulers {
        let deepest = Counter::new();
        let first = descend(&scheduler, 3000, &deepest);
        virtual_time.advance_by(Duration::ZERO);
        assert_eq!(first.wait(LONG), Ok(true), "{scheduler}");
        assert_eq!(deepest.get(), 1, "{scheduler}");
    }
}

/// The task is nested so deep that it runs on a temporary thread.
#[test]
fn a_task_far_inside_others_is_still_told_that_it_should_not_block() {
    let _alone = alone();
    fn descend(scheduler: &Arc<dyn Scheduler>, depth: usize, tell: &mpsc::Sender<bool>) -> Disposable {
        let (inner, tell) = (Arc::clone(scheduler), tell.clone());
        scheduler
            .schedule(move || match depth {
                0 => tell.send(schedulers::is_in_non_blocking_thread()).unwrap(),
                _ => assert_eq!(descend(&inner, depth - 1, &tell).wait(LONG), Ok(true)),
            })
            .unwrap()
    }
    let (tell, told) = mpsc::channel();
    let marked = schedulers::new_single("deep").unwrap();
    let unmarked = schedulers::new_bounded_elastic(1, 10, "deep", LONG).unwrap();
    for (scheduler, should_not_block) in [(marked, true), (unmarked, false)] {
        assert_eq!(descend(&scheduler, 300, &tell).wait(LONG), Ok(true));
        assert_eq!(told.recv(), Ok(should_not_block));
        end(&scheduler);
    }
}

/// A decorator that does nothing.
struct Plain;

impl Decorator for Plain {}

/// Regression: the end waits until the decorators have been told of the closed slots, and the
/// destructor of cancelled work, which ran before, waited for the end.
#[test]
fn a_destructor_of_cancelled_work_does_not_wait_for_the_decorators_of_closed_slots() {
    let _alone = alone();
    assert!(schedulers::add_decorator("plain", Arc::new(Plain)));
    let scheduler = schedulers::new_single("destructor").unwrap();
    assert_eq!(scheduler.schedule(|| {}).unwrap().wait(LONG), Ok(true));
    let (tell, told) = mpsc::channel();
    let guard = EndsOnDrop(Arc::clone(&scheduler), Duration::MAX, tell);
    scheduler.schedule_after(LONG, move || drop(guard)).unwrap();
    let disposing = Arc::clone(&scheduler);
    let disposes = thread::spawn(move || disposing.dispose());
    assert_eq!(told.recv_timeout(LONG), Ok(Ok(false)));
    disposes.join().unwrap();
    schedulers::remove_decorator("plain");
    end(&*scheduler);
}

/// Regression: the drain of a paused scheduler starts threads after the destructors of the work
/// that it cancels, and such a destructor waited for the end.
#[test]
fn a_destructor_of_cancelled_work_does_not_wait_for_threads_that_start_later() {
    let _alone = alone();
    let scheduler = schedulers::new_single("destructor").unwrap();
    let paused = scheduler.pool_ref().unwrap();
    paused.pause(&Actor::default()).unwrap();
    let queued = scheduler.schedule(|| {}).unwrap();
    let (tell, told) = mpsc::channel();
    let guard = EndsOnDrop(Arc::clone(&scheduler), Duration::MAX, tell);
    scheduler.schedule_periodically(LONG, LONG, move || _ = &guard).unwrap();
    let ending = Arc::clone(&scheduler);
    let ends = thread::spawn(move || ending.dispose_gracefully(LONG));
    assert_eq!(told.recv_timeout(LONG), Ok(Ok(false)));
    assert_eq!(ends.join().unwrap(), Ok(true));
    assert!(!queued.is_cancelled());
}
