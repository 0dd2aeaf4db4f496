//! [`Pace`]: decides how many submitted tasks share one reading of the clock.
//!
//! In a burst, the tasks submitted within about 20 µs share one reading, taken for the first of
//! them. If tasks arrive more slowly, each one gets its own reading. The number of tasks that share
//! a reading at most doubles from one reading to the next, so the first tasks after a pause get
//! exact times.

use crate::time::clock::Tick;

/// The time that one reading represents in a burst, in nanoseconds; the same as in the laps of
/// workers.
const TIME_PER_READING: u64 = 20_000;

#[derive(Debug)]
pub(crate) struct Pace {
    /// The number of tasks before the last reading, and the time of that reading.
    last: (u64, Tick),
    /// The number of tasks from one reading to the next.
    spacing: u64,
}

impl Pace {
    pub(crate) const fn new() -> Pace {
        Pace { last: (0, Tick::ORIGIN), spacing: 1 }
    }

    pub(crate) fn last_reading(&self) -> Tick {
        self.last.1
    }

    /// Returns how many tasks share the reading `now`: from 1 to `most`. `tasks` is the number of
    /// tasks before it.
    pub(crate) fn next(&mut self, tasks: u64, now: Tick, most: u64) -> u64 {
        let (new, nanos) = (tasks - self.last.0, now.nanos() - self.last.1.nanos());
        let wanted = (new * TIME_PER_READING).checked_div(nanos).unwrap_or(most);
        self.last = (tasks, now);
        self.spacing = wanted.clamp(1, most.min(2 * self.spacing));
        self.spacing
    }
}
