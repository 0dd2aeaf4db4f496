//! Backpressure: submitters that wait until a full pool has room. [`policy::Block`] blocks the
//! thread, [`submit_async`](ThreadPoolExecutor::submit_async) suspends a future. Both are served in
//! order of arrival.
//!
//! [`policy::Block`]: super::policy::Block
//!
//! Race "wait for room / make room". A submitter lists itself, tries again to enter, and waits if
//! that fails. A thread that makes room then notifies the first listed submitter. Both pass through
//! the head lock of the queue (or the list of idle workers) in between. If the submitter passed
//! first, the other thread sees it in the list. If the room came first, the attempt succeeds.
//! Model: `waiting_for_room_against_making_it`.
//!
//! Notification removes a submitter from the list. The submitter returns to its old position before
//! it tries again, so each free slot is offered to one submitter. A submitter that gives up after
//! its notification passes the slot on. Model: `a_dropped_async_submitter_passes_its_room_on`.
//!
//! A submitter that finds others in the list enlists behind them and does not try to enter. Room
//! that was made while all listed submitters were notified is known only to these submitters. So
//! each submitter that leaves the list notifies the next one if there may be more room. The new
//! submitter enlisted while one of them was listed, so it is in the list when that one leaves.
//! Models: `async_submitters_behind_each_other_all_get_room`,
//! `a_blocked_and_an_async_submitter_both_get_room`,
//! `blocked_submitters_behind_each_other_all_get_room`.
//!
//! A notified submitter does not reserve its room until it runs: otherwise a future that is not
//! polled again would block the pool for all. So a submission that finds room at once takes it.

use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use super::ThreadPoolExecutor;
use super::admission::{Refusal, RoomCheck};
use super::inner::PoolInner;
use super::queue::TaskQueue;
use crate::executor::{RejectReason, Rejected};
use crate::interrupt::wait::{Key, OnInterrupt, WaitCell, Waiting};
use crate::interrupt::{ThreadContext, Wake};
use crate::sync::backoff::snooze;
use crate::sync::{Arc, deadline_after};
use crate::task::{Task, TaskHandle, TaskOf};

/// A submitter's place in the list; leaves the list when dropped. A blocked thread borrows the
/// pool, a future owns a reference.
#[derive(Debug)]
pub(super) struct WaitingSubmitter<P: Deref<Target = PoolInner>> {
    pool: P,
    key: Key,
    /// True if the list was empty when this submitter was added.
    was_first: bool,
}

impl<P: Deref<Target = PoolInner>> WaitingSubmitter<P> {
    pub(super) fn new(pool: P, waiter: Waiting) -> Self {
        let (key, was_first) = pool.submitters().push(waiter);
        WaitingSubmitter { pool, key, was_first }
    }

    /// Returns to the list after a notification, before the next attempt.
    fn rejoin(&mut self, waiter: Waiting) {
        self.key = self.pool.submitters().rejoin(self.key, waiter);
    }

    /// Returns true if a new submitter tries to enter before it waits: nobody waits before it, or
    /// the pool is shut down and refuses it.
    ///
    /// A shutdown advances the run state and then notifies the list under its lock. So either the
    /// shutdown finds this submitter in the list, or this thread sees the new state.
    fn may_try_at_once(&self) -> bool {
        self.was_first || !self.pool.control().load().is_running()
    }
}

impl<P: Deref<Target = PoolInner>> Drop for WaitingSubmitter<P> {
    fn drop(&mut self) {
        let submitters = self.pool.submitters();
        submitters.remove(self.key);
        // Notify the next submitter: this one may leave a slot unused, or may be the only one that
        // knows of a free slot.
        if !submitters.is_empty() && self.pool.may_have_room() {
            submitters.notify_first();
        }
    }
}

impl PoolInner {
    /// Returns true if an attempt to enter may succeed. A hint, read without locks.
    fn may_have_room(&self) -> bool {
        let seen = self.control().load();
        !seen.is_running()
            || seen.workers() < self.settings().maximum()
            || self.queue().has_room(self.idle()) && !self.queue_is_overdue()
            // The parked worker takes the head of a full queue.
            || matches!(self.queue(), TaskQueue::Fifo(_)) && self.idle().has_parked()
    }

