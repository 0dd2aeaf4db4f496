//! Factories for common pools.
//!
//! | factory | threads | queue | for |
//! |---|---|---|---|
//! | [`bounded`] | `core` to `max` | at most `queue` tasks | a service: start with this one |
//! | [`fixed`] | fixed number | unbounded | work whose amount is bounded elsewhere |
//! | [`cached`] | one per concurrent task | none | few tasks, or short ones |
//! | [`single`] | one | unbounded | tasks that must keep their order |
//! | [`scheduled`], [`single_scheduled`] | fixed number | unbounded | delayed and periodic tasks |
//!
//! For other combinations use [`ThreadPoolExecutor::builder`].

use std::time::Duration;

use crate::ConfigError;
use crate::executor::{Rejected, TrySubmitError};
use crate::pool::{
    ThreadPoolExecutor, WorkQueue, delegate_executor_service, delegate_lifecycle, delegate_to_pool,
};
use crate::scheduled::{ScheduledHandle, ScheduledThreadPoolExecutor};
use crate::task::periodic::{Next, PeriodicTask};
use crate::task::{Task, TaskHandle};

/// Builds a pool of `threads` threads with an unbounded queue.
///
/// The pool never rejects a task while it runs, and its queue may use up all memory.
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

/// Builds a pool of `core` to `max` threads with a queue of at most `queue` tasks. A good default
/// for a service.
///
/// The pool rejects a task when all threads are busy and the queue is full. The other options have
/// the builder's defaults: idle threads above `core` exit after a minute, and a rejected task is
/// returned in the error.
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

/// Builds a pool that starts a thread for every task that finds no idle thread. Idle threads exit
/// after a minute.
///
/// The number of threads is unbounded: use it for few or short tasks.
pub fn cached() -> ThreadPoolExecutor {
    ThreadPoolExecutor::builder()
        .core_pool_size(0)
        .maximum_pool_size(usize::MAX)
        .keep_alive_time(Duration::from_secs(60))
        .work_queue(WorkQueue::synchronous())
        .build()
        .expect("these options are consistent")
}

/// Builds an executor with one thread, which runs tasks one at a time in order of submission.
pub fn single() -> SingleThreadExecutor {
    SingleThreadExecutor { pool: fixed(1).expect("a pool of one thread is valid") }
}

/// Defines the submission of tasks without a delay, for both executors with one thread.
macro_rules! delegate_submission {
    () => {
        /// Runs `f` when the thread is free, after all earlier tasks that are due. Does not block.
        ///
        /// # Errors
        /// [`Rejected`] with the task, after a shutdown or if the thread could not be started.
        pub fn execute(&self, f: impl FnOnce() + Send + 'static) -> Result<(), Rejected> {
            self.pool.execute(f)
        }

        /// Like [`execute`](Self::execute), and returns a handle to the result. Does not block.
        ///
        /// # Errors
        /// [`Rejected`] with the task, after a shutdown or if the thread could not be started.
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

        delegate_to_pool! {
            /// Like [`execute`](Self::execute), for a [`Task`].
            ///
            /// # Errors
            /// [`Rejected`] with the task, after a shutdown or if the thread could not be started.
            pub fn execute_task(&self, task: Task) -> Result<(), Rejected>;
        }
    };
}

/// An executor with one thread, whose size cannot change. Built by [`single`].
///
/// Cloning is cheap. Dropping the last clone shuts the executor down without blocking.
#[derive(Clone)]
pub struct SingleThreadExecutor {
    pool: ThreadPoolExecutor,
}

impl SingleThreadExecutor {
    delegate_submission!();

    /// Submits `f`, or returns `f` if it is refused; see [`ThreadPoolExecutor::try_submit`].
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

    delegate_to_pool! {
        /// Rejects new tasks; accepted tasks complete. Does not block.
        pub fn shutdown(&self);
        /// Rejects new tasks, interrupts the running task and returns the queued tasks, in order.
        /// Does not block.
        pub fn shutdown_now(&self) -> Vec<Task>;
    }

    delegate_lifecycle!();
}

