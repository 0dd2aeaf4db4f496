//! Admission: how a task enters the pool, or is refused.
//!
//! One path serves all callers:
//!
//! 1. Decide, on one read of the control word and the queue, by [`growth::admit`].
//! 2. Try: start a worker with the task, or push it into the queue. On a lost race, go to 1.
//! 3. After a push, [`confirm_admitted`](PoolInner::confirm_admitted). Enqueuing is not enough: the
//!    pool may have been shut down, or its last worker may have exited, before the push was
//!    visible.
//!
//! [`admit`](PoolInner::admit) is generic over the work that becomes a task. A pool with a plain
//! queue decides before it builds a [`Task`]. So it queues a small closure without an allocation,
//! and refuses one within a few nanoseconds. All other submissions go through
//! [`admit_task`](PoolInner::admit_task). `refusal` applies the rejection policy.

use std::io;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::control::Snapshot;
use super::growth::{self, Admission, Load};
use super::inner::PoolInner;
use super::queue::TaskQueue;
use super::queue::delayed::DelayedQueue;
use super::queue::fifo::Fifo;
use super::spawn::{Limit, NotAdded};
use crate::executor::{PoolFacts, RejectReason, Rejected};
use crate::interrupt::TaskFrame;
use crate::panic::drop_caught;
use crate::sync::{Arc, Ordering, fence};
use crate::task::{Pack, Panic, Task, TaskId, TaskInfo, TrackedTask};

/// Work that becomes a [`Task`] when the pool admits it.
pub(super) trait IntoTask: Pack {
    /// Runs the work on the calling thread, and reports its panic to `pool`.
    fn run_on_caller(self, pool: &PoolInner) {
        self.into_task().run_reporting_panics(|info, panic| pool.report_panic(info, panic));
    }

    /// Drops the work and catches a panic of its destructor.
    fn discard(self) {
        self.into_task().drop_caught();
    }
}

impl<F: FnOnce() + Send + 'static> IntoTask for F {
    fn run_on_caller(self, pool: &PoolInner) {
        let _frame = TaskFrame::enter(); // same as in `Task::run`
        if let Err(payload) = catch_unwind(AssertUnwindSafe(self)) {
            let panic = Panic::new(payload);
            pool.report_panic(&TaskInfo::fresh(), &panic);
            resume_unwind(panic.into_payload());
        }
    }

    fn discard(self) {
        drop_caught(self);
    }
}

impl IntoTask for ManuallyDrop<TrackedTask> {}

impl IntoTask for Task {}

/// A task that the pool did not admit.
pub(crate) struct Refusal {
    task: Task,
    reason: RejectReason,
    source: Option<io::Error>,
}

impl Refusal {
    pub(crate) fn new(task: Task, reason: RejectReason) -> Self {
        Refusal { task, reason, source: None }
    }

    fn boxed(task: Task, reason: RejectReason, source: Option<io::Error>) -> Box<Self> {
        Box::new(Refusal { task, reason, source })
    }

    pub(super) fn reason(&self) -> RejectReason {
        self.reason
    }

    pub(super) fn task(&self) -> &Task {
        &self.task
    }

    pub(super) fn into_task(self) -> Task {
        self.task
    }

    /// Turns a periodic task into one that runs once.
    pub(super) fn once(self) -> Self {
        Refusal { task: self.task.once(), ..self }
    }

    pub(super) fn into_parts(self) -> (Task, RejectReason, Option<io::Error>) {
        (self.task, self.reason, self.source)
    }

    pub(super) fn into_rejected(self, pool: &PoolInner) -> Rejected {
        let rejected = Rejected::by_pool(self.task, self.reason, pool.facts()).by_name(pool.name());
        match self.source {
            Some(source) => rejected.because(source),
            None => rejected,
        }
    }
}

/// Why [`PoolInner::admit`] failed.
pub(super) enum Refused<T> {
    /// The pool is overloaded and has no hooks. Decided before the task was built.
    Overloaded(T, PoolFacts),
    /// Boxed to keep the `Result` of the fast path small.
    Task(Box<Refusal>),
}

impl<T: IntoTask> Refused<T> {
    pub(super) fn into_refusal(self) -> Refusal {
        match self {
            Refused::Overloaded(work, _) => Refusal::new(work.into_task(), RejectReason::Saturated),
            Refused::Task(refusal) => *refusal,
        }
    }
}

/// The state of the pool that a submitter reads after its push.
pub(super) struct Observed {
    control: Snapshot,
    /// True if a parked worker must be woken.
    wake: bool,
}

impl Observed {
    #[inline]
    pub(super) fn needs_nothing(&self) -> bool {
        self.control.is_running() && self.control.workers() > 0 && !self.wake
    }
}

/// How [`PoolInner::admit_task`] learns whether the queue has room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RoomCheck {
    /// By a read without the lock, which may be stale.
    Hint,
    /// By a push, under the queue's lock. Used by listed submitters: race "wait for room / make
    /// room".
    UnderLock,
}

/// Decrements the count of outstanding tasks when dropped. `admit_task` forgets it on success.
struct OutstandingGuard<'a>(&'a PoolInner);

