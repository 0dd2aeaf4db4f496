//! A [`Job`]: one piece of accepted work, where it waits, and the threads that wait for it.
//!
//! A job is a task cell: a [`Header`] before a [`WorkCell`], whose state word decides which thread
//! gets the work. [`run`](Job::run) is the only place where a job starts, and
//! [`finish`](Job::finish) where it ends.
//!
//! Invariants
//! 1. Of "run it" and "cancel it" exactly one gets the work: the exchange that leaves Pending
//!    decides (`task/word.rs`).
//! 2. Where a job waits belongs to its owner, the scheduler, which changes it under its lock.
//!    Cancelling changes the job first and then tells the owner, which removes the empty job.
//! 3. A periodic job is pending again after each run, until it is cancelled.
//! 4. A waiter is in the list exactly until a thread has decided to notify it. A waiter registers
//!    before it looks at the job, so a change after the look notifies it.
//! 5. `is_under_way` is set before the exchange that begins a run. It is cleared under the lock of
//!    the waiters, which are notified then if no further run will start. So a waiter that finds a
//!    cancelled job under way is notified when the run is over.

use std::fmt;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};
use std::time::Duration;

use super::hooks;
use crate::executor::{RejectReason, Rejected};
use crate::interrupt::wait::{OnInterrupt, WaitCell};
use crate::interrupt::{Interrupted, Wake};
use crate::sync::{Arc, AtomicBool, Ordering, SpinLock, Weak, deadline_after};
use crate::task::periodic::Schedule;
use crate::task::{
    Attached, CancelFound, CellRef, IsKept, Memory, Outcome, Panic, RunEnd, Task, TaskId, TaskInfo,
    TaskState, Work, WorkCell,
};
use crate::time::heap::Key;
use crate::time::wheel::{NOWHERE, Placed};

/// The scheduler that has a job.
pub(super) trait JobOwner: Send + Sync {
    /// A task has panicked, on the calling thread.
    fn panicked(&self, task: &TaskInfo, panic: &Panic) {
        let _ = (task, panic);
    }

    /// Removes a job that was cancelled before it ran from the queue it waits in.
    fn cancelled(&self, job: &JobRef);

    /// Called by a thread that wants to wait for the job. Runs the job on that thread if the thread
    /// belongs to this scheduler and the job could start now.
    fn help(&self, job: &JobRef) {
        let _ = job;
    }

    /// Returns true if the job is in a lane that the calling thread runs, so that it cannot start
    /// before the current job returns.
    fn is_behind_this_thread(&self, job: &JobRef) -> bool {
        let _ = job;
        false
    }
}

/// Where a job waits.
#[derive(Debug, Default, Clone, Copy)]
pub(super) enum Location {
    /// Nowhere: it runs, is about to run, or has ended.
    #[default]
    Nowhere,
    /// Among the timers. The key of a wheel is the place there.
    Timers(Key),
    /// In a lane, ready to run: the index of the lane and the place in its queue. A lane with jobs
    /// is never removed, so the index is enough.
    Ready(u32, u64),
    /// In a lane, ordered by time.
    Later(u32, Key),
    /// In a queue for threads: the index of its slot and the place in the queue.
    Queued(u32, u64),
}

/// What a scheduler knows about a job besides its work.
///
/// The first three fields are a packed [`Location`]. Every writer holds the lock of the owner, or
/// of the lane the job is taken from. A reader without that lock looks for the job there and finds
/// that it is gone, so Relaxed is enough. These atomics are std's also in models: no protocol rests
/// on them.
#[repr(C)] // for its size: there is one for each waiting task
pub(super) struct Header {
    place: AtomicU64,
    index: AtomicU32,
    kind: AtomicU8,
    /// True if a thread waits for the job. Written under the lock of `rare`.
    awaited: AtomicBool,
    /// A run has begun and its end is not counted yet (5).
    is_under_way: AtomicBool,
    /// `PERIODIC`, `HOOKED`.
    flags: u8,
    /// Present if a thread waits for the job, or if the job is not a plain one.
    rare: SpinLock<Option<Box<Rare>>>,
}

const PERIODIC: u8 = 1;
const HOOKED: u8 = 2;

