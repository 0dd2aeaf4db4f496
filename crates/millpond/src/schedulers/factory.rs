//! Who makes schedulers: the factory that users may replace, and the functions that ask it.
//!
//! Tests are why it can be replaced: code that calls [`parallel`](super::parallel) or [`new_single`] gets what
//! the test wants it to get, and a [`Snapshot`] puts everything back.

use std::fmt;
use std::time::Duration;

use super::shared::{self, Instances};
use super::{BoundedElasticScheduler, Scheduler, fixed};
use crate::config::ConfigError;
use crate::panic::catch_value;
use crate::sync::Arc;

/// Makes the schedulers of [`new_single`], [`new_parallel`] and [`new_bounded_elastic`], and the shared ones.
///
/// Each method makes what the library makes, unless it is replaced. One that wants to build on that calls
/// [`DefaultFactory`]: the functions of this module would come back to the factory.
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
    /// [`ConfigError`] if that cannot be.
    fn new_single(&self, name: &str) -> Result<Arc<dyn Scheduler>, ConfigError> {
        fixed::single(name)
    }

    /// Makes a scheduler with `n` threads.
    ///
    /// # Errors
    /// [`ConfigError`] if that cannot be.
    fn new_parallel(&self, n: usize, name: &str) -> Result<Arc<dyn Scheduler>, ConfigError> {
        fixed::parallel(n, name)
    }

    /// Makes a bounded-elastic scheduler.
    ///
    /// # Errors
    /// [`ConfigError`] if that cannot be.
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

/// The factory in force unless another was set.
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

/// Calls a factory. None of our locks may be held; its panic becomes an error.
pub(super) fn call(
    make: impl FnOnce() -> Result<Arc<dyn Scheduler>, ConfigError>,
) -> Result<Arc<dyn Scheduler>, ConfigError> {
    catch_value(make).unwrap_or(Err(ConfigError::FactoryPanicked))
}

/// Makes a scheduler with one thread, started with its first task and called after `name`. The factory in force makes it.
///
/// # Errors
/// [`ConfigError`] if `name` has a NUL, or what the factory says.
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

/// Makes a scheduler with `n` threads, each with a line of its own: work is dealt out by turns, and a worker stays
/// with its thread. The factory in force makes it.
///
/// # Errors
/// [`ConfigError`] if `n` is zero or `name` has a NUL, or what the factory says.
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

/// Makes a bounded-elastic scheduler; see [`BoundedElasticScheduler`]. A capacity of `usize::MAX` means no bound. The
/// factory in force makes it.
///
/// # Errors
/// [`ConfigError`] if one of the figures is zero or `name` has a NUL, or what the factory says.
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

/// Has `factory` make all schedulers from now on. The shared instances are disposed of, as by
/// [`shutdown_now`](super::shutdown_now); schedulers that somebody made for himself go on.
///
/// A factory that fails or panics when a shared instance is wanted does no harm: the caller gets one that the
/// default factory made, and the next call asks the factory again.
///
/// # Examples
/// See [`Factory`].
pub fn set_factory(factory: impl Factory) {
    shared::replace(Some(Arc::new(factory)), Instances::default()).dispose();
}

/// Goes back to the [`DefaultFactory`]. The shared instances are disposed of.
///
/// # Examples
/// ```
/// millpond::schedulers::reset_factory();
/// ```
pub fn reset_factory() {
    shared::replace(None, Instances::default()).dispose();
}

/// Has `factory` make all schedulers from now on, and keeps the factory and the shared instances that there were, alive,
/// for [`reset_from`].
///
/// # Examples
/// See [`Factory`].
pub fn set_factory_with_snapshot(factory: impl Factory) -> Snapshot {
    Snapshot { kept: Some(shared::replace(Some(Arc::new(factory)), Instances::default())) }
}

/// Puts back what `snapshot` kept, and disposes of the shared instances that there were meanwhile. Of what it kept,
/// instances that have been disposed of are made anew when they are next asked for.
///
/// # Examples
/// See [`Factory`].
pub fn reset_from(mut snapshot: Snapshot) {
    if let Some(kept) = snapshot.kept.take() {
        let (factory, mut instances) = kept.into_parts();
        let dead = instances.take_disposed();
        shared::replace(factory, instances).dispose();
        drop(dead);
    }
}

/// The factory and the shared instances of an earlier time; see [`set_factory_with_snapshot`].
///
/// One that is dropped without [`reset_from`] disposes of its instances.
#[must_use = "dropping it disposes of the shared instances that it keeps"]
pub struct Snapshot {
    /// There until it is restored.
    kept: Option<shared::Kept>,
}

impl Snapshot {
    /// Disposes of the shared instances that it keeps.
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

    /// Tells whether all the instances that it keeps are disposed of; true if there are none.
    pub fn is_disposed(&self) -> bool {
        self.kept.as_ref().is_none_or(shared::Kept::is_disposed)
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
