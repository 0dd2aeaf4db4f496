//! Models of the pool's races, which are named in `pool/README.md`.
//!
//! A model of a whole pool uses one or two workers and one or two tasks, because more would have
//! too many interleavings. A stranded task or a lost wake-up appears as a deadlock.

use loom::thread;
use std::time::{Duration, Instant};

use super::idle::{IdleWorkers, ParkOptions, ParkSlot, WakeReason};
use super::queue::fifo::Fifo;
use super::queue::{TaskQueue, with_time};
use super::waiters::Waiters;
use super::{Hooks, RunState, ThreadPoolExecutor, WorkQueue};
use crate::executor::RejectReason;
use crate::interrupt::wait::{OnInterrupt, WaitCell};
use crate::loom_tests::{model, model_bound, model_first};
use crate::sync::{Arc, AtomicBool, AtomicUsize, Ordering};
use crate::task::{JoinError, Task, TaskHandle};
use crate::threads::WorkerInfo;
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
fn a_worker_that_looks_for_work_against_publish() {
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
fn a_called_worker_calls_the_next() {
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
fn hand_over_against_time_out() {
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
fn end(pool: &ThreadPoolExecutor) {
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

#[test]
fn submit_against_last_worker_leaves() {
    model(|| {
        let pool = pool(0, 1, Duration::ZERO, WorkQueue::linked());
        let first = pool.submit(|| 1).unwrap();
        let second = pool.submit(|| 2).unwrap();
        assert_eq!(second.join().unwrap(), 2);
        assert_eq!(first.join().unwrap(), 1);
        end(&pool);
    });
}

/// Checks invariants 1 and 2 of `pool/stats.rs`, for a task that starts a thread or is queued for
/// an existing one.
fn look_at_the_counts(queued: bool) {
    model(move || {
        let pool = pool(1, 1, Duration::from_secs(3600), WorkQueue::priority());
        assert!(!queued || pool.prestart_core_thread());
        let observer = thread::spawn({
            let pool = pool.clone();
            move || {
                let stats = pool.stats();
                assert!(stats.completed <= stats.submitted, "{stats:?}");
            }
        });
        pool.execute(|| {}).unwrap();
        let stats = pool.stats();
        let inside = stats.queued_count + stats.active_count;
        assert!(stats.completed + inside as u64 >= 1, "{stats:?}");
        observer.join().unwrap();
        end(&pool);
    });
}

#[test]
fn a_look_at_the_counts_against_a_task_with_a_new_thread() {
    look_at_the_counts(false);
}

#[test]
fn a_look_at_the_counts_against_a_task_that_is_queued() {
    look_at_the_counts(true);
}

/// An accepted task runs, and a refused one is returned. No handle is pending after termination.
fn check_submit(submitted: Result<TaskHandle<u32>, crate::Rejected>, drained: bool) {
    match submitted {
        Ok(mut handle) => match handle.try_join().expect("the pool has terminated") {
            Ok(value) => assert_eq!(value, 7),
            Err(JoinError::Abandoned) => assert!(drained),
            Err(error) => panic!("{error}"),
        },
        Err(rejected) => assert_eq!(rejected.reason(), RejectReason::Shutdown),
    }
}

#[test]
fn submit_against_shutdown() {
    model(|| {
        let pool = pool(0, 1, Duration::from_secs(3600), WorkQueue::linked());
        let submitter = thread::spawn({
            let pool = pool.clone();
            move || pool.submit(|| 7)
        });
        pool.shutdown();
        let submitted = submitter.join().unwrap();
        end(&pool);
        check_submit(submitted, false);
    });
}

#[test]
fn submit_against_shutdown_now() {
    model(|| {
        let pool = pool(1, 1, Duration::from_secs(3600), WorkQueue::linked());
        let submitter = thread::spawn({
            let pool = pool.clone();
            move || pool.submit(|| 7)
        });
        drop(pool.shutdown_now());
        let submitted = submitter.join().unwrap();
        end(&pool);
        check_submit(submitted, true);
    });
}

/// A worker finishes a task and finds the pool shut down. It must not leave a task that was
/// submitted just before. Needs three preemptions.
#[test]
fn leaving_in_shutdown_against_submit() {
    model_bound(3, || {
        let pool = pool(1, 1, Duration::from_secs(3600), WorkQueue::linked());
        let first = pool.submit(|| 7).unwrap();
        let submitter = thread::spawn({
            let pool = pool.clone();
            move || pool.submit(|| 7)
        });
        pool.shutdown();
        let submitted = submitter.join().unwrap();
        end(&pool);
        check_submit(Ok(first), false);
        check_submit(submitted, false);
    });
}

/// As above, with a task whose panic no handle keeps: after it, the worker decides whether it may
/// replace itself.
#[test]
fn leaving_after_a_panic_against_submit_and_shutdown() {
    model_bound(3, || {
        let pool = pool(1, 1, Duration::from_secs(3600), WorkQueue::linked());
        pool.execute(|| std::panic::resume_unwind(Box::new(()))).unwrap(); // without the panic hook
        let submitter = thread::spawn({
            let pool = pool.clone();
            move || pool.submit(|| 7)
        });
        pool.shutdown();
        let submitted = submitter.join().unwrap();
        end(&pool);
        check_submit(submitted, false);
    });
}

/// A thread that did not shut the pool down itself must not terminate it beside a submit that was
/// accepted just before.
#[test]
fn submit_against_termination() {
    model(|| {
        let pool = pool(0, 1, Duration::from_secs(3600), WorkQueue::linked());
        let submitter = thread::spawn({
            let pool = pool.clone();
            move || pool.submit(|| 7)
        });
        let other = thread::spawn({
            let pool = pool.clone();
            move || pool.inner().try_terminate()
        });
        pool.shutdown();
        other.join().unwrap();
        let submitted = submitter.join().unwrap();
        end(&pool);
        check_submit(submitted, false);
    });
}

/// Records whether the pool terminates before its last worker has exited.
#[derive(Default)]
struct LiveWorkers {
    count: AtomicUsize,
    too_early: AtomicBool,
}

impl Hooks for LiveWorkers {
    fn worker_started(&self, _: &WorkerInfo) {
        self.count.fetch_add(1, Ordering::SeqCst);
    }

    fn worker_stopped(&self, _: &WorkerInfo) {
        self.count.fetch_sub(1, Ordering::SeqCst);
    }

    fn terminated(&self) {
        self.too_early.store(self.count.load(Ordering::SeqCst) > 0, Ordering::SeqCst);
    }
}

/// Invariant 3: a worker may come and give its permit back while another thread decides that the
/// pool has no worker. The second thread is a submitter whose push came too late, and a thread that
/// starts a worker for its task.
#[test]
fn a_worker_comes_and_leaves_against_termination() {
    model(|| {
        let live = Arc::new(LiveWorkers::default());
        let pool = ThreadPoolExecutor::builder()
            .core_pool_size(1)
            .maximum_pool_size(1)
            .work_queue(WorkQueue::linked())
            .hooks(Arc::clone(&live))
            .build()
            .unwrap();
        pool.inner().control().advance_to(RunState::Shutdown);
        let late = thread::spawn({
            let pool = pool.clone();
            move || {
                let queue = pool.inner().queue();
                let TaskQueue::Fifo(fifo) = queue else { unreachable!("a linked queue") };
                let task = Task::new(|| {});
                let id = task.id();
                assert!(fifo.push(id, task, || ()).is_ok());
                pool.prestart_core_thread();
                drop(queue.take_back(id));
            }
        });
        pool.inner().try_terminate();
        late.join().unwrap();
        end(&pool);
        assert!(!live.too_early.load(Ordering::SeqCst), "the pool has terminated beside a worker");
    });
}

/// Race "change / park": a worker that parks must not miss a shutdown.
#[test]
fn falling_asleep_against_shutdown() {
    model(|| {
        let pool = pool(1, 1, Duration::from_secs(3600), WorkQueue::linked());
        pool.prestart_core_thread();
        end(&pool);
    });
}

/// Two workers and one last task: the worker that does not get the task must not park.
#[test]
fn the_last_task_taken_against_falling_asleep_in_shutdown() {
    model_first(10_000, || {
        let pool = pool(2, 2, Duration::from_secs(3600), WorkQueue::linked());
        assert_eq!(pool.prestart_all_core_threads(), 2);
        let only = pool.submit(|| 1).unwrap();
        end(&pool);
        assert!(only.join().is_ok());
    });
}

/// Race "wait idle / last task ends".
#[test]
fn the_last_task_ends_against_a_wait_for_idle() {
    model(|| {
        let pool = pool(1, 1, Duration::from_secs(3600), WorkQueue::linked());
        let ran = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&ran);
        pool.execute(move || _ = count.fetch_add(1, Ordering::Relaxed)).unwrap();
        assert_eq!(pool.wait_idle(Duration::MAX), Ok(true));
        assert_eq!(ran.load(Ordering::Relaxed), 1);
        end(&pool);
    });
}

/// Race "wait idle / last task ends", where the last task returns to its submitter because no
/// thread starts: the reservation is undone, or the task is taken out of the queue.
fn a_failed_start_against_a_wait_for_idle(core: usize) {
    model(move || {
        let builder = ThreadPoolExecutor::builder().core_pool_size(core);
        let builder = builder.thread_factory(|_| Err(std::io::Error::other("no thread")));
        let pool = builder.build().expect("these options are consistent");
        let submitter = thread::spawn({
            let pool = pool.clone();
            move || pool.execute(|| {}).unwrap_err().reason()
        });
        assert_eq!(pool.wait_idle(Duration::MAX), Ok(true));
        assert_eq!(submitter.join().unwrap(), RejectReason::SpawnFailed);
        end(&pool);
    });
}

#[test]
fn an_undone_reservation_against_a_wait_for_idle() {
    a_failed_start_against_a_wait_for_idle(1);
}

#[test]
fn a_task_taken_back_against_a_wait_for_idle() {
    a_failed_start_against_a_wait_for_idle(0);
}

/// Race "wait idle / last task ends": a thread that saw an idle pool notifies late, when another
/// thread has begun to wait for the end of new tasks.
#[test]
fn a_late_notification_against_a_new_wait() {
    model(|| {
        let (waiters, is_idle) = (Arc::new(Waiters::default()), Arc::new(AtomicBool::new(true)));
        let worker = |ends_a_task: bool| {
            let (waiters, is_idle) = (Arc::clone(&waiters), Arc::clone(&is_idle));
            move || {
                if ends_a_task {
                    is_idle.store(true, Ordering::SeqCst);
                }
                waiters.notify_if(|| is_idle.load(Ordering::SeqCst));
            }
        };
        let late = thread::spawn(worker(false));
        is_idle.store(false, Ordering::SeqCst);
        let last = thread::spawn(worker(true));
        assert_eq!(waiters.wait(None, || is_idle.load(Ordering::SeqCst)), Ok(true));
        assert!(is_idle.load(Ordering::SeqCst), "notified for what was true before the wait");
        late.join().unwrap();
        last.join().unwrap();
    });
}
