//! A task in two words: how it waits for its time.

use super::{Task, TaskId, TaskOf, TrackedTask, Work};
use crate::handle::TaskHandle;
use crate::periodic::Timing;
use crate::sync::Arc;
use crate::timer_wheel::{Placed, to_be_looked_at};

/// A task that waits. One that has a handle and nothing else, as nearly all have, is that handle's other half; the rest
/// are in a box.
pub(crate) enum Held {
    Tracked(TrackedTask),
    Other(Box<Task>),
}

impl Held {
    pub(crate) fn new(task: Task) -> Held {
        match task {
            Task { work: Work::Tracked(core), info } if info.label.is_none() => Held::Tracked(core),
            task => Held::Other(Box::new(task)),
        }
    }

    #[inline]
    pub(crate) fn into_task(self) -> Task {
        match self {
            Held::Tracked(core) => core.into_task(),
            Held::Other(task) => *task,
        }
    }

    /// When the runs of a series are due.
    #[inline]
    pub(crate) fn timing(&self) -> Option<&Arc<Timing>> {
        match self {
            Held::Tracked(_) => None,
            Held::Other(task) => task.timing(),
        }
    }

    /// As [`Task::entered`].
    #[inline]
    pub(crate) fn entered(&self, home: u64) {
        match self {
            Held::Tracked(core) => core.entered(home),
            Held::Other(task) => task.entered(home),
        }
    }

    #[inline]
    pub(crate) fn id(&self) -> TaskId {
        match self {
            Held::Tracked(core) => core.id(),
            Held::Other(task) => task.id(),
        }
    }

    /// The task, if it is `wanted`.
    pub(crate) fn into_task_if(self, wanted: impl FnOnce(&Task) -> bool) -> Result<Task, Held> {
        match self {
            Held::Other(task) => {
                if wanted(&task) {
                    Ok(*task)
                } else {
                    Err(Held::Other(task))
                }
            }
            Held::Tracked(core) => {
                let task = core.into_task();
                if wanted(&task) { Ok(task) } else { Err(Held::new(task)) }
            }
        }
    }
}

impl<T: Send + 'static> TaskOf<T> {
    /// As `into_parts`, for a task that is to wait for its time.
    #[inline]
    pub(crate) fn into_held(self) -> (Held, TaskHandle<T>) {
        if self.info.label.is_some() {
            let (task, handle) = self.into_parts();
            return (Held::new(task), handle);
        }
        (Held::Tracked(self.task), TaskHandle::new(self.core, self.claim))
    }
}

impl Placed for Held {
    fn moved_to(&self, place: u64) {
        match self {
            Held::Tracked(core) => core.0.place().set(place),
            // There is a box around it, which nobody has at hand: it must not be forgotten.
            Held::Other(task) => task.set_place(to_be_looked_at(place)),
        }
    }
}
