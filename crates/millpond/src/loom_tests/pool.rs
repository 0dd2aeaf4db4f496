//! The pool's protocols.
//!
//! Those that need a whole pool use one worker, or two, and one or two tasks: with more, the schedules are too
//! many to walk through. A task that is stranded, or a wake-up that is lost, shows as a deadlock.

use loom::thread;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use super::idle::{IdleWorkers, ParkOptions, ParkSlot, WakeReason};
use super::queue::fifo::Fifo;
use super::submitters::BlockedSubmitter;
use super::{RunState, ThreadPoolExecutor, WorkQueue};
use crate::executor::RejectReason;
use crate::interrupt::Wake;
use crate::interrupt::wait::{OnInterrupt, WaitCell, Waiting};
use crate::loom_tests::{model, model_bound, model_first};
use crate::sync::{Arc, AtomicUsize, Ordering};
use crate::task::{JoinError, TaskHandle};
use crate::task::{Task, TaskOf};

/// W2 and W3.
fn look(fifo: &Fifo) -> bool {
    fifo.order();
    !fifo.is_empty()
}

/// Takes one task as a worker does: look, look for a while if it `looks`, rest, look again.
fn take_one(fifo: &Fifo, idle: &IdleWorkers, looks: bool) -> Task {
    let slot = ParkSlot::for_this_thread();
    loop {
        let task = match fifo.pop() {
            Some(task) => Some(task),
            None if looks && idle.search(|| !fifo.is_empty()) => None,
            None => match idle.rest(&slot, ParkOptions::default(), false, || look(fifo)) {
                WakeReason::Assigned(task) => Some(task),
                WakeReason::Called | WakeReason::TimedOut => None,
            },
        };
        fifo.order(); // W5
        if let Some(task) = task {
            idle.wake_another(|| !fifo.is_empty(), || fifo.pop());
            return task;
        }
    }
}

/// Publishes one task as a submit does.
fn publish(fifo: &Fifo, idle: &IdleWorkers, task: Task) {
    let call = fifo.push(task, || idle.may_be_called_for_another()).expect("there is room");
    if call {
        idle.call_one(|| fifo.pop());
    }
}

#[test]
fn announce_idle_against_publish() {
    model(|| {
        let shared = Arc::new((Fifo::new(4), IdleWorkers::default()));
        let worker = thread::spawn({
            let shared = Arc::clone(&shared);
            move || take_one(&shared.0, &shared.1, false).run()
        });
        publish(&shared.0, &shared.1, Task::new(|| {}));
        worker.join().unwrap();
    });
}

/// A worker that looks for work counts as called; a task that relied on that must be found.
#[test]
fn a_worker_that_looks_for_work_against_publish() {
    model(|| {
        let shared = Arc::new((Fifo::new(4), IdleWorkers::default()));
        let worker = thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                for _ in 0..2 {
                    take_one(&shared.0, &shared.1, true).run();
                }
            }
        });
        publish(&shared.0, &shared.1, Task::new(|| {}));
        publish(&shared.0, &shared.1, Task::new(|| {}));
        worker.join().unwrap();
    });
}

/// The second submit may see that a worker is on its way and call nobody: then that worker must call the other.
#[test]
fn a_called_worker_calls_the_next() {
    model(|| {
        let shared = Arc::new((Fifo::new(4), IdleWorkers::default()));
        let workers: Vec<_> = (0..2)
            .map(|_| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || take_one(&shared.0, &shared.1, false).run())
            })
            .collect();
        publish(&shared.0, &shared.1, Task::new(|| {}));
        publish(&shared.0, &shared.1, Task::new(|| {}));
        for worker in workers {
            worker.join().unwrap();
        }
    });
}

/// Either the worker has the task or the submitter has it back: never both, never neither.
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
                match idle.rest(&ParkSlot::for_this_thread(), options, true, || false) {
                    WakeReason::Assigned(task) => {
                        task.run();
                        true
                    }
                    WakeReason::TimedOut => false,
                    WakeReason::Called => panic!("nobody called"),
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
        let handed = idle.hand_over(task).is_ok();
        clock.join().unwrap();
        assert_eq!(worker.join().unwrap(), handed);
        assert_eq!(ran.load(Ordering::Relaxed), usize::from(handed));
        assert_eq!(idle.parked().all, 0);
    });
}

