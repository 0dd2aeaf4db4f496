//! [`TaskCell`]: the state shared by a task and its handle, and the life of a task until its join.
//!
//! One allocation holds the work, later the result, and the waker of the joiner. One word decides
//! which thread owns the content (`word.rs`, `raw.rs`), so submitting, running and joining a task
//! take no lock. Only the waker has a lock. It is taken by a joiner that blocks, and by a thread
//! that ends a task with a joiner. It is never held while user code runs.
//!
//! # Another kind of task
//!
//! The inherent methods of `TaskCell` implement the life of any task. A kind of task that needs
//! more wraps a `TaskCell` in its own type. It implements [`Tracked`] (and [`Joinable`] if it has a
//! handle) by calling these methods. [`CellRef::pair`] or [`CellRef::new`] puts the value into a
//! cell. `pool/scope.rs` does so for scoped tasks. The job of a scheduler has neither a result nor
//! a single joiner. So it puts its own fields beside a [`WorkCell`] instead (`schedulers/job.rs`).

use std::any::Any;
use std::mem::ManuallyDrop;
use std::task::{Wake as _, Waker};
use std::time::Instant;

use super::context::waits_for_this_thread;
use super::decorate::Body;
use super::error::{JoinError, Panic, Payload};
use super::id::{ResultToken, TaskId};
use super::owner::{self, Help, announce_sleep, is_behind_this_thread, retry_inline};
use super::place::{Memory, Place};
use super::raw::{Cancelled, CellRef, Slot};
use super::state::{Outcome, Shed, TaskState};
use super::tracked::{Joinable, RemoveCancelled, Tracked, Waiter};
use super::word::Word;
use super::work::{CellWork, RunEvent, Work, report_panic};
use super::work_cell::{RunGuard, WorkCell};
use crate::interrupt::wait::WaitCell;
use crate::interrupt::{TaskFrame, ThreadContext, Wake};
use crate::panic::{catch, drop_caught};
use crate::sync::SpinLock;
use crate::sync::backoff::snooze_as_it_paid;
use crate::sync::{Arc, Ordering, fence, fence_in_models, lock_global};

/// A task with a result `T` that runs `W`.
///
/// The fields are in the order of first use, after the header with the reference count (`raw.rs`).
/// Accessing a cache line that another thread has written costs as much as the rest of a submit, a
/// run or a cancel.
#[repr(C)]
pub(crate) struct TaskCell<T, W> {
    place: Place,
    work: WorkCell<T, W>,
    /// The waker of the joiner. There is at most one: a handle is unique, and waiting takes it by
    /// value or exclusively. Set only if the word says that a thread has waited. So dropping a cell
    /// without a joiner does not access this cache line.
    waker: ManuallyDrop<SpinLock<Option<Waker>>>,
}

impl<T, W> Drop for TaskCell<T, W> {
    #[inline]
    fn drop(&mut self) {
        if self.slot().load().is_waited_for() {
            self.drop_waker();
        }
    }
}

impl<T, W> TaskCell<T, W> {
    #[inline]
    fn slot(&self) -> &Slot<CellWork<T, W>, Result<T, Payload>> {
        self.work.slot()
    }

    #[cold]
    fn drop_waker(&self) {
        let waker = self.waker.lock().take();
        drop_caught(waker); // a waker may be user code: not under the lock
    }

    pub(crate) fn state(&self) -> TaskState {
        self.slot().load().state()
    }

    #[inline]
    pub(crate) fn id(&self) -> TaskId {
        self.slot().id()
    }

    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    pub(crate) fn owner(&self) -> u64 {
        self.slot().owner(Ordering::Relaxed)
    }

    pub(crate) fn set_owner(&self, owner: u64) {
        self.slot().set_owner(owner);
    }

    fn is_done(&self) -> bool {
        self.slot().load().is_done()
    }

    /// Wakes the joiner, if there is one. `seen` is the word that the thread found when it ended
    /// the task.
    fn wake(&self, seen: Word) {
        if seen.is_waited_for() {
            self.wake_joiner();
        }
    }

