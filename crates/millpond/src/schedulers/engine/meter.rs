//! [`Meter`]: the wait and run times of all jobs of a scheduler.

use std::fmt;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use crate::monitor::{Histogram, HistogramSnapshot, Timing};
use crate::sync::OnceLock;
use crate::time::clock::{Clock, Tick};

/// The histograms of a scheduler, its clock, and whether it measures.
///
/// The atomics are std's also in models: statistics, on which no protocol rests. Relaxed for the
/// same reason.
pub(super) struct Meter {
    clock: Clock,
    /// A [`Timing`].
    timing: AtomicU8,
    /// Wait and run times, allocated with the first one.
    times: OnceLock<Box<(Histogram, Histogram)>>,
    /// The length of all laps so far, in nanoseconds.
    busy: AtomicU64,
}

impl Meter {
    pub(super) fn new(clock: Clock, timing: Timing) -> Meter {
        Meter { clock, timing: AtomicU8::new(timing as u8), times: OnceLock::new(), busy: AtomicU64::new(0) }
    }

    pub(super) fn timing(&self) -> Timing {
        const ALL: [Timing; 3] = [Timing::Sampled, Timing::Every, Timing::Off];
        ALL[usize::from(self.timing.load(Ordering::Relaxed))]
    }

    pub(super) fn set_timing(&self, timing: Timing) {
        self.timing.store(timing as u8, Ordering::Relaxed);
    }

    /// The time, unless the scheduler does not measure.
    pub(super) fn now(&self) -> Option<Tick> {
        (self.timing() != Timing::Off).then(|| self.clock.tick())
    }

    /// The time of a job that is accepted now; [`Tick::NEVER`] if nothing is measured.
    pub(super) fn stamp(&self) -> Tick {
        self.now().unwrap_or(Tick::NEVER)
    }

    fn times(&self) -> &(Histogram, Histogram) {
        self.times.get_or_init(Box::default)
    }

    /// Counts `runs` equal runs that took `total` nanoseconds together.
    pub(super) fn count_runs(&self, total: u64, runs: u64) {
        self.times().1.add_total(total, runs);
    }

    /// Counts `jobs` jobs that waited for `each` nanoseconds.
    pub(super) fn count_waits(&self, each: u64, jobs: u64) {
        self.times().0.add_total(each.saturating_mul(jobs), jobs);
    }

    pub(super) fn add_busy(&self, nanos: u64) {
        self.busy.fetch_add(nanos, Ordering::Relaxed);
    }

    pub(super) fn busy(&self) -> u64 {
        self.busy.load(Ordering::Relaxed)
    }

    /// The wait times and the run times.
    pub(super) fn snapshot(&self) -> (HistogramSnapshot, HistogramSnapshot) {
        let (mut wait, mut run) = Default::default();
        if let Some(times) = self.times.get() {
            times.0.add_to(&mut wait);
            times.1.add_to(&mut run);
        }
        (wait, run)
    }
}

impl fmt::Debug for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Meter").field("timing", &self.timing()).finish_non_exhaustive()
    }
}

/// The time from one tick to a later one, in nanoseconds. Zero if `from` is not known.
pub(super) fn nanos_between(from: Tick, to: Tick) -> u64 {
    to.nanos().saturating_sub(from.nanos())
}
