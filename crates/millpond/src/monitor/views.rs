//! [`WorkerView`] and [`Waiting`]: what runs now, and what waits.

use std::time::Duration;

use crate::sync::Arc;
use crate::task::{TaskId, TaskInfo};
use crate::threads::WorkerInfo;

/// The waiting tasks that an observer is shown at most. A queue is locked meanwhile.
pub(crate) const MOST_LISTED: usize = 1000;

/// One worker of a pool at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerView {
    /// The name of the thread.
    pub name: Arc<str>,
    /// The number of the worker in its pool, from 1. Zero in a scheduler over an executor.
    pub number: usize,
    /// The number by which the system knows the thread, if it has begun and the system tells:
    /// on Linux what `top -H` and debuggers show.
    pub os_thread_id: Option<u64>,
    /// What the worker does.
    pub state: WorkerState,
    /// The task that it runs, or was started for.
    pub task: Option<RunningTask>,
}

/// The task that a worker runs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunningTask {
    /// The number of the task.
    pub id: TaskId,
    /// The name of the task, if it has one.
    pub name: Option<String>,
    /// How long it has been running. `None` if it has not begun, and if the pool measures nothing.
    ///
    /// The clock is not read for each short task, so this includes tasks that the thread ran just
    /// before: as a rule up to 20 µs, or 70 µs if they are tasks of one worker of a scheduler, and
    /// more if one of them was the first long one after many short ones. With
    /// [`Timing::Every`](super::Timing::Every) it is exact, but for 50 µs in such a worker.
    pub running_for: Option<Duration>,
}

/// What a worker does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WorkerState {
    /// Its thread has not begun.
    Starting,
    /// It waits for a task.
    Idle,
    /// It runs a task.
    Running,
    /// It is about to end.
    Leaving,
}

impl WorkerState {
    /// Returns the name in lower case, for labels of metrics: `idle`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Idle => "idle",
            Self::Running => "running",
            Self::Leaving => "leaving",
        }
    }
}

/// The first tasks that wait in a pool.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Waiting {
    /// The number of queued tasks.
    pub total: usize,
    /// How long the first one has waited, if it is due. `None` also if the pool measures nothing.
    /// Of a scheduler: the longest wait, as in [`PoolSnapshot::oldest_wait`].
    ///
    /// [`PoolSnapshot::oldest_wait`]: super::PoolSnapshot::oldest_wait
    pub oldest: Option<Duration>,
    /// The first tasks, in queue order. Those of a scheduler are in the order of
    /// [`PoolRef::waiting`](super::PoolRef::waiting).
    pub tasks: Vec<WaitingTask>,
}

/// A task that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaitingTask {
    /// The number of the task.
    pub id: TaskId,
    /// The name of the task, if it has one.
    pub name: Option<String>,
    /// The priority of the task.
    pub priority: i32,
    /// How long it has waited, or a little longer; in a scheduled pool, and for a delayed or
    /// periodic task of a scheduler, how long it has been due. `None` if that is not known.
    pub age: Option<Duration>,
    /// How long until it is due. In a scheduled pool zero if it is due; in a scheduler `None` then.
    /// `None` in other pools.
    pub due_in: Option<Duration>,
}

impl WorkerView {
    pub(crate) fn new(
        info: &WorkerInfo,
        os_thread_id: Option<u64>,
        state: WorkerState,
        task: Option<RunningTask>,
    ) -> WorkerView {
        WorkerView { name: info.shared_name(), number: info.number(), os_thread_id, state, task }
    }
}

impl RunningTask {
    pub(crate) fn new(id: TaskId, name: Option<String>, running_for: Option<Duration>) -> RunningTask {
        RunningTask { id, name, running_for }
    }
}

impl WaitingTask {
    pub(crate) fn new(info: &TaskInfo, age: Option<Duration>, due_in: Option<Duration>) -> WaitingTask {
        let name = info.name().map(str::to_owned);
        WaitingTask { id: info.id(), name, priority: info.priority(), age, due_in }
    }
}
