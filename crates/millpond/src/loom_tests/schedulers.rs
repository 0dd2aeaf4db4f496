//! Models of the engine of the schedulers: whole schedulers with one or two threads and a manual
//! clock.
//!
//! A stranded job or a lost wake-up appears as a deadlock: each model ends with a graceful end,
//! which waits for all accepted work and for all threads.

use loom::thread;
use std::time::Duration;

use super::courier::Courier;
use super::{EngineScheduler, Plan, Shape, ThreadSource, new_scheduler};
use crate::executor::RejectReason;
use crate::loom_tests::model;
use crate::monitor::Actor;
use crate::schedulers::{Disposable, Scheduler, SchedulerExt};
use crate::sync::{Arc, AtomicBool, AtomicUsize, Mutex, Ordering};
use crate::threads::{ThreadFactory, WorkerBody, plain_threads};
use crate::time::clock::ManualClock;

const TTL: Duration = Duration::from_secs(60);

fn scheduler(shape: Shape, max_slots: usize, time: &ManualClock) -> EngineScheduler {
    with_threads(plain_threads(), shape, max_slots, time)
}

fn with_threads(
    factory: Arc<ThreadFactory>,
    shape: Shape,
    max_slots: usize,
    time: &ManualClock,
) -> EngineScheduler {
    static NUMBERS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    new_scheduler(Plan {
        name: "model".to_owned(),
        registered_as: "model".to_owned(),
        shape,
        is_work_movable: true,
        max_slots,
        queue_capacity: 4,
        source: ThreadSource::threads(factory, "model", &NUMBERS, false),
        clock: time.clock(),
        has_timing: true,
    })
}

fn elastic(max: usize, time: &ManualClock) -> EngineScheduler {
    scheduler(Shape::Elastic { ttl: TTL }, max, time)
}

/// Counts runs, and fails if two runs overlap.
#[derive(Default)]
struct Runs {
    running: AtomicBool,
    count: AtomicUsize,
}

impl Runs {
    fn task(self: &Arc<Self>) -> impl FnOnce() + Send + 'static {
        let runs = Arc::clone(self);
        move || {
            assert!(!runs.running.swap(true, Ordering::SeqCst), "two at once");
            runs.count.fetch_add(1, Ordering::SeqCst);
            runs.running.store(false, Ordering::SeqCst);
        }
    }

    fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }
}

/// Waits for the end. Checks that nothing is left and every run was measured.
fn end(scheduler: &EngineScheduler) {
    assert_eq!(scheduler.dispose_gracefully(Duration::MAX), Ok(true));
    let stats = scheduler.stats();
    assert_eq!((stats.slots, stats.live_threads, stats.queued), (0, 0, 0), "{stats:?}");
    assert_eq!(stats.submitted, stats.completed + stats.panicked + stats.cancelled, "{stats:?}");
    let seen = scheduler.pool_ref().and_then(|pool| pool.snapshot()).expect("it is there");
    let runs = stats.completed + stats.panicked;
    assert_eq!((seen.run.count(), seen.wait.count()), (runs, runs), "every run is measured");
}

/// A submission is refused, or its task runs or is cancelled. Exactly one of these happens.
#[test]
fn dispose_against_schedule() {
    model(|| {
        let scheduler = elastic(1, &ManualClock::new());
        let runs = Arc::new(Runs::default());
        let submitter = thread::spawn({
            let (scheduler, task) = (scheduler.clone(), runs.task());
            move || scheduler.schedule(task)
        });
        scheduler.dispose();
        assert!(scheduler.schedule(|| {}).is_err(), "nothing is accepted after the end");
        let accepted = submitter.join().unwrap();
        end(&scheduler);
        match accepted {
            Err(rejected) => assert_eq!((rejected.reason(), runs.count()), (RejectReason::Shutdown, 0)),
            Ok(task) => {
                assert!(task.is_disposed());
                assert!(runs.count() == 1 || task.is_cancelled());
            }
        }
    });
}

