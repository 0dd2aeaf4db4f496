//! What a scheduler has accepted: a [`Job`], and [`Disposable`], the handle to it.
//!
//! A job is waiting, running, over or cancelled. The change from waiting to anything else takes the work out of it,
//! under the job's own small lock, so that exactly one of "run it" and "cancel it" gets it. Where a job waits
//! is the business of its home, the scheduler: cancelling tells the home afterwards, which takes the empty job out of
//! its queue. A series goes back from running to waiting after each run, until it is cancelled.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};
use std::time::Duration;

use super::waiters::Waiters;
use crate::executor::{RejectReason, Rejected};
use crate::interrupt::wait::{OnInterrupt, WaitCell};
use crate::interrupt::{Interrupted, RunId, Wake};
use crate::panic::{catch, drop_caught};
use crate::sync::SpinLock;
use crate::sync::{Arc, AtomicBool, Exclusive, Mutex, Ordering, Weak, deadline_after};
use crate::task::periodic::{Body, OnPanic, PeriodicTask, Schedule};
use crate::task::{Outcome, waits_for_this_thread};
use crate::task::{Task, TaskId, TaskInfo};
use crate::time::heap::Key;
use crate::time::wheel::{NOWHERE, Placed};

/// What a job does.
pub(crate) enum Work {
    Once(Task),
    /// A task that went through the schedule hooks; true once it has panicked, wherever the panic went.
    Hooked(TaskInfo, Body, Arc<AtomicBool>),
    /// The body of a series, and whether that goes on after a panic.
    Series(TaskInfo, Body, OnPanic),
}

impl Work {
    pub(crate) fn info(&self) -> &TaskInfo {
        match self {
            Work::Once(task) => task.info(),
            Work::Hooked(info, ..) | Work::Series(info, ..) => info,
        }
    }

    /// The scheduler of this number is about to have it, in the lane of this index or, `u64::MAX`, in none: if the task has a handle,
    /// whoever joins that can find it.
    pub(crate) fn entered(&self, home: u64, lane: u64) {
        if let Work::Once(task) = self {
            task.set_place(lane);
            task.entered(home);
        }
    }

    /// Runs it; what panics, and no handle keeps, is told to the error hooks.
    fn run(self) -> Ended {
        match self {
            Work::Once(task) => {
                let mut task = task.once();
                let mut outcome = Outcome::Succeeded;
                let payload = task.run_settled(&mut |settled| outcome = settled).panic;
                if let Some(payload) = payload {
                    let info = task.info().clone();
                    drop(task);
                    super::hooks::report(&info, payload);
                }
                Ended { panicked: outcome == Outcome::Panicked, series: None }
            }
            Work::Hooked(info, mut body, panicked) => {
                let payload = catch_unwind(AssertUnwindSafe(&mut body)).err();
                drop_caught(body);
                let panicked = payload.is_some() || panicked.load(Ordering::Relaxed);
                payload.into_iter().for_each(|payload| super::hooks::report(&info, payload));
                Ended { panicked, series: None }
            }
            Work::Series(info, mut body, on_panic) => {
                let payload = catch_unwind(AssertUnwindSafe(&mut body)).err();
                let panicked = payload.is_some();
                payload.into_iter().for_each(|payload| super::hooks::report(&info, payload));
                if panicked && on_panic == OnPanic::End {
                    drop_caught(body);
                    return Ended { panicked, series: None };
                }
                Ended { panicked, series: Some(Work::Series(info, body, on_panic)) }
            }
        }
    }

    pub(crate) fn into_task(self) -> Task {
        match self {
            Work::Once(task) => {
                task.left();
                task
            }
            Work::Hooked(info, body, _) | Work::Series(info, body, _) => Task::known_as(info, body),
        }
    }
}

/// The scheduler that has a job.
pub(crate) trait JobOwner: Send + Sync {
    /// The job was cancelled before it ran: takes it out of wherever it waits.
    fn cancelled(&self, job: &Arc<Job>);

