//! The state that a task and its handle share: who may run it, what came of it, who waits for it.
//!
//! One allocation holds the closure, then the result, and whoever waits. All changes happen under one small
//! lock, held for a few instructions and never while user code runs (the closure, its destructor, a waker).
//! The state alone can also be read without the lock.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use super::home::{find_home, works_for};
use super::{JoinError, Panic};
use crate::interrupt::{self, Interrupter, Sleeper, Wake};
use crate::periodic::Body;
use crate::sync::{Arc, AtomicBool, AtomicU8, AtomicU64, Mutex, MutexGuard, Ordering, fence, spin_until};
use crate::task::TaskId;

/// How far a task has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskState {
    /// Not started: queued, on its way to a worker, or handed back.
    Pending,
    /// Its closure runs.
    Running,
    /// It returned a value.
    Succeeded,
    /// It panicked.
    Failed,
    /// It was cancelled, before or while it ran.
    Cancelled,
    /// It was dropped without having run.
    Abandoned,
}

impl TaskState {
    const ALL: [TaskState; 6] =
        [Self::Pending, Self::Running, Self::Succeeded, Self::Failed, Self::Cancelled, Self::Abandoned];

    pub(crate) fn is_done(self) -> bool {
        !matches!(self, Self::Pending | Self::Running)
    }

    /// The state that `as u8` made this of.
    pub(crate) fn from_u8(bits: u8) -> TaskState {
        Self::ALL[usize::from(bits)]
    }
}

/// What a worker counts when it is through with a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Succeeded,
    Panicked,
    /// Cancelled before it ran, or while it ran.
    Cancelled,
}

/// What came of running a task in place.
#[derive(Debug, Clone)]
pub(crate) enum Help {
    /// It was run, or it is not for us to run.
    Done,
    /// It may not start before that: come back then.
    NotBefore(Instant),
    /// It may not start yet, and only others know when: come back when told.
    WhenTold(Arc<Told>),
}

/// A thread that waits to be told to try again.
#[derive(Debug)]
pub(crate) struct Told {
    sleeper: Arc<Sleeper>,
    told: AtomicBool,
}

impl Told {
    /// For the calling thread.
    pub(crate) fn for_this_thread() -> Arc<Told> {
        Arc::new(Told { sleeper: Sleeper::current(), told: AtomicBool::new(false) })
    }

    pub(crate) fn tell(&self) {
        self.told.store(true, Ordering::Release);
        self.sleeper.unpark();
    }
}

/// Where in its queue a task is. A hint, which the queue checks against the task's id.
#[derive(Debug)]
pub(crate) struct Place(AtomicU64);

