//! How a reader adds up the counters of a pool while tasks move between their places.
//!
//! A task counts from its acceptance until it is settled. In between it is queued, or held by a
//! worker, or runs inline inside another task. No lock covers all of these, so [`Counts`] reads
//! them one after the other, in an order that keeps two invariants at every moment:
//!
//! 1. Every task accepted before the read is in at least one count. A task in transit (given to a
//!    new thread that has not begun, handed to a parked worker, just dequeued) has no counter of
//!    its own. The reader derives it: accepted before the read, not settled at its end, and seen
//!    neither queued nor running in between. So tasks in transit cost no further atomic operation.
//! 2. Settled tasks never exceed accepted tasks. A task is counted as accepted before another
//!    thread can take it, and as settled by a Release store after that. The read loads settled
//!    counts first, with Acquire, and accepted counts last.
//!
//! While tasks move, a read may count a task twice: as queued, and later as running or settled. The
//! counts are exact while no task moves. Models: `reading_counts_*` in `loom_tests/lifecycle.rs`.

use super::ThreadPoolExecutor;
use super::control::Snapshot;
use super::counters::{Counter, Often, Totals};
use super::idle::ParkedWorkers;
use super::inner::PoolInner;
use super::queue::TaskQueue;
use crate::monitor::{PoolStats, RunState};
use crate::panic::catch_value;
use crate::task::{Outcome, TaskId};

/// The counts of one read.
pub(super) struct Counts {
    control: Snapshot,
    queued: usize,
    active: usize,
    inline: usize,
    largest: usize,
    totals: Totals,
    cancelled_in_queue: u64,
    handed_back: u64,
    expired: u64,
    submitted: u64,
}

impl Counts {
    /// Returns the number of tasks that ended, or left without having run.
    fn settled(&self) -> u64 {
        self.totals.settled() + self.removed()
    }

    /// Returns the number of tasks that left the queue and did not run.
    fn removed(&self) -> u64 {
        self.cancelled_in_queue + self.handed_back + self.expired
    }

    /// Adds the tasks in transit, see invariant 1: `accepted` were accepted before the read. A
    /// worker without a current task holds at most one of them. The others have left the queue to
    /// be settled without a run, and still count as queued.
    fn add_moving_tasks(&mut self, accepted: u64) {
        let seen = self.settled() + (self.queued + self.active + self.inline) as u64;
        let unseen = usize::try_from(accepted.saturating_sub(seen)).unwrap_or(usize::MAX);
        let with_workers = unseen.min(self.control.workers().saturating_sub(self.active));
        self.active += with_workers;
        self.queued += unseen - with_workers;
    }
}

impl PoolInner {
    /// Reads all counts. Panics only if a custom queue does.
    pub(super) fn counts(&self) -> Counts {
        self.counts_with(|| self.queue().len())
    }

    fn counts_with(&self, queued: impl FnOnce() -> usize) -> Counts {
        let accepted = self.submitted();
        // The order matters, see the file header: a task moves from queue to worker to settled.
        let queued = queued();
        let workers = self.workers();
        let (active, inline) = (workers.active_count(), workers.inline_count());
        let (totals, largest) = (workers.totals(), workers.largest());
        drop(workers);
        let counters = self.counters();
        let cancelled_in_queue =
            counters.get_often(Often::CancelledInQueue) + self.queue().removed_on_cancel();
        let (handed_back, expired) = (counters.get(Counter::HandedBack), counters.get(Counter::Expired));
        let submitted = self.submitted();
        let control = self.control().load();
        let mut counts = Counts {
            control,
            queued,
            active: active.min(control.workers()), // an active worker may have exited since
            inline,
            largest,
            totals,
            cancelled_in_queue,
            handed_back,
            expired,
            submitted,
        };
        if self.queue().is_custom() {
            // The owner of a custom queue may add and remove tasks without the pool. So accepted
            // tasks may be missing, and more tasks may be settled than were accepted.
            counts.submitted = counts.submitted.max(counts.settled());
        } else {
            counts.add_moving_tasks(accepted);
        }
        counts
    }

