//! [`Parker`] blocks one thread until another thread unparks it.

#[cfg(not(all(loom, test)))]
use std::time::Instant;

#[cfg(not(all(loom, test)))]
use super::{AtomicBool, Ordering};

/// Blocks one thread, its owner, until another thread provides a token or a deadline passes.
///
/// The token is binary and stays until it is consumed, so an `unpark` before the `park` is not
/// lost. Writes before `unpark` are visible after the `park` that consumed its token.
#[cfg(not(all(loom, test)))]
#[derive(Debug)]
pub(crate) struct Parker {
    /// True if a token is available. Set by any thread, consumed by the owner.
    ///
    /// Both sides use read-modify-writes. So every `unpark` (Release) is in the release sequence
    /// that the owner's `swap` (Acquire) reads from, and the owner sees the writes of all unparking
    /// threads.
    token: AtomicBool,
    owner: std::thread::Thread,
}

#[cfg(not(all(loom, test)))]
impl Parker {
    /// Creates a parker for the calling thread.
    pub(crate) fn for_this_thread() -> Self {
        Parker { token: AtomicBool::new(false), owner: std::thread::current() }
    }

    /// Blocks until a token is available and consumes it. Returns false if `deadline` came first.
    /// Owner only.
    pub(crate) fn park(&self, deadline: Option<Instant>) -> bool {
        loop {
            if self.token.swap(false, Ordering::Acquire) {
                return true;
            }
            match deadline {
                None => std::thread::park(),
                Some(deadline) => match deadline.checked_duration_since(Instant::now()) {
                    Some(left) if !left.is_zero() => std::thread::park_timeout(left),
                    _ => return self.token.swap(false, Ordering::Acquire),
                },
            }
        }
    }

    /// Provides a token. Makes a system call only if the owner is parked and had no token.
    pub(crate) fn unpark(&self) {
        if !self.token.swap(true, Ordering::Release) {
            self.owner.unpark();
        }
    }
}

#[cfg(all(loom, test))]
pub(crate) use model::Parker;

/// The same contract for models, where time does not pass. A deadline has passed if it was over
/// when `park` was called, or after a call of [`fire_timer`](Parker::fire_timer).
#[cfg(all(loom, test))]
mod model {
    use std::time::Instant;

    use crate::sync::Mutex;

    #[derive(Debug)]
    pub(crate) struct Parker {
        state: Mutex<State>,
        changed: loom::sync::Condvar,
    }

    #[derive(Debug, Default)]
    struct State {
        token: bool,
        timer_fired: bool,
        timer_fired_once: bool,
    }

    impl Parker {
        pub(crate) fn for_this_thread() -> Self {
            Parker { state: Mutex::new(State::default()), changed: loom::sync::Condvar::new() }
        }

        pub(crate) fn park(&self, deadline: Option<Instant>) -> bool {
            let mut state = self.state.lock();
            loop {
                if std::mem::take(&mut state.token) {
                    return true;
                }
                if deadline.is_some_and(|deadline| state.timer_fired || deadline <= Instant::now()) {
                    return false;
                }
                if deadline.is_some() && std::mem::take(&mut state.timer_fired_once) {
                    return false;
                }
                state = self.changed.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner());
            }
        }

        pub(crate) fn unpark(&self) {
            self.state.lock().token = true;
            self.changed.notify_one();
        }

        /// Makes the deadline of every park of the owner pass from now on.
        pub(crate) fn fire_timer(&self) {
            self.state.lock().timer_fired = true;
            self.changed.notify_one();
        }

        /// Makes the deadline of one park of the owner pass: the current one or the next one.
        pub(crate) fn fire_timer_once(&self) {
            self.state.lock().timer_fired_once = true;
            self.changed.notify_one();
        }
    }
}
