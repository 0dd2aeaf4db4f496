//! [`WorkerView`] and [`Waiting`]: what runs now, and what waits.

use std::time::Duration;

use crate::sync::Arc;
use crate::task::{TaskId, TaskInfo};
use crate::threads::WorkerInfo;

/// One worker of a pool at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerView {
    /// The name of the thread.
    pub name: Arc<str>,
    /// The number of the worker in its pool, from 1.
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
    /// How long it has been running, or up to 20 µs longer. `None` if it has not begun, and if the
    /// pool measures nothing.
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
    pub oldest: Option<Duration>,
    /// The first tasks, in queue order.
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
    /// How long it has waited, or a little longer; in a scheduled pool, how long it has been due.
    /// `None` if that is not known.
    pub age: Option<Duration>,
    /// In a scheduled pool, how long until it is due; zero if it is due. `None` in other pools.
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
