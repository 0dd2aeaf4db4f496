//! Models of a scheduled pool: the worker that watches the time, and periodic tasks at shutdown and
//! cancel.
//!
//! Models of the watch use a silent manual clock, which behaves like the system clock: the model
//! advances the time and then fires the timers of workers that park with a deadline. A worker
//! without a deadline stays parked, and the model fails.

use loom::thread;
use std::time::Duration;

use super::idle::{IdleWorkers, ParkSlot, WakeReason};
use super::queue::delayed::DelayedQueue;
use super::{ThreadPoolExecutor, WorkQueue};
use crate::executor::RejectReason;
use crate::interrupt::ThreadContext;
use crate::loom_tests::{model, model_bound};
use crate::sync::{Arc, Mutex};
use crate::task::JoinError;
use crate::task::{Task, TimerTask};
use crate::time::clock::{Clock, ManualClock, Tick};
use crate::{PeriodicTask, RunState, ScheduledThreadPoolExecutor};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

/// A delayed queue with its idle workers.
struct Watch {
    delayed: DelayedQueue,
    idle: IdleWorkers,
    time: ManualClock,
    /// Loom's mutex, not std's: a worker that registers late, and whose timer is not fired, then
    /// sees the time that was set before.
    threads: Mutex<Vec<Arc<ThreadContext>>>,
}

impl Watch {
    fn new() -> Arc<Watch> {
        let time = ManualClock::silent();
        let (delayed, idle) = (DelayedQueue::new(time.clock()), IdleWorkers::default());
        Arc::new(Watch { delayed, idle, time, threads: Mutex::new(Vec::new()) })
    }

    /// Inserts a task as a submitter does.
    fn put(&self, due: Tick, task: Task) {
        self.delayed.insert(TimerTask::new(task), due);
        if !self.delayed.is_watched_hint() {
            self.delayed.ensure_watched(&self.idle);
        }
    }

    /// Takes one task as a worker does, and runs it.
    fn work(&self) {
        self.threads.lock().push(ThreadContext::current());
        let slot = ParkSlot::for_this_thread();
        loop {
            let dequeued = self.delayed.poll().or_else(|| {
                let rest = self.delayed.park(&self.idle, &slot, None, false, || false);
                self.delayed.order();
                match rest {
                    WakeReason::Assigned(dequeued) => Some(dequeued),
                    WakeReason::Woken | WakeReason::TimedOut => None,
                }
            });
            if let Some((task, _)) = dequeued {
                self.delayed.ensure_watched(&self.idle);
                return task.run();
            }
        }
    }

    fn later(&self) {
        self.time.advance(SECOND);
        for thread in self.threads.lock().iter() {
            thread.fire_timer_once();
        }
    }
}

fn worker(watch: &Arc<Watch>) -> thread::JoinHandle<()> {
    let watch = Arc::clone(watch);
    thread::spawn(move || watch.work())
}

fn second(n: u64) -> Tick {
    Tick::from_nanos(n * 1_000_000_000)
}

/// The second task becomes due only while the first one runs. So it runs only if another worker
/// watches the time.
#[test]
fn the_leader_hands_off_leadership_before_it_runs_its_task() {
    model(|| {
        let watch = Watch::new();
        let at_first = Arc::clone(&watch);
        watch.put(second(1), Task::new(move || at_first.later()));
        watch.put(second(2), Task::new(|| {}));
        let workers = [worker(&watch), worker(&watch)];
        watch.later();
        workers.into_iter().for_each(|worker| worker.join().unwrap());
    });
}

/// Both workers are parked, or about to park, until a time that never comes. Then two tasks are
/// inserted. The leader is woken for the first task. The second one becomes due only while the
/// first one runs. So it runs only if the standby is woken too.
#[test]
fn the_standby_is_woken_if_it_would_park_too_long() {
    model(|| {
        let watch = Watch::new();
        watch.delayed.insert(TimerTask::new(Task::new(|| {})), Tick::NEVER);
        let workers = [worker(&watch), worker(&watch)];
        let at_first = Arc::clone(&watch);
        watch.put(second(1), Task::new(move || at_first.later()));
        watch.put(second(2), Task::new(|| {}));
        watch.later();
        workers.into_iter().for_each(|worker| worker.join().unwrap());
    });
}

/// The worker is parked, or about to park, until a time that never comes, when an earlier task is
/// inserted.
#[test]
fn an_earlier_task_against_the_leader_parking() {
    model(|| {
        let watch = Watch::new();
        watch.delayed.insert(TimerTask::new(Task::new(|| {})), Tick::NEVER);
        let worker = worker(&watch);
        watch.put(second(1), Task::new(|| {}));
        watch.later();
        worker.join().unwrap();
    });
}

