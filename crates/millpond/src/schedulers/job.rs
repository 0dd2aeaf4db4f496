//! What a scheduler has accepted: a [`Job`], and [`Disposable`], the handle to it.
//!
//! A job is waiting, running, over or cancelled. The change from waiting to anything else takes the work out of it,
//! under the job's own small lock, so that exactly one of "run it" and "cancel it" gets it. Where a job waits
//! is the business of its home, the scheduler: cancelling tells the home afterwards, which takes the empty job out of
//! its queue. A series goes back from running to waiting after each run, until it is cancelled.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::{self, ThreadId};
use std::time::Duration;

use crate::executor::{RejectReason, Rejected};
use crate::handle::{Outcome, Payload};
use crate::interrupt::{self, Interrupted, Interrupter, Sleeper, Wake};
use crate::periodic::{Body, PeriodicTask, Rhythm};
use crate::sync::{Arc, AtomicBool, GivenAway, Mutex, Ordering, Weak, deadline_after};
use crate::task::{Task, TaskInfo};
use crate::timer_queue::Key;

use super::engine::LaneCore;

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
#[derive(Debug, Default)]
pub(crate) enum Spot {
    /// Nowhere: it runs, or is about to, or is done with.
    #[default]
    Nowhere,
    /// Among those whose time has not come.
    Timers(Key),
    /// In a lane.
    Lane(Arc<LaneCore>, Key),
    /// In the line of a slot: its index and the place in line.
    Slot(usize, u64),
}

pub(crate) struct Job {
    pub(crate) info: TaskInfo,
    /// There if it runs again and again.
    pub(crate) rhythm: Option<Rhythm>,
    pub(crate) spot: Mutex<Spot>,
    home: Weak<dyn JobHome>,
    cell: Mutex<Cell>,
}

struct Cell {
    state: JobState,
    /// There while it waits.
    work: Option<Work>,
    /// There while its body runs.
    runner: Option<(Interrupter, ThreadId)>,
    /// Threads that wait for its end.
    waiting: Vec<Arc<Sleeper>>,
    /// How often it has come to wait for a thread: one that waits for it may be able to run it.
    startable: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum JobState {
    Waiting,
    Running,
    /// It ran, and will not again.
    Over,
    /// No further run will start. Its body may still be running.
    Cancelled,
}

/// A run under way.
pub(crate) struct Run(Work);

/// How a run ended.
pub(crate) struct Ended {
    pub(crate) panicked: bool,
    /// A panic that no handle keeps.
    payload: Option<Payload>,
    /// That of a series, which needs it again.
    body: Option<Body>,
}

impl Job {
    pub(crate) fn new(
        info: TaskInfo,
        work: Work,
        rhythm: Option<Rhythm>,
        home: Weak<dyn JobHome>,
    ) -> Arc<Job> {
        let cell = Cell {
            state: JobState::Waiting,
            work: Some(work),
            runner: None,
            waiting: Vec::new(),
            startable: 0,
        };
        Arc::new(Job { info, rhythm, spot: Mutex::default(), home, cell: Mutex::new(cell) })
    }

    pub(crate) fn is_series(&self) -> bool {
        self.rhythm.is_some()
    }

    /// Takes the work for running it on this thread, in the interrupt frame that is open now. `None`: cancelled.
    pub(crate) fn begin(&self) -> Option<Run> {
        let mut cell = self.cell.lock();
        let work = cell.work.take()?;
        cell.state = JobState::Running;
        cell.runner = Some((interrupt::current(), thread::current().id()));
        Some(Run(work))
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
        let mut cell = self.cell.lock();
        let again = self.is_series() && cell.state == JobState::Running;
        if again {
            cell.state = JobState::Waiting;
            cell.runner = None;
            cell.work = ended.body.take().map(Work::Series);
        }
        again
    }

    /// After a run that was the last.
    pub(crate) fn over(&self, ended: Ended) {
        let mut cell = self.cell.lock();
        cell.runner = None;
        if cell.state == JobState::Running {
            cell.state = JobState::Over;
        }
        let waiting = std::mem::take(&mut cell.waiting);
        drop(cell);
        quietly(|| drop(ended));
        waiting.iter().for_each(|sleeper| sleeper.unpark());
    }

