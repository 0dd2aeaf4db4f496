//! Admission: what becomes of a task that is handed in.
//!
//! The growth rule decides on a snapshot; what it decided is then tried, and if things have changed meanwhile it is asked
//! again. A task that was put into the queue is not yet safe: `confirm_admitted` sees to it that somebody will take it from
//! there, or takes it back.

use std::io;
use std::task::Waker;
use std::time::{Duration, Instant};

use super::control::{MOST_WORKERS, Snapshot};
use super::growth::{self, Admission, GrowthRule, Load};
use super::inner::PoolInner;
use super::queue::TaskQueue;
use super::queue::fifo::Fifo;
use super::submitters::BlockedSubmitter;
use super::workers::{Limit, NotAdded};
use crate::executor::{PoolFacts, RejectReason, Rejected};
use crate::interrupt::wait::{OnInterrupt, WaitCell, Waiting};
use crate::interrupt::{ThreadContext, Wake};
use crate::sync::backoff::snooze;
use crate::sync::{Arc, Ordering, deadline_after, fence};
use crate::task::{Bare, Half, Pack, Task, TaskId, TimerTask};
use crate::time::clock::Tick;

/// A task that was not taken, and why.
pub(super) struct Refusal {
    pub(super) task: Task,
    pub(super) reason: RejectReason,
    pub(super) source: Option<io::Error>,
}

impl Refusal {
    pub(super) fn new(task: Task, reason: RejectReason) -> Self {
        Refusal { task, reason, source: None }
    }
}

/// A task that was in the queue, and was taken back. In a box, for it is rare, and the answer of all others is moved about as
/// well: as long as it is, that takes longer than to put a task into the queue.
pub(super) type TooLate = Box<Refusal>;

/// What a submitter sees after its task is in the queue (A3, S3).
pub(super) struct Observed {
    control: Snapshot,
    /// Somebody sleeps, and nobody is on the way.
    call: bool,
}

impl Observed {
    /// Somebody will take the task, and nobody is to be called.
    #[inline]
    fn is_fine(&self) -> bool {
        self.control.is_running() && self.control.workers() > 0 && !self.call
    }
}

/// Eager pools only: counts a task in, and out again if it is not accepted, also when a queue of the user's panics.
struct CountedCell<'a>(&'a PoolInner);

impl<'a> CountedCell<'a> {
    fn new(pool: &'a PoolInner) -> Self {
        if pool.rule == GrowthRule::Eager {
            pool.outstanding.fetch_add(1, Ordering::SeqCst);
        }
        CountedCell(pool)
    }
}

impl Drop for CountedCell<'_> {
    fn drop(&mut self) {
        self.0.task_gone();
    }
}

/// How long a submitter leaves the processor to the workers.
const MOMENT: Duration = Duration::from_micros(50);

impl PoolInner {
    /// Takes `task` by the growth rule, or says why not.
    pub(super) fn admit(self: &Arc<Self>, task: Task) -> Result<(), Refusal> {
        let Some(fifo) = self.short_way() else { return self.admit_as(task, false) };
        task.entered(self.home.number());
        // If there is no room after all the long way finds out what to do.
        match self.queue(fifo, task.id(), task) {
            Ok(queued) => queued.map_err(|refusal| *refusal),
            Err(task) => self.admit_as(task, false),
        }
    }

    /// The rule sends a task to the queue, if that has room: in a pool of the usual kind, from core size on.
    #[inline]
    fn goes_to_the_queue(&self, seen: Snapshot) -> bool {
        let load = Load {
            workers: seen.workers(),
            core: self.core_size(),
            maximum: self.maximum(),
            queue_has_room: true,
            worker_is_free: false,
        };
        seen.is_running() && growth::admit(self.rule, load) == Admission::Queue && self.has_short_way
    }

    /// As `admit`, for a closure, which is not made a task before it is in the queue. Gives it back if it is not for the
    /// short way; with the facts, if that is because of an [`overload`](Self::overload).
    #[inline]
    pub(super) fn queue_closure<F>(
        self: &Arc<Self>,
        f: F,
    ) -> Result<Result<(), TooLate>, (F, Option<PoolFacts>)>
    where
        F: FnOnce() + Send + 'static,
    {
        let TaskQueue::Fifo(fifo) = &self.queue else { return Err((f, None)) };
        if fifo.is_full() {
            return Err((f, self.overload(fifo)));
        }
        if !self.goes_to_the_queue(self.control.load()) {
            return Err((f, None));
        }
        let queued = Bare::new(f).and_then(|bare| {
            let id = bare.id();
            self.queue(fifo, id, bare).map_err(Bare::into_inner)
        });
        queued.map_err(|f| (f, None))
    }