fn pool(core: usize, max: usize, keep_alive: Duration, queue: WorkQueue) -> ThreadPoolExecutor {
    ThreadPoolExecutor::builder()
        .core_pool_size(core)
        .maximum_pool_size(max)
        .keep_alive_time(keep_alive)
        .work_queue(queue)
        .build()
        .expect("these options fit together")
}

/// Ends the pool and checks that nothing is left of it.
fn end(pool: &ThreadPoolExecutor) {
    pool.shutdown();
    assert!(pool.await_termination(Duration::MAX).unwrap());
    assert_eq!(pool.state(), RunState::Terminated);
    assert_eq!((pool.pool_size(), pool.queued_count()), (0, 0));
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

/// Laws 1 and 2 of `census.rs`, for a task that comes with a new thread or is queued for one that is there.
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

/// What was accepted runs; what was not comes back. No handle is pending once the pool has terminated.
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

/// A worker comes from a task and finds the pool in shutdown: it must not leave a task behind that was handed in just
/// before. Two preemptions do not reach this.
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

/// A worker that finds its queue empty and falls asleep, against a shutdown that it must not sleep through.
#[test]
fn falling_asleep_against_shutdown() {
    model(|| {
        let pool = pool(1, 1, Duration::from_secs(3600), WorkQueue::linked());
        pool.prestart_core_thread();
        end(&pool);
    });
}

/// Two workers and one last task: the one that finds it gone must not fall asleep.
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

/// I1 to I3 against J1 to J3.
#[test]
fn the_last_task_ends_against_a_wait_for_idle() {
    model(|| {
        let pool = pool(1, 1, Duration::from_secs(3600), WorkQueue::linked());
        let ran = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&ran);
        pool.execute(move || drop(count.fetch_add(1, Ordering::Relaxed))).unwrap();
        assert_eq!(pool.wait_idle(Duration::MAX), Ok(true));
        assert_eq!(ran.load(Ordering::Relaxed), 1);
        end(&pool);
    });
}

/// Two submitters, a queue of one, a pool of one: whoever is refused was refused rightly, and the bound holds.
#[test]
fn a_bounded_queue_never_exceeds_its_capacity() {
    model(|| {
        let fifo = Arc::new(Fifo::new(1));
        let other = thread::spawn({
            let fifo = Arc::clone(&fifo);
            move || fifo.push(Task::new(|| {}), || ()).is_ok()
        });
        let mine = fifo.push(Task::new(|| {}), || ()).is_ok();
        assert!(fifo.len() <= 1);
        let popped = usize::from(fifo.pop().is_some());
        let pushed = usize::from(mine) + usize::from(other.join().unwrap());
        assert_eq!(fifo.len() + popped, pushed);
        assert!(pushed >= 1);
    });
}

/// A waker for a thread of the model.
struct WakesThread(WaitCell);

impl std::task::Wake for WakesThread {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.notify();
    }
}

/// Polls until the future is ready. A wake-up that is lost shows as a deadlock.
fn block_on<F: Future + Unpin>(mut future: F) -> F::Output {
    let thread = std::sync::Arc::new(WakesThread(WaitCell::for_this_thread()));
    let waker = Waker::from(std::sync::Arc::clone(&thread));
    loop {
        thread.0.reset();
        match Pin::new(&mut future).poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => _ = thread.0.wait(None, OnInterrupt::Keep),
        }
    }
}

/// A pool with a full queue and one worker that is counted but does not exist: room is made by hand, and models of waiting
/// for room stay short.
fn full_without_worker(capacity: usize) -> ThreadPoolExecutor {
    let pool = pool(1, 1, Duration::from_secs(3600), WorkQueue::array(capacity));
    let core = pool.core();
    assert!(core.control.try_add_worker(core.control.load()));
    (0..capacity).for_each(|_| pool.execute(|| {}).unwrap());
    pool
}