delegate_executor_service!(SingleThreadExecutor);

/// Builds a pool of `threads` threads for delayed and periodic tasks. With 0, the pool has one
/// thread while tasks are queued, and none otherwise.
pub fn scheduled(threads: usize) -> ScheduledThreadPoolExecutor {
    ScheduledThreadPoolExecutor::new(threads)
}

/// Builds an executor with one thread, which runs delayed and periodic tasks one at a time.
pub fn single_scheduled() -> SingleScheduledExecutor {
    SingleScheduledExecutor { pool: scheduled(1) }
}

/// A scheduled executor with one thread, whose size cannot change. Built by [`single_scheduled`].
///
/// Cloning is cheap. Dropping the last clone shuts the executor down without blocking.
#[derive(Clone)]
pub struct SingleScheduledExecutor {
    pool: ScheduledThreadPoolExecutor,
}

impl SingleScheduledExecutor {
    /// Runs `f` once, `delay` from now; see [`ScheduledThreadPoolExecutor::schedule`].
    ///
    /// # Errors
    /// [`Rejected`] with the task, after a shutdown or if the thread could not be started.
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

    /// Runs `f` periodically; see [`ScheduledThreadPoolExecutor::schedule_at_fixed_rate`].
    ///
    /// # Errors
    /// See [`ScheduledThreadPoolExecutor::schedule_at_fixed_rate`].
    pub fn schedule_at_fixed_rate(
        &self,
        initial: Duration,
        period: Duration,
        f: impl FnMut() + Send + 'static,
    ) -> Result<ScheduledHandle<()>, Rejected> {
        self.pool.schedule_at_fixed_rate(initial, period, f)
    }

    /// Runs `f` periodically; see [`ScheduledThreadPoolExecutor::schedule_with_fixed_delay`].
    ///
    /// # Errors
    /// See [`ScheduledThreadPoolExecutor::schedule_at_fixed_rate`].
    pub fn schedule_with_fixed_delay(
        &self,
        initial: Duration,
        delay: Duration,
        f: impl FnMut() + Send + 'static,
    ) -> Result<ScheduledHandle<()>, Rejected> {
        self.pool.schedule_with_fixed_delay(initial, delay, f)
    }

    /// Runs `f` periodically, with delays that each run returns; see
    /// [`ScheduledThreadPoolExecutor::schedule_repeating`].
    ///
    /// # Errors
    /// See [`ScheduledThreadPoolExecutor::schedule_repeating`].
    pub fn schedule_repeating(
        &self,
        initial: Duration,
        f: impl FnMut() -> Next + Send + 'static,
    ) -> Result<ScheduledHandle<()>, Rejected> {
        self.pool.schedule_repeating(initial, f)
    }

    delegate_submission!();

    delegate_to_pool! {
        /// Runs `task` periodically; see
        /// [`ScheduledThreadPoolExecutor::schedule_at_fixed_rate_task`].
        ///
        /// # Errors
        /// See [`ScheduledThreadPoolExecutor::schedule_at_fixed_rate`].
        pub fn schedule_at_fixed_rate_task(
            &self, initial: Duration, period: Duration, task: PeriodicTask
        ) -> Result<ScheduledHandle<()>, Rejected>;
        /// Runs `task` periodically; see
        /// [`ScheduledThreadPoolExecutor::schedule_with_fixed_delay_task`].
        ///
        /// # Errors
        /// See [`ScheduledThreadPoolExecutor::schedule_at_fixed_rate`].
        pub fn schedule_with_fixed_delay_task(
            &self, initial: Duration, delay: Duration, task: PeriodicTask
        ) -> Result<ScheduledHandle<()>, Rejected>;
        /// Rejects new tasks, cancels periodic tasks and lets delayed tasks run. Does not block.
        pub fn shutdown(&self);
        /// Rejects new tasks, interrupts the running task and returns the queued tasks. Does not
        /// block.
        pub fn shutdown_now(&self) -> Vec<Task>;
    }

    delegate_lifecycle!();
}

delegate_executor_service!(SingleScheduledExecutor);
