//! Models of changes to a running pool: settings, capacity, pause.

use loom::thread;
use std::time::Duration;

use super::queue::fifo::Fifo;
use super::settings::LiveSettings;
use super::{Hooks, ThreadPoolExecutor, WorkQueue};
use crate::interrupt::wait::{OnInterrupt, WaitCell};
use crate::loom_tests::{model, model_first};
use crate::monitor::{Change, ChangeError};
use crate::sync::{Arc, AtomicUsize, Ordering};
use crate::task::Task;
use crate::threads::WorkerInfo;
use crate::time::clock::Clock;
use crate::{ManualClock, ScheduledThreadPoolExecutor};

fn pool(queue: WorkQueue) -> ThreadPoolExecutor {
    let builder = ThreadPoolExecutor::builder().keep_alive_time(Duration::from_secs(3600));
    builder.work_queue(queue).build().expect("these options are consistent")
}

#[test]
fn one_of_two_changes_of_a_version_wins() {
    model(|| {
        let settings = Arc::new(LiveSettings::new(pool(WorkQueue::linked()).settings()));
        let change = |settings: &LiveSettings, size: usize| {
            let change = Change::new().maximum_pool_size(size).if_version(1);
            settings.change(|old| change.applied_to(old), |_| {})
        };
        let other = thread::spawn({
            let settings = Arc::clone(&settings);
            move || change(&settings, 2)
        });
        let mine = change(&settings, 3);
        let other = other.join().unwrap();
        let in_force = settings.get();
        assert_eq!(in_force.version, 2);
        assert_eq!(settings.maximum(), in_force.maximum_pool_size);
        let (won, lost) = if mine.is_ok() { (mine, other) } else { (other, mine) };
        assert_eq!(won.unwrap().1, in_force);
        assert_eq!(lost.unwrap_err(), ChangeError::Stale { current: in_force });
    });
}

/// A push after the change respects the new capacity, no matter which limit an earlier push has
/// cached.
#[test]
fn a_push_after_a_capacity_change_respects_it() {
    model(|| {
        let fifo = Arc::new(Fifo::new(3, Clock::system()));
        let push = |fifo: &Fifo| {
            let task = Task::new(|| {});
            fifo.push(task.id(), task, || ()).is_ok()
        };
        let other = thread::spawn({
            let fifo = Arc::clone(&fifo);
            move || push(&fifo)
        });
        fifo.set_capacity(1);
        let mine = push(&fifo);
        let other = other.join().unwrap();
        assert_eq!(fifo.len(), usize::from(mine) + usize::from(other));
        assert_eq!(fifo.len(), 1, "both found room for one, and neither for two");
        assert!(!push(&fifo));
        fifo.set_capacity(2);
        assert!(push(&fifo) && !push(&fifo));
    });
}

/// Race "wait for room / make room", where the space results from a change of the capacity.
#[test]
fn waiting_for_room_against_a_larger_capacity() {
    model(|| {
        let pool = pool(WorkQueue::array(1));
        pool.set_rejected_execution_handler(crate::policy::Block::forever());
        let control = pool.inner().control();
        assert!(control.try_add_worker(control.load())); // a worker that never takes a task
        pool.execute(|| {}).unwrap();
        let changes = thread::spawn({
            let pool = pool.clone();
            move || pool.reconfigure(Change::new().queue_capacity(2)).map(drop).unwrap()
        });
        pool.execute(|| {}).unwrap();
        changes.join().unwrap();
        assert_eq!((pool.queued_count(), pool.inner().submitters().is_empty()), (2, true));
    });
}

fn end(pool: &ThreadPoolExecutor) {
    pool.shutdown();
    assert!(pool.await_termination(Duration::MAX).unwrap());
    assert_eq!((pool.pool_size(), pool.queued_count()), (0, 0));
}

