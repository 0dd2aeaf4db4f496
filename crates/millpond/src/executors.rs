//! Factories for the usual pools.
//!
//! | factory | threads | what waits | for |
//! |---|---|---|---|
//! | [`bounded`] | `core` to `max` | at most `queue` tasks, then it rejects | a service: begin with this one |
//! | [`fixed`] | always the same | without a bound | work whose amount is bounded elsewhere |
//! | [`cached`] | as many as there are tasks at once | nothing | few tasks, or short ones |
//! | [`single`] | one | without a bound | tasks that must keep their order |
//! | [`scheduled`], [`single_scheduled`] | always the same, or one | without a bound | work that runs later, or again and again |
//!
//! Everything else is for [`ThreadPoolExecutor::builder`].

use std::time::Duration;

use crate::ConfigError;
use crate::executor::{Rejected, TrySubmitError, methods_of_its_pool, service_by_its_pool};
use crate::interrupt::Interrupted;
use crate::pool::{PoolStats, ShutdownReport, ThreadPoolExecutor, WorkQueue};
use crate::scheduled::{ScheduledHandle, ScheduledThreadPoolExecutor};
use crate::task::Task;
use crate::task::TaskHandle;
use crate::task::periodic::{Next, PeriodicTask};

/// A pool of `threads` threads with an unbounded queue: it never rejects while it runs, and its queue can grow
/// without end.
///
/// # Errors
/// [`ConfigError`] for 0 threads.
///
/// # Examples
/// ```
/// let pool = millpond::executors::fixed(4)?;
/// let lengths = pool.invoke_all(["one", "three"].map(|word| move || word.len()))?;
/// assert_eq!(lengths.into_iter().map(|handle| handle.join().unwrap()).sum::<usize>(), 8);
/// pool.close();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn fixed(threads: usize) -> Result<ThreadPoolExecutor, ConfigError> {
    ThreadPoolExecutor::builder()
        .core_pool_size(threads)
        .maximum_pool_size(threads)
        .keep_alive_time(Duration::ZERO)
        .work_queue(WorkQueue::linked())
        .build()
}

/// A pool of `core` to `max` threads with a queue of `queue` tasks: the one to start from in a service. It rejects
/// when all threads are busy and the queue is full.
///
/// The other options are the builder's defaults: threads above `core` leave after a minute without work, and a rejected
/// task comes back in the error.
///
/// # Errors
/// [`ConfigError`] if `max` is 0, `core` exceeds `max`, or `queue` is 0.
///
/// # Examples
/// ```
/// let pool = millpond::executors::bounded(4, 16, 100)?;
/// match pool.submit(|| 6 * 7) {
///     Ok(handle) => assert_eq!(handle.join()?, 42),
///     Err(rejected) => println!("busy: {rejected}"),
/// }
/// pool.close();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn bounded(core: usize, max: usize, queue: usize) -> Result<ThreadPoolExecutor, ConfigError> {
    ThreadPoolExecutor::builder()
        .core_pool_size(core)
        .maximum_pool_size(max)
        .work_queue(WorkQueue::array(queue))
        .build()
}

/// A pool that starts a thread for every task that finds no idle one, and lets threads go after a minute without
/// work. Nothing bounds the number of threads: for few tasks, or short ones.
pub fn cached() -> ThreadPoolExecutor {
    ThreadPoolExecutor::builder()
        .core_pool_size(0)
        .maximum_pool_size(usize::MAX)
        .keep_alive_time(Duration::from_secs(60))
        .work_queue(WorkQueue::synchronous())
        .build()
        .expect("these options fit together")
}

/// One thread that runs tasks one at a time, in the order in which they came.
pub fn single() -> SingleThreadExecutor {
    SingleThreadExecutor { pool: fixed(1).expect("one thread is enough for a pool") }
}

/// An executor with one thread, which cannot be given another. Made by [`single`].
///
/// A cheap handle; when the last clone is dropped it shuts down in good order without blocking.
#[derive(Clone)]
pub struct SingleThreadExecutor {
    pool: ThreadPoolExecutor,
}

impl SingleThreadExecutor {
    /// Runs `f` after all that was given before.
    ///
    /// # Errors
    /// [`Rejected`] gives the work back after a shutdown.
    pub fn execute(&self, f: impl FnOnce() + Send + 'static) -> Result<(), Rejected> {
        self.pool.execute(f)
    }

