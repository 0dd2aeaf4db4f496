//! Waiting at a queue: how long a call waits, and a waiting thread with the item it puts or takes.
//!
//! A thread that cannot go on leaves a [`Waiter`] in a list of the queue and parks. A thread that can
//! serve it takes it out of the list and marks it as notified, both under the queue's lock, and
//! unparks it after the lock is released. So under the lock a waiter is in its list, or has been
//! served: a thread whose time is up learns there which of the two it is.

use std::ops::Deref;
use std::time::{Duration, Instant};

use crate::interrupt::Wake;
use crate::interrupt::wait::{OnInterrupt, WaitCell, WaitList};
use crate::sync::SpinLock;
use crate::sync::backoff::snooze;
use crate::sync::{Arc, deadline_after};

/// How long a call is willing to wait.
#[derive(Debug, Clone, Copy)]
pub(super) enum Timeout {
    Forever,
    For(Duration),
}

impl Timeout {
    pub(super) fn is_none(self) -> bool {
        matches!(self, Timeout::For(timeout) if timeout.is_zero())
    }

    /// When patience ends; `None`: never.
    pub(super) fn deadline(self) -> Option<Instant> {
        match self {
            Timeout::Forever => None,
            Timeout::For(timeout) => deadline_after(timeout),
        }
    }
}

/// Tells whether the deadline has passed. A thread that backs off checks this too: on a busy machine
/// each yield may take milliseconds.
pub(super) fn is_past(deadline: Option<Instant>) -> bool {
    deadline.is_some_and(|deadline| deadline <= Instant::now())
}

/// A thread that waits at a queue, and the item that passes between it and the thread that serves it.
pub(super) struct Waiter<T> {
    cell: WaitCell,
    /// Of a putter: the item, until it is served. Of a taker: the item, once it is served.
    item: SpinLock<Option<T>>,
}

/// The waiters of one side, in order of arrival. Guarded by the queue's lock.
pub(super) type Waiters<T> = WaitList<Arc<Waiter<T>>>;

impl<T> Deref for Waiter<T> {
    type Target = WaitCell;

    fn deref(&self) -> &WaitCell {
        &self.cell
    }
}

impl<T> Waiter<T> {
    /// The calling thread, with the item it wants to put, if any.
    pub(super) fn new(item: Option<T>) -> Arc<Self> {
        Arc::new(Waiter { cell: WaitCell::for_this_thread(), item: SpinLock::new(item) })
    }

    /// Serves a taker. The caller holds the queue's lock and has removed the waiter from its list.
    pub(super) fn give(&self, item: T) {
        *self.item.lock() = Some(item);
        self.mark_notified();
    }

    /// Serves a putter: takes its item. The caller holds the queue's lock and has removed the waiter
    /// from its list.
    pub(super) fn hand_head_to_idle(&self) -> T {
        let item = self.item.lock().take().expect("a putter in the list holds its item");
        self.mark_notified();
        item
    }

    /// Blocks until notified, interrupted or past `deadline`; false in the last case. Only the owner.
    ///
    /// Leaves the interrupt flag set: while the waiter is in a list the flag tells others not to serve
    /// it. Once out of the list the owner takes the flag, unless it was served: then the flag is for
    /// the next call.
    pub(super) fn snooze_and_park(&self, deadline: Option<Instant>) -> bool {
        snooze(|| self.is_notified() || self.is_interrupted() || is_past(deadline));
        self.park(deadline)
    }

    /// The same without the back-off.
    pub(super) fn park(&self, deadline: Option<Instant>) -> bool {
        self.cell.wait(deadline, OnInterrupt::Return) != Wake::TimedOut
    }

    /// The item. Only the owner, and not while the waiter is in a list.
    pub(super) fn take_item(&self) -> Option<T> {
        self.item.lock().take()
    }
}

/// Removes the waiter to be served next: the one that has waited longest, unless it is interrupted. An
/// interrupted waiter is about to leave with an error, as a call that finds the flag set does.
pub(super) fn next_waiter<T>(waiters: &mut Waiters<T>) -> Option<Arc<Waiter<T>>> {
    waiters.take_first(|waiter| !waiter.is_interrupted())
}
