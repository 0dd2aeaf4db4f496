//! The contract between the cluster layer and a store of tasks.
//!
//! An engine keeps records, takes the time from its own clock and makes each operation atomic. All
//! calls are synchronous, object-safe and batched: one call is one round trip. Rules for every
//! engine:
//!
//! 1. Every operation touches at most [`BATCH_LIMIT`] records. A record that it skips never hides
//!    later ones.
//! 2. Every write about a running task is fenced by `(attempt, owner)`; maintenance checks the
//!    state and the lease.
//! 3. `submit` and `settle` are durable when they return; `claim` and `renew` may be committed
//!    lazily.
//! 4. `wait_work` and `wait_notices` are hints: losing all of them costs latency, but no task.

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

/// Maximum number of records that one engine call touches.
pub const BATCH_LIMIT: usize = 500;
/// Maximum size of one task's arguments, and of its result, in bytes.
pub const PAYLOAD_LIMIT: usize = 256 * 1024;

/// Returns an error for a batch over the limit.
pub(crate) fn check_batch(len: usize) -> EngineResult<()> {
    if len <= BATCH_LIMIT {
        return Ok(());
    }
    let message = format!("a batch of {len} is over the limit of {BATCH_LIMIT}");
    Err(EngineError::new(crate::error::Certainty::Permanent, message))
}

/// The result of an engine call.
pub type EngineResult<T> = Result<T, EngineError>;

/// A store of tasks. See the [module](self) for the rules.
pub trait Engine: Send + Sync + fmt::Debug {
    /// Accepts new tasks, at most [`BATCH_LIMIT`]. For a known id it reports the state and changes
    /// nothing.
    fn submit(&self, batch: &[NewTask]) -> EngineResult<Vec<Submitted>>;

    /// Claims ready tasks for a worker. Tasks that are due count as ready.
    fn claim(&self, ask: &Claim) -> EngineResult<Vec<Claimed>>;

    /// Submits, then claims for a worker of this process. An engine that does both in one step need
    /// not wake other workers for tasks that are already claimed. If the claim fails, no task is
    /// claimed.
    fn submit_and_claim(
        &self,
        batch: &[NewTask],
        ask: &Claim,
    ) -> EngineResult<(Vec<Submitted>, Vec<Claimed>)> {
        let answers = self.submit(batch)?;
        Ok((answers, self.claim(ask).unwrap_or_default()))
    }

    /// Extends leases. The answers are in the order of `held`.
    fn renew(
        &self,
        worker: &WorkerId,
        lease: Duration,
        held: &[(Fence, Option<Vec<u8>>)],
    ) -> EngineResult<Vec<Renewed>>;

    /// Applies reports about running tasks. False: the report was refused, because its fence is not
    /// current.
    fn settle(&self, settle: &Settle<'_>) -> EngineResult<Vec<bool>>;

    /// Cancels waiting tasks, and asks running ones to stop.
    fn cancel(&self, ids: &[TaskId]) -> EngineResult<Vec<CancelAnswer>>;

    /// Reads records.
    fn fetch(&self, ids: &[TaskId]) -> EngineResult<Vec<Option<Record>>>;

    /// Does what is due: promotes delayed tasks, expires leases and deadlines, submits periodic
    /// tasks, purges records. Each kind touches at most `limit` records. Any worker may call it at
    /// any time.
    fn tick(&self, queue: &str, limit: usize) -> EngineResult<Tick>;

    /// Waits until the queue may have a claimable task, or until `timeout`. Suspects count only if
    /// `suspects` is true: a worker that holds one may not take another.
    fn wait_work(&self, queue: &str, suspects: bool, timeout: Duration) -> EngineResult<()>;

    /// Waits until tasks may have ended, or until `timeout`, and returns their ids.
    fn wait_notices(&self, cursor: &mut Cursor, timeout: Duration) -> EngineResult<Vec<TaskId>>;

    /// Ends all waits of this process, so that closing a cluster need not wait for a timeout.
    fn wake(&self);

    /// Changes a queue, and returns its statistics afterwards.
    fn queue(&self, queue: &str, change: &QueueChange) -> EngineResult<QueueStats>;

    /// The names of all queues.
    fn queues(&self) -> EngineResult<Vec<String>>;

    /// Lists records, in submission order.
    fn browse(&self, ask: &Browse) -> EngineResult<Page>;

    /// Retries dead letters: each pair is a dead letter and the id of its copy. Capacity and unique
    /// keys do not apply. `None`: there is no dead letter with this id.
    fn retry_dead(&self, letters: &[(TaskId, TaskId)]) -> EngineResult<Vec<Option<Submitted>>>;

    /// Removes up to [`BATCH_LIMIT`] dead letters of a queue that ended at least `older_than` ago.
    /// Returns their number.
    fn purge_dead(&self, queue: &str, older_than: Duration) -> EngineResult<usize>;

    /// Removes up to [`BATCH_LIMIT`] tasks of a queue in any state. If none is left, removes the
    /// queue with its settings and periodic tasks. Returns true if the queue is gone.
    fn delete_queue(&self, queue: &str) -> EngineResult<bool>;

    /// Announces that a worker is alive. This is informational: only leases decide who holds a
    /// task.
    fn beat(&self, row: &WorkerRow) -> EngineResult<()>;

    /// Returns the requests to a worker that arrived since its last call.
    fn orders(&self, worker: &WorkerId) -> EngineResult<Orders>;

    /// Asks a worker to drain. Returns false if there is no such worker.
    fn order_drain(&self, worker: &WorkerId) -> EngineResult<bool>;

    /// Removes a worker that has ended.
    fn remove_worker(&self, worker: &WorkerId) -> EngineResult<()>;

    /// All workers that announced themselves within the last hour.
    fn workers(&self) -> EngineResult<Vec<WorkerRow>>;

    /// Sets or removes a periodic task. Setting the same schedule again changes nothing.
    fn set_periodic(&self, queue: &str, name: &str, spec: Option<&PeriodicSpec>) -> EngineResult<bool>;

    /// The periodic tasks of a queue.
    fn periodics(&self, queue: &str) -> EngineResult<Vec<PeriodicRow>>;

    /// Checks the engine and the invariants of the stored data.
    fn doctor(&self) -> EngineResult<Vec<Finding>>;

    /// Frees the space of deleted records. Returns the number of bytes freed.
    fn compact(&self) -> EngineResult<u64>;

    /// Bytes of storage in use. `None`: tasks are kept in memory.
    fn stored_bytes(&self) -> EngineResult<Option<u64>> {
        Ok(None)
    }

    /// Whether a call takes only microseconds. Combining the calls of several threads then costs
    /// more than it saves.
    fn is_local(&self) -> bool {
        false
    }

    /// Version of the stored schema.
    fn schema_version(&self) -> EngineResult<u32>;
}
