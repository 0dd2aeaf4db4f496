//! [`ScheduledThreadPoolExecutor`]: work that runs later, and work that runs again and again.
//!
//! A [`ThreadPoolExecutor`] with a queue in time does the work (`pool/timed.rs`, `pool/series.rs`); here is
//! its face.

mod builder;
mod handle;
mod task;

use std::fmt;
use std::io;
use std::thread::JoinHandle;
use std::time::Duration;

use self::handle::When;
use crate::ConfigError;
use crate::executor::{
    RejectReason, Rejected, inherent_executor_methods, methods_of_its_pool, service_by_its_pool,
};
use crate::interrupt::Interrupted;
use crate::pool::{
    ParkedWorkers, PoolRef, PoolStats, Refusal, RunState, Scope, ShutdownPolicy, ShutdownReport,
    ThreadPoolExecutor,
};
use crate::sync::{Arc, Weak};
use crate::task::periodic::{Answer, Body, Next, PeriodicTask, Plan, Schedule};
use crate::task::{Task, TaskId, TaskInfo, TaskOf, TimerTask};
use crate::threads::WorkerBody;
use crate::time::clock::Clock;

pub use self::builder::ScheduledBuilder;
pub use self::handle::ScheduledHandle;

type Decorate = dyn Fn(&TaskInfo, Body) -> Body + Send + Sync;

/// A pool of threads for work that runs after a delay, or periodically.
///
/// It has as many threads as its core size says, and a queue without bound, ordered by when tasks are due and
/// then by when they were handed in. What is handed in without a delay is due at once. A task never starts
/// before it is due; it starts later if all threads are busy.
///
/// After [`shutdown`](Self::shutdown) series end and delayed tasks still run when their time has come; both
/// can be changed, see
/// [`set_continue_existing_periodic_tasks_after_shutdown_policy`](Self::set_continue_existing_periodic_tasks_after_shutdown_policy)
/// and
/// [`set_execute_existing_delayed_tasks_after_shutdown_policy`](Self::set_execute_existing_delayed_tasks_after_shutdown_policy).
///
/// This is a cheap handle. When the last clone is dropped the pool shuts down in good order, without blocking.
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

