//! The time of a scheduled scenario: real time, or a time that the driver advances.
//!
//! With manual time nothing is ever late, so a scenario takes no time and is deterministic. But
//! only real time exercises waits with a timeout, which users rely on.

use std::thread;
use std::time::{Duration, Instant};

use millpond::{Clock, ManualClock};

/// Steps begin a slot, tasks run half a slot later.
pub const HALF_SLOT: Duration = Duration::from_millis(50);

/// The kind of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TimeKind {
    /// The machine's time.
    #[default]
    Real,
    /// Advanced by the driver.
    Manual,
}

/// The time of one run.
#[derive(Debug, Clone)]
pub enum Time {
    /// Real time, counted from this instant.
    Real(Instant),
    /// Advanced by the driver.
    Manual(ManualClock),
}

impl Time {
    /// Starts now.
    pub fn begin(kind: TimeKind) -> Time {
        match kind {
            TimeKind::Real => Time::Real(Instant::now()),
            TimeKind::Manual => Time::Manual(ManualClock::new()),
        }
    }

    /// The time since the start.
    pub fn now(&self) -> Duration {
        match self {
            Time::Real(begun) => begun.elapsed(),
            Time::Manual(clock) => clock.elapsed(),
        }
    }

    /// The clock for the pool.
    pub fn clock(&self) -> Clock {
        match self {
            Time::Real(_) => Clock::system(),
            Time::Manual(clock) => clock.clock(),
        }
    }

    /// Lets the time pass until `then`. Manual time moves by half a slot at most. Returns true if
    /// `then` is reached.
    pub fn pass(&self, then: Duration) -> bool {
        let left = then.saturating_sub(self.now());
        match self {
            Time::Real(_) => thread::sleep(left),
            Time::Manual(clock) => clock.advance(left.min(HALF_SLOT)),
        }
        self.now() >= then
    }

    /// How long a thread may wait for `then`. `None` means until notified.
    pub fn timeout(&self, then: Duration) -> Option<Duration> {
        match self {
            Time::Real(_) => Some(then.saturating_sub(self.now())),
            Time::Manual(_) => None,
        }
    }

    /// True if the machine can be too slow for this kind of time.
    pub fn is_real(&self) -> bool {
        matches!(self, Time::Real(_))
    }
}
