//! The functions that create schedulers with the factory in force, and those that replace the
//! factory.

use std::fmt;
use std::time::Duration;

use super::factory::{Factory, call};
use super::scheduler::Scheduler;
use super::shared::{self, Instances, Replaced};
use crate::config::ConfigError;
use crate::sync::Arc;

/// Creates a scheduler with one thread, using the factory in force. The thread starts with the
/// first task and is named after `name`.
///
/// # Errors
/// Returns [`ConfigError`] if `name` contains a NUL, or the error of the factory.
///
/// # Examples
/// ```
/// use millpond::schedulers::{self, SchedulerExt};
/// use std::time::Duration;
///
/// let log = schedulers::new_single("log")?;
/// let line = log.schedule(|| println!("on thread log-1"))?;
/// assert!(line.wait(Duration::MAX)?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn new_single(name: &str) -> Result<Arc<dyn Scheduler>, ConfigError> {
    let factory = shared::factory();
    call(|| factory.new_single(name))
}

/// Creates a scheduler with `n` threads, each with its own queue, using the factory in force. Tasks
/// are assigned round robin; a worker stays on its thread.
///
/// # Errors
/// Returns [`ConfigError`] if `n` is zero or above 65,536, if `name` contains a NUL, or the error
/// of the factory.
///
/// # Examples
/// ```
/// use millpond::schedulers;
///
/// assert_eq!(schedulers::new_parallel(4, "sum")?.stats().slots, 4);
/// assert!(schedulers::new_parallel(0, "sum").is_err());
/// # Ok::<(), millpond::ConfigError>(())
/// ```
pub fn new_parallel(n: usize, name: &str) -> Result<Arc<dyn Scheduler>, ConfigError> {
    let factory = shared::factory();
    call(|| factory.new_parallel(n, name))
}

/// Creates a bounded-elastic scheduler, using the factory in force; see
/// [`BoundedElasticScheduler`](super::BoundedElasticScheduler). A capacity of `usize::MAX` means no
/// bound.
///
/// # Errors
/// Returns [`ConfigError`] if a number or `ttl` is zero, if `name` contains a NUL, or the error of
/// the factory.
///
/// # Examples
/// ```
/// use millpond::schedulers;
/// use std::time::Duration;
///
/// let files = schedulers::new_bounded_elastic(4, 100, "files", Duration::from_secs(60))?;
/// assert_eq!(files.stats().remaining_capacity, 400);
/// # Ok::<(), millpond::ConfigError>(())
/// ```
pub fn new_bounded_elastic(
    max_threads: usize,
    queue_capacity_per_thread: usize,
    name: &str,
    ttl: Duration,
) -> Result<Arc<dyn Scheduler>, ConfigError> {
    let factory = shared::factory();
    call(|| factory.new_bounded_elastic(max_threads, queue_capacity_per_thread, name, ttl))
}

/// Replaces the factory and disposes of the shared instances, as
/// [`shutdown_now`](super::shutdown_now) does. Schedulers of the `new_` functions are not affected.
///
/// If the factory fails or panics when a shared instance is needed, the caller gets an instance of
/// the default factory. The next call tries the factory again.
///
/// # Examples
/// See [`Factory`].
pub fn set_factory(factory: impl Factory) {
    shared::replace(Some(Arc::new(factory)), Instances::default()).dispose();
}

/// Restores the [`DefaultFactory`](super::DefaultFactory) and disposes of the shared instances.
///
/// # Examples
/// ```
/// millpond::schedulers::reset_factory();
/// ```
pub fn reset_factory() {
    shared::replace(None, Instances::default()).dispose();
}

/// Replaces the factory. The returned snapshot keeps the previous factory and the previous shared
/// instances alive for [`reset_from`].
///
/// # Examples
/// See [`Factory`].
pub fn set_factory_with_snapshot(factory: impl Factory) -> Snapshot {
    Snapshot { kept: Some(shared::replace(Some(Arc::new(factory)), Instances::default())) }
}

/// Restores the factory and the instances of `snapshot`, and disposes of the shared instances
/// created since. Instances of the snapshot that have been disposed are created again on their next
/// use.
///
/// # Examples
/// See [`Factory`].
pub fn reset_from(mut snapshot: Snapshot) {
    if let Some(kept) = snapshot.kept.take() {
        let (factory, mut instances) = kept.into_parts();
        let disposed = instances.take_disposed();
        shared::replace(factory, instances).dispose();
        drop(disposed);
    }
}

/// The previous factory and shared instances; see [`set_factory_with_snapshot`].
///
/// Dropping a snapshot without [`reset_from`] disposes of its instances.
#[must_use = "dropping it disposes of the shared instances that it keeps"]
pub struct Snapshot {
    /// `None` once it is restored.
    kept: Option<Replaced>,
}

impl Snapshot {
    /// Disposes of the shared instances in the snapshot.
    ///
    /// # Examples
    /// ```
    /// use millpond::schedulers::{self, DefaultFactory};
    ///
    /// let old = schedulers::single();
    /// let before = schedulers::set_factory_with_snapshot(DefaultFactory);
    /// before.dispose();
    /// assert!(before.is_disposed());
    /// ```
    pub fn dispose(&self) {
        if let Some(kept) = &self.kept {
            kept.dispose();
        }
    }

    /// Returns true if all instances in the snapshot are disposed, or if there are none.
    pub fn is_disposed(&self) -> bool {
        self.kept.as_ref().is_none_or(Replaced::is_disposed)
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        self.dispose();
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").field("disposed", &self.is_disposed()).finish_non_exhaustive()
    }
}
