//! A gate at which the tasks of a burst wait, so that counts do not depend on timing.
//!
//! A burst is meant to arrive at once. On a busy machine the first task could end before the last
//! one is submitted, and the pool would accept more than it should. So the duration of its tasks
//! begins when all of them have been submitted.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Initially open.
#[derive(Debug, Default)]
pub(super) struct Gate {
    closed: Mutex<bool>,
    changed: Condvar,
}

impl Gate {
    pub(super) fn close(&self) {
        *self.lock() = true;
    }

    pub(super) fn open(&self) {
        *self.lock() = false;
        self.changed.notify_all();
    }

    /// Waits until the gate is open.
    pub(super) fn pass(&self) {
        let open = self.changed.wait_while(self.lock(), |closed| *closed);
        drop(open.unwrap_or_else(PoisonError::into_inner));
    }

    /// Waits until the gate is open, at most for `time`.
    pub(super) fn pass_within(&self, time: Duration) {
        let open = self.changed.wait_timeout_while(self.lock(), time, |closed| *closed);
        drop(open.unwrap_or_else(PoisonError::into_inner));
    }

    fn lock(&self) -> MutexGuard<'_, bool> {
        self.closed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
