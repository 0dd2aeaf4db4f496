//! Models of the race "wait for room / make room", see `pool/README.md`.

use loom::thread;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::backpressure::WaitingSubmitter;
use super::models::pool;
use super::{ThreadPoolExecutor, WorkQueue};
use crate::interrupt::Wake;
use crate::interrupt::wait::{OnInterrupt, WaitCell, Waiting};
use crate::loom_tests::model;
use crate::sync::Arc;

/// A waker for a thread of the model.
struct WakesThread(WaitCell);

impl std::task::Wake for WakesThread {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.notify();
    }
}

/// Polls the future until it is ready.
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

/// Creates a pool with a full queue, and with one worker that is counted but has no thread. The
/// model frees space in the queue itself, which keeps models of backpressure short.
fn full_without_worker(capacity: usize) -> ThreadPoolExecutor {
    let pool = pool(1, 1, Duration::from_secs(3600), WorkQueue::array(capacity));
    let control = pool.inner().control();
    assert!(control.try_add_worker(control.load()));
    (0..capacity).for_each(|_| pool.execute(|| {}).unwrap());
    pool
}

/// Takes tasks as the missing worker would.
fn make_room(pool: &ThreadPoolExecutor, tasks: usize) -> thread::JoinHandle<()> {
    let pool = pool.clone();
    thread::spawn(move || (0..tasks).for_each(|_| pool.inner().poll().unwrap().0.drop_caught()))
}

/// One waiting submitter gives up while one place becomes free: the other submitter is notified.
#[test]
fn waiting_for_room_against_giving_up() {
    model(|| {
        let pool = full_without_worker(1);
        let waiting = || {
            let cell = Arc::new(WaitCell::for_this_thread());
            let waiter = Waiting::Thread(Arc::clone(&cell));
            (WaitingSubmitter::new(Arc::clone(pool.inner()), waiter), cell)
        };
        let (older, newer) = (waiting(), waiting());
        let gives_up = thread::spawn(move || drop(older));
        let worker = make_room(&pool, 1);
        assert_eq!(newer.1.wait(None, OnInterrupt::Keep), Wake::Ready);
        gives_up.join().unwrap();
        worker.join().unwrap();
    });
}

/// Race "wait for room / make room", with the blocking policy.
#[test]
fn waiting_for_room_against_making_it() {
    model(|| {
        let pool = full_without_worker(1);
        pool.set_rejected_execution_handler(crate::policy::Block::forever());
        let worker = make_room(&pool, 1);
        pool.execute(|| {}).unwrap();
        worker.join().unwrap();
        assert_eq!((pool.queued_count(), pool.inner().submitters().is_empty()), (1, true));
    });
}

/// The first future is dropped while its notification may be in flight. Then the second one gets
/// the free place.
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
        assert_eq!((pool.queued_count(), pool.inner().submitters().is_empty()), (1, true));
    });
}

/// Two places become free while one future waits and another arrives. Both enter the queue,
/// although the second future may start to wait without an attempt.
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
        assert_eq!((pool.queued_count(), pool.inner().submitters().is_empty()), (2, true));
    });
}

/// The same with two blocked threads.
#[test]
fn blocked_submitters_behind_each_other_all_get_room() {
    model(|| {
        let pool = full_without_worker(2);
        pool.set_rejected_execution_handler(crate::policy::Block::forever());
        let worker = make_room(&pool, 2);
        let other = thread::spawn({
            let pool = pool.clone();
            move || pool.execute(|| {}).unwrap()
        });
        pool.execute(|| {}).unwrap();
        other.join().unwrap();
        worker.join().unwrap();
        assert_eq!((pool.queued_count(), pool.inner().submitters().is_empty()), (2, true));
    });
}

/// The same, with a thread as one of the two submitters.
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
        assert_eq!((pool.queued_count(), pool.inner().submitters().is_empty()), (2, true));
    });
}
