//! Threads that do not start, and executors that reject, under load: no accepted task is lost.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use crate::scheduling::{builder, end, ended, failing, hold, start};
use crate::support::{Counter, Gate, LONG, eventually};
use millpond::schedulers::{
    self, Affinity, BoundedElasticBuilder, BoundedElasticScheduler, Disposable, Scheduler, SchedulerExt,
};
use millpond::{ManualClock, RejectReason, executors, interrupt};

const SECOND: Duration = Duration::from_secs(1);
const THREADS: usize = 3;

#[test]
fn threads_that_do_not_start_lose_nothing() {
    for per_task in [false, true] {
        for every in [2, 3, 7] {
            let (_, factory) = failing(move |call| call % every == 0);
            let scheduler = BoundedElasticScheduler::builder()
                .max_threads(THREADS)
                .queue_capacity_per_thread(10_000)
                .name("failing-")
                .ttl(Duration::from_micros(100))
                .thread_per_task(per_task)
                .thread_factory(factory)
                .build()
                .unwrap();
            let (ran, came_back) = (Counter::new(), Counter::new());
            let accepted: Vec<Disposable> = thread::scope(|s| {
                let submit = || {
                    let mut accepted = Vec::new();
                    let worker = scheduler.create_worker();
                    for n in 0..30 {
                        let count = ran.clone();
                        let task = move || count.add();
                        let taken = if n % 2 == 0 { scheduler.schedule(task) } else { worker.schedule(task) };
                        match taken {
                            Ok(handle) => accepted.push(handle),
                            Err(refused) => {
                                assert_eq!(refused.reason(), RejectReason::SpawnFailed);
                                refused.into_task().run();
                                came_back.add();
                            }
                        }
                    }
                    accepted
                };
                let threads: Vec<_> = (0..3).map(|_| s.spawn(submit)).collect();
                threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
            });
            accepted.iter().for_each(ended);
            assert!(!accepted.iter().any(Disposable::is_cancelled));
            assert_eq!((ran.get(), accepted.len() + came_back.get()), (90, 90));
            end(&scheduler);
            let stats = scheduler.stats();
            assert_eq!((stats.submitted, stats.completed), (accepted.len() as u64, accepted.len() as u64));
            assert_eq!((stats.rejected, stats.live_threads), (came_back.get() as u64, 0), "{stats:?}");
            assert_eq!((stats.busy, stats.queued, stats.slots), (0, 0, 0), "{stats:?}");
        }
    }
}

#[test]
fn threads_that_do_not_start_for_delayed_work_are_tried_again() {
    let (calls, factory) = failing(|call| call < 5);
    let scheduler = BoundedElasticScheduler::builder()
        .max_threads(2)
        .queue_capacity_per_thread(100)
        .thread_factory(factory)
        .build()
        .unwrap();
    let worker = scheduler.create_worker();
    let moment = Duration::from_millis(1);
    let delayed =
        [scheduler.schedule_after(moment, || {}).unwrap(), worker.schedule_after(moment, || {}).unwrap()];
    delayed.iter().for_each(ended);
    assert!(!delayed.iter().any(Disposable::is_cancelled));
    assert!(calls.load(Ordering::SeqCst) > 5);
    worker.dispose();
    end(&scheduler);
    let stats = scheduler.stats();
    assert_eq!((stats.completed, stats.cancelled, stats.remaining_capacity), (2, 0, 200), "{stats:?}");
}

// The executor under a scheduler may reject or drop tasks: rejected ones are returned, dropped ones
// are cancelled.
#[test]
fn a_scheduler_over_a_full_executor_hands_back_what_that_refuses() {
    let pool = executors::bounded(1, 1, 2).unwrap();
    let scheduler = schedulers::from_executor(pool.clone());
    let (ran, accepted, refused) = (Counter::new(), Counter::new(), Counter::new());
    thread::scope(|s| {
        for _ in 0..3 {
            s.spawn(|| {
                let worker = scheduler.create_worker();
                for n in 0..200 {
                    let count = ran.clone();
                    let task = move || count.add();
                    let taken = if n % 2 == 0 { scheduler.schedule(task) } else { worker.schedule(task) };
                    match taken {
                        Ok(_) => accepted.add(),
                        Err(full) => {
                            assert_eq!(full.reason(), RejectReason::Saturated);
                            refused.add();
                        }
                    }
                }
            });
        }
    });
    end(&scheduler);
    let stats = scheduler.stats();
    assert_eq!((stats.submitted, stats.rejected), (accepted.get() as u64, refused.get() as u64), "{stats:?}");
    assert_eq!(stats.completed + stats.cancelled, stats.submitted, "{stats:?}");
    assert_eq!(stats.completed, ran.get() as u64);
    assert_eq!((stats.busy, stats.queued, stats.slots), (0, 0, 0), "{stats:?}");
    crate::support::end(&pool);
}

