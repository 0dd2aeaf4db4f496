//! [`QueueTime`]: the limit on how long tasks wait in a pool that was built with `max_queue_time`.
//!
//! Every task that such a pool accepts carries the time of its acceptance, in its label. The worker that is
//! about to run a task compares, and sheds a task that is too old. A submitter compares the task at the head of the queue, the
//! oldest: while that one is too old the queue counts as full. Only a first-in-first-out queue has the oldest task at its head; of
//! the others only the first half holds.

use std::time::Duration;

use super::inner::PoolInner;
use super::queue::TaskQueue;
use crate::queue::Delayed;
use crate::sync::{AtomicU64, Ordering};
use crate::task::Shed;
use crate::task::Task;
use crate::time::clock::Clock;

pub(super) struct QueueTime {
    limit: Duration,
    clock: Clock,
    /// Until this time, in nanoseconds of the clock, no task in the queue is too old: the head was seen, and later heads are younger. Spares most
    /// submits the lock of the queue's head.
    ///
    /// Relaxed: every value that was ever stored is true for good, and an old one costs another look. Submitters take the
    /// time before they enqueue, so two of them may be in the queue in the other order: by that little it may be wrong.
    fresh_until: AtomicU64,
}

impl QueueTime {
    pub(super) fn new(limit: Duration, clock: Clock) -> Self {
        QueueTime { limit, clock, fresh_until: AtomicU64::new(0) }
    }

    /// Notes that `task` waits from now on; in a queue that may hold it back, from its due time on.
    fn stamp(&self, task: &mut Task, queue: &TaskQueue) {
        let held_back = match queue {
            TaskQueue::Blocking { .. } => task.due().saturating_duration_since(std::time::Instant::now()),
            _ => Duration::ZERO,
        };
        task.set_queued_at(self.clock.tick_after(held_back));
    }

    fn is_exceeded_by(&self, task: &Task) -> bool {
        task.queued_at().is_some_and(|queued_at| self.clock.tick().since(queued_at) > self.limit)
    }

    /// The oldest task in the queue is too old.
    fn is_exceeded_in(&self, queue: &TaskQueue) -> bool {
        let TaskQueue::Fifo(fifo) = queue else { return false };
        let now = self.clock.tick();
        if now.nanos() <= self.fresh_until.load(Ordering::Relaxed) {
            return false;
        }
        // An empty queue: whatever comes is younger than this look.
        let oldest = fifo.with_first(|first| first.and_then(Task::queued_at)).unwrap_or(now);
        self.fresh_until.store(oldest.plus(self.limit).nanos(), Ordering::Relaxed);
        now.since(oldest) > self.limit
    }
}

impl PoolInner {
    /// Before a task is placed.
    pub(super) fn stamp(&self, task: &mut Task) {
        if let Some(queue_time) = &self.queue_time {
            queue_time.stamp(task, &self.queue);
        }
    }

    /// The queue counts as full because its oldest task is too old.
    #[inline]
    pub(super) fn queue_is_overdue(&self) -> bool {
        self.queue_time.as_ref().is_some_and(|queue_time| queue_time.is_exceeded_in(&self.queue))
    }

    /// Sheds a task that has left the queue, if it has waited for too long. True: it is counted and gone.
    #[inline]
    pub(super) fn shed(&self, task: &mut Option<Task>) -> bool {
        self.queue_time.is_some() && self.shed_if_too_old(task)
    }

    #[inline(never)]
    fn shed_if_too_old(&self, task: &mut Option<Task>) -> bool {
        let (Some(queue_time), Some(waited)) = (&self.queue_time, task.as_ref()) else { return false };
        let is_shed = queue_time.is_exceeded_by(waited)
            && waited.expire(&mut |shed| {
                match shed {
                    Shed::Expired => self.counters.expired(),
                    Shed::Cancelled => self.counters.cancelled_in_queue(),
                }
                self.task_gone();
            });
        if is_shed {
            task.take().into_iter().for_each(Task::drop_caught);
        }
        is_shed
    }

    /// Sheds the tasks at the head of the queue that are too old. False: the head is young, or there is none.
    pub(super) fn shed_overdue(&self) -> bool {
        let mut shed_some = false;
        while self.queue_is_overdue() {
            let mut task = self.poll();
            shed_some |= task.is_some();
            // Somebody else may have taken the old one in between, or it cannot be shed: then it is evicted.
            if !self.shed(&mut task) {
                let evicted = self.hand_back(Vec::from_iter(task));
                evicted.into_iter().for_each(Task::drop_caught);
            }
        }
        if shed_some {
            self.after_removal();
        }
        shed_some
    }
}