    /// Somebody on the calling thread wants to wait for the job: runs it here if the thread is one of this scheduler's
    /// and the job could start now.
    fn help(&self, job: &Arc<Job>) {
        let _ = job;
    }

    /// The job waits in a lane whose running job is the calling thread's: it cannot start before that returns.
    fn is_behind_this_thread(&self, job: &Arc<Job>) -> bool {
        let _ = job;
        false
    }
}

/// Where a job waits. Belongs to the home, and is touched under its lock.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) enum Location {
    /// Nowhere: it runs, or is about to, or is done with.
    #[default]
    Nowhere,
    /// Among those whose time has not come. The key of a wheel is the place there.
    Timers(Key),
    /// In a lane, among what can run as soon as it is its turn: the place in line. A lane is there as long as it has jobs, so
    /// its index is enough.
    Ready(u32, u64),
    /// In a lane, among what is ordered by time.
    Later(u32, Key),
    /// In the line of a slot: its index and the place in line.
    Slot(u32, u64),
}

/// What is known of a job without its lock.
///
/// The first three are a [`Location`]. All who change it have the lock of the home, or that of the lane which the job is taken
/// from; and who reads it meanwhile asks for the job there, and finds that it is gone. So Relaxed will do. Always std's, as no
/// protocol rests on it.
#[repr(C)] // for its size, see `SMALL`
struct Outside {
    place: AtomicU64,
    index: AtomicU32,
    kind: AtomicU8,
    /// Some thread waits for its end, or joins its task: see `Cell::rare`. Written under the lock of the cell.
    awaited: AtomicBool,
    /// It runs again and again.
    series: bool,
}

impl Outside {
    fn spot(&self) -> Location {
        let (index, place) = (self.index.load(Ordering::Relaxed), self.place.load(Ordering::Relaxed));
        match self.kind.load(Ordering::Relaxed) {
            1 => Location::Timers(Key::from_bits(place)),
            2 => Location::Ready(index, place),
            3 => Location::Later(index, Key::from_bits(place)),
            4 => Location::Slot(index, place),
            _ => Location::Nowhere,
        }
    }

    fn set_spot(&self, spot: Location) {
        let (kind, index, place) = match spot {
            Location::Nowhere => return self.kind.store(0, Ordering::Relaxed),
            Location::Timers(key) => (1, 0, key.to_bits()),
            Location::Ready(lane, place) => (2, lane, place),
            Location::Later(lane, key) => (3, lane, key.to_bits()),
            Location::Slot(index, place) => (4, index, place),
        };
        self.kind.store(kind, Ordering::Relaxed);
        self.index.store(index, Ordering::Relaxed);
        self.place.store(place, Ordering::Relaxed);
    }
}

/// There is one for each task that waits, so it is kept small: rare things are boxed. It is freed by another thread than made
/// it, and how dear that is depends on its size, see [`SMALL`].
pub(crate) struct Job {
    outside: Outside,
    cell: SpinLock<Cell>,
}

/// Up to this size an allocator such as glibc's takes memory back from another thread without its lock. Above, whoever makes jobs
/// and whoever is done with them wait for each other, and that with a system call each.
/// A test and no assertion of the build: another compiler may lay the fields out in another way.
#[cfg(all(test, not(loom), target_pointer_width = "64"))]
const SMALL: usize = 120;

struct Cell {
    state: JobState,
    /// There if a thread waits for its end, or if it is a series.
    rare: Option<Box<Rare>>,
}

enum JobState {
    Waiting(Work),
    /// Its body runs there.
    Running(RunId),
    /// It ran, and will not again.
    Over,
    /// No further run will start. Its body may still be running.
    Cancelled(Option<RunId>),
}

impl Cell {
    fn is_cancelled(&self) -> bool {
        matches!(self.state, JobState::Cancelled(_))
    }

    fn is_at_rest(&self) -> bool {
        matches!(self.state, JobState::Over | JobState::Cancelled(None))
    }

