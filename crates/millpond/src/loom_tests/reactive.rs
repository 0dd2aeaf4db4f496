//! Models of wake-ups of a future against the end of a poll, a cancel, and each other.
//!
//! The executor runs a turn inside the call that submits it, so a model needs only the waking
//! threads.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use loom::thread;

use super::model;
use crate::executor::{Executor, Rejected};
use crate::reactive::ExecutorFutureExt;
use crate::sync::{Arc, AtomicUsize, Mutex, Ordering};
use crate::task::JoinError;
use crate::task::Task;

#[derive(Clone)]
struct SameThread;

impl Executor for SameThread {
    fn execute_task(&self, task: Task) -> Result<(), Rejected> {
        task.run();
        Ok(())
    }
}

#[derive(Default)]
struct Shared {
    set: AtomicUsize,
    waker: Mutex<Option<Waker>>,
    polling: AtomicUsize,
    dropped: AtomicUsize,
}

impl Shared {
    /// Adds one to `set` and wakes the waiting future.
    fn add(&self) {
        self.set.fetch_add(1, Ordering::SeqCst);
        let waker = self.waker.lock().clone();
        waker.into_iter().for_each(Waker::wake);
    }
}

/// Is ready when `set` has reached `wanted`.
struct Waits {
    shared: Arc<Shared>,
    wanted: usize,
}

impl Future for Waits {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        assert_eq!(self.shared.polling.fetch_add(1, Ordering::SeqCst), 0, "polled by two");
        *self.shared.waker.lock() = Some(context.waker().clone());
        let ready = self.shared.set.load(Ordering::SeqCst) == self.wanted;
        self.shared.polling.fetch_sub(1, Ordering::SeqCst);
        if ready { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        self.shared.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

/// The wake-up happens before, during or after the first poll. The future must become ready in each
/// case.
#[test]
fn wake_against_the_end_of_a_poll() {
    model(|| {
        let shared = Arc::new(Shared::default());
        let other = thread::spawn({
            let shared = Arc::clone(&shared);
            move || shared.add()
        });
        let handle = SameThread.spawn_future(Waits { shared: Arc::clone(&shared), wanted: 1 }).unwrap();
        other.join().unwrap();
        handle.join().unwrap();
        assert_eq!(shared.dropped.load(Ordering::SeqCst), 1);
    });
}

/// Two concurrent wake-ups lead to one or two polls, never at the same time. The last poll sees
/// both.
#[test]
fn two_wakes_against_each_other() {
    model(|| {
        let shared = Arc::new(Shared::default());
        let handle = SameThread.spawn_future(Waits { shared: Arc::clone(&shared), wanted: 2 }).unwrap();
        let other = thread::spawn({
            let shared = Arc::clone(&shared);
            move || shared.add()
        });
        shared.add();
        other.join().unwrap();
        handle.join().unwrap();
    });
}

/// Exactly one side decides, the future is dropped once, and the joiner is woken.
#[test]
fn wake_against_cancel_and_join() {
    model(|| {
        let shared = Arc::new(Shared::default());
        let handle = SameThread.spawn_future(Waits { shared: Arc::clone(&shared), wanted: 1 }).unwrap();
        let canceller = handle.canceller();
        let waking = thread::spawn({
            let shared = Arc::clone(&shared);
            move || shared.add()
        });
        let cancelling = thread::spawn(move || canceller.cancel(true));
        let joined = handle.join();
        waking.join().unwrap();
        match (joined, cancelling.join().unwrap()) {
            (Ok(()), false) | (Err(JoinError::Cancelled), true) => {}
            (joined, cancelled) => panic!("{joined:?}, cancelled: {cancelled}"),
        }
        assert_eq!(shared.dropped.load(Ordering::SeqCst), 1);
    });
}

/// The last waker is dropped: the future is abandoned, and the join ends.
#[test]
fn drop_of_the_last_waker_against_join() {
    model(|| {
        let shared = Arc::new(Shared::default());
        let handle = SameThread.spawn_future(Waits { shared: Arc::clone(&shared), wanted: 1 }).unwrap();
        let waker = shared.waker.lock().take();
        let dropping = thread::spawn(move || drop(waker));
        assert!(matches!(handle.join(), Err(JoinError::Abandoned)));
        dropping.join().unwrap();
        assert_eq!(shared.dropped.load(Ordering::SeqCst), 1);
    });
}
