//! [`Job`]: one piece of accepted work, where it waits, and the threads that wait for it.
//!
//! A job is a task cell: a [`Header`] before a [`WorkCell`], whose state word decides which thread
//! gets the work. A job starts only in [`run`](Job::run) and ends only in [`finish`](Job::finish).
//!
//! Invariants
//! 1. Exactly one of run and cancel gets the work. The exchange that leaves Pending decides
//!    (`task/word.rs`).
//! 2. The location of a job belongs to its owner, the scheduler, which changes it under its lock. A
//!    cancel changes the job first and then notifies the owner, which removes the empty job.
//! 3. A periodic job is pending again after each run, until it is cancelled.
//! 4. A waiter is in the list exactly until a thread has decided to notify it. A waiter registers
//!    before it checks the job, so a change after the check notifies it.
//! 5. `is_under_way` is set before the exchange that begins a run. It is cleared under the lock of
//!    the waiters. If no further run will start, the waiters are notified then. So a waiter that
//!    finds a cancelled job under way is notified when the run is over.

use std::fmt;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};
use std::time::Duration;

use super::hooks;
use crate::executor::{RejectReason, Rejected};
use crate::interrupt::wait::{OnInterrupt, WaitCell, is_past};
use crate::interrupt::{Interrupted, Wake};
use crate::sync::{Arc, AtomicBool, Ordering, SpinLock, Weak, deadline_after};
use crate::task::periodic::Schedule;
use crate::task::{
    Attached, CancelFound, CellRef, IsKept, Memory, Outcome, Panic, RunEnd, Task, TaskId, TaskInfo,
    TaskState, Work, WorkCell,
};
use crate::time::heap::Key;
use crate::time::wheel::{NOWHERE, Placed};

/// The scheduler that owns a job.
pub(super) trait JobOwner: Send + Sync {
    /// Called on the running thread when a task has panicked.
    fn panicked(&self, task: &TaskInfo, panic: &Panic) {
        let _ = (task, panic);
    }

    /// Removes a job that was cancelled before it ran from the queue where it waits.
    fn cancelled(&self, job: &JobRef);

    /// Called by a thread that is about to wait for the job. Runs the job on that thread if the
    /// thread belongs to this scheduler and the job can start now. Other jobs may have to run
    /// first: `stop` is checked before each further one.
    fn help(&self, job: &JobRef, stop: &dyn Fn() -> bool) {
        let _ = (job, stop);
    }

    /// Returns true if the job cannot start before the current job of the calling thread returns.
    /// Called after [`help`](Self::help).
    fn is_behind_this_thread(&self, job: &JobRef) -> bool {
        let _ = job;
        false
    }
}

/// Where a job waits.
#[derive(Debug, Default, Clone, Copy)]
pub(super) enum Location {
    /// The job runs, is about to run, or has ended.
    #[default]
    Nowhere,
    /// In the timers. For a wheel, the key is the place in the wheel.
    Timers(Key),
    /// In a lane, ready to run: the index of the lane and the place in its queue. A lane with jobs
    /// is never removed, so the index identifies it.
    Ready(u32, u64),
    /// In a lane, ordered by time.
    Later(u32, Key),
    /// In a queue for threads: the index of its slot and the place in the queue.
    Queued(u32, u64),
}

/// The data of a job besides its work.
///
/// The first three fields are a packed [`Location`]. Every writer holds the lock of the owner or of
/// the lane from which the job is taken. A reader without that lock only uses the location as a
/// hint: it searches there and may find the job gone. So Relaxed is enough. Atomics of std also in
/// models, because no protocol depends on them.
#[repr(C)] // keeps it small: there is one per waiting task
pub(super) struct Header {
    place: AtomicU64,
    index: AtomicU32,
    kind: AtomicU8,
    /// True if a thread waits for the job. Written under the lock of `rare`.
    awaited: AtomicBool,
    /// A run has begun and its end has not been counted yet (5).
    is_under_way: AtomicBool,
    /// A combination of `PERIODIC` and `HOOKED`.
    flags: u8,
    /// Present if a thread waits for the job, or if the job needs one of the rare fields.
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
    /// Set for a task with a label.
    info: Option<TaskInfo>,
    /// Set for a task that passed the schedule hooks. The flag becomes true when the task panics,
    /// because a hook may catch the panic.
    hooked_panic: Option<Arc<AtomicBool>>,
}

impl Rare {
    /// Returns `None` if the job needs none of these fields.
    pub(super) fn new(
        info: TaskInfo,
        schedule: Option<Schedule>,
        hooked_panic: Option<Arc<AtomicBool>>,
    ) -> Option<Box<Rare>> {
        let info = if info.has_label() { Some(info) } else { None };
        let rare = Rare { waiters: Vec::new(), schedule, info, hooked_panic };
        rare.is_needed().then(|| Box::new(rare))
    }

    /// Returns true if the job needs these fields even without a waiting thread.
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

    /// Records that a run is over, or did not begin (5). `is_last`: whether no further run will
    /// start.
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

/// The timer wheel of a scheduler calls this under the scheduler's lock.
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
    /// Creates the job of a task `id`. A job with a delay comes from the slab, any other from the
    /// heap.
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

    /// Cancels the job. Returns true if this call cancelled it.
    pub(super) fn dispose(&self, owner: &Weak<dyn JobOwner>) -> bool {
        let found = self.cancel_removed();
        if found == CancelFound::Waiting
            && let Some(owner) = owner.upgrade()
        {
            owner.cancelled(self);
        }
        found != CancelFound::Ended
    }

