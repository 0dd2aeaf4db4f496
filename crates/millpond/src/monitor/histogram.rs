//! [`Histogram`]: counts durations by size, in a fixed amount of memory.
//!
//! Bucket 0 holds all values below 256 ns. Every power of two from 2^8 to 2^43 ns has eight buckets
//! of equal width. The last bucket is open: 2^44 ns (4.9 hours) and more. So a value is known to
//! within an eighth, and the midpoint of its bucket differs from it by at most a sixteenth. Sum and
//! maximum are exact.
//!
//! Writers add with `fetch_add`, so any number of threads may share a histogram. A reader adds up
//! the buckets one by one while writers continue. The count of a snapshot is the sum of the buckets
//! that it read, so the two always agree. Sum and maximum may include values whose bucket was read
//! before they were added.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Values below 2^FIRST ns share bucket 0.
const FIRST: u32 = 8;
/// Values of 2^LAST ns and more share the last bucket.
const LAST: u32 = 44;
/// Buckets per power of two, as a power of two.
const SPLIT: u32 = 3;
const BUCKETS: usize = (((LAST - FIRST) << SPLIT) + 2) as usize;

/// Returns the bucket of a value in nanoseconds.
fn index(nanos: u64) -> usize {
    if nanos < 1 << FIRST {
        return 0;
    }
    if nanos >= 1 << LAST {
        return BUCKETS - 1;
    }
    let power = nanos.ilog2();
    let part = (nanos >> (power - SPLIT)) & ((1 << SPLIT) - 1);
    1 + ((power - FIRST) << SPLIT) as usize + part as usize
}

/// Returns the smallest value of a bucket, in nanoseconds.
fn lower(index: usize) -> u64 {
    match index {
        0 => 0,
        index => {
            let (power, part) = ((index - 1) >> SPLIT, (index - 1) & ((1 << SPLIT) - 1));
            ((1 << SPLIT) + part as u64) << (power as u32 + FIRST - SPLIT)
        }
    }
}

/// A histogram that several threads write and read. Fixed size of about 2.3 KiB.
pub(crate) struct Histogram {
    // Relaxed everywhere: statistics. Atomics of std also in models, because no protocol depends on
    // them.
    buckets: [AtomicU64; BUCKETS],
    /// The sum of all values in nanoseconds, which overflows after 584 years.
    sum: AtomicU64,
    max: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram {
            buckets: [const { AtomicU64::new(0) }; BUCKETS],
            sum: AtomicU64::new(0),
            max: AtomicU64::new(0),
        }
    }
}

impl Histogram {
    /// Adds a value of `nanos` nanoseconds.
    pub(crate) fn add(&self, nanos: u64) {
        self.add_total(nanos, 1);
    }

    /// Adds `count` equal values whose sum is `total` nanoseconds.
    pub(crate) fn add_total(&self, total: u64, count: u64) {
        let Some(each) = total.checked_div(count) else { return };
        self.buckets[index(each)].fetch_add(count, Ordering::Relaxed);
        self.sum.fetch_add(total, Ordering::Relaxed);
        if each > self.max.load(Ordering::Relaxed) {
            self.max.fetch_max(each, Ordering::Relaxed);
        }
    }

    /// Adds `nanos` to the sum, which makes a value that was added before larger.
    pub(crate) fn add_to_sum(&self, nanos: u64) {
        self.sum.fetch_add(nanos, Ordering::Relaxed);
    }

    /// Adds the contents of this histogram to `snapshot`.
    pub(crate) fn add_to(&self, snapshot: &mut HistogramSnapshot) {
        let mut merged = Vec::with_capacity(snapshot.counts.len() + 16);
        let mut others = snapshot.counts.iter().copied().peekable();
        for (index, bucket) in self.buckets.iter().enumerate() {
            let other = others.next_if(|(other, _)| usize::from(*other) == index);
            let count = bucket.load(Ordering::Relaxed) + other.map_or(0, |(_, count)| count);
            if count > 0 {
                merged.push((index as u16, count));
            }
        }
        snapshot.counts = merged;
        snapshot.sum = snapshot.sum.saturating_add(self.sum.load(Ordering::Relaxed));
        snapshot.max = snapshot.max.max(self.max.load(Ordering::Relaxed));
    }
}

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut snapshot = HistogramSnapshot::default();
        self.add_to(&mut snapshot);
        snapshot.fmt(f)
    }
}

/// The contents of a histogram of durations at one moment.
///
/// It contains the number of values in each of 290 buckets, the exact sum and the exact maximum.
/// From 256 ns to 4.9 hours, a bucket is an eighth of a power of two wide. So a
/// [`quantile`](Self::quantile) of 256 ns or more is accurate to within 6.25 %.
///
/// The values of a time window are the difference of two snapshots; see [`since`](Self::since).
///
/// # Examples
/// ```
/// use millpond::monitor::HistogramSnapshot;
/// use std::time::Duration;
///
/// let millis = |n| Duration::from_millis(n);
/// let times: HistogramSnapshot = (1..=100).map(millis).collect();
/// assert_eq!(times.count(), 100);
/// assert_eq!((times.sum(), times.max()), (millis(5050), millis(100)));
/// let median = times.quantile(0.5).unwrap();
/// assert!(millis(46) < median && median < millis(54), "{median:?}");
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct HistogramSnapshot {
    /// The non-empty buckets in order: index and count.
    counts: Vec<(u16, u64)>,
    sum: u64,
    max: u64,
}

