//! Models of how workers exit and how a pool becomes idle, shuts down and terminates. The races are
//! named in `pool/README.md`.

use loom::thread;
use std::time::Duration;

use super::models::{end, pool};
use super::queue::TaskQueue;
use super::waiters::Waiters;
use super::{Hooks, RunState, ThreadPoolExecutor, WorkQueue};
use crate::executor::RejectReason;
use crate::interrupt::wait::{OnInterrupt, WaitCell};
use crate::loom_tests::{model, model_bound, model_first};
use crate::sync::{Arc, AtomicBool, AtomicUsize, Ordering};
use crate::task::{JoinError, Task, TaskHandle};
use crate::threads::WorkerInfo;

#[test]
fn submit_against_last_worker_exit() {
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
fn check_counts(queued: bool) {
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
fn reading_counts_against_a_task_that_starts_a_thread() {
    check_counts(false);
}

#[test]
fn reading_counts_against_a_queued_task() {
    check_counts(true);
}

/// Submits a task for [`check_submit`] on another thread.
fn submit_on_new_thread(pool: &ThreadPoolExecutor) -> thread::JoinHandle<Submitted> {
    let pool = pool.clone();
    thread::spawn(move || pool.submit(|| 7))
}

type Submitted = Result<TaskHandle<u32>, crate::Rejected>;

/// An accepted task runs, and a refused one is returned. No handle is pending after termination.
fn check_submit(submitted: Submitted, drained: bool) {
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
        let submitter = submit_on_new_thread(&pool);
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
        let submitter = submit_on_new_thread(&pool);
        drop(pool.shutdown_now());
        let submitted = submitter.join().unwrap();
        end(&pool);
        check_submit(submitted, true);
    });
}

/// A task that ends when it is interrupted.
fn until_interrupted() {
    WaitCell::for_this_thread().wait(None, OnInterrupt::Return);
}

/// Race "task start / stop", for the second task of a worker: its epoch begins when the first task
/// ends, and then the worker takes it. `shutdown_now` interrupts it or hands it back.
fn a_task_begins_against_shutdown_now(queue: fn() -> WorkQueue) {
    model(move || {
        let pool = pool(1, 1, Duration::from_secs(3600), queue());
        pool.execute(|| {}).unwrap();
        pool.execute(until_interrupted).unwrap();
        drop(pool.shutdown_now());
        end(&pool);
    });
}

#[test]
fn a_task_begins_against_shutdown_now_by_the_head_lock() {
    a_task_begins_against_shutdown_now(WorkQueue::linked);
}

#[test]
fn a_task_begins_against_shutdown_now_by_fences() {
    a_task_begins_against_shutdown_now(WorkQueue::priority);
}

/// As above, for a task that begins inside the task that joins it.
#[test]
fn a_joined_task_begins_against_shutdown_now() {
    model(|| {
        let pool = pool(1, 1, Duration::from_secs(3600), WorkQueue::linked());
        let inner = pool.downgrade();
        pool.execute(move || {
            let inner = inner.upgrade().map(|pool| pool.submit(until_interrupted));
            inner.into_iter().flatten().for_each(|task| _ = task.join());
        })
        .unwrap();
        drop(pool.shutdown_now());
        end(&pool);
    });
}

/// Race "spawn / stop": `shutdown_now` interrupts the new worker, or the worker or the thread that
/// starts it sees Stop.
#[test]
fn a_worker_starts_against_shutdown_now() {
    model(|| {
        let pool = pool(1, 1, Duration::from_secs(3600), WorkQueue::linked());
        let submitter = thread::spawn({
            let pool = pool.clone();
            move || pool.execute(until_interrupted)
        });
        drop(pool.shutdown_now());
        if let Err(rejected) = submitter.join().unwrap() {
            assert_eq!(rejected.reason(), RejectReason::Shutdown);
        }
        end(&pool);
    });
}

/// A worker finishes a task and finds the pool shut down. It must not exit and strand a task that
/// was submitted just before. Needs three preemptions.
#[test]
fn exit_in_shutdown_against_submit() {
    model_bound(3, || {
        let pool = pool(1, 1, Duration::from_secs(3600), WorkQueue::linked());
        let first = pool.submit(|| 7).unwrap();
        let submitter = submit_on_new_thread(&pool);
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
fn exit_after_a_panic_against_submit_and_shutdown() {
    model_bound(3, || {
        let pool = pool(1, 1, Duration::from_secs(3600), WorkQueue::linked());
        pool.execute(|| std::panic::resume_unwind(Box::new(()))).unwrap(); // without the panic hook
        let submitter = submit_on_new_thread(&pool);
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
        let submitter = submit_on_new_thread(&pool);
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

/// Invariant 3: a worker may start and give its permit back while another thread decides that the
/// pool has no worker. The second thread is a submitter whose push came too late, and a thread that
/// starts a worker for its task.
#[test]
fn worker_start_and_exit_against_termination() {
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
fn parking_against_shutdown() {
    model(|| {
        let pool = pool(1, 1, Duration::from_secs(3600), WorkQueue::linked());
        pool.prestart_core_thread();
        end(&pool);
    });
}

/// Two workers and one last task: the worker that does not get the task must not park.
#[test]
fn dequeuing_the_last_task_against_parking_in_shutdown() {
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
fn end_of_the_last_task_against_wait_idle() {
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
fn failed_start_against_wait_idle(core: usize) {
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
fn undone_reservation_against_wait_idle() {
    failed_start_against_wait_idle(1);
}

#[test]
fn taking_a_task_back_against_wait_idle() {
    failed_start_against_wait_idle(0);
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
