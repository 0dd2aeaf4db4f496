//! [`ScheduledBuilder`]: the options of a scheduled pool and their defaults.

use std::fmt;
use std::io;
use std::thread::JoinHandle;
use std::time::Duration;

use super::{Decorate, ScheduledThreadPoolExecutor};
use crate::ConfigError;
use crate::monitor::{Propagate, Timing};
use crate::pool::{Builder, Hooks, ShutdownPolicy, ThreadPoolExecutor, WorkQueue};
use crate::sync::Arc;
use crate::task::TaskInfo;
use crate::task::periodic::Body;
use crate::threads::WorkerBody;
use crate::time::clock::Clock;

/// The options of a new [`ScheduledThreadPoolExecutor`].
///
/// By default a pool has one thread and uses the system clock.
#[must_use = "a builder does nothing until `build`"]
pub struct ScheduledBuilder {
    pool: Builder,
    clock: Clock,
    decorate: Option<Arc<Decorate>>,
    keeps_periodic: bool,
    keeps_delayed: bool,
}

impl ScheduledBuilder {
    pub(super) fn new() -> Self {
        let pool = ThreadPoolExecutor::builder()
            .maximum_pool_size(usize::MAX)
            .keep_alive_time(Duration::from_millis(10))
            .remove_on_cancel(false);
        ScheduledBuilder {
            pool,
            clock: Clock::system(),
            decorate: None,
            keeps_periodic: false,
            keeps_delayed: true,
        }
    }

    /// Sets the number of threads. Default: 1. With 0, the pool has one thread while tasks are
    /// queued, and none otherwise.
    pub fn core_pool_size(mut self, threads: usize) -> Self {
        self.pool = self.pool.core_pool_size(threads);
        self
    }

    /// Sets how long an idle thread waits for work before it exits. Default: 10 milliseconds.
    ///
    /// Applies to threads above a core size that was lowered. Applies to all threads with
    /// [`allow_core_thread_time_out`](Self::allow_core_thread_time_out). With a manual clock, the
    /// time is over when it has passed by either clock.
    pub fn keep_alive_time(mut self, time: Duration) -> Self {
        self.pool = self.pool.keep_alive_time(time);
        self
    }

    /// Sets whether idle core threads exit too. One thread stays while tasks are queued. Needs a
    /// keep-alive time above zero. Default: false.
    pub fn allow_core_thread_time_out(mut self, allow: bool) -> Self {
        self.pool = self.pool.allow_core_thread_time_out(allow);
        self
    }