impl Place {
    pub(crate) fn new() -> Self {
        Place(AtomicU64::new(u64::MAX))
    }
    // Relaxed: written and read under the queue's lock, or as a hint that is checked there.
    pub(crate) fn set(&self, place: u64) {
        self.0.store(place, Ordering::Relaxed);
    }
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What a task does: a closure once, or a series again and again.
pub(crate) trait Work<T>: Send + Sized {
    fn run(self) -> Ran<T, Self>;
}

/// What came of a run.
pub(crate) enum Ran<T, W> {
    /// That was all, with what is left of the work, if anything.
    Over(Result<T, Payload>, Option<W>),
    /// It is to run again.
    Again(W),
}

/// What a panic carries.
pub(crate) type Payload = Box<dyn Any + Send>;

impl<T, F: FnOnce() -> T + Send> Work<T> for F {
    fn run(self) -> Ran<T, F> {
        Ran::Over(catch_unwind(AssertUnwindSafe(self)), None)
    }
}

/// The half of the shared state that an executor sees.
pub(crate) trait Tracked: Send + Sync {
    /// Runs the closure, if it is still there, and keeps its panic. `settle` is told the outcome before any
    /// other thread can see it. True: it is a series, and waits for its next run.
    fn run(&self, settle: &mut dyn FnMut(Outcome)) -> bool;
    /// Nobody will run it: resolves the handle, unless it is resolved.
    fn abandon(&self);
    fn state(&self) -> TaskState;
    fn cancel(&self, may_interrupt: bool) -> bool;
    /// The pool of this number is about to take the task.
    fn entered(&self, home: u64);
    /// The same, of a series that is in the pool's queue again. False: it has been cancelled meanwhile, and whoever
    /// cancelled it may not have found the pool.
    fn entered_again(&self, home: u64) -> bool {
        self.entered(home);
        true
    }
    /// The pool has given the task away without running it.
    fn left(&self);
    /// If the task waits in the queue of a pool that the calling thread works for, runs it here.
    fn help(&self) -> Help;
    fn place(&self) -> &Place;
    fn id(&self) -> TaskId;
    /// Puts what `wrap` makes of the work into its place. False: `wrap` panicked, and the work is as it was.
    fn decorate(&self, wrap: &mut dyn FnMut(Body) -> Body) -> bool {
        let _ = wrap;
        true
    }
}

/// The half that a handle sees.
pub(crate) trait Joinable<T>: Tracked {
    /// Blocks until the task is done. Runs it here if it waits in the queue of the pool we are a worker of.
    fn wait_done(&self, deadline: Option<Instant>) -> Wake;
    /// The result of a task that is done; `None` if it is not.
    fn take_result(&self) -> Option<Result<T, JoinError>>;
    /// As `take_result`; if not done, `context`'s waker is called when it is.
    fn poll_result(&self, context: &mut Context<'_>) -> Poll<Result<T, JoinError>>;
    /// Calls `f` when the task is done, at once if it is; on whichever thread makes it so.
    fn when_done(&self, f: Box<dyn FnOnce() + Send>);
    /// Nobody wants the result any more.
    fn detach(&self);
    /// The other half.
    fn tracked(self: Arc<Self>) -> Arc<dyn Tracked>;
}

pub(crate) struct Core<T, W> {
    id: TaskId,
    /// A [`TaskState`]. Written only under `cell`; what was written there before is visible to an Acquire load.
    ///
    /// Pending -> Running               `run`, which takes the closure
    /// Pending -> Cancelled, Abandoned  `cancel`, `abandon`, which take and drop the closure
    /// Running -> Succeeded, Failed     `run`, which leaves the result
    /// Running -> Cancelled             `cancel`; what the closure then returns is dropped
    /// Running -> Pending               `run` of a series, which puts the work back for the next run
    ///
    /// The other four are final.
    state: AtomicU8,
    place: Place,
    /// The number of the pool that has it; 0: none.
    ///
    /// Written without the lock. A task that enters a pool writes `home`, fences and looks at the state; `cancel` writes
    /// the state, fences and looks at `home`. One fence is first: either the cancel finds the pool, or whoever put the
    /// task there finds it cancelled (and if that does not matter to it, so will the worker that takes it).
    home: AtomicU64,
    cell: Mutex<Cell<T, W>>,
}

struct Cell<T, W> {
    /// There while Pending.
    work: Option<Form<T, W>>,
    /// There from Succeeded or Failed until it is taken.
    result: Option<Result<T, Panic>>,
    /// There while Running: how to interrupt it.
    runner: Option<Interrupter>,
    /// At most one: there is one handle, and waiting takes it by value or exclusively.
    waiter: Waiter,
    /// The handle is gone: a result is dropped at once instead of kept for as long as a `Canceller` lives.
    detached: bool,
}

enum Form<T, W> {
    Bare(W),
    /// With a decorator around it.
    Wrapped(Box<dyn FnOnce() -> Ran<T, W> + Send>),
}

impl<T, W: Work<T>> Form<T, W> {
    fn run(self) -> Ran<T, W> {
        match self {
            Form::Bare(work) => work.run(),
            Form::Wrapped(work) => work(),
        }
    }
}

/// Work inside a decorator's: taken out when it is called, and what came of it put there instead.
struct Inside<T, W> {
    work: Option<W>,
    ran: Option<Ran<T, W>>,
}

impl<T: Send + 'static, W: Work<T> + 'static> Form<T, W> {
    /// What decorators see: a body that runs what is inside, once.
    fn body_of(inside: &Arc<Mutex<Inside<T, W>>>) -> Body {
        let inside = Arc::clone(inside);
        Box::new(move || {
            let work = inside.lock().work.take();
            match work.map(Work::run) {
                None => {}
                Some(Ran::Over(Err(payload), left)) => {
                    drop_quietly(left);
                    resume_unwind(payload);
                }
                ran => inside.lock().ran = ran,
            }
        })
    }