    #[cold]
    fn wake_joiner(&self) {
        let waker = self.waker.lock().take();
        waker.into_iter().for_each(|waker| _ = catch(|| waker.wake()));
    }

    /// Ends a task that has not begun, and returns its work if it is undecorated.
    pub(crate) fn take_plain_work(&self) -> Option<W> {
        let (work, seen) = self.slot().abandon()?;
        let plain = match work {
            CellWork::Plain(work) => Some(work),
            decorated => {
                decorated.drop_caught();
                None
            }
        };
        self.wake(seen);
        plain
    }

    /// See [`Tracked::abandon`].
    pub(crate) fn abandon(&self) {
        if let Some((work, seen)) = self.slot().abandon() {
            work.drop_caught();
            self.wake(seen);
        }
    }

    /// Runs the task here if it waits for an owner that the calling thread works for.
    fn help(&self) -> Help {
        owner::run_inline(self.owner(), self.id(), &self.place)
    }

    /// See [`Tracked::is_waiting_for_this_thread`].
    ///
    /// The runner does not change while the task runs. So this thread reads either its own write,
    /// or the write of another thread.
    pub(crate) fn is_waiting_for_this_thread(&self) -> bool {
        match self.state() {
            TaskState::Running => waits_for_this_thread(self.work.run_id()),
            TaskState::Pending => is_behind_this_thread(self.owner(), self.id(), &self.place),
            _ => false,
        }
    }

    /// See [`Joinable::wait_done`].
    pub(crate) fn wait_done(&self, deadline: Option<Instant>) -> Wake {
        while !self.is_done() {
            // A running task is in no queue.
            let help = if self.state() == TaskState::Pending { self.help() } else { Help::Done };
            let (retry_at, retry) = match help {
                Help::Done => (retry_inline(self.owner()), None),
                Help::NotBefore(due) => (Some(due), None),
                Help::WhenNotified(cell) => (None, Some(cell)),
            };
            let retry_at = retry_at.filter(|at| deadline.is_none_or(|deadline| *at < deadline));
            match self.sleep_until_done(retry_at.or(deadline), retry.as_deref()) {
                Wake::TimedOut if retry_at.is_some() => {}
                Wake::Ready if !self.is_done() => {}
                wake => return wake,
            }
        }
        Wake::Ready
    }

    /// Blocks until the task is done or `retry` is notified.
    fn sleep_until_done(&self, deadline: Option<Instant>, retry: Option<&WaitCell>) -> Wake {
        if snooze_as_it_paid(|| self.is_done()) {
            return Wake::Ready;
        }
        let announce_again = announce_sleep(self.owner());
        let me = ThreadContext::current();
        if self.wait_as(Some(Waiter::new(Waker::from(Arc::clone(&me))))).is_err() {
            return Wake::Ready;
        }
        // No wake-up is lost: the thread that ends the task finds `WAITED` in the word and wakes
        // us.
        let may_retry = || retry.is_some_and(WaitCell::is_notified);
        let first = deadline.into_iter().chain(announce_again).min();
        let wake = me.wait(first, || self.is_done() || may_retry());
        if !self.is_done() {
            let _ = self.wait_as(None);
        }
        if wake == Wake::TimedOut && first != deadline { Wake::Ready } else { wake }
    }

    /// See [`Joinable::wait_as`].
    pub(crate) fn wait_as(&self, waiter: Option<Waiter>) -> Result<(), Option<Waiter>> {
        let mut place = self.waker.lock();
        // Under the lock: a thread that finds `WAITED` takes the lock, and finds the waker.
        if !self.slot().announce_waiter() {
            return Err(waiter);
        }
        let old = std::mem::replace(&mut *place, waiter.map(Waiter::into_waker));
        drop(place);
        drop_caught(old); // a waker may be user code: not under the lock
        Ok(())
    }

    /// See [`Joinable::take_left`].
    pub(crate) fn take_left(&self, token: &mut ResultToken) -> Option<Result<T, Payload>> {
        self.slot().take(token)
    }

