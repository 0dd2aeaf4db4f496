//! [`Bounds`]: where the buckets of the exported histograms end.

use std::time::Duration;

/// The first bucket of the library's histograms ends at `1 << SHORTEST` nanoseconds.
const SHORTEST: u32 = 8;
/// The last one begins at `1 << LONGEST` nanoseconds, 4.9 hours, and has no upper end.
const LONGEST: u32 = 44;
/// Each power of two is divided into `1 << DIVISION` buckets.
const DIVISION: u32 = 3;

/// The upper bounds of the buckets of the exported histograms.
///
/// The library's histograms have a few hundred buckets, too many series for each pool. An exporter
/// therefore adds up the buckets between two bounds. Every bound is the end of a library bucket, so
/// the sums are exact: nothing is interpolated.
///
/// A time equal to a bound counts as longer, because a library bucket does not contain its upper
/// end.
///
/// A quantile computed from buckets lies anywhere between two bounds. For twice as many bounds,
/// 2¹⁰, 2¹¹, … 2³⁴ ns, use `Bounds::new((10..=34).map(|power| Duration::from_nanos(1 << power)))`.
///
/// The default is 2¹⁰, 2¹², … 2³⁴ ns: 13 bounds from 1.02 µs to 17.2 s.
///
/// # Examples
/// ```
/// use millpond_prometheus::Bounds;
/// use std::time::Duration;
///
/// let bounds = Bounds::new([1, 10, 100].map(Duration::from_millis));
/// // The next ends of buckets: at most an eighth above what was asked for.
/// let exact = [1_048_576, 10_485_760, 100_663_296].map(Duration::from_nanos);
/// assert!(bounds.iter().eq(&exact));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bounds(Vec<Duration>);

impl Bounds {
    /// Chooses bounds, in any order. Each is raised to the next end of a library bucket, by less
    /// than 12.5 %. Bounds below 256 ns become 256 ns. Bounds above 2⁴⁴ ns (4.9 h) are left out,
    /// because the last bucket has no upper end.
    ///
    /// If no bound remains, the result equals [`none`](Self::none).
    pub fn new(bounds: impl IntoIterator<Item = Duration>) -> Bounds {
        let mut exact: Vec<Duration> = bounds.into_iter().filter_map(next_end).collect();
        exact.sort_unstable();
        exact.dedup();
        Bounds(exact)
    }

    /// Makes no buckets: only sum and count are exported, as a summary without quantiles.
    pub fn none() -> Bounds {
        Bounds(Vec::new())
    }

    /// Returns the bounds, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = &Duration> {
        self.0.iter()
    }

    pub(crate) fn is_none(&self) -> bool {
        self.0.is_empty()
    }
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds((10..=34).step_by(2).map(|power| Duration::from_nanos(1 << power)).collect())
    }
}

/// The shortest end of a bucket that is not below `bound`.
fn next_end(bound: Duration) -> Option<Duration> {
    let nanos = bound.max(Duration::from_nanos(1 << SHORTEST)).as_nanos();
    if nanos > 1 << LONGEST {
        return None;
    }
    let nanos = u64::try_from(nanos).expect("it is at most 1 << LONGEST");
    let width = 1 << (nanos.ilog2() - DIVISION);
    Some(Duration::from_nanos(nanos.next_multiple_of(width)))
}

#[cfg(test)]
mod tests {
    use super::Bounds;
    use std::time::Duration;

    fn nanos(bounds: &Bounds) -> Vec<u128> {
        bounds.iter().map(Duration::as_nanos).collect()
    }

    #[test]
    fn default_has_13_powers_of_two() {
        let default = Bounds::default();
        assert_eq!(default.iter().count(), 13);
        assert_eq!(nanos(&default)[..3], [1024, 4096, 16384]);
        assert_eq!(default, Bounds::new(default.iter().copied()), "all are ends of buckets");
    }

    #[test]
    fn chosen_bounds_are_raised_sorted_and_unique() {
        let chosen = [300, 0, 257, 256, 1000, 1 << 44, (1 << 44) + 1].map(Duration::from_nanos);
        assert_eq!(nanos(&Bounds::new(chosen)), [256, 288, 320, 1024, 1 << 44]);
        assert_eq!(Bounds::new([Duration::MAX]), Bounds::none());
    }
}
