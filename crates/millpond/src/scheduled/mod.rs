//! [`ScheduledThreadPoolExecutor`]: delayed and periodic tasks.
//!
//! A [`ThreadPoolExecutor`] with a delayed queue does the work, see `pool/queue/delayed.rs` and
//! `pool/periodic.rs`. This module contains the public interface.

mod builder;
mod handle;
mod monitor;
mod periodic;

use std::fmt;
use std::io;
use std::thread::JoinHandle;
use std::time::Duration;

use self::handle::When;
use self::periodic::Periodic;
use crate::ConfigError;
use crate::executor::{RejectReason, Rejected, inherent_executor_methods};
use crate::monitor::{PoolRef, RunState};
use crate::pool::{
    ParkedWorkers, Refusal, Scope, ShutdownPolicy, ThreadPoolExecutor, delegate_executor_service,
    delegate_lifecycle, delegate_to_pool,
};
use crate::sync::{Arc, Weak};
use crate::task::periodic::{Answer, Body, Next, PeriodicTask, Plan, Schedule};
use crate::task::{Task, TaskHandle, TaskId, TaskInfo, TaskOf, TimerTask};
use crate::threads::WorkerBody;
use crate::time::clock::Clock;

pub use self::builder::ScheduledBuilder;
pub use self::handle::ScheduledHandle;

type Decorate = dyn Fn(&TaskInfo, Body) -> Body + Send + Sync;

/// A pool of threads for tasks that run after a delay, or periodically.
///
/// The pool has a fixed number of threads, its core size, and an unbounded queue. The queue is
/// ordered by due time, then by order of submission. A task without a delay is due at once. A task
/// never starts before it is due, and starts later if all threads are busy.
///
/// After [`shutdown`](Self::shutdown), periodic tasks end, and delayed tasks still run when they
/// are due. Two policies change that, one for [periodic] and one for [delayed] tasks.
///
/// [periodic]: Self::set_continue_existing_periodic_tasks_after_shutdown_policy
/// [delayed]: Self::set_execute_existing_delayed_tasks_after_shutdown_policy
///
/// Cloning is cheap. Dropping the last clone shuts the pool down without blocking.
///
/// # Examples
/// ```
/// use millpond::ScheduledThreadPoolExecutor;
/// use std::sync::mpsc;
/// use std::time::Duration;
///
/// let pool = ScheduledThreadPoolExecutor::new(1);
/// let later = pool.schedule(Duration::from_millis(5), || "five milliseconds on")?;
/// assert_eq!(later.join()?, "five milliseconds on");
///
/// let (send, ticks) = mpsc::channel();
/// let mut count = 0;
/// let series = pool.schedule_at_fixed_rate(Duration::ZERO, Duration::from_millis(1), move || {
///     count += 1;
///     let _ = send.send(count);
/// })?;
/// assert_eq!(ticks.iter().take(3).collect::<Vec<_>>(), [1, 2, 3]);
/// series.cancel(false);
/// pool.close();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct ScheduledThreadPoolExecutor {
    pool: ThreadPoolExecutor,
    decorate: Option<Arc<Decorate>>,
}

/// A weak reference to a scheduled pool. Returned by [`ScheduledThreadPoolExecutor::downgrade`];
/// see [`PoolRef`].
///
/// # Examples
/// ```
/// use std::time::Duration;
///
/// let pool = millpond::executors::scheduled(1);
/// let weak = pool.downgrade();
/// assert_eq!(weak.upgrade().unwrap().schedule(Duration::ZERO, || 7)?.join()?, 7);
/// drop(pool);
/// assert!(weak.upgrade().is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct ScheduledPoolRef {
    pool: PoolRef,
    decorate: Option<Weak<Decorate>>,
}

impl ScheduledPoolRef {
    /// Returns the pool, or `None` once its last handle has been dropped; see [`PoolRef::upgrade`].
    pub fn upgrade(&self) -> Option<ScheduledThreadPoolExecutor> {
        let pool = self.pool.upgrade_any()?;
        let decorate = match &self.decorate {
            Some(decorate) => Some(decorate.upgrade()?),
            None => None,
        };
        Some(ScheduledThreadPoolExecutor { pool, decorate })
    }
}

