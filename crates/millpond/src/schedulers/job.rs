//! What a scheduler has accepted: a [`Job`], and [`Disposable`], the handle to it.
//!
//! A job is waiting, running, over or cancelled. The change from waiting to anything else takes the work out of it,
//! under the job's own small lock, so that exactly one of "run it" and "cancel it" gets it. Where a job waits
//! is the business of its home, the scheduler: cancelling tells the home afterwards, which takes the empty job out of
//! its queue. A series goes back from running to waiting after each run, until it is cancelled.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU8, AtomicU64};
use std::time::Duration;

use crate::executor::{RejectReason, Rejected};
use crate::handle::{Outcome, Payload};
use crate::interrupt::{self, Interrupted, Interrupter, Sleeper, Wake};
use crate::periodic::{Body, PeriodicTask, Rhythm};
use crate::sync::{Arc, AtomicBool, GivenAway, Mutex, Ordering, Weak, deadline_after};
use crate::task::{Task, TaskInfo};
use crate::timer_queue::Key;

use super::engine::LaneRef;

/// What a job does.
pub(crate) enum Work {
    Once(Task),
    /// A task that went through the schedule hooks; true once it has panicked, wherever the panic went.
    Hooked(Body, Arc<AtomicBool>),
    /// The body of a series.
    Series(Body),
}

impl Work {
    /// Runs it.
    fn run(self) -> Ended {
        match self {
            Work::Once(task) => {
                let mut outcome = Outcome::Succeeded;
                let payload = task.once().run_settled(&mut |settled| outcome = settled).panic;
                Ended { panicked: outcome == Outcome::Panicked, payload, body: None }
            }
            Work::Hooked(mut body, panicked) => {
                let payload = catch_unwind(AssertUnwindSafe(&mut body)).err();
                quietly(|| drop(body));
                let panicked = payload.is_some() || panicked.load(Ordering::Relaxed);
                Ended { panicked, payload, body: None }
            }
            Work::Series(mut body) => {
                let payload = catch_unwind(AssertUnwindSafe(&mut body)).err();
                Ended { panicked: payload.is_some(), payload, body: Some(body) }
            }
        }
    }

    pub(crate) fn into_task(self, info: TaskInfo) -> Task {
        match self {
            Work::Once(task) => task,
            Work::Hooked(body, _) | Work::Series(body) => Task::known_as(info, body),
        }
    }
}

/// The scheduler that has a job.
pub(crate) trait JobHome: Send + Sync {
    /// The job was cancelled before it ran: takes it out of wherever it waits.
    fn cancelled(&self, job: &Arc<Job>);

    /// Somebody on the calling thread wants to wait for the job: runs it here if the thread is one of this scheduler's
    /// and the job could start now.
    fn help(&self, job: &Arc<Job>) {
        let _ = job;
    }
}

/// Where a job waits. Belongs to the home, and is touched under its lock.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) enum Spot {
    /// Nowhere: it runs, or is about to, or is done with.
    #[default]
    Nowhere,
    /// Among those whose time has not come.
    Timers(Key),
    /// In a lane, among what can run as soon as it is its turn: the place in line.
    Ready(LaneRef, u64),
    /// In a lane, among what is ordered by time.
    Later(LaneRef, Key),
    /// In the line of a slot: its index and the place in line.
    Slot(usize, u64),
}

/// A [`Spot`] in words that need no lock: all who touch it have that of the home, so Relaxed will do. Always std's, as no
/// protocol rests on it.
#[derive(Default)]
struct SpotCell {
    kind: AtomicU8,
    holder: AtomicU64,
    place: AtomicU64,
}

impl SpotCell {
    fn get(&self) -> Spot {
        let (holder, place) = (self.holder.load(Ordering::Relaxed), self.place.load(Ordering::Relaxed));
        match self.kind.load(Ordering::Relaxed) {
            1 => Spot::Timers(Key::from_bits(place)),
            2 => Spot::Ready(LaneRef::from_bits(holder), place),
            3 => Spot::Later(LaneRef::from_bits(holder), Key::from_bits(place)),
            4 => Spot::Slot(usize::try_from(holder).expect("it was one"), place),
            _ => Spot::Nowhere,
        }
    }

    fn set(&self, spot: Spot) {
        let (kind, holder, place) = match spot {
            Spot::Nowhere => return self.kind.store(0, Ordering::Relaxed),
            Spot::Timers(key) => (1, 0, key.to_bits()),
            Spot::Ready(lane, place) => (2, lane.to_bits(), place),
            Spot::Later(lane, key) => (3, lane.to_bits(), key.to_bits()),
            Spot::Slot(index, place) => (4, index as u64, place),
        };
        self.kind.store(kind, Ordering::Relaxed);
        self.holder.store(holder, Ordering::Relaxed);
        self.place.store(place, Ordering::Relaxed);
    }
}