    /// The other way round: runs what the decorator made, and finds what came of the work inside.
    fn around(mut body: Body, inside: Arc<Mutex<Inside<T, W>>>) -> Form<T, W> {
        Form::Wrapped(Box::new(move || {
            let called = catch_unwind(AssertUnwindSafe(&mut body));
            drop_quietly(body);
            let ran = inside.lock().ran.take();
            match (called, ran) {
                (Err(payload), left) => {
                    drop_quietly(left);
                    Ran::Over(Err(payload), None)
                }
                (Ok(()), Some(ran)) => ran,
                (Ok(()), None) => {
                    Ran::Over(Err(Box::new("the decorator kept the task from returning a value")), None)
                }
            }
        }))
    }
}

/// Who is told that a task is done.
pub(crate) enum Waiter {
    Nobody,
    Thread(Arc<Sleeper>),
    Task(Waker),
    Callback(Box<dyn FnOnce() + Send>),
}

impl Waiter {
    /// Not under any lock, and not to be hurt by: wakers and callbacks are not ours.
    pub(crate) fn wake(self) {
        match self {
            Waiter::Nobody => {}
            Waiter::Thread(sleeper) => sleeper.unpark(),
            Waiter::Task(waker) => quietly(|| waker.wake()),
            Waiter::Callback(f) => quietly(f),
        }
    }
}

impl<T: Send + 'static, W: Work<T> + 'static> Core<T, W> {
    pub(crate) fn new(id: TaskId, work: W) -> Self {
        Core {
            id,
            state: AtomicU8::new(TaskState::Pending as u8),
            place: Place::new(),
            home: AtomicU64::new(0),
            cell: Mutex::new(Cell {
                work: Some(Form::Bare(work)),
                result: None,
                runner: None,
                waiter: Waiter::Nobody,
                detached: false,
            }),
        }
    }

    fn is_done(&self) -> bool {
        self.state().is_done()
    }

    fn set_state(&self, state: TaskState) {
        self.state.store(state as u8, Ordering::Release);
    }

    /// Takes the closure for running it here. `None`: somebody else was first.
    fn start(&self) -> Option<Form<T, W>> {
        let mut cell = self.cell.lock();
        let work = cell.work.take()?;
        self.home.store(0, Ordering::Relaxed);
        cell.runner = Some(interrupt::current());
        self.set_state(TaskState::Running);
        Some(work)
    }

    /// Records what came of a run. True: the next one is to come.
    fn finish(&self, ran: Ran<T, W>, settle: &mut dyn FnMut(Outcome)) -> bool {
        match ran {
            Ran::Again(work) => self.put_back(work, settle),
            Ran::Over(result, left) => {
                self.end(result, settle);
                drop_quietly(left);
                false
            }
        }
    }

    /// Makes a series wait for its next run, unless it was cancelled meanwhile.
    fn put_back(&self, work: W, settle: &mut dyn FnMut(Outcome)) -> bool {
        let mut cell = self.cell.lock();
        cell.runner = None;
        if self.is_done() {
            settle(Outcome::Cancelled);
            drop(cell);
            drop_quietly(work);
            return false;
        }
        cell.work = Some(Form::Bare(work));
        settle(Outcome::Succeeded);
        self.set_state(TaskState::Pending);
        true
    }

    /// Records how it ended, unless it was cancelled meanwhile.
    fn end(&self, result: Result<T, Payload>, settle: &mut dyn FnMut(Outcome)) {
        let (state, outcome) = match &result {
            Ok(_) => (TaskState::Succeeded, Outcome::Succeeded),
            Err(_) => (TaskState::Failed, Outcome::Panicked),
        };
        let mut result = Some(result.map_err(Panic::new));
        let mut cell = self.cell.lock();
        cell.runner = None;
        if self.is_done() {
            settle(Outcome::Cancelled);
        } else {
            if !cell.detached {
                cell.result = result.take();
            }
            settle(outcome);
            self.set_state(state);
        }
        let waiter = std::mem::replace(&mut cell.waiter, Waiter::Nobody);
        drop(cell);
        drop_quietly(result);
        waiter.wake();
    }

