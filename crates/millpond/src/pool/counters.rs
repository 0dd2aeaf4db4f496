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

/// The action of a policy that did not return the refused task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    CallerRan,
    Discarded,
    /// The head of the queue was dropped, and the task was submitted again.
    Evicted,
    /// A custom policy kept the task.
    Other,
}

/// The fate of a task that no worker ran. Refused tasks are counted by [`Counters::add_overload`]
/// and [`Counters::add_refusal`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    /// Cancelled and removed from the queue.
    CancelledInQueue,
    /// Removed, drained or evicted.
    HandedBack,
    /// The task waited longer than `max_queue_time`.
    Expired,
    /// A run of a periodic task panicked and ended the series.
    PeriodicEndedByPanic,
}

/// The counts of a pool that do not belong to a worker.
#[derive(Debug, Default)]
pub(super) struct Counters {
    /// Tasks that were given to a new thread.
    first_tasks: AtomicU64,
    /// The counters for each kind of [`Often`].
    often: StripedCounter,
    /// Refused tasks by reason, except those counted in `often`.
    reasons: [AtomicU64; RejectReason::ALL.len()],
    /// Refused tasks by [`Answer`], except those counted in `often`.
    answers: [AtomicU64; 4],
    /// Submitters that waited for room and found it.
    blocked: AtomicU64,
    threads_started: AtomicU64,
    thread_start_failures: AtomicU64,
    handed_back: AtomicU64,
    expired: AtomicU64,
    periodic_ended: AtomicU64,
}

impl Counters {
    pub(super) fn add_first_task(&self) {
        self.first_tasks.fetch_add(1, Ordering::Relaxed);
    }

    /// Undoes `add_first_task` when the thread did not start.
    pub(super) fn undo_first_task(&self) {
        self.first_tasks.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn first_tasks(&self) -> u64 {
        self.first_tasks.load(Ordering::Relaxed)
    }

    /// Counts a task refused by an overloaded pool, together with the policy's answer.
    #[inline]
    pub(super) fn add_overload(&self, answer: Often) {
        self.often.add_one(answer);
    }

    /// Counts a refused task. `add_answer` follows, unless the policy returns the task.
    pub(super) fn add_refusal(&self, reason: RejectReason) {
        self.reasons[reason as usize].fetch_add(1, Ordering::Release);
    }

    pub(super) fn add_answer(&self, answer: Answer) {
        self.answers[answer as usize].fetch_add(1, Ordering::Release);
    }

    // Relaxed, here and below: statistics that no invariant contains.
    pub(super) fn add_blocked(&self) {
        self.blocked.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn add_thread(&self, has_started: bool) {
        let counter = if has_started { &self.threads_started } else { &self.thread_start_failures };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the numbers of threads started and of threads that could not be started.
    pub(super) fn threads(&self) -> (u64, u64) {
        (self.threads_started.load(Ordering::Relaxed), self.thread_start_failures.load(Ordering::Relaxed))
    }

    /// Returns the refused tasks. Answers are read before reasons, so no task has an answer without
    /// a reason.
    pub(super) fn rejected(&self) -> RejectedBy {
        let mut rejected = RejectedBy::default();
        let [returned, caller_ran, discarded] = Often::OVERLOAD.map(|answer| self.often.sum(answer));
        let answer = |answer: Answer| self.answers[answer as usize].load(Ordering::Acquire);
        rejected.caller_ran = answer(Answer::CallerRan) + caller_ran;
        rejected.discarded = answer(Answer::Discarded) + discarded;
        rejected.evicted = answer(Answer::Evicted);
        rejected.other = answer(Answer::Other);
        rejected.blocked = self.blocked.load(Ordering::Relaxed);
        let mut reasons =
            RejectReason::ALL.map(|reason| self.reasons[reason as usize].load(Ordering::Acquire));
        reasons[RejectReason::Saturated as usize] += returned + caller_ran + discarded;
        rejected.by_reason(reasons)
    }

    #[inline]
    pub(super) fn add(&self, event: Event) {
        match event {
            Event::CancelledInQueue => self.often.add_one(Often::CancelledInQueue),
            Event::HandedBack => _ = self.handed_back.fetch_add(1, Ordering::Release),
            Event::Expired => _ = self.expired.fetch_add(1, Ordering::Release),
            // Relaxed: a statistic that no invariant contains.
            Event::PeriodicEndedByPanic => _ = self.periodic_ended.fetch_add(1, Ordering::Relaxed),
        }
    }

    pub(super) fn count(&self, event: Event) -> u64 {
        match event {
            Event::CancelledInQueue => self.often.sum(Often::CancelledInQueue),
            Event::HandedBack => self.handed_back.load(Ordering::Acquire),
            Event::Expired => self.expired.load(Ordering::Acquire),
            Event::PeriodicEndedByPanic => self.periodic_ended.load(Ordering::Relaxed),
        }
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
