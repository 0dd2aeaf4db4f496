//! A gate that tasks wait at until it opens, so that the demonstration rests on no timing.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Closed at first; once open, open for good. Counts who has arrived.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    arrived: usize,
    open: bool,
}

impl Gate {
    /// Waits until the gate is open.
    pub(crate) fn pass(&self) {
        let mut state = self.lock();
        state.arrived += 1;
        self.changed.notify_all();
        let open = self.changed.wait_while(state, |state| !state.open);
        drop(open.unwrap_or_else(PoisonError::into_inner));
    }

    /// Lets everybody through, now and later; says when it did.
    pub(crate) fn open(&self) -> Instant {
        let mut state = self.lock();
        state.open = true;
        self.changed.notify_all();
        Instant::now()
    }

    /// Waits until `count` have arrived; false if that takes longer than `timeout`.
    pub(crate) fn await_arrivals(&self, count: usize, timeout: Duration) -> bool {
        let waiting = self.changed.wait_timeout_while(self.lock(), timeout, |state| state.arrived < count);
        let (state, _) = waiting.unwrap_or_else(PoisonError::into_inner);
        state.arrived >= count
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
