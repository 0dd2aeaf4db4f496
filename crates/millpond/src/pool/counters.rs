//! The event counters of a pool.
//!
//! Each worker counts its own tasks in its own cache lines. [`Counters`] holds the counts that
//! belong to no worker, such as refused tasks. `stats` adds everything up.
//!
//! Ordering. A count of settled tasks is written with Release and read with Acquire, so a reader
//! that sees a task settled also sees that it was accepted. `stats` relies on this.

#[cfg(not(loom))]
use std::cell::Cell;

use crate::executor::RejectReason;
use crate::monitor::RejectedBy;
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
    /// Number of tasks that run inline inside another task of this worker now.
    inline: AtomicU64,
}

/// Adds one. Only one thread writes the counter at a time, so a load and a store are exact.
#[inline]
fn bump(counter: &AtomicU64) {
    counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Release);
}

impl WorkerCounters {
    /// Counts a finished task, hooks included. Returns the number of tasks finished so far.
    #[inline]
    pub(super) fn finish(&self) -> u64 {
        bump(&self.finished);
        self.finished.load(Ordering::Relaxed)
    }

    /// Returns the number of tasks that the worker has finished.
    pub(super) fn finished(&self) -> u64 {
        self.finished.load(Ordering::Acquire)
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

    /// Returns the number of tasks that ended on a worker.
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

/// The counters that the whole pool shares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Counter {
    /// Tasks that were given to a new thread.
    FirstTask,
    /// Tasks that were removed, drained or evicted.
    HandedBack,
    /// Tasks that waited longer than `max_queue_time`.
    Expired,
    /// Periodic tasks that a panic of a run has ended.
    PeriodicEndedByPanic,
    /// Refused tasks that the policy ran on the caller, without those in [`Often`].
    CallerRan,
    /// Refused tasks that the policy dropped, without those in [`Often`].
    Discarded,
    /// Refused tasks that `DiscardOldest` admitted after it had dropped tasks at the head of the
    /// queue.
    Evicted,
    /// Refused tasks that a custom policy kept.
    Kept,
    /// Submitters that waited for room and found it.
    Blocked,
    ThreadStarted,
    ThreadStartFailed,
}

/// The counts of a pool that do not belong to a worker.
#[derive(Debug, Default)]
pub(super) struct Counters {
    /// Indexed by [`Counter`].
    counts: [AtomicU64; Counter::ThreadStartFailed as usize + 1],
    often: StripedCounter,
    /// Refused tasks by reason, except those counted in `often`.
    reasons: [AtomicU64; RejectReason::ALL.len()],
}

impl Counters {
    pub(super) fn add(&self, counter: Counter) {
        self.counts[counter as usize].fetch_add(1, Ordering::Release);
    }

    /// Undoes `add`.
    pub(super) fn undo(&self, counter: Counter) {
        self.counts[counter as usize].fetch_sub(1, Ordering::Release);
    }

    pub(super) fn get(&self, counter: Counter) -> u64 {
        self.counts[counter as usize].load(Ordering::Acquire)
    }

    #[inline]
    pub(super) fn add_often(&self, what: Often) {
        self.often.add_one(what);
    }

    pub(super) fn get_often(&self, what: Often) -> u64 {
        self.often.sum(what)
    }

    /// Counts a refused task. `add(Counter::…)` follows, unless the policy returns the task.
    pub(super) fn add_refusal(&self, reason: RejectReason) {
        self.reasons[reason as usize].fetch_add(1, Ordering::Release);
    }

    /// Returns the refused tasks. Answers are read before reasons, so no task has an answer without
    /// a reason.
    pub(super) fn rejected(&self) -> RejectedBy {
        let mut rejected = RejectedBy::default();
        let [returned, caller_ran, discarded] = Often::OVERLOAD.map(|answer| self.get_often(answer));
        rejected.caller_ran = self.get(Counter::CallerRan) + caller_ran;
        rejected.discarded = self.get(Counter::Discarded) + discarded;
        rejected.evicted = self.get(Counter::Evicted);
        rejected.other = self.get(Counter::Kept);
        rejected.blocked = self.get(Counter::Blocked);
        let mut reasons =
            RejectReason::ALL.map(|reason| self.reasons[reason as usize].load(Ordering::Acquire));
        reasons[RejectReason::Saturated as usize] += returned + caller_ran + discarded;
        rejected.by_reason(reasons)
    }
}

/// Events so frequent that one shared counter would be measurable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Often {
    /// An overloaded pool refused a task, and the policy returned it.
    Returned,
    /// The same, and the policy ran it on the caller.
    CallerRan,
    /// The same, and the policy dropped it.
    Discarded,
    /// A task was cancelled and removed from the queue.
    CancelledInQueue,
}

impl Often {
    const OVERLOAD: [Often; 3] = [Self::Returned, Self::CallerRan, Self::Discarded];
}

type OftenCounts = [AtomicU64; 4];

/// Counters for many writers. The first threads own a stripe each, which no other thread writes. So
/// they need no atomic read-modify-write, which costs as much as the rest of a rejection (about 5
/// ns).
///
/// Exact, because thread numbers are unique. Release and Acquire as in the file header.
#[derive(Debug, Default)]
struct StripedCounter {
    stripes: [Stripe; 4],
    /// The counts of all threads without a stripe.
    shared: OftenCounts,
}

#[derive(Debug, Default)]
#[repr(align(64))]
struct Stripe {
    /// Number of the owning thread; 0 if the stripe is free. Never changes once set.
    owner: AtomicU64,
    counts: OftenCounts,
}

impl StripedCounter {
    #[inline]
    fn add_one(&self, what: Often) {
        let me = thread_number();
        let stripe = &self.stripes[me as usize % self.stripes.len()];
        if stripe.owner.load(Ordering::Relaxed) == me {
            bump(&stripe.counts[what as usize]);
        } else {
            self.claim_or_share(me, stripe, what);
        }
    }

    #[cold]
    fn claim_or_share(&self, me: u64, stripe: &Stripe, what: Often) {
        if stripe.owner.compare_exchange(0, me, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            bump(&stripe.counts[what as usize]);
        } else {
            self.shared[what as usize].fetch_add(1, Ordering::Release);
        }
    }

    fn sum(&self, what: Often) -> u64 {
        let count = |counts: &OftenCounts| counts[what as usize].load(Ordering::Acquire);
        self.stripes.iter().map(|stripe| count(&stripe.counts)).sum::<u64>() + count(&self.shared)
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
    use super::{Often, StripedCounter};

    #[test]
    fn striped_counter_with_more_threads_than_stripes_is_exact() {
        const EACH: u64 = if cfg!(miri) { 20 } else { 1000 };
        let counter = StripedCounter::default();
        let threads = 3 * counter.stripes.len() as u64;
        std::thread::scope(|s| {
            for _ in 0..threads {
                s.spawn(|| (0..EACH).for_each(|_| counter.add_one(Often::Returned)));
            }
        });
        assert_eq!(counter.sum(Often::Returned), threads * EACH);
        assert_eq!(counter.sum(Often::Discarded), 0);
        assert!(counter.stripes.iter().all(|stripe| stripe.counts[0].load(super::Ordering::Relaxed) > 0));
    }
}
