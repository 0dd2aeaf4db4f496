//! A handle of ours, told as the reference would tell of its future.
//!
//! Our handles resolve as abandoned when their task can never run. The reference's stay pending for
//! ever, and can still be cancelled. And ours give their result once, the reference's as often as
//! they are asked.

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
    /// What the handle gave when it was asked.
    outcome: Option<Value>,
    /// Cancelled after its task had been abandoned: the reference's would be cancelled.
    cancelled_abandoned: bool,
}

impl Future {
    /// Of the task or series of `handle`.
    pub fn new(handle: TaskHandle<impl Into<Value> + Send + 'static>) -> Future {
        Future { handle: Box::new(handle), outcome: None, cancelled_abandoned: false }
    }

    /// How far it is: pending, done or cancelled.
    pub fn state(&self) -> &'static str {
        match self.handle.state() {
            TaskState::Cancelled => "cancelled",
            TaskState::Abandoned if self.cancelled_abandoned => "cancelled",
            TaskState::Abandoned | TaskState::Pending | TaskState::Running => "pending",
            _ => "done",
        }
    }

    /// True: this call cancelled it.
    pub fn cancel(&mut self, may_interrupt: bool) -> bool {
        if self.handle.state() == TaskState::Abandoned {
            return !std::mem::replace(&mut self.cancelled_abandoned, true);
        }
        self.handle.cancel(may_interrupt)
    }

    /// Waits for the outcome.
    ///
    /// # Errors
    /// If the handle answers what it never should.
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
