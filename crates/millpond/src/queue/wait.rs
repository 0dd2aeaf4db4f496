//! Waiting that time and interrupts can end: one waiting thread, and a line of them.
//!
//! A thread that cannot go on leaves a [`Waiter`] in a [`Line`] of the queue and sleeps. Whoever can serve it takes it
//! out of the line and settles it, both under the queue's lock, and wakes it after the lock is free. So under the lock
//! a waiter either stands in its line or has been served: a thread whose time is up looks there which of the two
//! it is, and a wake-up can neither be lost nor go to somebody who has left.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::brief::Brief;
use crate::interrupt::Sleeper;
use crate::sync::backoff::snooze;
use crate::sync::{Arc, AtomicU8, Ordering, deadline_after};

/// How long a call is willing to wait.
#[derive(Debug, Clone, Copy)]
pub(super) enum Patience {
    Forever,
    For(Duration),
}

impl Patience {
    pub(super) fn is_none(self) -> bool {
        matches!(self, Patience::For(timeout) if timeout.is_zero())
    }

    /// When patience ends; `None`: never.
    pub(super) fn deadline(self) -> Option<Instant> {
        match self {
            Patience::Forever => None,
            Patience::For(timeout) => deadline_after(timeout),
        }
    }
}

/// Tells whether patience has ended. Who looks for something looks for this too: on a busy machine each look may take
/// milliseconds.
pub(super) fn is_past(deadline: Option<Instant>) -> bool {
    deadline.is_some_and(|deadline| deadline <= Instant::now())
}

/// Served, or called.
const SETTLED: u8 = 1;
/// Went to sleep, or is about to.
const ASLEEP: u8 = 2;

/// A thread that waits at a queue, and what is handed over between it and the one who serves it.
pub(super) struct Waiter<T> {
    sleeper: Arc<Sleeper>,
    /// Two bits. `SETTLED` is set under the queue's lock, after `hand`; its owner may read it without. `ASLEEP` is set by
    /// the owner before it sleeps.
    ///
    /// Both are set by read-modify-writes of the one word, so one is second. If it is `SETTLED`, who sets it finds
    /// `ASLEEP` and wakes the owner; if it is `ASLEEP`, the owner finds `SETTLED` and does not sleep. So to wake one who still
    /// looks, as most do, is to do nothing.
    ///
    /// `SETTLED` is set with Release and read with Acquire: the owner that sees it sees what is in `hand`.
    word: AtomicU8,
    /// Of one who wants to put: the item, until it is served. Of one who wants to take: the item, once it is served.
    hand: Brief<Option<T>>,
}

impl<T> Waiter<T> {
    /// The calling thread, with `hand` in its hand.
    pub(super) fn new(hand: Option<T>) -> Arc<Self> {
        Arc::new(Waiter { sleeper: Sleeper::current(), word: AtomicU8::new(0), hand: Brief::new(hand) })
    }

    /// Serves a taker. The caller holds the queue's lock and has taken the waiter out of its line.
    pub(super) fn give(&self, item: T) {
        *self.hand.lock() = Some(item);
        self.settle();
    }

    /// Serves a putter: relieves it of its item. The caller holds the queue's lock and has taken the waiter
    /// out of its line.
    pub(super) fn relieve(&self) -> T {
        let item = self.hand.lock().take().expect("a putter in the line holds its item");
        self.settle();
        item
    }

    /// Marks the waiter as served, or called. The caller holds the queue's lock; true if it was not marked before.
    pub(super) fn settle(&self) -> bool {
        self.word.fetch_or(SETTLED, Ordering::Release) & SETTLED == 0
    }

    /// Takes the mark back. Only the owner, with the queue's lock held.
    pub(super) fn unsettle(&self) {
        self.word.store(0, Ordering::Relaxed); // the lock orders it against the next `settle`
    }

    pub(super) fn is_settled(&self) -> bool {
        self.word.load(Ordering::Acquire) & SETTLED != 0
    }

    /// Wakes the owner if it sleeps; for whoever settled it, once the lock is free.
    ///
    /// The owner may be gone, and wait for something else: all waits look again before they believe a wake-up.
    pub(super) fn wake(&self) {
        // Relaxed: the caller's `settle` read the same word, and nothing older can be read after it.
        if self.word.load(Ordering::Relaxed) & ASLEEP != 0 {
            self.sleeper.unpark();
        }
    }

    /// Blocks until settled, interrupted or past `deadline`; false in the last case. Only the owner.
    ///
    /// Leaves the interrupt flag as it is: as long as the waiter stands in a line the flag tells others not to serve
    /// it. Once out of the line the owner takes the flag, unless it was served: then it is for the next call.
    pub(super) fn wait(&self, deadline: Option<Instant>) -> bool {
        snooze(|| self.is_settled() || is_past(deadline));
        self.sleep(deadline)
    }

    /// As `wait`, for who has looked long enough.
    pub(super) fn sleep(&self, deadline: Option<Instant>) -> bool {
        self.word.fetch_or(ASLEEP, Ordering::Relaxed); // what counts is which is first
        let over = || self.is_settled() || self.sleeper.is_interrupted();
        self.sleeper.wait_through_interrupts(deadline, over)
    }

    pub(super) fn is_interrupted(&self) -> bool {
        self.sleeper.is_interrupted()
    }

    /// Reads and clears the interrupt flag. Only the owner.
    pub(super) fn take_interrupt(&self) -> bool {
        self.sleeper.take_interrupt()
    }

    /// What is in the hand. Only the owner, and not while the waiter stands in a line.
    pub(super) fn take_hand(&self) -> Option<T> {
        self.hand.lock().take()
    }
}

/// Waiting threads in order of arrival. Guarded by the queue's lock.
pub(super) struct Line<T> {
    /// Those not served yet: being in here and being unsettled is the same, except for the delay queue's
    /// leader, which is called without leaving.
    waiters: VecDeque<Arc<Waiter<T>>>,
}

impl<T> Line<T> {
    pub(super) fn new() -> Self {
        Line { waiters: VecDeque::new() }
    }

    pub(super) fn join(&mut self, waiter: &Arc<Waiter<T>>) {
        self.waiters.push_back(Arc::clone(waiter));
    }

    /// Takes out who is to be served next.
    ///
    /// One whose interrupt came first is not served: it is about to leave with an error, as a call that finds the flag
    /// set does.
    pub(super) fn next(&mut self) -> Option<Arc<Waiter<T>>> {
        let at = self.waiters.iter().position(|waiter| !waiter.sleeper.is_interrupted())?;
        self.waiters.remove(at)
    }

    pub(super) fn len(&self) -> usize {
        self.waiters.len()
    }

    pub(super) fn first(&self) -> Option<&Arc<Waiter<T>>> {
        self.waiters.front()
    }

    /// Takes `waiter` out; false if it does not stand here, because it was served.
    pub(super) fn leave(&mut self, waiter: &Arc<Waiter<T>>) -> bool {
        let at = self.waiters.iter().position(|other| Arc::ptr_eq(other, waiter));
        at.and_then(|at| self.waiters.remove(at)).is_some()
    }
}
