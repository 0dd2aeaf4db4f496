//! [`ExecutorCompletionService`]: results in the order of completion.

use std::fmt;
use std::time::{Duration, Instant};

use crate::executor::helpers::{Helper, Helpers, Key};
use crate::executor::{Executor, Rejected};
use crate::interrupt::wait::{OnInterrupt, WaitCell, is_past};
use crate::interrupt::{Interrupted, Wake};
use crate::queue::{BlockingQueue, LinkedBlockingQueue};
use crate::sync::backoff::snooze_as_it_paid;
use crate::sync::{Arc, Mutex, deadline_after};
use crate::task::TaskOf;
use crate::task::{Canceller, TaskHandle, works_for_any};

/// Tasks that were started together, and the handles of those that have ended.
///
/// A worker that waits for a handle runs those tasks that are queued in its own pool, so that a
/// full pool cannot wait for itself. [`Helpers`] has the tasks and the blocked workers.
///
/// No wake-up is lost. The end of a task offers the handle (C1), then takes the lock and notifies a
/// listed worker (C2). A worker takes the lock, finds no handle (H1), and lists itself (H2), in one
/// critical section. If C2 is first, H1 sees the handle; otherwise C2 finds the worker. A
/// submission adds its task and notifies a worker in one critical section. H1 also checks for a
/// task, so the same argument holds for tasks. Each notification reaches one worker. That worker
/// checks again; when it leaves, it notifies another one if tasks or handles are left. Models:
/// `loom_tests/completion.rs`.
pub(crate) struct Completions<T> {
    finished: LinkedBlockingQueue<TaskHandle<T>>,
    helpers: Mutex<Helpers>,
}

impl<T: Send + 'static> Completions<T> {
    pub(crate) fn new() -> Arc<Self> {
        let finished = LinkedBlockingQueue::unbounded();
        Arc::new(Completions { finished, helpers: Mutex::new(Helpers::default()) })
    }

    /// Submits `f` to `executor`. Its handle arrives as soon as the task has ended.
    pub(crate) fn start(
        self: &Arc<Self>,
        executor: &(impl Executor + ?Sized),
        f: impl FnOnce() -> T + Send + 'static,
    ) -> Result<Canceller, Rejected> {
        let (task, handle) = TaskOf::new(f).into_parts();
        executor.execute_task(task)?;
        let canceller = handle.canceller();
        let this = Arc::clone(self);
        handle.when_done(move |handle| {
            let _ = this.finished.offer(handle); // C1; never fails: the queue is unbounded
            let worker = this.helpers.lock().unlist_for_result(); // C2
            notify(worker);
        });
        let (removed, worker) = self.helpers.lock().add(canceller.clone());
        notify(worker);
        drop(removed);
        Ok(canceller)
    }

    pub(crate) fn poll(&self) -> Option<TaskHandle<T>> {
        self.finished.poll()
    }

    /// Waits for the next handle, until `deadline`.
    pub(crate) fn next(&self, deadline: Option<Instant>) -> Result<Option<TaskHandle<T>>, Interrupted> {
        if !works_for_any() {
            let left = deadline.map_or(Duration::MAX, |at| at.saturating_duration_since(Instant::now()));
            return self.finished.poll_timeout(left);
        }
        if let Some(handle) = self.poll() {
            return Ok(Some(handle)); // the common case in a burst
        }
        let mut helper = Helper::for_this_thread();
        let next = self.help_until(deadline, &mut helper);
        if helper.was_listed() {
            let mut helpers = self.helpers.lock();
            let has_result = !self.finished.is_empty();
            let worker = helpers.unlist_next(has_result);
            drop(helpers);
            notify(worker);
        }
        next
    }

    /// Runs tasks until there is a handle.
    fn help_until(
        &self,
        deadline: Option<Instant>,
        helper: &mut Helper,
    ) -> Result<Option<TaskHandle<T>>, Interrupted> {
        loop {
            if let Some(handle) = self.poll() {
                return Ok(Some(handle));
            }
            let mut helpers = self.helpers.lock();
            if !self.finished.is_empty() {
                continue; // H1
            }
            let wake = match helpers.take_task(helper) {
                Some((key, task)) => {
                    drop(helpers);
                    self.try_to_run(key, task, helper, deadline)
                }
                None => {
                    let again = helpers.list(helper); // H2
                    drop(helpers);
                    self.park(helper, again, deadline)
                }
            };
            match wake {
                Wake::Interrupted => {
                    helper.cell().take_interrupt();
                    return Err(Interrupted);
                }
                Wake::TimedOut => return Ok(self.poll()),
                Wake::Ready => {}
            }
        }
    }

    /// Runs the task here, unless it has begun elsewhere. Puts it back if it cannot start yet.
    /// Returns `Ready` if the worker should continue to wait.
    fn try_to_run(&self, key: Key, task: Canceller, helper: &Helper, deadline: Option<Instant>) -> Wake {
        let Some(again) = task.help() else { return Wake::Ready };
        let worker = self.helpers.lock().put_back(key.again_at(again), task);
        notify(worker);
        if again > Instant::now() {
            return Wake::Ready; // parks next, unless there is another task
        }
        // The task is behind others in its lane, and this thread has run some of those.
        match helper.cell().is_interrupted() {
            true => Wake::Interrupted,
            false if is_past(deadline) => Wake::TimedOut,
            false => Wake::Ready,
        }
    }

    /// Backs off, then blocks a listed worker until it is notified, or until `again`. Returns
    /// `Ready` if the worker should continue to wait.
    fn park(&self, helper: &Helper, again: Option<Instant>, deadline: Option<Instant>) -> Wake {
        let until = deadline.into_iter().chain(again).min();
        let cell = helper.cell();
        snooze_as_it_paid(|| cell.is_notified() || cell.is_interrupted() || is_past(until));
        let wake = cell.wait(until, OnInterrupt::Return);
        self.helpers.lock().unlist(helper);
        if wake == Wake::TimedOut && until != deadline { Wake::Ready } else { wake }
    }
}

