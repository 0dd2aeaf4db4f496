//! Times of queued tasks: how long they have waited, and which ones are at the head.

use std::time::{Duration, Instant};

use super::TaskQueue;
use crate::panic::catch;
use crate::pool::idle::Dequeued;
use crate::queue::Delayed;
use crate::task::{Place, Task, TaskInfo};
use crate::time::clock::Tick;

/// Returns the task with its acceptance time.
pub(in crate::pool) fn with_time(task: Task) -> Dequeued {
    let since = task.queued_at();
    (task, since)
}

/// A queued task as shown to observers.
pub(in crate::pool) struct QueuedTask {
    pub(in crate::pool) info: TaskInfo,
    /// When the task was accepted, or is due, if that is known.
    pub(in crate::pool) since: Option<Tick>,
    /// When the task is due, in a scheduled pool.
    pub(in crate::pool) due: Option<Tick>,
}

impl QueuedTask {
    fn accepted(task: &Task) -> QueuedTask {
        QueuedTask { info: task.info().clone(), since: task.queued_at(), due: None }
    }
}

impl TaskQueue {
    /// Returns how long the queue will hold `task` back until it is due.
    pub(in crate::pool) fn held_back(&self, task: &Task) -> Duration {
        match self {
            TaskQueue::Blocking { .. } => task.due().saturating_duration_since(Instant::now()),
            _ => Duration::ZERO,
        }
    }

    /// Returns when the task at the head was accepted, or was due if that is not after `now`.
    /// `None` also if this time is unknown.
    pub(in crate::pool) fn head_since(&self, now: Tick) -> Option<Tick> {
        match self {
            TaskQueue::Fifo(fifo) => fifo.head_since(),
            TaskQueue::Priority(queue, _) => queue.with_first(|first| first.and_then(Task::queued_at)),
            TaskQueue::Delayed(delayed) => delayed.due_since(now),
            TaskQueue::Handoff | TaskQueue::Blocking { .. } => None,
        }
    }

    /// Returns when the task at `place` was accepted, if the queue knows.
    pub(in crate::pool) fn since(&self, place: &Place) -> Option<Tick> {
        if let TaskQueue::Fifo(fifo) = self { fifo.since(place.get()) } else { None }
    }

    /// Returns the first tasks, in queue order. Reads at most `limit` entries.
    pub(in crate::pool) fn first_tasks(&self, limit: usize) -> Vec<QueuedTask> {
        let mut tasks = Vec::with_capacity(limit.min(self.try_len().unwrap_or(0)));
        match self {
            TaskQueue::Fifo(fifo) => {
                let dated = |(info, place)| QueuedTask { info, since: fifo.since(place), due: None };
                tasks.extend(fifo.first_tasks(limit).into_iter().map(dated));
            }
            TaskQueue::Handoff => {}
            TaskQueue::Priority(queue, _) => {
                queue.for_first(limit, &mut |task| tasks.push(QueuedTask::accepted(task)));
            }
            // The trait of custom queues can only iterate over all entries.
            TaskQueue::Blocking { queue, .. } if self.try_len().is_some_and(|len| len <= limit) => {
                catch(|| queue.for_each(&mut |task| tasks.push(QueuedTask::accepted(task))));
            }
            TaskQueue::Blocking { .. } => {}
            TaskQueue::Delayed(delayed) => {
                let dated = |(info, due)| QueuedTask { info, since: Some(due), due: Some(due) };
                tasks.extend(delayed.first_tasks(limit).into_iter().map(dated));
            }
        }
        tasks
    }
}