#[test]
fn two_workers_get_two_tasks_that_are_due() {
    model(|| {
        let watch = Watch::new();
        let workers = [worker(&watch), worker(&watch)];
        watch.put(second(0), Task::new(|| {}));
        watch.put(second(0), Task::new(|| {}));
        workers.into_iter().for_each(|worker| worker.join().unwrap());
    });
}

fn pool(core: usize, clock: Clock) -> ScheduledThreadPoolExecutor {
    let built = ScheduledThreadPoolExecutor::builder()
        .core_pool_size(core)
        .remove_on_cancel_policy(true)
        .clock(clock)
        .build();
    built.expect("these options are consistent")
}

fn end(pool: &ScheduledThreadPoolExecutor) {
    pool.shutdown();
    wait_for_end(pool);
}

fn wait_for_end(pool: &ScheduledThreadPoolExecutor) {
    assert!(pool.await_termination(Duration::MAX).unwrap());
    assert_eq!(pool.state(), RunState::Terminated);
    assert_eq!((pool.pool_size(), pool.queued_count()), (0, 0));
}

/// An accepted task runs or is cancelled, and a refused one is returned. No handle is pending after
/// termination.
#[test]
fn schedule_against_shutdown_that_cancels_delayed_tasks() {
    model(|| {
        let pool = pool(0, ManualClock::new().clock());
        pool.set_execute_existing_delayed_tasks_after_shutdown_policy(false);
        let submitter = thread::spawn({
            let pool = pool.clone();
            move || pool.schedule(HOUR, || 7)
        });
        pool.shutdown();
        let scheduled = submitter.join().unwrap();
        end(&pool);
        match scheduled {
            Ok(mut handle) => assert!(matches!(handle.try_join(), Some(Err(JoinError::Cancelled)))),
            Err(rejected) => assert_eq!(rejected.reason(), RejectReason::Shutdown),
        }
    });
}

/// The task becomes due before, while or after the worker parks.
#[test]
fn advancing_the_clock_against_parking() {
    model(|| {
        let time = ManualClock::new();
        let pool = pool(1, time.clock());
        let handle = pool.schedule(SECOND, || 7).unwrap();
        time.advance(SECOND);
        assert_eq!(handle.join().unwrap(), 7);
        end(&pool);
    });
}

fn periodic_task(pool: &ScheduledThreadPoolExecutor) -> crate::ScheduledHandle<()> {
    pool.schedule_at_fixed_rate_task(Duration::ZERO, HOUR, PeriodicTask::new(|| {})).unwrap()
}

/// Race "requeue / shutdown": a periodic task ends with the pool, even while it is being requeued.
#[test]
fn requeue_against_shutdown() {
    model(|| {
        let pool = pool(1, ManualClock::new().clock());
        let mut task = periodic_task(&pool);
        end(&pool);
        assert!(matches!(task.try_join(), Some(Err(JoinError::Cancelled))));
    });
}

/// Race "requeue / cancel": a cancelled periodic task leaves no entry in the queue. Needs three
/// preemptions: a cancel that finds the task running and then queued is not reached with two.
#[test]
fn requeue_against_cancel() {
    model_bound(3, || {
        let pool = pool(1, ManualClock::new().clock());
        let task = periodic_task(&pool);
        assert!(task.cancel(false));
        while pool.parked_workers().all == 0 {
            thread::yield_now();
        }
        assert_eq!(pool.queued_count(), 0);
        end(&pool);
    });
}

/// After a shutdown, the task for which a worker is parked or about to park is removed: the worker
/// must exit. Two workers would have too many interleavings; the first one wakes the second by the
/// same step.
#[test]
fn the_last_task_removed_in_shutdown_ends_the_worker() {
    model(|| {
        let pool = pool(1, ManualClock::new().clock());
        let task = pool.schedule(HOUR, || {}).unwrap();
        pool.shutdown();
        assert!(pool.remove(task.id()));
        wait_for_end(&pool);
    });
}

/// A plain pool runs a periodic task of another pool only once.
#[test]
fn a_periodic_task_on_another_pool_ends_after_one_run() {
    model(|| {
        let scheduled = pool(0, ManualClock::new().clock());
        let mut task = periodic_task_in_an_hour(&scheduled);
        let mut waiting = scheduled.shutdown_now();
        let other = ThreadPoolExecutor::builder().work_queue(WorkQueue::linked()).build().unwrap();
        other.execute_task(waiting.pop().expect("the periodic task")).unwrap();
        other.shutdown();
        assert!(other.await_termination(Duration::MAX).unwrap());
        assert!(matches!(task.try_join(), Some(Err(JoinError::Abandoned))));
    });
}

fn periodic_task_in_an_hour(pool: &ScheduledThreadPoolExecutor) -> crate::ScheduledHandle<()> {
    pool.schedule_at_fixed_rate_task(HOUR, HOUR, PeriodicTask::new(|| {})).unwrap()
}