fn notify(worker: Option<Arc<WaitCell>>) {
    worker.into_iter().for_each(|worker| worker.notify());
}

/// Submits tasks to an executor and returns their handles in the order of completion.
///
/// The handle of every accepted task arrives exactly once, even if the task panicked, was
/// cancelled, or was dropped without running. To know which task it belongs to, return a key with
/// the value: `service.submit(move || (key, work()))`.
///
/// A task may take from a service that runs on its own pool: while it waits, it runs the service's
/// queued tasks itself, as [`TaskHandle::join`] does, also those that are submitted meanwhile. That
/// does not include tasks that an executor of your own keeps and hands to the pool later.
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
    completions: Arc<Completions<T>>,
}

impl<T: Send + 'static> ExecutorCompletionService<T> {
    /// Creates a service that runs its tasks on `executor`.
    pub fn new(executor: impl Executor + 'static) -> Self {
        Self { executor: Box::new(executor), completions: Completions::new() }
    }

    /// Submits `f`. Its handle arrives when the task has ended. The returned [`Canceller`] has the
    /// same id.
    ///
    /// To tell results apart, let the closure return its key:
    /// `submit(move || (path.clone(), read(&path)))`. A task that panics has no result: keep a map
    /// from [`Canceller::id`] to the key if that matters.
    ///
    /// # Errors
    /// [`Rejected`] with the task. No handle arrives for it.
    pub fn submit(&self, f: impl FnOnce() -> T + Send + 'static) -> Result<Canceller, Rejected> {
        self.completions.start(&*self.executor, f)
    }

    /// Blocks until a task has ended and returns its handle, whose `join` does not block.
    ///
    /// # Errors
    /// [`Interrupted`] if the calling thread is interrupted.
    pub fn take(&self) -> Result<TaskHandle<T>, Interrupted> {
        let next = self.completions.next(None)?;
        Ok(next.expect("a wait without a deadline ends only with a handle"))
    }

    /// Returns the handle of a task that has ended, if there is one. Does not block.
    pub fn poll(&self) -> Option<TaskHandle<T>> {
        self.completions.poll()
    }

    /// As [`take`](Self::take), for at most `timeout`. Returns `None` on timeout.
    ///
    /// # Errors
    /// [`Interrupted`] if the calling thread is interrupted.
    pub fn poll_timeout(&self, timeout: Duration) -> Result<Option<TaskHandle<T>>, Interrupted> {
        self.completions.next(deadline_after(timeout))
    }
}

impl<T> fmt::Debug for ExecutorCompletionService<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecutorCompletionService").finish_non_exhaustive()
    }
}