/// There is one for each task that waits, so it is kept small: rare things are boxed.
pub(crate) struct Job {
    pub(crate) info: TaskInfo,
    /// There if it runs again and again.
    rhythm: Option<Box<Rhythm>>,
    spot: SpotCell,
    /// Some thread waits for its end: `cell.waiting` is not empty. Written under the lock of the cell.
    awaited: AtomicBool,
    cell: Mutex<Cell>,
}

struct Cell {
    state: JobState,
    /// There if a thread waits for its end.
    waiting: Option<Box<Waiting>>,
}

enum JobState {
    Waiting(Work),
    /// Its body runs there.
    Running(Interrupter),
    /// It ran, and will not again.
    Over,
    /// No further run will start. Its body may still be running.
    Cancelled(Option<Interrupter>),
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

    fn wake(waiting: Option<Box<Waiting>>) {
        waiting.iter().for_each(|waiting| waiting.threads.iter().for_each(|sleeper| sleeper.unpark()));
    }
}

/// Those who wait for the end of a job.
#[derive(Default)]
struct Waiting {
    threads: Vec<Arc<Sleeper>>,
    /// How often the job has come to wait for a thread since: one that waits for it may be able to run it.
    startable: u64,
}

/// A run under way.
pub(crate) struct Run(Work);

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
    /// A panic that no handle keeps.
    payload: Option<Payload>,
    /// That of a series, which needs it again.
    body: Option<Body>,
}

impl Job {
    pub(crate) fn new(info: TaskInfo, work: Work, rhythm: Option<Rhythm>) -> Arc<Job> {
        let cell = Cell { state: JobState::Waiting(work), waiting: None };
        Arc::new(Job {
            info,
            rhythm: rhythm.map(Box::new),
            spot: SpotCell::default(),
            awaited: AtomicBool::new(false),
            cell: Mutex::new(cell),
        })
    }

    pub(crate) fn spot(&self) -> Spot {
        self.spot.get()
    }

    pub(crate) fn set_spot(&self, spot: Spot) {
        self.spot.set(spot);
    }

    pub(crate) fn is_series(&self) -> bool {
        self.rhythm.is_some()
    }

    pub(crate) fn rhythm(&self) -> Option<Rhythm> {
        self.rhythm.as_deref().copied()
    }

    /// Takes the work for running it on this thread, in the interrupt frame that is open now. `None`: cancelled.
    pub(crate) fn begin(&self) -> Option<Run> {
        let mut cell = self.cell.lock();
        cell.take_work(JobState::Running(interrupt::current())).map(Run)
    }

    /// Runs it; what panics is told to the error hooks.
    pub(crate) fn run(&self, run: Run) -> Ended {
        let mut ended = run.0.run();
        if let Some(payload) = ended.payload.take() {
            super::hooks::report(&self.info, payload);
        }
        ended
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
        let Some(body) = ended.body.take() else { return false };
        cell.state = JobState::Waiting(Work::Series(body));
        true
    }

    /// After a run that was the last.
    pub(crate) fn over(&self, ended: Ended) {
        let mut cell = self.cell.lock();
        let next = if cell.is_cancelled() { JobState::Cancelled(None) } else { JobState::Over };
        let before = std::mem::replace(&mut cell.state, next);
        let waiting = cell.waiting.take();
        drop(cell);
        drop(before);
        quietly(|| drop(ended));
        Cell::wake(waiting);
    }

    /// Sees to it that no further run starts. Interrupts one that is under way, if asked and if it is not our own.
    fn end(&self, interrupt: bool) -> Ending {
        let mut cell = self.cell.lock();
        if let Some(work) = cell.take_work(JobState::Cancelled(None)) {
            let waiting = cell.waiting.take();
            drop(cell);
            quietly(|| drop(work)); // its captures go at once
            Cell::wake(waiting);
            return Ending::OfOneThatWaited;
        }
        let JobState::Running(runner) = &cell.state else { return Ending::Before };
        let runner = runner.clone();
        cell.state = JobState::Cancelled(Some(runner.clone()));
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
        Some(work.into_task(self.info.clone()))
    }

    /// The error for a job that is not accepted. A job whose work is gone already hands an empty task back.
    pub(crate) fn refused(&self, reason: RejectReason) -> Rejected {
        let task = self.take_work().unwrap_or_else(|| Task::known_as(self.info.clone(), || {}));
        Rejected::new(task, reason)
    }

