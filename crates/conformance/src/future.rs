//! A handle of millpond, with the semantics of the reference's futures.
//!
//! Millpond's handles resolve as abandoned when their task can never run. The reference's futures
//! stay pending and can still be cancelled. Millpond's handles return their result once, the
//! reference's futures any number of times.

use std::fmt;
use std::time::Duration;

use millpond::{JoinError, TaskHandle, TaskState};
use serde_json::{Value, json};

use crate::PlayError;

/// A handle of a task, whatever it returns.
trait Handle: Send {
    fn state(&self) -> TaskState;
    fn cancel(&self, may_interrupt: bool) -> bool;
    fn wait(&mut self, timeout: Duration) -> Option<Result<Value, JoinError>>;
}

impl<T: Into<Value> + Send + 'static> Handle for TaskHandle<T> {
    fn state(&self) -> TaskState {
        TaskHandle::state(self)
    }
    fn cancel(&self, may_interrupt: bool) -> bool {
        TaskHandle::cancel(self, may_interrupt)
    }
    fn wait(&mut self, timeout: Duration) -> Option<Result<Value, JoinError>> {
        Some(self.join_timeout(timeout)?.map(Into::into))
    }
}

/// The future of a task.
pub struct Future {
    handle: Box<dyn Handle>,
    /// The result of the handle, once it was taken.
    outcome: Option<Value>,
    /// Cancelled after its task was abandoned: the reference reports this as cancelled.
    cancelled_abandoned: bool,
}

impl Future {
    /// The future of a task or periodic task.
    pub fn new(handle: TaskHandle<impl Into<Value> + Send + 'static>) -> Future {
        Future { handle: Box::new(handle), outcome: None, cancelled_abandoned: false }
    }

    /// Its state: pending, done or cancelled.
    pub fn state(&self) -> &'static str {
        match self.handle.state() {
            TaskState::Cancelled => "cancelled",
            TaskState::Abandoned if self.cancelled_abandoned => "cancelled",
            TaskState::Abandoned | TaskState::Pending | TaskState::Running => "pending",
            _ => "done",
        }
    }

    /// Returns true if this call cancelled it.
    pub fn cancel(&mut self, may_interrupt: bool) -> bool {
        if self.handle.state() == TaskState::Abandoned {
            return !std::mem::replace(&mut self.cancelled_abandoned, true);
        }
        self.handle.cancel(may_interrupt)
    }

    /// Waits for the outcome.
    ///
    /// # Errors
    /// If the handle returns an impossible result.
    pub fn get(&mut self, timeout: Duration) -> Result<Value, PlayError> {
        if let Some(outcome) = &self.outcome {
            return Ok(outcome.clone());
        }
        let outcome = match self.handle.wait(timeout) {
            None => return Ok(json!("timeout")),
            Some(Err(JoinError::Abandoned)) if self.cancelled_abandoned => json!("cancelled"),
            Some(Err(JoinError::Abandoned)) => return Ok(json!("timeout")),
            Some(Ok(value)) => json!({ "value": value }),
            Some(Err(JoinError::Cancelled)) => json!("cancelled"),
            Some(Err(JoinError::Panicked(_))) => json!("failed"),
            Some(Err(other)) => return Err(PlayError::Failed(format!("join gave {other}"))),
        };
        Ok(self.outcome.insert(outcome).clone())
    }
}

impl fmt::Debug for Future {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Future({})", self.state())
    }
}
