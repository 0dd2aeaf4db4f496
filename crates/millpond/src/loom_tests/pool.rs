//! Models of the pool's races, which are named in `pool/README.md`.
//!
//! A model of a whole pool uses one or two workers and one or two tasks, because more would have
//! too many interleavings. A stranded task or a lost wake-up appears as a deadlock.

use loom::thread;
use std::time::{Duration, Instant};

use super::idle::{IdleWorkers, ParkOptions, ParkSlot, WakeReason};
use super::queue::fifo::Fifo;
use super::queue::with_time;
use super::{RunState, ThreadPoolExecutor, WorkQueue};
use crate::interrupt::wait::{OnInterrupt, WaitCell};
use crate::loom_tests::model;
use crate::sync::{Arc, AtomicBool, AtomicUsize, Ordering};
use crate::task::Task;
use crate::time::clock::Clock;

/// The re-check of a worker that has entered the idle list: race "enqueue / park".
fn recheck(fifo: &Fifo) -> bool {
    fifo.order();
    !fifo.is_empty()
}

/// Repeats the steps of the worker loop for one task: poll, search if `searches`, park, poll again.
/// Whole pools have too many interleavings with two workers or with a search.
fn take_one(fifo: &Fifo, idle: &IdleWorkers, searches: bool) -> Task {
    let slot = ParkSlot::for_this_thread();
    loop {
        let task = match fifo.pop() {
            Some(task) => Some(task),
            None if searches && idle.search(|| !fifo.is_empty()) => None,
            None => match idle.park(&slot, ParkOptions::default(), false, || recheck(fifo)) {
                WakeReason::Assigned((task, _)) => Some(task),
                WakeReason::Woken | WakeReason::TimedOut => None,
            },
        };
        fifo.order(); // no longer waking, now the queue is read
        if let Some(task) = task {
            idle.wake_one_if(|| !fifo.is_empty(), || fifo.pop().map(with_time));
            return task;
        }
    }
}

/// Enqueues one task as a submitter does.
fn enqueue(fifo: &Fifo, idle: &IdleWorkers, task: Task) {
    let wake = fifo.push(task.id(), task, || idle.should_wake_for_new_task()).expect("there is room");
    if wake {
        idle.wake_one(|| fifo.pop().map(with_time));
    }
}

/// A searching worker counts as waking. It must find a task whose submitter relied on this.
#[test]
fn a_searching_worker_against_enqueue() {
    model(|| {
        let shared = Arc::new((Fifo::new(4, Clock::system()), IdleWorkers::default()));
        let worker = thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                for _ in 0..2 {
                    take_one(&shared.0, &shared.1, true).run();
                }
            }
        });
        enqueue(&shared.0, &shared.1, Task::new(|| {}));
        enqueue(&shared.0, &shared.1, Task::new(|| {}));
        worker.join().unwrap();
    });
}

/// A second searching worker would hide the queue from submitters if both were preempted.
#[test]
fn one_worker_searches_at_a_time() {
    model(|| {
        let shared = Arc::new((IdleWorkers::default(), AtomicUsize::new(0)));
        let search = |shared: &(IdleWorkers, AtomicUsize)| {
            shared.0.search(|| {
                assert_eq!(shared.1.fetch_add(1, Ordering::SeqCst), 0, "two workers search");
                shared.1.fetch_sub(1, Ordering::SeqCst);
                true
            })
        };
        let other = thread::spawn({
            let shared = Arc::clone(&shared);
            move || search(&shared)
        });
        let found = search(&shared);
        assert!(other.join().unwrap() || found, "no worker has searched");
        assert_eq!(shared.0.waking_count(), 0);
    });
}

/// The second submitter may see a waking worker and wake no other one. Then that worker must wake
/// the other one.
#[test]
fn a_woken_worker_wakes_the_next() {
    model(|| {
        let shared = Arc::new((Fifo::new(4, Clock::system()), IdleWorkers::default()));
        let workers: Vec<_> = (0..2)
            .map(|_| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || take_one(&shared.0, &shared.1, false).run())
            })
            .collect();
        enqueue(&shared.0, &shared.1, Task::new(|| {}));
        enqueue(&shared.0, &shared.1, Task::new(|| {}));
        for worker in workers {
            worker.join().unwrap();
        }
    });
}

