//! The traits that all executors share, and [`Rejected`], the error that hands a task back.
//!
//! [`Executor`] takes work, [`ExecutorService`] can also be shut down, and [`ExecutorExt`] adds everything
//! that can be had from `execute_task` alone, for every executor, also one of your own.

mod completion;
mod forward;
mod invoke;
mod rejected;

use std::error::Error;
use std::time::{Duration, Instant};

use self::invoke::{invoke_all_until, invoke_any_until};
use crate::interrupt::{Interrupted, ThreadContext};
use crate::sync::{Arc, deadline_after};
use crate::task::{Task, TaskOf};
use crate::task::{TaskHandle, works_for_any};

pub use self::completion::ExecutorCompletionService;
pub(crate) use self::forward::{inherent_executor_methods, methods_of_its_pool, service_by_its_pool};
pub use self::invoke::InvokeError;
pub(crate) use self::rejected::{PoolFacts, SchedulerFacts};
pub use self::rejected::{RejectReason, Rejected, TrySubmitError};

/// Something that runs tasks.
///
/// # Examples
/// An executor of your own needs one method and gets all of [`ExecutorExt`]:
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
    /// Takes `task` and runs it at some time: on another thread, or here and now, as the executor is made.
    ///
    /// # Errors
    /// [`Rejected`] gives the task back if it cannot be taken.
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

/// An executor with a life cycle.
pub trait ExecutorService: Executor {
    /// Takes no more tasks; those already taken run to their end. Does not wait.
    fn shutdown(&self);

    /// Takes no more tasks, interrupts the running ones and returns those that never started, in queue order.
    fn shutdown_now(&self) -> Vec<Task>;

    /// Tells whether a shutdown has begun.
    fn is_shutdown(&self) -> bool;

    /// Tells whether all tasks have ended after a shutdown.
    fn is_terminated(&self) -> bool;

    /// Waits until terminated, at most `timeout`; true if it is. Completion wins over a pending interrupt.
    ///
    /// # Errors
    /// [`Interrupted`] if the calling thread is interrupted while it has to wait.
    fn await_termination(&self, timeout: Duration) -> Result<bool, Interrupted>;

    /// Shuts down and waits for all tasks to end.
    ///
    /// Waits up to a day, then calls [`shutdown_now`](Self::shutdown_now) and waits on. If the calling thread is
    /// interrupted meanwhile it calls `shutdown_now` at once, waits on, and leaves the interrupt flag set.
    fn close(&self) {
        close_and_wait(self);
    }
}

/// What `close` promises, from the other methods.
pub(crate) fn close_and_wait(service: &(impl ExecutorService + ?Sized)) {
    const DAY: Duration = Duration::from_secs(24 * 3600);
    let mut patience = DAY;
    let mut interrupted = false;
    service.shutdown();
    loop {
        let begin = Instant::now();
        match service.await_termination(patience) {
            Ok(true) => break,
            // The wait ended before its time: it was refused, because the caller is a task or a hook of
            // the executor and would wait for itself.
            Ok(false) if patience == Duration::MAX || (works_for_any() && begin.elapsed() < patience) => {
                break;
            }
            Err(Interrupted) if interrupted => {} // once is enough
            outcome => {
                interrupted |= outcome.is_err();
                patience = Duration::MAX;
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

/// Everything that can be had from [`Executor::execute_task`], for every executor.
pub trait ExecutorExt: Executor {
    /// Runs `f` without a handle.
    ///
    /// # Errors
    /// [`Rejected`] gives the work back if the executor cannot take it.
    fn execute(&self, f: impl FnOnce() + Send + 'static) -> Result<(), Rejected> {
        self.execute_task(Task::new(f))
    }

    /// Submits `f` and returns a handle to its result.
    ///
    /// # Errors
    /// [`Rejected`] gives the work back if the executor cannot take it.
    fn submit<T: Send + 'static>(
        &self,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> Result<TaskHandle<T>, Rejected> {
        self.submit_task(TaskOf::new(f))
    }

    /// Submits a task with a name, priority or delay, and returns a handle to its result.
    ///
    /// # Errors
    /// [`Rejected`] gives the work back if the executor cannot take it.
    fn submit_task<T: Send + 'static>(&self, task: TaskOf<T>) -> Result<TaskHandle<T>, Rejected> {
        let (task, handle) = task.into_parts();
        self.execute_task(task)?;
        Ok(handle)
    }

    /// Runs all of `tasks` and returns their handles, in the order given, when all are done.
    ///
    /// A task that panics fails only its own handle.
    ///
    /// # Errors
    /// [`InvokeError::Rejected`] or [`InvokeError::Interrupted`]; the tasks not yet done are then cancelled.
    fn invoke_all<T, F>(&self, tasks: impl IntoIterator<Item = F>) -> Result<Vec<TaskHandle<T>>, InvokeError>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        invoke_all_until(self, tasks, None)
    }

    /// As [`invoke_all`](Self::invoke_all), for at most `timeout`: what is not done by then is cancelled, and its
    /// handle says so.
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

    /// Returns the value of the first task to succeed, and cancels the rest.
    ///
    /// Tasks are handed in one after the other, and no more once one has succeeded.
    ///
    /// # Errors
    /// [`InvokeError::Empty`] without tasks, [`InvokeError::AllFailed`] with the last failure if none succeeded,
    /// [`InvokeError::Rejected`] or [`InvokeError::Interrupted`].
    fn invoke_any<T, E, F>(&self, tasks: impl IntoIterator<Item = F>) -> Result<T, InvokeError>
    where
        T: Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>> + Send + 'static,
        F: FnOnce() -> Result<T, E> + Send + 'static,
    {
        invoke_any_until(self, tasks, None)
    }

    /// As [`invoke_any`](Self::invoke_any), for at most `timeout`.
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
