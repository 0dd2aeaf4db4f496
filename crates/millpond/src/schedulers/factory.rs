//! The [`Factory`] that makes schedulers.
//!
//! It can be replaced for tests: code that calls [`parallel`](super::parallel) or
//! [`new_single`](super::new_single) then gets what the test wants.

use std::time::Duration;

use super::bounded_elastic::BoundedElasticScheduler;
use super::fixed;
use super::scheduler::Scheduler;
use crate::config::ConfigError;
use crate::panic::catch_value;
use crate::sync::Arc;

/// Makes the schedulers of [`new_single`](super::new_single), [`new_parallel`](super::new_parallel)
/// and [`new_bounded_elastic`](super::new_bounded_elastic), and the shared ones.
///
/// Each method defaults to what the library makes. A method that builds on that calls
/// [`DefaultFactory`], because the functions of this module would call the factory again.
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
    /// Makes a scheduler with one thread.
    ///
    /// # Errors
    /// [`ConfigError`] if the arguments are invalid.
    fn new_single(&self, name: &str) -> Result<Arc<dyn Scheduler>, ConfigError> {
        fixed::single(name)
    }

    /// Makes a scheduler with `n` threads.
    ///
    /// # Errors
    /// [`ConfigError`] if the arguments are invalid.
    fn new_parallel(&self, n: usize, name: &str) -> Result<Arc<dyn Scheduler>, ConfigError> {
        fixed::parallel(n, name)
    }

    /// Makes a bounded-elastic scheduler.
    ///
    /// # Errors
    /// [`ConfigError`] if the arguments are invalid.
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

/// The factory in force unless another one was set.
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

/// Calls a factory, which is user code: the caller holds no lock, and a panic becomes an error.
pub(super) fn call(
    make: impl FnOnce() -> Result<Arc<dyn Scheduler>, ConfigError>,
) -> Result<Arc<dyn Scheduler>, ConfigError> {
    catch_value(make).unwrap_or(Err(ConfigError::FactoryPanicked))
}