    /// Waits for room for a short time without parking: if tasks are short, parking for every slot
    /// costs more than the tasks.
    ///
    /// A blocked submitter will soon need another slot, so it waits until an eighth of the capacity
    /// is free. If fewer slots are free after the spin, but at least one, it leaves its core to the
    /// workers for 50 µs. The queue does not run empty meanwhile: the workers just needed longer
    /// than the spin for an eighth of it.
    fn spin_for_room(&self, me: &ThreadContext, deadline: Option<Instant>) {
        const REST: Duration = Duration::from_micros(50);
        let queue = self.queue();
        let TaskQueue::Fifo(fifo) = queue else {
            snooze(|| queue.has_room(self.idle()) || me.is_interrupted());
            return;
        };
        let enough = (fifo.capacity() / 8).max(1);
        snooze(|| queue.remaining_capacity() >= enough || me.is_interrupted());
        if (1..enough).contains(&queue.remaining_capacity()) {
            let end = [deadline_after(REST), deadline].into_iter().flatten().min();
            me.wait_through_interrupts(end, || me.is_interrupted());
        }
    }
}

impl ThreadPoolExecutor {
    /// Blocks until the pool admits `task`, at most `timeout`.
    pub(super) fn admit_when_room(&self, task: Task, timeout: Duration) -> Result<(), Rejected> {
        let pool = self.inner();
        // A worker of this pool does not wait: if all of them did, none would make room.
        let timeout = if pool.is_current() { Duration::ZERO } else { timeout };
        let me = ThreadContext::current();
        let deadline = deadline_after(timeout);
        if !timeout.is_zero() && pool.submitters().is_empty() {
            pool.spin_for_room(&me, deadline);
        }
        let cell = Arc::new(WaitCell::of(me));
        let mut listed = WaitingSubmitter::new(&**pool, Waiting::Thread(Arc::clone(&cell)));
        let mut may_try = listed.may_try_at_once();
        let mut task = task;
        let refusal = loop {
            if std::mem::replace(&mut may_try, true) {
                match pool.admit_task(task, RoomCheck::UnderLock) {
                    Ok(()) => return Ok(()),
                    Err(refusal) if refusal.reason() != RejectReason::Saturated => break *refusal,
                    Err(refusal) => (task, ..) = refusal.into_parts(),
                }
            }
            match cell.wait(deadline, OnInterrupt::Return) {
                Wake::Ready => {}
                Wake::TimedOut => break Refusal::new(task, RejectReason::Saturated),
                Wake::Interrupted => break Refusal::new(task, RejectReason::Interrupted),
            }
            cell.reset(); // not listed now, so no thread can notify the cell
            listed.rejoin(Waiting::Thread(Arc::clone(&cell)));
        };
        drop(listed);
        Err(refusal.into_rejected(pool))
    }
}

/// The future of [`ThreadPoolExecutor::submit_async`]. Resolves when the pool has accepted or
/// refused the task.
///
/// The future does nothing until it is polled, and works on any runtime. Dropping it before it
/// resolves drops the task. After a wake-up, poll the future or drop it: until then, the submitters
/// behind it are not notified of the free slot.
#[must_use = "futures do nothing unless they are polled"]
pub struct SubmitAsync<T> {
    pool: ThreadPoolExecutor,
    /// `None` once the task has been accepted or refused.
    parts: Option<(Task, TaskHandle<T>)>,
    /// True if the capture of the submitter's context panicked. The task is then refused.
    capture_panicked: bool,
    /// The entry in the list, once the future has had to wait.
    listed: Option<WaitingSubmitter<Arc<PoolInner>>>,
}