/// Work that is submitted while the scheduler is paused or being resumed must run.
#[test]
fn pause_and_resume_against_submit() {
    model(|| {
        let scheduler = elastic(1, &ManualClock::new());
        let runs = Arc::new(Runs::default());
        let pool = scheduler.pool_ref().expect("it is listed");
        let by = Actor::default();
        pool.pause(&by);
        let task = scheduler.schedule(runs.task()).unwrap();
        let resumer = thread::spawn(move || pool.resume(&Actor::default()));
        let second = scheduler.schedule(runs.task()).unwrap();
        assert_eq!((task.wait(Duration::MAX), second.wait(Duration::MAX)), (Ok(true), Ok(true)));
        resumer.join().unwrap();
        end(&scheduler);
        assert_eq!(runs.count(), 2);
    });
}

/// A pause does not stop a job that a thread has taken, and the end resumes the scheduler.
#[test]
fn pause_against_a_lane_and_the_end() {
    model(|| {
        let scheduler = elastic(1, &ManualClock::new());
        let runs = Arc::new(Runs::default());
        let lane = scheduler.create_worker();
        (0..2).for_each(|_| _ = lane.schedule(runs.task()).unwrap());
        scheduler.pool_ref().expect("it is listed").pause(&Actor::default());
        end(&scheduler);
        assert_eq!(runs.count(), 2);
    });
}

/// A task is submitted while a thread asks for work for the last time before it parks.
#[test]
fn submit_against_parking() {
    model(|| {
        let scheduler = elastic(1, &ManualClock::new());
        let runs = Arc::new(Runs::default());
        scheduler.schedule(runs.task()).unwrap();
        scheduler.schedule(runs.task()).unwrap();
        end(&scheduler);
        assert_eq!(runs.count(), 2);
    });
}

/// A lane is queued, running and closing: its tasks do not overlap, and its slot is released once.
#[test]
fn a_lane_is_disposed_while_it_runs() {
    model(|| {
        let scheduler = elastic(1, &ManualClock::new());
        let runs = Arc::new(Runs::default());
        let lane = scheduler.create_worker();
        let tasks: Vec<Disposable> = (0..2).map(|_| lane.schedule(runs.task()).unwrap()).collect();
        let disposer = thread::spawn({
            let lane = lane.clone();
            move || lane.dispose()
        });
        disposer.join().unwrap();
        assert_eq!(lane.schedule(|| {}).unwrap_err().reason(), RejectReason::WorkerDisposed);
        end(&scheduler);
        assert!(tasks.iter().all(Disposable::is_disposed));
        let ran_to_the_end = tasks.iter().filter(|task| !task.is_cancelled()).count();
        assert!(ran_to_the_end <= runs.count());
    });
}

/// Two threads run one lane, because the thread of its home slot is busy: order and non-overlap
/// hold.
#[test]
fn a_lane_moves_between_two_threads() {
    model(|| {
        let scheduler = elastic(2, &ManualClock::new());
        let runs = Arc::new(Runs::default());
        let lane = scheduler.create_worker();
        let first = lane.schedule(runs.task()).unwrap();
        scheduler.stats(); // settles the lane: the next job needs the scheduler's lock
        lane.schedule(runs.task()).unwrap();
        drop(lane); // it finishes the remaining jobs
        end(&scheduler);
        assert!(first.is_disposed() && !first.is_cancelled());
        assert_eq!(runs.count(), 2);
    });
}

/// A job is submitted to a lane, with or without the scheduler's lock, while the last run of the
/// lane ends: the job must be seen.
#[test]
fn push_against_a_lane_becoming_idle() {
    model(|| {
        let scheduler = elastic(1, &ManualClock::new());
        let runs = Arc::new(Runs::default());
        let lane = scheduler.create_worker();
        let first = lane.schedule(runs.task()).unwrap();
        let second = lane.schedule(runs.task()).unwrap();
        assert!(first.wait(Duration::MAX).unwrap() && second.wait(Duration::MAX).unwrap());
        assert_eq!(runs.count(), 2);
        let stats = scheduler.stats();
        assert_eq!((stats.completed, stats.queued, stats.remaining_capacity), (2, 0, 4));
        end(&scheduler);
    });
}

/// A thread continues in its lane while the next job there is cancelled: the job is counted once.
#[test]
fn next_job_of_a_lane_against_cancel() {
    model(|| {
        let scheduler = elastic(1, &ManualClock::new());
        let runs = Arc::new(Runs::default());
        let lane = scheduler.create_worker();
        let tasks: Vec<Disposable> = (0..3).map(|_| lane.schedule(runs.task()).unwrap()).collect();
        let cancelled = tasks[1].dispose();
        drop(lane);
        end(&scheduler);
        let stats = scheduler.stats();
        assert_eq!(stats.completed + stats.cancelled, 3);
        assert!(runs.count() >= 2 && (runs.count() == 3 || cancelled), "{} {cancelled}", runs.count());
        assert_eq!(stats.remaining_capacity, 4);
    });
}

