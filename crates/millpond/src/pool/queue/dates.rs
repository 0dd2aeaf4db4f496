//! How long tasks have waited in the queue, and which ones come first.

use std::time::{Duration, Instant};

use super::TaskQueue;
use crate::panic::catch;
use crate::pool::idle::Dequeued;
use crate::queue::Delayed;
use crate::task::{Place, Task, TaskInfo};
use crate::time::clock::Tick;

/// A task that was accepted with the time.
pub(in crate::pool) fn with_time(task: Task) -> Dequeued {
    let since = task.queued_at();
    (task, since)
}

/// What is known about a queued task.
pub(in crate::pool) struct QueuedTask {
    pub(in crate::pool) info: TaskInfo,
    /// When it was accepted, or is due, if that is known.
    pub(in crate::pool) since: Option<Tick>,
    /// When it is due, in a scheduled pool.
    pub(in crate::pool) due: Option<Tick>,
}

impl QueuedTask {
    fn accepted(task: &Task) -> QueuedTask {
        QueuedTask { info: task.info().clone(), since: task.queued_at(), due: None }
    }
}

impl TaskQueue {
    /// How long the queue will hold `task` back until it is due.
    pub(in crate::pool) fn held_back(&self, task: &Task) -> Duration {
        match self {
            TaskQueue::Blocking { .. } => task.due().saturating_duration_since(Instant::now()),
            _ => Duration::ZERO,
        }
    }

    /// When the task at the head was accepted, or was due, if that is not after `now`. `None` also
    /// if that is not known.
    pub(in crate::pool) fn head_since(&self, now: Tick) -> Option<Tick> {
        match self {
            TaskQueue::Fifo(fifo) => fifo.head_since(),
            TaskQueue::Priority(queue, _) => queue.with_first(|first| first.and_then(Task::queued_at)),
            TaskQueue::Delayed(delayed) => delayed.due_since(now),
            TaskQueue::Handoff | TaskQueue::Blocking { .. } => None,
        }
    }

    /// When the task at `place` was accepted, if the queue knows.
    pub(in crate::pool) fn since(&self, place: &Place) -> Option<Tick> {
        if let TaskQueue::Fifo(fifo) = self { fifo.since(place.get()) } else { None }
    }

    /// The first tasks, in queue order. Looks at `limit` entries at most.
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
            // Only the whole queue can be looked at.
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