impl Drop for OutstandingGuard<'_> {
    fn drop(&mut self) {
        self.0.remove_outstanding();
    }
}

impl PoolInner {
    /// Admits `task`: to a new worker, to the queue, or to the caller as refused.
    #[inline]
    pub(super) fn admit<T: IntoTask>(self: &Arc<Self>, task: T) -> Result<(), Refused<T>> {
        let task = 'fast: {
            let Some(fifo) = self.plain_queue() else { break 'fast task };
            // Check for a full queue first: an overloaded pool must refuse quickly.
            if let Some(queued) = fifo.full_len() {
                match self.overload(queued) {
                    Some(facts) => return Err(Refused::Overloaded(task, facts)),
                    None => break 'fast task,
                }
            }
            let seen = self.control().load();
            if !T::FITS || !seen.is_running() || self.apply_growth_rule(seen, true) != Admission::Queue {
                break 'fast task;
            }
            let id = task.packed_id();
            task.entered(self.owner_number());
            match fifo.push(id, task, || self.observe()) {
                Ok(observed) if observed.needs_nothing() => return Ok(()),
                Ok(observed) => return self.confirm_admitted(id, observed).map_err(Refused::Task),
                Err(task) => task, // the queue has filled up since the check
            }
        };
        let mut task = task.into_task();
        if !self.carry_context(&mut task) {
            return Err(Refused::Task(Refusal::boxed(task, RejectReason::CallbackPanicked, None)));
        }
        self.admit_task(task, RoomCheck::Hint).map_err(Refused::Task)
    }

    /// Like [`admit`](Self::admit), for every kind of queue and growth rule.
    #[inline(never)]
    pub(super) fn admit_task(self: &Arc<Self>, mut task: Task, check: RoomCheck) -> Result<(), Box<Refusal>> {
        self.add_outstanding();
        let counted = OutstandingGuard(self);
        if let Some(limit) = self.time_limit() {
            limit.stamp(&mut task, self.queue());
        }
        task.entered(self.owner_number());
        if check == RoomCheck::UnderLock {
            fence(Ordering::SeqCst); // room by a worker exit: pairs with `WorkerLoop::exit`
            self.queue().order_takes(); // room in the queue: pairs with the head lock
        }
        let placed = self.place(task, check);
        match &placed {
            Ok(()) => std::mem::forget(counted), // decremented when the task is settled
            Err(refusal) => refusal.task.left(),
        }
        placed
    }

    fn place(self: &Arc<Self>, mut task: Task, check: RoomCheck) -> Result<(), Box<Refusal>> {
        let assumed_room = (check == RoomCheck::UnderLock).then_some(true);
        let mut has_room = assumed_room;
        let mut spawn_error = None;
        loop {
            let seen = self.control().load();
            if !seen.is_running() && spawn_error.is_none() {
                return Err(Refusal::boxed(task, RejectReason::Shutdown, None));
            }
            let limit = match self.decide(seen, has_room, spawn_error.is_some()) {
                None => {
                    has_room = assumed_room;
                    continue;
                }
                Some(Admission::Reject) if spawn_error.is_some() => {
                    return Err(Refusal::boxed(task, RejectReason::SpawnFailed, spawn_error));
                }
                Some(Admission::Reject) => return Err(Refusal::boxed(task, RejectReason::Saturated, None)),
                Some(Admission::Queue) => {
                    let id = task.id();
                    match self.queue().offer(task, self.idle(), self.meter(), || self.observe()) {
                        Ok(observed) => return self.confirm_admitted(id, self.grow_to_core(seen, observed)),
                        Err(back) => (task, has_room) = (back, Some(false)),
                    }
                    continue;
                }
                // For an eager pool: fail if the control word has changed, because a worker may now
                // be free.
                Some(_) if self.rule() == growth::GrowthRule::Eager => Limit::Unchanged(seen),
                Some(Admission::CoreThread) => Limit::Core,
                Some(Admission::ExtraThread) => Limit::Maximum,
            };
            let Err(NotAdded { first, cause }) = self.add_worker(Some(task), limit) else { return Ok(()) };
            task = first.expect("a worker that was not added gives its first task back");
            if cause.is_some() {
                (spawn_error, has_room) = (cause, None);
            }
        }
    }

    /// Decides once about a task. Returns `None` if an idle worker took the head of a full queue:
    /// there may be room now, so the caller decides again.
    fn decide(&self, seen: Snapshot, has_room: Option<bool>, spawn_failed: bool) -> Option<Admission> {
        // No growth decision: the queue takes every task, or no thread can be started. In the
        // second case a worker that exists may run the task from the queue.
        if spawn_failed || self.queue().takes_all() {
            let may_queue = has_room != Some(false) && (seen.workers() > 0 || !spawn_failed);
            return Some(if may_queue { Admission::Queue } else { Admission::Reject });
        }
        let has_room =
            has_room.unwrap_or_else(|| self.queue().has_room(self.idle())) && !self.queue_is_overdue();
        if !has_room && self.hand_head_to_idle() {
            return None;
        }
        if has_room && seen.is_paused() {
            return Some(Admission::Queue); // visible there; a new thread would only hold it
        }
        Some(self.apply_growth_rule(seen, has_room))
    }

