//! The shared instances and the factory that makes them.

use std::time::Duration;

use super::{BoundedElasticScheduler, Scheduler, fixed};
use crate::config::ConfigError;
use crate::sync::Arc;

/// Makes a scheduler with one thread.
///
/// # Errors
/// None with the default factory.
pub fn new_single(name: &str) -> Result<Arc<dyn Scheduler>, ConfigError> {
    fixed::single(name)
}

/// Makes a scheduler with `n` threads.
///
/// # Errors
/// [`ConfigError`] if `n` is zero.
pub fn new_parallel(n: usize, name: &str) -> Result<Arc<dyn Scheduler>, ConfigError> {
    fixed::parallel(n, name)
}

/// Makes a bounded-elastic scheduler; see [`BoundedElasticScheduler`]. A capacity of `usize::MAX` means no bound.
///
/// # Errors
/// [`ConfigError`] if one of the figures is zero.
pub fn new_bounded_elastic(
    max_threads: usize,
    queue_capacity_per_thread: usize,
    name: &str,
    ttl: Duration,
) -> Result<Arc<dyn Scheduler>, ConfigError> {
    let scheduler = BoundedElasticScheduler::builder()
        .max_threads(max_threads)
        .queue_capacity_per_thread(queue_capacity_per_thread)
        .name(name)
        .ttl(ttl)
        .build()?;
    Ok(Arc::new(scheduler))
}
