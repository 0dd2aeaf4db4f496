//! Where the accepted tasks are: one look at all counts of a pool.
//!
//! A task counts from its acceptance until it is settled. It waits in the queue, is with a worker,
//! runs in place inside another task, or is settled. No lock covers all of these, so a look reads
//! them one after the other, in an order that makes two laws hold at every moment:
//!
//! 1. *No task is missed.* Every task accepted before the look is in at least one count. A task
//!    between two places (with a new thread that has not begun, put into the hands of a parked
//!    worker, just dequeued) has no counter of its own. It follows from the others: what was
//!    accepted before the look, is not settled at its end, and was not seen waiting or running in
//!    between, is on its way. So the way of a task from submitter to worker needs no further
//!    atomic operation.
//! 2. *Settled tasks never exceed accepted ones.* A task is counted as accepted before any other
//!    thread can have it. It is counted as settled by a Release store, which happens after that.
//!    The look reads what is settled first, with Acquire, and what is accepted last.
//!
//! While tasks move, a look may count one twice: as waiting and then, later in the same look, as
//! running or settled. When nothing moves the counts are exact.

use super::control::Snapshot;
use super::inner::PoolInner;
use super::queue::TaskQueue;
use super::stats::{CountersRead, Totals};

/// The counts of one look.
pub(super) struct Census {
    pub(super) control: Snapshot,
    pub(super) queued: usize,
    pub(super) active: usize,
    pub(super) in_place: usize,
    pub(super) largest: usize,
    pub(super) totals: Totals,
    pub(super) counted: CountersRead,
    /// Cancelled tasks that the queue itself has counted.
    pub(super) struck: u64,
    pub(super) submitted: u64,
}

impl Census {
    /// Tasks that ended, in whatever way, or left without having run.
    fn settled(&self) -> u64 {
        self.totals.settled() + self.removed()
    }

    /// Tasks that left the queue and were not run.
    pub(super) fn removed(&self) -> u64 {
        self.counted.cancelled + self.counted.handed_back + self.counted.expired + self.struck
    }

    /// Counts the tasks that are on their way, of `accepted` that were accepted before the look. A
    /// worker that is not running has at most one. Any others have left the queue to be settled
    /// without a run, and still count as waiting.
    fn add_tasks_on_their_way(&mut self, accepted: u64) {
        let seen = self.settled() + (self.queued + self.active + self.in_place) as u64;
        let unseen = usize::try_from(accepted.saturating_sub(seen)).unwrap_or(usize::MAX);
        let with_workers = unseen.min(self.control.workers().saturating_sub(self.active));
        self.active += with_workers;
        self.queued += unseen - with_workers;
    }
}

impl PoolInner {
    /// Takes one look. Panics only if a custom queue does.
    pub(super) fn census(&self) -> Census {
        let accepted = self.submitted();
        // In the order in which a task moves, and what is accepted last: see the head of the file.
        let queued = self.queue.len();
        let workers = self.workers.lock();
        let (active, in_place) = (workers.active_count(), workers.in_place());
        let (totals, largest) = (workers.totals(), workers.largest);
        drop(workers);
        let (counted, struck) = (self.counters.read(), self.queue.struck());
        let submitted = self.submitted();
        let control = self.control.load();
        // A worker may have ended its task and left since it was seen.
        let active = active.min(control.workers());
        let mut census =
            Census { control, queued, active, in_place, largest, totals, counted, struck, submitted };
        if self.queue.is_custom() {
            // Its owner may put tasks in and take them out: accepted tasks that are not seen here
            // may be gone, and more may be settled than were accepted.
            census.submitted = submitted.max(census.settled());
        } else {
            census.add_tasks_on_their_way(accepted);
        }
        census
    }

    /// Nothing waits and nothing runs. In a scheduled pool tasks that are not due may wait.
    ///
    /// One look is not enough. A worker may begin and settle its task between the look at the workers
    /// and the look at what is settled, and then call hooks: it was seen neither waiting nor running. If
    /// nothing is settled between two looks, the second one sees such a worker, because a worker is
    /// active before it settles its task.
    pub(super) fn is_idle(&self) -> bool {
        loop {
            let first = self.census();
            if self.is_busy(&first) {
                return false;
            }
            let second = self.census();
            if second.settled() == first.settled() {
                return !self.is_busy(&second);
            }
        }
    }

    fn is_busy(&self, census: &Census) -> bool {
        let waits = match &self.queue {
            TaskQueue::Delayed(delayed) => delayed.first_is_due(),
            _ => census.queued > 0,
        };
        waits || census.active + census.in_place > 0
    }

    /// Tasks accepted so far.
    fn submitted(&self) -> u64 {
        self.queue.pushed() + self.idle.handed() + self.counters.first_tasks()
    }
}
