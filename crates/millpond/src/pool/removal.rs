//! How tasks leave the queue without running: removed, evicted, cancelled, expired or handed back.

use super::ThreadPoolExecutor;
use super::counters::{Counter, Often};
use super::inner::PoolInner;
use super::queue::TaskQueue;
use crate::sync::{Ordering, fence};
use crate::task::{Shed, Task, TaskId};

impl PoolInner {
    /// Releases accepted tasks that will not run here, and returns them for the caller.
    pub(super) fn hand_back(&self, mut tasks: Vec<Task>) -> Vec<Task> {
        if matches!(self.queue(), TaskQueue::Delayed(_)) {
            tasks = tasks.into_iter().map(Task::once).collect();
        }
        for task in &tasks {
            task.left();
            self.remove_outstanding();
            self.submitters().notify_first();
            self.counters().add(Counter::HandedBack);
        }
        self.after_removal();
        tasks
    }

    fn remove(&self, id: TaskId) -> Option<Task> {
        let task = self.queue().remove(id, None)?;
        self.hand_back(vec![task]).pop()
    }

    /// For the policy `DiscardOldest`: expires tasks that have waited too long, or else drops the
    /// head of the queue. Returns false if the queue was empty.
    pub(super) fn drop_oldest(&self) -> bool {
        if self.expire_overdue() {
            return true;
        }
        let head = self.queue().poll();
        let evicted = head.map(|(task, _)| self.hand_back(vec![task]));
        let found = evicted.is_some();
        evicted.into_iter().flatten().for_each(Task::drop_caught);
        found
    }

    /// Removes all cancelled tasks. Returns their number.
    fn purge(&self) -> usize {
        let purged = self.queue().remove_if(Task::is_cancelled);
        let count = purged.len();
        purged.into_iter().for_each(|task| self.drop_cancelled(task));
        self.after_removal();
        count
    }

    /// Counts and drops a cancelled task that has been taken out of the queue.
    pub(super) fn drop_cancelled(&self, task: Task) {
        self.counters().add_often(Often::CancelledInQueue);
        self.remove_outstanding();
        self.submitters().notify_first();
        task.drop_caught();
    }

    /// Called after every removal by a thread that does not return to the queue for more. A worker
    /// may have stayed only because of the removed tasks, and the pool may not have terminated
    /// because of them.
    pub(super) fn after_removal(&self) {
        // Race "last removal / park": pairs with the fences in `enter_queue`, `park_paused` and
        // `park_until_due`.
        fence(Ordering::SeqCst);
        if self.queue().is_empty() {
            // If the pool was paused when a worker parked and is not paused now, `resume` wakes the
            // worker.
            if (self.queue().holds_back() || self.is_paused()) && self.idle().has_parked() {
                self.idle().wake_if(|options| options.stays);
            }
            if matches!(self.queue(), TaskQueue::Blocking { .. }) {
                self.interrupt_those_in_queue_for_tasks();
            }
        }
        self.notify_if_idle();
        self.try_terminate();
    }

    /// Returns true if the queue counts as full because its head has waited too long.
    #[inline]
    pub(super) fn queue_is_overdue(&self) -> bool {
        self.time_limit().is_some_and(|limit| limit.is_exceeded_in(self.queue()))
    }

    /// Settles a dequeued task that has waited too long. Returns true if the task expired; `task`
    /// is then empty.
    #[inline]
    pub(super) fn expire(&self, task: &mut Option<Task>) -> bool {
        self.time_limit().is_some() && self.expire_if_too_old(task)
    }

    #[inline(never)]
    fn expire_if_too_old(&self, task: &mut Option<Task>) -> bool {
        let (Some(limit), Some(waited)) = (self.time_limit(), task.as_ref()) else { return false };
        let expired = limit.is_exceeded_by(waited)
            && waited.expire(&mut |shed| {
                match shed {
                    Shed::Expired => {
                        self.counters().add(Counter::Expired);
                        self.meter().count_expired(waited.queued_at());
                    }
                    Shed::Cancelled => self.counters().add_often(Often::CancelledInQueue),
                }
                self.remove_outstanding();
            });
        if expired {
            task.take().into_iter().for_each(Task::drop_caught);
        }
        expired
    }

    /// Expires the tasks at the head of the queue that are too old. Returns false if there are
    /// none.
    pub(super) fn expire_overdue(&self) -> bool {
        let mut any = false;
        while self.queue_is_overdue() {
            let mut task = self.poll().map(|(task, _)| task);
            any |= task.is_some();
            // Not expired: a worker has taken the old task in between, or this kind of task never
            // expires. The dequeued task is evicted instead.
            if !self.expire(&mut task) {
                let evicted = self.hand_back(Vec::from_iter(task));
                evicted.into_iter().for_each(Task::drop_caught);
            }
        }
        if any {
            self.after_removal();
        }
        any
    }
}

/// Removing tasks.
impl ThreadPoolExecutor {
    /// Removes a queued task; its handle resolves as abandoned. Returns false if it is not queued.
    pub fn remove(&self, id: TaskId) -> bool {
        let removed = self.inner().remove(id);
        let found = removed.is_some();
        removed.into_iter().for_each(Task::drop_caught);
        found
    }

    /// Removes all cancelled tasks from the queue and returns their number.
    ///
    /// Only a pool with `remove_on_cancel(false)` keeps cancelled tasks in its queue.
    pub fn purge(&self) -> usize {
        self.inner().purge()
    }
}
