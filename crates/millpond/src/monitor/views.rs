//! [`WorkerView`] and [`Waiting`]: snapshots of the running and the waiting tasks.

use std::time::Duration;

use crate::sync::Arc;
use crate::task::{TaskId, TaskInfo};
use crate::threads::WorkerInfo;

/// The largest number of waiting tasks in a listing, because a queue is locked while it is read.
pub(crate) const MOST_LISTED: usize = 1000;

/// A snapshot of one worker of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerView {
    /// The name of the thread.
    pub name: Arc<str>,
    /// The number of the worker in its pool, from 1. Zero for a scheduler over an executor.
    pub number: usize,
    /// The thread id in the operating system, if the thread has started and the id is known. On
    /// Linux, `top -H` and debuggers show it.
    pub os_thread_id: Option<u64>,
    /// What the worker does.
    pub state: WorkerState,
    /// The task that the worker runs or was started for.
    pub task: Option<RunningTask>,
}

/// The task that a worker runs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunningTask {
    /// The id of the task.
    pub id: TaskId,
    /// The name of the task, if it has one.
    pub name: Option<String>,
    /// How long the task has been running. `None` if it has not started or the pool measures
    /// nothing.
    ///
    /// The clock is not read for each short task, so this may include tasks that the thread ran
    /// just before. Usually these took up to 20 µs, or 70 µs for tasks of one worker of a
    /// scheduler. It is more if one of them was the first long task after many short ones. With
    /// [`Timing::Every`](super::Timing::Every) it is exact, except for up to 50 µs in such a
    /// worker.
    pub running_for: Option<Duration>,
}

/// The state of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WorkerState {
    /// Its thread has not started yet.
    Starting,
    /// It waits for a task.
    Idle,
    /// It runs a task.
    Running,
    /// It is about to exit.
    Leaving,
}

impl WorkerState {
    /// Returns the name in lower case, for metric labels: `idle`.
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
    /// How long the first task has waited, if it is due. `None` also if the pool measures nothing.
    /// For a scheduler, this is the longest wait, as in [`PoolSnapshot::oldest_wait`].
    ///
    /// [`PoolSnapshot::oldest_wait`]: super::PoolSnapshot::oldest_wait
    pub oldest: Option<Duration>,
    /// The first tasks in queue order. For a scheduler, the order is that of
    /// [`PoolRef::waiting`](super::PoolRef::waiting).
    pub tasks: Vec<WaitingTask>,
}

/// A waiting task.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaitingTask {
    /// The id of the task.
    pub id: TaskId,
    /// The name of the task, if it has one.
    pub name: Option<String>,
    /// The priority of the task.
    pub priority: i32,
    /// How long the task has waited, possibly slightly overstated. In a scheduled pool, and for a
    /// delayed or periodic task of a scheduler, how long it has been due. `None` if unknown.
    pub age: Option<Duration>,
    /// The time until the task is due. If it is due, zero in a scheduled pool and `None` in a
    /// scheduler. `None` in other pools.
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
