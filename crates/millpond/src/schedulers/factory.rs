//! [`Factory`]: creates the shared schedulers and those of the `new_` functions.
//!
//! Tests can replace it. Code that calls [`parallel`](super::parallel) or
//! [`new_single`](super::new_single) then gets the schedulers of the test.

use std::time::Duration;

use super::bounded_elastic::BoundedElasticScheduler;
use super::fixed;
use super::scheduler::Scheduler;
use crate::config::ConfigError;
use crate::panic::catch_value;
use crate::sync::Arc;

/// Creates the schedulers of [`new_single`](super::new_single),
/// [`new_parallel`](super::new_parallel) and [`new_bounded_elastic`](super::new_bounded_elastic),
/// and the shared ones.
///
/// By default each method creates the scheduler of this library. A method that wraps such a
/// scheduler calls [`DefaultFactory`], because the `new_` functions would call this factory again.
///
/// Threads that need a shared instance at the same time each call the factory. One result becomes
/// the shared instance, and the others are disposed, unless they are the same scheduler: clones of
/// one `Arc` or of one scheduler of this crate.
///
/// # Examples
/// ```
/// use millpond::ConfigError;
/// use millpond::schedulers::{self, DefaultFactory, Factory, Scheduler};
/// use std::sync::Arc;
///
/// /// At most two threads for the parallel scheduler.
/// struct Modest;
/// impl Factory for Modest {
///     fn new_parallel(&self, n: usize, name: &str) -> Result<Arc<dyn Scheduler>, ConfigError> {
///         DefaultFactory.new_parallel(n.min(2), name)
///     }
/// }
/// let before = schedulers::set_factory_with_snapshot(Modest);
/// assert!(schedulers::parallel().stats().max_threads <= 2);
/// schedulers::reset_from(before);
/// ```
pub trait Factory: Send + Sync + 'static {
    /// Creates a scheduler with one thread.
    ///
    /// # Errors
    /// Returns [`ConfigError`] if the arguments are invalid.
    fn new_single(&self, name: &str) -> Result<Arc<dyn Scheduler>, ConfigError> {
        fixed::single(name)
    }

    /// Creates a scheduler with `n` threads.
    ///
    /// # Errors
    /// Returns [`ConfigError`] if the arguments are invalid.
    fn new_parallel(&self, n: usize, name: &str) -> Result<Arc<dyn Scheduler>, ConfigError> {
        fixed::parallel(n, name)
    }

    /// Creates a bounded-elastic scheduler.
    ///
    /// # Errors
    /// Returns [`ConfigError`] if the arguments are invalid.
    fn new_bounded_elastic(
        &self,
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
}

/// The factory that is in force unless another one is set.
///
/// # Examples
/// ```
/// use millpond::schedulers::{DefaultFactory, Factory};
///
/// assert_eq!(DefaultFactory.new_single("io")?.to_string(), r#"single("io")"#);
/// # Ok::<(), millpond::ConfigError>(())
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct DefaultFactory;

impl Factory for DefaultFactory {}

/// Calls a factory, which is user code. The caller must hold no lock. A panic becomes an error.
pub(super) fn call(
    make: impl FnOnce() -> Result<Arc<dyn Scheduler>, ConfigError>,
) -> Result<Arc<dyn Scheduler>, ConfigError> {
    catch_value(make).unwrap_or(Err(ConfigError::FactoryPanicked))
}
