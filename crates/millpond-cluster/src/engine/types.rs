//! What goes into an engine and what comes out.

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
    /// Wait before it is ready.
    pub delay: Duration,
    /// Time from acceptance until it is dead if it has not ended.
    pub deadline: Option<Duration>,
    /// How arguments and result are encoded.
    pub codec: u8,
    /// Its arguments.
    pub args: Vec<u8>,
    /// Its options.
    pub options: Options,
    /// The submitter.
    pub submitter: SubmitterId,
    /// The dead task that it repeats.
    pub retry_of: Option<TaskId>,
    /// Accept it even if the queue is full: its submitter runs it at once.
    pub over_capacity: bool,
}

/// What became of one task of a submit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Submitted {
    /// Accepted now.
    New,
    /// The id was there already; nothing changed.
    Known(State),
    /// The unique key belongs to this other task; nothing changed.
    Duplicate(TaskId),
    /// The queue is full.
    Full {
        /// Tasks that wait.
        waiting: u64,
        /// How many may.
        capacity: u64,
    },
    /// The queue is closed.
    Closed,
}

/// A worker's wish for tasks.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// From this queue.
    pub queue: String,
    /// The worker that asks.
    pub worker: WorkerId,
    /// How many at most.
    pub max: usize,
    /// Of these, how many suspects at most.
    pub max_suspects: usize,
    /// For how long without renewal.
    pub lease: Duration,
    /// If not empty: exactly these, as far as they are ready.
    pub ids: Vec<TaskId>,
}

/// Quotes the right to speak about a running task; the worker is named beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fence {
    /// The task.
    pub id: TaskId,
    /// The attempt.
    pub attempt: u32,
}

/// A task that was handed out.
#[derive(Debug, Clone, PartialEq)]
pub struct Claimed {
    /// What reports about it must quote.
    pub fence: Fence,
    /// The name of its task type.
    pub name: String,
    /// How the arguments are encoded.
    pub codec: u8,
    /// Its arguments.
    pub args: Vec<u8>,
    /// Its options.
    pub options: Options,
    /// Attempts that failed before.
    pub failures: u32,
    /// True: a worker was lost while it held this task.
    pub is_suspect: bool,
    /// Time left until its deadline.
    pub deadline_in: Option<Duration>,
    /// Time since it was accepted.
    pub age: Duration,
}

/// Answer to one renewal.
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
    /// Tasks of this submitter need no notice: the reporter tells it itself.
    pub local: Option<SubmitterId>,
    /// The reports.
    pub reports: &'a [Report],
}

/// What became of one running task.
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
    /// With a result.
    Succeeded(Vec<u8>),
    /// With an error.
    Failed {
        /// What went wrong.
        error: String,
        /// What follows.
        retry: Retry,
    },
    /// It never began, or was cut short by a shutdown: back to the front of the queue.
    GivenBack,
    /// This worker has no handler of that name.
    NoHandler,
    /// It stopped because it was cancelled.
    Cancelled,
}

/// What follows a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// Another attempt after this wait, if there is one left.
    After(Duration),
    /// None, for this reason.
    Never(DeadReason),
}

/// Answer to a cancel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CancelAnswer {
    /// It waited, and will not run.
    Cancelled,
    /// It runs, and is asked to stop.
    Requested,
    /// It had ended already.
    AlreadyDone,
    /// There is no record of that id.
    Unknown,
}

/// What a tick did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tick {
    /// Delayed tasks that became ready.
    pub promoted: usize,
    /// Leases that ran out.
    pub expired: usize,
    /// Waiting tasks whose deadline passed.
    pub timed_out: usize,
    /// Records that were purged.
    pub purged: usize,
    /// Periodic tasks that were submitted.
    pub submitted: usize,
    /// One of the kinds reached its limit: call again.
    pub is_full: bool,
}

/// Where a reader of notices stands.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cursor {
    pub(crate) at: Option<u64>,
}

/// Whether a queue accepts and hands out tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Both.
    #[default]
    Open,
    /// Accepts, but hands nothing out.
    Paused,
    /// Accepts nothing more, hands out what is there.
    Closed,
}

