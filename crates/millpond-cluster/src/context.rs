//! [`TaskContext`] and [`TaskError`]: what a handler knows about its task, and how it fails.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::id::TaskId;

/// Flags of a running task that its worker sets.
#[derive(Debug, Default)]
pub(crate) struct Flags {
    pub(crate) lease_lost: AtomicBool,
    pub(crate) cancelled: AtomicBool,
}

/// The handler's view of its task.
pub struct TaskContext {
    pub(crate) id: TaskId,
    pub(crate) attempt: u32,
    pub(crate) failures: u32,
    pub(crate) deadline: Option<Instant>,
    pub(crate) flags: Arc<Flags>,
    pub(crate) report: Box<dyn Fn(Vec<u8>) + Send + Sync>,
}

impl TaskContext {
    /// The id of the task. Use it to make side effects idempotent: a task may run more than once.
    pub fn id(&self) -> TaskId {
        self.id
    }

    /// The number of this claim, from 1. It never falls, so it can serve as a fencing token for
    /// writes to other stores.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// How many earlier attempts failed.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// When this attempt will be interrupted: at the deadline of the task or the timeout of the
    /// attempt, whichever is earlier.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Reports progress for [`RemoteHandle::progress`](crate::RemoteHandle::progress). It is sent
    /// with the next renewal of the lease, within about a second; only the latest report is kept.
    pub fn progress<T: Serialize + ?Sized>(&self, progress: &T) {
        if let Ok(progress) = serde_json::to_vec(progress)
            && progress.len() <= crate::engine::PAYLOAD_LIMIT
        {
            (self.report)(progress);
        }
    }

    /// Returns true if the worker has lost this task: another worker may run it, and the outcome of
    /// this attempt will be ignored.
    pub fn lease_lost(&self) -> bool {
        self.flags.lease_lost.load(Ordering::Relaxed)
    }

    /// Returns true if the task was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.flags.cancelled.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for TaskContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskContext")
            .field("id", &self.id)
            .field("attempt", &self.attempt)
            .finish_non_exhaustive()
    }
}

/// The failure of an attempt. Every error converts into one that follows the task's retry policy.
///
/// # Examples
/// ```
/// use millpond_cluster::TaskError;
/// use std::time::Duration;
///
/// fn parse(text: &str) -> Result<u64, TaskError> {
///     Ok(text.parse::<u64>()?) // retried by the policy of the task
/// }
/// fn check(amount: i64) -> Result<(), TaskError> {
///     if amount < 0 {
///         return Err(TaskError::permanent(format!("amount is {amount}"))); // dead at once
///     }
///     Err(TaskError::new("the service asked for a pause").retry_in(Duration::from_secs(30)))
/// }
/// assert_eq!(parse("x").unwrap_err().to_string(), "invalid digit found in string");
/// assert!(check(-1).unwrap_err().is_permanent());
/// ```
#[derive(Debug)]
pub struct TaskError {
    message: String,
    pub(crate) retry: RetryWish,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RetryWish {
    Policy,
    After(Duration),
    Never,
    /// The arguments do not decode.
    Undecodable,
}

impl TaskError {
    /// A failure that the task's retry policy handles.
    pub fn new(error: impl fmt::Display) -> TaskError {
        TaskError { message: error.to_string(), retry: RetryWish::Policy }
    }

    /// A failure after which another attempt is pointless: the task becomes a dead letter.
    pub fn permanent(error: impl fmt::Display) -> TaskError {
        TaskError { message: error.to_string(), retry: RetryWish::Never }
    }

    pub(crate) fn undecodable(error: impl fmt::Display) -> TaskError {
        TaskError { message: error.to_string(), retry: RetryWish::Undecodable }
    }

    /// Sets the wait before the next attempt, if any attempt is left.
    pub fn retry_in(mut self, wait: Duration) -> TaskError {
        self.retry = RetryWish::After(wait);
        self
    }

    /// Returns true if another attempt is pointless.
    pub fn is_permanent(&self) -> bool {
        matches!(self.retry, RetryWish::Never | RetryWish::Undecodable)
    }
}

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// `TaskError` itself does not implement `Error`, so that every `Error` can convert into it.
impl<E: Error> From<E> for TaskError {
    fn from(error: E) -> TaskError {
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            message.push_str(": ");
            message.push_str(&cause.to_string());
            source = cause.source();
        }
        TaskError { message, retry: RetryWish::Policy }
    }
}
