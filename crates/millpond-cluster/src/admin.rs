//! Administration: plain values about queues, tasks and workers, for commands and consoles.

use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use crate::cluster::Cluster;
use crate::engine::{BATCH_LIMIT, Browse, CancelAnswer, Finding, QueueStats, Submitted, WorkerRow};
use crate::error::{Certainty, EngineError, OpenError};
use crate::id::{TaskId, WorkerId};
use crate::state::{Attempt, DeadReason, Millis, Priority, Record, State};

/// Which tasks to list.
#[derive(Debug, Clone, Default)]
pub struct TaskFilter {
    /// Lists only this queue; `None`: all queues.
    pub queue: Option<String>,
    /// Lists only tasks in this state.
    pub state: Option<State>,
    /// Lists only this task type.
    pub name: Option<String>,
    /// Lists only tasks that were accepted at least this long ago.
    pub older_than: Option<Duration>,
    /// Continues after this position, taken from [`TaskPage::next`]; 0 starts at the beginning.
    pub after: u64,
    /// Maximum number of tasks, never more than 500. 0 means 100.
    pub limit: usize,
}

/// One page of tasks.
#[derive(Debug, Clone, Serialize)]
pub struct TaskPage {
    /// The tasks, in submission order.
    pub tasks: Vec<TaskInfo>,
    /// Where the next page begins; `None`: this is the last page.
    pub next: Option<u64>,
}

/// A task, without its arguments and result.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TaskInfo {
    /// Its id.
    pub id: TaskId,
    /// Its queue.
    pub queue: String,
    /// The name of its task type.
    pub name: String,
    /// Its state.
    pub state: State,
    /// Its priority.
    pub priority: Priority,
    /// Number of the latest claim.
    pub attempt: u32,
    /// Attempts that failed.
    pub failures: u32,
    /// How many workers died or stalled while they held it.
    pub crashes: u32,
    /// Whether it was cancelled while it was running. The handler may not have stopped yet.
    pub cancel_requested: bool,
    /// The worker of the latest claim.
    pub owner: Option<WorkerId>,
    /// When it was accepted. All times here are milliseconds since the Unix epoch.
    pub created: Millis,
    /// When it becomes ready.
    pub due: Option<Millis>,
    /// When a worker last claimed it.
    pub started: Option<Millis>,
    /// End of its lease.
    pub lease: Option<Millis>,
    /// When it becomes a dead letter unless it has ended.
    pub deadline: Option<Millis>,
    /// When it ended.
    pub finished: Option<Millis>,
    /// When its record may be purged.
    pub expires: Option<Millis>,
    /// Why it is a dead letter.
    pub reason: Option<DeadReason>,
    /// The latest error.
    pub error: Option<String>,
    /// The dead letter that this task retries.
    pub retry_of: Option<TaskId>,
}

impl From<&Record> for TaskInfo {
    fn from(record: &Record) -> TaskInfo {
        TaskInfo {
            id: record.id,
            queue: record.queue.clone(),
            name: record.name.clone(),
            state: record.state,
            priority: record.class,
            attempt: record.attempt,
            failures: record.failures,
            crashes: record.crashes,
            cancel_requested: record.cancel,
            owner: record.owner.clone(),
            created: record.created,
            due: record.due,
            started: record.started,
            lease: record.lease,
            deadline: record.deadline,
            finished: record.finished,
            expires: record.expires,
            reason: record.reason,
            error: record.error.clone(),
            retry_of: record.retry_of,
        }
    }
}

/// Everything about one task.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TaskDetails {
    /// The task.
    #[serde(flatten)]
    pub task: TaskInfo,
    /// Its arguments, if they are kept.
    pub args: Option<Value>,
    /// Its result.
    pub result: Option<Value>,
    /// The latest progress report of its handler.
    pub progress: Option<Value>,
    /// It becomes a dead letter after this many failures.
    pub max_attempts: u32,
    /// It becomes a dead letter after this many lost workers.
    pub max_crashes: u32,
    /// The latest attempts that did not end the task, oldest first.
    pub history: Vec<Attempt>,
}