/// The fields that few jobs have.
#[derive(Default)]
pub(super) struct Rare {
    /// Threads that wait for the job to end or to become startable.
    waiters: Vec<Weak<WaitCell>>,
    /// When a periodic job runs.
    schedule: Option<Schedule>,
    /// Of a task with a label.
    info: Option<TaskInfo>,
    /// Of a task that went through the schedule hooks: set when it panics, because the hooks may
    /// keep the panic for themselves.
    hooked_panic: Option<Arc<AtomicBool>>,
}

impl Rare {
    /// `None` if the job needs none of these.
    pub(super) fn new(
        info: TaskInfo,
        schedule: Option<Schedule>,
        hooked_panic: Option<Arc<AtomicBool>>,
    ) -> Option<Box<Rare>> {
        let info = if info.has_label() { Some(info) } else { None };
        let rare = Rare { waiters: Vec::new(), schedule, info, hooked_panic };
        rare.is_needed().then(|| Box::new(rare))
    }

    /// Returns true if the job needs this even if no thread waits for it.
    fn is_needed(&self) -> bool {
        self.schedule.is_some() || self.info.is_some() || self.hooked_panic.is_some()
    }
}

impl Header {
    fn new(rare: Option<Box<Rare>>) -> Header {
        let has = |flag, of: fn(&Rare) -> bool| if rare.as_deref().is_some_and(of) { flag } else { 0 };
        let periodic = has(PERIODIC, |rare| rare.schedule.is_some());
        let hooked = has(HOOKED, |rare| rare.hooked_panic.is_some());
        Header {
            place: AtomicU64::new(0),
            index: AtomicU32::new(0),
            kind: AtomicU8::new(0),
            awaited: AtomicBool::new(false),
            is_under_way: AtomicBool::new(false),
            flags: periodic | hooked,
            rare: SpinLock::new(rare),
        }
    }

    fn location(&self) -> Location {
        let (index, place) = (self.index.load(Ordering::Relaxed), self.place.load(Ordering::Relaxed));
        match self.kind.load(Ordering::Relaxed) {
            1 => Location::Timers(Key::from_bits(place)),
            2 => Location::Ready(index, place),
            3 => Location::Later(index, Key::from_bits(place)),
            4 => Location::Queued(index, place),
            _ => Location::Nowhere,
        }
    }

    fn set_location(&self, location: Location) {
        let (kind, index, place) = match location {
            Location::Nowhere => return self.kind.store(0, Ordering::Relaxed),
            Location::Timers(key) => (1, 0, key.to_bits()),
            Location::Ready(lane, place) => (2, lane, place),
            Location::Later(lane, key) => (3, lane, key.to_bits()),
            Location::Queued(index, place) => (4, index, place),
        };
        self.kind.store(kind, Ordering::Relaxed);
        self.index.store(index, Ordering::Relaxed);
        self.place.store(place, Ordering::Relaxed);
    }

    /// Reads a rare field.
    fn rare<R>(&self, read: impl FnOnce(&Rare) -> Option<R>) -> Option<R> {
        self.rare.lock().as_deref().and_then(read)
    }

    fn change_waiters(&self, change: impl FnOnce(&mut Vec<Weak<WaitCell>>)) {
        let mut place = self.rare.lock();
        let mut rare = place.take().unwrap_or_default();
        change(&mut rare.waiters);
        let awaited = !rare.waiters.is_empty();
        self.awaited.store(awaited, Ordering::Relaxed);
        *place = Some(rare).filter(|rare| awaited || rare.is_needed());
    }

    fn take_waiters(&self, rare: &mut Option<Box<Rare>>) -> Vec<Weak<WaitCell>> {
        let Some(rare) = rare else { return Vec::new() };
        self.awaited.store(false, Ordering::Relaxed);
        std::mem::take(&mut rare.waiters)
    }

    /// A run is over, or has not begun after all (5). `is_last`: no other will start.
    fn run_over(&self, is_last: impl FnOnce() -> bool) {
        let mut rare = self.rare.lock();
        self.is_under_way.store(false, Ordering::Relaxed);
        let waiters = if is_last() { self.take_waiters(&mut rare) } else { Vec::new() };
        drop(rare);
        notify_all(&waiters);
    }
}

/// One piece of accepted work.
pub(super) type Job = Attached<Header>;

pub(super) type JobRef = CellRef<Job>;

/// The wheel of a scheduler calls this under the scheduler's lock.
impl Placed for JobRef {
    #[inline]
    fn moved_to(&self, place: u64) {
        self.set_location(if place == NOWHERE {
            Location::Nowhere
        } else {
            Location::Timers(Key::from_bits(place))
        });
    }
}

