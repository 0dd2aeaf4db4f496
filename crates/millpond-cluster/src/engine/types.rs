//! Arguments and results of engine calls.

use std::ops::AddAssign;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::id::{SubmitterId, TaskId, WorkerId};
use crate::periodic::{Every, MissedRuns};
use crate::state::{Change, DeadReason, Millis, Options, Priority, Record, State};

/// A task to be accepted.
#[derive(Debug, Clone, PartialEq)]
pub struct NewTask {
    /// Its id, chosen by the submitter.
    pub id: TaskId,
    /// Its queue.
    pub queue: String,
    /// The name of its task type.
    pub name: String,
    /// Its priority.
    pub class: Priority,
    /// How long it waits before it is ready.
    pub delay: Duration,
    /// Time after acceptance at which it becomes a dead letter unless it has ended.
    pub deadline: Option<Duration>,
    /// How arguments and result are encoded.
    pub codec: u8,
    /// Its arguments.
    pub args: Vec<u8>,
    /// Its options.
    pub options: Options,
    /// The submitter.
    pub submitter: SubmitterId,
    /// The dead letter that it retries.
    pub retry_of: Option<TaskId>,
    /// Whether to accept it even if the queue is full: its submitter runs it at once.
    pub over_capacity: bool,
}

/// The answer to the submission of one task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Submitted {
    /// It was accepted.
    New,
    /// The id already exists; nothing changed.
    Known(State),
    /// The unique key is held by this other task; nothing changed.
    Duplicate(TaskId),
    /// The queue is full.
    Full {
        /// Tasks that are waiting.
        waiting: u64,
        /// How many tasks may wait.
        capacity: u64,
    },
    /// The queue is closed.
    Closed,
}

/// A worker's request for tasks.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// The queue to claim from.
    pub queue: String,
    /// The worker that claims.
    pub worker: WorkerId,
    /// Maximum number of tasks.
    pub max: usize,
    /// Maximum number of suspects among them.
    pub max_suspects: usize,
    /// Length of the lease.
    pub lease: Duration,
    /// If not empty: claims only these tasks, as far as they are ready.
    pub ids: Vec<TaskId>,
}

/// Identifies one claim of a task: a write that quotes an outdated one is refused. The worker is
/// passed beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fence {
    /// The task.
    pub id: TaskId,
    /// The attempt.
    pub attempt: u32,
}

/// A claimed task.
#[derive(Debug, Clone, PartialEq)]
pub struct Claimed {
    /// The fence that reports about it must quote.
    pub fence: Fence,
    /// The name of its task type.
    pub name: String,
    /// How the arguments are encoded.
    pub codec: u8,
    /// Its arguments.
    pub args: Vec<u8>,
    /// Its options.
    pub options: Options,
    /// How many earlier attempts failed.
    pub failures: u32,
    /// Whether a worker died or stalled while it held this task.
    pub is_suspect: bool,
    /// Time left until its deadline.
    pub deadline_in: Option<Duration>,
    /// Time since it was accepted.
    pub age: Duration,
}

/// The answer to one renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renewed {
    /// The lease is extended.
    Held,
    /// The lease is extended, and the task should stop.
    Cancel,
    /// The task is no longer held by this worker.
    Lost,
}

/// Reports of one worker.
#[derive(Debug)]
pub struct Settle<'a> {
    /// The worker that reports.
    pub worker: &'a WorkerId,
    /// Tasks of this submitter need no notice: the reporting process informs it.
    pub local: Option<SubmitterId>,
    /// The reports.
    pub reports: &'a [Report],
}

/// The report about one running task.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// The task and the attempt.
    pub fence: Fence,
    /// How the attempt ended.
    pub verdict: Verdict,
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// It returned this result.
    Succeeded(Vec<u8>),
    /// It failed.
    Failed {
        /// The error.
        error: String,
        /// Whether to retry.
        retry: Retry,
    },
    /// It never began, or a shutdown interrupted it: it returns to the front of the queue.
    GivenBack,
    /// This worker has no handler for its task type.
    NoHandler,
    /// It stopped because it was cancelled.
    Cancelled,
}

/// What follows a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// Another attempt after this wait, if any attempt is left.
    After(Duration),
    /// No further attempt, for this reason.
    Never(DeadReason),
}

/// The answer to a cancel request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CancelAnswer {
    /// It was waiting, and will not run.
    Cancelled,
    /// It is running, and was asked to stop.
    Requested,
    /// It had already ended.
    AlreadyDone,
    /// There is no record of this id.
    Unknown,
}

/// What a tick did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tick {
    /// Delayed tasks that became ready.
    pub promoted: usize,
    /// Leases that expired.
    pub expired: usize,
    /// Waiting tasks whose deadline passed.
    pub timed_out: usize,
    /// Records that were purged.
    pub purged: usize,
    /// Periodic tasks that were submitted.
    pub submitted: usize,
    /// Whether one of the kinds reached its limit: call again.
    pub is_full: bool,
}

/// The position of a notice reader.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cursor {
    pub(crate) at: Option<u64>,
}

/// Whether a queue accepts and hands out tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Accepts and hands out tasks.
    #[default]
    Open,
    /// Accepts tasks, but hands none out.
    Paused,
    /// Accepts no tasks, but hands out those that it has.
    Closed,
}

/// A change of a queue.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueueChange {
    /// Sets the mode.
    pub mode: Option<Mode>,
    /// Sets the capacity; `Some(None)` removes it.
    pub capacity: Option<Option<u64>>,
    /// Sets how much finished work is kept.
    pub retention: Option<Retention>,
}