impl fmt::Debug for ScheduledPoolRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ScheduledPoolRef").field(&self.pool).finish()
    }
}

impl ScheduledThreadPoolExecutor {
    /// Builds a pool of `core` threads. With 0, the pool has one thread while tasks are queued, and
    /// none otherwise.
    pub fn new(core: usize) -> Self {
        let built = Self::builder().core_pool_size(core).build();
        built.expect("every core size is valid, and so are the defaults")
    }

    /// Returns a builder with default options.
    pub fn builder() -> ScheduledBuilder {
        ScheduledBuilder::new()
    }

    /// Returns the clock of the pool.
    #[inline]
    pub(crate) fn clock(&self) -> &Clock {
        self.pool.clock()
    }

    /// Runs `f` once, `delay` from now, and returns a handle to its result.
    ///
    /// Does not block. `Duration::ZERO` means now, `Duration::MAX` never.
    ///
    /// # Errors
    /// [`Rejected`] if the pool is shut down, or if it has no thread and none could be started;
    /// [`Rejected::into_task`] returns the work.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    ///
    /// let pool = millpond::executors::scheduled(1);
    /// let handle = pool.schedule(Duration::from_millis(10), || 6 * 7)?;
    /// assert!(handle.remaining_delay() <= Duration::from_millis(10));
    /// assert_eq!(handle.join()?, 42);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn schedule<T: Send + 'static>(
        &self,
        delay: Duration,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> Result<ScheduledHandle<T>, Rejected> {
        let (task, handle) = TimerTask::with_handle(f);
        self.schedule_once(delay, task, handle)
    }