impl From<Record> for TaskDetails {
    fn from(record: Record) -> TaskDetails {
        let value =
            |bytes: &Option<Vec<u8>>| bytes.as_ref().and_then(|bytes| serde_json::from_slice(bytes).ok());
        TaskDetails {
            task: TaskInfo::from(&record),
            args: value(&record.args),
            result: value(&record.result),
            progress: value(&record.progress),
            max_attempts: record.options.max_attempts(),
            max_crashes: record.options.max_crashes(),
            history: record.history,
        }
    }
}

/// A periodic task.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PeriodicInfo {
    /// Its name.
    pub name: String,
    /// The name of the task type.
    pub task: String,
    /// When it runs.
    pub every: crate::periodic::Every,
    /// The next run, or the next check whether the previous run has ended.
    pub next: Millis,
    /// The latest run.
    pub last: Option<TaskId>,
}

/// Reads and administers queues, tasks and workers. Made by [`Cluster::admin`].
#[derive(Debug, Clone)]
pub struct Admin {
    cluster: Cluster,
}

impl Admin {
    pub(crate) fn new(cluster: Cluster) -> Admin {
        Admin { cluster }
    }

    /// State and counters of every queue.
    ///
    /// # Errors
    /// An [`EngineError`] if the engine fails.
    pub fn queues(&self) -> Result<Vec<QueueStats>, EngineError> {
        let engine = self.cluster.engine();
        engine.queues()?.iter().map(|queue| engine.queue(queue, &Default::default())).collect()
    }

    /// Removes the cluster's queue: all its tasks in any state, its settings and its periodic
    /// tasks. Later reports of workers about these tasks are refused.
    ///
    /// # Errors
    /// An [`EngineError`] if the engine fails.
    pub fn delete_queue(&self) -> Result<(), EngineError> {
        while !self.cluster.engine().delete_queue(self.cluster.queue_name())? {}
        Ok(())
    }

    /// Bytes of storage in use, over all queues. `None`: tasks are kept in memory.
    ///
    /// # Errors
    /// An [`EngineError`] if the engine fails.
    pub fn stored_bytes(&self) -> Result<Option<u64>, EngineError> {
        self.cluster.engine().stored_bytes()
    }

    /// Lists tasks.
    ///
    /// # Errors
    /// An [`EngineError`] if the engine fails.
    pub fn tasks(&self, filter: &TaskFilter) -> Result<TaskPage, EngineError> {
        let limit = if filter.limit == 0 { 100 } else { filter.limit.min(BATCH_LIMIT) };
        let page = self.cluster.engine().browse(&Browse {
            queue: filter.queue.clone(),
            state: filter.state,
            name: filter.name.clone(),
            older_than: filter.older_than,
            after_seq: filter.after,
            limit,
        })?;
        Ok(TaskPage { tasks: page.records.iter().map(TaskInfo::from).collect(), next: page.next })
    }

    /// All details of one task. `None`: there is no record of it.
    ///
    /// # Errors
    /// An [`EngineError`] if the engine fails.
    pub fn task(&self, id: TaskId) -> Result<Option<TaskDetails>, EngineError> {
        Ok(self.cluster.engine().fetch(&[id])?.pop().flatten().map(TaskDetails::from))
    }

    /// Cancels a task.
    ///
    /// # Errors
    /// An [`EngineError`] if the engine fails.
    pub fn cancel(&self, id: TaskId) -> Result<CancelAnswer, EngineError> {
        self.cluster.core.cancel(id)
    }

    /// The workers that announced themselves within the last hour. Announcements are informational:
    /// only leases decide which worker holds a task.
    ///
    /// # Errors
    /// An [`EngineError`] if the engine fails.
    pub fn workers(&self) -> Result<Vec<WorkerRow>, EngineError> {
        self.cluster.engine().workers()
    }

