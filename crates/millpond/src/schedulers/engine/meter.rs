//! [`Meter`]: the wait times and run times of all jobs of a scheduler.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::monitor::{self, HistogramSnapshot, Timing};
use crate::time::clock::{Clock, Tick};

pub(super) use crate::monitor::nanos_between;

/// The wait and run histograms of a scheduler, and the total time spent in jobs.
pub(super) struct Meter {
    /// One pair of histograms for all slots, because it is written under the scheduler's lock.
    times: monitor::Meter,
    /// The length of all laps so far, in nanoseconds. Relaxed: statistic. An atomic of std also in
    /// models, because no protocol depends on it.
    busy: AtomicU64,
}

impl Meter {
    pub(super) fn new(clock: Clock, timing: Timing) -> Meter {
        Meter { times: monitor::Meter::new(clock, timing, 1), busy: AtomicU64::new(0) }
    }

    pub(super) fn timing(&self) -> Timing {
        self.times.timing()
    }

    pub(super) fn set_timing(&self, timing: Timing) {
        self.times.set_timing(timing);
    }

    /// Returns the time, or `None` if the scheduler does not measure.
    pub(super) fn now(&self) -> Option<Tick> {
        self.times.now()
    }

    /// Returns the time of acceptance for a job accepted now, or [`Tick::NEVER`] if nothing is
    /// measured.
    pub(super) fn stamp(&self) -> Tick {
        self.now().unwrap_or(Tick::NEVER)
    }

    /// Counts `runs` runs that took `total` nanoseconds together, as if they were equally long.
    pub(super) fn count_runs(&self, total: u64, runs: u64) {
        self.times.times(0).run.add_total(total, runs);
    }

    /// Counts `jobs` jobs that waited `each` nanoseconds each.
    pub(super) fn count_waits(&self, each: u64, jobs: u64) {
        self.times.times(0).wait.add_total(each.saturating_mul(jobs), jobs);
    }

    pub(super) fn add_busy(&self, nanos: u64) {
        self.busy.fetch_add(nanos, Ordering::Relaxed);
    }

    pub(super) fn busy(&self) -> u64 {
        self.busy.load(Ordering::Relaxed)
    }

    /// Returns the wait times and the run times.
    pub(super) fn snapshot(&self) -> (HistogramSnapshot, HistogramSnapshot) {
        (self.times.wait(), self.times.run())
    }
}

impl fmt::Debug for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Meter").field("timing", &self.timing()).finish_non_exhaustive()
    }
}