    /// Takes the work out of a job that waits, whose state is then `next`.
    fn take_work(&mut self, next: JobState) -> Option<Work> {
        if !matches!(self.state, JobState::Waiting(_)) {
            return None;
        }
        match std::mem::replace(&mut self.state, next) {
            JobState::Waiting(work) => Some(work),
            _ => None,
        }
    }

    /// Notifies threads that wait for the end of the job.
    fn wake(waiters: Vec<Weak<WaitCell>>) {
        waiters.iter().filter_map(Weak::upgrade).for_each(|waiter| waiter.notify());
    }
}

/// What few jobs have.
#[derive(Default)]
struct Rare {
    /// Threads that wait for the end of the job, or join its task. Each is notified once, when the
    /// job ends or when it comes to wait for a thread, and registers again if it waits on.
    waiters: Vec<Weak<WaitCell>>,
    /// When a series runs.
    rhythm: Option<Schedule>,
}

impl Rare {
    fn is_awaited(&self) -> bool {
        !self.waiters.is_empty()
    }
}

/// A run under way.
pub(crate) struct Run(Work);

impl Run {
    pub(crate) fn run(self) -> Ended {
        self.0.run()
    }
}

/// What became of an attempt to cancel a job.
enum Ending {
    /// It had ended before.
    Before,
    OfOneThatWaited,
    OfOneThatRuns,
}

/// How a run ended.
pub(crate) struct Ended {
    pub(crate) panicked: bool,
    /// The work of a series that is to run again.
    series: Option<Work>,
}

/// Told by the wheel of a scheduler, under the scheduler's lock.
impl Placed for Arc<Job> {
    #[inline]
    fn moved_to(&self, place: u64) {
        self.set_spot(if place == NOWHERE {
            Location::Nowhere
        } else {
            Location::Timers(Key::from_bits(place))
        });
    }
}

impl Job {
    pub(crate) fn new(work: Work, rhythm: Option<Schedule>) -> Arc<Job> {
        let rare = rhythm.map(|rhythm| Box::new(Rare { rhythm: Some(rhythm), ..Rare::default() }));
        Arc::new(Job {
            outside: Outside {
                kind: AtomicU8::new(0),
                index: AtomicU32::new(0),
                place: AtomicU64::new(0),
                awaited: AtomicBool::new(false),
                series: rhythm.is_some(),
            },
            cell: SpinLock::new(Cell { state: JobState::Waiting(work), rare }),
        })
    }

    pub(crate) fn spot(&self) -> Location {
        self.outside.spot()
    }

    pub(crate) fn set_spot(&self, spot: Location) {
        self.outside.set_spot(spot);
    }

    pub(crate) fn is_series(&self) -> bool {
        self.outside.series
    }

    /// That of a series.
    pub(crate) fn rhythm(&self) -> Option<Schedule> {
        if self.is_series() { self.cell.lock().rare.as_ref()?.rhythm } else { None }
    }

    /// Takes the work for running it on this thread, in the interrupt frame that is open now. `None`: cancelled.
    pub(crate) fn begin(&self) -> Option<Run> {
        let mut cell = self.cell.lock();
        cell.take_work(JobState::Running(RunId::current())).map(Run)
    }

    /// After a run of a series: true if it is to run again; the body is then back in its place.
    pub(crate) fn rearm(&self, ended: &mut Ended) -> bool {
        if !self.is_series() {
            return false;
        }
        let mut cell = self.cell.lock();
        if !matches!(cell.state, JobState::Running(_)) {
            return false;
        }
        let Some(work) = ended.series.take() else { return false };
        cell.state = JobState::Waiting(work);
        true
    }

    /// Takes the waiters out, to be notified.
    fn take_waiters(&self, cell: &mut Cell) -> Vec<Weak<WaitCell>> {
        let Some(rare) = &mut cell.rare else { return Vec::new() };
        self.outside.awaited.store(false, Ordering::Relaxed);
        std::mem::take(&mut rare.waiters)
    }