    /// Names the pool; see [`Builder::name`]. Default: `pool-N`.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.pool = self.pool.name(name);
        self
    }

    /// Keeps the pool out of [`registry`](crate::registry); see [`Builder::unregistered`].
    pub fn unregistered(mut self) -> Self {
        self.pool = self.pool.unregistered();
        self
    }

    /// Sets the names of worker threads: this prefix and a number from 1. Default:
    /// `pool-N-thread-`.
    pub fn thread_name_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.pool = self.pool.thread_name_prefix(prefix);
        self
    }

    /// Sets how threads are created; see [`Builder::thread_factory`]. Default: a plain named
    /// thread.
    pub fn thread_factory(
        mut self,
        factory: impl Fn(WorkerBody) -> io::Result<JoinHandle<()>> + Send + Sync + 'static,
    ) -> Self {
        self.pool = self.pool.thread_factory(factory);
        self
    }

    /// Sets the callbacks for events of the pool. Default: none. They see each run of a periodic
    /// task as a task with the same id.
    pub fn hooks(mut self, hooks: impl Hooks) -> Self {
        self.pool = self.pool.hooks(hooks);
        self
    }

    /// Carries a context from the submitting thread to the thread that runs the task; see
    /// [`Builder::propagate`]. Default: none. A periodic task captures its context once, when it is
    /// scheduled.
    pub fn propagate(mut self, propagate: impl Propagate) -> Self {
        self.pool = self.pool.propagate(propagate);
        self
    }

    /// Sets how the pool measures the lateness and run times of tasks. Default:
    /// [`Timing::Sampled`].
    pub fn timing(mut self, timing: Timing) -> Self {
        self.pool = self.pool.timing(timing);
        self
    }

    /// Sets the clock. Default: [`Clock::system`].
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Sets whether cancelling a queued task removes it from the queue at once. Default: false.
    ///
    /// With false, as in the JDK, the closure is dropped at once, but the entry stays until it is
    /// due. Then the hooks are called for it and it counts as completed.
    /// [`purge`](ScheduledThreadPoolExecutor::purge) removes such entries.
    pub fn remove_on_cancel_policy(mut self, remove: bool) -> Self {
        self.pool = self.pool.remove_on_cancel(remove);
        self
    }

    /// Sets whether periodic tasks continue after a shutdown. Default: false.
    ///
    /// [`ScheduledThreadPoolExecutor`] has a setter for this policy too.
    pub fn continue_existing_periodic_tasks_after_shutdown_policy(mut self, go_on: bool) -> Self {
        self.keeps_periodic = go_on;
        self
    }

    /// Sets whether delayed tasks still run after a shutdown, when they are due. Default: true, as
    /// in the JDK, so a graceful shutdown waits for them. With false, tasks that are not due are
    /// cancelled.
    ///
    /// [`ScheduledThreadPoolExecutor`] has a setter for this policy too.
    ///
    /// # Examples
    /// ```
    /// use millpond::{JoinError, ScheduledThreadPoolExecutor};
    /// use std::time::Duration;
    ///
    /// let pool = ScheduledThreadPoolExecutor::builder()
    ///     .execute_existing_delayed_tasks_after_shutdown_policy(false)
    ///     .build()?;
    /// let retry = pool.schedule(Duration::from_secs(3600), || println!("once more"))?;
    /// pool.close(); // does not take an hour
    /// assert!(matches!(retry.join(), Err(JoinError::Cancelled)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn execute_existing_delayed_tasks_after_shutdown_policy(mut self, run: bool) -> Self {
        self.keeps_delayed = run;
        self
    }

    /// Sets a decorator for every submitted task. Default: none.
    ///
    /// The decorator receives a [`Body`] that runs the work, and returns a body that calls it: for
    /// example for logging, context or measurements. The submitting thread calls the decorator once
    /// per task, also for a periodic task. If it panics, the submission is refused with
    /// [`CallbackPanicked`](crate::RejectReason::CallbackPanicked). Tasks of a
    /// [`Scope`](crate::Scope) are not decorated.
    ///
    /// # Examples
    /// ```
    /// use millpond::ScheduledThreadPoolExecutor;
    /// use std::time::Duration;
    ///
    /// let pool = ScheduledThreadPoolExecutor::builder()
    ///     .decorate(|info, mut body| {
    ///         let id = info.id();
    ///         Box::new(move || {
    ///             println!("task {id} begins");
    ///             body();
    ///         })
    ///     })
    ///     .build()?;
    /// assert_eq!(pool.schedule(Duration::from_millis(1), || 6 * 7)?.join()?, 42);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn decorate(mut self, decorate: impl Fn(&TaskInfo, Body) -> Body + Send + Sync + 'static) -> Self {
        self.decorate = Some(Arc::new(decorate));
        self
    }

    /// Builds the pool. Does not start a thread.
    ///
    /// # Errors
    /// [`ConfigError`] if core threads time out and the keep-alive time is zero, or if the name is
    /// invalid.
    pub fn build(self) -> Result<ScheduledThreadPoolExecutor, ConfigError> {
        let pool = self.pool.work_queue(WorkQueue::delayed(self.clock)).build()?;
        pool.set_keeps_after_shutdown(ShutdownPolicy::Periodic, self.keeps_periodic);
        pool.set_keeps_after_shutdown(ShutdownPolicy::Delayed, self.keeps_delayed);
        Ok(ScheduledThreadPoolExecutor { pool, decorate: self.decorate })
    }
}

impl fmt::Debug for ScheduledBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScheduledBuilder")
            .field("pool", &self.pool)
            .field("clock", &self.clock)
            .field("decorated", &self.decorate.is_some())
            .finish()
    }
}
