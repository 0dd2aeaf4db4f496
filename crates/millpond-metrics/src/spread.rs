//! A histogram as values for `record_many`: one value for each bucket.
//!
//! The midpoint of a bucket is within 6.25 % of every time in it, but the midpoints do not add up
//! to the true sum, so means would be wrong. The true sum is known. All values therefore move by
//! the same fraction of their buckets until their sum is correct.

use std::time::Duration;

use millpond::monitor::{Bucket, HistogramSnapshot};

/// Calls `record` with a value in seconds and a count, for each bucket.
pub(crate) fn each(histogram: &HistogramSnapshot, mut record: impl FnMut(f64, usize)) {
    let max = histogram.max();
    let position = position(histogram);
    for bucket in histogram.buckets() {
        let (lower, width) = ends(&bucket, max);
        record(lower + position * width, usize::try_from(bucket.count).unwrap_or(usize::MAX));
    }
}

/// Lower end and width of a bucket, in seconds. The last bucket ends with the maximum.
fn ends(bucket: &Bucket, max: Duration) -> (f64, f64) {
    let upper = bucket.upper.min(max.max(bucket.lower));
    (bucket.lower.as_secs_f64(), (upper - bucket.lower).as_secs_f64())
}

/// The position of every value within its bucket: 0 is the lower end, 1 the upper end.
fn position(histogram: &HistogramSnapshot) -> f64 {
    let (mut lowest, mut room) = (0.0, 0.0);
    for bucket in histogram.buckets() {
        let (lower, width) = ends(&bucket, histogram.max());
        lowest += lower * bucket.count as f64;
        room += width * bucket.count as f64;
    }
    if room > 0.0 { ((histogram.sum().as_secs_f64() - lowest) / room).clamp(0.0, 1.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::each;
    use millpond::monitor::HistogramSnapshot;
    use std::time::Duration;

    fn check(times: &[Duration]) {
        let histogram: HistogramSnapshot = times.iter().copied().collect();
        let (mut sum, mut count, mut buckets) = (0.0, 0, histogram.buckets());
        each(&histogram, |value, times| {
            let bucket = buckets.next().unwrap();
            let ends = bucket.lower.as_secs_f64()..=bucket.upper.as_secs_f64();
            assert!(ends.contains(&value), "{value} is outside of {ends:?}");
            sum += value * times as f64;
            count += times;
        });
        let exact = histogram.sum().as_secs_f64();
        assert!((sum - exact).abs() <= 1e-9 * exact, "{sum} instead of {exact} for {times:?}");
        assert_eq!(count, times.len());
    }

    #[test]
    fn values_stay_in_their_buckets_and_keep_sum_and_count() {
        check(&[]);
        check(&[Duration::ZERO]);
        check(&[Duration::from_nanos(255)]);
        check(&[Duration::from_millis(100); 3]);
        check(&[Duration::from_secs(100_000), Duration::from_secs(50_000)]); // the last bucket has no end
        // Several hundred times of all magnitudes.
        let mut nanos: u64 = 1;
        let times: Vec<Duration> = std::iter::repeat_with(|| {
            nanos = nanos.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            Duration::from_nanos(nanos >> 16 >> (nanos % 47))
        })
        .take(500)
        .collect();
        (1..times.len()).step_by(7).for_each(|n| check(&times[..n]));
    }
}
