//! The event counters of a pool.
//!
//! Each worker counts its own tasks in its own cache lines. [`Counters`] holds what no worker can
//! count: tasks that never reach one. `stats` adds everything up.
//!
//! Ordering. A count of settled tasks is written with Release and read with Acquire, so a reader
//! that sees a task settled also sees that it was accepted. `stats` relies on this.

#[cfg(not(loom))]
use std::cell::Cell;

use crate::sync::{AtomicU64, Ordering};
use crate::task::Outcome;

/// The counters of one worker. One thread writes at a time, so a load and a store make an exact
/// add.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct WorkerCounters {
    finished: AtomicU64,
    succeeded: AtomicU64,
    panicked: AtomicU64,
    cancelled: AtomicU64,
    /// Tasks that run inline inside another task of this worker now.
    inline: AtomicU64,
}

/// Adds one to a counter with one writer at a time.
#[inline]
fn bump(counter: &AtomicU64) {
    counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Release);
}

impl WorkerCounters {
    /// The worker is done with a task, hooks included.
    pub(super) fn finished(&self) {
        bump(&self.finished);
    }

    /// Counts the outcome of a task, before its handle resolves.
    pub(super) fn settled(&self, outcome: Outcome) {
        bump(match outcome {
            Outcome::Succeeded => &self.succeeded,
            Outcome::Panicked => &self.panicked,
            Outcome::Cancelled => &self.cancelled,
        });
    }

    pub(super) fn begin_inline(&self) {
        bump(&self.inline);
    }

    /// Ends the innermost inline task, which has been counted as settled.
    pub(super) fn end_inline(&self) {
        let running = self.inline.load(Ordering::Relaxed);
        self.inline.store(running - 1, Ordering::Release);
    }

    pub(super) fn inline(&self) -> usize {
        self.inline.load(Ordering::Acquire) as usize
    }

    pub(super) fn totals(&self) -> Totals {
        let read = |counter: &AtomicU64| counter.load(Ordering::Acquire);
        Totals {
            finished: read(&self.finished),
            succeeded: read(&self.succeeded),
            panicked: read(&self.panicked),
            cancelled: read(&self.cancelled),
        }
    }
}

/// The sum of the counters of several workers.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Totals {
    finished: u64,
    succeeded: u64,
    panicked: u64,
    cancelled: u64,
}

impl Totals {
    pub(super) fn finished(&self) -> u64 {
        self.finished
    }

    pub(super) fn count(&self, outcome: Outcome) -> u64 {
        match outcome {
            Outcome::Succeeded => self.succeeded,
            Outcome::Panicked => self.panicked,
            Outcome::Cancelled => self.cancelled,
        }
    }

    /// Tasks that a worker took and that ended there.
    pub(super) fn settled(&self) -> u64 {
        self.succeeded + self.panicked + self.cancelled
    }
}

impl std::ops::AddAssign for Totals {
    fn add_assign(&mut self, other: Totals) {
        self.finished += other.finished;
        self.succeeded += other.succeeded;
        self.panicked += other.panicked;
        self.cancelled += other.cancelled;
    }
}

/// What happened to a task that no worker ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    /// The pool refused it.
    Rejected,
    /// Cancelled and removed from the queue.
    CancelledInQueue,
    /// Removed, drained or evicted.
    HandedBack,
    /// It waited longer than `max_queue_time`.
    Expired,
    /// A run of a periodic task panicked and ended the series.
    PeriodicEndedByPanic,
}

/// The counters that no worker keeps.
#[derive(Debug, Default)]
pub(super) struct Counters {
    /// Tasks that were given to a new thread.
    first_tasks: AtomicU64,
    rejected: StripedCounter,
    cancelled: StripedCounter,
    handed_back: AtomicU64,
    expired: AtomicU64,
    periodic_ended: AtomicU64,
}

impl Counters {
    pub(super) fn add_first_task(&self) {
        self.first_tasks.fetch_add(1, Ordering::Relaxed);
    }

