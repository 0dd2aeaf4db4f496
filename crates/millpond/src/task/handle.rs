//! The handles of a task: [`TaskHandle`], its [`Canceller`], and [`CancelOnDrop`].
//!
//! A handle refers to the cell of its task. `cell.rs` implements the life of a task, `owner.rs`
//! finds the pool in which it waits, and `error.rs` lists the reasons why a join returns no value.

use std::fmt;
use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use super::cell;
use super::context;
use super::error::JoinError;
use super::id::{ResultToken, TaskId};
use super::owner::{Help, retry_deadline, retry_inline};
use super::raw::CellRef;
use super::state::TaskState;
use super::tracked::{Joinable, Tracked, Waiter};
use crate::interrupt::Wake;
use crate::sync::deadline_after;

/// A handle to a submitted task: joins, awaits or cancels it, and returns its result.
///
/// Dropping the handle detaches the task: it still runs, and its result is dropped. To cancel the
/// task instead, see [`cancel_on_drop`](Self::cancel_on_drop).
///
/// When its task has run or has been dropped, a handle resolves. If the task is dropped before it
/// ran (discarded by a policy, removed, or drained by `shutdown_now` and then dropped), a join
/// returns [`JoinError::Abandoned`].
///
/// # Examples
/// ```
/// use millpond::{JoinError, executors};
///
/// let pool = executors::fixed(2)?;
/// let good = pool.submit(|| "ready")?;
/// let bad = pool.submit(|| -> u32 { std::panic::resume_unwind(Box::new("broken")) })?;
/// assert_eq!(good.join()?, "ready");
/// let Err(JoinError::Panicked(panic)) = bad.join() else { unreachable!() };
/// assert_eq!(panic.message(), Some("broken"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "dropping a handle detaches the task; use `execute` if no result is wanted"]
pub struct TaskHandle<T> {
    cell: CellRef<dyn Joinable<T>>,
    token: ResultToken,
    /// True if nothing is left to detach from: the outcome has been handed out, or there is none.
    /// Always std's atomic, also in models: it orders nothing.
    spent: AtomicBool,
}

impl<T> TaskHandle<T> {
    /// `token` is the token from which the id of the task was taken.
    #[inline(always)]
    pub(crate) fn new(cell: CellRef<dyn Joinable<T>>, token: ResultToken) -> Self {
        TaskHandle { cell, token, spent: AtomicBool::new(false) }
    }

    /// Returns the id of the task.
    pub fn id(&self) -> TaskId {
        self.token.id()
    }

    /// Blocks until the task is done, and returns its value.
    ///
    /// A worker that joins a task which is still queued in its own pool runs that task inline
    /// instead of blocking. So submit-and-join inside a task cannot deadlock a full pool. After 256
    /// nested tasks, the next one runs on a temporary thread that the pool does not count, to avoid
    /// a stack overflow. It runs inline if no thread can be started.
    ///
    /// An inline task shares the thread, and so the thread-locals, with the task that joins it. Do
    /// not join while a thread-local `RefCell` is borrowed: a joined task that borrows the same
    /// `RefCell` panics. This happens only if no other worker has started the task, so tests may
    /// miss it.
    ///
    /// # Errors
    /// [`JoinError`] with the reason why there is no value. [`JoinError::Interrupted`] if the
    /// calling thread was interrupted before the task was done; the task continues, detached.
    /// Completion takes precedence over a pending interrupt. [`JoinError::WouldDeadlock`] if the
    /// calling thread runs the task itself, directly or in an outer frame, or if the task is behind
    /// the current one in its lane or [`single_worker`](crate::schedulers::single_worker).
    pub fn join(mut self) -> Result<T, JoinError> {
        self.join_until(None).expect("without a deadline the wait ends only when it has an answer")
    }

    /// Blocks until the task is done, for at most `timeout`. Returns `None` on timeout.
    ///
    /// `Some` contains the outcome of the task, with two exceptions. After
    /// [`JoinError::Interrupted`], a later call can return the outcome.
    /// [`JoinError::WouldDeadlock`] means that the task waits for itself without a limit
    /// (`Duration::MAX`); with a limit it times out, as in the JDK. Once the value has been
    /// returned, later calls return [`JoinError::Taken`].
    pub fn join_timeout(&mut self, timeout: Duration) -> Option<Result<T, JoinError>> {
        self.join_until(deadline_after(timeout))
    }

