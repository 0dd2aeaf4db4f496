//! [`Histogram`]: how often a duration of each size occurred, in fixed memory.
//!
//! Bucket 0 holds everything below 256 ns. Every power of two from 2^8 to 2^43 ns has eight buckets
//! of equal width. The last bucket is open: 2^44 ns (4.9 hours) and more. So a value is known to
//! within an eighth, and the midpoint of its bucket to within a sixteenth. Sum and maximum are
//! exact.
//!
//! Writers add with `fetch_add`, so any number of threads may share a histogram. A reader adds the
//! buckets one by one while writers go on: the count of a snapshot is the sum of the buckets that
//! it read, so the two always agree. Sum and maximum may include a value whose bucket was read
//! before.

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

/// The bucket of a value in nanoseconds.
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

/// The smallest value of a bucket, in nanoseconds.
fn lower(index: usize) -> u64 {
    match index {
        0 => 0,
        index => {
            let (power, part) = ((index - 1) >> SPLIT, (index - 1) & ((1 << SPLIT) - 1));
            ((1 << SPLIT) + part as u64) << (power as u32 + FIRST - SPLIT)
        }
    }
}

/// A histogram that several threads write and read. Fixed size, about 2.3 KiB.
pub(crate) struct Histogram {
    // The atomics of std, also in models: these are statistics, and no protocol rests on them.
    // Relaxed everywhere for the same reason.
    buckets: [AtomicU64; BUCKETS],
    /// In nanoseconds: enough for 584 years.
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

    /// Makes a value that was added before larger by `nanos`.
    pub(crate) fn add_to_sum(&self, nanos: u64) {
        self.sum.fetch_add(nanos, Ordering::Relaxed);
    }

    /// Adds what this histogram contains to `snapshot`.
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
/// It keeps how many values fell into each of 290 buckets, the exact sum and the exact maximum. The
/// buckets are an eighth of a power of two wide, from 256 ns to 4.9 hours. So a
/// [`quantile`](Self::quantile) is right to within 6.25 %, if it is 256 ns or more.
///
/// The values of a window of time are the difference of two snapshots: see [`since`](Self::since).
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
    /// The buckets that are not empty, in order: index and count.
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
    /// The smallest value above the bucket; [`Duration::MAX`] for the last one.
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
    /// for the 99th percentile. `None` if there are no values.
    ///
    /// This is the midpoint of a bucket, and at most [`max`](Self::max). A `q` outside of 0 to 1
    /// counts as the nearest of the two, and a `q` that is not a number as 1.
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

    /// Returns what was added after `earlier`, an older snapshot of the same pool.
    ///
    /// The maximum is exact if it grew in between. Otherwise it is the upper end of the highest
    /// bucket that grew.
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

    /// Returns the buckets that are not empty, in order.
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
    /// Exact if `bound` is the end of a bucket, such as a power of two from 2^8 to 2^44
    /// nanoseconds. Otherwise the values of the bucket that contains `bound` do not count.
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

/// The nanoseconds of a duration; beyond 584 years, the largest number.
fn to_nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Counts single durations, for tests of what reads snapshots.
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