    #[inline]
    fn apply_growth_rule(&self, seen: Snapshot, queue_has_room: bool) -> Admission {
        let load = Load {
            workers: seen.workers(),
            core: self.settings().core(),
            maximum: self.settings().maximum(),
            queue_has_room,
            worker_is_free: self.has_free_worker(seen),
        };
        growth::admit(self.rule(), load)
    }

    /// Reads the state of the pool after a push. The caller orders the read after the push: under
    /// the tail lock, or by `TaskQueue::order`.
    #[inline]
    pub(super) fn observe(&self) -> Observed {
        Observed { control: self.control().load(), wake: self.idle().should_wake_for_new_task() }
    }

    /// For a queue that takes every task: starts a worker if the pool is below its core size, and
    /// observes again. Returns `observed` for other queues.
    pub(super) fn grow_to_core(self: &Arc<Self>, seen: Snapshot, observed: Observed) -> Observed {
        if !self.queue().takes_all() {
            return observed;
        }
        if seen.workers() < self.settings().core() {
            // If this fails, `confirm_admitted` still ensures that there is at least one worker.
            let _ = self.add_worker(None, Limit::Core);
        }
        if let TaskQueue::Delayed(delayed) = self.queue() {
            return self.observe_delayed(delayed);
        }
        self.queue().order();
        self.observe()
    }

    /// Like `observe`, after an insertion into a delayed queue. The queue's lock orders this read
    /// after the insertion.
    #[inline]
    pub(super) fn observe_delayed(&self, delayed: &DelayedQueue) -> Observed {
        Observed { control: self.control().load(), wake: !delayed.is_watched_hint() }
    }

    /// Ensures that a worker will take the queued task `id`, or takes the task back and refuses it.
    ///
    /// Race "enqueue / shutdown": if the push came first, the thread that shuts down sees the task.
    /// The pool then does not terminate before the task has run. Otherwise `observed` has the new
    /// state, and this thread takes the task back. Model: `submit_against_shutdown`.
    ///
    /// Race "enqueue / last worker exits": if the push came first, the worker sees the task and
    /// does not exit. Otherwise `observed` has no worker, and this thread starts one. Model:
    /// `submit_against_last_worker_exit`.
    ///
    /// Race "enqueue / park": see `idle`.
    #[inline(never)]
    pub(super) fn confirm_admitted(
        self: &Arc<Self>,
        id: TaskId,
        observed: Observed,
    ) -> Result<(), Box<Refusal>> {
        let Observed { control, wake } = observed;
        if !control.is_running() {
            return self.take_back(id, RejectReason::Shutdown, None);
        }
        if control.workers() == 0 {
            return self.start_first_worker(id);
        }
        if wake && !control.is_paused() {
            self.wake_one();
        }
        Ok(())
    }

    /// Takes the task `id` out of the queue and refuses it. Returns `Ok` if the task is not queued
    /// any more: a worker has taken it, or `shutdown_now` has returned it.
    #[cold]
    fn take_back(
        &self,
        id: TaskId,
        reason: RejectReason,
        source: Option<io::Error>,
    ) -> Result<(), Box<Refusal>> {
        let Some(task) = self.queue().take_back(id) else { return Ok(()) };
        task.left();
        self.after_removal(); // this task may have been the last one
        Err(Refusal::boxed(task, reason, source))
    }

    /// Starts a worker for the queued task `id` of a pool without workers. If that fails, takes the
    /// task back.
    #[cold]
    fn start_first_worker(self: &Arc<Self>, id: TaskId) -> Result<(), Box<Refusal>> {
        if let Err(NotAdded { cause: Some(error), .. }) = self.add_worker(None, Limit::Maximum)
            && self.control().load().workers() == 0
        {
            return self.take_back(id, RejectReason::SpawnFailed, Some(error));
        }
        // The pool has this worker, or one of another submitter, or it is being shut down.
        self.wake_one();
        Ok(())
    }

    /// For a queue that was full with `queued` tasks. Returns the facts for the error if the growth
    /// rule rejects a task and no parked worker could take the head. Returns `None` otherwise, and
    /// if a hook or observer must be notified.
    #[inline]
    fn overload(&self, queued: usize) -> Option<PoolFacts> {
        let seen = self.control().load();
        let overloaded = self.hooks().is_none()
            && !self.me().is_observed()
            && seen.is_running()
            && self.apply_growth_rule(seen, false) == Admission::Reject
            && !self.idle().has_parked();
        overloaded.then(|| self.facts_of(seen, self.settings().maximum(), queued))
    }

    /// Returns true if a task would be rejected now. False does not mean that it would be accepted.
    #[inline]
    pub(super) fn is_overloaded(&self) -> bool {
        self.plain_queue().and_then(Fifo::full_len).is_some_and(|queued| self.overload(queued).is_some())
    }
}
