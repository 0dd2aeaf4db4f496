//! The traits of all executors, and [`Rejected`], the error that returns a refused task.
//!
//! [`Executor`] accepts tasks, and [`ExecutorService`] can also be shut down. [`ExecutorExt`] adds
//! the methods that need only `execute_task`, for every executor.

pub(crate) mod completion;
mod forward;
mod helpers;
mod invoke;
mod pool_name;
mod rejected;

use std::error::Error;
use std::time::{Duration, Instant};

use self::invoke::{invoke_all_until, invoke_any_until};
use crate::interrupt::{Interrupted, ThreadContext};
use crate::sync::{Arc, deadline_after};
use crate::task::{Task, TaskOf};
use crate::task::{TaskHandle, works_for_any};

pub use self::completion::ExecutorCompletionService;
pub(crate) use self::forward::inherent_executor_methods;
pub use self::invoke::InvokeError;
pub(crate) use self::pool_name::PoolName;
pub(crate) use self::rejected::{PoolFacts, SchedulerFacts};
pub use self::rejected::{RejectReason, Rejected, TrySubmitError};

/// Runs tasks.
///
/// # Examples
/// A custom executor implements one method and gets all of [`ExecutorExt`]:
/// ```
/// use millpond::{Executor, ExecutorExt, Rejected, Task};
///
/// struct SameThread;
/// impl Executor for SameThread {
///     fn execute_task(&self, task: Task) -> Result<(), Rejected> {
///         task.run();
///         Ok(())
///     }
/// }
/// assert_eq!(SameThread.submit(|| 1 + 1)?.join()?, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Executor: Send + Sync {
    /// Runs `task` at some time, on another thread or on the calling thread.
    ///
    /// # Errors
    /// Returns [`Rejected`] with the task if the executor refuses it.
    fn execute_task(&self, task: Task) -> Result<(), Rejected>;
}

impl<E: Executor + ?Sized> Executor for &E {
    fn execute_task(&self, task: Task) -> Result<(), Rejected> {
        (**self).execute_task(task)
    }
}

impl<E: Executor + ?Sized> Executor for Arc<E> {
    fn execute_task(&self, task: Task) -> Result<(), Rejected> {
        (**self).execute_task(task)
    }
}

impl<E: Executor + ?Sized> Executor for Box<E> {
    fn execute_task(&self, task: Task) -> Result<(), Rejected> {
        (**self).execute_task(task)
    }
}

/// An executor that can be shut down.
pub trait ExecutorService: Executor {
    /// Rejects new tasks; accepted tasks complete. Does not block.
    fn shutdown(&self);

    /// Rejects new tasks, interrupts running tasks and returns the queued ones, in queue order.
    /// Does not block.
    fn shutdown_now(&self) -> Vec<Task>;

    /// Returns true once a shutdown has begun.
    fn is_shutdown(&self) -> bool;

    /// Returns true when all tasks have ended after a shutdown.
    fn is_terminated(&self) -> bool;

    /// Blocks until the executor has terminated, for at most `timeout`. Returns false on a timeout.
    /// If the executor has terminated, returns true even if an interrupt is pending.
    ///
    /// # Errors
    /// Returns [`Interrupted`] if the calling thread is interrupted while it waits.
    fn await_termination(&self, timeout: Duration) -> Result<bool, Interrupted>;

    /// Shuts down and blocks until all tasks have ended.
    ///
    /// After 24 hours, or at once if the calling thread is interrupted, it calls
    /// [`shutdown_now`](Self::shutdown_now), drops the queued tasks (their handles resolve as
    /// abandoned), and continues to wait for the running ones. After an interrupt it finally sets
    /// the interrupt flag again. On a thread that runs a task of the executor, it may return
    /// earlier.
    fn close(&self) {
        close_and_wait(self);
    }
}

/// Implements [`ExecutorService::close`] with the other methods.
pub(crate) fn close_and_wait(service: &(impl ExecutorService + ?Sized)) {
    const DAY: Duration = Duration::from_secs(24 * 3600);
    let mut timeout = DAY;
    let mut interrupted = false;
    service.shutdown();
    loop {
        let begin = Instant::now();
        match service.await_termination(timeout) {
            Ok(true) => break,
            // The wait ended early: the caller runs a task or a hook of the executor and would wait
            // for itself.
            Ok(false) if timeout == Duration::MAX || (works_for_any() && begin.elapsed() < timeout) => {
                break;
            }
            Err(Interrupted) if interrupted => {} // `shutdown_now` has already been called
            outcome => {
                interrupted |= outcome.is_err();
                timeout = Duration::MAX;
                service.shutdown_now().into_iter().for_each(Task::drop_caught);
            }
        }
    }
    if interrupted {
        ThreadContext::with_current(|me| me.restore_interrupt());
    }
}

