//! [`VirtualTimeScheduler`]: a scheduler whose time is advanced by hand, for tests of code that
//! waits.
//!
//! There is one queue, ordered by due time and then by submission, and no thread: the thread that
//! advances the time runs the due work. An [`Instance`](instance::Instance) is one scheduler as its
//! user sees it. Instances are the [`VirtualTimeScheduler`] itself and each scheduler that code
//! under test creates while it is installed. They share the queue and the time; each has its own
//! end and figures.

mod core;
mod instance;
mod view;

use std::fmt;
use std::time::Duration;

use self::core::Core;
use self::view::View;
use super::factory::Factory;
use super::handle::Handle;
use super::scheduler::Scheduler;
use super::snapshot::{Snapshot, set_factory_with_snapshot};
use crate::config::ConfigError;
use crate::sync::Arc;
use crate::time::clock::Tick;

/// A scheduler whose time stands still until it is advanced. Due work runs on the advancing thread,
/// before the call returns.
///
/// Work runs in order of due time, then of submission. While it runs, [`now`](Self::now) is its due
/// time. Work that is scheduled during an advance and is due within it runs too. Work without a
/// delay waits for the next advance, which may be by zero. A panic of a task is passed to the error
/// hooks, and the advance continues.
///
/// A periodic task with a period of zero runs once whenever the time stops: at each due time of
/// other work, and at the end of each advance. So it does not block the time. A task that submits
/// another one without a delay in each run does block it.
///
/// Advancing the time from inside a task extends the advance under way and returns at once. So does
/// an advance on another thread at the same time. No two tasks run at the same time.
///
/// A graceful end runs waiting work at its due time, so a thread has to advance the time.
/// Decorators are not called, because there are no slots.
///
/// # Examples
/// ```
/// use millpond::schedulers::{self, SchedulerExt, VirtualTimeScheduler};
/// use std::time::Duration;
///
/// let (time, before) = VirtualTimeScheduler::install();
/// let minutes = Duration::from_secs(300);
/// let tea = schedulers::parallel().schedule_after(minutes, || println!("tea is ready"))?;
/// time.advance_by(Duration::from_secs(299));
/// assert!(!tea.is_disposed());
/// time.advance_by(Duration::from_secs(1));
/// assert!(tea.is_disposed());
/// schedulers::reset_from(before);
/// # Ok::<(), millpond::Rejected>(())
/// ```
#[derive(Clone)]
pub struct VirtualTimeScheduler {
    view: Handle<View>,
}

impl VirtualTimeScheduler {
    /// Creates a scheduler at time zero, without work.
    ///
    /// # Examples
    /// ```
    /// use millpond::schedulers::VirtualTimeScheduler;
    /// use std::time::Duration;
    ///
    /// assert_eq!(VirtualTimeScheduler::new().now(), Duration::ZERO);
    /// ```
    pub fn new() -> VirtualTimeScheduler {
        VirtualTimeScheduler { view: View::root("virtualTime".into()) }
    }

    /// Creates a scheduler and installs its time: the shared schedulers, and all schedulers created
    /// from now on, use it. [`reset_from`](super::reset_from) with the snapshot undoes this.
    ///
    /// # Examples
    /// See [`VirtualTimeScheduler`].
    pub fn install() -> (VirtualTimeScheduler, Snapshot) {
        let time = VirtualTimeScheduler::new();
        let snapshot = set_factory_with_snapshot(VirtualFactory(time.clone()));
        (time, snapshot)
    }

    /// Advances the time by `duration` and runs the due work on the calling thread.
    ///
    /// # Examples
    /// See [`VirtualTimeScheduler`].
    pub fn advance_by(&self, duration: Duration) {
        self.core().advance(|target| target.plus(duration));
    }

    /// Advances the time to `time`, counted from zero, and runs the due work on the calling thread.
    /// A time in the past does not change the time, but due work runs.
    ///
    /// # Examples
    /// ```
    /// use millpond::schedulers::VirtualTimeScheduler;
    /// use std::time::Duration;
    ///
    /// let time = VirtualTimeScheduler::new();
    /// time.advance_to(Duration::from_secs(5));
    /// time.advance_to(Duration::from_secs(2));
    /// assert_eq!(time.now(), Duration::from_secs(5));
    /// ```
    pub fn advance_to(&self, time: Duration) {
        self.core().advance(|target| target.max(Tick::from_nanos(0).plus(time)));
    }

    /// Returns the time, counted from zero.
    ///
    /// # Examples
    /// See [`advance_to`](Self::advance_to).
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.core().now().nanos())
    }

    fn core(&self) -> &Arc<Core> {
        self.view.backend().core()
    }
}

impl Default for VirtualTimeScheduler {
    fn default() -> Self {
        VirtualTimeScheduler::new()
    }
}

impl fmt::Display for VirtualTimeScheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.core().root().name())
    }
}

impl fmt::Debug for VirtualTimeScheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VirtualTimeScheduler")
            .field("now", &self.now())
            .field("stats", &self.stats())
            .finish()
    }
}

forward_scheduler!([] VirtualTimeScheduler, |it| it.view);

/// Creates each scheduler as a separate instance with the same time.
struct VirtualFactory(VirtualTimeScheduler);

impl VirtualFactory {
    fn instance(&self, kind: &str, name: &str) -> Result<Arc<dyn Scheduler>, ConfigError> {
        let name = format!("virtualTime({kind} {name:?})").into();
        Ok(Arc::new(self.0.view.backend().sibling(name)))
    }
}

impl Factory for VirtualFactory {
    fn new_single(&self, name: &str) -> Result<Arc<dyn Scheduler>, ConfigError> {
        self.instance("single", name)
    }

    fn new_parallel(&self, _n: usize, name: &str) -> Result<Arc<dyn Scheduler>, ConfigError> {
        self.instance("parallel", name)
    }

    fn new_bounded_elastic(
        &self,
        _max_threads: usize,
        _queue_capacity_per_thread: usize,
        name: &str,
        _ttl: Duration,
    ) -> Result<Arc<dyn Scheduler>, ConfigError> {
        self.instance("boundedElastic", name)
    }
}