    /// Ends a task that has not started.
    fn end_unstarted(&self, cell: &mut Cell<T, W>, state: TaskState) -> Option<Unstarted<Form<T, W>>> {
        let work = cell.work.take()?;
        self.set_state(state);
        Some(Unstarted { work, waiter: std::mem::replace(&mut cell.waiter, Waiter::Nobody) })
    }

    /// Cancels a task whose work is elsewhere: it runs, or is being decorated.
    fn cancel_running(&self, mut cell: MutexGuard<'_, Cell<T, W>>, may_interrupt: bool) -> bool {
        if self.is_done() {
            return false;
        }
        self.set_state(TaskState::Cancelled);
        let runner = cell.runner.take();
        let waiter = std::mem::replace(&mut cell.waiter, Waiter::Nobody);
        drop(cell);
        // The interrupter is of this task's epoch: if the worker has gone on meanwhile, this does nothing.
        if let (Some(runner), true) = (runner, may_interrupt) {
            runner.interrupt();
        }
        waiter.wake();
        true
    }

    /// Sleeps until the task is done, or `told` is.
    fn sleep_until_done(&self, deadline: Option<Instant>, told: Option<&Told>) -> Wake {
        if spin_until(|| self.is_done()) {
            return Wake::Ready;
        }
        let me = Sleeper::current();
        if self.wait_as(Waiter::Thread(Arc::clone(&me))).is_err() {
            return Wake::Ready;
        }
        // No wake-up is lost: whoever makes the task done does it under the lock that installed us, and then
        // wakes the waiter it found there.
        let is_told = || told.is_some_and(|told| told.told.load(Ordering::Acquire));
        let wake = me.wait(deadline, || self.is_done() || is_told());
        if !self.is_done() {
            let _ = self.wait_as(Waiter::Nobody);
        }
        wake
    }

    /// Installs `waiter`; hands it back if the task is done, for then nobody would call it.
    fn wait_as(&self, waiter: Waiter) -> Result<(), Waiter> {
        let mut cell = self.cell.lock();
        if self.is_done() {
            return Err(waiter);
        }
        let old = std::mem::replace(&mut cell.waiter, waiter);
        drop(cell);
        drop_quietly(old); // a waker, perhaps: not under the lock
        Ok(())
    }
}

struct Unstarted<F> {
    work: F,
    waiter: Waiter,
}

/// Calls what is the user's where a panic has nowhere to go.
pub(crate) fn quietly(f: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(f));
}

pub(crate) fn drop_quietly<V>(value: V) {
    quietly(|| drop(value));
}

impl<T: Send + 'static, W: Work<T> + 'static> Tracked for Core<T, W> {
    fn run(&self, settle: &mut dyn FnMut(Outcome)) -> bool {
        match self.start() {
            Some(work) => self.finish(work.run(), settle),
            None => {
                settle(Outcome::Cancelled);
                false
            }
        }
    }

    fn abandon(&self) {
        if self.state() != TaskState::Pending {
            return;
        }
        let ended = self.end_unstarted(&mut self.cell.lock(), TaskState::Abandoned);
        if let Some(ended) = ended {
            drop_quietly(ended.work);
            ended.waiter.wake();
        }
    }

    fn cancel(&self, may_interrupt: bool) -> bool {
        // Under one lock: a series may go from Running to Pending at any time.
        let mut cell = self.cell.lock();
        let Some(ended) = self.end_unstarted(&mut cell, TaskState::Cancelled) else {
            return self.cancel_running(cell, may_interrupt);
        };
        drop(cell);
        drop_quietly(ended.work); // its captures go at once, wherever the empty task still waits
        fence(Ordering::SeqCst); // see `home`
        if let Some(home) = find_home(self.home.load(Ordering::Relaxed)) {
            // The queue may be the user's own. Whatever it does, whoever waits must be woken.
            quietly(|| home.cancelled(self.id, &self.place));
        }
        ended.waiter.wake();
        true
    }

    fn state(&self) -> TaskState {
        // Pairs with the Release in `set_state`: whoever sees "done" sees the result.
        TaskState::from_u8(self.state.load(Ordering::Acquire))
    }

    fn entered(&self, home: u64) {
        self.home.store(home, Ordering::Relaxed);
    }