/// Takes tasks as the worker would that does not exist.
fn make_room(pool: &ThreadPoolExecutor, tasks: usize) -> thread::JoinHandle<()> {
    let pool = pool.clone();
    thread::spawn(move || (0..tasks).for_each(|_| pool.core().poll().unwrap().drop_caught()))
}

/// One ticket is given up while room is made for one: the other one is told of it.
#[test]
fn waiting_for_room_against_giving_up() {
    model(|| {
        let pool = full_without_worker(1);
        let ticket = || {
            let cell = Arc::new(WaitCell::for_this_thread());
            (BlockedSubmitter::take(Arc::clone(pool.core()), Waiting::Thread(Arc::clone(&cell))), cell)
        };
        let (older, newer) = (ticket(), ticket());
        let gives_up = thread::spawn(move || drop(older));
        let worker = make_room(&pool, 1);
        assert_eq!(newer.1.wait(None, OnInterrupt::Keep), Wake::Ready);
        gives_up.join().unwrap();
        worker.join().unwrap();
    });
}

/// The blocking policy: a submitter that waits for room, against a worker that makes it.
#[test]
fn waiting_for_room_against_making_it() {
    model(|| {
        let pool = full_without_worker(1);
        pool.set_rejected_execution_handler(crate::policy::Block::forever());
        let worker = make_room(&pool, 1);
        pool.execute(|| {}).unwrap();
        worker.join().unwrap();
        assert_eq!((pool.queued_count(), pool.core().room.is_waited_for()), (1, false));
    });
}

/// The first in line is dropped while its room may be on the way: then the second must get it.
#[test]
fn a_dropped_async_submitter_passes_its_room_on() {
    model(|| {
        let pool = full_without_worker(1);
        let mut context = Context::from_waker(Waker::noop());
        let mut submissions = [pool.submit_async(|| {}), pool.submit_async(|| {})];
        for submission in &mut submissions {
            assert!(Pin::new(submission).poll(&mut context).is_pending());
        }
        let worker = make_room(&pool, 1);
        let [first, second] = submissions;
        drop(first);
        drop(block_on(second).unwrap());
        worker.join().unwrap();
        assert_eq!((pool.queued_count(), pool.core().room.is_waited_for()), (1, false));
    });
}

/// Room for two is made while one waits and another comes: both get in, though the newcomer may line up without a try.
#[test]
fn async_submitters_behind_each_other_all_get_room() {
    model(|| {
        let pool = full_without_worker(2);
        let worker = make_room(&pool, 2);
        let submission = pool.submit_async(|| {});
        let other = thread::spawn(move || drop(block_on(submission).unwrap()));
        drop(block_on(pool.submit_async(|| {})).unwrap());
        other.join().unwrap();
        worker.join().unwrap();
        assert_eq!((pool.queued_count(), pool.core().room.is_waited_for()), (2, false));
    });
}

/// The same with a thread as one of the two.
#[test]
fn a_blocked_and_an_async_submitter_both_get_room() {
    model(|| {
        let pool = full_without_worker(2);
        pool.set_rejected_execution_handler(crate::policy::Block::forever());
        let worker = make_room(&pool, 2);
        let blocked = thread::spawn({
            let pool = pool.clone();
            move || pool.execute(|| {}).unwrap()
        });
        drop(block_on(pool.submit_async(|| {})).unwrap());
        blocked.join().unwrap();
        worker.join().unwrap();
        assert_eq!((pool.queued_count(), pool.core().room.is_waited_for()), (2, false));
    });
}

/// A task that takes all the words of a segment, with a number that it adds to the list when it runs.
fn long_task(number: usize, ran: &Arc<std::sync::Mutex<Vec<usize>>>) -> Task {
    let (ran, words) = (Arc::clone(ran), [number; 3]);
    Task::new(move || {
        assert_eq!(words, [words[0]; 3]);
        ran.lock().unwrap().push(words[0]);
    })
}

