//! Errors of engines and of the calls that use them.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use crate::id::TaskId;
use crate::state::DeadReason;

/// Whether a failed operation may have happened, and whether to retry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Certainty {
    /// It did not happen; a retry may help.
    NotDone,
    /// It may have happened; a retry is safe, because every operation is idempotent.
    Unknown,
    /// It did not happen, and a retry cannot help.
    Permanent,
}

/// An engine call failed.
#[derive(Debug, Clone)]
pub struct EngineError {
    certainty: Certainty,
    message: String,
    source: Option<Arc<dyn Error + Send + Sync>>,
}

impl EngineError {
    /// Makes an error.
    pub fn new(certainty: Certainty, message: impl Into<String>) -> EngineError {
        EngineError { certainty, message: message.into(), source: None }
    }

    /// Adds the cause.
    pub fn with_source(mut self, source: impl Error + Send + Sync + 'static) -> EngineError {
        self.source = Some(Arc::new(source));
        self
    }

    #[cfg(feature = "sqlite")]
    pub(crate) fn with_certainty(mut self, certainty: Certainty) -> EngineError {
        self.certainty = certainty;
        self
    }

    /// Whether the operation may have happened.
    pub fn certainty(&self) -> Certainty {
        self.certainty
    }

    /// Returns true if a retry may help.
    pub fn is_transient(&self) -> bool {
        self.certainty != Certainty::Permanent
    }
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for EngineError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_ref().map(|source| &**source as &(dyn Error + 'static))
    }
}

/// A cluster could not be opened, or a worker could not be started.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// The address is invalid or names an unknown engine.
    Address(String),
    /// A setting is out of range.
    Setting(String),
    /// The engine refused.
    Engine(EngineError),
    /// A thread could not be started.
    Thread(std::io::Error),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Address(what) | OpenError::Setting(what) => f.write_str(what),
            OpenError::Engine(error) => error.fmt(f),
            OpenError::Thread(error) => write!(f, "a thread could not be started: {error}"),
        }
    }
}

impl Error for OpenError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            OpenError::Engine(error) => Some(error),
            OpenError::Thread(error) => Some(error),
            _ => None,
        }
    }
}

impl From<EngineError> for OpenError {
    fn from(error: EngineError) -> OpenError {
        OpenError::Engine(error)
    }
}

/// Why a task was not accepted.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum SubmitReason {
    /// The queue is full.
    Saturated {
        /// Tasks that are waiting.
        waiting: u64,
        /// How many tasks may wait.
        capacity: u64,
    },
    /// The queue is closed.
    Shutdown,
    /// The arguments are too large.
    TooLarge {
        /// Their size in bytes.
        bytes: usize,
        /// The maximum in bytes.
        limit: usize,
    },
    /// The arguments cannot be encoded.
    Encode(String),
    /// The calling thread was interrupted while it waited for room.
    Interrupted,
    /// The engine failed. [`EngineError::certainty`] tells whether the task may be stored;
    /// submitting the same task with the same id again is safe.
    Engine(EngineError),
}

/// A task was not accepted. Contains the task with its id, so that it can be submitted again.
pub struct SubmitError<T> {
    pub(crate) reason: SubmitReason,
    pub(crate) task: T,
}

impl<T> SubmitError<T> {
    /// Why the task was not accepted.
    pub fn reason(&self) -> &SubmitReason {
        &self.reason
    }

    /// Returns the task, to submit it again.
    pub fn into_task(self) -> T {
        self.task
    }
}

impl<T> fmt::Debug for SubmitError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SubmitError").field("reason", &self.reason).finish_non_exhaustive()
    }
}

impl<T> fmt::Display for SubmitError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.reason {
            SubmitReason::Saturated { waiting, capacity } => {
                write!(f, "the queue is full: {waiting} tasks wait and its capacity is {capacity}")
            }
            SubmitReason::Shutdown => f.write_str("the queue is closed"),
            SubmitReason::TooLarge { bytes, limit } => {
                write!(f, "the arguments take {bytes} bytes but the limit is {limit}: store them elsewhere")
            }
            SubmitReason::Encode(error) => write!(f, "the arguments cannot be encoded: {error}"),
            SubmitReason::Interrupted => f.write_str("interrupted while waiting for room in the queue"),
            SubmitReason::Engine(error) => error.fmt(f),
        }
    }
}

impl<T> Error for SubmitError<T> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.reason {
            SubmitReason::Engine(error) => Some(error),
            _ => None,
        }
    }
}

/// A task that failed for good: it ended without a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DeadLetter {
    /// The task.
    pub id: TaskId,
    /// The name of its task type.
    pub name: String,
    /// Why it is dead.
    pub reason: DeadReason,
    /// How often it was claimed.
    pub attempts: u32,
    /// The latest error.
    pub error: Option<String>,
}

impl fmt::Display for DeadLetter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "task {} ({}) is dead after {} attempts: {}",
            self.id, self.name, self.attempts, self.reason
        )?;
        self.error.as_ref().map_or(Ok(()), |error| write!(f, ": {error}"))
    }
}

/// Why a handle has no result.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum RemoteError {
    /// The task was cancelled.
    Cancelled,
    /// The task is a dead letter.
    Dead(DeadLetter),
    /// The task has ended and its record is no longer kept, or there never was one.
    ResultGone(TaskId),
    /// The result does not decode into the type of the handle.
    Decode(String),
    /// The calling thread was interrupted. The task continues.
    Interrupted,
    /// This handle has already returned the result.
    Taken,
    /// The engine failed, and a retry cannot help.
    Engine(EngineError),
}

impl fmt::Display for RemoteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RemoteError::Cancelled => f.write_str("the task was cancelled"),
            RemoteError::Dead(letter) => letter.fmt(f),
            RemoteError::ResultGone(id) => {
                write!(f, "there is no record of task {id}, or it is no longer kept")
            }
            RemoteError::Decode(error) => write!(f, "the result cannot be decoded: {error}"),
            RemoteError::Interrupted => f.write_str("interrupted while waiting"),
            RemoteError::Taken => f.write_str("the result was already handed out"),
            RemoteError::Engine(error) => error.fmt(f),
        }
    }
}

impl Error for RemoteError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            RemoteError::Engine(error) => Some(error),
            _ => None,
        }
    }
}

impl From<EngineError> for RemoteError {
    fn from(error: EngineError) -> RemoteError {
        RemoteError::Engine(error)
    }
}