/// Race "pause / start": the worker may be about to take a task when the pool is paused.
#[test]
fn no_task_starts_after_a_pause() {
    model(|| {
        let pool = pool(WorkQueue::linked());
        assert!(pool.prestart_core_thread());
        pool.pause();
        let ran = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&ran);
        let task = pool.submit(move || count.fetch_add(1, Ordering::Relaxed)).unwrap();
        thread::yield_now();
        assert_eq!(ran.load(Ordering::Relaxed), 0);
        pool.resume();
        assert_eq!(pool.wait_idle(Duration::MAX), Ok(true)); // a join would itself wake a worker
        assert_eq!(task.join().unwrap(), 0);
        end(&pool);
    });
}

/// Race "resume / hold".
#[test]
fn a_worker_that_holds_a_task_against_resume() {
    model(|| {
        let pool = pool(WorkQueue::linked());
        pool.pause();
        let worker = thread::spawn({
            let pool = pool.clone();
            move || pool.inner().hold_while_paused()
        });
        pool.resume();
        worker.join().unwrap();
    });
}

/// Either the submitter or `resume` must wake a worker.
#[test]
fn pause_and_resume_against_submit() {
    model_first(10_000, || {
        let pool = pool(WorkQueue::linked());
        assert!(pool.prestart_core_thread());
        let steers = thread::spawn({
            let pool = pool.clone();
            move || {
                pool.pause();
                pool.resume();
            }
        });
        assert_eq!(pool.submit(|| 7).unwrap().join().unwrap(), 7);
        steers.join().unwrap();
        end(&pool);
    });
}

/// The first task of a new worker is held too, and the shutdown resumes the pool.
#[test]
fn pause_against_shutdown() {
    model(|| {
        let pool = pool(WorkQueue::synchronous());
        let pauses = thread::spawn({
            let pool = pool.clone();
            move || pool.pause()
        });
        let task = pool.submit(|| 7).unwrap();
        end(&pool);
        pauses.join().unwrap();
        assert_eq!(task.join().unwrap(), 7);
        assert!(!pool.is_paused());
    });
}

/// Race "wait for room / make room", where the room is a worker that parks in a paused pool.
#[test]
fn waiting_for_room_against_parking_in_a_paused_pool() {
    model_first(10_000, || {
        let pool = pool(WorkQueue::array(1));
        pool.set_rejected_execution_handler(crate::policy::Block::forever());
        pool.pause();
        assert!(pool.prestart_core_thread());
        pool.execute(|| {}).unwrap();
        pool.execute(|| {}).unwrap(); // enters when the worker has taken the first task
        assert_eq!((pool.queued_count(), pool.inner().submitters().is_empty()), (1, true));
        end(&pool);
    });
}

/// Tasks of a scheduled pool that become due during a pause wait, and run after it.
#[test]
fn pause_and_resume_against_a_due_task() {
    model_first(10_000, || {
        let time = ManualClock::silent(); // the model must not depend on real time
        let pool = ScheduledThreadPoolExecutor::builder().clock(time.clock()).build().unwrap();
        let steers = thread::spawn({
            let pool = pool.clone();
            move || {
                pool.pause();
                pool.resume();
            }
        });
        assert_eq!(pool.schedule(Duration::ZERO, || 7).unwrap().join().unwrap(), 7);
        steers.join().unwrap();
        pool.close();
    });
}

/// Notifies a thread when a worker stops.
struct Stopped(WaitCell);

impl Hooks for Stopped {
    fn worker_stopped(&self, _: &WorkerInfo) {
        self.0.notify();
    }
}

/// Race "last removal / park": in a paused pool a worker stays only for a queued task. It must not
/// park when the task has been cancelled.
#[test]
fn the_last_task_cancelled_in_a_pause_ends_the_worker() {
    model(|| {
        let stopped = Arc::new(Stopped(WaitCell::for_this_thread()));
        let builder = ThreadPoolExecutor::builder().core_pool_size(0).maximum_pool_size(1);
        let builder = builder.keep_alive_time(Duration::ZERO).work_queue(WorkQueue::linked());
        let pool = builder.hooks(Arc::clone(&stopped)).build().expect("these options are consistent");
        pool.pause();
        assert!(pool.submit(|| {}).unwrap().cancel(false));
        stopped.0.wait(None, OnInterrupt::Keep);
        pool.close();
    });
}