#[test]
fn an_executor_that_throws_its_tasks_away_cancels_those_of_the_scheduler() {
    let pool = executors::fixed(1).unwrap();
    let scheduler = schedulers::from_executor(pool.clone());
    let held = hold(&scheduler);
    let worker = scheduler.create_worker();
    let waiting = [
        scheduler.schedule(|| {}).unwrap(),
        worker.schedule(|| {}).unwrap(),
        worker.schedule(|| {}).unwrap(),
    ];
    drop(pool.shutdown_now());
    for task in &waiting {
        ended(task);
        assert!(task.is_cancelled());
    }
    held.let_go();
    assert_eq!(scheduler.schedule(|| {}).unwrap_err().reason(), RejectReason::Shutdown);
    assert!(scheduler.is_disposed());
    end(&scheduler);
    let stats = scheduler.stats();
    assert_eq!((stats.completed, stats.cancelled, stats.submitted), (1, 3, 4), "{stats:?}");
}

#[test]
fn a_factory_that_keeps_the_body_for_later_and_drops_it_cancels_what_relied_on_it() {
    let kept = Arc::new(Mutex::new(Vec::new()));
    let (keeps, calls) = (Arc::clone(&kept), AtomicUsize::new(0));
    let factory = move |body| {
        if calls.fetch_add(1, Ordering::SeqCst) == 0 {
            keeps.lock().unwrap().push(body);
            return Ok(thread::spawn(|| {}));
        }
        start(body)
    };
    let scheduler = builder(1, 10, &ManualClock::new()).thread_factory(factory).build().unwrap();
    let worker = scheduler.create_worker();
    let tasks = [scheduler.schedule(|| {}).unwrap(), scheduler.schedule(|| {}).unwrap()];
    let in_lane = worker.schedule(|| {}).unwrap();
    assert_eq!(scheduler.live_threads(), 1, "it was promised");
    kept.lock().unwrap().clear();
    for task in tasks.iter().chain([&in_lane]) {
        ended(task);
        assert!(task.is_cancelled());
    }
    ended(&scheduler.schedule(|| {}).unwrap());
    worker.dispose();
    end(&scheduler);
    crate::scheduling::assert_settled(&scheduler, 4, 10);
}

/// A due task and a due task of a worker, in a scheduler whose threads do not start.
fn due_without_a_thread(scheduler: &BoundedElasticScheduler, time: &ManualClock) -> [Disposable; 2] {
    let worker = scheduler.create_worker();
    let delayed =
        [scheduler.schedule_after(SECOND, || {}).unwrap(), worker.schedule_after(SECOND, || {}).unwrap()];
    time.advance(SECOND);
    delayed
}

/// Regression: due work without a thread was cancelled, but stayed queued. A thread for it was
/// tried every 50 ms forever, and the scheduler did not end.
#[test]
fn a_scheduler_whose_threads_do_not_start_ends_when_it_is_disposed_of() {
    for per_task in [false, true] {
        let time = ManualClock::new();
        let (calls, factory) = failing(|_| true);
        let scheduler =
            builder(2, 10, &time).thread_per_task(per_task).thread_factory(factory).build().unwrap();
        let due = due_without_a_thread(&scheduler, &time);
        assert!(!due.iter().any(Disposable::is_disposed), "they are tried again");
        scheduler.dispose();
        assert!(due.iter().all(Disposable::is_cancelled));
        end(&scheduler);
        crate::scheduling::assert_settled(&scheduler, 2, 20);
        let tried = calls.load(Ordering::SeqCst);
        time.advance(SECOND);
        assert_eq!(calls.load(Ordering::SeqCst), tried, "there is nothing to try again for");
    }
}