/// One bucket of a [`HistogramSnapshot`]: `count` values of at least `lower` and less than `upper`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bucket {
    /// The smallest value of the bucket.
    pub lower: Duration,
    /// The smallest value above the bucket; [`Duration::MAX`] for the last bucket.
    pub upper: Duration,
    /// The number of values.
    pub count: u64,
}

impl HistogramSnapshot {
    /// Returns the number of values.
    pub fn count(&self) -> u64 {
        self.counts.iter().map(|(_, count)| count).sum()
    }

    /// Returns the sum of all values.
    pub fn sum(&self) -> Duration {
        Duration::from_nanos(self.sum)
    }

    /// Returns the largest value; zero if there is none.
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.max)
    }

    /// Returns the value that a share `q` of all values does not exceed: 0.5 for the median, 0.99
    /// for the 99th percentile. Returns `None` if there are no values.
    ///
    /// The result is the midpoint of a bucket, and at most [`max`](Self::max). A `q` below 0 counts
    /// as 0, a `q` above 1 or not a number counts as 1.
    pub fn quantile(&self, q: f64) -> Option<Duration> {
        let count = self.count();
        let q = if q.is_nan() { 1.0 } else { q.clamp(0.0, 1.0) };
        let rank = ((q * count as f64).ceil() as u64).clamp(1, count.max(1));
        let mut below = 0;
        let (index, _) = self.counts.iter().find(|(_, count)| {
            below += count;
            below >= rank
        })?;
        let index = usize::from(*index);
        let value = match index + 1 {
            BUCKETS => self.max,
            next => lower(index).midpoint(lower(next)).min(self.max),
        };
        Some(Duration::from_nanos(value))
    }

    /// Returns the values that were added after `earlier`, an older snapshot of the same pool.
    ///
    /// The maximum is exact if it grew meanwhile. Otherwise it is at most the upper end of the
    /// highest bucket that grew.
    ///
    /// # Examples
    /// ```
    /// # use millpond::monitor::HistogramSnapshot;
    /// # use std::time::Duration;
    /// let millis = |n| Duration::from_millis(n);
    /// let earlier: HistogramSnapshot = [millis(500)].into_iter().collect();
    /// let now: HistogramSnapshot = [millis(500), millis(2), millis(3)].into_iter().collect();
    /// let between = now.since(&earlier);
    /// assert_eq!((between.count(), between.sum()), (2, millis(5)));
    /// assert!(between.max() < millis(4));
    /// ```
    pub fn since(&self, earlier: &Self) -> Self {
        let before = |index: u16| {
            let found = earlier.counts.binary_search_by_key(&index, |(index, _)| *index);
            found.map_or(0, |at| earlier.counts[at].1)
        };
        let grown = self.counts.iter().map(|(index, count)| (*index, count.saturating_sub(before(*index))));
        let counts: Vec<_> = grown.filter(|(_, count)| *count > 0).collect();
        let top = counts.last().map_or(0, |(index, _)| match usize::from(*index) + 1 {
            BUCKETS => u64::MAX,
            next => lower(next) - 1,
        });
        let max = if self.max > earlier.max { self.max } else { self.max.min(top) };
        HistogramSnapshot { counts, sum: self.sum.saturating_sub(earlier.sum), max }
    }

    /// Returns the non-empty buckets in order.
    pub fn buckets(&self) -> impl Iterator<Item = Bucket> {
        self.counts.iter().map(|(index, count)| {
            let index = usize::from(*index);
            let upper = match index + 1 {
                BUCKETS => Duration::MAX,
                next => Duration::from_nanos(lower(next)),
            };
            Bucket { lower: Duration::from_nanos(lower(index)), upper, count: *count }
        })
    }

    /// Returns how many values are less than `bound`.
    ///
    /// The result is exact if `bound` is the end of a bucket, such as a power of two from 2^8 to
    /// 2^44 nanoseconds. Otherwise the values in the bucket that contains `bound` are not counted.
    ///
    /// # Examples
    /// ```
    /// # use millpond::monitor::HistogramSnapshot;
    /// # use std::time::Duration;
    /// let nanos = [300, 1023, 1024, 5000].map(Duration::from_nanos);
    /// let times: HistogramSnapshot = nanos.into_iter().collect();
    /// assert_eq!(times.count_below(Duration::from_nanos(1024)), 2);
    /// ```
    pub fn count_below(&self, bound: Duration) -> u64 {
        let whole = index(to_nanos(bound));
        self.counts.iter().take_while(|(index, _)| usize::from(*index) < whole).map(|(_, count)| count).sum()
    }
}

/// Returns the nanoseconds of a duration, or `u64::MAX` if it is longer than 584 years.
fn to_nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Counts single durations, for tests of code that reads snapshots.
impl FromIterator<Duration> for HistogramSnapshot {
    fn from_iter<I: IntoIterator<Item = Duration>>(durations: I) -> Self {
        let (histogram, mut snapshot) = (Histogram::default(), HistogramSnapshot::default());
        durations.into_iter().for_each(|duration| histogram.add(to_nanos(duration)));
        histogram.add_to(&mut snapshot);
        snapshot
    }
}

impl fmt::Debug for HistogramSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HistogramSnapshot")
            .field("count", &self.count())
            .field("sum", &self.sum())
            .field("max", &self.max())
            .field("p50", &self.quantile(0.5).unwrap_or_default())
            .field("p99", &self.quantile(0.99).unwrap_or_default())
            .finish()
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