    /// The same for the task of a handle.
    #[inline]
    pub(super) fn queue_tracked(self: &Arc<Self>, task: Half) -> Result<Result<(), TooLate>, Half> {
        let Some(fifo) = self.short_way() else { return Err(task) };
        task.entered(self.home.number());
        self.queue(fifo, task.id(), task)
    }

    #[inline]
    fn queue<T: Pack>(self: &Arc<Self>, fifo: &Fifo, id: TaskId, task: T) -> Result<Result<(), TooLate>, T> {
        let around = fifo.push_if_it_fits(task, || self.around())?;
        if around.is_fine() { Ok(Ok(())) } else { Ok(self.published_or_left(id, around)) }
    }

    /// As `confirm_admitted`, for a task that was told that it has entered: if it is refused it is told that it has left.
    fn published_or_left(self: &Arc<Self>, id: TaskId, around: Observed) -> Result<(), TooLate> {
        self.confirm_admitted(id, around).inspect_err(|refusal| refusal.task.left())
    }

    /// The queue that a task goes to, if that is a common one and has room. A full queue is seen before anything is done
    /// for the task: an overloaded pool must say no quickly.
    #[inline]
    fn short_way(&self) -> Option<&Fifo> {
        match &self.queue {
            TaskQueue::Fifo(fifo) if !fifo.is_full() && self.goes_to_the_queue(self.control.load()) => {
                Some(fifo)
            }
            _ => None,
        }
    }

    /// For the look after a task was put into the queue.
    #[inline]
    fn around(&self) -> Observed {
        Observed { control: self.control.load(), call: self.idle.may_be_called_for_another() }
    }

    /// As `admit`. `in_earnest`: asks the queue itself for room, under its lock, and does not trust the look
    /// from outside; the argument in `room.rs` needs that.
    pub(super) fn admit_as(self: &Arc<Self>, task: Task, in_earnest: bool) -> Result<(), Refusal> {
        self.admit_by(task, |task| self.place(task, in_earnest))
    }

    /// Takes `task` to be run when it is `due`, for a scheduled pool. The error is in a box, as one that is [`TooLate`].
    #[inline]
    pub(super) fn admit_at(self: &Arc<Self>, task: TimerTask, due: Tick) -> Result<(), TooLate> {
        let seen = self.control.load();
        let TaskQueue::Delayed(delayed) = &self.queue else {
            // It could not wait for its time.
            return Err(Self::refuse_held(task, RejectReason::Saturated));
        };
        if !seen.is_running() {
            return Err(Self::refuse_held(task, RejectReason::Shutdown));
        }
        let id = task.id();
        task.entered(self.home.number());
        delayed.insert(task, due); // A1, and A2 is the queue's lock
        let around = Observed { control: self.control.load(), call: !delayed.is_seen_to() };
        if seen.workers() >= self.core_size() && around.is_fine() {
            return Ok(());
        }
        self.published_at(id, seen)
    }

    #[cold]
    fn refuse_held(task: TimerTask, reason: RejectReason) -> TooLate {
        Box::new(Refusal::new(task.into_task(), reason))
    }

    /// The rest of `admit_at`, after the task is in the queue.
    #[inline(never)]
    fn published_at(self: &Arc<Self>, id: TaskId, seen: Snapshot) -> Result<(), TooLate> {
        if seen.workers() < self.core_size() {
            // If it fails, `confirm_admitted` sees to it that there is one at least.
            let _ = self.add_worker(None, Limit::Core);
        }
        self.published_or_left(id, self.around())
    }

    fn admit_by(
        self: &Arc<Self>,
        mut task: Task,
        place: impl FnOnce(Task) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let counted = CountedCell::new(self);
        self.stamp(&mut task);
        task.entered(self.home.number());
        let placed = place(task);
        match &placed {
            Ok(()) => std::mem::forget(counted), // until it is settled
            Err(refusal) => refusal.task.left(),
        }
        placed
    }

