//! Factories for the usual pools.

use std::fmt;
use std::time::Duration;

use crate::ConfigError;
use crate::executor::{Executor, ExecutorService, Rejected};
use crate::handle::TaskHandle;
use crate::interrupt::Interrupted;
use crate::pool::{ThreadPoolExecutor, WorkQueue};
use crate::task::Task;

/// A pool of `threads` threads with an unbounded queue: it never rejects while it runs, and its queue can grow
/// without end.
///
/// # Errors
/// [`ConfigError`] for 0 threads.
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
/// # Errors
/// [`ConfigError`] if `max` is 0, `core` exceeds `max`, or `queue` is 0.
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

    /// Takes no more tasks; those already taken run to their end. Does not wait.
    pub fn shutdown(&self) {
        self.pool.shutdown();
    }

    /// Shuts down and waits for all tasks to end; see [`ExecutorService::close`].
    pub fn close(&self) {
        self.pool.close();
    }
}

impl Executor for SingleThreadExecutor {
    fn execute_task(&self, task: Task) -> Result<(), Rejected> {
        self.pool.execute_task(task)
    }
}

impl ExecutorService for SingleThreadExecutor {
    fn shutdown(&self) {
        self.pool.shutdown();
    }

    fn shutdown_now(&self) -> Vec<Task> {
        self.pool.shutdown_now()
    }

    fn is_shutdown(&self) -> bool {
        self.pool.is_shutdown()
    }

    fn is_terminated(&self) -> bool {
        self.pool.is_terminated()
    }

    fn await_termination(&self, timeout: Duration) -> Result<bool, Interrupted> {
        self.pool.await_termination(timeout)
    }

    fn close(&self) {
        self.pool.close();
    }
}

impl fmt::Debug for SingleThreadExecutor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SingleThreadExecutor").field(&self.pool).finish()
    }
}

impl fmt::Display for SingleThreadExecutor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.pool.fmt(f)
    }
}