/// A reference to a scheduled pool that does not keep it running, as [`PoolRef`] is to a plain one. Made by
/// [`ScheduledThreadPoolExecutor::downgrade`].
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
    /// The pool, unless its last handle was dropped; see [`PoolRef::upgrade`].
    pub fn upgrade(&self) -> Option<ScheduledThreadPoolExecutor> {
        let pool = self.pool.upgrade()?;
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
    /// A pool of `core` threads. With 0 there is one while tasks wait, and none when there are none.
    pub fn new(core: usize) -> Self {
        let built = Self::builder().core_pool_size(core).build();
        built.expect("every core size will do, and the rest are defaults")
    }

    /// Begins the making of a pool.
    pub fn builder() -> ScheduledBuilder {
        ScheduledBuilder::new()
    }

    /// Where it takes the time from.
    #[inline]
    pub(crate) fn clock(&self) -> &Clock {
        self.pool.clock()
    }

    // ---- giving it work

    /// Runs `f` once, `delay` from now, and returns a handle to its result.
    ///
    /// Does not block. `Duration::ZERO` means now, `Duration::MAX` never.
    ///
    /// # Errors
    /// [`Rejected`] if the pool is shut down, or if it has no thread and none could be started;
    /// [`Rejected::into_task`] gives the work back.
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
        self.schedule_task(delay, TaskOf::new_timer(f))
    }

    /// As [`schedule`](Self::schedule), for a task that may have a name.
    ///
    /// # Errors
    /// As [`schedule`](Self::schedule).
    #[inline]
    pub fn schedule_task<T: Send + 'static>(
        &self,
        delay: Duration,
        task: TaskOf<T>,
    ) -> Result<ScheduledHandle<T>, Rejected> {
        let clock = self.clock();
        let due = clock.tick_after(delay);
        let (held, handle) = if self.decorate.is_none() {
            task.into_held()
        } else {
            let (task, handle) = task.into_parts();
            (TimerTask::new(self.decorated(task)?), handle)
        };
        // Made before: who gets it reads it at once, in other pieces than it was written in, and would have to wait until what was
        // just written has come to the cache.
        let handle = ScheduledHandle::new(handle, When::Once(due, clock.clone()));
        self.pool.execute_at(held, due)?;
        Ok(handle)
    }

    /// Runs `task` once, `delay` from now, without a handle.
    ///
    /// # Errors
    /// As [`schedule`](Self::schedule).
    pub fn execute_task_after(&self, delay: Duration, task: Task) -> Result<(), Rejected> {
        let due = self.clock().tick_after(delay);
        let shared = task.cell().cloned();
        self.pool.execute_at(TimerTask::new(self.decorated(task.once())?), due)?;
        if let Some(shared) = shared {
            self.pool.remove_if_cancelled_early(&shared);
        }
        Ok(())
    }

    /// Runs `f` at `initial`, `initial + period`, `initial + 2 * period` and so on, and makes up for missed
    /// runs by running them at once.
    ///
    /// Runs never overlap. One that takes longer than the period delays the next. As in the JDK, every missed
    /// run happens later; cron and most other timers leave them out. For that use
    /// [`schedule_at_fixed_rate_task`](Self::schedule_at_fixed_rate_task) with
    /// [`MissedTicks::Skip`](crate::MissedTicks::Skip). The series ends when its handle is cancelled, when a
    /// run panics, or with the pool.
    ///
    /// # Errors
    /// [`Rejected`] as for [`schedule`](Self::schedule), and with [`RejectReason::ZeroPeriod`] if the period is zero.
    /// [`Rejected::into_task`] gives a task that runs `f` once.
    pub fn schedule_at_fixed_rate(
        &self,
        initial: Duration,
        period: Duration,
        f: impl FnMut() + Send + 'static,
    ) -> Result<ScheduledHandle<()>, Rejected> {
        self.schedule_at_fixed_rate_task(initial, period, PeriodicTask::new(f))
    }

    /// As [`schedule_at_fixed_rate`](Self::schedule_at_fixed_rate), for a task that has a name or says
    /// what is to be done about missed runs.
    ///
    /// # Errors
    /// As [`schedule_at_fixed_rate`](Self::schedule_at_fixed_rate).
    pub fn schedule_at_fixed_rate_task(
        &self,
        initial: Duration,
        period: Duration,
        task: PeriodicTask,
    ) -> Result<ScheduledHandle<()>, Rejected> {
        let rhythm = Schedule::Rate(period, task.missed);
        self.schedule_series(initial, Plan::Fixed(rhythm), period.is_zero(), task)
    }

    /// Runs `f` again and again: first after `initial`, then each time `delay` after the run before has ended.
    ///
    /// # Errors
    /// As [`schedule_at_fixed_rate`](Self::schedule_at_fixed_rate).
    pub fn schedule_with_fixed_delay(
        &self,
        initial: Duration,
        delay: Duration,
        f: impl FnMut() + Send + 'static,
    ) -> Result<ScheduledHandle<()>, Rejected> {
        self.schedule_with_fixed_delay_task(initial, delay, PeriodicTask::new(f))
    }

    /// As [`schedule_with_fixed_delay`](Self::schedule_with_fixed_delay), for a task that may have a name.
    ///
    /// # Errors
    /// As [`schedule_at_fixed_rate`](Self::schedule_at_fixed_rate).
    pub fn schedule_with_fixed_delay_task(
        &self,
        initial: Duration,
        delay: Duration,
        task: PeriodicTask,
    ) -> Result<ScheduledHandle<()>, Rejected> {
        self.schedule_series(initial, Plan::Fixed(Schedule::Delay(delay)), delay.is_zero(), task)
    }

    /// Runs `f` again and again: first after `initial`, then whenever the run before has answered. For delays
    /// that change: back-off, jitter, calendars; see the recipes in the guide `service`.
    ///
    /// Does not block. Runs never overlap. The handle resolves with `Ok(())` after [`Next::Stop`], with the
    /// panic of a run, which ends the series, or as that of any series: it can be cancelled, and ends at a
    /// shutdown unless
    /// [`set_continue_existing_periodic_tasks_after_shutdown_policy`](Self::set_continue_existing_periodic_tasks_after_shutdown_policy)
    /// says otherwise. A decorator that does not call the body of a run stops the series.
    ///
    /// # Errors
    /// [`Rejected`] as for [`schedule`](Self::schedule). [`Rejected::into_task`] gives a task that runs `f` once.
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
        self.schedule_series(initial, plan, false, task)
    }

    fn schedule_series(
        &self,
        initial: Duration,
        plan: Plan,
        endless: bool,
        task: PeriodicTask,
    ) -> Result<ScheduledHandle<()>, Rejected> {
        let decorate = self.decorate.as_deref().filter(|_| !endless);
        let clock = self.clock();
        let due = clock.tick_after(initial);
        let series = task::series(task, plan, clock, due, decorate);
        if endless {
            return Err(self.reject(series.task, RejectReason::ZeroPeriod));
        }
        if series.decorator_panicked {
            return Err(self.reject(series.task, RejectReason::CallbackPanicked));
        }
        self.pool.execute_at(TimerTask::new(series.task), due)?;
        Ok(ScheduledHandle::new(series.handle, When::Series(series.timing)))
    }

    /// Puts the decorator around a task.
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
    /// As [`schedule`](Self::schedule).
    pub fn execute_task(&self, task: Task) -> Result<(), Rejected> {
        self.pool.execute_task(self.decorated(task.once())?)
    }

    inherent_executor_methods!();

    /// Runs `f` with a [`Scope`] from which tasks can be started that borrow from the caller; see
    /// [`ThreadPoolExecutor::scope`].
    pub fn scope<'env, R>(&self, f: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> R) -> R {
        self.pool.scope(f)
    }

    // ---- policies

    /// Tells whether cancelling a waiting task takes it out of the queue at once. Default: false.
    pub fn remove_on_cancel_policy(&self) -> bool {
        self.pool.removes_on_cancel()
    }

    /// Sets whether cancelling a waiting task takes it out of the queue at once; see
    /// [`ScheduledBuilder::remove_on_cancel_policy`].
    pub fn set_remove_on_cancel_policy(&self, remove: bool) {
        self.pool.set_removes_on_cancel(remove);
    }

    /// Tells whether series go on after a shutdown. Default: false.
    pub fn continue_existing_periodic_tasks_after_shutdown_policy(&self) -> bool {
        self.pool.keeps_after_shutdown(ShutdownPolicy::Periodic)
    }

    /// Sets whether series go on after a [`shutdown`](Self::shutdown), until they are cancelled or the pool
    /// is stopped by
    /// [`shutdown_now`](Self::shutdown_now). Setting it to false after a shutdown ends them.
    pub fn set_continue_existing_periodic_tasks_after_shutdown_policy(&self, go_on: bool) {
        self.pool.set_keeps_after_shutdown(ShutdownPolicy::Periodic, go_on);
    }

    /// Tells whether delayed tasks still run after a shutdown. Default: true.
    pub fn execute_existing_delayed_tasks_after_shutdown_policy(&self) -> bool {
        self.pool.keeps_after_shutdown(ShutdownPolicy::Delayed)
    }

    /// Sets whether delayed tasks still run after a [`shutdown`](Self::shutdown), when they are due. If not,
    /// those that are not due are cancelled. Setting it to false after a shutdown cancels what is not due
    /// then.
    pub fn set_execute_existing_delayed_tasks_after_shutdown_policy(&self, run: bool) {
        self.pool.set_keeps_after_shutdown(ShutdownPolicy::Delayed, run);
    }

    /// Replaces the thread factory, for threads started from now on; see [`ScheduledBuilder::thread_factory`].
    pub fn set_thread_factory(
        &self,
        factory: impl Fn(WorkerBody) -> io::Result<JoinHandle<()>> + Send + Sync + 'static,
    ) {
        self.pool.set_thread_factory(factory);
    }

    /// A reference that does not keep the pool running.
    pub fn downgrade(&self) -> ScheduledPoolRef {
        ScheduledPoolRef { pool: self.pool.downgrade(), decorate: self.decorate.as_ref().map(Arc::downgrade) }
    }

    /// A future that is ready when the pool has terminated; see [`ThreadPoolExecutor::terminated`].
    pub fn terminated(&self) -> impl Future<Output = ()> + Send + Sync + Unpin + 'static + use<> {
        self.pool.terminated()
    }

    methods_of_its_pool! {
        // ---- settings

        /// The number of threads that are kept.
        pub fn core_pool_size(&self) -> usize;
        /// Sets the core size. Raising it starts threads for waiting tasks; lowering it lets surplus threads
        /// leave when they have been idle for the keep-alive time.
        ///
        /// # Errors
        /// None; the result is that of [`ThreadPoolExecutor::set_core_pool_size`].
        pub fn set_core_pool_size(&self, threads: usize) -> Result<(), ConfigError>;
        /// How long a surplus thread waits for work before it leaves.
        pub fn keep_alive_time(&self) -> Duration;
        /// Sets how long a surplus thread waits for work before it leaves. Those that wait now begin anew.
        ///
        /// # Errors
        /// [`ConfigError`] if it is zero while core threads time out; nothing changes then.
        pub fn set_keep_alive_time(&self, time: Duration) -> Result<(), ConfigError>;
        /// Tells whether idle core threads leave too.
        pub fn allows_core_thread_time_out(&self) -> bool;
        /// Sets whether idle core threads leave too, after the keep-alive time.
        ///
        /// # Errors
        /// [`ConfigError`] if they should and the keep-alive time is zero; nothing changes then.
        pub fn allow_core_thread_time_out(&self, allow: bool) -> Result<(), ConfigError>;
        /// Starts one core thread that waits for work. False: the core size is reached, or a thread could not be
        /// started, or the pool is shut down.
        pub fn prestart_core_thread(&self) -> bool;
        /// Starts all missing core threads, and returns how many those were.
        pub fn prestart_all_core_threads(&self) -> usize;

        // ---- looking at it

        /// The number of threads now.
        pub fn pool_size(&self) -> usize;
        /// The number of threads that run a task now.
        pub fn active_count(&self) -> usize;
        /// The most threads that there ever were.
        pub fn largest_pool_size(&self) -> usize;
        /// The number of runs that are finished, going on and waiting; see [`ThreadPoolExecutor::task_count`].
        pub fn task_count(&self) -> u64;
        /// The number of runs that workers are through with: each run of a series, and also cancelled tasks
        /// that stayed in the queue until they were due.
        pub fn completed_task_count(&self) -> u64;
        /// The number of tasks and series that wait, for their time or for a thread.
        pub fn queued_count(&self) -> usize;
        /// The ids of the tasks and series that wait, in the order in which they are due.
        pub fn queued_tasks(&self) -> Vec<TaskId>;
        /// How far the pool's life has come.
        pub fn state(&self) -> RunState;
        /// One look at all figures. Each run of a series counts as submitted when it is queued, and ends like
        /// a task.
        pub fn stats(&self) -> PoolStats;
        /// The workers that sleep, for drivers of deterministic tests.
        #[doc(hidden)]
        pub fn parked_workers(&self) -> ParkedWorkers;

        // ---- taking work back

        /// Takes a waiting task or series out of the queue; its handle resolves as abandoned. False: it does
        /// not wait there, perhaps because it runs.
        pub fn remove(&self, id: TaskId) -> bool;
        /// Takes all cancelled tasks out of the queue, and returns how many those were.
        pub fn purge(&self) -> usize;

        // ---- ending it

        /// Takes no more tasks. By default series are cancelled and delayed tasks still run. Does not wait.
        pub fn shutdown(&self);
        /// Takes no more tasks, interrupts the running ones and returns those that wait, in the order in
        /// which they are due. A series that runs is cancelled when its run ends.
        ///
        /// The returned tasks can be run by hand or submitted elsewhere; a series then runs once more.
        /// Dropping one resolves its handle as abandoned.
        pub fn shutdown_now(&self) -> Vec<Task>;
        /// Tells whether a shutdown has begun.
        pub fn is_shutdown(&self) -> bool;
        /// Tells whether a shutdown has begun and not yet come to its end.
        pub fn is_terminating(&self) -> bool;
        /// Tells whether all tasks and workers have ended after a shutdown.
        pub fn is_terminated(&self) -> bool;
        /// Waits until terminated, at most `timeout` of real time; true if it is. Completion wins over a
        /// pending interrupt.
        ///
        /// # Errors
        /// [`Interrupted`] if the calling thread is interrupted while it has to wait.
        pub fn await_termination(&self, timeout: Duration) -> Result<bool, Interrupted>;
        /// Waits until no task is running and none is due, at most `timeout`; see
        /// [`ThreadPoolExecutor::wait_idle`].
        ///
        /// # Errors
        /// [`Interrupted`] if the calling thread is interrupted while it has to wait.
        pub fn wait_idle(&self, timeout: Duration) -> Result<bool, Interrupted>;
        /// Shuts down and waits for all tasks to end, also delayed ones that are still to run; see
        /// [`ExecutorService::close`](crate::ExecutorService::close).
        ///
        /// Called by a task of this pool it does not wait, for it would wait for itself.
        pub fn close(&self);
        /// Shuts down in two steps; see [`ThreadPoolExecutor::shutdown_gracefully`].
        pub fn shutdown_gracefully(&self, grace: Duration, force: Duration) -> ShutdownReport;
    }
}

service_by_its_pool!(ScheduledThreadPoolExecutor);