    /// Sees to it that no further run starts. Interrupts one that is under way, if asked and if it is not our own.
    /// What was the state before, if this call changed it?
    fn end(&self, interrupt: bool) -> Option<JobState> {
        let mut cell = self.cell.lock();
        let before = cell.state;
        if matches!(before, JobState::Over | JobState::Cancelled) {
            return None;
        }
        cell.state = JobState::Cancelled;
        let work = cell.work.take();
        let runner = cell.runner.clone();
        let waiting = if runner.is_none() { std::mem::take(&mut cell.waiting) } else { Vec::new() };
        drop(cell);
        quietly(|| drop(work)); // its captures go at once
        if let Some((interrupter, thread)) = runner
            && interrupt
            && thread != thread::current().id()
        {
            interrupter.interrupt();
        }
        waiting.iter().for_each(|sleeper| sleeper.unpark());
        Some(before)
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
        let mut cell = self.cell.lock();
        let work = cell.work.take()?;
        cell.state = JobState::Cancelled;
        drop(cell);
        Some(work.into_task(self.info.clone()))
    }

    /// The error for a job that is not accepted. A job whose work is gone already hands an empty task back.
    pub(crate) fn refused(&self, reason: RejectReason) -> Rejected {
        let task = self.take_work().unwrap_or_else(|| Task::known_as(self.info.clone(), || {}));
        Rejected::new(task, reason)
    }

    fn dispose(self: &Arc<Self>) -> bool {
        match self.end(true) {
            None => false,
            Some(JobState::Waiting) => {
                if let Some(home) = self.home.upgrade() {
                    home.cancelled(self);
                }
                true
            }
            Some(_) => true,
        }
    }

    pub(crate) fn is_disposed(&self) -> bool {
        matches!(self.cell.lock().state, JobState::Over | JobState::Cancelled)
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cell.lock().state == JobState::Cancelled
    }

    /// No run is under way, and none will start.
    fn is_at_rest(&self) -> bool {
        let cell = self.cell.lock();
        matches!(cell.state, JobState::Over | JobState::Cancelled) && cell.runner.is_none()
    }

    /// The job has come to wait for a thread: whoever waits for it should look whether that thread is its own.
    pub(crate) fn could_start(&self, wake: &mut Vec<Arc<Sleeper>>) {
        let mut cell = self.cell.lock();
        cell.startable += 1;
        wake.extend(cell.waiting.iter().cloned());
    }

    fn startable(&self) -> u64 {
        self.cell.lock().startable
    }

    fn wait(self: &Arc<Self>, timeout: Duration) -> Result<bool, Interrupted> {
        let deadline = deadline_after(timeout);
        let me = Sleeper::current();
        // Whoever brings the job to rest, or into a line, does so before it looks at this list and wakes all on it.
        self.cell.lock().waiting.push(Arc::clone(&me));
        let mut wake;
        loop {
            let seen = self.startable();
            if let Some(home) = self.home.upgrade() {
                home.help(self);
            }
            wake = me.wait(deadline, || self.is_at_rest() || self.startable() != seen);
            if wake != Wake::Ready || self.is_at_rest() {
                break;
            }
        }
        self.cell.lock().waiting.retain(|sleeper| !Arc::ptr_eq(sleeper, &me));
        match wake {
            Wake::Ready => Ok(true),
            Wake::TimedOut => Ok(false),
            Wake::Interrupted => Err(Interrupted),
        }
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job")
            .field("info", &self.info)
            .field("state", &self.cell.lock().state)
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
    Job(Arc<Job>),
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
    pub(crate) fn of(job: Arc<Job>) -> Disposable {
        Disposable { kind: Kind::Job(job) }
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
            Kind::Job(job) => job.dispose(),
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
            Kind::Job(job) => job.is_disposed(),
            Kind::Over => true,
            Kind::Call(call) => call.f.lock().is_none(),
        }
    }

    /// Tells whether it was cancelled, by this handle, its worker or its scheduler.
    pub fn is_cancelled(&self) -> bool {
        match &self.kind {
            Kind::Job(job) => job.is_cancelled(),
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
            Kind::Job(job) => job.wait(timeout),
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