    /// After a run that was the last.
    pub(crate) fn over(&self, ended: Ended) {
        let mut cell = self.cell.lock();
        let next = if cell.is_cancelled() { JobState::Cancelled(None) } else { JobState::Over };
        cell.state = next; // of what is in its place nothing is the user's
        let waiters = self.take_waiters(&mut cell);
        drop(cell);
        drop_caught(ended);
        Cell::wake(waiters);
    }

    /// Sees to it that no further run starts. Interrupts one that is under way, if asked and if it is not our own.
    fn end(&self, interrupt: bool) -> Ending {
        let mut cell = self.cell.lock();
        if let Some(work) = cell.take_work(JobState::Cancelled(None)) {
            let waiters = self.take_waiters(&mut cell);
            drop(cell);
            drop_caught(work); // its captures go at once
            Cell::wake(waiters);
            return Ending::OfOneThatWaited;
        }
        let JobState::Running(runner) = cell.state else { return Ending::Before };
        cell.state = JobState::Cancelled(Some(runner));
        drop(cell);
        if interrupt && !runner.is_of_this_thread() {
            runner.interrupt();
        }
        Ending::OfOneThatRuns
    }

    /// Cancels the job for its home, which has already taken it out of wherever it waited.
    pub(crate) fn cancel_taken_out(&self) {
        self.end(true);
    }

    /// Ends a series after the run that is under way, if one is.
    pub(crate) fn end_series(&self) {
        self.end(false);
    }

    /// The work of a job that was not accepted after all, as a task for whoever handed it in.
    pub(crate) fn take_work(&self) -> Option<Task> {
        let work = self.cell.lock().take_work(JobState::Cancelled(None))?;
        Some(work.into_task())
    }

    /// The error for a job that is not accepted. A job whose work is gone already hands an empty task back.
    pub(crate) fn refused(&self, reason: RejectReason) -> Rejected {
        let task = self.take_work().unwrap_or_else(|| Task::new(|| {}));
        Rejected::new(task, reason)
    }

    fn dispose(self: &Arc<Self>, home: &Weak<dyn JobOwner>) -> bool {
        match self.end(true) {
            Ending::Before => false,
            Ending::OfOneThatWaited => {
                if let Some(home) = home.upgrade() {
                    home.cancelled(self);
                }
                true
            }
            Ending::OfOneThatRuns => true,
        }
    }

    pub(crate) fn is_disposed(&self) -> bool {
        matches!(self.cell.lock().state, JobState::Over | JobState::Cancelled(_))
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cell.lock().is_cancelled()
    }

    /// No run is under way, and none will start.
    fn is_at_rest(&self) -> bool {
        self.cell.lock().is_at_rest()
    }

    /// The job has come to wait for a thread: whoever waits for it should look whether that thread is its own. Called by
    /// the home, under its lock.
    ///
    /// Relaxed: one that waits says so first and asks the home for help then, under the same lock. If it
    /// asks before us, we see what it said; if after us, it finds the job where it is now.
    pub(crate) fn could_start(&self, wake: &mut Vec<Arc<WaitCell>>) {
        if !self.is_awaited() {
            return;
        }
        let waiters = self.take_waiters(&mut self.cell.lock());
        wake.extend(waiters.iter().filter_map(Weak::upgrade).filter(|waiter| waiter.mark_notified()));
    }

    /// Some thread waits for its end. For the home, under its lock; Relaxed as in [`could_start`](Self::could_start).
    pub(crate) fn is_awaited(&self) -> bool {
        self.outside.awaited.load(Ordering::Relaxed)
    }

    /// Notifies `waiter` when the job ends or comes to wait for a thread, whichever is first.
    pub(crate) fn add_waiter(&self, waiter: &Arc<WaitCell>) {
        self.change_waiting(|waiters| {
            waiters.retain(|known| known.strong_count() > 0);
            waiters.push(Arc::downgrade(waiter));
        });
    }

    /// It is the job of this task, and has not begun.
    pub(crate) fn is_of(&self, id: TaskId) -> bool {
        matches!(&self.cell.lock().state, JobState::Waiting(work) if work.info().id() == id)
    }

