//! [`Lap`]: how the runs of a slot are measured without reading the clock for each.
//!
//! A lap is a few runs in a row. The clock is read at its beginning and at its end: after 20 µs of
//! work or 64 runs, and when the thread finds no more work. A run of 20 µs or more shortens the
//! next lap to one run, each lap is at most twice as long as the one before, and after a
//! millisecond without work a lap begins with one run again. So nearly every run that takes long is
//! measured by itself. One that shares its lap is charged what the others do not explain. All jobs
//! of a lap count as having waited as long as the first.
//!
//! All of it is under the scheduler's lock, so a snapshot of a scheduler without work contains
//! every run.

use crate::monitor::{Meter, Timing, nanos_between};
use crate::time::clock::Tick;

/// The work per lap, in nanoseconds: several hundred times what the clock costs.
const WORK_PER_LAP: u64 = 20_000;
/// The runs of a lap at most.
const LONGEST: u64 = 64;
/// After a longer time without work, in nanoseconds, the next lap is short.
const LONG_PAUSE: u64 = 1_000_000;

#[derive(Debug, Default)]
pub(super) struct Lap {
    /// When it began. `None` if no job runs, or if nothing is measured.
    opened: Option<Tick>,
    /// When the one before ended.
    closed: Option<Tick>,
    /// Runs that have ended in it.
    runs: u64,
    /// After so many runs it ends.
    length: u64,
    /// The mean run time of the lap before, in nanoseconds.
    mean: u64,
    /// How long the first job waited, in nanoseconds.
    wait: u64,
}

impl Lap {
    /// A job starts that was accepted, or due, at `since`. If that was long after the beginning of
    /// the lap, a job of the lap took long, and another lap begins.
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

    /// `runs` runs have ended. `is_last`: the lap ends with them.
    pub(super) fn end(&mut self, runs: u64, is_last: bool, meter: &Meter) {
        self.runs += runs;
        if is_last || self.runs >= self.length {
            self.pause(meter);
        }
    }

    /// The thread has found no work.
    pub(super) fn pause(&mut self, meter: &Meter) {
        if self.opened.is_some() {
            self.close(meter.now(), meter);
        }
    }

    /// Another thread will run the job that was to start.
    pub(super) fn abandon(&mut self) {
        self.opened = None;
    }

    /// No later than the start of what runs now.
    pub(super) fn opened(&self) -> Option<Tick> {
        self.opened
    }

    /// Counts the runs of the lap. Without a time nothing is measured.
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

    /// If the lap took more than twice as long as expected, one run took the rest.
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