    /// Like [`schedule`](Self::schedule), for a task with attributes such as a name.
    ///
    /// # Errors
    /// See [`schedule`](Self::schedule).
    pub fn schedule_task<T: Send + 'static>(
        &self,
        delay: Duration,
        task: TaskOf<T>,
    ) -> Result<ScheduledHandle<T>, Rejected> {
        let (task, handle) = task.into_parts();
        self.schedule_once(delay, TimerTask::new(task), handle)
    }

    #[inline]
    fn schedule_once<T>(
        &self,
        delay: Duration,
        mut task: TimerTask,
        handle: TaskHandle<T>,
    ) -> Result<ScheduledHandle<T>, Rejected> {
        let clock = self.clock();
        let due = clock.tick_after(delay);
        if self.decorate.is_some() {
            task = TimerTask::new(self.decorated(task.into_task())?);
        }
        // Built before the admission, so that its stores have left the store buffer when the caller
        // reads the handle with loads of other widths.
        let handle = ScheduledHandle::new(handle, When::Once(due, clock.clone()));
        self.pool.execute_at(task, due)?;
        Ok(handle)
    }

    /// Runs `task` once, `delay` from now, without a handle. Does not block.
    ///
    /// # Errors
    /// See [`schedule`](Self::schedule).
    pub fn execute_task_after(&self, delay: Duration, task: Task) -> Result<(), Rejected> {
        let due = self.clock().tick_after(delay);
        let shared = task.cell().cloned();
        self.pool.execute_at(TimerTask::new(self.decorated(task.once())?), due)?;
        if let Some(shared) = shared {
            self.pool.remove_if_cancelled_early(&shared);
        }
        Ok(())
    }

    /// Runs `f` at `initial`, `initial + period`, `initial + 2 * period` and so on. Missed runs are
    /// made up for at once.
    ///
    /// Does not block. Runs never overlap: a run that takes longer than the period delays the next
    /// one. As in the JDK, every missed run takes place later. Cron and most other timers skip
    /// missed runs; for that use [`schedule_at_fixed_rate_task`](Self::schedule_at_fixed_rate_task)
    /// with [`MissedTicks::Skip`](crate::MissedTicks::Skip). The task ends when its handle is
    /// cancelled, when a run panics, or when the pool shuts down.
    ///
    /// # Errors
    /// [`Rejected`] as for [`schedule`](Self::schedule), and with [`RejectReason::ZeroPeriod`] if
    /// the period is zero. [`Rejected::into_task`] returns a task that runs `f` once.
    pub fn schedule_at_fixed_rate(
        &self,
        initial: Duration,
        period: Duration,
        f: impl FnMut() + Send + 'static,
    ) -> Result<ScheduledHandle<()>, Rejected> {
        self.schedule_at_fixed_rate_task(initial, period, PeriodicTask::new(f))
    }

    /// Like [`schedule_at_fixed_rate`](Self::schedule_at_fixed_rate), for a task with a name or
    /// another handling of missed runs.
    ///
    /// # Errors
    /// See [`schedule_at_fixed_rate`](Self::schedule_at_fixed_rate).
    pub fn schedule_at_fixed_rate_task(
        &self,
        initial: Duration,
        period: Duration,
        task: PeriodicTask,
    ) -> Result<ScheduledHandle<()>, Rejected> {
        let rate = Schedule::Rate(period, task.missed);
        self.schedule_periodic(initial, Plan::Fixed(rate), period.is_zero(), task)
    }

    /// Runs `f` periodically: first after `initial`, then `delay` after the end of each run.
    ///
    /// Does not block. In all other respects like
    /// [`schedule_at_fixed_rate`](Self::schedule_at_fixed_rate).
    ///
    /// # Errors
    /// See [`schedule_at_fixed_rate`](Self::schedule_at_fixed_rate).
    pub fn schedule_with_fixed_delay(
        &self,
        initial: Duration,
        delay: Duration,
        f: impl FnMut() + Send + 'static,
    ) -> Result<ScheduledHandle<()>, Rejected> {
        self.schedule_with_fixed_delay_task(initial, delay, PeriodicTask::new(f))
    }

    /// Like [`schedule_with_fixed_delay`](Self::schedule_with_fixed_delay), for a task with a name.
    ///
    /// # Errors
    /// See [`schedule_at_fixed_rate`](Self::schedule_at_fixed_rate).
    pub fn schedule_with_fixed_delay_task(
        &self,
        initial: Duration,
        delay: Duration,
        task: PeriodicTask,
    ) -> Result<ScheduledHandle<()>, Rejected> {
        self.schedule_periodic(initial, Plan::Fixed(Schedule::Delay(delay)), delay.is_zero(), task)
    }

    /// Runs `f` periodically: first after `initial`, then at the time that the previous run
    /// returned.
    ///
    /// For delays that change, such as back-off, jitter and calendars; see the recipes in the guide
    /// `service`. Does not block. Runs never overlap. The handle resolves with `Ok(())` after
    /// [`Next::Stop`], or with the panic of a run, which ends the task. The task can be cancelled,
    /// and ends at a shutdown unless the [policy] for periodic tasks is set. A decorator that does
    /// not call the body of a run stops the task.
    ///
    /// [policy]: Self::set_continue_existing_periodic_tasks_after_shutdown_policy
    ///
    /// # Errors
    /// [`Rejected`] as for [`schedule`](Self::schedule). [`Rejected::into_task`] returns a task
    /// that runs `f` once.
    ///
    /// # Examples
    /// ```
    /// use millpond::{Next, executors};
    /// use std::time::Duration;
    ///
    /// let pool = executors::scheduled(1);
    /// let mut failures = 0;
    /// let connected = pool.schedule_repeating(Duration::ZERO, move || {
    ///     if failures == 3 {
    ///         return Next::Stop; // connected
    ///     }
    ///     failures += 1;
    ///     Next::After(Duration::from_millis(1 << failures)) // 2, 4, 8 ms
    /// })?;
    /// connected.join()?;
    /// assert_eq!(pool.stats().completed, 4);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn schedule_repeating(
        &self,
        initial: Duration,
        mut f: impl FnMut() -> Next + Send + 'static,
    ) -> Result<ScheduledHandle<()>, Rejected> {
        let answer = Answer::new();
        let plan = Plan::Answered(Arc::clone(&answer));
        let task = PeriodicTask::new(move || answer.set(f()));
        self.schedule_periodic(initial, plan, false, task)
    }

    fn schedule_periodic(
        &self,
        initial: Duration,
        plan: Plan,
        has_zero_period: bool,
        task: PeriodicTask,
    ) -> Result<ScheduledHandle<()>, Rejected> {
        let decorate = self.decorate.as_deref().filter(|_| !has_zero_period);
        let clock = self.clock();
        let due = clock.tick_after(initial);
        let periodic = Periodic::new(task, plan, clock, due, decorate);
        if has_zero_period {
            return Err(self.reject(periodic.task, RejectReason::ZeroPeriod));
        }
        if periodic.decorator_panicked {
            return Err(self.reject(periodic.task, RejectReason::CallbackPanicked));
        }
        self.pool.execute_at(TimerTask::new(periodic.task), due)?;
        Ok(ScheduledHandle::new(periodic.handle, When::Periodic(periodic.timing)))
    }

    /// Applies the decorator, if there is one, to a task.
    fn decorated(&self, task: Task) -> Result<Task, Rejected> {
        let Some(decorate) = &self.decorate else {
            return Ok(task);
        };
        let info = task.info().clone();
        let decorated = task.decorate(&mut |body| decorate(&info, body));
        decorated.map_err(|task| self.reject(task, RejectReason::CallbackPanicked))
    }

    fn reject(&self, task: Task, reason: RejectReason) -> Rejected {
        self.pool.reject(Refusal::new(task.once(), reason))
    }

    /// Runs `task` as soon as a thread is free. Does not block.
    ///
    /// # Errors
    /// See [`schedule`](Self::schedule).
    pub fn execute_task(&self, task: Task) -> Result<(), Rejected> {
        self.pool.execute_task(self.decorated(task.once())?)
    }

    inherent_executor_methods!();

    /// Runs `f` with a [`Scope`], which can start tasks that borrow from the caller; see
    /// [`ThreadPoolExecutor::scope`].
    pub fn scope<'env, R>(&self, f: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> R) -> R {
        self.pool.scope(f)
    }

    /// Returns true if cancelling a queued task removes it from the queue at once. Default: false.
    pub fn remove_on_cancel_policy(&self) -> bool {
        self.pool.removes_on_cancel()
    }

    /// Sets whether cancelling a queued task removes it from the queue at once; see
    /// [`ScheduledBuilder::remove_on_cancel_policy`].
    pub fn set_remove_on_cancel_policy(&self, remove: bool) {
        self.pool.set_removes_on_cancel(remove);
    }

    /// Returns true if periodic tasks continue after a shutdown. Default: false.
    pub fn continue_existing_periodic_tasks_after_shutdown_policy(&self) -> bool {
        self.pool.keeps_after_shutdown(ShutdownPolicy::Periodic)
    }

    /// Sets whether periodic tasks continue after a [`shutdown`](Self::shutdown), until they are
    /// cancelled or [`shutdown_now`](Self::shutdown_now) is called. Setting it to false after a
    /// shutdown ends them.
    pub fn set_continue_existing_periodic_tasks_after_shutdown_policy(&self, go_on: bool) {
        self.pool.set_keeps_after_shutdown(ShutdownPolicy::Periodic, go_on);
    }

    /// Returns true if delayed tasks still run after a shutdown. Default: true.
    pub fn execute_existing_delayed_tasks_after_shutdown_policy(&self) -> bool {
        self.pool.keeps_after_shutdown(ShutdownPolicy::Delayed)
    }

    /// Sets whether delayed tasks still run after a [`shutdown`](Self::shutdown), when they are
    /// due.
    ///
    /// If not, tasks that are not due at the shutdown are cancelled. Setting it to false after a
    /// shutdown cancels tasks that are not due at that time.
    pub fn set_execute_existing_delayed_tasks_after_shutdown_policy(&self, run: bool) {
        self.pool.set_keeps_after_shutdown(ShutdownPolicy::Delayed, run);
    }

    /// Replaces the thread factory for threads started from now on; see
    /// [`ScheduledBuilder::thread_factory`].
    pub fn set_thread_factory(
        &self,
        factory: impl Fn(WorkerBody) -> io::Result<JoinHandle<()>> + Send + Sync + 'static,
    ) {
        self.pool.set_thread_factory(factory);
    }

    /// Returns a weak reference, which does not keep the pool running.
    pub fn downgrade(&self) -> ScheduledPoolRef {
        ScheduledPoolRef { pool: self.pool.downgrade(), decorate: self.decorate.as_ref().map(Arc::downgrade) }
    }

    delegate_to_pool! {
        /// Returns the core size: the number of threads that stay when idle.
        pub fn core_pool_size(&self) -> usize;
        /// Sets the core size; see [`ThreadPoolExecutor::set_core_pool_size`].
        ///
        /// # Errors
        /// None; the result type is that of [`ThreadPoolExecutor::set_core_pool_size`].
        pub fn set_core_pool_size(&self, threads: usize) -> Result<(), ConfigError>;
        /// Returns how long an idle thread above the core size waits for work before it exits.
        pub fn keep_alive_time(&self) -> Duration;
        /// Sets how long an idle thread above the core size waits for work before it exits. Threads
        /// that are idle now restart their wait.
        ///
        /// # Errors
        /// [`ConfigError`] if it is zero while core threads time out. Nothing changes then.
        pub fn set_keep_alive_time(&self, time: Duration) -> Result<(), ConfigError>;
        /// Returns true if idle core threads exit too.
        pub fn allows_core_thread_time_out(&self) -> bool;
        /// Sets whether idle core threads exit too, after the keep-alive time.
        ///
        /// # Errors
        /// [`ConfigError`] if `allow` is true and the keep-alive time is zero. Nothing changes
        /// then.
        pub fn allow_core_thread_time_out(&self, allow: bool) -> Result<(), ConfigError>;
        /// Starts one core thread; see [`ThreadPoolExecutor::prestart_core_thread`].
        pub fn prestart_core_thread(&self) -> bool;
        /// Starts all missing core threads and returns how many were started.
        pub fn prestart_all_core_threads(&self) -> usize;
        /// Returns the number of threads.
        pub fn pool_size(&self) -> usize;
        /// Returns the number of threads that run a task.
        pub fn active_count(&self) -> usize;
        /// Returns the largest number of threads the pool has had.
        pub fn largest_pool_size(&self) -> usize;
        /// Returns the number of finished, running and queued runs; see
        /// [`ThreadPoolExecutor::task_count`].
        pub fn task_count(&self) -> u64;
        /// Returns the number of finished runs: each run of a periodic task, and cancelled tasks
        /// that stayed in the queue until they were due.
        pub fn completed_task_count(&self) -> u64;
        /// Returns the number of tasks that wait for their due time or for a thread.
        pub fn queued_count(&self) -> usize;
        /// Returns the ids of the queued tasks, in the order of their due times.
        pub fn queued_tasks(&self) -> Vec<TaskId>;
        /// Returns the run state.
        pub fn state(&self) -> RunState;
        /// Returns the parked workers, for drivers of deterministic tests.
        #[doc(hidden)]
        pub fn parked_workers(&self) -> ParkedWorkers;
        /// Removes a queued task; its handle resolves as abandoned. Returns false if it is not
        /// queued, for example because it is running.
        pub fn remove(&self, id: TaskId) -> bool;
        /// Removes all cancelled tasks from the queue and returns their number.
        pub fn purge(&self) -> usize;
        /// Returns true from the beginning of a shutdown until the pool has terminated.
        pub fn is_terminating(&self) -> bool;
        /// Shuts the pool down: rejects new tasks. By default cancels periodic tasks and lets
        /// delayed tasks run. Does not block.
        pub fn shutdown(&self);
        /// Rejects new tasks, interrupts running tasks and returns the queued tasks, in the order
        /// of their due times. A periodic task that is running is cancelled when its run ends. Does
        /// not block.
        ///
        /// The returned tasks can be run or submitted elsewhere; a periodic task then runs once
        /// more. Dropping a task resolves its handle as abandoned.
        pub fn shutdown_now(&self) -> Vec<Task>;
    }

    delegate_lifecycle!();
}

delegate_executor_service!(ScheduledThreadPoolExecutor);

#[cfg(all(test, not(loom)))]
mod tests;