    fn join_until(&mut self, deadline: Option<Instant>) -> Option<Result<T, JoinError>> {
        if let Some(result) = self.try_join() {
            return Some(result); // the common case in a burst
        }
        if deadline.is_none() && self.cell.is_waiting_for_this_thread() {
            return Some(Err(JoinError::WouldDeadlock));
        }
        match self.cell.wait_done(deadline) {
            Wake::Ready => self.try_join(),
            Wake::TimedOut if deadline.is_none() => Some(Err(JoinError::WouldDeadlock)),
            Wake::TimedOut => None,
            Wake::Interrupted => Some(Err(JoinError::Interrupted)),
        }
    }

    /// Returns the outcome if the task is done. Does not block; see
    /// [`join_timeout`](Self::join_timeout).
    pub fn try_join(&mut self) -> Option<Result<T, JoinError>> {
        let result = self.cell.take_result(&mut self.token);
        *self.spent.get_mut() |= result.is_some();
        result
    }

    /// Cancels the task. Returns true if this call cancelled it, false if it was already done or
    /// cancelled. Does not wait for a running task.
    ///
    /// A pending task will not run. Its captures are dropped at once. Its entry also leaves the
    /// queue at once, unless the pool was built with `remove_on_cancel(false)`, or is a scheduled
    /// pool without [`remove_on_cancel_policy`](crate::ScheduledBuilder::remove_on_cancel_policy).
    /// In a scheduler the entry also stays and keeps its place until its turn or due time; to free
    /// the place, dispose of the [`Disposable`](crate::schedulers::Disposable) of the work instead.
    /// A running task continues to its end, and is interrupted if `may_interrupt` is true; its
    /// result is dropped. A join returns [`JoinError::Cancelled`].
    pub fn cancel(&self, may_interrupt: bool) -> bool {
        let cancelled = self.cell.cancel(may_interrupt);
        if cancelled {
            self.spent.store(true, Ordering::Relaxed);
        }
        cancelled
    }

    /// Returns true once the task has completed, panicked, expired, or been cancelled or abandoned.
    /// A cancelled task counts as done at once, even if its closure is still running.
    pub fn is_done(&self) -> bool {
        self.state().is_done()
    }

    /// Returns true if the task was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.state() == TaskState::Cancelled
    }

    /// Returns the state of the task.
    pub fn state(&self) -> TaskState {
        self.cell.state()
    }

    /// Returns a separate handle that can only cancel the task. With it, another thread can release
    /// a thread that joins.
    pub fn canceller(&self) -> Canceller {
        Canceller { cell: self.cell.tracked() }
    }

    /// Turns the handle into one that cancels the task when dropped, and interrupts it if it is
    /// running.
    pub fn cancel_on_drop(self) -> CancelOnDrop<T> {
        CancelOnDrop { handle: Some(self) }
    }

    /// Blocks until the task is done, without taking the result.
    pub(crate) fn wait_done(&self, deadline: Option<Instant>) -> Wake {
        self.cell.wait_done(deadline)
    }

    /// Calls `f` with the handle when the task is done: on the thread that ends it, or here if it
    /// is already done.
    pub(crate) fn when_done(self, f: impl FnOnce(TaskHandle<T>) + Send + 'static)
    where
        T: Send + 'static,
    {
        let cell = self.cell.clone();
        cell::when_done(&*cell, move || f(self));
    }
}

impl<T> Drop for TaskHandle<T> {
    fn drop(&mut self) {
        if !*self.spent.get_mut() {
            self.cell.detach(&mut self.token);
        }
    }
}

impl<T> Future for TaskHandle<T> {
    type Output = Result<T, JoinError>;

    /// Resolves when the task is done. If polled again after that, returns [`JoinError::Taken`].
    ///
    /// Inside `reactive::block_on` of a worker, a handle that cannot resolve while the thread
    /// blocks is ready at once with [`JoinError::WouldDeadlock`]: the handle of the task that
    /// called `block_on`, of a task around it, or of a pending task behind it in its lane or
    /// [`single_worker`](crate::schedulers::single_worker). That is so even if it is combined with
    /// a timeout or another future. Everywhere else such a handle stays pending and resolves when
    /// its task ends.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if !this.is_done() {
            let is_blocking = context::is_collecting_awaited();
            // Register before the check of the queue: a turn submitted later finds the waiter.
            if this.cell.wait_as(Some(waiter_of(context, is_blocking))).is_ok() {
                if is_blocking && this.cell.is_waiting_for_this_thread() {
                    let _ = this.cell.wait_as(None);
                    return Poll::Ready(Err(JoinError::WouldDeadlock));
                }
                if is_blocking {
                    context::note_awaited(this.cell.tracked());
                }
                return Poll::Pending;
            }
        }
        Poll::Ready(this.cell.take_result(&mut this.token).expect("done, and done is final"))
    }
}

