//! Back-off between attempts, always with full jitter.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How long a failed task waits before its next attempt.
///
/// The wait is uniform between zero and the limit of the attempt ("full jitter"), so that tasks
/// that failed together do not retry together.
///
/// # Examples
/// ```
/// use millpond_cluster::Backoff;
/// use std::time::Duration;
///
/// let backoff = Backoff::exponential(Duration::from_secs(1), Duration::from_secs(600));
/// assert_eq!(backoff.limit(1), Duration::from_secs(1));
/// assert_eq!(backoff.limit(4), Duration::from_secs(8));
/// assert_eq!(backoff.limit(30), Duration::from_secs(600));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backoff {
    #[serde(rename = "b")]
    base_ms: u64,
    #[serde(rename = "m")]
    max_ms: u64,
}

impl Backoff {
    /// Doubles the limit after each failure, from `base` up to `max`.
    pub const fn exponential(base: Duration, max: Duration) -> Backoff {
        Backoff { base_ms: millis(base), max_ms: millis(max) }
    }

    /// Keeps the same limit after each failure.
    pub const fn constant(limit: Duration) -> Backoff {
        Backoff { base_ms: millis(limit), max_ms: millis(limit) }
    }

    /// The longest wait after this many failures.
    pub fn limit(&self, failures: u32) -> Duration {
        let factor = 1u64.checked_shl(failures.saturating_sub(1)).unwrap_or(u64::MAX);
        Duration::from_millis(self.base_ms.saturating_mul(factor).min(self.max_ms))
    }

    /// Draws a wait after this many failures: between zero and [`limit`](Self::limit).
    pub(crate) fn draw(&self, failures: u32) -> Duration {
        let limit = u64::try_from(self.limit(failures).as_millis()).unwrap_or(u64::MAX);
        Duration::from_millis(fastrand::u64(0..=limit))
    }
}

impl Default for Backoff {
    /// From one second up to ten minutes.
    fn default() -> Backoff {
        Backoff::exponential(Duration::from_secs(1), Duration::from_secs(600))
    }
}

const fn millis(duration: Duration) -> u64 {
    let millis = duration.as_millis();
    // A hundred years: longer than any useful wait, and no overflow when added to the clock.
    const CENTURY: u64 = 100 * 366 * 24 * 3600 * 1000;
    if millis > CENTURY as u128 { CENTURY } else { millis as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limit_doubles_and_stops_at_the_maximum() {
        let backoff = Backoff::exponential(Duration::from_millis(100), Duration::from_millis(350));
        let limits: Vec<u128> = (0..5).map(|failures| backoff.limit(failures).as_millis()).collect();
        assert_eq!(limits, [100, 100, 200, 350, 350]);
        assert_eq!(backoff.limit(u32::MAX).as_millis(), 350);
    }

    #[test]
    fn draws_cover_the_whole_range() {
        let backoff = Backoff::constant(Duration::from_millis(9));
        let mut seen = [false; 10];
        for _ in 0..10_000 {
            seen[usize::try_from(backoff.draw(3).as_millis()).unwrap()] = true;
        }
        assert_eq!(seen, [true; 10]);
    }

    #[test]
    fn endless_wait_is_cut_to_a_century() {
        assert!(Backoff::constant(Duration::MAX).limit(1) < Duration::from_secs(101 * 366 * 24 * 3600));
    }
}