/// A change of a queue.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueueChange {
    /// Sets the mode.
    pub mode: Option<Mode>,
    /// Sets the capacity; `Some(None)` removes it.
    pub capacity: Option<Option<u64>>,
    /// Sets what is kept of finished work.
    pub retention: Option<Retention>,
}

/// How much finished work a queue keeps, beside its time to live. Over the limit, records that
/// would expire soonest go first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Retention {
    /// At most this many records.
    pub records: u64,
    /// At most about this many bytes.
    pub bytes: u64,
}

impl Default for Retention {
    fn default() -> Retention {
        Retention { records: 100_000, bytes: 256 << 20 }
    }
}

/// What a queue holds and has done.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct QueueStats {
    /// Its name.
    pub queue: String,
    /// Whether it accepts and hands out.
    pub mode: Mode,
    /// How many tasks may wait.
    pub capacity: Option<u64>,
    /// How much finished work it keeps.
    pub retention: Retention,
    /// Tasks that wait for a worker.
    pub ready: u64,
    /// Tasks that wait for their time.
    pub delayed: u64,
    /// Tasks that workers hold.
    pub running: u64,
    /// Finished records that are kept: with a result.
    pub succeeded: u64,
    /// Finished records that are kept: dead letters.
    pub dead: u64,
    /// Finished records that are kept: cancelled.
    pub cancelled: u64,
    /// Bytes of finished records, about.
    pub finished_bytes: u64,
    /// Tasks accepted so far.
    pub submitted: u64,
    /// Claims so far.
    pub started: u64,
    /// Attempts that failed so far.
    pub failed: u64,
    /// Leases that ran out so far.
    pub crashed: u64,
    /// Tasks that workers gave back so far.
    pub given_back: u64,
    /// Reports that were refused so far, because their fence was not current.
    pub fence_refused: u64,
    /// Records that were purged so far.
    pub purged: u64,
    /// Time since the oldest task that is ready now was accepted, its delays included.
    pub oldest_ready: Option<Duration>,
    /// What this process has ended. A database keeps no such counters.
    pub ended_here: Ended,
}

impl QueueStats {
    /// Tasks that have ended so far. Kept records do not tell, because they are purged.
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

/// What to list.
#[derive(Debug, Clone, Default)]
pub struct Browse {
    /// Of this queue only.
    pub queue: Option<String>,
    /// In this state only.
    pub state: Option<State>,
    /// Of this task type only.
    pub name: Option<String>,
    /// Accepted before this long ago only.
    pub older_than: Option<Duration>,
    /// Behind this place; 0 begins.
    pub after_seq: u64,
    /// At most this many, and never more than [`BATCH_LIMIT`](super::BATCH_LIMIT).
    pub limit: usize,
}

/// One page of records.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// The records, in submission order.
    pub records: Vec<Record>,
    /// The place to go on behind; `None`: that was all.
    pub next: Option<u64>,
}

/// A worker as it announced itself.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WorkerRow {
    /// Its identity.
    pub worker: WorkerId,
    /// The queue that it serves.
    pub queue: String,
    /// When it started.
    pub started: Millis,
    /// When it announced itself last.
    pub seen: Millis,
    /// Threads of its pool.
    pub threads: u64,
    /// Tasks that it holds.
    pub held: u64,
    /// Tasks that it has finished.
    pub finished: u64,
    /// It was asked to drain.
    pub draining: bool,
}

/// What was asked of a worker.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Orders {
    /// To drain.
    pub drain: bool,
    /// To stop these tasks.
    pub cancel: Vec<Fence>,
}

/// When and what to submit again and again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PeriodicSpec {
    /// When.
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
    /// When and what.
    pub spec: PeriodicSpec,
    /// The next run, or the next look at a run that has not ended.
    pub next: Millis,
    /// The latest run.
    pub last: Option<TaskId>,
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// As it should be.
    Ok,
    /// Worth a look.
    Warning,
    /// Wrong.
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
