//! [`ExecutorCompletionService`]: results in the order in which they become ready.

use std::fmt;
use std::time::Duration;

use crate::executor::{Executor, Rejected};
use crate::handle::{Canceller, TaskHandle};
use crate::interrupt::Interrupted;
use crate::queue::{BlockingQueue, LinkedBlockingQueue};
use crate::sync::Arc;
use crate::task::TaskOf;

/// Submits `f` to `executor`; its handle goes to `finish` as soon as the task has ended, in whatever way.
pub(crate) fn start<T: Send + 'static>(
    executor: &(impl Executor + ?Sized),
    f: impl FnOnce() -> T + Send + 'static,
    finish: &Arc<LinkedBlockingQueue<TaskHandle<T>>>,
) -> Result<Canceller, Rejected> {
    let (task, handle) = TaskOf::new(f).into_parts();
    executor.execute_task(task)?;
    let canceller = handle.canceller();
    let finish = Arc::clone(finish);
    handle.when_done(move |handle| {
        // Without a bound, there is always room.
        let _ = finish.offer(handle);
    });
    Ok(canceller)
}

/// Hands tasks to an executor and their handles back in the order in which they end.
///
/// Every task that was accepted arrives exactly once: also one that panicked, was cancelled, or was dropped
/// without having run.
///
/// # Examples
/// ```
/// use millpond::{ExecutorCompletionService, executors};
///
/// let service = ExecutorCompletionService::new(executors::fixed(2)?);
/// for n in 1..=3 {
///     service.submit(move || n * n)?;
/// }
/// let mut squares: Vec<u32> = Vec::new();
/// for _ in 1..=3 {
///     squares.push(service.take()?.join()?);
/// }
/// squares.sort();
/// assert_eq!(squares, [1, 4, 9]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ExecutorCompletionService<T> {
    executor: Box<dyn Executor>,
    finish: Arc<LinkedBlockingQueue<TaskHandle<T>>>,
}

impl<T: Send + 'static> ExecutorCompletionService<T> {
    /// Makes a service that runs its tasks on `executor`.
    pub fn new(executor: impl Executor + 'static) -> Self {
        Self { executor: Box::new(executor), finish: Arc::new(LinkedBlockingQueue::unbounded()) }
    }

    /// Submits `f`; its handle arrives when it has ended. The returned [`Canceller`] has the same id.
    ///
    /// # Errors
    /// [`Rejected`] gives the work back; nothing arrives for it.
    pub fn submit(&self, f: impl FnOnce() -> T + Send + 'static) -> Result<Canceller, Rejected> {
        start(&*self.executor, f, &self.finish)
    }

    /// The handle of the next task to end, waiting for it if need be. It is done: `join` does not wait.
    ///
    /// # Errors
    /// [`Interrupted`] if the calling thread is interrupted.
    pub fn take(&self) -> Result<TaskHandle<T>, Interrupted> {
        self.finish.take()
    }

    /// The handle of a task that has ended, if there is one.
    pub fn poll(&self) -> Option<TaskHandle<T>> {
        self.finish.poll()
    }

    /// The handle of the next task to end, waiting at most `timeout`.
    ///
    /// # Errors
    /// [`Interrupted`] if the calling thread is interrupted.
    pub fn poll_timeout(&self, timeout: Duration) -> Result<Option<TaskHandle<T>>, Interrupted> {
        self.finish.poll_timeout(timeout)
    }
}

impl<T> fmt::Debug for ExecutorCompletionService<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecutorCompletionService").finish_non_exhaustive()
    }
}