    /// A run is under way, on the calling thread or on one that waits for it.
    pub(crate) fn runs_on_this_thread(&self) -> bool {
        match self.cell.lock().state {
            JobState::Running(run) | JobState::Cancelled(Some(run)) => waits_for_this_thread(run),
            _ => false,
        }
    }

    /// Of the task that has not begun.
    pub(crate) fn info(&self) -> Option<TaskInfo> {
        match &self.cell.lock().state {
            JobState::Waiting(work) => Some(work.info().clone()),
            _ => None,
        }
    }

    fn wait(self: &Arc<Self>, home: &Weak<dyn JobOwner>, timeout: Duration) -> Result<bool, Interrupted> {
        let deadline = deadline_after(timeout);
        let me = Arc::new(WaitCell::for_this_thread());
        let wake = loop {
            // First register, then look: a job that ends or becomes startable after the look notifies us.
            me.reset();
            self.add_waiter(&me);
            if self.is_at_rest() {
                break Wake::Ready;
            }
            if let Some(home) = home.upgrade() {
                home.help(self);
                if self.runs_on_this_thread() || home.is_behind_this_thread(self) {
                    break Wake::TimedOut; // however long it waits
                }
            }
            let wake = me.wait(deadline, OnInterrupt::Return);
            if wake != Wake::Ready || self.is_at_rest() {
                break wake;
            }
        };
        let mine = Arc::downgrade(&me);
        self.change_waiting(|waiters| waiters.retain(|waiter| !Weak::ptr_eq(waiter, &mine)));
        match wake {
            Wake::Interrupted if me.take_interrupt() => Err(Interrupted),
            _ => Ok(self.is_at_rest()),
        }
    }

    fn change_waiting(&self, change: impl FnOnce(&mut Vec<Weak<WaitCell>>)) {
        let mut cell = self.cell.lock();
        let mut rare = cell.rare.take().unwrap_or_default();
        change(&mut rare.waiters);
        self.outside.awaited.store(rare.is_awaited(), Ordering::Relaxed);
        cell.rare = Some(rare).filter(|rare| rare.is_awaited() || rare.rhythm.is_some());
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job")
            .field("series", &self.is_series())
            .field("disposed", &self.is_disposed())
            .finish_non_exhaustive()
    }
}

impl PeriodicTask {
    /// Its parts, for a series with `period`.
    pub(crate) fn into_series(self, period: Duration) -> (Work, Schedule) {
        let on_panic = self.on_panic.unwrap_or(OnPanic::Continue);
        let work = Work::Series(self.info, self.body.into_inner(), on_panic);
        (work, Schedule::Rate(period, self.missed))
    }

    /// A refused series, as a task that runs its body once.
    pub(crate) fn into_task(self) -> Task {
        Task::known_as(self.info, self.body.into_inner())
    }
}

/// The handle to scheduled work: to cancel it, and to ask about it. Dropping it changes nothing.
///
/// # Examples
/// ```
/// use millpond::schedulers::{self, SchedulerExt};
/// use std::time::Duration;
///
/// let tea = schedulers::parallel().schedule_after(Duration::from_secs(3600), || println!("tea"))?;
/// assert!(tea.dispose());
/// assert!(tea.is_cancelled() && !tea.dispose());
/// # Ok::<(), millpond::Rejected>(())
/// ```
#[derive(Clone)]
pub struct Disposable {
    kind: Kind,
}

#[derive(Clone)]
enum Kind {
    Job(Arc<Job>, Weak<dyn JobOwner>),
    DisposeCallback(Arc<DisposeCallback>),
    /// It ran before anybody could cancel it.
    Over,
}

/// A disposable that is only a callback.
struct DisposeCallback {
    /// There until it is disposed of.
    f: Mutex<Option<Callback>>,
    /// The callback has returned.
    over: AtomicBool,
    waiters: Waiters,
}

impl DisposeCallback {
    fn dispose(&self) -> bool {
        let f = self.f.lock().take(); // and the lock is free again: it is the user's
        let Some(f) = f else { return false };
        catch(f.into_inner());
        self.over.store(true, Ordering::Release);
        self.waiters.wake_all();
        true
    }