    /// Submits `f` and returns a handle to its result.
    ///
    /// # Errors
    /// [`Rejected`] gives the work back after a shutdown.
    ///
    /// # Examples
    /// ```
    /// let writer = millpond::executors::single();
    /// writer.execute(|| println!("first"))?;
    /// assert_eq!(writer.submit(|| "second")?.join()?, "second");
    /// writer.close();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn submit<T: Send + 'static>(
        &self,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> Result<TaskHandle<T>, Rejected> {
        self.pool.submit(f)
    }

    /// Submits `f`, or gives `f` itself back; see [`ThreadPoolExecutor::try_submit`].
    ///
    /// # Errors
    /// [`TrySubmitError`] with the closure, after a shutdown or if the thread could not be started.
    pub fn try_submit<T, F>(&self, f: F) -> Result<TaskHandle<T>, TrySubmitError<F>>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        self.pool.try_submit(f)
    }

    /// A future that is ready when the executor has terminated; see [`ThreadPoolExecutor::terminated`].
    pub fn terminated(&self) -> impl Future<Output = ()> + Send + Sync + Unpin + 'static + use<> {
        self.pool.terminated()
    }

    methods_of_its_pool! {
        /// Runs `task` after all that was given before.
        ///
        /// # Errors
        /// [`Rejected`] gives the task back after a shutdown.
        pub fn execute_task(&self, task: Task) -> Result<(), Rejected>;
        /// Takes no more tasks; those already taken run to their end. Does not wait.
        pub fn shutdown(&self);
        /// Takes no more tasks, interrupts the running one and returns those that never started, in order.
        pub fn shutdown_now(&self) -> Vec<Task>;
        /// Tells whether a shutdown has begun.
        pub fn is_shutdown(&self) -> bool;
        /// Tells whether all tasks have ended after a shutdown.
        pub fn is_terminated(&self) -> bool;
        /// Waits until terminated, at most `timeout`; true if it is.
        ///
        /// # Errors
        /// [`Interrupted`] if the calling thread is interrupted while it has to wait.
        pub fn await_termination(&self, timeout: Duration) -> Result<bool, Interrupted>;
        /// Waits until no task is running and none is waiting, at most `timeout`; see
        /// [`ThreadPoolExecutor::wait_idle`].
        ///
        /// # Errors
        /// [`Interrupted`] if the calling thread is interrupted while it has to wait.
        pub fn wait_idle(&self, timeout: Duration) -> Result<bool, Interrupted>;
        /// Shuts down and waits for all tasks to end; see [`ExecutorService::close`](crate::ExecutorService::close).
        pub fn close(&self);
        /// Shuts down, waits up to `grace`, then does what [`shutdown_now`](Self::shutdown_now) does and waits up to `force`; see
        /// [`ThreadPoolExecutor::shutdown_gracefully`].
        pub fn shutdown_gracefully(&self, grace: Duration, force: Duration) -> ShutdownReport;
        /// What the executor does and has done, in one look.
        pub fn stats(&self) -> PoolStats;
    }
}

service_by_its_pool!(SingleThreadExecutor);

/// A pool of `threads` threads for work that runs later, or again and again. With 0 there is one while tasks wait, and
/// none when there are none.
pub fn scheduled(threads: usize) -> ScheduledThreadPoolExecutor {
    ScheduledThreadPoolExecutor::new(threads)
}

/// One thread for work that runs later, or again and again, one at a time.
pub fn single_scheduled() -> SingleScheduledExecutor {
    SingleScheduledExecutor { pool: scheduled(1) }
}

/// A scheduled executor with one thread, which cannot be given another. Made by [`single_scheduled`].
///
/// A cheap handle; when the last clone is dropped it shuts down in good order without blocking.
#[derive(Clone)]
pub struct SingleScheduledExecutor {
    pool: ScheduledThreadPoolExecutor,
}

impl SingleScheduledExecutor {
    /// Runs `f` once, `delay` from now; see [`ScheduledThreadPoolExecutor::schedule`].
    ///
    /// # Errors
    /// [`Rejected`] gives the work back after a shutdown.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    ///
    /// let timer = millpond::executors::single_scheduled();
    /// assert_eq!(timer.schedule(Duration::from_millis(5), || "rings")?.join()?, "rings");
    /// timer.close();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn schedule<T: Send + 'static>(
        &self,
        delay: Duration,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> Result<ScheduledHandle<T>, Rejected> {
        self.pool.schedule(delay, f)
    }

