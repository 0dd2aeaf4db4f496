//! A [`Job`]: one piece of accepted work, and whether it waits, runs, is over or cancelled.
//!
//! Invariants
//! 1. The change from waiting to any other state takes the work out, under the job's own lock. So
//!    of "run it" and "cancel it" exactly one gets the work.
//! 2. Where a job waits belongs to its owner, the scheduler, which changes it under its lock.
//!    Cancelling changes the job first and then tells the owner, which removes the empty job.
//! 3. A periodic job goes back from running to waiting after each run, until it is cancelled.
//! 4. A waiter is in the list exactly until a thread has decided to notify it. A waiter registers
//!    before it looks at the job, so a change after the look notifies it.

use std::fmt;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};
use std::time::Duration;

use super::work::{Ended, Work};
use crate::executor::{RejectReason, Rejected};
use crate::interrupt::wait::{OnInterrupt, WaitCell};
use crate::interrupt::{Interrupted, RunId, Wake};
use crate::panic::drop_caught;
use crate::sync::{Arc, AtomicBool, Ordering, SpinLock, Weak, deadline_after};
use crate::task::periodic::Schedule;
use crate::task::{Task, TaskId, TaskInfo, waits_for_this_thread};
use crate::time::heap::Key;
use crate::time::wheel::{NOWHERE, Placed};

/// The scheduler that has a job.
pub(super) trait JobOwner: Send + Sync {
    /// Removes a job that was cancelled before it ran from the queue it waits in.
    fn cancelled(&self, job: &Arc<Job>);

    /// Called by a thread that wants to wait for the job. Runs the job on that thread if the thread
    /// belongs to this scheduler and the job could start now.
    fn help(&self, job: &Arc<Job>) {
        let _ = job;
    }

