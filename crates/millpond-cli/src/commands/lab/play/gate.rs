//! A gate that the tasks of a burst wait at, so that the counts rest on no timing.
//!
//! A burst is meant to arrive at once. On a busy machine the first task could be done before the
//! last is handed in, and the pool would be seen to take what it would not have taken. So the time
//! of its tasks begins when all have been handed in.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Open at first.
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

    /// Waits until the gate is open, at most `time`.
    pub(super) fn pass_within(&self, time: Duration) {
        let open = self.changed.wait_timeout_while(self.lock(), time, |closed| *closed);
        drop(open.unwrap_or_else(PoisonError::into_inner));
    }

    fn lock(&self) -> MutexGuard<'_, bool> {
        self.closed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
