//! [`TimerTask`]: a task that waits for its due time, in two words.

use super::cell::new_timer_cell;
use super::id::ResultToken;
use super::periodic::Timing;
use super::{Task, TaskHandle, TaskId, TaskInfo, TaskWork, TrackedTask};
use crate::sync::Arc;
use crate::time::wheel::{Placed, to_be_looked_at};

/// A task that waits for its due time. Nearly all have a handle and no attributes, and are stored
/// as a reference to their cell. The others are boxed.
pub(crate) enum TimerTask {
    Tracked(TrackedTask),
    Other(Box<Task>),
}

impl TimerTask {
    /// Creates the two halves of a task without attributes, in a cell from the slab.
    #[inline]
    pub(crate) fn with_handle<T: Send + 'static>(
        f: impl FnOnce() -> T + Send + 'static,
    ) -> (TimerTask, TaskHandle<T>) {
        let token = ResultToken::fresh();
        let (cell, task) = new_timer_cell(token.id(), f);
        (TimerTask::Tracked(TrackedTask(task)), TaskHandle::new(cell, token))
    }

    pub(crate) fn new(task: Task) -> TimerTask {
        match task {
            Task { work: TaskWork::Tracked(core), info } if !info.has_label() => TimerTask::Tracked(core),
            task => TimerTask::Other(Box::new(task)),
        }
    }

    #[inline]
    pub(crate) fn into_task(self) -> Task {
        match self {
            TimerTask::Tracked(core) => core.into_task(),
            TimerTask::Other(task) => *task,
        }
    }

    /// Returns the timing of a periodic task.
    #[inline]
    pub(crate) fn timing(&self) -> Option<&Arc<Timing>> {
        match self {
            TimerTask::Tracked(_) => None,
            TimerTask::Other(task) => task.timing(),
        }
    }

    /// Like [`Task::entered`].
    #[inline]
    pub(crate) fn entered(&self, home: u64) {
        match self {
            TimerTask::Tracked(core) => core.entered(home),
            TimerTask::Other(task) => task.entered(home),
        }
    }

    #[inline]
    pub(crate) fn id(&self) -> TaskId {
        match self {
            TimerTask::Tracked(core) => core.id(),
            TimerTask::Other(task) => task.id(),
        }
    }

    pub(crate) fn info(&self) -> TaskInfo {
        match self {
            TimerTask::Tracked(core) => TaskInfo::of(core.id()),
            TimerTask::Other(task) => task.info().clone(),
        }
    }

    /// Returns the task if `wanted` accepts it, otherwise `self` as an error.
    pub(crate) fn into_task_if(self, wanted: impl FnOnce(&Task) -> bool) -> Result<Task, TimerTask> {
        match self {
            TimerTask::Other(task) => {
                if wanted(&task) {
                    Ok(*task)
                } else {
                    Err(TimerTask::Other(task))
                }
            }
            TimerTask::Tracked(core) => {
                let task = core.into_task();
                if wanted(&task) { Ok(task) } else { Err(TimerTask::new(task)) }
            }
        }
    }
}

impl Placed for TimerTask {
    /// A wheel may forget an entry. The canceller then releases the entry's reference through the
    /// place alone. So only a place inside the cell that the entry refers to may allow forgetting.
    fn moved_to(&self, place: u64) {
        match self {
            TimerTask::Tracked(TrackedTask(cell)) if cell.contains(cell.place()) => cell.place().set(place),
            TimerTask::Tracked(TrackedTask(cell)) => cell.place().set(to_be_looked_at(place)),
            TimerTask::Other(task) => task.set_place(to_be_looked_at(place)),
        }
    }
}