    /// Returns true if the job is in a lane that the calling thread runs, so that it cannot start
    /// before the current job returns.
    fn is_behind_this_thread(&self, job: &Arc<Job>) -> bool {
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

/// The facts about a job that are read without its lock.
///
/// The first three are a packed [`Location`]. Every writer holds the lock of the owner, or of the
/// lane the job is taken from. A reader without that lock looks for the job there and finds that it
/// is gone, so Relaxed is enough. The atomics are std's also in models: no protocol rests on them.
#[repr(C)] // for its size, see `SMALL`
struct Header {
    place: AtomicU64,
    index: AtomicU32,
    kind: AtomicU8,
    /// True if a thread waits for the job. Written under the lock of the cell.
    awaited: AtomicBool,
    is_periodic: bool,
}

impl Header {
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
}

/// One piece of accepted work.
///
/// There is one for each waiting task, so rare fields are boxed. See [`SMALL`] for its size.
pub(super) struct Job {
    header: Header,
    cell: SpinLock<Cell>,
}

/// Another thread than the submitter frees a job. Up to this size an allocator such as glibc's
/// takes memory back from another thread without a lock. Checked by a test and not by the build,
/// because another compiler may lay out the fields differently.
#[cfg(all(test, not(loom), target_pointer_width = "64"))]
const SMALL: usize = 120;

struct Cell {
    state: JobState,
    /// Present if a thread waits for the job or if it is periodic.
    rare: Option<Box<Rare>>,
}

enum JobState {
    Waiting(Work),
    Running(RunId),
    /// It ran and will not run again.
    Over,
    /// No further run will start. The body may still be running.
    Cancelled(Option<RunId>),
}

/// The fields that few jobs have.
#[derive(Default)]
struct Rare {
    /// Threads that wait for the job to end or to become startable.
    waiters: Vec<Weak<WaitCell>>,
    /// When a periodic job runs.
    schedule: Option<Schedule>,
}

impl Cell {
    fn is_cancelled(&self) -> bool {
        matches!(self.state, JobState::Cancelled(_))
    }

    /// Returns true if no run is under way and none will start.
    fn is_at_rest(&self) -> bool {
        matches!(self.state, JobState::Over | JobState::Cancelled(None))
    }

    /// Takes the work out of a waiting job, whose state is then `next`.
    fn take_work(&mut self, next: JobState) -> Option<Work> {
        if !matches!(self.state, JobState::Waiting(_)) {
            return None;
        }
        match std::mem::replace(&mut self.state, next) {
            JobState::Waiting(work) => Some(work),
            _ => None,
        }
    }
}

/// What an attempt to cancel a job found.
enum Found {
    Ended,
    Waiting,
    Running,
}

/// The wheel of a scheduler calls this under the scheduler's lock.
impl Placed for Arc<Job> {
    #[inline]
    fn moved_to(&self, place: u64) {
        self.set_location(if place == NOWHERE {
            Location::Nowhere
        } else {
            Location::Timers(Key::from_bits(place))
        });
    }
}

impl Job {
    pub(super) fn new(work: Work, schedule: Option<Schedule>) -> Arc<Job> {
        let rare = schedule.map(|_| Box::new(Rare { waiters: Vec::new(), schedule }));
        Arc::new(Job {
            header: Header {
                kind: AtomicU8::new(0),
                index: AtomicU32::new(0),
                place: AtomicU64::new(0),
                awaited: AtomicBool::new(false),
                is_periodic: schedule.is_some(),
            },
            cell: SpinLock::new(Cell { state: JobState::Waiting(work), rare }),
        })
    }

    pub(super) fn location(&self) -> Location {
        self.header.location()
    }

    pub(super) fn set_location(&self, location: Location) {
        self.header.set_location(location);
    }

    pub(super) fn is_periodic(&self) -> bool {
        self.header.is_periodic
    }

    /// When a periodic job runs.
    pub(super) fn schedule(&self) -> Option<Schedule> {
        if self.is_periodic() { self.cell.lock().rare.as_ref()?.schedule } else { None }
    }

    // ---- runs

    /// Takes the work to run it on this thread, inside the current interrupt frame. Returns `None`
    /// if the job is cancelled.
    pub(super) fn begin(&self) -> Option<Work> {
        self.cell.lock().take_work(JobState::Running(RunId::current()))
    }

    /// After a run of a periodic job: puts the work back and returns true if it may run again.
    pub(super) fn rearm(&self, ended: &mut Ended) -> bool {
        if !self.is_periodic() {
            return false;
        }
        let mut cell = self.cell.lock();
        if !matches!(cell.state, JobState::Running(_)) {
            return false;
        }
        let Some(work) = ended.take_next() else { return false };
        cell.state = JobState::Waiting(work);
        true
    }

    /// After the last run.
    pub(super) fn finish(&self, ended: Ended) {
        let mut cell = self.cell.lock();
        // The state that is replaced holds no user code.
        cell.state = if cell.is_cancelled() { JobState::Cancelled(None) } else { JobState::Over };
        let waiters = self.take_waiters(&mut cell);
        drop(cell);
        drop_caught(ended);
        notify_all(&waiters);
    }

    // ---- cancelling

    /// Makes sure that no further run starts. Interrupts a run under way if asked, unless it is the
    /// caller's own.
    fn end(&self, interrupt: bool) -> Found {
        let mut cell = self.cell.lock();
        if let Some(work) = cell.take_work(JobState::Cancelled(None)) {
            let waiters = self.take_waiters(&mut cell);
            drop(cell);
            drop_caught(work); // drops the captures at once
            notify_all(&waiters);
            return Found::Waiting;
        }
        let JobState::Running(run) = cell.state else { return Found::Ended };
        cell.state = JobState::Cancelled(Some(run));
        drop(cell);
        if interrupt && !run.is_of_this_thread() {
            run.interrupt();
        }
        Found::Running
    }

    /// Cancels a job that its owner has removed from its queue.
    pub(super) fn cancel_removed(&self) {
        self.end(true);
    }

    /// Ends a periodic job after the run that is under way, if there is one.
    pub(super) fn end_after_run(&self) {
        self.end(false);
    }

    /// Cancels the job. Returns true if this call did it.
    pub(super) fn dispose(self: &Arc<Self>, owner: &Weak<dyn JobOwner>) -> bool {
        match self.end(true) {
            Found::Ended => false,
            Found::Running => true,
            Found::Waiting => {
                if let Some(owner) = owner.upgrade() {
                    owner.cancelled(self);
                }
                true
            }
        }
    }

    /// The error for a job that is not accepted after all. If another thread took the work already,
    /// the error hands back an empty task.
    pub(super) fn refused(&self, reason: RejectReason) -> Rejected {
        let work = self.cell.lock().take_work(JobState::Cancelled(None));
        Rejected::new(work.map_or_else(|| Task::new(|| {}), Work::into_task), reason)
    }

    // ---- reading the state

    pub(super) fn is_disposed(&self) -> bool {
        matches!(self.cell.lock().state, JobState::Over | JobState::Cancelled(_))
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.cell.lock().is_cancelled()
    }

    fn is_at_rest(&self) -> bool {
        self.cell.lock().is_at_rest()
    }

    /// Returns true if this job has the task `id` and has not begun.
    pub(super) fn is_of(&self, id: TaskId) -> bool {
        matches!(&self.cell.lock().state, JobState::Waiting(work) if work.info().id() == id)
    }

    /// Returns true if the job runs on the calling thread, or on a thread that waits for the
    /// calling thread.
    pub(super) fn runs_on_this_thread(&self) -> bool {
        match self.cell.lock().state {
            JobState::Running(run) | JobState::Cancelled(Some(run)) => waits_for_this_thread(run),
            _ => false,
        }
    }

    /// The task of a job that has not begun.
    pub(super) fn info(&self) -> Option<TaskInfo> {
        match &self.cell.lock().state {
            JobState::Waiting(work) => Some(work.info().clone()),
            _ => None,
        }
    }

    // ---- waiting

    /// Notifies `waiter` when the job ends or becomes startable, whichever comes first.
    pub(super) fn add_waiter(&self, waiter: &Arc<WaitCell>) {
        self.change_waiters(|waiters| {
            waiters.retain(|known| known.strong_count() > 0);
            waiters.push(Arc::downgrade(waiter));
        });
    }

    /// Called by the owner, under its lock, when the job comes to wait for a thread: that thread
    /// may be one that waits for the job. Adds the waiters to `wake`, marked as notified.
    pub(super) fn became_startable(&self, wake: &mut Vec<Arc<WaitCell>>) {
        if self.is_awaited() {
            let waiters = self.take_waiters(&mut self.cell.lock());
            wake.extend(waiters.iter().filter_map(Weak::upgrade).filter(|waiter| waiter.mark_notified()));
        }
    }

    /// Returns true if a thread waits for the job. For the owner, under its lock.
    ///
    /// Relaxed: a waiter registers and then asks the owner for help under the same lock. If it asks
    /// before this call, this call sees the waiter; if after, it finds the job where it is now.
    pub(super) fn is_awaited(&self) -> bool {
        self.header.awaited.load(Ordering::Relaxed)
    }

    /// Blocks until no run is under way and none will start, at most `timeout`.
    pub(super) fn wait(
        self: &Arc<Self>,
        owner: &Weak<dyn JobOwner>,
        timeout: Duration,
    ) -> Result<bool, Interrupted> {
        let deadline = deadline_after(timeout);
        let me = Arc::new(WaitCell::for_this_thread());
        let mut wake = Wake::Ready;
        while wake == Wake::Ready {
            me.reset();
            self.add_waiter(&me); // before the look, see (4)
            if self.is_at_rest() {
                break;
            }
            if let Some(owner) = owner.upgrade() {
                owner.help(self);
                if self.runs_on_this_thread() || owner.is_behind_this_thread(self) {
                    break; // it would wait for itself
                }
            }
            wake = me.wait(deadline, OnInterrupt::Return);
        }
        let mine = Arc::downgrade(&me);
        self.change_waiters(|waiters| waiters.retain(|waiter| !Weak::ptr_eq(waiter, &mine)));
        match wake {
            Wake::Interrupted if !self.is_at_rest() && me.take_interrupt() => Err(Interrupted),
            _ => Ok(self.is_at_rest()),
        }
    }

    fn change_waiters(&self, change: impl FnOnce(&mut Vec<Weak<WaitCell>>)) {
        let mut cell = self.cell.lock();
        let mut rare = cell.rare.take().unwrap_or_default();
        change(&mut rare.waiters);
        let awaited = !rare.waiters.is_empty();
        self.header.awaited.store(awaited, Ordering::Relaxed);
        cell.rare = Some(rare).filter(|rare| awaited || rare.schedule.is_some());
    }

    fn take_waiters(&self, cell: &mut Cell) -> Vec<Weak<WaitCell>> {
        let Some(rare) = &mut cell.rare else { return Vec::new() };
        self.header.awaited.store(false, Ordering::Relaxed);
        std::mem::take(&mut rare.waiters)
    }
}

fn notify_all(waiters: &[Weak<WaitCell>]) {
    waiters.iter().filter_map(Weak::upgrade).for_each(|waiter| waiter.notify());
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job")
            .field("periodic", &self.is_periodic())
            .field("disposed", &self.is_disposed())
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom), target_pointer_width = "64"))]
mod tests {
    use super::*;

    #[test]
    fn a_job_with_the_counts_of_its_arc_is_small() {
        let counts = 2 * size_of::<usize>();
        assert!(size_of::<Job>() + counts <= SMALL, "{} bytes", size_of::<Job>() + counts);
    }
}