    /// Undoes `add_first_task`: the thread did not start.
    pub(super) fn undo_first_task(&self) {
        self.first_tasks.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn first_tasks(&self) -> u64 {
        self.first_tasks.load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn add(&self, event: Event) {
        match event {
            Event::Rejected => self.rejected.add_one(),
            Event::CancelledInQueue => self.cancelled.add_one(),
            Event::HandedBack => _ = self.handed_back.fetch_add(1, Ordering::Release),
            Event::Expired => _ = self.expired.fetch_add(1, Ordering::Release),
            // Relaxed: a statistic that no invariant contains.
            Event::PeriodicEndedByPanic => _ = self.periodic_ended.fetch_add(1, Ordering::Relaxed),
        }
    }

    pub(super) fn count(&self, event: Event) -> u64 {
        match event {
            Event::Rejected => self.rejected.sum(),
            Event::CancelledInQueue => self.cancelled.sum(),
            Event::HandedBack => self.handed_back.load(Ordering::Acquire),
            Event::Expired => self.expired.load(Ordering::Acquire),
            Event::PeriodicEndedByPanic => self.periodic_ended.load(Ordering::Relaxed),
        }
    }
}

/// A counter for many writers. The first threads own a stripe each, which no other thread writes,
/// so they need no atomic read-modify-write: that costs as much as the rest of a rejection (about 5
/// ns).
///
/// Exact, because thread numbers are unique. Release and Acquire as in the file header.
#[derive(Debug, Default)]
struct StripedCounter {
    stripes: [Stripe; 4],
    /// The counts of all threads without a stripe.
    shared: AtomicU64,
}

#[derive(Debug, Default)]
#[repr(align(64))]
struct Stripe {
    /// Number of the owning thread; 0 if the stripe is free. Never changes once set.
    owner: AtomicU64,
    count: AtomicU64,
}

impl StripedCounter {
    #[inline]
    fn add_one(&self) {
        let me = thread_number();
        let stripe = &self.stripes[me as usize % self.stripes.len()];
        if stripe.owner.load(Ordering::Relaxed) == me {
            bump(&stripe.count);
        } else {
            self.claim_or_share(me, stripe);
        }
    }

    #[cold]
    fn claim_or_share(&self, me: u64, stripe: &Stripe) {
        if stripe.owner.compare_exchange(0, me, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            bump(&stripe.count);
        } else {
            self.shared.fetch_add(1, Ordering::Release);
        }
    }

    fn sum(&self) -> u64 {
        let owned = self.stripes.iter().map(|stripe| stripe.count.load(Ordering::Acquire)).sum::<u64>();
        owned + self.shared.load(Ordering::Acquire)
    }
}

/// A number for the calling thread, from 1, unique in the process.
#[cfg(not(loom))]
#[inline]
fn thread_number() -> u64 {
    std::thread_local! {
        /// 0: not assigned yet.
        static NUMBER: Cell<u64> = const { Cell::new(0) };
    }
    #[cold]
    fn assign() -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        NUMBER.set(NEXT.fetch_add(1, Ordering::Relaxed)); // only uniqueness matters
        NUMBER.get()
    }
    match NUMBER.get() {
        0 => assign(),
        number => number,
    }
}

/// In a model all threads share one operating system thread.
#[cfg(loom)]
fn thread_number() -> u64 {
    crate::interrupt::RunId::current().thread
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::StripedCounter;

    #[test]
    fn striped_counter_with_more_threads_than_stripes_is_exact() {
        const EACH: u64 = if cfg!(miri) { 20 } else { 1000 };
        let counter = StripedCounter::default();
        let threads = 3 * counter.stripes.len() as u64;
        std::thread::scope(|s| {
            for _ in 0..threads {
                s.spawn(|| (0..EACH).for_each(|_| counter.add_one()));
            }
        });
        assert_eq!(counter.sum(), threads * EACH);
        assert!(counter.stripes.iter().all(|stripe| stripe.count.load(super::Ordering::Relaxed) > 0));
    }
}