impl CellRef<Job> {
    /// Makes the job of a task `id`. `delay` decides where its memory comes from.
    #[inline]
    pub(super) fn of(
        id: TaskId,
        work: impl Work<()> + 'static,
        delay: Duration,
        rare: Option<Box<Rare>>,
    ) -> JobRef {
        let memory = if delay.is_zero() { Memory::Heap } else { Memory::Slab };
        CellRef::new_in(memory, Attached::new(Header::new(rare), WorkCell::new(id, work, true))).erase()
    }

    pub(super) fn is(&self, other: &JobRef) -> bool {
        std::ptr::addr_eq(&raw const **self, &raw const **other)
    }

    /// Cancels the job. Returns true if this call did it.
    pub(super) fn dispose(&self, owner: &Weak<dyn JobOwner>) -> bool {
        match self.end(true) {
            CancelFound::Ended => false,
            CancelFound::Running => true,
            CancelFound::Waiting => {
                if let Some(owner) = owner.upgrade() {
                    owner.cancelled(self);
                }
                true
            }
        }
    }

    /// Blocks until no run is under way and none will start, at most `timeout`. `owner` is `None`
    /// for a job that no scheduler has.
    pub(super) fn wait(
        &self,
        owner: Option<&Weak<dyn JobOwner>>,
        timeout: Duration,
    ) -> Result<bool, Interrupted> {
        let deadline = deadline_after(timeout);
        let me = Arc::new(WaitCell::for_this_thread());
        let mut wake = Wake::Ready;
        // Kept: a thread that tries to begin a cancelled job makes it look as if it ran.
        let mut at_rest = false;
        while wake == Wake::Ready {
            me.reset();
            self.add_waiter(&me); // before the look, see (4)
            at_rest = self.is_at_rest();
            if at_rest {
                break;
            }
            if let Some(owner) = owner.and_then(Weak::upgrade) {
                owner.help(self);
                if self.runs_on_this_thread() || owner.is_behind_this_thread(self) {
                    break; // it would wait for itself
                }
            }
            wake = me.wait(deadline, OnInterrupt::Return);
        }
        let mine = Arc::downgrade(&me);
        self.own().change_waiters(|waiters| waiters.retain(|waiter| !Weak::ptr_eq(waiter, &mine)));
        at_rest = at_rest || self.is_at_rest();
        if wake == Wake::Interrupted && !at_rest && me.take_interrupt() {
            return Err(Interrupted);
        }
        Ok(at_rest)
    }
}

impl Job {
    pub(super) fn location(&self) -> Location {
        self.own().location()
    }

    pub(super) fn set_location(&self, location: Location) {
        self.own().set_location(location);
    }

    pub(super) fn is_periodic(&self) -> bool {
        self.own().flags & PERIODIC != 0
    }

    /// When a periodic job runs.
    pub(super) fn schedule(&self) -> Option<Schedule> {
        if self.is_periodic() { self.own().rare(|rare| rare.schedule) } else { None }
    }

    pub(super) fn info(&self) -> TaskInfo {
        self.own().rare(|rare| rare.info.clone()).unwrap_or_else(|| TaskInfo::of(self.work().id()))
    }

    // ---- runs

    /// Runs the job on this thread, inside `around` and the current interrupt frame. A panic that
    /// no handle keeps goes to the error hooks, and every panic to `panicked`. Returns `None` if
    /// the job is cancelled.
    ///
    /// The caller counts the run and then calls [`finish`](Self::finish), unless the job runs
    /// again.
    pub(super) fn run(
        &self,
        around: &mut dyn FnMut(&mut dyn FnMut()),
        panicked: &dyn Fn(&TaskInfo, &Panic),
    ) -> Option<RunEnd> {
        // Before the exchange that begins the run: see (5).
        self.own().is_under_way.store(true, Ordering::Relaxed);
        let mut end = self.work().run(around, &|panic, is_kept| {
            let info = self.info();
            if !self.has_panicked_in_hooks() {
                panicked(&info, panic);
            }
            if is_kept == IsKept::No {
                hooks::report(&info, panic);
            }
        });
        if let Some(end) = &mut end
            && self.has_panicked_in_hooks()
        {
            end.outcome = Outcome::Panicked;
        }
        if end.is_none_or(|end| end.again) {
            self.own().run_over(|| self.is_done());
        }
        end
    }