/// The head leaves a segment, and the tail takes it for the tasks to come: neither too early, so that a task is written over,
/// nor so that one finds the other's link or number. That what is written there is seen too, loom cannot tell, for
/// it does not watch plain memory: Miri does, with the threads in `pool/fifo/tests.rs`.
#[test]
fn leaving_a_segment_against_using_it_again() {
    model(|| {
        let fifo = Arc::new(Fifo::new(8));
        let ran = Arc::default();
        let put = |fifo: &Fifo, number, ran: &_| assert!(fifo.push(long_task(number, ran), || ()).is_ok());
        put(&fifo, 0, &ran);
        let other = thread::spawn({
            let (fifo, ran) = (Arc::clone(&fifo), Arc::clone(&ran));
            move || (1..4).for_each(|number| put(&fifo, number, &ran))
        });
        (0..3).filter_map(|_| fifo.pop()).for_each(Task::run);
        other.join().unwrap();
        while let Some(task) = fifo.pop() {
            task.run();
        }
        assert!(fifo.is_empty());
        assert_eq!(*ran.lock().unwrap(), [0, 1, 2, 3]);
    });
}

/// One task is there, another is put, and only then the first is taken: whoever looks from outside, without a lock, sees one or
/// two at every moment, though both ends move under its eyes.
#[test]
fn a_look_from_outside_against_put_and_take() {
    model(|| {
        let fifo = Arc::new(Fifo::new(8));
        let ran = Arc::default();
        assert!(fifo.push(long_task(0, &ran), || ()).is_ok());
        let other = thread::spawn({
            let (fifo, ran) = (Arc::clone(&fifo), Arc::clone(&ran));
            move || {
                assert!(fifo.push(long_task(1, &ran), || ()).is_ok());
                fifo.pop().expect("there are two").run();
            }
        });
        assert!(!fifo.is_empty());
        assert!((1..=2).contains(&fifo.len()));
        other.join().unwrap();
        assert_eq!((fifo.len(), fifo.is_empty()), (1, false));
        fifo.pop().expect("there is one").run();
        assert_eq!((fifo.len(), fifo.is_empty()), (0, true));
        assert_eq!(*ran.lock().unwrap(), [0, 1]);
    });
}

/// A cancel, or a join that runs the task in place, against the worker that takes it: one of them has it. There is no fault to
/// be seeded short of leaving a lock away.
#[test]
fn removing_a_task_against_taking_it() {
    model(|| {
        let fifo = Arc::new(Fifo::new(2));
        let (first, _handle) = TaskOf::new(|| ()).into_parts();
        let (second, _handle) = TaskOf::new(|| ()).into_parts();
        let ids = [first.id(), second.id()];
        let shared = first.shared().expect("it has a handle").clone();
        assert!(fifo.push(first, || ()).is_ok() && fifo.push(second, || ()).is_ok());
        let other = thread::spawn({
            let fifo = Arc::clone(&fifo);
            move || fifo.pop().expect("only one is removed").id()
        });
        let removed = fifo.remove(ids[0], Some(shared.place().get()));
        let taken = other.join().unwrap();
        assert_eq!(taken == ids[0], removed.is_none());
        assert_eq!(fifo.len(), usize::from(removed.is_none()));
        assert!(fifo.push(Task::new(|| {}), || ()).is_ok(), "there is room again");
        let rest = std::iter::from_fn(|| fifo.pop()).count();
        assert_eq!(rest, 1 + usize::from(removed.is_none()));
    });
}

/// All tasks are moved, by a `purge` that finds nothing, or to squeeze holes out. A task that is cancelled meanwhile, by the
/// place that it had, is found nevertheless.
#[test]
fn removing_a_task_against_moving_it() {
    model(|| {
        let fifo = Arc::new(Fifo::new(2));
        let (task, _handle) = TaskOf::new(|| ()).into_parts();
        let (id, shared) = (task.id(), task.shared().expect("it has a handle").clone());
        assert!(fifo.push(task, || ()).is_ok());
        let other = thread::spawn({
            let fifo = Arc::clone(&fifo);
            move || assert!(fifo.remove_if(|_| false).is_empty())
        });
        assert!(fifo.remove(id, Some(shared.place().get())).is_some());
        other.join().unwrap();
        assert_eq!((fifo.len(), fifo.is_empty()), (0, true));
    });
}
