//! [`Meter`]: the wait times and run times of all tasks of a pool, in a fixed amount of memory.

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
    /// The largest busy time reported so far, in nanoseconds.
    reported_busy: AtomicU64,
}

/// The histograms of some of the threads.
#[derive(Default)]
pub(crate) struct Times {
    pub(crate) wait: Histogram,
    pub(crate) run: Histogram,
}

impl Meter {
    /// Creates the meter of a pool with at most `threads` threads.
    pub(crate) fn new(clock: Clock, timing: Timing, threads: usize) -> Meter {
        const MOST_STRIPES: usize = 8;
        Meter {
            clock,
            timing: AtomicU8::new(timing as u8),
            stripes: (0..threads.clamp(1, MOST_STRIPES)).map(|_| OnceLock::new()).collect(),
            reported_busy: AtomicU64::new(0),
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
        self.reported_busy.fetch_max(busy, Ordering::Relaxed).max(busy)
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
