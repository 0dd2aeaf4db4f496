//! [`Meter`]: the wait and run times of all tasks of a pool or a scheduler, in fixed memory.

use std::fmt;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use super::histogram::{Histogram, HistogramSnapshot};
use super::settings::Timing;
use crate::sync::OnceLock;
use crate::time::clock::{Clock, Tick};

/// The histograms of a pool, its clock, and whether it measures.
pub(crate) struct Meter {
    clock: Clock,
    /// A [`Timing`]. Relaxed: a thread that sees a change late measures a few more or fewer tasks.
    timing: AtomicU8,
    /// A thread uses the stripe of its number, so that threads rarely write the same cache line.
    /// Each stripe is allocated on first use.
    stripes: Box<[OnceLock<Box<Times>>]>,
    /// The total run time in nanoseconds: the largest value that a pool reported, or the sum of a
    /// scheduler's laps. Relaxed, and an atomic of std even in models, because no protocol depends
    /// on it.
    busy: AtomicU64,
}

/// The histograms of some of the threads.
#[derive(Default)]
pub(crate) struct Times {
    pub(crate) wait: Histogram,
    pub(crate) run: Histogram,
}

impl Meter {
    /// Creates a meter for at most `threads` threads that count at the same time.
    pub(crate) fn new(clock: Clock, timing: Timing, threads: usize) -> Meter {
        const MOST_STRIPES: usize = 8;
        Meter {
            clock,
            timing: AtomicU8::new(timing as u8),
            stripes: (0..threads.clamp(1, MOST_STRIPES)).map(|_| OnceLock::new()).collect(),
            busy: AtomicU64::new(0),
        }
    }

    pub(crate) fn timing(&self) -> Timing {
        const ALL: [Timing; 3] = [Timing::Sampled, Timing::Every, Timing::Off];
        const _: () =
            assert!(Timing::Sampled as u8 == 0 && Timing::Every as u8 == 1 && Timing::Off as u8 == 2);
        ALL[usize::from(self.timing.load(Ordering::Relaxed))]
    }

    pub(crate) fn set_timing(&self, timing: Timing) {
        self.timing.store(timing as u8, Ordering::Relaxed);
    }

    /// Returns the time, or `None` if the pool does not measure.
    pub(crate) fn now(&self) -> Option<Tick> {
        (self.timing() != Timing::Off).then(|| self.clock.tick())
    }

    /// Returns the time of acceptance for a job accepted now, or [`Tick::NEVER`] if nothing is
    /// measured.
    pub(crate) fn stamp(&self) -> Tick {
        self.now().unwrap_or(Tick::NEVER)
    }

    /// Counts `runs` runs that took `total` nanoseconds together, as if they were equally long.
    pub(crate) fn count_runs(&self, total: u64, runs: u64) {
        self.times(0).run.add_total(total, runs);
    }

    /// Counts `tasks` tasks that waited `each` nanoseconds each.
    pub(crate) fn count_waits(&self, each: u64, tasks: u64) {
        self.times(0).wait.add_total(each.saturating_mul(tasks), tasks);
    }

    /// Counts the wait of a task that was accepted at `since` and expired.
    pub(crate) fn count_expired(&self, since: Option<Tick>) {
        if let Some((now, since)) = self.now().zip(since) {
            self.times(0).wait.add(now.nanos().saturating_sub(since.nanos()));
        }
    }

    /// Returns the histograms for the thread with this number.
    pub(crate) fn times(&self, thread: usize) -> &Times {
        self.stripes[thread % self.stripes.len()].get_or_init(Box::default)
    }

    /// Returns `busy`, or the previously reported busy time if that is larger. So a lap that ends
    /// while a reader adds up the times does not make the result decrease.
    pub(crate) fn report_busy(&self, busy: u64) -> u64 {
        self.busy.fetch_max(busy, Ordering::Relaxed).max(busy)
    }

    pub(crate) fn add_busy(&self, nanos: u64) {
        self.busy.fetch_add(nanos, Ordering::Relaxed);
    }

    pub(crate) fn busy(&self) -> u64 {
        self.busy.load(Ordering::Relaxed)
    }

    pub(crate) fn wait(&self) -> HistogramSnapshot {
        self.sum(|times| &times.wait)
    }

    pub(crate) fn run(&self) -> HistogramSnapshot {
        self.sum(|times| &times.run)
    }

    fn sum(&self, of: impl Fn(&Times) -> &Histogram) -> HistogramSnapshot {
        let mut sum = HistogramSnapshot::default();
        let used = self.stripes.iter().filter_map(OnceLock::get);
        used.for_each(|times| of(times).add_to(&mut sum));
        sum
    }
}

impl fmt::Debug for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Meter").field("timing", &self.timing()).finish_non_exhaustive()
    }
}
