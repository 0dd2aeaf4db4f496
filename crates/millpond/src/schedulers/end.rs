//! The end of a scheduler, common to all kinds: its [`Phase`], the threads and futures that wait
//! for it, and the guard that begins it when the last handle is dropped.
//!
//! Invariants
//! 1. A phase only increases: Live < Draining < Disposed.
//! 2. A scheduler changes its phase under its own lock, and reads it under that lock before it
//!    accepts work. So either the submission sees the new phase, or the end sees the submitted
//!    work.
//! 3. A waiter registers before it checks for the end, and waiters are woken after the end is
//!    reached. So no wake-up is lost.

use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::atomic::AtomicU8; // std's even in models: the scheduler's lock orders the phase
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::interrupt::wait::{Key, OnInterrupt, WaitCell, WaitList, Waiting};
use crate::interrupt::{Interrupted, Wake};
use crate::panic::drop_caught;
use crate::sync::{Arc, Mutex, Ordering, deadline_after};

/// How far the end of a scheduler has progressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// Accepts work.
    Live,
    /// Accepts no more work and runs the remaining work.
    Draining,
    /// Has cancelled all waiting work. Bodies may still be running.
    Disposed,
}

/// The phase of a scheduler, and the waiters for its end.
#[derive(Debug, Default)]
pub(super) struct Lifecycle {
    phase: AtomicU8,
    waiters: Waiters,
}

impl Lifecycle {
    /// Returns the phase: exact under the scheduler's lock, otherwise a hint. Acquire pairs with
    /// the exchange in `advance`.
    pub(super) fn phase(&self) -> Phase {
        Lifecycle::decode(self.phase.load(Ordering::Acquire))
    }

    pub(super) fn is_live(&self) -> bool {
        self.phase() == Phase::Live
    }

    /// Advances to `phase`, unless the phase is already there or further. Returns the previous
    /// phase. Requires the scheduler's lock (2).
    pub(super) fn advance(&self, phase: Phase) -> Phase {
        Lifecycle::decode(self.phase.fetch_max(phase as u8, Ordering::AcqRel))
    }

    fn decode(phase: u8) -> Phase {
        match phase {
            0 => Phase::Live,
            1 => Phase::Draining,
            _ => Phase::Disposed,
        }
    }

    pub(super) fn waiters(&self) -> &Waiters {
        &self.waiters
    }
}

/// Threads and futures that wait for one event.
#[derive(Debug, Default)]
pub(super) struct Waiters(Mutex<WaitList<Waiting>>);

impl Waiters {
    /// Blocks until `ready` returns true, for at most `timeout`. Returns whether it did.
    pub(super) fn wait(
        &self,
        timeout: Duration,
        mut ready: impl FnMut() -> bool,
    ) -> Result<bool, Interrupted> {
        let deadline = deadline_after(timeout);
        let me = Arc::new(WaitCell::for_this_thread());
        loop {
            me.reset();
            let key = self.0.lock().push(Waiting::Thread(Arc::clone(&me)));
            let is_ready = ready();
            let wake = if is_ready { Wake::Ready } else { me.wait(deadline, OnInterrupt::Return) };
            self.0.lock().remove(key);
            match wake {
                Wake::Ready if is_ready => return Ok(true),
                Wake::Ready => {}
                Wake::TimedOut => return Ok(ready()),
                Wake::Interrupted if ready() => return Ok(true),
                Wake::Interrupted => {
                    me.take_interrupt();
                    return Err(Interrupted);
                }
            }
        }
    }

    /// Registers a future. The new `waker` replaces the previous one under `key`.
    fn register(&self, key: &mut Option<Key>, waker: &Waker) {
        let new = Waiting::Task(waker.clone());
        let mut list = self.0.lock();
        let replaced = key.take().and_then(|key| list.remove(key));
        *key = Some(list.push(new));
        drop(list);
        drop_caught(replaced); // user code, so not under the lock
    }

    fn unregister(&self, key: Option<Key>) {
        let removed = key.and_then(|key| self.0.lock().remove(key));
        drop_caught(removed);
    }

    /// Wakes all waiters. Each of them checks its condition and registers again if it has to wait
    /// longer.
    pub(super) fn wake_all(&self) {
        let all = self.0.lock().take_all(|_| true);
        all.into_iter().for_each(Waiting::notify);
    }
}

/// A scheduler that can be ended gracefully.
pub(super) trait Ends: Send + Sync {
    fn lifecycle(&self) -> &Lifecycle;

    /// Accepts no more work and runs the remaining work.
    fn begin_drain(&self);

    fn has_ended(&self) -> bool;

    /// Returns true if the end cannot be reached before the calling thread returns from its current
    /// task.
    fn runs_on_this_thread(&self) -> bool;

    /// Blocks until the end, for at most `timeout`.
    fn wait_for_end(&self, timeout: Duration) -> Result<bool, Interrupted> {
        self.lifecycle().waiters().wait(timeout, || self.has_ended())
    }

    /// Called when the last handle is dropped.
    fn abandoned(&self) {
        self.begin_drain();
    }

    /// Begins a graceful end and waits for it, for at most `timeout`.
    fn dispose_gracefully(&self, timeout: Duration) -> Result<bool, Interrupted> {
        self.begin_drain();
        if self.runs_on_this_thread() {
            return Ok(self.has_ended());
        }
        self.wait_for_end(timeout)
    }
}

/// Calls `abandoned` when the last handle of a scheduler is dropped.
///
/// User handles and workers share this guard. The scheduler's own threads hold the scheduler
/// itself, so they do not count as handles.
pub(super) struct OnLastDrop<E: Ends>(Arc<E>);

impl<E: Ends> OnLastDrop<E> {
    pub(super) fn new(scheduler: Arc<E>) -> Arc<OnLastDrop<E>> {
        Arc::new(OnLastDrop(scheduler))
    }
}

impl<E: Ends> Deref for OnLastDrop<E> {
    type Target = Arc<E>;

    fn deref(&self) -> &Arc<E> {
        &self.0
    }
}

impl<E: Ends> Drop for OnLastDrop<E> {
    fn drop(&mut self) {
        self.0.abandoned();
    }
}

/// A graceful end as a future. The end begins with the first poll.
pub(super) struct Disposal<E: Ends> {
    scheduler: Arc<E>,
    /// Its entry in the list of waiters, after the first poll.
    key: Option<Key>,
}

impl<E: Ends> Disposal<E> {
    pub(super) fn new(scheduler: Arc<E>) -> Disposal<E> {
        Disposal { scheduler, key: None }
    }
}

impl<E: Ends> Future for Disposal<E> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Disposal { scheduler, key } = &mut *self;
        scheduler.begin_drain();
        scheduler.lifecycle().waiters().register(key, context.waker());
        if !scheduler.has_ended() {
            return Poll::Pending;
        }
        scheduler.lifecycle().waiters().unregister(key.take());
        Poll::Ready(())
    }
}

impl<E: Ends> Drop for Disposal<E> {
    fn drop(&mut self) {
        self.scheduler.lifecycle().waiters().unregister(self.key);
    }
}
