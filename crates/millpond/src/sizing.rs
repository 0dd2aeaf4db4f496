//! Formulas for the number of threads. Start with one of these numbers, then measure and adjust.

use std::time::Duration;

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Returns a number of threads for computing work: one per core, plus one for short waits.
pub fn cpu_bound() -> usize {
    cores() + 1
}

/// Returns a number of threads for waiting work: cores × (1 + wait / compute), rounded up.
///
/// `wait` and `compute` are the two parts of one task's time. A `compute` of zero counts as one
/// nanosecond, because work that never computes would need an infinite number of threads.
///
/// # Examples
/// ```
/// use millpond::sizing;
/// use std::time::Duration;
///
/// let cores = std::thread::available_parallelism()?.get();
/// assert_eq!(sizing::io_bound(Duration::from_millis(90), Duration::from_millis(10)), cores * 10);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn io_bound(wait: Duration, compute: Duration) -> usize {
    io_bound_on(cores(), wait, compute)
}

/// Like [`io_bound`], for a machine with `cores` cores.
///
/// # Examples
/// ```
/// use millpond::sizing;
/// use std::time::Duration;
///
/// assert_eq!(sizing::io_bound_on(8, Duration::from_millis(90), Duration::from_millis(10)), 80);
/// ```
pub fn io_bound_on(cores: usize, wait: Duration, compute: Duration) -> usize {
    let (cores, compute) = (cores as u128, compute.as_nanos().max(1));
    let threads = (wait.as_nanos().saturating_mul(cores)).div_ceil(compute).saturating_add(cores);
    usize::try_from(threads).unwrap_or(usize::MAX)
}

/// Returns a number of threads for a rate of arrivals, by Little's law: arrivals per second × time
/// in the system, rounded up, at least one. A rate that is not a positive number counts as zero.
///
/// # Examples
/// ```
/// use millpond::sizing;
/// use std::time::Duration;
///
/// assert_eq!(sizing::for_rate(200.0, Duration::from_millis(50)), 10);
/// assert_eq!(sizing::for_rate(0.0, Duration::from_millis(50)), 1);
/// ```
pub fn for_rate(arrivals_per_second: impl Into<f64>, latency: Duration) -> usize {
    let busy = arrivals_per_second.into() * latency.as_secs_f64();
    // `max` drops a NaN, and the cast saturates. Subtracting 1e-9 keeps 200/s × 50 ms at 10, not
    // 11.
    (busy - 1e-9).ceil().max(1.0) as usize
}