    /// Returns true if a task that passed the schedule hooks has panicked. Its owner knows then.
    fn has_panicked_in_hooks(&self) -> bool {
        let flag = |rare: &Rare| rare.hooked_panic.clone();
        self.own().flags & HOOKED != 0
            && self.own().rare(flag).is_some_and(|panicked| panicked.load(Ordering::Relaxed))
    }

    /// After the last run, when it has been counted.
    pub(super) fn finish(&self) {
        self.own().run_over(|| true);
    }

    // ---- cancelling

    /// Makes sure that no further run starts. Interrupts a run under way if asked, unless it is the
    /// caller's own.
    fn end(&self, interrupt: bool) -> CancelFound {
        let found = self.work().cancel(interrupt);
        if found == CancelFound::Waiting {
            let waiters = self.own().take_waiters(&mut self.own().rare.lock());
            notify_all(&waiters);
        }
        found
    }

    /// Cancels a job that its owner has removed from its queue.
    pub(super) fn cancel_removed(&self) {
        self.end(true);
    }

    /// Ends a periodic job after the run that is under way, if there is one.
    pub(super) fn end_after_run(&self) {
        self.end(false);
    }

    /// Takes the work of a job that has not begun, as a task that runs it once.
    pub(super) fn take_task(&self) -> Option<Task> {
        let mut task = None::<Task>;
        self.work().take_work(&mut task);
        if let Some(task) = task {
            task.left();
            return Some(task);
        }
        self.work().take_closure().map(|f| Task::known_as(self.info(), f))
    }

    /// The error for a job that is not accepted after all. If another thread took the work already,
    /// the error hands back an empty task.
    pub(super) fn refused(&self, reason: RejectReason) -> Rejected {
        Rejected::new(self.take_task().unwrap_or_else(|| Task::new(|| {})), reason)
    }

    // ---- reading the state

    fn is_done(&self) -> bool {
        self.work().state().is_done()
    }

    /// Returns true if no run is under way and none will start.
    fn is_at_rest(&self) -> bool {
        // In this order: a run that begins later cannot be one that has ended.
        self.is_done() && !self.own().is_under_way.load(Ordering::Relaxed)
    }

    pub(super) fn is_disposed(&self) -> bool {
        self.is_cancelled() || self.is_at_rest()
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.work().state() == TaskState::Cancelled
    }

    /// Returns true if the job has not begun.
    pub(super) fn is_pending(&self) -> bool {
        self.work().state() == TaskState::Pending
    }

    /// Returns true if this job has the task `id` and has not begun.
    pub(super) fn is_of(&self, id: TaskId) -> bool {
        self.work().id() == id && self.is_pending()
    }

    /// Returns true if the job runs on the calling thread, or on a thread that waits for the
    /// calling thread.
    pub(super) fn runs_on_this_thread(&self) -> bool {
        self.own().is_under_way.load(Ordering::Relaxed) && self.work().last_run_waits_for_this_thread()
    }

    // ---- waiting

    /// Notifies `waiter` when the job ends or becomes startable, whichever comes first.
    pub(super) fn add_waiter(&self, waiter: &Arc<WaitCell>) {
        self.own().change_waiters(|waiters| {
            waiters.retain(|known| known.strong_count() > 0);
            waiters.push(Arc::downgrade(waiter));
        });
    }

    /// Called by the owner, under its lock, when the job comes to wait for a thread: that thread
    /// may be one that waits for the job. Adds the waiters to `wake`, marked as notified.
    pub(super) fn became_startable(&self, wake: &mut Vec<Arc<WaitCell>>) {
        if self.is_awaited() {
            let waiters = self.own().take_waiters(&mut self.own().rare.lock());
            wake.extend(waiters.iter().filter_map(Weak::upgrade).filter(|waiter| waiter.mark_notified()));
        }
    }

    /// Returns true if a thread waits for the job. For the owner, under its lock.
    ///
    /// Relaxed: a waiter registers and then asks the owner for help under the same lock. If it asks
    /// before this call, this call sees the waiter; if after, it finds the job where it is now.
    pub(super) fn is_awaited(&self) -> bool {
        self.own().awaited.load(Ordering::Relaxed)
    }
}

fn notify_all(waiters: &[Weak<WaitCell>]) {
    waiters.iter().filter_map(Weak::upgrade).for_each(|waiter| waiter.notify());
}

impl fmt::Debug for CellRef<Job> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job")
            .field("periodic", &self.is_periodic())
            .field("disposed", &self.is_disposed())
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
