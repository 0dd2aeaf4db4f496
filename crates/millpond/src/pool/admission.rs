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
//! [`admit`](PoolInner::admit) is generic over what becomes a task. A pool with a plain queue
//! decides before it builds anything, so it queues a small closure without an allocation and
//! refuses one in a few nanoseconds. Everything else goes through
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
        let _frame = TaskFrame::enter(); // as `Task::run`
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

/// What a submitter reads after its push.
pub(super) struct Observed {
    control: Snapshot,
    /// A parked worker must be woken.
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
    /// By a push, under the queue's lock. For a listed submitter: race "wait for room / make room".
    UnderLock,
}

/// Removes a task from the count of outstanding tasks, unless it is forgotten.
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
            // Read first: an overloaded pool must refuse quickly.
            if let Some(queued) = fifo.full_len() {
                match self.overload(queued) {
                    Some(facts) => return Err(Refused::Overloaded(task, facts)),
                    None => break 'fast task,
                }
            }
            let seen = self.control().load();
            if !T::FITS || !seen.is_running() || self.growth(seen, true) != Admission::Queue {
                break 'fast task;
            }
            let id = task.packed_id();
            task.entered(self.owner_number());
            match fifo.push(id, task, || self.observe()) {
                Ok(observed) if observed.needs_nothing() => return Ok(()),
                Ok(observed) => return self.confirm_admitted(id, observed).map_err(Refused::Task),
                Err(task) => task, // the queue has filled up since
            }
        };
        let mut task = task.into_task();
        if !self.carry_context(&mut task) {
            return Err(Refused::Task(Refusal::boxed(task, RejectReason::CallbackPanicked, None)));
        }
        self.admit_task(task, RoomCheck::Hint).map_err(Refused::Task)
    }

    /// As [`admit`](Self::admit), for every kind of queue and growth rule.
    #[inline(never)]
    pub(super) fn admit_task(self: &Arc<Self>, mut task: Task, check: RoomCheck) -> Result<(), Box<Refusal>> {
        self.add_outstanding();
        let counted = OutstandingGuard(self);
        if let Some(limit) = self.time_limit() {
            limit.stamp(&mut task, self.queue());
        }
        task.entered(self.owner_number());
        if check == RoomCheck::UnderLock {
            fence(Ordering::SeqCst); // room by a worker's exit: pairs with `WorkerLoop::exit`
            self.queue().order_takes(); // room in the queue: pairs with the head lock
        }
        let placed = self.place(task, check);
        match &placed {
            Ok(()) => std::mem::forget(counted), // until the task is settled
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
                // An eager pool that has changed meanwhile may have a free worker now.
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

    /// One decision about a task. `None`: an idle worker was given the head of a full queue, so
    /// there may be room now.
    fn decide(&self, seen: Snapshot, has_room: Option<bool>, spawn_failed: bool) -> Option<Admission> {
        // Without a new thread, another worker may run the task from the queue.
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
            return Some(Admission::Queue); // where the task can be found: a new thread would hold it
        }
        Some(self.growth(seen, has_room))
    }

    #[inline]
    fn growth(&self, seen: Snapshot, queue_has_room: bool) -> Admission {
        let load = Load {
            workers: seen.workers(),
            core: self.settings().core(),
            maximum: self.settings().maximum(),
            queue_has_room,
            worker_is_free: self.has_free_worker(seen),
        };
        growth::admit(self.rule(), load)
    }

    /// The read after a push, which the push has ordered.
    #[inline]
    pub(super) fn observe(&self) -> Observed {
        Observed { control: self.control().load(), wake: self.idle().should_wake_for_new_task() }
    }

    /// For a queue that every task passes through: starts a worker below the core size, as if the
    /// task had not been queued, and reads again. Other queues: nothing to do.
    pub(super) fn grow_to_core(self: &Arc<Self>, seen: Snapshot, observed: Observed) -> Observed {
        if !self.queue().takes_all() {
            return observed;
        }
        if seen.workers() < self.settings().core() {
            // If it fails, `confirm_admitted` makes sure that there is one worker at least.
            let _ = self.add_worker(None, Limit::Core);
        }
        if let TaskQueue::Delayed(delayed) = self.queue() {
            return self.observe_delayed(delayed);
        }
        self.queue().order();
        self.observe()
    }

    /// As `observe`, after an insertion into a delayed queue, whose lock has ordered it.
    #[inline]
    pub(super) fn observe_delayed(&self, delayed: &DelayedQueue) -> Observed {
        Observed { control: self.control().load(), wake: !delayed.is_watched_hint() }
    }

    /// Makes sure that a worker will take the task `id`, which has been pushed, or takes it back.
    ///
    /// Race "enqueue / shutdown": if the push came first, the shutting thread sees the task and the
    /// pool does not terminate before it has run. Otherwise `observed` has the new state, and the
    /// task is taken back. Model: `submit_against_shutdown`.
    ///
    /// Race "enqueue / last worker exits": if the push came first, the worker sees the task and
    /// stays. Otherwise `observed` has no worker, and one is started. Model:
    /// `submit_against_last_worker_leaves`.
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

    /// Takes the task `id` out of the queue and refuses it. `Ok` if it is gone: a worker has it, or
    /// `shutdown_now` has handed it back.
    #[cold]
    fn take_back(
        &self,
        id: TaskId,
        reason: RejectReason,
        source: Option<io::Error>,
    ) -> Result<(), Box<Refusal>> {
        let Some(task) = self.queue().take_back(id) else { return Ok(()) };
        task.left();
        self.try_terminate(); // the pool may have waited for this task only
        Err(Refusal::boxed(task, reason, source))
    }

    /// The task `id` is queued and there is no worker.
    #[cold]
    fn start_first_worker(self: &Arc<Self>, id: TaskId) -> Result<(), Box<Refusal>> {
        if let Err(NotAdded { cause: Some(error), .. }) = self.add_worker(None, Limit::Maximum)
            && self.control().load().workers() == 0
        {
            return self.take_back(id, RejectReason::SpawnFailed, Some(error));
        }
        // This worker, another submitter's, or none because the pool is being shut down.
        self.wake_one();
        Ok(())
    }

    /// For a queue that was seen to be full with `queued` tasks: the facts for the error if the
    /// growth rule rejects a task, no parked worker could take the head, and no hook or observer
    /// wants to be told.
    #[inline]
    fn overload(&self, queued: usize) -> Option<PoolFacts> {
        let seen = self.control().load();
        let overloaded = self.hooks().is_none()
            && !self.me().is_observed()
            && seen.is_running()
            && self.growth(seen, false) == Admission::Reject
            && !self.idle().has_parked();
        overloaded.then(|| self.facts_of(seen, self.settings().maximum(), queued))
    }

    /// Returns true if a task would be rejected now. May return false in other cases too.
    #[inline]
    pub(super) fn is_overloaded(&self) -> bool {
        self.plain_queue().and_then(Fifo::full_len).is_some_and(|queued| self.overload(queued).is_some())
    }
}