    /// Blocks until no run is under way and none will start, for at most `timeout`. `owner` is
    /// `None` for a job without a scheduler.
    pub(super) fn wait(
        &self,
        owner: Option<&Weak<dyn JobOwner>>,
        timeout: Duration,
    ) -> Result<bool, Interrupted> {
        let deadline = deadline_after(timeout);
        let me = Arc::new(WaitCell::for_this_thread());
        let interrupted = || me.is_interrupted().then_some(Wake::Interrupted);
        let stop = || interrupted().or_else(|| is_past(deadline).then_some(Wake::TimedOut));
        let mut wake = Wake::Ready;
        // Once true, it stays true: a thread that tries to begin a cancelled job briefly sets
        // `is_under_way`.
        let mut at_rest = false;
        while wake == Wake::Ready {
            me.reset();
            self.add_waiter(&me); // before the check, see (4)
            at_rest = self.is_at_rest();
            if at_rest {
                break;
            }
            let owner = owner.and_then(Weak::upgrade);
            if let Some(owner) = &owner {
                owner.help(self, &|| stop().is_some());
            }
            if self.runs_on_this_thread() || owner.is_some_and(|owner| owner.is_behind_this_thread(self)) {
                break; // it would wait for itself
            }
            // First, because a lane that is queued again and again notifies this thread each time.
            wake = stop().unwrap_or_else(|| me.wait(deadline, OnInterrupt::Return));
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

    /// Runs the job on this thread, inside `around` and the current interrupt frame. `panicked` is
    /// called for every panic, the error hooks only if no handle receives it. Returns `None` if the
    /// job was cancelled.
    ///
    /// The caller counts the run, and then calls [`finish`](Self::finish) unless the job will run
    /// again.
    pub(super) fn run(
        &self,
        around: &mut dyn FnMut(&mut dyn FnMut()),
        panicked: &dyn Fn(&TaskInfo, &Panic),
    ) -> Option<RunEnd> {
        // Before the exchange that begins the run, which publishes it (5).
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

    /// Returns true if a task that passed the schedule hooks has panicked. The owner knows of the
    /// panic then.
    fn has_panicked_in_hooks(&self) -> bool {
        let flag = |rare: &Rare| rare.hooked_panic.clone();
        self.own().flags & HOOKED != 0
            && self.own().rare(flag).is_some_and(|panicked| panicked.load(Ordering::Relaxed))
    }

    /// Marks the last run as over. Called after the run has been counted.
    pub(super) fn finish(&self) {
        self.own().run_over(|| true);
    }

    // ---- cancelling

    /// Makes sure that no further run starts.
    fn end(&self) -> CancelFound {
        let found = self.work().cancel();
        if found == CancelFound::Waiting {
            let waiters = self.own().take_waiters(&mut self.own().rare.lock());
            notify_all(&waiters);
        }
        found
    }

    /// Cancels a job that its owner has removed from its queue, and interrupts a run under way,
    /// unless it is the caller's own.
    pub(super) fn cancel_removed(&self) -> CancelFound {
        let found = self.end();
        if found == CancelFound::Running {
            self.work().interrupt_run();
        }
        found
    }

    /// Cancels all jobs, the running ones before it interrupts the first: an interrupt also reaches
    /// the jobs that run in place inside that job, and they could end before they are cancelled.
    pub(super) fn cancel_all_removed(jobs: &[JobRef]) {
        let is_cancelled = |job: &&JobRef| !job.is_pending() && job.end() == CancelFound::Running;
        let running: Vec<_> = jobs.iter().filter(is_cancelled).collect();
        running.iter().for_each(|job| job.work().interrupt_run());
        jobs.iter().for_each(|job| _ = job.cancel_removed());
    }

    /// Ends a periodic job after the run under way, if there is one.
    pub(super) fn end_after_run(&self) {
        self.end();
    }

    /// Takes the work of a job that has not begun, as a task that runs once.
    pub(super) fn take_task(&self) -> Option<Task> {
        let mut task = None::<Task>;
        self.work().take_work(&mut task);
        if let Some(task) = task {
            task.left();
            return Some(task);
        }
        self.work().take_closure().map(|f| Task::known_as(self.info(), f))
    }

    /// Returns the error for a job that is refused after all. If another thread already took the
    /// work, the error contains an empty task.
    pub(super) fn refused(&self, reason: RejectReason) -> Rejected {
        Rejected::new(self.take_task().unwrap_or_else(|| Task::new(|| {})), reason)
    }

    // ---- reading the state

    fn is_done(&self) -> bool {
        self.work().state().is_done()
    }

    /// Returns true if no run is under way and none will start.
    fn is_at_rest(&self) -> bool {
        // State first: its Acquire load makes visible that a run is under way, which is set before
        // the exchange that begins the run (5).
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

    /// Returns true if this job holds the task `id` and has not begun.
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
            // Only before the list grows, and to at most half of its capacity, so that many waiters
            // register in constant time each.
            if waiters.len() == waiters.capacity() {
                waiters.retain(|known| known.strong_count() > 0);
                waiters.reserve(waiters.len() + 1);
            }
            waiters.push(Arc::downgrade(waiter));
        });
    }

    /// Called by the owner under its lock when the job starts to wait for a thread, because that
    /// thread may be one that waits for the job. Adds the waiters to `wake`, marked as notified.
    pub(super) fn became_startable(&self, wake: &mut Vec<Arc<WaitCell>>) {
        if self.is_awaited() {
            let waiters = self.own().take_waiters(&mut self.own().rare.lock());
            wake.extend(waiters.iter().filter_map(Weak::upgrade).filter(|waiter| waiter.mark_notified()));
        }
    }

    /// Returns true if a thread waits for the job. Called by the owner under its lock.
    ///
    /// Relaxed is enough: a waiter registers and then asks the owner for help under the same lock.
    /// If that happened before this call, this call sees the waiter. If it happens later, the
    /// waiter finds the job at its new location.
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
