//! [`ExecutorCompletionService`]: results in the order of completion.

use std::fmt;
use std::time::{Duration, Instant};

use crate::executor::{Executor, Rejected};
use crate::interrupt::wait::{OnInterrupt, WaitCell};
use crate::interrupt::{Interrupted, Wake};
use crate::queue::{BlockingQueue, LinkedBlockingQueue};
use crate::sync::{Arc, Mutex, deadline_after};
use crate::task::TaskOf;
use crate::task::{Canceller, TaskHandle, works_for_any};

/// Tasks that were started together, and the handles of those that have ended.
///
/// A worker that waits for a handle runs those tasks that are queued in its own pool, so that a
/// full pool cannot wait for itself. It lists itself as a helper and then looks for handles and
/// tasks. A thread that adds one does so first and then notifies the helpers, under the same lock
/// as the list. So each handle and each task is either found or announced.
pub(crate) struct Completions<T> {
    finished: LinkedBlockingQueue<TaskHandle<T>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    pending: Pending,
    /// Workers that wait for a handle or for a task to run.
    helpers: Vec<Arc<WaitCell>>,
}

impl<T: Send + 'static> Completions<T> {
    pub(crate) fn new() -> Arc<Self> {
        let finished = LinkedBlockingQueue::unbounded();
        Arc::new(Completions { finished, state: Mutex::new(State::default()) })
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
            let _ = this.finished.offer(handle); // never fails: the queue is unbounded
            let helpers = std::mem::take(&mut this.state.lock().helpers);
            notify_all(helpers);
        });
        let mut state = self.state.lock();
        let ended = state.pending.push(canceller.clone());
        let helpers = std::mem::take(&mut state.helpers);
        drop(state);
        drop(ended);
        notify_all(helpers);
        Ok(canceller)
    }

    pub(crate) fn poll(&self) -> Option<TaskHandle<T>> {
        self.finished.poll()
    }

    /// Waits for the next handle, until `deadline`.
    pub(crate) fn next(&self, deadline: Option<Instant>) -> Result<Option<TaskHandle<T>>, Interrupted> {
        if works_for_any() {
            return self.help_until(deadline);
        }
        let left = deadline.map_or(Duration::MAX, |at| at.saturating_duration_since(Instant::now()));
        self.finished.poll_timeout(left)
    }

    fn help_until(&self, deadline: Option<Instant>) -> Result<Option<TaskHandle<T>>, Interrupted> {
        loop {
            let helper = Helper::list(&self.state);
            let mut again: Option<Instant> = None;
            let pending = self.state.lock().pending.0.clone();
            for task in pending {
                if let Some(handle) = self.poll() {
                    return Ok(Some(handle));
                }
                again = again.into_iter().chain(task.help()).min();
            }
            if let Some(handle) = self.poll() {
                return Ok(Some(handle));
            }
            let until = deadline.into_iter().chain(again).min();
            match helper.cell.wait(until, OnInterrupt::Return) {
                Wake::Interrupted => {
                    helper.cell.take_interrupt();
                    return Err(Interrupted);
                }
                Wake::TimedOut if until == deadline => return Ok(self.poll()),
                Wake::TimedOut | Wake::Ready => {}
            }
        }
    }
}

fn notify_all(helpers: Vec<Arc<WaitCell>>) {
    helpers.into_iter().for_each(|helper| helper.notify());
}

/// A worker in the list of helpers. Leaves it when dropped.
struct Helper<'a> {
    state: &'a Mutex<State>,
    cell: Arc<WaitCell>,
}

impl<'a> Helper<'a> {
    fn list(state: &'a Mutex<State>) -> Helper<'a> {
        let cell = Arc::new(WaitCell::for_this_thread());
        state.lock().helpers.push(Arc::clone(&cell));
        Helper { state, cell }
    }
}

impl Drop for Helper<'_> {
    fn drop(&mut self) {
        self.state.lock().helpers.retain(|listed| !Arc::ptr_eq(listed, &self.cell));
    }
}

/// The tasks that may not have ended. Ended ones are removed whenever the vector is full, so it
/// does not grow without bound.
#[derive(Default)]
struct Pending(Vec<Canceller>);

impl Pending {
    /// Returns removed tasks, to be dropped outside of the lock.
    fn push(&mut self, task: Canceller) -> Vec<Canceller> {
        let Pending(tasks) = self;
        let mut ended = Vec::new();
        if tasks.len() == tasks.capacity() {
            ended = tasks.extract_if(.., |task| task.is_done()).collect();
            tasks.reserve(tasks.len() + 1); // so the amortised cost per push is constant
        }
        tasks.push(task);
        ended
    }
}

/// Submits tasks to an executor and returns their handles in the order of completion.
///
/// The handle of every accepted task arrives exactly once, even if the task panicked, was
/// cancelled, or was dropped without running. To know which task it belongs to, return a key with
/// the value: `service.submit(move || (key, work()))`.
///
/// A task may take from a service that runs on its own pool: while it waits, it runs the service's
/// queued tasks itself, as [`TaskHandle::join`] does, also those that are submitted meanwhile.
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
