//! [`PoolStats`], and how a reader adds up counters while tasks move.
//!
//! A task counts from its acceptance until it is settled. In between it is queued, or held by a
//! worker, or runs inline inside another task. No lock covers all of these, so [`Counts`] reads
//! them one after the other, in an order that keeps two invariants at every moment:
//!
//! 1. Every task accepted before the read is in at least one count. A task between two places
//!    (given to a new thread that has not begun, handed to a parked worker, just dequeued) has no
//!    counter. It follows from the others: accepted before the read, not settled at its end, and
//!    seen neither queued nor running in between. So a task on its way needs no further atomic
//!    operation.
//! 2. Settled tasks never exceed accepted tasks. A task is counted as accepted before another
//!    thread can take it, and as settled by a Release store after that. The read loads settled
//!    counts first, with Acquire, and accepted counts last.
//!
//! While tasks move, a read may count a task twice: as queued, and later as running or settled. The
//! counts are exact while no task moves. Models: `loom_tests::pool::a_look_at_the_counts_*`.

use std::time::Duration;

use super::ThreadPoolExecutor;
use super::control::{RunState, Snapshot};
use super::counters::{Event, Totals};
use super::idle::ParkedWorkers;
use super::inner::PoolInner;
use super::queue::TaskQueue;
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
    /// Tasks that ended, or left without having run.
    fn settled(&self) -> u64 {
        self.totals.settled() + self.removed()
    }

    /// Tasks that left the queue and did not run.
    fn removed(&self) -> u64 {
        self.cancelled_in_queue + self.handed_back + self.expired
    }

    /// Adds the tasks that are between two places, see invariant 1: `accepted` were accepted before
    /// the read. A worker that runs nothing holds at most one of them. The others left the queue to
    /// be settled without a run and still count as queued.
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
        let accepted = self.submitted();
        // The order matters, see the file header: a task moves from queue to worker to settled.
        let queued = self.queue().len();
        let workers = self.workers();
        let (active, inline) = (workers.active_count(), workers.inline_count());
        let (totals, largest) = (workers.totals(), workers.largest());
        drop(workers);
        let counters = self.counters();
        let cancelled_in_queue = counters.count(Event::CancelledInQueue) + self.queue().removed_on_cancel();
        let (handed_back, expired) = (counters.count(Event::HandedBack), counters.count(Event::Expired));
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
            // Its owner may add and remove tasks without the pool. So accepted tasks may be
            // missing, and more tasks may be settled than were accepted.
            counts.submitted = counts.submitted.max(counts.settled());
        } else {
            counts.add_moving_tasks(accepted);
        }
        counts
    }

    /// Returns true if no task is queued or running. A scheduled pool may hold tasks that are not
    /// due.
    ///
    /// Two reads are needed. A worker may begin and settle its task between the read of the workers
    /// and the read of settled tasks, and then call hooks: the first read misses it. A worker is
    /// active before it settles a task, so if nothing is settled between two reads, the second sees
    /// it.
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

    /// Tasks accepted so far.
    fn submitted(&self) -> u64 {
        self.queue().pushed() + self.idle().handed_off() + self.counters().first_tasks()
    }
}

/// Getters.
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

    /// Returns all figures at once.
    pub fn stats(&self) -> PoolStats {
        let pool = self.inner();
        let settings = pool.settings().get();
        let counts = pool.counts();
        let (totals, counters) = (counts.totals, pool.counters());
        PoolStats {
            state: counts.control.state(),
            core_pool_size: settings.core,
            maximum_pool_size: settings.maximum,
            keep_alive_time: settings.keep_alive,
            pool_size: counts.control.workers(),
            active_count: counts.active,
            in_place_count: counts.inline,
            largest_pool_size: counts.largest,
            queued_count: counts.queued,
            remaining_queue_capacity: pool.queue().remaining_capacity(),
            submitted: counts.submitted,
            completed: totals.count(Outcome::Succeeded),
            panicked: totals.count(Outcome::Panicked),
            cancelled: totals.count(Outcome::Cancelled) + counts.cancelled_in_queue,
            rejected: counters.count(Event::Rejected),
            handed_back: counts.handed_back,
            expired: counts.expired,
            periodic_ended_by_panic: counters.count(Event::PeriodicEndedByPanic),
        }
    }

    /// The parked workers, for drivers of deterministic tests.
    #[doc(hidden)]
    pub fn parked_workers(&self) -> ParkedWorkers {
        self.inner().idle().parked_workers()
    }
}

/// The figures of a pool at one moment.
///
/// A task counts from its acceptance until it is settled. While no task moves, `submitted` =
/// `completed` + `panicked` + `cancelled` + `handed_back` + `expired` + `queued_count` +
/// `active_count` + `in_place_count`. While tasks move, two things still hold. The settled tasks
/// (`completed`, `panicked`, `cancelled`, `handed_back`, `expired`) never exceed `submitted`. Every
/// task accepted before the call is in one of the counts, or in two while it moves from one to the
/// next. The outcome of a task is counted before its handle resolves.
///
/// A pool with a custom queue counts what the queue holds. A task that the owner of the queue adds
/// counts as submitted when it is settled. A task that a worker has just dequeued is in no count
/// for a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolStats {
    /// The run state.
    pub state: RunState,
    /// The core size in force.
    pub core_pool_size: usize,
    /// The maximum size in force.
    pub maximum_pool_size: usize,
    /// How long an idle worker above the core size waits for work before it exits.
    pub keep_alive_time: Duration,
    /// Number of workers.
    pub pool_size: usize,
    /// Workers that run a task or have been given one. Never more than `pool_size`.
    pub active_count: usize,
    /// Tasks that run inside another task that joins them, see
    /// [`TaskHandle::join`](crate::TaskHandle::join). Their workers are in `active_count` already.
    pub in_place_count: usize,
    /// The largest number of workers so far.
    pub largest_pool_size: usize,
    /// Queued tasks.
    pub queued_count: usize,
    /// How many more tasks the queue accepts; `usize::MAX` if it is unbounded.
    pub remaining_queue_capacity: usize,
    /// Tasks accepted so far.
    pub submitted: u64,
    /// Tasks that ran and returned.
    pub completed: u64,
    /// Tasks that panicked, and tasks that did not run because `before_execute` panicked.
    pub panicked: u64,
    /// Tasks that were cancelled, before or while they ran.
    pub cancelled: u64,
    /// Tasks that were refused, whatever the policy did with them. Tasks for which the blocking
    /// policy found room are not included.
    pub rejected: u64,
    /// Accepted tasks that left without having run: removed, drained by `shutdown_now`, or evicted
    /// by `DiscardOldest`.
    pub handed_back: u64,
    /// Accepted tasks that did not run because they waited longer than
    /// [`max_queue_time`](crate::Builder::max_queue_time).
    pub expired: u64,
    /// Periodic tasks of a scheduled pool that ended because a run panicked. If this grows,
    /// something that should happen periodically no longer does.
    pub periodic_ended_by_panic: u64,
}
