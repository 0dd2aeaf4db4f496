//! Models of the pool's measurements: laps, and time marks beside the queue.

use loom::thread;
use std::time::Duration;

use super::queue::fifo::Fifo;
use super::workers::Workers;
use crate::loom_tests::model;
use crate::monitor::{FirstTask, Laps, Meter, Progress, Timing};
use crate::sync::{Arc, AtomicU64, Ordering};
use crate::task::Task;
use crate::time::clock::{ManualClock, Tick};

const SECOND: Duration = Duration::from_secs(1);

fn push(fifo: &Fifo) {
    let task = Task::new(|| {});
    assert!(fifo.push(task.id(), task, || ()).is_ok());
}

/// Creates a queue that records time marks, with its clock.
fn dated() -> (ManualClock, Arc<Fifo>) {
    let time = ManualClock::new();
    let fifo = Arc::new(Fifo::new(8, time.clock()));
    fifo.set_marks(true);
    (time, fifo)
}

/// A thread that sees a task also sees when it was pushed.
#[test]
fn a_task_is_not_visible_before_its_mark() {
    model(|| {
        let (time, fifo) = dated();
        time.advance(SECOND);
        let submitter = thread::spawn({
            let fifo = Arc::clone(&fifo);
            move || push(&fifo)
        });
        if !fifo.is_empty() {
            assert_eq!(fifo.head_since(), Some(Tick::ORIGIN.plus(SECOND)));
        }
        submitter.join().unwrap();
        assert_eq!(fifo.head_since(), Some(Tick::ORIGIN.plus(SECOND)));
    });
}

/// A worker requests a mark and then finds no task, so it waits for one. The next task has a mark.
#[test]
fn requesting_a_mark_against_push() {
    model(|| {
        let (time, fifo) = dated();
        fifo.space_marks(8);
        for _ in 0..2 {
            push(&fifo); // the next mark is some pushes away
            assert!(fifo.pop().is_some());
        }
        time.advance(SECOND);
        let submitter = thread::spawn({
            let fifo = Arc::clone(&fifo);
            move || push(&fifo)
        });
        fifo.ask_for_mark();
        let waits = fifo.is_empty();
        submitter.join().unwrap();
        let since = fifo.head_since().expect("a task is queued");
        assert!(!waits || since == Tick::ORIGIN.plus(SECOND), "{since:?}");
    });
}

/// Tasks that move keep their times, even for a thread that reads at the same time.
#[test]
fn the_age_of_the_head_against_compaction() {
    model(|| {
        let (time, fifo) = dated();
        push(&fifo);
        time.advance(SECOND);
        push(&fifo);
        let mover = thread::spawn({
            let fifo = Arc::clone(&fifo);
            move || assert!(fifo.remove_if(|_| false).is_empty())
        });
        assert_eq!(fifo.head_since(), Some(Tick::ORIGIN));
        mover.join().unwrap();
        assert_eq!(fifo.head_since(), Some(Tick::ORIGIN));
        assert!(fifo.pop().is_some());
        assert_eq!(fifo.head_since(), Some(Tick::ORIGIN.plus(SECOND)));
    });
}

/// A reader counts the tasks of a thread that it assumes to be idle, while that thread continues.
#[test]
fn a_lap_that_a_reader_closes() {
    model(|| {
        let time = ManualClock::new();
        let meter = Meter::new(time.clock(), Timing::Sampled, 1);
        let shared = Arc::new((meter, Laps::default(), AtomicU64::new(0)));
        let worker = thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                let (meter, laps, finished) = &*shared;
                let at = |finished| Progress { thread: 0, finished };
                laps.resume(meter, at(0), None);
                for task in 1..=2 {
                    finished.store(task, Ordering::Release);
                    if laps.is_over(task) {
                        let now = meter.now().expect("it measures");
                        laps.next(meter, at(task), now, FirstTask::AcceptedAt(None));
                    }
                }
                laps.pause(meter, at(2));
            }
        });
        let (meter, laps, finished) = &*shared;
        let seen = finished.load(Ordering::Acquire);
        let now = meter.now().expect("it measures");
        laps.settle(meter, now, Progress { thread: 0, finished: seen }, None);
        assert!(meter.run().count() >= seen.min(1) && meter.run().count() <= 2);
        worker.join().unwrap();
        assert_eq!((meter.run().count(), meter.wait().count()), (2, 2));
    });
}

/// A reader sees a task with its own name, or without a name if the worker continues at the same
/// time.
#[test]
fn the_current_task_and_its_name() {
    model(|| {
        let tasks = ["first", "second"].map(|name| Task::new(|| {}).named(name));
        let ids = [tasks[0].id(), tasks[1].id()];
        let worker = Workers::default().add("worker-", None);
        let running = thread::spawn({
            let worker = Arc::clone(&worker);
            move || {
                for task in &tasks {
                    worker.begin_task(task);
                    worker.end_task();
                }
            }
        });
        if let Some((id, Some(name), _)) = worker.current_task() {
            assert_eq!(name, if id == ids[0] { "first" } else { "second" });
        }
        running.join().unwrap();
        assert_eq!(worker.current_task(), None);
    });
}
