//! The time that a scheduled scenario is played by: the machine's, or one that the driver moves by
//! hand.
//!
//! By hand nothing is ever late, so a scenario takes no time, is never spoiled and says the same.
//! But the waiting that users rely on, the one with a timeout, is only there in the machine's time.

use std::thread;
use std::time::{Duration, Instant};

use millpond::{Clock, ManualClock};

/// Steps begin a slot, tasks run half a slot later.
pub const HALF_SLOT: Duration = Duration::from_millis(50);

/// Which time to play by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TimeKind {
    /// The machine's.
    #[default]
    Real,
    /// Moved by the driver.
    Manual,
}

/// The time of one run.
#[derive(Debug, Clone)]
pub enum Time {
    /// The machine's, counted from here.
    Real(Instant),
    /// Moved by the driver.
    Manual(ManualClock),
}

impl Time {
    /// A time that begins now.
    pub fn begin(kind: TimeKind) -> Time {
        match kind {
            TimeKind::Real => Time::Real(Instant::now()),
            TimeKind::Manual => Time::Manual(ManualClock::new()),
        }
    }

    /// How long ago it began.
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

    /// Lets the time pass until `then`; a time that is moved by hand, by half a slot at most. True:
    /// it is `then`.
    pub fn pass(&self, then: Duration) -> bool {
        let left = then.saturating_sub(self.now());
        match self {
            Time::Real(_) => thread::sleep(left),
            Time::Manual(clock) => clock.advance(left.min(HALF_SLOT)),
        }
        self.now() >= then
    }

    /// How long a thread may sleep that waits for `then`; none: until it is told.
    pub fn timeout(&self, then: Duration) -> Option<Duration> {
        match self {
            Time::Real(_) => Some(then.saturating_sub(self.now())),
            Time::Manual(_) => None,
        }
    }

    /// Whether the machine can be too slow for it.
    pub fn is_real(&self) -> bool {
        matches!(self, Time::Real(_))
    }
}