/// How much finished work a queue keeps, in addition to each record's time to live. Above the
/// limit, the records that would expire soonest are purged first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Retention {
    /// At most this many records.
    pub records: u64,
    /// At most approximately this many bytes.
    pub bytes: u64,
}

impl Default for Retention {
    fn default() -> Retention {
        Retention { records: 100_000, bytes: 256 << 20 }
    }
}

/// State and counters of a queue.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct QueueStats {
    /// Its name.
    pub queue: String,
    /// Whether it accepts and hands out tasks.
    pub mode: Mode,
    /// How many tasks may wait.
    pub capacity: Option<u64>,
    /// How much finished work it keeps.
    pub retention: Retention,
    /// Tasks that wait for a worker.
    pub ready: u64,
    /// Tasks that are not due yet.
    pub delayed: u64,
    /// Tasks that workers hold.
    pub running: u64,
    /// Finished records that are kept: with a result.
    pub succeeded: u64,
    /// Finished records that are kept: dead letters.
    pub dead: u64,
    /// Finished records that are kept: cancelled.
    pub cancelled: u64,
    /// Approximate size of the finished records in bytes.
    pub finished_bytes: u64,
    /// Tasks accepted so far.
    pub submitted: u64,
    /// Claims so far.
    pub started: u64,
    /// Attempts that failed so far.
    pub failed: u64,
    /// Leases that expired so far.
    pub crashed: u64,
    /// Tasks that workers gave back so far.
    pub given_back: u64,
    /// Reports that were refused so far, because their fence was not current.
    pub fence_refused: u64,
    /// Records that were purged so far.
    pub purged: u64,
    /// Age of the oldest task that is ready now, counted from its acceptance and including its
    /// delays.
    pub oldest_ready: Option<Duration>,
    /// Tasks that this process has ended. A database keeps no such counters.
    pub ended_here: Ended,
}

impl QueueStats {
    /// Tasks that have ended so far. The kept records do not suffice, because records are purged.
    pub fn ended(&self) -> u64 {
        self.submitted.saturating_sub(self.ready + self.delayed + self.running)
    }
}

/// Tasks that one process has ended since it opened the engine, by outcome. Each task is counted by
/// exactly one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct Ended {
    /// With a result.
    pub succeeded: u64,
    /// As dead letters.
    pub dead: u64,
    /// By a cancel.
    pub cancelled: u64,
}

impl Ended {
    pub(crate) fn count(&mut self, change: Change) {
        match change.to {
            _ if change.from.is_end() => {}
            State::Succeeded => self.succeeded += 1,
            State::Dead => self.dead += 1,
            State::Cancelled => self.cancelled += 1,
            State::Ready | State::Delayed | State::Running => {}
        }
    }
}

impl AddAssign for Ended {
    fn add_assign(&mut self, other: Ended) {
        self.succeeded += other.succeeded;
        self.dead += other.dead;
        self.cancelled += other.cancelled;
    }
}

/// Which records to list.
#[derive(Debug, Clone, Default)]
pub struct Browse {
    /// Lists only this queue.
    pub queue: Option<String>,
    /// Lists only tasks in this state.
    pub state: Option<State>,
    /// Lists only this task type.
    pub name: Option<String>,
    /// Lists only tasks that were accepted at least this long ago.
    pub older_than: Option<Duration>,
    /// Starts after this position; 0 starts at the beginning.
    pub after_seq: u64,
    /// At most this many, and never more than [`BATCH_LIMIT`](super::BATCH_LIMIT).
    pub limit: usize,
}

/// One page of records.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// The records, in submission order.
    pub records: Vec<Record>,
    /// The position after which the next page begins; `None`: this is the last page.
    pub next: Option<u64>,
}

/// A worker, as it announced itself.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WorkerRow {
    /// Its identity.
    pub worker: WorkerId,
    /// The queue that it serves.
    pub queue: String,
    /// When it started.
    pub started: Millis,
    /// When it last announced itself.
    pub seen: Millis,
    /// Threads of its pool.
    pub threads: u64,
    /// Tasks that it holds.
    pub held: u64,
    /// Tasks that it has finished.
    pub finished: u64,
    /// Whether it was asked to drain.
    pub draining: bool,
}

/// Requests to a worker.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Orders {
    /// To drain.
    pub drain: bool,
    /// To stop these tasks.
    pub cancel: Vec<Fence>,
}

/// What a periodic task submits, and when.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PeriodicSpec {
    /// The schedule.
    pub every: Every,
    /// What happens to runs that were missed.
    pub missed: MissedRuns,
    /// The name of the task type.
    pub task: String,
    /// The arguments.
    pub args: Vec<u8>,
    /// The priority.
    pub class: Priority,
    /// The options.
    pub options: Options,
}

/// A periodic task as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct PeriodicRow {
    /// Its name.
    pub name: String,
    /// Schedule and task.
    pub spec: PeriodicSpec,
    /// The next run, or the next check whether the previous run has ended.
    pub next: Millis,
    /// The latest run.
    pub last: Option<TaskId>,
}

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// No problem.
    Ok,
    /// A possible problem.
    Warning,
    /// An error.
    Error,
}

/// One result of a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was checked.
    pub check: String,
    /// How bad it is.
    pub severity: Severity,
    /// What was found.
    pub detail: String,
}