    fn dispose(self: &Arc<Self>, home: &Weak<dyn JobHome>) -> bool {
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
    pub(crate) fn could_start(&self, wake: &mut Vec<Arc<Sleeper>>) {
        if !self.awaited.load(Ordering::Relaxed) {
            return;
        }
        if let Some(waiting) = &mut self.cell.lock().waiting {
            waiting.startable += 1;
            wake.extend(waiting.threads.iter().cloned());
        }
    }

    fn startable(&self) -> u64 {
        self.cell.lock().waiting.as_ref().map_or(0, |waiting| waiting.startable)
    }

    fn wait(self: &Arc<Self>, home: &Weak<dyn JobHome>, timeout: Duration) -> Result<bool, Interrupted> {
        let deadline = deadline_after(timeout);
        let me = Sleeper::current();
        // Whoever brings the job to rest, or into a line, does so before it looks at this list and wakes all on it.
        self.change_waiting(|waiting| waiting.push(Arc::clone(&me)));
        let mut wake;
        loop {
            let seen = self.startable();
            if let Some(home) = home.upgrade() {
                home.help(self);
            }
            wake = me.wait(deadline, || self.is_at_rest() || self.startable() != seen);
            if wake != Wake::Ready || self.is_at_rest() {
                break;
            }
        }
        self.change_waiting(|waiting| waiting.retain(|sleeper| !Arc::ptr_eq(sleeper, &me)));
        match wake {
            Wake::Ready => Ok(true),
            Wake::TimedOut => Ok(false),
            Wake::Interrupted => Err(Interrupted),
        }
    }

    fn change_waiting(&self, change: impl FnOnce(&mut Vec<Arc<Sleeper>>)) {
        let mut cell = self.cell.lock();
        let mut waiting = cell.waiting.take().unwrap_or_default();
        change(&mut waiting.threads);
        cell.waiting = Some(waiting).filter(|waiting| !waiting.threads.is_empty());
        self.awaited.store(cell.waiting.is_some(), Ordering::Relaxed);
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job")
            .field("info", &self.info)
            .field("disposed", &self.is_disposed())
            .finish_non_exhaustive()
    }
}

fn quietly(f: impl FnOnce()) {
    // A destructor that panics has been reported by the panic hook; nobody here can do anything about it.
    let _ = catch_unwind(AssertUnwindSafe(f));
}

impl PeriodicTask {
    /// Its parts, for a series with `period`.
    pub(crate) fn into_series(self, period: Duration) -> (TaskInfo, Body, Rhythm) {
        (self.info, self.body.into_inner(), Rhythm::Rate(period, self.missed))
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
    Job(Arc<Job>, Weak<dyn JobHome>),
    Call(Arc<Call>),
    /// It ran before anybody could cancel it.
    Over,
}

/// A disposable that is only a callback.
struct Call {
    f: Mutex<Option<Callback>>,
}

/// Given away when it is called.
type Callback = GivenAway<Box<dyn FnOnce() + Send>>;

impl Disposable {
    pub(crate) fn of(job: Arc<Job>, home: Weak<dyn JobHome>) -> Disposable {
        Disposable { kind: Kind::Job(job, home) }
    }

    pub(crate) fn over() -> Disposable {
        Disposable { kind: Kind::Over }
    }

    /// A disposable that calls `f` when it is disposed, once: for schedulers of your own.
    ///
    /// # Examples
    /// ```
    /// use millpond::schedulers::Disposable;
    ///
    /// let goodbye = Disposable::from_fn(|| println!("goodbye"));
    /// assert!(goodbye.dispose() && !goodbye.dispose());
    /// ```
    pub fn from_fn(f: impl FnOnce() + Send + 'static) -> Disposable {
        let f = Mutex::new(Some(GivenAway::new(Box::new(f) as Box<dyn FnOnce() + Send>)));
        Disposable { kind: Kind::Call(Arc::new(Call { f })) }
    }

    /// Cancels the work. True: this call did it. False: it had been cancelled, or was done.
    ///
    /// Work that waits does not run, and what it captured is dropped at once. A body that is running is
    /// interrupted, unless this is called from that very body; a series does not run again.
    pub fn dispose(&self) -> bool {
        match &self.kind {
            Kind::Job(job, home) => job.dispose(home),
            Kind::Over => false,
            Kind::Call(call) => {
                let f = call.f.lock().take(); // and the lock is free again: it is the user's
                let first = f.is_some();
                if let Some(f) = f {
                    quietly(f.into_inner());
                }
                first
            }
        }
    }

    /// Tells whether no further run will start: it is done, or cancelled.
    pub fn is_disposed(&self) -> bool {
        match &self.kind {
            Kind::Job(job, _) => job.is_disposed(),
            Kind::Over => true,
            Kind::Call(call) => call.f.lock().is_none(),
        }
    }

    /// Tells whether it was cancelled, by this handle, its worker or its scheduler.
    pub fn is_cancelled(&self) -> bool {
        match &self.kind {
            Kind::Job(job, _) => job.is_cancelled(),
            Kind::Over => false,
            Kind::Call(call) => call.f.lock().is_none(),
        }
    }

    /// Waits until no run is under way and none will start, at most `timeout`; true if that is so.
    ///
    /// Called by a task of the same scheduler for work that could start now, it runs that work in place, so that waiting for
    /// one's own scheduler does not block it.
    ///
    /// # Errors
    /// [`Interrupted`] if the calling thread is interrupted while it has to wait.
    pub fn wait(&self, timeout: Duration) -> Result<bool, Interrupted> {
        match &self.kind {
            Kind::Job(job, home) => job.wait(home, timeout),
            Kind::Over => Ok(true),
            Kind::Call(_) => Ok(self.is_disposed()),
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