    fn place(self: &Arc<Self>, mut task: Task, in_earnest: bool) -> Result<(), Refusal> {
        let mut room = in_earnest.then_some(true);
        loop {
            let seen = self.control.load();
            if !seen.is_running() {
                return Err(Refusal::new(task, RejectReason::Shutdown));
            }
            if self.queue.takes_all() {
                return self.enqueue(task, seen);
            }
            let queue_has_room =
                room.unwrap_or_else(|| self.queue.has_room(&self.idle)) && !self.queue_is_overdue();
            if !queue_has_room && self.relieve_queue() {
                room = in_earnest.then_some(true);
                continue;
            }
            let load = Load {
                workers: seen.workers(),
                core: self.core_size(),
                maximum: self.maximum(),
                queue_has_room,
                worker_is_free: self.outstanding() <= seen.workers(),
            };
            let limit = match growth::admit(self.rule, load) {
                Admission::Reject => return Err(Refusal::new(task, RejectReason::Saturated)),
                Admission::Queue => {
                    let id = task.id();
                    match self.queue.offer(task, &self.idle, || self.around()) {
                        Ok(around) => return self.confirm_admitted(id, around).map_err(|refusal| *refusal),
                        Err(back) => {
                            task = back;
                            room = Some(false);
                            continue;
                        }
                    }
                }
                Admission::CoreThread => Limit::Core,
                Admission::ExtraThread => Limit::Maximum,
            };
            // An eager pool that has grown meanwhile may have a free worker now.
            let only_if = (self.rule == GrowthRule::Eager).then_some(seen);
            match self.add_worker_if(only_if, Some(task), limit) {
                Ok(()) => return Ok(()),
                Err(NotAdded { first, cause }) => {
                    task = first.expect("a worker that was not added gives its first task back");
                    if let Some(error) = cause {
                        return self.queue_instead(task, error);
                    }
                    // A limit was reached or the state changed under our hands: decide anew.
                }
            }
        }
    }

    /// Tasks wait, and a worker sleeps or is just falling asleep: it can have the next one.
    pub(super) fn relieve_queue(&self) -> bool {
        matches!(self.queue, TaskQueue::Fifo(_)) && self.idle.hand_head_to_idle(|| self.poll())
    }

    /// A thread for `task` could not be started: if others live they may have it, else it goes back.
    #[cold]
    fn queue_instead(self: &Arc<Self>, task: Task, error: io::Error) -> Result<(), Refusal> {
        let id = task.id();
        let offered = if self.control.load().workers() == 0 {
            Err(task)
        } else {
            self.queue.offer(task, &self.idle, || self.around())
        };
        match offered {
            Ok(around) => self.confirm_admitted(id, around).map_err(|refusal| *refusal),
            Err(task) => Err(Refusal { task, reason: RejectReason::SpawnFailed, source: Some(error) }),
        }
    }

    /// For a queue that every task passes through: puts it there, and starts threads for it as if it had not.
    fn enqueue(self: &Arc<Self>, task: Task, seen: Snapshot) -> Result<(), Refusal> {
        let id = task.id();
        if let Err(task) = self.queue.offer(task, &self.idle, || ()) {
            return Err(Refusal::new(task, RejectReason::Saturated));
        }
        if seen.workers() < self.core_size() {
            // If it fails, `confirm_admitted` sees to it that there is one at least.
            let _ = self.add_worker(None, Limit::Core);
        }
        if !matches!(self.queue, TaskQueue::Delayed(_)) {
            self.queue.order(); // A2, which for a queue in time was its lock
        }
        self.confirm_admitted(id, self.around()).map_err(|refusal| *refusal)
    }

    /// The task `id` is in the queue (A1), and then the submitter has looked around: makes sure that somebody will take it
    /// from there.
    ///
    /// Against `shutdown` (B1 sets the run state, B2 orders, B3 looks at the queue): one turn is first. If ours, B3
    /// sees the task, and the pool does not end before it has run. If theirs, A3 sees the state and we
    /// take the task back. Model: `loom_tests::pool::submit_against_shutdown`.
    ///
    /// Against the last worker's leaving (C1 lowers the count, C2 orders, C3 looks at the queue): if our turn
    /// is first, C3 sees the task and the worker stays; if theirs, A3 sees no worker and we add one. Model:
    /// `loom_tests::pool::submit_against_last_worker_leaves`.
    ///
    /// Against a worker falling asleep: see `idle.rs`.
    fn confirm_admitted(self: &Arc<Self>, id: TaskId, around: Observed) -> Result<(), TooLate> {
        let Observed { control, call } = around;
        if control.is_running() && control.workers() > 0 {
            let call = match &self.queue {
                TaskQueue::Delayed(delayed) => !delayed.is_seen_to(),
                _ => call,
            };
            if call {
                self.wake_one();
            }
            return Ok(());
        }
        self.published_too_late(id, control).map_err(Box::new)
    }