    /// Returns all statistics. A custom queue that panics counts as empty and full.
    pub(super) fn stats(&self) -> PoolStats {
        let settings = self.settings().get();
        let counts = self.counts_with(|| self.queue().try_len().unwrap_or(0));
        let (totals, counters) = (counts.totals, self.counters());
        PoolStats {
            state: counts.control.state(),
            core_pool_size: settings.core_pool_size,
            maximum_pool_size: settings.maximum_pool_size,
            keep_alive_time: settings.keep_alive_time,
            pool_size: counts.control.workers(),
            active_count: counts.active,
            in_place_count: counts.inline,
            largest_pool_size: counts.largest,
            queued_count: counts.queued,
            remaining_queue_capacity: catch_value(|| self.queue().remaining_capacity()).unwrap_or(0),
            submitted: counts.submitted,
            completed: totals.count(Outcome::Succeeded),
            panicked: totals.count(Outcome::Panicked),
            cancelled: totals.count(Outcome::Cancelled) + counts.cancelled_in_queue,
            rejected: counters.rejected().total(),
            handed_back: counts.handed_back,
            expired: counts.expired,
            periodic_ended_by_panic: counters.get(Counter::PeriodicEndedByPanic),
        }
    }

    /// Returns true if no task is queued or running. A scheduled pool may hold tasks that are not
    /// due.
    ///
    /// Two reads are needed. A worker may begin and settle its task between the read of the workers
    /// and the read of settled tasks, and then call hooks. The first read misses this worker. A
    /// worker is active before it settles a task. So if nothing is settled between two reads, the
    /// second one sees the worker.
    pub(super) fn is_idle(&self) -> bool {
        loop {
            let first = self.counts();
            if self.is_busy(&first) {
                return false;
            }
            let second = self.counts();
            if second.settled() == first.settled() {
                return !self.is_busy(&second);
            }
        }
    }

    fn is_busy(&self, counts: &Counts) -> bool {
        let has_work = match self.queue() {
            TaskQueue::Delayed(delayed) => delayed.first_is_due(),
            _ => counts.queued > 0,
        };
        has_work || counts.active + counts.inline > 0
    }

    /// Returns the number of tasks accepted so far.
    fn submitted(&self) -> u64 {
        self.queue().pushed() + self.idle().handed_off() + self.counters().get(Counter::FirstTask)
    }
}

/// Statistics.
impl ThreadPoolExecutor {
    /// Returns the number of threads.
    pub fn pool_size(&self) -> usize {
        self.inner().control().load().workers()
    }

    /// Returns the number of threads that run a task or have been given one.
    ///
    /// An accepted task that is not in the queue counts, even if its thread has not begun.
    pub fn active_count(&self) -> usize {
        self.inner().counts().active
    }

    /// Returns the largest number of threads the pool has had.
    pub fn largest_pool_size(&self) -> usize {
        self.inner().workers().largest()
    }

    /// Returns the number of finished, running and queued tasks.
    ///
    /// As in the JDK, a task that is removed from the queue is subtracted again. See
    /// [`PoolStats::submitted`] for a count that only grows.
    pub fn task_count(&self) -> u64 {
        let counts = self.inner().counts();
        if !self.inner().queue().is_custom() {
            return counts.submitted - counts.removed();
        }
        // The queue may hold tasks that were never submitted here.
        let inside = counts.queued + counts.active + counts.inline;
        counts.totals.finished() + inside as u64
    }

    /// Returns the number of tasks that workers have finished.
    ///
    /// Includes tasks that panicked and tasks that a hook refused. Excludes tasks that were
    /// cancelled while queued and removed.
    pub fn completed_task_count(&self) -> u64 {
        self.inner().workers().totals().finished()
    }

    /// Returns the number of queued tasks.
    pub fn queued_count(&self) -> usize {
        self.inner().queue().len()
    }

    /// Returns the ids of the queued tasks, in queue order.
    pub fn queued_tasks(&self) -> Vec<TaskId> {
        self.inner().queue().ids()
    }

    /// Returns how many more tasks the queue accepts; `usize::MAX` if it is unbounded.
    pub fn remaining_queue_capacity(&self) -> usize {
        self.inner().queue().remaining_capacity()
    }

    /// Returns the run state.
    pub fn state(&self) -> RunState {
        self.inner().control().load().state()
    }

    /// Returns a snapshot of all statistics. Does not block.
    pub fn stats(&self) -> PoolStats {
        self.inner().stats()
    }

    /// Returns the parked workers, for drivers of deterministic tests.
    #[doc(hidden)]
    pub fn parked_workers(&self) -> ParkedWorkers {
        self.inner().idle().parked_workers()
    }
}
