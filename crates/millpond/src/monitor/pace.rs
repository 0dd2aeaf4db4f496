//! [`Pace`]: how fast tasks are submitted, and so how seldom a submitter needs to read the clock.
//!
//! In a burst the tasks of about 20 µs share one reading: the first of them reads the clock. While
//! tasks come more slowly than that, each one has its own. The number of tasks that share a reading
//! at most doubles from one to the next, so the first tasks after a pause are exact.

use crate::time::clock::Tick;

/// The time that one reading stands for in a burst, in nanoseconds: as for the laps of workers.
const TIME_PER_READING: u64 = 20_000;

#[derive(Debug)]
pub(crate) struct Pace {
    /// The number of tasks before the last reading, and its time.
    last: (u64, Tick),
    /// Tasks from one reading to the next.
    spacing: u64,
}

impl Pace {
    pub(crate) const fn new() -> Pace {
        Pace { last: (0, Tick::ORIGIN), spacing: 1 }
    }

    pub(crate) fn last_reading(&self) -> Tick {
        self.last.1
    }

    /// Returns how many tasks share the reading `now`, which comes after `tasks` others: from 1 to
    /// `most`.
    pub(crate) fn next(&mut self, tasks: u64, now: Tick, most: u64) -> u64 {
        let (new, nanos) = (tasks - self.last.0, now.nanos() - self.last.1.nanos());
        let wanted = (new * TIME_PER_READING).checked_div(nanos).unwrap_or(most);
        self.last = (tasks, now);
        self.spacing = wanted.clamp(1, most.min(2 * self.spacing));
        self.spacing
    }
}
