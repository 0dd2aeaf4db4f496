//! [`Lap`]: measures the runs of a slot without reading the clock for each run.
//!
//! A lap is a sequence of runs. The clock is read at its start and at its end. A lap ends after 20
//! µs of work, after 64 runs, or when the thread finds no more work. A run of 20 µs or more
//! shortens the next lap to one run. Each lap is at most twice as long as the previous one. After 1
//! ms without work, a lap starts with a length of one run. So nearly every long run is measured
//! alone. If a long run shares its lap, it is charged the time that exceeds the mean of the other
//! runs. All jobs of a lap count as having waited as long as the first one.
//!
//! Laps change only under the scheduler's lock. So a snapshot of a scheduler without work contains
//! every run.

use crate::monitor::{Meter, Timing, nanos_between};
use crate::time::clock::Tick;

/// The target work per lap, in nanoseconds: several hundred times the cost of reading the clock.
const WORK_PER_LAP: u64 = 20_000;
/// The largest number of runs in a lap.
const LONGEST: u64 = 64;
/// After a longer pause, in nanoseconds, the next lap has one run.
const LONG_PAUSE: u64 = 1_000_000;

#[derive(Debug, Default)]
pub(super) struct Lap {
    /// When the lap began. `None` if no job runs or nothing is measured.
    opened: Option<Tick>,
    /// When the previous lap ended.
    closed: Option<Tick>,
    /// Runs of this lap that have ended.
    runs: u64,
    /// The number of runs after which the lap ends.
    length: u64,
    /// The mean run time of the previous lap, in nanoseconds.
    mean: u64,
    /// How long the first job of the lap waited, in nanoseconds.
    wait: u64,
}

impl Lap {
    /// Records the start of a job that was accepted or due at `since`. If that was long after the
    /// lap began, an earlier job of the lap took long, so a new lap begins.
    pub(super) fn begin(&mut self, since: Tick, meter: &Meter) {
        let is_old = |opened| since != Tick::NEVER && nanos_between(opened, since) > WORK_PER_LAP;
        if self.opened.is_some_and(|opened| !is_old(opened)) {
            return;
        }
        let now = meter.now();
        self.close(now, meter);
        let Some(now) = now else { return };
        if self.closed.is_none_or(|closed| nanos_between(closed, now) > LONG_PAUSE) {
            self.length = 1;
        }
        self.opened = Some(now);
        self.wait = nanos_between(since, now);
    }

    /// Records the end of `runs` runs. `is_last`: the lap ends with them.
    pub(super) fn end(&mut self, runs: u64, is_last: bool, meter: &Meter) {
        self.runs += runs;
        if is_last || self.runs >= self.length {
            self.pause(meter);
        }
    }

    /// Ends the lap, because the thread has found no work.
    pub(super) fn pause(&mut self, meter: &Meter) {
        if self.opened.is_some() {
            self.close(meter.now(), meter);
        }
    }

    /// Drops the lap, because another thread will run the job that was to start.
    pub(super) fn abandon(&mut self) {
        self.opened = None;
    }

    /// Returns the start of the lap, which is not later than the start of the running job.
    pub(super) fn opened(&self) -> Option<Tick> {
        self.opened
    }

    /// Ends the lap and counts its runs. Measures nothing if `now` is `None`.
    fn close(&mut self, now: Option<Tick>, meter: &Meter) {
        let (opened, runs) = (self.opened.take(), std::mem::take(&mut self.runs));
        let Some((opened, now)) = opened.zip(now).filter(|_| runs > 0) else { return };
        let total = nanos_between(opened, now);
        self.count(total, runs, meter);
        self.mean = total / runs;
        let longest = if meter.timing() == Timing::Every { 1 } else { (2 * self.length).min(LONGEST) };
        self.length = (WORK_PER_LAP / self.mean.max(1)).clamp(1, longest);
        self.closed = Some(now);
    }

    /// Counts the runs. If the lap took more than twice the expected time, one run is charged the
    /// excess.
    fn count(&self, total: u64, runs: u64, meter: &Meter) {
        let others = (runs - 1) * self.mean;
        if others + self.mean < total / 2 {
            meter.count_runs(others, runs - 1);
            meter.count_runs(total - others, 1);
        } else {
            meter.count_runs(total, runs);
        }
        meter.count_waits(self.wait, runs);
        meter.add_busy(total);
    }
}