/// `is_blocking` says that the thread blocks in `block_on`, where it runs awaited tasks itself.
fn waiter_of(context: &Context<'_>, is_blocking: bool) -> Waiter {
    let waker = context.waker().clone();
    if is_blocking { Waiter::running_in_place(waker) } else { Waiter::new(waker) }
}

impl<T> fmt::Debug for TaskHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskHandle").field("id", &self.id()).field("state", &self.state()).finish()
    }
}

/// Cancels one task. Can be cloned, and does not keep the result of the task alive.
#[derive(Clone)]
pub struct Canceller {
    cell: CellRef<dyn Tracked>,
}

impl Canceller {
    /// Returns the id of the task.
    pub fn id(&self) -> TaskId {
        self.cell.id()
    }

    /// Cancels the task, like [`TaskHandle::cancel`].
    pub fn cancel(&self, may_interrupt: bool) -> bool {
        self.cell.cancel(may_interrupt)
    }

    /// Returns true once the task has ended in any way.
    pub fn is_done(&self) -> bool {
        self.state().is_done()
    }

    /// Returns true if the task was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.state() == TaskState::Cancelled
    }

    /// Returns the state of the task.
    pub fn state(&self) -> TaskState {
        self.cell.state()
    }

    /// Returns the number of the pool or scheduler in which the task waits; 0 if there is none.
    pub(crate) fn owner(&self) -> u64 {
        self.cell.owner()
    }

    /// Runs the task here if it waits for a pool or scheduler that the calling thread works for.
    /// Returns when to try again if it cannot run yet.
    pub(crate) fn help(&self) -> Option<Instant> {
        match cell::help_to_run(&*self.cell) {
            Help::NotBefore(due) => Some(due),
            Help::WhenNotified(_) if !self.is_done() => retry_deadline(),
            _ if self.state() == TaskState::Pending => retry_inline(self.cell.owner()),
            _ => None,
        }
    }
}

impl fmt::Debug for Canceller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Canceller").field("id", &self.id()).field("state", &self.state()).finish()
    }
}

/// Calls `poll`, and also returns the tasks that it waits for.
#[cfg(feature = "futures")]
pub(crate) fn awaited_in<R>(poll: impl FnOnce() -> R) -> (R, Vec<Canceller>) {
    let (answer, awaited) = context::collect_awaited(poll);
    (answer, awaited.into_iter().map(|cell| Canceller { cell }).collect())
}

/// A [`TaskHandle`] that cancels its task when dropped. It has all methods of a handle.
#[must_use = "dropping it cancels the task"]
pub struct CancelOnDrop<T> {
    /// `None` only after `join` or `keep`.
    handle: Option<TaskHandle<T>>,
}

impl<T> CancelOnDrop<T> {
    /// Blocks until the task is done, like [`TaskHandle::join`]. An interrupted wait cancels the
    /// task.
    ///
    /// # Errors
    /// The errors of [`TaskHandle::join`].
    pub fn join(mut self) -> Result<T, JoinError> {
        let result =
            self.join_until(None).expect("without a deadline the wait ends only when it has an answer");
        if !matches!(result, Err(JoinError::Interrupted)) {
            self.handle = None;
        }
        result
    }

    /// Returns the plain handle, whose drop only detaches the task.
    pub fn keep(mut self) -> TaskHandle<T> {
        self.handle.take().expect("taken only when self is consumed")
    }
}

impl<T> Deref for CancelOnDrop<T> {
    type Target = TaskHandle<T>;

    fn deref(&self) -> &TaskHandle<T> {
        self.handle.as_ref().expect("taken only when self is consumed")
    }
}

impl<T> DerefMut for CancelOnDrop<T> {
    fn deref_mut(&mut self) -> &mut TaskHandle<T> {
        self.handle.as_mut().expect("taken only when self is consumed")
    }
}

impl<T> Drop for CancelOnDrop<T> {
    fn drop(&mut self) {
        if let Some(handle) = &self.handle {
            handle.cancel(true);
        }
    }
}

impl<T> Future for CancelOnDrop<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut **self).poll(context)
    }
}

impl<T> fmt::Debug for CancelOnDrop<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CancelOnDrop").field(&self.handle).finish()
    }
}
