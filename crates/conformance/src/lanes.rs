//! Limits the number of concurrent scenarios with real time to what the machine can handle.
//!
//! Their steps have windows of some milliseconds, and a run that misses one is discarded. So starts
//! are a few milliseconds apart, none starts while quick scenarios keep the machine busy, and a
//! discarded run lowers the limit for some time.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::PlayError;

/// The largest number of concurrent scenarios.
pub const MAX_LANES: usize = 48;
/// The initial number.
const FIRST_LANES: usize = 16;
/// The time between two starts.
const STAGGER: Duration = Duration::from_millis(3);

/// The limit for scenarios with real time.
#[derive(Debug)]
pub struct Lanes {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    limit: usize,
    used: usize,
    /// Runs that were on time since the limit changed.
    in_time: usize,
    /// The number of quick scenarios that wait or are being played.
    quick: usize,
    /// When the next scenario may start.
    next_start: Instant,
    /// Whether the traces are no longer needed.
    closed: bool,
}

impl Default for Lanes {
    fn default() -> Self {
        let next_start = Instant::now();
        let state = State { limit: FIRST_LANES, used: 0, in_time: 0, quick: 0, next_start, closed: false };
        Lanes { state: Mutex::new(state), changed: Condvar::new() }
    }
}

impl Lanes {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Called when a quick scenario is ready to be played.
    pub fn quick_comes(&self) {
        self.state().quick += 1;
    }

    /// Called when a quick scenario has been played.
    pub fn quick_goes(&self) {
        self.state().quick -= 1;
        self.changed.notify_all();
    }

    /// Ends all waits, now and later.
    pub fn close(&self) {
        self.state().closed = true;
        self.changed.notify_all();
    }

    /// Plays once, when a lane is free.
    ///
    /// # Errors
    /// The error of `play`.
    pub fn play<R>(&self, play: impl FnOnce() -> Result<R, PlayError>) -> Result<R, PlayError> {
        let mut state = self.state();
        while !state.closed && (state.used >= state.limit || state.quick > 0) {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.used += 1;
        let start = state.next_start.max(Instant::now());
        state.next_start = start + STAGGER;
        drop(state);
        let mut lane = Lane { lanes: self, too_slow: false };
        thread::sleep(start.saturating_duration_since(Instant::now()));
        let played = play();
        lane.too_slow = matches!(played, Err(PlayError::TooSlow(_)));
        played
    }
}

/// A lane in use. Freed when dropped.
struct Lane<'a> {
    lanes: &'a Lanes,
    too_slow: bool,
}

impl Drop for Lane<'_> {
    fn drop(&mut self) {
        let mut state = self.lanes.state();
        state.used -= 1;
        if self.too_slow {
            // By a quarter: a single hiccup of the machine spoils several runs at once.
            state.limit = (state.limit * 3 / 4).max(1);
            state.in_time = 0;
        } else {
            state.in_time += 1;
            if state.in_time >= state.limit {
                state.limit = (state.limit + 2).min(MAX_LANES);
                state.in_time = 0;
            }
        }
        drop(state);
        self.lanes.changed.notify_all();
    }
}