    /// The pool has been shut down, or has no worker.
    #[cold]
    fn published_too_late(self: &Arc<Self>, id: TaskId, seen: Snapshot) -> Result<(), Refusal> {
        if !seen.is_running() {
            return self.take_back_at_shutdown(id);
        }
        self.revive(id)?;
        self.wake_one();
        Ok(())
    }

    #[cold]
    fn take_back_at_shutdown(&self, id: TaskId) -> Result<(), Refusal> {
        match self.queue.take_back(id) {
            Some(task) => {
                self.try_terminate(); // it may have been the last thing to wait for
                Err(Refusal::new(task, RejectReason::Shutdown))
            }
            None => Ok(()), // a worker has it, or `shutdown_now` has handed it back
        }
    }

    /// The queue has the task `id`, and there is no worker.
    #[cold]
    fn revive(self: &Arc<Self>, id: TaskId) -> Result<(), Refusal> {
        let Err(NotAdded { cause: Some(error), .. }) = self.add_worker(None, Limit::Maximum) else {
            return Ok(()); // there is one now, ours or somebody else's, or the pool is being shut down
        };
        if self.control.load().workers() > 0 {
            return Ok(()); // the second try was more lucky
        }
        match self.queue.take_back(id) {
            Some(task) => Err(Refusal { task, reason: RejectReason::SpawnFailed, source: Some(error) }),
            None => Ok(()),
        }
    }

    /// Hands `task` in as soon as there is room for it, waiting at most `timeout`.
    pub(super) fn admit_when_room(
        self: &Arc<Self>,
        mut task: Task,
        timeout: Duration,
    ) -> Result<(), Refusal> {
        let me = ThreadContext::current();
        let deadline = deadline_after(timeout);
        if !timeout.is_zero() {
            self.look_for_room(&me, deadline);
        }
        let cell = Arc::new(WaitCell::of(Arc::clone(&me)));
        let mut ticket = BlockedSubmitter::take(&**self, Waiting::Thread(Arc::clone(&cell)));
        loop {
            match self.admit_with_ticket(task) {
                Err(refusal) if refusal.reason == RejectReason::Saturated => task = refusal.task,
                decided => return decided,
            }
            match cell.wait(deadline, OnInterrupt::Return) {
                Wake::Ready => {}
                Wake::TimedOut => return Err(Refusal::new(task, RejectReason::Saturated)),
                Wake::Interrupted => return Err(Refusal::new(task, RejectReason::Interrupted)),
            }
            cell.reset(); // the ticket is off the list, so nobody can notify the cell now
            ticket.rejoin(Waiting::Thread(Arc::clone(&cell)));
        }
    }

    /// As [`admit_when_room`](Self::admit_when_room) for an asynchronous submitter, whose `waker` is called when it should
    /// ask again. `Err`: not yet; here is the task again. The ticket is kept by the caller in between, and given back when
    /// all is decided.
    pub(super) fn poll_admission(
        self: &Arc<Self>,
        mut task: Task,
        ticket: &mut Option<BlockedSubmitter<Arc<PoolInner>>>,
        waker: &Waker,
    ) -> Result<Result<(), Refusal>, Task> {
        if let Some(held) = ticket {
            match held.set_waker(waker.clone()) {
                Ok(()) => return Err(task), // nobody has made room for it
                Err(waker) => held.rejoin(Waiting::Task(waker)),
            }
        } else {
            if !self.room.is_waited_for() {
                match self.admit(task) {
                    Err(refusal) if refusal.reason == RejectReason::Saturated => task = refusal.task,
                    decided => return Ok(decided),
                }
            }
            let new = ticket.insert(BlockedSubmitter::take(Arc::clone(self), Waiting::Task(waker.clone())));
            // A shutdown advances the state and then notifies all in the list, by the list's lock: either it finds this
            // ticket, or the state is seen here.
            if !new.was_first && self.control.load().is_running() {
                return Err(task);
            }
        }
        match self.admit_with_ticket(task) {
            Err(refusal) if refusal.reason == RejectReason::Saturated => Err(refusal.task),
            decided => {
                *ticket = None;
                Ok(decided)
            }
        }
    }

