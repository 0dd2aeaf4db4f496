//! [`QueueTimeLimit`]: how long tasks may wait in a pool built with `max_queue_time`.
//!
//! Every task that such a pool accepts carries the time of its acceptance. A worker compares this
//! time before it runs the task, and a task that is too old expires. A submitter compares the time
//! of the head: while the head is too old, the queue counts as full. The second check applies to
//! first-in-first-out queues only, because the head of another queue is not its oldest task.

use std::time::Duration;

use super::TaskQueue;
use crate::sync::{AtomicU64, Ordering};
use crate::task::Task;
use crate::time::clock::Clock;

pub(in crate::pool) struct QueueTimeLimit {
    limit: Duration,
    clock: Clock,
    /// Until this time, in nanoseconds of the clock, no queued task is too old: the head was
    /// checked, and later heads are younger. Most submitters then need not lock the queue's head.
    ///
    /// Relaxed: a stored value remains true, and a stale value only costs another check. Submitters
    /// read the clock before they enqueue, so adjacent tasks in the queue may be out of order by
    /// that time span.
    fresh_until: AtomicU64,
}

impl QueueTimeLimit {
    pub(in crate::pool) fn new(limit: Duration, clock: Clock) -> Self {
        QueueTimeLimit { limit, clock, fresh_until: AtomicU64::new(0) }
    }

    /// Sets the time from which `task` waits: now, or its due time in a queue that holds it back.
    pub(in crate::pool) fn stamp(&self, task: &mut Task, queue: &TaskQueue) {
        let held_back = queue.held_back(task);
        task.set_queued_at(self.clock.tick_after(held_back));
    }

    pub(in crate::pool) fn is_exceeded_by(&self, task: &Task) -> bool {
        task.queued_at().is_some_and(|queued_at| self.clock.tick().since(queued_at) > self.limit)
    }

    /// Returns true if the oldest queued task is too old.
    pub(in crate::pool) fn is_exceeded_in(&self, queue: &TaskQueue) -> bool {
        let TaskQueue::Fifo(fifo) = queue else { return false };
        let now = self.clock.tick();
        if now.nanos() <= self.fresh_until.load(Ordering::Relaxed) {
            return false;
        }
        // If the queue is empty, every later task is younger than this check.
        let oldest = fifo.with_first(|first| first.and_then(Task::queued_at)).unwrap_or(now);
        self.fresh_until.store(oldest.plus(self.limit).nanos(), Ordering::Relaxed);
        now.since(oldest) > self.limit
    }
}
