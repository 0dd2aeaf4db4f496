//! Backpressure: submitters that wait until a full pool has room. [`policy::Block`] blocks the
//! thread, [`submit_async`](ThreadPoolExecutor::submit_async) suspends a future. Both are served in
//! order.
//!
//! [`policy::Block`]: super::policy::Block
//!
//! Race "wait for room / make room". A submitter lists itself, tries again to enter, and waits if
//! that fails. A thread that makes room notifies the first listed submitter afterwards. Both pass
//! through the head lock of the queue (or the list of idle workers) in between. If the submitter
//! passed first, it is seen in the list. If the room came first, the attempt succeeds. Model:
//! `waiting_for_room_against_making_it`.
//!
//! A notified submitter leaves the list, and returns to its old position before it tries again. So
//! each unit of room goes to one submitter. One that gives up after its notification passes it on.
//! Model: `a_dropped_async_submitter_passes_its_room_on`.
//!
//! A future that finds others waiting queues up behind them without an attempt. Room that was made
//! while all listed submitters were notified is then known to these only. So each submitter that
//! leaves the list offers the remaining room to the next. The future saw one of them in the list,
//! so it is listed itself when that one leaves. Model:
//! `async_submitters_behind_each_other_all_get_room`.

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
    /// The list was empty before.
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
}

impl<P: Deref<Target = PoolInner>> Drop for WaitingSubmitter<P> {
    fn drop(&mut self) {
        let submitters = self.pool.submitters();
        submitters.remove(self.key);
        // Offer room to the next: unused after a notification, or known to no listed submitter.
        if !submitters.is_empty() && self.pool.may_have_room() {
            submitters.notify_first();
        }
    }
}

impl PoolInner {
    /// A hint, read without locks: an attempt to enter may succeed.
    fn may_have_room(&self) -> bool {
        let seen = self.control().load();
        !seen.is_running()
            || seen.workers() < self.settings().maximum()
            || self.queue().has_room(self.idle()) && !self.queue_is_overdue()
    }

    /// Waits for room for a short time without parking: while tasks are short, parking for every
    /// slot costs more than they do.
    ///
    /// A blocked submitter will soon need another slot, so with a large queue it waits for an
    /// eighth of the capacity. If there is some room and less than that, it leaves its core to the
    /// workers for 50 µs: they just needed longer than the spin for an eighth, so the queue does
    /// not run empty.
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
        if !timeout.is_zero() {
            pool.spin_for_room(&me, deadline);
        }
        let cell = Arc::new(WaitCell::of(me));
        let mut listed = WaitingSubmitter::new(&**pool, Waiting::Thread(Arc::clone(&cell)));
        let mut task = task;
        let refusal = loop {
            match pool.admit_task(task, RoomCheck::UnderLock) {
                Ok(()) => return Ok(()),
                Err(refusal) if refusal.reason() != RejectReason::Saturated => break *refusal,
                Err(refusal) => (task, ..) = refusal.into_parts(),
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
/// It does nothing until it is polled, and works on any runtime. Once polled, poll it when it is
/// woken or drop it: until then, submitters behind it are not told of the room it was woken for.
#[must_use = "futures do nothing unless they are polled"]
pub struct SubmitAsync<T> {
    pool: ThreadPoolExecutor,
    /// `None` once the task has been accepted or refused.
    parts: Option<(Task, TaskHandle<T>)>,
    /// The context could not be captured, so the task is refused.
    capture_panicked: bool,
    /// The place in the list, once the future has had to wait.
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
    /// Lists the future, or renews its entry. Returns whether it may try to enter, and how; `None`:
    /// it has to wait.
    fn list(&mut self, waker: &Waker) -> Option<RoomCheck> {
        let pool = self.pool.inner();
        match &mut self.listed {
            None if pool.submitters().is_empty() => Some(RoomCheck::Hint),
            None => self.list_behind_others(waker),
            Some(listed) => match pool.submitters().set_waker(listed.key, waker.clone()) {
                Ok(()) => None, // not notified
                Err(waker) => {
                    listed.rejoin(Waiting::Task(waker));
                    Some(RoomCheck::UnderLock)
                }
            },
        }
    }

    /// A shutdown advances the state and then notifies the list, under its lock: either it finds
    /// this future there, or the state is seen here.
    fn list_behind_others(&mut self, waker: &Waker) -> Option<RoomCheck> {
        let pool = self.pool.inner();
        let listed = WaitingSubmitter::new(Arc::clone(pool), Waiting::Task(waker.clone()));
        let may_try = listed.was_first || !pool.control().load().is_running();
        self.listed = Some(listed);
        may_try.then_some(RoomCheck::UnderLock)
    }
}

impl<T: Send + 'static> Future for SubmitAsync<T> {
    type Output = Result<TaskHandle<T>, Rejected>;

    /// # Panics
    /// If the future has resolved before.
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

/// Not self-referential, whatever `T` is.
impl<T> Unpin for SubmitAsync<T> {}

impl<T> fmt::Debug for SubmitAsync<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SubmitAsync")
            .field("pool", &self.pool)
            .field("waits", &self.listed.is_some())
            .finish_non_exhaustive()
    }
}