    fn wait(&self, timeout: Duration) -> Result<bool, Interrupted> {
        // Acquire: who sees it over sees what the callback did.
        self.waiters.wait(timeout, || self.over.load(Ordering::Acquire))
    }
}

/// Given away when it is called.
type Callback = Exclusive<Box<dyn FnOnce() + Send>>;

impl Disposable {
    pub(crate) fn of(job: Arc<Job>, home: Weak<dyn JobOwner>) -> Disposable {
        Disposable { kind: Kind::Job(job, home) }
    }

    pub(crate) fn over() -> Disposable {
        Disposable { kind: Kind::Over }
    }

    /// A disposable that calls `f` when it is disposed, once: for schedulers of your own.
    ///
    /// It knows of no work: it is disposed when somebody has done that, and [`wait`](Self::wait) waits until then, and for `f` to
    /// return.
    ///
    /// # Examples
    /// ```
    /// use millpond::schedulers::Disposable;
    ///
    /// let goodbye = Disposable::from_fn(|| println!("goodbye"));
    /// assert!(goodbye.dispose() && !goodbye.dispose());
    /// ```
    pub fn from_fn(f: impl FnOnce() + Send + 'static) -> Disposable {
        let f = Mutex::new(Some(Exclusive::new(Box::new(f) as Box<dyn FnOnce() + Send>)));
        let call = DisposeCallback { f, over: AtomicBool::new(false), waiters: Waiters::default() };
        Disposable { kind: Kind::DisposeCallback(Arc::new(call)) }
    }

    /// Cancels the work. True: this call did it. False: it had been cancelled, or was done.
    ///
    /// Work that waits does not run, and what it captured is dropped at once. A body that is running is
    /// interrupted, unless this is called from that very body; a series does not run again.
    pub fn dispose(&self) -> bool {
        match &self.kind {
            Kind::Job(job, home) => job.dispose(home),
            Kind::Over => false,
            Kind::DisposeCallback(call) => call.dispose(),
        }
    }

    /// Tells whether no further run will start: it is done, or cancelled.
    pub fn is_disposed(&self) -> bool {
        match &self.kind {
            Kind::Job(job, _) => job.is_disposed(),
            Kind::Over => true,
            Kind::DisposeCallback(call) => call.f.lock().is_none(),
        }
    }

    /// Tells whether it was cancelled, by this handle, its worker or its scheduler.
    pub fn is_cancelled(&self) -> bool {
        match &self.kind {
            Kind::Job(job, _) => job.is_cancelled(),
            Kind::Over => false,
            Kind::DisposeCallback(call) => call.f.lock().is_none(),
        }
    }

    /// Waits until no run is under way and none will start, at most `timeout`; true if that is so.
    ///
    /// Called by a task of the same scheduler for work that could start now, it runs that work in place, so that waiting for
    /// one's own scheduler does not block it. For work that can only start, or end, after the calling task has returned (the
    /// task itself, and what comes later in its own lane) it returns `Ok(false)` at once.
    ///
    /// # Errors
    /// [`Interrupted`] if the calling thread is interrupted while it has to wait.
    pub fn wait(&self, timeout: Duration) -> Result<bool, Interrupted> {
        match &self.kind {
            Kind::Job(job, home) => job.wait(home, timeout),
            Kind::Over => Ok(true),
            Kind::DisposeCallback(call) => call.wait(timeout),
        }
    }

    /// Waits for the end of work that is known to have no further run. One that is only a callback knows of no runs.
    pub(super) fn wait_for_last_run(&self, timeout: Duration) -> Result<bool, Interrupted> {
        match &self.kind {
            Kind::DisposeCallback(_) => Ok(true),
            _ => self.wait(timeout),
        }
    }
}

impl fmt::Debug for Disposable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Disposable")
            .field("disposed", &self.is_disposed())
            .field("cancelled", &self.is_cancelled())
            .finish()
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