/// Two threads are parked, searching or notified, and there is work for both: both jobs must run.
#[test]
fn one_wake_up_at_a_time() {
    model(|| {
        let scheduler = elastic(2, &ManualClock::new());
        let count = Arc::new(AtomicUsize::new(0));
        let task = || {
            let count = Arc::clone(&count);
            scheduler.schedule(move || {
                count.fetch_add(1, Ordering::SeqCst);
            })
        };
        let tasks = [task().unwrap(), task().unwrap()];
        assert!(tasks.iter().all(|task| task.wait(Duration::MAX).unwrap()));
        task().unwrap();
        task().unwrap();
        end(&scheduler);
        assert_eq!(count.load(Ordering::SeqCst), 4);
    });
}

/// A task is queued behind a task that waits for it: the thread of the other slot must run it.
#[test]
fn queued_work_moves_to_a_free_thread() {
    model(|| {
        let scheduler = elastic(2, &ManualClock::new());
        let gate = Disposable::from_fn(|| {});
        let opens = gate.clone();
        scheduler.schedule(move || assert!(gate.wait(Duration::MAX).unwrap())).unwrap();
        scheduler.schedule(|| {}).unwrap();
        scheduler.schedule(move || assert!(opens.dispose())).unwrap();
        end(&scheduler);
        assert_eq!(scheduler.stats().completed, 3);
    });
}

/// A start fails while the only other thread ends a run, searches or parks: that thread must do the
/// work. No time passes, so the start is never retried.
#[test]
fn failed_start_against_another_thread_parking() {
    model(|| {
        let (threads, calls) = (plain_threads(), std::sync::atomic::AtomicUsize::new(0));
        let factory = move |body: WorkerBody| match calls.fetch_add(1, Ordering::SeqCst) {
            0 => threads(body),
            _ => Err(std::io::Error::other("out of threads")),
        };
        let time = ManualClock::new();
        let scheduler = with_threads(Arc::new(factory), Shape::Elastic { ttl: TTL }, 2, &time);
        let runs = Arc::new(Runs::default());
        let delayed = scheduler.schedule_after(TTL / 2, runs.task()).unwrap();
        scheduler.schedule(|| {}).unwrap();
        time.advance(TTL / 2);
        end(&scheduler);
        assert!(delayed.is_disposed() && !delayed.is_cancelled());
        assert_eq!(runs.count(), 1);
    });
}

/// A thread that is still searching is not notified for the work of another slot: the newest idle
/// slot is used, and the other slot ages.
#[test]
fn the_newest_idle_slot_is_used_before_a_searching_one() {
    model(|| {
        let time = ManualClock::new();
        let scheduler = elastic(2, &time);
        let threads = Arc::new(Mutex::new(Vec::new()));
        let note = || {
            let threads = Arc::clone(&threads);
            move || threads.lock().push(thread::current().id())
        };
        let first = scheduler.schedule(|| {}).unwrap();
        let noted = note();
        let ends_last = move || {
            assert!(first.wait(Duration::MAX).unwrap());
            noted();
        };
        let last = scheduler.schedule(ends_last).unwrap();
        assert!(last.wait(Duration::MAX).unwrap());
        time.advance(TTL / 2);
        assert!(scheduler.schedule(note()).unwrap().wait(Duration::MAX).unwrap());
        time.advance(TTL / 2);
        assert_eq!(scheduler.stats().slots, 1);
        end(&scheduler);
        let threads = threads.lock();
        assert_eq!(threads[0], threads[1], "the one that became idle last");
    });
}

/// The alarm of a lane fires while a thread runs the lane in place: its jobs do not overlap.
#[test]
fn running_a_lane_in_place_against_its_alarm() {
    model(|| {
        let time = ManualClock::new();
        let scheduler = elastic(2, &time);
        let runs = Arc::new(Runs::default());
        let lane = scheduler.create_worker();
        let first = lane.schedule_after(TTL / 2, runs.task()).unwrap();
        lane.schedule_after(TTL / 2, runs.task()).unwrap();
        scheduler.schedule(move || assert!(first.wait(Duration::MAX).unwrap())).unwrap();
        time.advance(TTL / 2);
        drop(lane);
        end(&scheduler);
        assert_eq!(runs.count(), 2);
    });
}

