//! Everything that an engine stores about one task.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{MAX_ATTEMPTS, MAX_CRASHES, Millis, RESULT_TTL_MS};
use crate::id::{SubmitterId, TaskId, WorkerId};
use crate::retry::Backoff;

/// The state of a task. The last three are final.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Waits for a worker.
    Ready,
    /// Not due yet: it was submitted with a delay, or backs off after a failure.
    Delayed,
    /// A worker holds it under a lease.
    Running,
    /// Ended with a result.
    Succeeded,
    /// Ended as a dead letter.
    Dead,
    /// Ended by a cancel.
    Cancelled,
}

impl State {
    /// All states.
    pub const ALL: [State; 6] =
        [State::Ready, State::Delayed, State::Running, State::Succeeded, State::Dead, State::Cancelled];

    /// Returns true if the state is final.
    pub fn is_end(self) -> bool {
        matches!(self, State::Succeeded | State::Dead | State::Cancelled)
    }

    /// The name that the administration displays and accepts.
    pub fn name(self) -> &'static str {
        match self {
            State::Ready => "ready",
            State::Delayed => "delayed",
            State::Running => "running",
            State::Succeeded => "succeeded",
            State::Dead => "dead",
            State::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl std::str::FromStr for State {
    type Err = String;

    fn from_str(text: &str) -> Result<State, String> {
        State::ALL.into_iter().find(|state| state.name() == text).ok_or_else(|| {
            format!("'{text}' is not a state: use ready, delayed, running, succeeded, dead or cancelled")
        })
    }
}

/// Why a task became a dead letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DeadReason {
    /// Its attempts are used up.
    Attempts,
    /// Its handler said that another attempt is pointless.
    Permanent,
    /// Too many workers died or stalled while they held it.
    Crashed,
    /// Its deadline passed.
    Deadline,
    /// No worker had a handler for its name for an hour.
    NoHandler,
    /// Its arguments do not decode into the type that the handler takes.
    Decode,
}

impl fmt::Display for DeadReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            DeadReason::Attempts => "attempts used up",
            DeadReason::Permanent => "permanent failure",
            DeadReason::Crashed => "too many lost workers",
            DeadReason::Deadline => "deadline passed",
            DeadReason::NoHandler => "no handler",
            DeadReason::Decode => "arguments do not decode",
        })
    }
}

/// Which tasks of a queue start first. Within a class, tasks start roughly in FIFO order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    /// Starts before all others.
    High,
    /// The default.
    #[default]
    Normal,
    /// Starts when nothing else is ready.
    Low,
}

impl Priority {
    /// All priorities, highest first.
    pub const ALL: [Priority; 3] = [Priority::High, Priority::Normal, Priority::Low];
}

/// How long a unique key is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unique {
    /// Until the task has ended.
    UntilDone,
    /// Until a worker has claimed the task.
    UntilStarted,
    /// For this long, whatever happens to the task.
    For(Duration),
}

/// A unique key and how long it is held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UniqueKey {
    /// The key, unique within its queue.
    pub key: String,
    /// How long it is held.
    pub until: Unique,
}

/// Options that only the transitions and the worker of a task use. Defaults take no space.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Options {
    /// Failures that make it a dead letter; `None`: [`MAX_ATTEMPTS`].
    #[serde(rename = "a", default, skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// Lost workers that make it a dead letter; `None`: [`MAX_CRASHES`].
    #[serde(rename = "c", default, skip_serializing_if = "Option::is_none")]
    pub max_crashes: Option<u32>,
    /// Wait between attempts.
    #[serde(rename = "b", default, skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Backoff>,
    /// Timeout of one attempt, in milliseconds.
    #[serde(rename = "t", default, skip_serializing_if = "Option::is_none")]
    pub attempt_timeout_ms: Option<u64>,
    /// How long the result is kept, in milliseconds; `None`: [`RESULT_TTL_MS`].
    #[serde(rename = "k", default, skip_serializing_if = "Option::is_none")]
    pub keep_result_ms: Option<u64>,
    /// The unique key that it holds.
    #[serde(rename = "u", default, skip_serializing_if = "Option::is_none")]
    pub unique: Option<UniqueKey>,
}