macro_rules! forward_service {
    ($($pointer:ty),*) => {$(
        impl<E: ExecutorService + ?Sized> ExecutorService for $pointer {
            fn shutdown(&self) {
                (**self).shutdown();
            }
            fn shutdown_now(&self) -> Vec<Task> {
                (**self).shutdown_now()
            }
            fn is_shutdown(&self) -> bool {
                (**self).is_shutdown()
            }
            fn is_terminated(&self) -> bool {
                (**self).is_terminated()
            }
            fn await_termination(&self, timeout: Duration) -> Result<bool, Interrupted> {
                (**self).await_termination(timeout)
            }
            fn close(&self) {
                (**self).close();
            }
        }
    )*};
}
forward_service!(&E, Arc<E>, Box<E>);

/// Methods for every executor, based on [`Executor::execute_task`].
pub trait ExecutorExt: Executor {
    /// Runs `f` without a handle.
    ///
    /// # Errors
    /// Returns [`Rejected`] with the task if the executor refuses it.
    fn execute(&self, f: impl FnOnce() + Send + 'static) -> Result<(), Rejected> {
        self.execute_task(Task::new(f))
    }

    /// Submits `f` and returns a handle to its result.
    ///
    /// # Errors
    /// Returns [`Rejected`] with the task if the executor refuses it.
    fn submit<T: Send + 'static>(
        &self,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> Result<TaskHandle<T>, Rejected> {
        self.submit_task(TaskOf::new(f))
    }

    /// Submits a task with a name, priority or delay, and returns a handle to its result.
    ///
    /// # Errors
    /// Returns [`Rejected`] with the task if the executor refuses it.
    fn submit_task<T: Send + 'static>(&self, task: TaskOf<T>) -> Result<TaskHandle<T>, Rejected> {
        let (task, handle) = task.into_parts();
        self.execute_task(task)?;
        Ok(handle)
    }

    /// Runs all of `tasks`, blocks until all are done, and returns their handles in order.
    ///
    /// A task that panics affects only its own handle.
    ///
    /// # Errors
    /// Returns [`InvokeError::Rejected`] or [`InvokeError::Interrupted`]. Tasks that are not done
    /// are then cancelled.
    fn invoke_all<T, F>(&self, tasks: impl IntoIterator<Item = F>) -> Result<Vec<TaskHandle<T>>, InvokeError>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        invoke_all_until(self, tasks, None)
    }

    /// As [`invoke_all`](Self::invoke_all), but blocks for at most `timeout`. Tasks that are not
    /// done by then are cancelled.
    ///
    /// # Errors
    /// As [`invoke_all`](Self::invoke_all).
    fn invoke_all_timeout<T, F>(
        &self,
        tasks: impl IntoIterator<Item = F>,
        timeout: Duration,
    ) -> Result<Vec<TaskHandle<T>>, InvokeError>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        invoke_all_until(self, tasks, deadline_after(timeout))
    }

    /// Blocks until a task succeeds, returns its value and cancels the others.
    ///
    /// Submits the tasks one after the other until one has succeeded.
    ///
    /// # Errors
    /// Returns [`InvokeError::Empty`] if there are no tasks, [`InvokeError::AllFailed`] with the
    /// last failure if no task succeeded, [`InvokeError::Rejected`] or
    /// [`InvokeError::Interrupted`].
    fn invoke_any<T, E, F>(&self, tasks: impl IntoIterator<Item = F>) -> Result<T, InvokeError>
    where
        T: Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>> + Send + 'static,
        F: FnOnce() -> Result<T, E> + Send + 'static,
    {
        invoke_any_until(self, tasks, None)
    }

    /// As [`invoke_any`](Self::invoke_any), but blocks for at most `timeout`.
    ///
    /// # Errors
    /// As [`invoke_any`](Self::invoke_any), and [`InvokeError::TimedOut`].
    fn invoke_any_timeout<T, E, F>(
        &self,
        tasks: impl IntoIterator<Item = F>,
        timeout: Duration,
    ) -> Result<T, InvokeError>
    where
        T: Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>> + Send + 'static,
        F: FnOnce() -> Result<T, E> + Send + 'static,
    {
        invoke_any_until(self, tasks, deadline_after(timeout))
    }
}

impl<E: Executor + ?Sized> ExecutorExt for E {}