/// Race "handoff / keep-alive expiry": either the worker gets the task, or the submitter gets it
/// back.
#[test]
fn handoff_against_keep_alive_expiry() {
    model(|| {
        let idle = Arc::new(IdleWorkers::default());
        let ran = Arc::new(AtomicUsize::new(0));
        let (send, receive) = std::sync::mpsc::channel();
        let worker = thread::spawn({
            let idle = Arc::clone(&idle);
            move || {
                send.send(crate::interrupt::ThreadContext::current()).unwrap();
                let far = Some(Instant::now() + Duration::from_secs(3600));
                let options = ParkOptions { deadline: far, ..ParkOptions::default() };
                match idle.park(&ParkSlot::for_this_thread(), options, true, || false) {
                    WakeReason::Assigned((task, _)) => {
                        task.run();
                        true
                    }
                    WakeReason::TimedOut => false,
                    WakeReason::Woken => panic!("woken without a task"),
                }
            }
        });
        let task = Task::new({
            let ran = Arc::clone(&ran);
            move || {
                ran.fetch_add(1, Ordering::Relaxed);
            }
        });
        let timer = loop {
            match receive.try_recv() {
                Ok(thread) => break thread,
                Err(_) => thread::yield_now(),
            }
        };
        let clock = thread::spawn(move || timer.fire_timer());
        let handed = idle.hand_off(task, || None).is_ok();
        clock.join().unwrap();
        assert_eq!(worker.join().unwrap(), handed);
        assert_eq!(ran.load(Ordering::Relaxed), usize::from(handed));
        assert_eq!(idle.parked_workers().all, 0);
    });
}

pub(super) fn pool(core: usize, max: usize, keep_alive: Duration, queue: WorkQueue) -> ThreadPoolExecutor {
    ThreadPoolExecutor::builder()
        .core_pool_size(core)
        .maximum_pool_size(max)
        .keep_alive_time(keep_alive)
        .work_queue(queue)
        .build()
        .expect("these options are consistent")
}

/// Terminates the pool and checks that no worker and no task is left.
pub(super) fn end(pool: &ThreadPoolExecutor) {
    pool.shutdown();
    assert!(pool.await_termination(Duration::MAX).unwrap());
    assert_eq!(pool.state(), RunState::Terminated);
    assert_eq!((pool.pool_size(), pool.queued_count()), (0, 0));
}

/// Race "enqueue / park" with the worker loop of a whole pool. The caller neither joins nor shuts
/// the pool down before the task has run: both would wake a parked worker.
#[test]
fn a_worker_parks_against_submit() {
    model(|| {
        let pool = pool(1, 1, Duration::from_secs(3600), WorkQueue::linked());
        assert!(pool.prestart_core_thread());
        let ran = Arc::new(WaitCell::for_this_thread());
        pool.execute({
            let ran = Arc::clone(&ran);
            move || ran.notify()
        })
        .unwrap();
        ran.wait(None, OnInterrupt::Keep);
        end(&pool);
    });
}

/// Race "enqueue / park" with the worker loop of a whole pool: a worker that was woken must see the
/// task of a submitter that woke no other worker because of it.
///
/// The caller submits both tasks and is also the second worker, parked from the start. The first
/// task ends only after the second one has begun.
#[test]
fn a_woken_worker_against_submit() {
    model(|| {
        let pool = pool(1, 1, Duration::from_secs(3600), WorkQueue::linked());
        assert!(pool.prestart_core_thread());
        let (inner, slot) = (pool.inner(), ParkSlot::for_this_thread());
        inner.idle().enlist(&slot, ParkOptions::default());
        let begun = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        for own in [0, 1] {
            let begun = begun.clone();
            pool.execute(move || {
                begun[own].store(true, Ordering::SeqCst);
                while !begun[1 - own].load(Ordering::SeqCst) {
                    thread::yield_now();
                }
            })
            .unwrap();
        }
        let assigned = match inner.idle().finish_wake(&slot) {
            WakeReason::Assigned((task, _)) => Some(task),
            _ => None,
        };
        inner.queue().order();
        if let Some(task) = assigned.or_else(|| inner.poll().map(|(task, _)| task)) {
            inner.assign_head(|idle, head| idle.wake_one_if(|| !inner.queue().is_empty(), head));
            task.run();
        }
        end(&pool);
    });
}
