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
    /// Of this queue only; `None`: of all.
    pub queue: Option<String>,
    /// In this state only.
    pub state: Option<State>,
    /// Of this task type only.
    pub name: Option<String>,
    /// Accepted at least this long ago only.
    pub older_than: Option<Duration>,
    /// Go on behind this place, which [`TaskPage::next`] names; 0 begins.
    pub after: u64,
    /// How many at most; never more than 500. 0 means 100.
    pub limit: usize,
}

/// One page of tasks.
#[derive(Debug, Clone, Serialize)]
pub struct TaskPage {
    /// The tasks, in submission order.
    pub tasks: Vec<TaskInfo>,
    /// Where to go on; `None`: that was all.
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
    /// Where it is in its life.
    pub state: State,
    /// Its priority.
    pub priority: Priority,
    /// Number of the latest claim.
    pub attempt: u32,
    /// Attempts that failed.
    pub failures: u32,
    /// Workers that were lost with it.
    pub crashes: u32,
    /// A cancel was asked for while it ran.
    pub cancel_requested: bool,
    /// The worker of the latest claim.
    pub owner: Option<WorkerId>,
    /// When it was accepted, in milliseconds since the Unix epoch, as all times here.
    pub created: Millis,
    /// When it becomes ready.
    pub due: Option<Millis>,
    /// When it was claimed last.
    pub started: Option<Millis>,
    /// End of its lease.
    pub lease: Option<Millis>,
    /// When it is dead if it has not ended.
    pub deadline: Option<Millis>,
    /// When it ended.
    pub finished: Option<Millis>,
    /// When its record may be purged.
    pub expires: Option<Millis>,
    /// Why it is dead.
    pub reason: Option<DeadReason>,
    /// The latest error.
    pub error: Option<String>,
    /// The dead task that this one repeats.
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
    /// What its handler reported last.
    pub progress: Option<Value>,
    /// Failures that make it a dead letter.
    pub max_attempts: u32,
    /// Lost workers that make it a dead letter.
    pub max_crashes: u32,
    /// The latest attempts that did not end it, oldest first.
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
    /// The next run, or the next look at a run that has not ended.
    pub next: Millis,
    /// The latest run.
    pub last: Option<TaskId>,
}

/// What an administrator can see and do. Made by [`Cluster::admin`].
#[derive(Debug, Clone)]
pub struct Admin {
    cluster: Cluster,
}

impl Admin {
    pub(crate) fn new(cluster: Cluster) -> Admin {
        Admin { cluster }
    }

    /// What every queue holds and has done.
    ///
    /// # Errors
    /// An [`EngineError`] if the engine fails.
    pub fn queues(&self) -> Result<Vec<QueueStats>, EngineError> {
        let engine = self.cluster.engine();
        engine.queues()?.iter().map(|queue| engine.queue(queue, &Default::default())).collect()
    }

    /// Removes the queue of the cluster: all its tasks, in whatever state they are, its settings
    /// and its periodic tasks. What a worker then reports about such a task is refused.
    ///
    /// # Errors
    /// An [`EngineError`] if the engine fails.
    pub fn delete_queue(&self) -> Result<(), EngineError> {
        while !self.cluster.engine().delete_queue(self.cluster.queue_name())? {}
        Ok(())
    }

    /// Bytes of the storage that are in use, by all queues. `None`: tasks are kept in memory.
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

    /// Everything about one task. `None`: there is no record of it.
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

    /// The workers that announced themselves in the last hour. Announcements are information only.
    ///
    /// # Errors
    /// An [`EngineError`] if the engine fails.
    pub fn workers(&self) -> Result<Vec<WorkerRow>, EngineError> {
        self.cluster.engine().workers()
    }

    /// Asks a worker to drain; it looks about once a second. False: no such worker.
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

    /// Checks the engine and the invariants of what it stores.
    ///
    /// # Errors
    /// An [`EngineError`] if the engine fails.
    pub fn doctor(&self) -> Result<Vec<Finding>, EngineError> {
        self.cluster.engine().doctor()
    }

    /// Gives the space of deleted records back to the file system. Returns how many bytes. Writers
    /// wait meanwhile.
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

    /// Brings the schema at an address to the version of this build, and returns that version.
    /// Opening a file does this only if it is empty.
    ///
    /// # Errors
    /// An [`OpenError`] if the address is not understood or the engine refuses.
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

    /// Lists dead letters, in submission order, behind the place `after`; 0 begins.
    ///
    /// # Errors
    /// An [`EngineError`] if the engine fails.
    pub fn list(&self, after: u64) -> Result<TaskPage, EngineError> {
        let queue = Some(self.cluster.queue_name().to_owned());
        let filter = TaskFilter { queue, state: Some(State::Dead), after, ..TaskFilter::default() };
        self.cluster.admin().tasks(&filter)
    }

    /// Submits a dead letter again, under a new id, which is returned. The dead letter keeps its
    /// outcome. `None`: there is no dead letter of that id.
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

    /// Removes dead letters that ended at least that long ago. Returns how many.
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