    /// Runs `f` again and again; see [`ScheduledThreadPoolExecutor::schedule_at_fixed_rate`].
    ///
    /// # Errors
    /// As [`ScheduledThreadPoolExecutor::schedule_at_fixed_rate`].
    pub fn schedule_at_fixed_rate(
        &self,
        initial: Duration,
        period: Duration,
        f: impl FnMut() + Send + 'static,
    ) -> Result<ScheduledHandle<()>, Rejected> {
        self.pool.schedule_at_fixed_rate(initial, period, f)
    }

    /// Runs `f` again and again; see [`ScheduledThreadPoolExecutor::schedule_with_fixed_delay`].
    ///
    /// # Errors
    /// As [`ScheduledThreadPoolExecutor::schedule_at_fixed_rate`].
    pub fn schedule_with_fixed_delay(
        &self,
        initial: Duration,
        delay: Duration,
        f: impl FnMut() + Send + 'static,
    ) -> Result<ScheduledHandle<()>, Rejected> {
        self.pool.schedule_with_fixed_delay(initial, delay, f)
    }

    /// Runs `f` again and again, whenever the run before has answered; see
    /// [`ScheduledThreadPoolExecutor::schedule_repeating`].
    ///
    /// # Errors
    /// As [`ScheduledThreadPoolExecutor::schedule_repeating`].
    pub fn schedule_repeating(
        &self,
        initial: Duration,
        f: impl FnMut() -> Next + Send + 'static,
    ) -> Result<ScheduledHandle<()>, Rejected> {
        self.pool.schedule_repeating(initial, f)
    }

    /// Runs `f` as soon as the thread is free.
    ///
    /// # Errors
    /// [`Rejected`] gives the work back after a shutdown.
    pub fn execute(&self, f: impl FnOnce() + Send + 'static) -> Result<(), Rejected> {
        self.pool.execute(f)
    }

    /// Runs `f` as soon as the thread is free, and returns a handle to its result.
    ///
    /// # Errors
    /// [`Rejected`] gives the work back after a shutdown.
    pub fn submit<T: Send + 'static>(
        &self,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> Result<TaskHandle<T>, Rejected> {
        self.pool.submit(f)
    }

    /// A future that is ready when the executor has terminated; see [`ThreadPoolExecutor::terminated`].
    pub fn terminated(&self) -> impl Future<Output = ()> + Send + Sync + Unpin + 'static + use<> {
        self.pool.terminated()
    }

    methods_of_its_pool! {
        /// As [`ScheduledThreadPoolExecutor::schedule_at_fixed_rate_task`].
        ///
        /// # Errors
        /// As [`ScheduledThreadPoolExecutor::schedule_at_fixed_rate`].
        pub fn schedule_at_fixed_rate_task(
            &self, initial: Duration, period: Duration, task: PeriodicTask
        ) -> Result<ScheduledHandle<()>, Rejected>;
        /// As [`ScheduledThreadPoolExecutor::schedule_with_fixed_delay_task`].
        ///
        /// # Errors
        /// As [`ScheduledThreadPoolExecutor::schedule_at_fixed_rate`].
        pub fn schedule_with_fixed_delay_task(
            &self, initial: Duration, delay: Duration, task: PeriodicTask
        ) -> Result<ScheduledHandle<()>, Rejected>;
        /// Runs `task` as soon as the thread is free.
        ///
        /// # Errors
        /// [`Rejected`] gives the task back after a shutdown.
        pub fn execute_task(&self, task: Task) -> Result<(), Rejected>;
        /// Takes no more tasks. Series are cancelled, and delayed tasks still run. Does not wait.
        pub fn shutdown(&self);
        /// Takes no more tasks, interrupts the running one and returns those that wait.
        pub fn shutdown_now(&self) -> Vec<Task>;
        /// Tells whether a shutdown has begun.
        pub fn is_shutdown(&self) -> bool;
        /// Tells whether all tasks have ended after a shutdown.
        pub fn is_terminated(&self) -> bool;
        /// Waits until terminated, at most `timeout`; true if it is.
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
        /// Shuts down and waits for all tasks to end; see [`ExecutorService::close`](crate::ExecutorService::close).
        pub fn close(&self);
        /// Shuts down, waits up to `grace`, then does what [`shutdown_now`](Self::shutdown_now) does and waits up to `force`; see
        /// [`ThreadPoolExecutor::shutdown_gracefully`].
        pub fn shutdown_gracefully(&self, grace: Duration, force: Duration) -> ShutdownReport;
        /// What the executor does and has done, in one look.
        pub fn stats(&self) -> PoolStats;
    }
}

service_by_its_pool!(SingleScheduledExecutor);
