//! What a pool counts, and [`PoolStats`], one look at all of it.
//!
//! Each worker counts for itself, in cache lines of its own; the reader adds up. What workers cannot count
//! (tasks that never reach one) is counted here, on paths that are not hot.

use std::time::Duration;

use super::ctl::RunState;
use crate::handle::Outcome;
use crate::sync::{AtomicU64, Ordering};

/// A worker's counters. Only the worker writes: plain loads and stores are enough, and each is exact.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct WorkerCounters {
    finished: AtomicU64,
    succeeded: AtomicU64,
    panicked: AtomicU64,
    cancelled: AtomicU64,
}

/// Relaxed: a statistic, with one writer.
fn bump(counter: &AtomicU64) {
    counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

impl WorkerCounters {
    /// The worker is through with a task.
    pub(super) fn finished(&self) {
        bump(&self.finished);
    }

    /// What came of a task; counted before its handle can tell.
    pub(super) fn settled(&self, outcome: Outcome) {
        bump(match outcome {
            Outcome::Succeeded => &self.succeeded,
            Outcome::Panicked => &self.panicked,
            Outcome::Cancelled => &self.cancelled,
        });
    }

    pub(super) fn totals(&self) -> Totals {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Totals {
            finished: read(&self.finished),
            succeeded: read(&self.succeeded),
            panicked: read(&self.panicked),
            cancelled: read(&self.cancelled),
        }
    }
}

/// The sum of several workers' counters.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Totals {
    pub(super) finished: u64,
    pub(super) succeeded: u64,
    pub(super) panicked: u64,
    pub(super) cancelled: u64,
}

impl std::ops::AddAssign for Totals {
    fn add_assign(&mut self, other: Totals) {
        self.finished += other.finished;
        self.succeeded += other.succeeded;
        self.panicked += other.panicked;
        self.cancelled += other.cancelled;
    }
}

/// What no worker can count. Relaxed throughout: statistics.
#[derive(Debug, Default)]
pub(super) struct Counters {
    /// Tasks that came with a new thread.
    first_tasks: AtomicU64,
    rejected: AtomicU64,
    /// Cancelled and taken out of the queue.
    cancelled: AtomicU64,
    /// Removed, drained or evicted.
    handed_back: AtomicU64,
}

impl Counters {
    pub(super) fn first_task(&self) {
        self.first_tasks.fetch_add(1, Ordering::Relaxed);
    }

    /// The thread did not start after all.
    pub(super) fn no_first_task(&self) {
        self.first_tasks.fetch_sub(1, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn rejected(&self) {
        self.rejected.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn cancelled_in_queue(&self) {
        self.cancelled.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn handed_back(&self, tasks: usize) {
        self.handed_back.fetch_add(tasks as u64, Ordering::Relaxed);
    }

    pub(super) fn read(&self) -> CountersRead {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        CountersRead {
            first_tasks: read(&self.first_tasks),
            rejected: read(&self.rejected),
            cancelled: read(&self.cancelled),
            handed_back: read(&self.handed_back),
        }
    }
}

pub(super) struct CountersRead {
    pub(super) first_tasks: u64,
    pub(super) rejected: u64,
    pub(super) cancelled: u64,
    pub(super) handed_back: u64,
}

/// One look at a pool.
///
/// Exact when nothing moves; while tasks come and go, the figures may be some tasks apart from each other.
/// When nothing moves, `submitted` = `completed` + `panicked` + `cancelled` + `handed_back` + `queued_count` +
/// `active_count`; a task that a join runs in place is not in `active_count`, for its worker is there already. What came
/// of a task that ran is counted before its handle resolves.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolStats {
    /// How far the pool's life has come.
    pub state: RunState,
    /// The core size in force.
    pub core_pool_size: usize,
    /// The maximum size in force.
    pub maximum_pool_size: usize,
    /// How long a surplus worker waits for work before it leaves.
    pub keep_alive_time: Duration,
    /// Workers now.
    pub pool_size: usize,
    /// Workers that run a task now.
    pub active_count: usize,
    /// The most workers there ever were.
    pub largest_pool_size: usize,
    /// Tasks that wait in the queue.
    pub queued_count: usize,
    /// Tasks that the queue would still take; `usize::MAX` if it has no bound.
    pub remaining_queue_capacity: usize,
    /// Tasks accepted so far.
    pub submitted: u64,
    /// Tasks that ran and returned.
    pub completed: u64,
    /// Tasks that panicked, and those that a panicking `before_execute` kept from running.
    pub panicked: u64,
    /// Tasks that were cancelled, before or while they ran.
    pub cancelled: u64,
    /// Tasks that were refused, whatever the policy then did with them; those for which the blocking policy
    /// found room are not among them.
    pub rejected: u64,
    /// Tasks that were accepted and left without having run: removed, drained by `shutdown_now`, or
    /// evicted by `DiscardOldest`.
    pub handed_back: u64,
}
