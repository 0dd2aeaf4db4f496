//! Threads and asynchronous tasks that wait for the pool: for its end, or until it is idle.
//!
//! *The end.* A waiter adds itself and then looks at the run state. `terminate` advances the state and
//! then takes the list's lock. If the waiter took the lock first it is notified, otherwise it sees the
//! state.
//!
//! *IdleWorkers.* A waiter adds itself (I1), fences (I2) and looks at the pool (I3). A thread that may have made
//! the pool idle has written so (J1: a worker is no longer active, a task is out of the queue), fences
//! (J2) and looks whether somebody waits (J3); if so it looks at the pool. One of the fences is first:
//! either I3 sees the last J1, or J3 sees the waiter. Of several threads that do J1 at the same time, the
//! one whose fence is last sees the writes of all others. A worker does J2 and J3 only when it has found
//! the queue empty and is about to park, so that a busy pool pays nothing.
//! Model: `loom_tests::pool::the_last_task_ends_against_a_wait_for_idle`.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use super::inner::PoolInner;
use crate::interrupt::Interrupted;
use crate::interrupt::Wake;
use crate::interrupt::wait::{Key, OnInterrupt, WaitCell, WaitList, Waiting};
use crate::panic::{catch_value, drop_caught};
use crate::sync::{Arc, AtomicUsize, Mutex, Ordering, deadline_after, fence};

/// Those who wait for one thing.
#[derive(Debug, Default)]
pub(super) struct Watchers {
    /// The length of the list, for a look without the lock. Written under the lock.
    waiting: AtomicUsize,
    list: Mutex<WaitList<Waiting>>,
}

impl Watchers {
    fn change<R>(&self, change: impl FnOnce(&mut WaitList<Waiting>) -> R) -> R {
        let mut list = self.list.lock();
        let result = change(&mut list);
        self.waiting.store(list.len(), Ordering::Relaxed);
        result
    }

    fn add(&self, who: Waiting) -> Key {
        self.change(|list| list.push(who))
    }

    fn remove(&self, key: Key) {
        let removed = self.change(|list| list.remove(key));
        drop_caught(removed); // a waker is the user's: not under the lock
    }

    fn exist(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) != 0
    }

    pub(super) fn notify_all(&self) {
        let all = self.change(|list| list.take_all(|_| true));
        all.into_iter().for_each(Waiting::notify);
    }

    /// Blocks until notified, or until `is_over`, which is asked after the calling thread was added.
    /// True if it is over. An interrupt is consumed when it is returned.
    fn wait(&self, deadline: Option<Instant>, is_over: impl Fn() -> bool) -> Result<bool, Interrupted> {
        let cell = Arc::new(WaitCell::for_this_thread());
        let key = self.add(Waiting::Thread(Arc::clone(&cell)));
        let over = is_over();
        let wake = if over { Wake::Ready } else { cell.wait(deadline, OnInterrupt::Return) };
        self.remove(key);
        match wake {
            Wake::Ready => Ok(true),
            Wake::TimedOut => Ok(is_over()),
            Wake::Interrupted => {
                cell.take_interrupt();
                Err(Interrupted)
            }
        }
    }
}

impl PoolInner {
    pub(super) fn await_termination(&self, timeout: Duration) -> Result<bool, Interrupted> {
        if self.is_terminated() || timeout.is_zero() {
            return Ok(self.is_terminated());
        }
        self.end_watchers.wait(deadline_after(timeout), || self.is_terminated())
    }

    pub(super) fn wait_idle(&self, timeout: Duration) -> Result<bool, Interrupted> {
        if self.is_idle() || timeout.is_zero() {
            return Ok(self.is_idle());
        }
        self.idle_watchers.wait(deadline_after(timeout), || {
            fence(Ordering::SeqCst); // I2
            self.is_idle()
        })
    }

    /// The pool may have become idle by what the calling thread has just done.
    #[inline]
    pub(super) fn tell_if_idle(&self) {
        fence(Ordering::SeqCst); // J2
        if self.idle_watchers.exist() {
            self.tell_idle_watchers();
        }
    }

    #[cold]
    fn tell_idle_watchers(&self) {
        // A custom queue may panic when it is asked for its length.
        if catch_value(|| self.is_idle()) == Some(true) {
            self.idle_watchers.notify_all();
        }
    }
}

/// Ready when the pool has terminated. Has the pool's core, which is no user's handle: it does not keep the
/// pool from shutting down.
pub(super) struct Terminated {
    pool: Arc<PoolInner>,
    key: Option<Key>,
}

impl Terminated {
    pub(super) fn of(pool: &Arc<PoolInner>) -> Terminated {
        Terminated { pool: Arc::clone(pool), key: None }
    }

    fn leave(&mut self) {
        if let Some(key) = self.key.take() {
            self.pool.end_watchers.remove(key);
        }
    }
}

impl Future for Terminated {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.leave();
        if !self.pool.is_terminated() {
            let waiting = Waiting::Task(context.waker().clone());
            self.key = Some(self.pool.end_watchers.add(waiting));
            if !self.pool.is_terminated() {
                return Poll::Pending;
            }
            self.leave();
        }
        Poll::Ready(())
    }
}

impl Drop for Terminated {
    fn drop(&mut self) {
        self.leave();
    }
}