    /// Asks a worker to drain. Workers check for such requests about once a second. Returns false
    /// if there is no such worker.
    ///
    /// # Errors
    /// An [`EngineError`] if the engine fails.
    pub fn drain_worker(&self, worker: &WorkerId) -> Result<bool, EngineError> {
        self.cluster.engine().order_drain(worker)
    }

    /// The periodic tasks of the queue.
    ///
    /// # Errors
    /// An [`EngineError`] if the engine fails.
    pub fn periodics(&self) -> Result<Vec<PeriodicInfo>, EngineError> {
        let rows = self.cluster.engine().periodics(self.cluster.queue_name())?;
        let info = |row: crate::engine::PeriodicRow| PeriodicInfo {
            name: row.name,
            task: row.spec.task,
            every: row.spec.every,
            next: row.next,
            last: row.last,
        };
        Ok(rows.into_iter().map(info).collect())
    }

    /// Checks the engine and the invariants of the stored data.
    ///
    /// # Errors
    /// An [`EngineError`] if the engine fails.
    pub fn doctor(&self) -> Result<Vec<Finding>, EngineError> {
        self.cluster.engine().doctor()
    }

    /// Returns the space of deleted records to the file system, and the number of bytes freed.
    /// Blocks writers meanwhile.
    ///
    /// # Errors
    /// An [`EngineError`] if the engine fails.
    pub fn compact(&self) -> Result<u64, EngineError> {
        self.cluster.engine().compact()
    }

    /// Version of the stored schema.
    ///
    /// # Errors
    /// An [`EngineError`] if the engine fails.
    pub fn schema_version(&self) -> Result<u32, EngineError> {
        self.cluster.engine().schema_version()
    }

    /// Upgrades the schema at an address to the version of this build, and returns that version.
    /// Opening a file creates the schema only if the file is empty.
    ///
    /// # Errors
    /// An [`OpenError`] if the address is invalid or the engine refuses.
    pub fn migrate(address: &str) -> Result<u32, OpenError> {
        crate::builder::migrate(address)
    }
}

/// The dead letters of a queue. Made by [`Cluster::dead`].
#[derive(Debug, Clone)]
pub struct Dead {
    cluster: Cluster,
}

impl Dead {
    pub(crate) fn new(cluster: Cluster) -> Dead {
        Dead { cluster }
    }

    /// Lists dead letters in submission order, after the position `after`; 0 starts at the
    /// beginning.
    ///
    /// # Errors
    /// An [`EngineError`] if the engine fails.
    pub fn list(&self, after: u64) -> Result<TaskPage, EngineError> {
        let queue = Some(self.cluster.queue_name().to_owned());
        let filter = TaskFilter { queue, state: Some(State::Dead), after, ..TaskFilter::default() };
        self.cluster.admin().tasks(&filter)
    }

    /// Submits a copy of a dead letter under a new id, and returns that id. The dead letter keeps
    /// its outcome. `None`: there is no dead letter with this id.
    ///
    /// # Errors
    /// An [`EngineError`] if the engine fails or the queue is closed.
    pub fn retry(&self, id: TaskId) -> Result<Option<TaskId>, EngineError> {
        let new_id = TaskId::fresh();
        let answer = self.cluster.engine().retry_dead(&[(id, new_id)])?[0];
        if answer == Some(Submitted::Closed) {
            let message = format!("dead letter {id} cannot be retried: its queue is closed");
            return Err(EngineError::new(Certainty::Permanent, message));
        }
        Ok(answer.map(|_| new_id))
    }

    /// Removes dead letters that ended at least this long ago. Returns their number.
    ///
    /// # Errors
    /// An [`EngineError`] if the engine fails.
    pub fn purge(&self, older_than: Duration) -> Result<usize, EngineError> {
        let mut all = 0;
        loop {
            let purged = self.cluster.engine().purge_dead(self.cluster.queue_name(), older_than)?;
            all += purged;
            if purged < BATCH_LIMIT {
                return Ok(all);
            }
        }
    }
}
