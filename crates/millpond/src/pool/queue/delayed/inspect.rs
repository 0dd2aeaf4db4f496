//! Inspection of the entries of a scheduled pool's queue.

use super::DelayedQueue;
use crate::task::{TaskId, TaskInfo};
use crate::time::clock::Tick;
use crate::time::wheel::Look;

impl DelayedQueue {
    /// Returns when the first task was due, if that is not after `now`.
    pub(in crate::pool) fn due_since(&self, now: Tick) -> Option<Tick> {
        loop {
            let mut entries = self.entries.lock();
            match entries.wheel.look(now) {
                Look::Due => return entries.wheel.first().map(|(due, _)| due),
                Look::Again => {} // releases the lock in between
                Look::Later | Look::Ahead => return None,
            }
        }
    }

    /// Returns at most `limit` tasks by due time: first those that are due soon, then others.
    pub(in crate::pool) fn first_tasks(&self, limit: usize) -> Vec<(TaskInfo, Tick)> {
        let mut tasks = Vec::with_capacity(limit.min(self.len()));
        let entries = self.entries.lock();
        tasks.extend(entries.wheel.iter().take(limit).map(|(due, task)| (task.info(), due)));
        drop(entries);
        tasks.sort_by_key(|(_, due)| *due);
        tasks
    }

    /// Returns the ids of all tasks, in order.
    pub(in crate::pool) fn ids(&self) -> Vec<TaskId> {
        let mut ids = Vec::new();
        self.entries.lock().wheel.for_each(|entry| ids.push(entry.id()));
        ids
    }
}