    /// See [`Joinable::detach`].
    pub(crate) fn detach(&self, token: &mut ResultToken) {
        if self.slot().load().is_left_empty() {
            return; // the common case for timers: cancelled, and without a joiner
        }
        if let Some(result) = self.slot().detach(token) {
            drop_caught(result);
        }
        if self.slot().load().is_waited_for() {
            self.drop_waker();
        }
    }
}

impl<T: Send, W: Work<T>> TaskCell<T, W> {
    /// Creates a pending task. `detached` means that no handle will take the result.
    #[inline(always)]
    pub(crate) fn new(id: TaskId, work: W, detached: bool) -> Self {
        TaskCell {
            place: Place::new(),
            work: WorkCell::new(id, work, detached),
            waker: ManuallyDrop::new(SpinLock::new(None)),
        }
    }

    /// Takes the work, to run it on the calling thread. Returns `None` if the task has begun or
    /// ended.
    #[inline]
    fn begin(&self) -> Option<(CellWork<T, W>, RunGuard<'_, T, W>)> {
        let begun = self.work.begin()?;
        self.slot().set_owner(0);
        Some(begun)
    }

    /// Runs the work, if it has not been taken. `keep` may replace the payload of a panic after the
    /// panic was reported. Returns true if the task is periodic and waits for its next run.
    #[inline]
    pub(crate) fn run(
        &self,
        report: &mut dyn FnMut(RunEvent<'_>),
        keep: impl FnOnce(Payload) -> Payload,
    ) -> bool {
        let Some((work, guard)) = self.begin() else {
            report(RunEvent::Settled(Outcome::Cancelled));
            return false;
        };
        let mut ran = work.run();
        if ran.has_panicked() {
            // Before `finish`: the hook may try to cancel the task.
            ran = ran.map_payload(|payload| keep(report_panic(payload, report)));
        }
        guard.finish(ran, report, |seen| self.wake(seen))
    }
}

impl<T: Send + 'static, W: Work<T> + 'static> Tracked for TaskCell<T, W> {
    fn run(&self, report: &mut dyn FnMut(RunEvent<'_>)) -> bool {
        self.run(report, |payload| payload)
    }

    fn abandon(&self) {
        self.abandon();
    }

    fn expire(&self, settle: &mut dyn FnMut(Shed)) -> bool {
        // The captures may be dropped on the thread of a submitter. An interrupt for this task must
        // not reach the task or thread that submits.
        let _frame = TaskFrame::enter();
        let Some((work, guard)) = self.begin() else { return false };
        work.drop_caught();
        match guard.into_running().finish() {
            Some(finishing) => {
                settle(Shed::Expired);
                self.wake(finishing.expire());
            }
            None => settle(Shed::Cancelled),
        }
        true
    }

    fn is_expired(&self) -> bool {
        self.slot().load().is_expired()
    }

    fn take_work(&self, work: &mut dyn Any) {
        if let Some(into) = work.downcast_mut::<Option<W>>() {
            *into = self.take_plain_work();
        }
    }

    fn try_cancel(&self, may_interrupt: bool, remove: RemoveCancelled<'_>) -> bool {
        let seen = match self.slot().cancel() {
            Cancelled::No => return false,
            Cancelled::Unstarted(work, seen) => {
                work.drop_caught(); // drops the captures at once, even if the task stays queued
                fence_in_models(); // between C1 and C2 of `StateWord::owner`
                let owner = self.slot().owner(Ordering::SeqCst); // C2
                remove(owner, self.id(), &self.place);
                seen
            }
            Cancelled::Started(seen) => {
                if may_interrupt && seen.state() == TaskState::Running {
                    // If the worker has left the epoch of this run, this has no effect.
                    self.work.run_id().interrupt();
                }
                seen
            }
        };
        self.wake(seen);
        true
    }

    fn state(&self) -> TaskState {
        self.state()
    }

    fn is_waiting_for_this_thread(&self) -> bool {
        self.is_waiting_for_this_thread()
    }

    fn entered(&self, owner: u64) {
        self.slot().set_owner(owner);
    }

    fn entered_again(&self, owner: u64) -> bool {
        self.slot().set_owner(owner);
        fence(Ordering::SeqCst); // E2 of `StateWord::owner`
        self.state() == TaskState::Pending
    }

    fn left(&self) {
        self.slot().set_owner(0);
    }

    fn owner(&self) -> u64 {
        self.owner()
    }

    fn place(&self) -> &Place {
        &self.place
    }

    fn id(&self) -> TaskId {
        self.id()
    }

    fn decorate(&self, wrap: &mut dyn FnMut(Body) -> Body) -> bool {
        let Some((work, held)) = self.slot().hold() else { return true }; // cancelled
        let (work, ok) = match work {
            CellWork::Plain(work) => CellWork::decorated(work, wrap),
            decorated => (decorated, true), // decorated earlier, by a pool that gave the task back
        };
        drop_caught(held.put_back(work)); // `None`, unless the task was cancelled meanwhile
        ok
    }
}

impl<T: Send + 'static, W: Work<T> + 'static> Joinable<T> for TaskCell<T, W> {
    fn wait_done(&self, deadline: Option<Instant>) -> Wake {
        self.wait_done(deadline)
    }