impl Options {
    /// Returns true if every option has its default.
    pub fn is_default(&self) -> bool {
        *self == Options::default()
    }

    pub(crate) fn max_attempts(&self) -> u32 {
        self.max_attempts.unwrap_or(MAX_ATTEMPTS)
    }

    pub(crate) fn max_crashes(&self) -> u32 {
        self.max_crashes.unwrap_or(MAX_CRASHES)
    }

    pub(crate) fn keep_result_ms(&self) -> i64 {
        self.keep_result_ms.and_then(|ms| i64::try_from(ms).ok()).unwrap_or(RESULT_TTL_MS)
    }
}

/// How one attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AttemptEnd {
    /// The handler returned an error or panicked.
    Failed,
    /// The worker died, stalled or lost its connection: its lease expired.
    LeaseExpired,
    /// The worker gave the task back.
    GivenBack,
    /// The worker had no handler for it.
    NoHandler,
}

/// One attempt that did not end the task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// Its number.
    pub attempt: u32,
    /// The worker that held the task.
    pub owner: WorkerId,
    /// When the worker claimed it.
    pub started: Millis,
    /// When it ended.
    pub ended: Millis,
    /// How it ended.
    pub end: AttemptEnd,
    /// The beginning of the error text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Everything that an engine stores about a task.
///
/// Invariants
/// 1. `attempt` never falls. It is the fence, so it cannot be the retry budget; `failures` and
///    `crashes` are.
/// 2. `lease` is set exactly while the state is `Running`. `owner` is set then too, and a final
///    state keeps it for the history.
/// 3. `due` is set exactly while the state is `Delayed`; `expires` and `finished` exactly in a
///    final state.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// Its id.
    pub id: TaskId,
    /// Its position in submission order; unique in the engine.
    pub seq: u64,
    /// Its queue.
    pub queue: String,
    /// The name of its task type.
    pub name: String,
    /// Its priority.
    pub class: Priority,
    /// Its state.
    pub state: State,
    /// Number of the latest claim; 0 before the first.
    pub attempt: u32,
    /// The worker of the latest claim, while the task runs or if it ended there.
    pub owner: Option<WorkerId>,
    /// End of the lease.
    pub lease: Option<Millis>,
    /// When it becomes ready.
    pub due: Option<Millis>,
    /// When it becomes a dead letter unless it has ended.
    pub deadline: Option<Millis>,
    /// When its record may be purged.
    pub expires: Option<Millis>,
    /// Attempts that failed.
    pub failures: u32,
    /// Leases that expired.
    pub crashes: u32,
    /// Whether it was cancelled while it was running.
    pub cancel: bool,
    /// How arguments and result are encoded: 0 is JSON.
    pub codec: u8,
    /// Its arguments; removed once it has succeeded or is cancelled.
    pub args: Option<Vec<u8>>,
    /// Its options.
    pub options: Options,
    /// Its result.
    pub result: Option<Vec<u8>>,
    /// The latest error.
    pub error: Option<String>,
    /// Why it is a dead letter.
    pub reason: Option<DeadReason>,
    /// The connection that submitted it.
    pub submitter: SubmitterId,
    /// The dead letter that this task retries.
    pub retry_of: Option<TaskId>,
    /// When it was accepted.
    pub created: Millis,
    /// When a worker last claimed it.
    pub started: Option<Millis>,
    /// When it ended.
    pub finished: Option<Millis>,
    /// Since when workers had no handler for it.
    pub unhandled_since: Option<Millis>,
    /// The latest progress report of its handler.
    pub progress: Option<Vec<u8>>,
    /// The latest attempts that did not end the task.
    pub history: Vec<Attempt>,
}

impl Record {
    /// Returns true for a suspect: a worker died or stalled while it held this task. A worker holds
    /// at most one suspect, so that a task that kills its workers does not count as a crash of
    /// another suspect.
    pub fn is_suspect(&self) -> bool {
        self.crashes > 0
    }

    /// The size that a finished record counts with, in bytes.
    pub fn bytes(&self) -> u64 {
        let len = |bytes: &Option<Vec<u8>>| bytes.as_ref().map_or(0, Vec::len);
        let text = self.error.as_ref().map_or(0, String::len);
        (len(&self.args) + len(&self.result) + text) as u64 + 200
    }
}
