//! [`ScopedTaskHandle`]: joins a scoped task.
//!
//! Unlike a `TaskHandle`, it cannot outlive the scope of its task, and it cannot cancel the task.

use std::fmt;

use crate::interrupt::Wake;
use crate::task::{CellRef, JoinError, Joinable, ResultToken, TaskState};

/// A handle to the result of a scoped task; see [`Scope::submit`](crate::Scope::submit).
#[must_use = "dropping a handle detaches the task; use `execute` if no result is wanted"]
pub struct ScopedTaskHandle<'scope, T> {
    cell: CellRef<dyn Joinable<T> + 'scope>,
    token: ResultToken,
}

impl<'scope, T> ScopedTaskHandle<'scope, T> {
    pub(super) fn new(cell: CellRef<dyn Joinable<T> + 'scope>, token: ResultToken) -> Self {
        ScopedTaskHandle { cell, token }
    }

    /// Blocks until the task is done and returns its value. A worker of the task's pool runs a task
    /// that is still queued on its own thread.
    ///
    /// # Errors
    /// The errors of [`TaskHandle::join`](crate::TaskHandle::join).
    pub fn join(mut self) -> Result<T, JoinError> {
        if let Some(result) = self.cell.take_result(&mut self.token) {
            return result;
        }
        if self.cell.is_waiting_for_this_thread() {
            return Err(JoinError::WouldDeadlock);
        }
        match self.cell.wait_done(None) {
            Wake::Interrupted => Err(JoinError::Interrupted),
            _ => self.cell.take_result(&mut self.token).expect("the task is done"),
        }
    }

    /// Returns the state of the task.
    pub fn state(&self) -> TaskState {
        self.cell.state()
    }

    /// Returns true once the task has ended.
    pub fn is_done(&self) -> bool {
        self.state().is_done()
    }
}

impl<T> Drop for ScopedTaskHandle<'_, T> {
    fn drop(&mut self) {
        self.cell.detach(&mut self.token);
    }
}

impl<T> fmt::Debug for ScopedTaskHandle<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScopedTaskHandle").field("state", &self.state()).finish_non_exhaustive()
    }
}
