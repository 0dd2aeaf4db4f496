//! Tests of the histogram: bounds of buckets, quantiles, exactness, differences, concurrent
//! writers.

use proptest::prelude::*;

use super::*;

/// Values of every magnitude, and values around the bounds of buckets.
fn nanos() -> impl Strategy<Value = u64> {
    let any_size = (0..62_u32, any::<u64>()).prop_map(|(power, bits)| bits & ((2 << power) - 1));
    let near_bound = (0..BUCKETS, -1..=1_i64).prop_map(|(at, off)| lower(at).saturating_add_signed(off));
    prop_oneof![any_size, near_bound]
}

fn of(values: &[u64]) -> HistogramSnapshot {
    values.iter().map(|nanos| Duration::from_nanos(*nanos)).collect()
}

fn cases(count: u32) -> ProptestConfig {
    let mut config = ProptestConfig::with_cases(if cfg!(miri) { 2 } else { count });
    config.failure_persistence = None;
    config
}

#[test]
fn there_are_290_buckets_and_their_bounds_grow_by_an_eighth() {
    assert_eq!(BUCKETS, 290);
    assert_eq!([0, 1, 2, 9, 289].map(lower), [0, 256, 288, 512, 1 << 44]);
    for at in 1..BUCKETS - 1 {
        let (from, to) = (lower(at), lower(at + 1));
        assert!(from < to && (to - from) * 8 <= from, "{at}: {from} to {to}");
        assert_eq!((index(from), index(to - 1), index(to)), (at, at, at + 1));
    }
    assert_eq!([0, 255, 256, u64::MAX].map(index), [0, 0, 1, BUCKETS - 1]);
}

#[test]
fn an_empty_histogram_has_no_quantile_and_no_bucket() {
    let empty = HistogramSnapshot::default();
    assert_eq!((empty.count(), empty.sum(), empty.max()), (0, Duration::ZERO, Duration::ZERO));
    assert_eq!((empty.quantile(0.5), empty.buckets().count()), (None, 0));
    assert_eq!(empty.since(&empty), empty);
}

#[test]
fn a_quantile_accepts_every_number() {
    let times = of(&[300, 70_000]);
    let (least, most) = (times.quantile(0.0), times.quantile(1.0));
    assert!(least < most);
    assert_eq!([times.quantile(-1.0), times.quantile(f64::NEG_INFINITY)], [least; 2]);
    assert_eq!([times.quantile(2.0), times.quantile(f64::INFINITY), times.quantile(f64::NAN)], [most; 3]);
}

#[test]
fn many_writers_lose_nothing() {
    const EACH: u64 = if cfg!(miri) { 20 } else { 10_000 };
    let histogram = Histogram::default();
    std::thread::scope(|s| {
        for thread in 1..=4 {
            let histogram = &histogram;
            s.spawn(move || (0..EACH).for_each(|n| histogram.add_total(2 * (thread * 1000 + n), 2)));
        }
    });
    let mut snapshot = HistogramSnapshot::default();
    histogram.add_to(&mut snapshot);
    assert_eq!(snapshot.count(), 8 * EACH);
    let sum = (1..=4).map(|thread| 2 * EACH * (thread * 1000) + EACH * (EACH - 1)).sum();
    assert_eq!(snapshot.sum(), Duration::from_nanos(sum));
    assert_eq!(snapshot.max(), Duration::from_nanos(4000 + EACH - 1));
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn a_value_is_inside_its_bucket(value in nanos()) {
        let times = of(&[value]);
        let bucket = times.buckets().next().expect("one value");
        prop_assert_eq!(bucket.count, 1);
        prop_assert!(bucket.lower <= Duration::from_nanos(value));
        prop_assert!(Duration::from_nanos(value) < bucket.upper);
    }

    /// Compares with the nearest rank of sorted data, to within a sixteenth. Below 256 ns there is
    /// one bucket; from 2^44 ns on, the maximum represents all values.
    #[test]
    fn a_quantile_is_near_that_of_sorted_data(
        mut values in prop::collection::vec(nanos(), 1..200),
        q in 0.0..=1.0_f64,
    ) {
        let times = of(&values);
        values.sort_unstable();
        let rank = ((q * values.len() as f64).ceil() as usize).max(1);
        let exact = values[rank - 1];
        let found = times.quantile(q).expect("not empty").as_nanos() as u64;
        match exact {
            0..256 => prop_assert!(found < 256),
            _ if exact >= 1 << LAST => prop_assert_eq!(found, values[values.len() - 1]),
            _ => prop_assert!(found.abs_diff(exact) * 16 <= exact, "{found} for {exact}"),
        }
    }

    #[test]
    fn sum_maximum_and_counts_are_exact(values in prop::collection::vec(0..1_u64 << 50, 0..200)) {
        let times = of(&values);
        prop_assert_eq!(times.count(), values.len() as u64);
        prop_assert_eq!(times.buckets().map(|bucket| bucket.count).sum::<u64>(), times.count());
        prop_assert_eq!(times.sum(), Duration::from_nanos(values.iter().sum()));
        prop_assert_eq!(times.max(), Duration::from_nanos(values.iter().copied().max().unwrap_or(0)));
        for power in FIRST..=LAST {
            let below = values.iter().filter(|value| **value < 1 << power).count() as u64;
            prop_assert_eq!(times.count_below(Duration::from_nanos(1 << power)), below);
        }
    }

    /// The later snapshot is the sum of two histograms.
    #[test]
    fn a_difference_contains_what_came_later(
        first in prop::collection::vec(0..1_u64 << 50, 0..50),
        second in prop::collection::vec(0..1_u64 << 50, 0..50),
    ) {
        let (histogram, other) = (Histogram::default(), Histogram::default());
        first.iter().for_each(|value| histogram.add(*value));
        let (mut earlier, mut later) = (HistogramSnapshot::default(), HistogramSnapshot::default());
        histogram.add_to(&mut earlier);
        second.iter().for_each(|value| other.add(*value));
        histogram.add_to(&mut later);
        other.add_to(&mut later);
        let (between, expected) = (later.since(&earlier), of(&second));
        prop_assert_eq!(between.count(), expected.count());
        prop_assert_eq!(between.sum(), expected.sum());
        prop_assert!(between.buckets().eq(expected.buckets()));
        prop_assert!(between.max() >= expected.max() && between.max() <= later.max());
        let highest = expected.buckets().last().map_or(Duration::ZERO, |bucket| bucket.upper);
        prop_assert!(between.max() <= highest);
    }
}
