//! [`ExecutorCompletionService`]: returns results in order of completion.

use std::fmt;
use std::time::{Duration, Instant};

use crate::executor::{Executor, Rejected};
use crate::interrupt::Interrupted;
use crate::queue::{BlockingQueue, LinkedBlockingQueue};
use crate::sync::{Arc, Mutex, deadline_after};
use crate::task::TaskOf;
use crate::task::{Canceller, TaskHandle, works_for_any};

/// Submits `f` to `executor`. Adds its handle to `finish` as soon as the task has ended.
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
        // Never fails: the queue is unbounded.
        let _ = finish.offer(handle);
    });
    Ok(canceller)
}

/// Waits for the next handle in `finish`, until `deadline`. A worker meanwhile runs those `pending`
/// tasks that are queued in its own pool, so that a full pool does not deadlock.
pub(crate) fn next_finished<T: Send>(
    finish: &LinkedBlockingQueue<TaskHandle<T>>,
    pending: impl Fn() -> Vec<Canceller>,
    deadline: Option<Instant>,
) -> Result<Option<TaskHandle<T>>, Interrupted> {
    loop {
        let mut again: Option<Instant> = None;
        if works_for_any() {
            for task in pending() {
                if let Some(handle) = finish.poll() {
                    return Ok(Some(handle));
                }
                again = again.into_iter().chain(task.help()).min();
            }
        }
        let until = deadline.into_iter().chain(again).min();
        let left = until.map_or(Duration::MAX, |at| at.saturating_duration_since(Instant::now()));
        let finished = finish.poll_timeout(left)?;
        if finished.is_some() || until == deadline {
            return Ok(finished);
        }
    }
}

/// The tasks that may not have ended. Ended ones are removed whenever the vector is full, so it
/// does not grow without bound.
#[derive(Default)]
struct Pending(Vec<Canceller>);

impl Pending {
    /// Adds a task. Returns removed tasks, which the caller drops without the lock.
    fn push(&mut self, task: Canceller) -> Vec<Canceller> {
        let Pending(tasks) = self;
        let mut ended = Vec::new();
        if tasks.len() == tasks.capacity() {
            ended = tasks.extract_if(.., |task| task.is_done()).collect();
            tasks.reserve(tasks.len() + 1); // keeps the amortized cost per push constant
        }
        tasks.push(task);
        ended
    }
}

/// Submits tasks to an executor and returns their handles in the order of completion.
///
/// The handle of every accepted task arrives exactly once, even if the task panicked, was
/// cancelled, or was dropped without running. To tell the results apart, return a key with the
/// value: `service.submit(move || (key, work()))`.
///
/// A task may take from a service that runs on its own pool. While it waits, it runs the queued
/// tasks of the service itself, as [`TaskHandle::join`] does.
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
    pending: Mutex<Pending>,
}

impl<T: Send + 'static> ExecutorCompletionService<T> {
    /// Creates a service that runs its tasks on `executor`.
    pub fn new(executor: impl Executor + 'static) -> Self {
        Self {
            executor: Box::new(executor),
            finish: Arc::new(LinkedBlockingQueue::unbounded()),
            pending: Mutex::new(Pending::default()),
        }
    }

    /// Submits `f`. Its handle arrives when the task has ended. The returned [`Canceller`] has the
    /// same id as that handle.
    ///
    /// To tell the results apart, return a key with the value: `submit(move || (path.clone(),
    /// read(&path)))`. A task that panics returns no key. If that matters, keep a map from
    /// [`Canceller::id`] to the key.
    ///
    /// # Errors
    /// Returns [`Rejected`] with the task. No handle arrives for it.
    pub fn submit(&self, f: impl FnOnce() -> T + Send + 'static) -> Result<Canceller, Rejected> {
        let canceller = start(&*self.executor, f, &self.finish)?;
        let ended = self.pending.lock().push(canceller.clone());
        drop(ended);
        Ok(canceller)
    }

    /// Blocks until a task has ended and returns its handle. `join` on that handle does not block.
    ///
    /// # Errors
    /// Returns [`Interrupted`] if the calling thread is interrupted.
    pub fn take(&self) -> Result<TaskHandle<T>, Interrupted> {
        let next = next_finished(&self.finish, || self.pending.lock().0.clone(), None)?;
        Ok(next.expect("a wait without a deadline ends only with a handle"))
    }

    /// Returns the handle of a task that has ended, if there is one. Does not block.
    pub fn poll(&self) -> Option<TaskHandle<T>> {
        self.finish.poll()
    }

    /// As [`take`](Self::take), but blocks for at most `timeout`. Returns `None` on a timeout.
    ///
    /// # Errors
    /// Returns [`Interrupted`] if the calling thread is interrupted.
    pub fn poll_timeout(&self, timeout: Duration) -> Result<Option<TaskHandle<T>>, Interrupted> {
        next_finished(&self.finish, || self.pending.lock().0.clone(), deadline_after(timeout))
    }
}

impl<T> fmt::Debug for ExecutorCompletionService<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecutorCompletionService").finish_non_exhaustive()
    }
}