/// The only thread waits for the second job of a lane: it must be notified when the lane is queued
/// behind it.
#[test]
fn a_waiter_is_notified_when_its_lane_is_queued() {
    model(|| {
        let time = ManualClock::new();
        let scheduler = elastic(1, &time);
        let runs = Arc::new(Runs::default());
        let lane = scheduler.create_worker();
        lane.schedule_after(TTL / 4, runs.task()).unwrap();
        let second = lane.schedule_after(TTL / 2, runs.task()).unwrap();
        scheduler.schedule(move || assert!(second.wait(Duration::MAX).unwrap())).unwrap();
        time.advance(TTL / 4);
        time.advance(TTL / 4);
        drop(lane);
        end(&scheduler);
        assert_eq!(runs.count(), 2);
    });
}

/// A slot is released while expired slots are removed: the next task must find a slot that exists.
#[test]
fn permit_release_against_eviction() {
    model(|| {
        let time = ManualClock::new();
        let scheduler = elastic(1, &time);
        let runs = Arc::new(Runs::default());
        scheduler.schedule(runs.task()).unwrap();
        let clock = thread::spawn(move || time.advance(TTL));
        scheduler.schedule(runs.task()).unwrap();
        clock.join().unwrap();
        let stats = scheduler.stats();
        assert!(stats.slots <= 1 && stats.busy + stats.idle == stats.slots, "{stats:?}");
        end(&scheduler);
        assert_eq!(runs.count(), 2);
    });
}

/// The timer of a task is due while the task is cancelled.
#[test]
fn cancel_against_the_timer() {
    model(|| {
        let time = ManualClock::new();
        let scheduler = elastic(1, &time);
        let runs = Arc::new(Runs::default());
        let task = scheduler.schedule_after(TTL / 2, runs.task()).unwrap();
        let clock = thread::spawn(move || time.advance(TTL / 2));
        let cancelled = task.dispose();
        clock.join().unwrap();
        end(&scheduler);
        assert_eq!(task.is_cancelled(), cancelled);
        assert!(runs.count() == 1 || cancelled);
        assert_eq!(scheduler.stats().remaining_capacity, 4);
    });
}

/// A periodic task is cancelled between two runs, during a run, or before the first one.
#[test]
fn cancel_against_a_periodic_task() {
    model(|| {
        let time = ManualClock::new();
        let scheduler = elastic(1, &time);
        let count = Arc::new(AtomicUsize::new(0));
        let runs = Arc::clone(&count);
        let task = scheduler
            .schedule_periodically(Duration::ZERO, TTL / 4, move || {
                runs.fetch_add(1, Ordering::SeqCst);
            })
            .unwrap();
        assert!(task.dispose());
        assert!(task.wait(Duration::MAX).unwrap());
        let seen = count.load(Ordering::SeqCst);
        time.advance(TTL / 2);
        end(&scheduler);
        assert_eq!(count.load(Ordering::SeqCst), seen, "no run starts after the dispose");
        assert_eq!(scheduler.stats().remaining_capacity, 4);
    });
}

/// Every task gets a new thread: a thread that ends passes the queued work on to the next one.
#[test]
fn a_new_thread_for_each_task() {
    model(|| {
        let scheduler = scheduler(Shape::PerTask, 1, &ManualClock::new());
        let runs = Arc::new(Runs::default());
        scheduler.schedule(runs.task()).unwrap();
        scheduler.schedule(runs.task()).unwrap();
        end(&scheduler);
        assert_eq!(runs.count(), 2);
    });
}

/// The second of two errands is sent while the courier is busy, about to exit, or gone: each
/// errand runs once.
#[test]
fn errand_against_courier_exit() {
    model(|| {
        let run = Arc::new(AtomicUsize::new(0));
        let courier = Courier::new(|run: Arc<AtomicUsize>| _ = run.fetch_add(1, Ordering::SeqCst));
        courier.dismiss(); // it exits without waiting for errands
        courier.send(Arc::clone(&run)).unwrap();
        courier.send(Arc::clone(&run)).unwrap();
        while run.load(Ordering::SeqCst) < 2 {
            thread::yield_now();
        }
    });
}
