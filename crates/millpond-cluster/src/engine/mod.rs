//! The contract between the cluster layer and a store of tasks.
//!
//! An engine keeps records, judges time by its own clock and makes each operation atomic.
//! Everything is synchronous, object-safe and batched: one call is one round trip. Rules for every
//! engine:
//!
//! 1. Every operation touches at most [`BATCH_LIMIT`] records, and a record that it skips never
//!    hides the ones behind it.
//! 2. Every write about a running task is fenced by `(attempt, owner)`, maintenance by the state
//!    and the lease.
//! 3. `submit` and `settle` are durable when they return; `claim` and `renew` may be committed
//!    lazily.
//! 4. `wait_work` and `wait_notices` are hints: losing every one of them costs latency, never a
//!    task.

mod clock;
mod memory;
#[cfg(feature = "sqlite")]
mod sqlite;
mod types;

use std::fmt;
use std::time::Duration;

pub use clock::{EngineClock, ManualEngineClock};
pub use memory::MemoryEngine;
#[cfg(feature = "sqlite")]
pub use sqlite::{Durability, SqliteEngine};
pub use types::{
    Browse, CancelAnswer, Claim, Claimed, Cursor, Ended, Fence, Finding, Mode, NewTask, Orders, Page,
    PeriodicRow, PeriodicSpec, QueueChange, QueueStats, Renewed, Report, Retention, Retry, Settle, Severity,
    Submitted, Tick, Verdict, WorkerRow,
};

use crate::error::EngineError;
use crate::id::{TaskId, WorkerId};
use crate::state::Record;

/// The most records that one call of an engine touches.
pub const BATCH_LIMIT: usize = 500;
/// The most bytes of one task's arguments, and of its result.
pub const PAYLOAD_LIMIT: usize = 256 * 1024;

/// Refuses a batch over the limit.
pub(crate) fn check_batch(len: usize) -> EngineResult<()> {
    if len <= BATCH_LIMIT {
        return Ok(());
    }
    let message = format!("a batch of {len} is over the limit of {BATCH_LIMIT}");
    Err(EngineError::new(crate::error::Certainty::Permanent, message))
}

/// What an engine call returns.
pub type EngineResult<T> = Result<T, EngineError>;

/// A store of tasks. See the [module](self) for the rules.
pub trait Engine: Send + Sync + fmt::Debug {
    /// Accepts new tasks, at most [`BATCH_LIMIT`]. A known id is answered and changes nothing.
    fn submit(&self, batch: &[NewTask]) -> EngineResult<Vec<Submitted>>;

    /// Hands out ready tasks. Tasks that are due count as ready.
    fn claim(&self, ask: &Claim) -> EngineResult<Vec<Claimed>>;

    /// Submits, and then claims for a worker of this process. An engine that does both in one step
    /// need not wake other workers for tasks that are handed out already. A claim that fails hands
    /// out nothing.
    fn submit_and_claim(
        &self,
        batch: &[NewTask],
        ask: &Claim,
    ) -> EngineResult<(Vec<Submitted>, Vec<Claimed>)> {
        let answers = self.submit(batch)?;
        Ok((answers, self.claim(ask).unwrap_or_default()))
    }

    /// Extends leases. Answers in the order of `held`.
    fn renew(
        &self,
        worker: &WorkerId,
        lease: Duration,
        held: &[(Fence, Option<Vec<u8>>)],
    ) -> EngineResult<Vec<Renewed>>;

    /// Takes reports about running tasks. False: the report was refused, because its fence is not
    /// current.
    fn settle(&self, settle: &Settle<'_>) -> EngineResult<Vec<bool>>;

    /// Cancels tasks that wait, and asks those that run to stop.
    fn cancel(&self, ids: &[TaskId]) -> EngineResult<Vec<CancelAnswer>>;

    /// Reads records.
    fn fetch(&self, ids: &[TaskId]) -> EngineResult<Vec<Option<Record>>>;

    /// Does what time demands: promotes, expires leases and deadlines, submits periodic tasks,
    /// purges. Each kind touches at most `limit` records; any worker may call it at any time.
    fn tick(&self, queue: &str, limit: usize) -> EngineResult<Tick>;

    /// Waits until the queue may have a task to hand out, or for `timeout`. Suspects count only if
    /// `suspects` is true: a worker that holds one may not take another.
    fn wait_work(&self, queue: &str, suspects: bool, timeout: Duration) -> EngineResult<()>;

    /// Waits until tasks may have ended, or for `timeout`, and returns their ids.
    fn wait_notices(&self, cursor: &mut Cursor, timeout: Duration) -> EngineResult<Vec<TaskId>>;

    /// Ends all waits of this process, so that a cluster can be closed without waiting for a
    /// timeout.
    fn wake(&self);

    /// Changes a queue, and returns what it then holds.
    fn queue(&self, queue: &str, change: &QueueChange) -> EngineResult<QueueStats>;

    /// The names of all queues.
    fn queues(&self) -> EngineResult<Vec<String>>;

    /// Lists records, in submission order.
    fn browse(&self, ask: &Browse) -> EngineResult<Page>;

    /// Repeats dead letters, each under the id beside it. Capacity and unique keys do not matter.
    /// `None`: there is no dead letter of that id.
    fn retry_dead(&self, letters: &[(TaskId, TaskId)]) -> EngineResult<Vec<Option<Submitted>>>;

    /// Removes up to [`BATCH_LIMIT`] dead letters of a queue that ended before `older_than` ago.
    /// Returns how many.
    fn purge_dead(&self, queue: &str, older_than: Duration) -> EngineResult<usize>;

    /// Removes up to [`BATCH_LIMIT`] tasks of a queue, in whatever state they are. If none is left,
    /// removes the queue with its settings and periodic tasks. True: the queue is gone.
    fn delete_queue(&self, queue: &str) -> EngineResult<bool>;

    /// Announces that a worker is alive. It is information only: leases decide, not this.
    fn beat(&self, row: &WorkerRow) -> EngineResult<()>;

    /// What was asked of a worker since it looked last.
    fn orders(&self, worker: &WorkerId) -> EngineResult<Orders>;

    /// Asks a worker to drain. False: no such worker.
    fn order_drain(&self, worker: &WorkerId) -> EngineResult<bool>;

    /// Forgets a worker that has ended.
    fn remove_worker(&self, worker: &WorkerId) -> EngineResult<()>;

    /// All workers that announced themselves in the last hour.
    fn workers(&self) -> EngineResult<Vec<WorkerRow>>;

    /// Sets or removes a periodic task. The same schedule again changes nothing.
    fn set_periodic(&self, queue: &str, name: &str, spec: Option<&PeriodicSpec>) -> EngineResult<bool>;

    /// The periodic tasks of a queue.
    fn periodics(&self, queue: &str) -> EngineResult<Vec<PeriodicRow>>;

    /// Checks the engine and the invariants of what it stores.
    fn doctor(&self) -> EngineResult<Vec<Finding>>;

    /// Gives back the space of what was deleted. Returns how many bytes were freed.
    fn compact(&self) -> EngineResult<u64>;

    /// Bytes of the storage that are in use. `None`: there is no storage but memory.
    fn stored_bytes(&self) -> EngineResult<Option<u64>> {
        Ok(None)
    }

    /// True: a call takes microseconds, so gathering the calls of several threads costs more than
    /// it saves.
    fn is_local(&self) -> bool {
        false
    }

    /// Version of the stored schema.
    fn schema_version(&self) -> EngineResult<u32>;
}