    fn entered_again(&self, home: u64) -> bool {
        self.home.store(home, Ordering::Relaxed);
        fence(Ordering::SeqCst); // see `home`
        self.state() == TaskState::Pending
    }

    fn left(&self) {
        self.home.store(0, Ordering::Relaxed);
    }

    fn help(&self) -> Help {
        let home = self.home.load(Ordering::Relaxed);
        if !works_for(home) {
            return Help::Done; // spares those who are no workers the search
        }
        find_home(home).map_or(Help::Done, |home| home.run_here(self.id, &self.place))
    }

    fn place(&self) -> &Place {
        &self.place
    }

    fn id(&self) -> TaskId {
        self.id
    }

    fn decorate(&self, wrap: &mut dyn FnMut(Body) -> Body) -> bool {
        let mut cell = self.cell.lock();
        let work = match cell.work.take() {
            Some(Form::Bare(work)) => work,
            other => {
                cell.work = other;
                return true; // cancelled, or decorated by a pool that gave it back
            }
        };
        drop(cell);
        // While the decorator has the body, the work is here too: if it panics, nothing is lost.
        let inside = Arc::new(Mutex::new(Inside { work: Some(work), ran: None }));
        let wrapped = catch_unwind(AssertUnwindSafe(|| wrap(Form::body_of(&inside))));
        let unharmed = wrapped.is_ok();
        let form = match wrapped {
            Ok(body) => Form::around(body, inside),
            Err(payload) => {
                drop_quietly(payload);
                let work = inside.lock().work.take();
                // Gone: the decorator has run it. What came of it is for whoever runs the task.
                work.map_or_else(|| Form::around(Box::new(|| {}), inside), Form::Bare)
            }
        };
        let mut cell = self.cell.lock();
        if self.is_done() {
            drop(cell);
            drop_quietly(form); // cancelled meanwhile
        } else {
            cell.work = Some(form);
        }
        unharmed
    }
}

impl<T: Send + 'static, W: Work<T> + 'static> Joinable<T> for Core<T, W> {
    fn wait_done(&self, deadline: Option<Instant>) -> Wake {
        loop {
            if self.is_done() {
                return Wake::Ready;
            }
            // Ours to run, but later: until then we wait like anybody else.
            let (try_again, told) = match self.help() {
                Help::NotBefore(due) if deadline.is_none_or(|deadline| due < deadline) => (Some(due), None),
                Help::WhenTold(told) => (None, Some(told)),
                _ => (None, None),
            };
            match self.sleep_until_done(try_again.or(deadline), told.as_deref()) {
                Wake::TimedOut if try_again.is_some() => {}
                Wake::Ready if !self.is_done() => {}
                wake => return wake,
            }
        }
    }

    fn take_result(&self) -> Option<Result<T, JoinError>> {
        let state = self.state();
        match state {
            TaskState::Pending | TaskState::Running => None,
            TaskState::Cancelled => Some(Err(JoinError::Cancelled)),
            TaskState::Abandoned => Some(Err(JoinError::Abandoned)),
            TaskState::Succeeded | TaskState::Failed => {
                let result = self.cell.lock().result.take();
                Some(result.map_or(Err(JoinError::Taken), |r| r.map_err(JoinError::Panicked)))
            }
        }
    }

    fn poll_result(&self, context: &mut Context<'_>) -> Poll<Result<T, JoinError>> {
        if !self.is_done() && self.wait_as(Waiter::Task(context.waker().clone())).is_ok() {
            return Poll::Pending;
        }
        Poll::Ready(self.take_result().expect("done, and done is final"))
    }

    fn when_done(&self, f: Box<dyn FnOnce() + Send>) {
        if let Err(waiter) = self.wait_as(Waiter::Callback(f)) {
            waiter.wake();
        }
    }

    fn detach(&self) {
        let mut cell = self.cell.lock();
        cell.detached = true;
        let waiter = std::mem::replace(&mut cell.waiter, Waiter::Nobody);
        let result = cell.result.take();
        drop(cell);
        drop_quietly(waiter);
        drop_quietly(result);
    }

    fn tracked(self: Arc<Self>) -> Arc<dyn Tracked> {
        self
    }
}