    /// One try of a submitter whose ticket is in the list.
    fn admit_with_ticket(self: &Arc<Self>, task: Task) -> Result<(), Refusal> {
        fence(Ordering::SeqCst); // for room that is made by a worker's leaving; pairs with the end of `worker::work`
        self.queue.order_takes();
        self.admit_as(task, true)
    }

    /// A submitter that waits should try again. It may fail: this only looks from outside.
    pub(super) fn may_have_room(&self) -> bool {
        let seen = self.control.load();
        !seen.is_running()
            || seen.workers() < self.maximum()
            || self.queue.has_room(&self.idle) && !self.queue_is_overdue()
    }

    /// Where tasks are short there is room in a moment, and to sleep for each single place would cost more than they.
    ///
    /// Who has waited for one place will soon wait for another, so a submitter to a large queue looks for room for many. If
    /// there is some, but not so much yet, it leaves the processor to the workers for a moment: while it looked they took less
    /// than an eighth of the queue, so they will not come to its end meanwhile.
    fn look_for_room(&self, me: &ThreadContext, deadline: Option<Instant>) {
        let TaskQueue::Fifo(fifo) = &self.queue else {
            snooze(|| self.queue.has_room(&self.idle) || me.is_interrupted());
            return;
        };
        let enough = (fifo.capacity() / 8).max(1);
        snooze(|| self.queue.remaining_capacity() >= enough || me.is_interrupted());
        if (1..enough).contains(&self.queue.remaining_capacity()) {
            let back = [deadline_after(MOMENT), deadline].into_iter().flatten().min();
            me.wait_through_interrupts(back, || me.is_interrupted());
        }
    }

    /// Eager pools only: tasks accepted or about to be, and not settled. If there are as many workers, each has one
    /// or will.
    fn outstanding(&self) -> usize {
        self.outstanding.load(Ordering::SeqCst)
    }

    /// A task that was counted in is settled, or leaves without having run.
    pub(super) fn task_gone(&self) {
        if self.rule == GrowthRule::Eager {
            self.outstanding.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// With a queue that was seen to be full: if the rule rejects a task, and nobody wants to hear of it, so that it is for the
    /// policy, then what an error message wants to know. All is looked at once, for an overloaded pool does little else.
    #[inline]
    fn overload(&self, full: &Fifo) -> Option<PoolFacts> {
        let (seen, maximum) = (self.control.load(), self.maximum());
        let load = Load {
            workers: seen.workers(),
            core: self.core_size(),
            maximum,
            queue_has_room: false,
            worker_is_free: false,
        };
        let overloaded = self.hooks.is_none()
            && seen.is_running()
            && growth::admit(self.rule, load) == Admission::Reject
            && !self.idle.someone_sleeps();
        overloaded.then(|| self.facts_of(seen, maximum, full.capacity()))
    }

    /// Tells quickly whether a task would be rejected, for a caller that wants no [`PoolFacts`]. False: not known.
    #[inline]
    pub(super) fn is_overloaded(&self) -> bool {
        matches!(&self.queue, TaskQueue::Fifo(fifo) if fifo.is_full() && self.overload(fifo).is_some())
    }

    /// Gives `f` back, for an overloaded pool.
    #[inline]
    pub(super) fn abort(&self, f: impl FnOnce() + Send + 'static, facts: PoolFacts) -> Rejected {
        self.counters.rejected(); // first: it waits until all that was written before is in the cache
        Rejected::by_pool(Task::new(f), RejectReason::Saturated, facts)
    }

    fn facts(&self) -> PoolFacts {
        // Whatever the queue does, the task is to be given back.
        self.facts_of(self.control.load(), self.maximum(), self.queue.len_if_it_tells().unwrap_or(0))
    }

    #[inline]
    fn facts_of(&self, seen: Snapshot, maximum: usize, queued: usize) -> PoolFacts {
        PoolFacts {
            number: self.number,
            pool_size: seen.workers() as u32, // at most `MOST_WORKERS`, which fits
            maximum: match maximum {
                MOST_WORKERS => PoolFacts::NO_BOUND,
                maximum => maximum as u32,
            },
            queued: queued.min(u32::MAX as usize) as u32,
        }
    }

    pub(super) fn rejected(&self, refusal: Refusal) -> Rejected {
        let rejected = Rejected::by_pool(refusal.task, refusal.reason, self.facts());
        match refusal.source {
            Some(source) => rejected.because(source),
            None => rejected,
        }
    }
}
