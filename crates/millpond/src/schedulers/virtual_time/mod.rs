//! A scheduler whose time is moved by hand: for tests of code that waits.
//!
//! There is one queue, ordered by due time and then by submission, and no thread: whoever advances the time runs what falls
//! due. A *room* is one scheduler as its user sees it: the [`VirtualTimeScheduler`] itself, and each scheduler
//! that code under test has made while it is installed. They share queue and time, and each has its own end and figures.

mod core;
mod instance;
mod view;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use self::core::Core;
use self::view::View;
use super::factory::{Factory, Snapshot, set_factory_with_snapshot};
use super::{Disposable, PeriodicTask, Scheduler, SchedulerStats, Worker};
use crate::config::ConfigError;
use crate::executor::Rejected;
use crate::interrupt::Interrupted;
use crate::sync::Arc;
use crate::task::Task;
use crate::time::clock::Tick;

/// A scheduler whose time stands still until it is advanced; what falls due runs on the advancing thread, before the
/// call returns.
///
/// Work runs in the order of due times, equal ones in the order of submission, and while it runs [`now`](Self::now) is
/// its due time. Work that is scheduled meanwhile and falls due within the same advance runs too. Work
/// without a delay waits for the next advance, which may be by zero. A task that panics goes to the error hooks, and time
/// goes on.
///
/// A series with a period of zero runs once at each moment that the time stops at: at each due time of other work, and
/// at the end of each advance. So it cannot hold the time up for ever. Work that submits more work without a delay
/// each time it runs can.
///
/// Advancing from inside a task adds to the advance that is under way, and returns at once; so does
/// advancing on another thread meanwhile. Nothing runs at the same time as anything else.
///
/// A graceful end lets what waits run when its time comes, so somebody has to advance it. Decorators are not
/// called, as there are no slots.
///
/// # Examples
/// ```
/// use millpond::schedulers::{self, SchedulerExt, VirtualTimeScheduler};
/// use std::time::Duration;
///
/// let (time, before) = VirtualTimeScheduler::install();
/// let tea = schedulers::parallel().schedule_after(Duration::from_secs(300), || println!("tea is ready"))?;
/// time.advance_by(Duration::from_secs(299));
/// assert!(!tea.is_disposed());
/// time.advance_by(Duration::from_secs(1));
/// assert!(tea.is_disposed());
/// schedulers::reset_from(before);
/// # Ok::<(), millpond::Rejected>(())
/// ```
#[derive(Clone)]
pub struct VirtualTimeScheduler {
    view: View,
}

impl VirtualTimeScheduler {
    /// A scheduler at time zero, with nothing to do.
    ///
    /// # Examples
    /// ```
    /// use millpond::schedulers::VirtualTimeScheduler;
    /// use std::time::Duration;
    ///
    /// assert_eq!(VirtualTimeScheduler::new().now(), Duration::ZERO);
    /// ```
    pub fn new() -> VirtualTimeScheduler {
        VirtualTimeScheduler { view: View::new("virtualTime".into(), Core::new(), true) }
    }

    /// Makes one, and lets all shared schedulers and all that are made from now on go by its time. The snapshot brings back
    /// what was before; see [`reset_from`](super::reset_from).
    ///
    /// # Examples
    /// See [`VirtualTimeScheduler`].
    pub fn install() -> (VirtualTimeScheduler, Snapshot) {
        let time = VirtualTimeScheduler::new();
        let snapshot = set_factory_with_snapshot(VirtualFactory(time.clone()));
        (time, snapshot)
    }

    /// Moves the time forward by `duration`, and runs what falls due.
    ///
    /// # Examples
    /// See [`VirtualTimeScheduler`].
    pub fn advance_by(&self, duration: Duration) {
        self.core().advance(|target| target.plus(duration));
    }

    /// Moves the time forward to `time`, counted from the beginning, and runs what falls due. A time that is past moves
    /// nothing; what is due already runs.
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

    /// How late it is, counted from the beginning.
    ///
    /// # Examples
    /// See [`advance_to`](Self::advance_to).
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.core().lock().now.nanos())
    }

    fn core(&self) -> &Arc<Core> {
        &self.view.handle.room.core
    }
}

impl Default for VirtualTimeScheduler {
    fn default() -> Self {
        VirtualTimeScheduler::new()
    }
}

impl fmt::Display for VirtualTimeScheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.view.handle.room.name)
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

super::forward_scheduler!(VirtualTimeScheduler, view);

/// Gives everybody a room of his own.
struct VirtualFactory(VirtualTimeScheduler);

impl VirtualFactory {
    fn room(&self, kind: &str, name: &str) -> Result<Arc<dyn Scheduler>, ConfigError> {
        let name = format!("virtualTime({kind} {name:?})").into();
        Ok(Arc::new(View::new(name, Arc::clone(self.0.core()), false)))
    }
}

impl Factory for VirtualFactory {
    fn new_single(&self, name: &str) -> Result<Arc<dyn Scheduler>, ConfigError> {
        self.room("single", name)
    }

    fn new_parallel(&self, _n: usize, name: &str) -> Result<Arc<dyn Scheduler>, ConfigError> {
        self.room("parallel", name)
    }

    fn new_bounded_elastic(
        &self,
        _max_threads: usize,
        _queue_capacity_per_thread: usize,
        name: &str,
        _ttl: Duration,
    ) -> Result<Arc<dyn Scheduler>, ConfigError> {
        self.room("boundedElastic", name)
    }
}