/// The same if the scheduler is disposed while the factory is running.
#[test]
fn a_thread_that_does_not_start_for_what_was_cancelled_meanwhile_is_not_tried_again() {
    let (time, asked, answer) = (ManualClock::new(), Gate::new(), Gate::new());
    let (knock, pass) = (asked.clone(), answer.clone());
    let (calls, factory) = failing(move |_| {
        knock.open();
        pass.pass();
        true
    });
    let scheduler = builder(2, 10, &time).thread_factory(factory).build().unwrap();
    thread::scope(|scope| {
        let due = scope.spawn(|| due_without_a_thread(&scheduler, &time));
        asked.pass();
        scheduler.dispose();
        answer.open();
        assert!(due.join().unwrap().iter().all(Disposable::is_cancelled));
    });
    end(&scheduler);
    crate::scheduling::assert_settled(&scheduler, 2, 20);
    time.advance(SECOND);
    assert!(calls.load(Ordering::SeqCst) <= 2);
}

/// A scheduler with a manual clock that can start only one thread.
fn with_one_thread(time: &ManualClock) -> BoundedElasticBuilder {
    let (_, factory) = failing(|call| call > 0);
    builder(2, 10, time).thread_factory(factory)
}

/// Regression: due work was assigned to a slot whose thread could not be started, and waited for
/// that thread, although the only existing thread was idle.
#[test]
fn work_whose_thread_does_not_start_is_done_by_the_next_that_is_free() {
    for affinity in [Affinity::Soft, Affinity::Strict] {
        let time = ManualClock::new();
        let scheduler = with_one_thread(&time).affinity(affinity).build().unwrap();
        let held = hold(&scheduler);
        let mut due = vec![scheduler.schedule_after(SECOND, || {}).unwrap()];
        if affinity == Affinity::Soft {
            due.push(scheduler.create_worker().schedule_after(SECOND, || {}).unwrap());
        }
        time.advance(SECOND);
        assert!(!due.iter().any(Disposable::is_disposed));
        held.let_go();
        due.iter().for_each(ended);
        assert!(!due.iter().any(Disposable::is_cancelled));
        end(&scheduler);
        crate::scheduling::assert_settled(&scheduler, 1 + due.len(), 20);
    }
}

/// A thread was busy when another was requested, and is idle when the other one fails to start.
#[test]
fn work_whose_thread_does_not_start_is_handed_to_one_that_became_free_meanwhile() {
    let (time, asked, answer) = (ManualClock::new(), Gate::new(), Gate::new());
    let (knock, pass) = (asked.clone(), answer.clone());
    let (_, factory) = failing(move |call| {
        if call > 0 {
            knock.open();
            pass.pass();
        }
        call > 0
    });
    let scheduler = builder(2, 10, &time).thread_factory(factory).build().unwrap();
    let held = hold(&scheduler);
    let due = scheduler.schedule_after(SECOND, || {}).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| time.advance(SECOND));
        asked.pass();
        held.let_go();
        eventually(|| scheduler.stats().idle == 1);
        answer.open();
        ended(&due);
    });
    end(&scheduler);
    crate::scheduling::assert_settled(&scheduler, 2, 20);
}

/// A task waits for delayed work on the only thread. The work has its own slot, without a thread.
/// If it is the second job of a lane, the task also runs the first one.
#[test]
fn work_whose_thread_does_not_start_is_done_by_a_task_that_waits_for_it() {
    for (per_task, in_lane) in [(false, false), (false, true), (true, false), (true, true)] {
        let time = ManualClock::new();
        let scheduler = with_one_thread(&time).thread_per_task(per_task).build().unwrap();
        let worker = scheduler.create_worker();
        let submit = || match in_lane {
            true => worker.schedule_after(SECOND, || {}).unwrap(),
            false => scheduler.schedule_after(SECOND, || {}).unwrap(),
        };
        let due: Vec<_> = (0..if in_lane { 2 } else { 1 }).map(|_| submit()).collect();
        let ((tell, told), waits) = (mpsc::channel(), due[due.len() - 1].clone());
        let waiting = scheduler.schedule(move || {
            tell.send(interrupt::current()).unwrap();
            assert_eq!(waits.wait(LONG), Ok(true));
        });
        let waiting = waiting.unwrap();
        let thread = told.recv().unwrap();
        eventually(|| thread.is_parked());
        time.advance(SECOND);
        due.iter().for_each(ended);
        ended(&waiting);
        assert_eq!(scheduler.stats().panicked, 0);
        worker.dispose();
        end(&scheduler);
        crate::scheduling::assert_settled(&scheduler, 1 + due.len(), 20);
    }
}