impl<T: Send + 'static> SubmitAsync<T> {
    pub(super) fn new(pool: &ThreadPoolExecutor, f: impl FnOnce() -> T + Send + 'static) -> Self {
        let (mut task, handle) = TaskOf::new(f).into_parts();
        let capture_panicked = !pool.inner().carry_context(&mut task);
        SubmitAsync { pool: pool.clone(), parts: Some((task, handle)), capture_panicked, listed: None }
    }
}

impl<T> SubmitAsync<T> {
    /// Adds the future to the list, or replaces the waker of its entry. Returns the room check for
    /// an attempt to enter, or `None` if the future must wait.
    fn list(&mut self, waker: &Waker) -> Option<RoomCheck> {
        let pool = self.pool.inner();
        match &mut self.listed {
            None if pool.submitters().is_empty() => Some(RoomCheck::Hint),
            None => self.list_behind_others(waker),
            Some(listed) => match pool.submitters().set_waker(listed.key, waker.clone()) {
                Ok(()) => None, // not yet notified
                Err(waker) => {
                    listed.rejoin(Waiting::Task(waker));
                    Some(RoomCheck::UnderLock)
                }
            },
        }
    }

    /// Adds the future to the list behind other submitters.
    fn list_behind_others(&mut self, waker: &Waker) -> Option<RoomCheck> {
        let waiter = Waiting::Task(waker.clone());
        let listed = self.listed.insert(WaitingSubmitter::new(Arc::clone(self.pool.inner()), waiter));
        listed.may_try_at_once().then_some(RoomCheck::UnderLock)
    }
}

impl<T: Send + 'static> Future for SubmitAsync<T> {
    type Output = Result<TaskHandle<T>, Rejected>;

    /// # Panics
    /// If the future has already resolved.
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let (mut task, handle) = this.parts.take().expect("`SubmitAsync` polled after it resolved");
        if this.capture_panicked {
            let refusal = Refusal::new(task, RejectReason::CallbackPanicked);
            return Poll::Ready(Err(this.pool.reject(refusal)));
        }
        let mut check = this.list(context.waker());
        while let Some(room) = check {
            match this.pool.inner().admit_task(task, room) {
                Ok(()) => {
                    this.listed = None;
                    return Poll::Ready(Ok(handle));
                }
                Err(refusal) if refusal.reason() != RejectReason::Saturated => {
                    this.listed = None;
                    return Poll::Ready(Err(this.pool.reject(*refusal)));
                }
                Err(refusal) => (task, ..) = refusal.into_parts(),
            }
            check = if this.listed.is_none() { this.list_behind_others(context.waker()) } else { None };
        }
        this.parts = Some((task, handle));
        Poll::Pending
    }
}

/// The future is not self-referential for any `T`.
impl<T> Unpin for SubmitAsync<T> {}

impl<T> fmt::Debug for SubmitAsync<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SubmitAsync")
            .field("pool", &self.pool)
            .field("waits", &self.listed.is_some())
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::WorkQueue;

    /// Otherwise a thread that gave up spinning would take the room of the first waiter.
    #[test]
    fn a_blocked_submitter_does_not_overtake_those_who_wait() {
        let builder = ThreadPoolExecutor::builder().core_pool_size(1).maximum_pool_size(1);
        let pool = builder.work_queue(WorkQueue::array(1)).build().unwrap();
        let (start, started) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        pool.execute(move || {
            start.send(()).unwrap();
            released.recv().unwrap_err();
        })
        .unwrap();
        started.recv().unwrap(); // the worker is busy: a parked one would take the head of the queue
        let queued = pool.submit(|| ()).unwrap();
        let mut context = Context::from_waker(Waker::noop());
        let (mut first, mut second) = (pool.submit_async(|| ()), pool.submit_async(|| ()));
        for future in [&mut first, &mut second] {
            assert!(Pin::new(future).poll(&mut context).is_pending());
        }
        assert!(queued.cancel(false)); // notifies the first future
        let refused = pool.admit_when_room(Task::new(|| ()), Duration::ZERO).unwrap_err();
        assert_eq!(refused.reason(), RejectReason::Saturated);
        assert!(Pin::new(&mut first).poll(&mut context).is_ready());
        drop(release);
    }
}