    fn wait_as(&self, waiter: Option<Waiter>) -> Result<(), Option<Waiter>> {
        self.wait_as(waiter)
    }

    fn take_left(&self, token: &mut ResultToken) -> Option<Result<T, JoinError>> {
        let result = self.take_left(token)?;
        Some(result.map_err(|payload| JoinError::Panicked(Panic::new(payload))))
    }

    fn detach(&self, token: &mut ResultToken) {
        self.detach(token);
    }
}

/// The two references to the cell of a new task: for the handle and for the executor.
pub(crate) type Pair<T> = (CellRef<dyn Joinable<T>>, CellRef<dyn Tracked>);

/// Creates the cell of a task.
#[inline]
pub(crate) fn new_cell<T: Send + 'static>(id: TaskId, work: impl Work<T> + 'static) -> Pair<T> {
    let (handle, task) = CellRef::pair(Memory::Heap, || TaskCell::new(id, work, false));
    (handle.into_joinable(), task.into_tracked())
}

/// Like [`new_cell`], in slab memory: for tasks that wait for a due time.
#[inline]
pub(super) fn new_timer_cell<T: Send + 'static>(id: TaskId, work: impl Work<T> + 'static) -> Pair<T> {
    let (handle, task) = CellRef::pair(Memory::Slab, || TaskCell::new(id, work, false));
    (handle.into_joinable(), task.into_tracked())
}

impl<V: Tracked + ?Sized> CellRef<V> {
    /// Cancels the task and removes it from its queue. Returns true if this call cancelled it.
    #[inline]
    pub(crate) fn cancel(&self, may_interrupt: bool) -> bool {
        self.try_cancel(may_interrupt, &mut |owner, id, place| {
            owner::remove_cancelled(owner, self.removal(id, place));
        })
    }
}

/// Runs the task here if it waits for an owner that the calling thread works for.
pub(crate) fn help_to_run(task: &(impl Tracked + ?Sized)) -> Help {
    owner::run_inline(task.owner(), task.id(), task.place())
}

/// A waker that calls a callback when it is first woken.
struct Callback<F>(std::sync::Mutex<Option<F>>);

impl<F: FnOnce() + Send + 'static> std::task::Wake for Callback<F> {
    fn wake(self: Arc<Self>) {
        let f = lock_global(&self.0).take();
        f.into_iter().for_each(|f| f());
    }
}

/// Calls `f` when the task is done: on the thread that ends it, or here if it is already done.
pub(super) fn when_done<T>(cell: &dyn Joinable<T>, f: impl FnOnce() + Send + 'static) {
    let callback = Arc::new(Callback(std::sync::Mutex::new(Some(f))));
    if cell.wait_as(Some(Waiter::new(Waker::from(Arc::clone(&callback))))).is_err() {
        catch(|| callback.wake());
    }
}
