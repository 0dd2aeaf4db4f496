//! A histogram of times with buckets of constant relative width: percentiles of any number of tasks
//! need little memory.

use crate::Nanos;

/// Each value below 2^BITS has its own bucket. Above, each octave has 2^BITS buckets.
const BITS: u32 = 10;

/// Counts of times. A bucket is as wide as a thousandth of its values.
#[derive(Debug, Clone, Default)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    sum: f64,
    least: Nanos,
    most: Nanos,
}

impl Histogram {
    /// Counts one value.
    pub fn add(&mut self, value: Nanos) {
        let bucket = bucket(value);
        if bucket >= self.counts.len() {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += 1;
        self.least = if self.total == 0 { value } else { self.least.min(value) };
        self.most = self.most.max(value);
        self.total += 1;
        self.sum += value as f64;
    }

    /// The exact mean in nanoseconds.
    pub fn mean(&self) -> f64 {
        if self.total == 0 { 0.0 } else { self.sum / self.total as f64 }
    }

    /// The exact maximum.
    pub fn most(&self) -> Nanos {
        self.most
    }

    /// The smallest value that is not exceeded by a `share` of all values, within 0.05 %.
    pub fn percentile(&self, share: f64) -> Nanos {
        let rank = ((share * self.total as f64).ceil() as u64).clamp(1, self.total.max(1));
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return middle(bucket).clamp(self.least, self.most);
            }
        }
        self.most
    }

    /// Adds all values of another histogram.
    pub fn merge(&mut self, other: &Histogram) {
        if other.total == 0 {
            return;
        }
        self.counts.resize(self.counts.len().max(other.counts.len()), 0);
        for (mine, others) in self.counts.iter_mut().zip(&other.counts) {
            *mine += others;
        }
        self.least = if self.total == 0 { other.least } else { self.least.min(other.least) };
        self.most = self.most.max(other.most);
        self.total += other.total;
        self.sum += other.sum;
    }

    /// The curve: each non-empty bucket, with the fraction of the values up to it.
    pub fn shares(&self) -> impl Iterator<Item = (Nanos, f64)> {
        let mut seen = 0;
        self.counts.iter().enumerate().filter(|(_, count)| **count > 0).map(move |(bucket, count)| {
            seen += count;
            (middle(bucket).clamp(self.least, self.most), seen as f64 / self.total as f64)
        })
    }
}

fn bucket(value: Nanos) -> usize {
    let octave = (u64::BITS - value.leading_zeros()).saturating_sub(BITS + 1);
    // The leading bit is always set within an octave, so it adds the first bucket of the next.
    ((octave as usize) << BITS) + (value >> octave) as usize
}

fn middle(bucket: usize) -> Nanos {
    let octave = (bucket >> BITS).saturating_sub(1) as u32;
    let from = ((bucket - ((octave as usize) << BITS)) as u64) << octave;
    from + ((1u64 << octave) - 1) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_within_a_two_thousandth_of_the_middle_of_its_bucket() {
        let mut last = 0;
        for value in (0..5000).chain((0..63).map(|bit| 1 << bit)).chain((0..60).map(|bit| (13 << bit) - 1)) {
            let off = middle(bucket(value)).abs_diff(value);
            assert!(off as f64 <= value as f64 / 2000.0, "{value}: {}", middle(bucket(value)));
        }
        for value in 0..100_000 {
            let bucket = bucket(value);
            assert!(bucket == last || bucket == last + 1, "{value}");
            last = bucket;
        }
        assert!(bucket(Nanos::MAX) < 56 << BITS);
    }

    #[test]
    fn percentiles_are_by_the_nearest_rank() {
        let mut histogram = Histogram::default();
        (1..=100).for_each(|value| histogram.add(value));
        assert_eq!(histogram.percentile(0.5), 50);
        assert_eq!(histogram.percentile(0.99), 99);
        assert_eq!((histogram.percentile(1.0), histogram.most()), (100, 100));
        assert_eq!(histogram.mean(), 50.5);
        assert_eq!(Histogram::default().percentile(0.5), 0);
    }

    #[test]
    fn merged_histograms_have_the_percentiles_of_all_values() {
        let (mut low, mut high, mut all) = (Histogram::default(), Histogram::default(), Histogram::default());
        (1..=100).for_each(|value| if value <= 30 { low.add(value) } else { high.add(value) });
        (1..=100).for_each(|value| all.add(value));
        low.merge(&high);
        low.merge(&Histogram::default());
        for share in [0.0, 0.3, 0.99, 1.0] {
            assert_eq!(low.percentile(share), all.percentile(share));
        }
        assert_eq!(low.mean(), all.mean());
    }

    #[test]
    fn equal_values_are_reported_exactly() {
        let mut histogram = Histogram::default();
        (0..10).for_each(|_| histogram.add(20_000_001));
        assert_eq!(histogram.percentile(0.99), 20_000_001);
        assert_eq!(histogram.shares().collect::<Vec<_>>(), [(20_000_001, 1.0)]);
    }
}
