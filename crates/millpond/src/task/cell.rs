//! The state that a task and its handle share: who may run it, what came of it, who waits for it.
//!
//! One allocation holds the closure, then the result, and whoever waits. Who may have which is decided in one word, and
//! `slot.rs` tells how: to submit, run and join a task takes no lock. There is one for whoever waits, taken only by those who
//! wait and by those who find in the word that somebody does. It is held for a few instructions, and never while user code
//! runs (the closure, its destructor, a waker).

use std::any::Any;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use super::owner::{
    announce_sleep, find_home, is_behind_this_thread, look_again, tell_cancelled, waits_for_this_thread,
    works_for,
};
use super::shared::{LeakedRef, Removal};
use super::slot::{Cancel, ResultToken, Running, Slot, Word};
use super::{JoinError, Panic, awaited};
use crate::interrupt::wait::WaitCell;
use crate::interrupt::{RunId, ThreadContext, Wake};
use crate::panic::{catch, drop_caught};
use crate::sync::SpinLock;
use crate::sync::backoff::snooze_as_it_paid;
use crate::sync::{Arc, AtomicU64, Mutex, Ordering, fence, fence_in_models, lock_global};
use crate::task::TaskId;
use crate::task::periodic::Body;

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
    /// It was dropped without having run; also one that waited for too long ([`JoinError::Expired`]).
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

/// What came of a task that was shed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shed {
    Expired,
    /// It was cancelled in the same moment.
    Cancelled,
}

/// What a run tells whoever runs the task. No lock of ours is held, and no cancel waits.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RunEvent<'a> {
    /// The work has panicked. Comes before the outcome, while the task still counts as running.
    Panicked(&'a Panic),
    /// A series will not run again, because this run panicked. Comes before the outcome.
    SeriesEnded,
    /// The outcome: once for each run, before any other thread can see it.
    Settled(Outcome),
}

/// Tells of a panic.
#[cold]
pub(crate) fn report_panic(payload: Payload, report: &mut dyn FnMut(RunEvent<'_>)) -> Payload {
    let panic = Panic::new(payload);
    report(RunEvent::Panicked(&panic));
    panic.into_payload()
}

/// What came of running a task in place.
#[derive(Debug, Clone)]
pub(crate) enum Help {
    /// It was run, or it is not for us to run.
    Done,
    /// It may not start before that: come back then.
    NotBefore(Instant),
    /// It may not start yet, and only its owner knows when: come back when the cell is notified.
    WhenNotified(Arc<WaitCell>),
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
    /// It is to run again, though this run panicked.
    AgainAfterPanic(W, Payload),
}

impl<T, W> Ran<T, W> {
    fn has_panicked(&self) -> bool {
        matches!(self, Ran::Over(Err(_), _) | Ran::AgainAfterPanic(..))
    }

    /// Tells of the panic, if it was one.
    #[cold]
    fn reported(self, report: &mut dyn FnMut(RunEvent<'_>)) -> Ran<T, W> {
        match self {
            Ran::Over(Err(payload), left) => Ran::Over(Err(report_panic(payload, report)), left),
            Ran::AgainAfterPanic(work, payload) => Ran::AgainAfterPanic(work, report_panic(payload, report)),
            ok => ok,
        }
    }
}

/// What a panic carries.
pub(crate) type Payload = Box<dyn Any + Send>;

impl<T, F: FnOnce() -> T + Send> Work<T> for F {
    fn run(self) -> Ran<T, F> {
        Ran::Over(catch_unwind(AssertUnwindSafe(self)), None)
    }
}

/// What came of a cancel.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Cancelled {
    /// It was too late.
    No,
    Yes,
    /// Yes, and the queue in which it waited has leaked its reference, which the caller gives up.
    Leaked(LeakedRef),
}

/// The half of the shared state that an executor sees.
pub(crate) trait Tracked: Send + Sync {
    /// Runs the closure, if it is still there, and keeps its panic. True: it is a series, and waits for its
    /// next run.
    fn run(&self, report: &mut dyn FnMut(RunEvent<'_>)) -> bool;
    /// Nobody will run it: resolves the handle, unless it is resolved.
    fn abandon(&self);
    /// As `abandon`, but keeps the work: moves it into `work`, which is an `Option` of its type. Does nothing if the
    /// task has begun or ended, or if the work has another type.
    fn take_work(&self, work: &mut dyn Any) {
        let _ = work;
    }
    /// Ends a pending task without a run, because it has waited for too long: drops its work, tells `settle` before any other
    /// thread can see it, and resolves the handle. False: it is not pending, or it is not to be shed.
    fn expire(&self, settle: &mut dyn FnMut(Shed)) -> bool {
        let _ = settle;
        false
    }
    /// It was abandoned because it had waited for too long.
    fn is_expired(&self) -> bool {
        false
    }
    fn state(&self) -> TaskState;
    /// See [`Shared::cancel`](super::Shared::cancel), which is the way to call it.
    fn try_cancel(&self, may_interrupt: bool) -> Cancelled;
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
    /// The number of the pool that has it; 0: none.
    fn home(&self) -> u64;
    /// It runs on the calling thread, or on one that waits for this one: to wait for it would be in vain.
    fn is_waiting_for_this_thread(&self) -> bool {
        false
    }
    /// If the task waits in the queue of a pool that the calling thread works for, runs it here.
    fn help(&self) -> Help {
        let home = self.home();
        if !works_for(home) {
            return Help::Done; // spares those who are no workers the search
        }
        find_home(home).map_or(Help::Done, |home| home.run_inline(self.id(), self.place()))
    }
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
    /// Installs `waiter`; hands it back if the task is done, for then nobody would call it.
    fn wait_as(&self, waiter: Waiter) -> Result<(), Waiter>;
    /// What a task that has run has left, if it is still there.
    fn take_left(&self, claim: &mut ResultToken) -> Option<Result<T, JoinError>>;
    /// Nobody wants the result any more.
    fn detach(&self, claim: &mut ResultToken);

    /// The result of a task that is done; `None` if it is not.
    fn take_result(&self, claim: &mut ResultToken) -> Option<Result<T, JoinError>> {
        let state = self.state();
        if matches!(state, TaskState::Succeeded | TaskState::Failed) {
            return self.take_left(claim).or(Some(Err(JoinError::Taken)));
        }
        match state {
            TaskState::Cancelled => Some(Err(JoinError::Cancelled)),
            TaskState::Abandoned if self.is_expired() => Some(Err(JoinError::Expired)),
            TaskState::Abandoned => Some(Err(JoinError::Abandoned)),
            _ => None,
        }
    }

    /// As `take_result`; if not done, `context`'s waker is called when it is.
    fn poll_result(&self, claim: &mut ResultToken, context: &mut Context<'_>) -> Poll<Result<T, JoinError>> {
        let waiter = || {
            let waker = context.waker().clone();
            if awaited::is_asked_for() { Waiter::Worker(Arc::new(waker)) } else { Waiter::Task(waker) }
        };
        if !self.state().is_done() && self.wait_as(waiter()).is_ok() {
            return Poll::Pending;
        }
        Poll::Ready(self.take_result(claim).expect("done, and done is final"))
    }

    /// Calls `f` when the task is done, at once if it is; on whichever thread makes it so.
    fn when_done(&self, f: Box<dyn FnOnce() + Send>) {
        if let Err(waiter) = self.wait_as(Waiter::Callback(f)) {
            waiter.wake();
        }
    }
}

/// In this order in memory, after the number of its owners: what a submit, a run, a join or a cancel touches comes first, for
/// each line of a cache that another thread has written costs as much as the rest of the way.
#[repr(C)]
pub(crate) struct Core<T, W> {
    place: Place,
    /// The work, then the result, and how far the task has come.
    slot: Slot<Form<T, W>, Result<T, Payload>>,
    runner: Runner,
    /// At most one: there is one handle, and waiting takes it by value or exclusively. To be looked for by whoever ends the
    /// task if the word says so, and by whoever drops the state too: of many nobody has waited for, and to look here would touch
    /// another line of the cache.
    ///
    /// A waker and not a [`Waiter`], which would take another word in each of many cells.
    waiter: ManuallyDrop<SpinLock<Option<Waker>>>,
}

impl<T, W> Drop for Core<T, W> {
    #[inline]
    fn drop(&mut self) {
        if !self.slot.look().is_left_empty() {
            self.drop_rest();
        }
    }
}

impl<T, W> Core<T, W> {
    #[inline(never)]
    fn drop_rest(&mut self) {
        if self.slot.look().is_waited_for() {
            self.drop_waiter();
        }
        self.slot.clear();
    }

    #[cold]
    fn drop_waiter(&self) {
        drop_caught(self.take_waiter()); // a waker, perhaps, and that is the user's
    }

    fn take_waiter(&self) -> Option<Waker> {
        self.waiter.lock().take()
    }
}

/// How to interrupt the task while it runs: a [`RunId`].
///
/// Written by whoever is about to run the task, before the exchange that begins it (Release); read by a cancel after the
/// exchange by which it found the task running (Acquire). A task is run by who has it, so there is nobody else who writes.
struct Runner {
    thread: AtomicU64,
    epoch: AtomicU64,
}

impl Runner {
    fn nobody() -> Runner {
        Runner { thread: AtomicU64::new(0), epoch: AtomicU64::new(0) }
    }

    #[inline]
    fn set(&self, mark: RunId) {
        self.thread.store(mark.thread, Ordering::Relaxed);
        self.epoch.store(mark.epoch, Ordering::Relaxed);
    }

    fn get(&self) -> RunId {
        RunId { thread: self.thread.load(Ordering::Relaxed), epoch: self.epoch.load(Ordering::Relaxed) }
    }
}

enum Form<T, W> {
    Bare(W),
    /// With a decorator around it.
    Wrapped(Box<dyn FnOnce() -> Ran<T, W> + Send>),
}

impl<T, W> Form<T, W> {
    /// As [`drop_caught`], which would have to be ready for the worst also for work that has nothing to drop.
    #[inline]
    fn drop_caught(self) {
        match self {
            Form::Bare(work) => drop_caught(work),
            Form::Wrapped(work) => drop_caught(work),
        }
    }
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
                    drop_caught(left);
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
            drop_caught(body);
            let ran = inside.lock().ran.take();
            match (called, ran) {
                (Err(payload), left) => {
                    drop_caught(left);
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
    Thread(Arc<ThreadContext>),
    Task(Waker),
    /// A worker that blocks on a future: also called when the task comes into a queue, where it may have to run it itself.
    /// Shared, because a waker is not cloned under a lock.
    Worker(Arc<Waker>),
    Callback(Box<dyn FnOnce() + Send>),
}

impl Waiter {
    /// Not under any lock, and not to be hurt by: wakers and callbacks are not ours.
    pub(crate) fn wake(self) {
        match self {
            Waiter::Nobody => {}
            Waiter::Thread(thread) => thread.unpark(),
            Waiter::Task(waker) => _ = catch(|| waker.wake()),
            Waiter::Worker(waker) => _ = catch(|| waker.wake_by_ref()),
            Waiter::Callback(f) => _ = catch(f),
        }
    }
}

impl From<Waiter> for Option<Waker> {
    fn from(waiter: Waiter) -> Self {
        match waiter {
            Waiter::Nobody => None,
            Waiter::Thread(thread) => Some(thread.into()),
            Waiter::Task(waker) => Some(waker),
            // Only a future tells its waiter when it comes into a queue.
            Waiter::Worker(waker) => Some(Arc::unwrap_or_clone(waker)),
            Waiter::Callback(f) => Some(Arc::new(Callback(std::sync::Mutex::new(Some(f)))).into()),
        }
    }
}

/// A callback as a waker: called when it is first woken.
struct Callback(std::sync::Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl std::task::Wake for Callback {
    fn wake(self: Arc<Self>) {
        let f = lock_global(&self.0).take();
        if let Some(f) = f {
            f();
        }
    }
}

impl<T: Send + 'static, W: Work<T> + 'static> Core<T, W> {
    #[inline(always)]
    pub(crate) fn new(id: TaskId, work: W) -> Self {
        Core {
            slot: Slot::new(id, Form::Bare(work)),
            place: Place::new(),
            runner: Runner::nobody(),
            waiter: ManuallyDrop::new(SpinLock::new(None)),
        }
    }

    fn is_done(&self) -> bool {
        self.slot.look().is_done()
    }

    /// Records what came of a run. True: the next one is to come.
    fn finish(&self, running: Run<'_, T, W>, ran: Ran<T, W>, report: &mut dyn FnMut(RunEvent<'_>)) -> bool {
        let Some(finishing) = running.finish() else {
            report(RunEvent::Settled(Outcome::Cancelled));
            drop_caught(ran);
            return false;
        };
        match ran {
            Ran::Again(work) => {
                report(RunEvent::Settled(Outcome::Succeeded));
                finishing.put_back(Form::Bare(work));
                true
            }
            Ran::AgainAfterPanic(work, payload) => {
                report(RunEvent::Settled(Outcome::Panicked));
                finishing.put_back(Form::Bare(work));
                drop_caught(payload);
                true
            }
            Ran::Over(result, left) => {
                let (state, outcome) = match &result {
                    Ok(_) => (TaskState::Succeeded, Outcome::Succeeded),
                    Err(_) => {
                        if left.is_some() {
                            report(RunEvent::SeriesEnded);
                        }
                        (TaskState::Failed, Outcome::Panicked)
                    }
                };
                report(RunEvent::Settled(outcome));
                let (unwanted, seen) = finishing.end(state, result);
                drop_caught(unwanted);
                self.wake(seen);
                drop_caught(left);
                false
            }
        }
    }

    /// For whoever has ended the task and found this when it did.
    fn wake(&self, seen: Word) {
        if seen.is_waited_for() {
            self.wake_waiter();
        }
    }

    #[cold]
    fn wake_waiter(&self) {
        if let Some(waker) = self.take_waiter() {
            Waiter::Task(waker).wake();
        }
    }

    /// Sleeps until the task is done or `retry` is notified.
    fn sleep_until_done(&self, deadline: Option<Instant>, retry: Option<&WaitCell>) -> Wake {
        if snooze_as_it_paid(|| self.is_done()) {
            return Wake::Ready;
        }
        let try_again = announce_sleep(self.slot.home(Ordering::Relaxed));
        let me = ThreadContext::current();
        if self.wait_as(Waiter::Thread(Arc::clone(&me))).is_err() {
            return Wake::Ready;
        }
        // No wake-up is lost: whoever makes the task done finds in the word that somebody waits, and wakes us.
        let may_retry = || retry.is_some_and(WaitCell::is_notified);
        let first = deadline.into_iter().chain(try_again).min();
        let wake = me.wait(first, || self.is_done() || may_retry());
        if !self.is_done() {
            let _ = self.wait_as(Waiter::Nobody);
        }
        if wake == Wake::TimedOut && first != deadline { Wake::Ready } else { wake }
    }
}

/// The right of whoever runs a task.
type Run<'a, T, W> = Running<'a, Form<T, W>, Result<T, Payload>>;

impl<T: Send + 'static, W: Work<T> + 'static> Tracked for Core<T, W> {
    fn run(&self, report: &mut dyn FnMut(RunEvent<'_>)) -> bool {
        self.runner.set(RunId::current());
        let Some((work, running)) = self.slot.begin() else {
            report(RunEvent::Settled(Outcome::Cancelled));
            return false;
        };
        self.slot.set_home(0);
        let mut ran = work.run();
        if ran.has_panicked() {
            ran = ran.reported(report); // not later: the hook may try to cancel it
        }
        self.finish(running, ran, report)
    }

    fn abandon(&self) {
        if let Some((work, seen)) = self.slot.abandon() {
            work.drop_caught();
            self.wake(seen);
        }
    }

    fn expire(&self, settle: &mut dyn FnMut(Shed)) -> bool {
        self.runner.set(RunId::current()); // as in `run`
        let Some((work, running)) = self.slot.begin() else { return false };
        self.slot.set_home(0);
        work.drop_caught();
        match running.finish() {
            Some(finishing) => {
                settle(Shed::Expired);
                self.wake(finishing.expire());
            }
            None => settle(Shed::Cancelled),
        }
        true
    }

    fn is_expired(&self) -> bool {
        self.slot.look().is_expired()
    }

    fn take_work(&self, work: &mut dyn Any) {
        let Some(into) = work.downcast_mut::<Option<W>>() else { return };
        if let Some((form, seen)) = self.slot.abandon() {
            match form {
                Form::Bare(work) => *into = Some(work),
                wrapped => wrapped.drop_caught(),
            }
            self.wake(seen);
        }
    }

    fn try_cancel(&self, may_interrupt: bool) -> Cancelled {
        let mut leaked = None;
        let seen = match self.slot.cancel() {
            Cancel::TooLate => return Cancelled::No,
            Cancel::Unstarted(work, seen) => {
                work.drop_caught(); // its captures go at once, wherever the empty task still waits
                fence_in_models(); // between C1 and C2 of `Slot::home`
                let home = self.slot.home(Ordering::SeqCst); // C2
                // SAFETY: both are of this state. A task of it is a `Shared` to it, and the queue that sets
                // its place (`TimerTask::moved_to`) has it inside of a box, and no place to leak it by, or as it is.
                let removal = unsafe { Removal::may_leak(self.id(), &self.place) };
                leaked = tell_cancelled(home, removal);
                seen
            }
            Cancel::Started(seen) => {
                if may_interrupt && seen.state() == TaskState::Running {
                    // Of this task's epoch: if the worker has gone on meanwhile, this does nothing.
                    self.runner.get().interrupt();
                }
                seen
            }
        };
        self.wake(seen);
        leaked.map_or(Cancelled::Yes, Cancelled::Leaked)
    }

    fn state(&self) -> TaskState {
        self.slot.look().state()
    }

    /// While it runs its runner does not change, so this thread reads what it wrote itself, or finds another one.
    fn is_waiting_for_this_thread(&self) -> bool {
        match self.state() {
            TaskState::Running => waits_for_this_thread(self.runner.get()),
            TaskState::Pending => is_behind_this_thread(self.home(), self.id(), &self.place),
            _ => false,
        }
    }

    fn entered(&self, home: u64) {
        self.slot.set_home(home);
    }

    fn entered_again(&self, home: u64) -> bool {
        self.slot.set_home(home);
        fence(Ordering::SeqCst); // E2 of `Slot::home`
        self.state() == TaskState::Pending
    }

    fn left(&self) {
        self.slot.set_home(0);
    }

    fn home(&self) -> u64 {
        self.slot.home(Ordering::Relaxed)
    }

    fn place(&self) -> &Place {
        &self.place
    }

    fn id(&self) -> TaskId {
        self.slot.id()
    }

    fn decorate(&self, wrap: &mut dyn FnMut(Body) -> Body) -> bool {
        let Some((form, held)) = self.slot.hold() else { return true }; // cancelled
        let work = match form {
            Form::Bare(work) => work,
            wrapped => {
                drop_caught(held.put_back(wrapped)); // decorated by a pool that gave it back
                return true;
            }
        };
        // While the decorator has the body, the work is here too: if it panics, nothing is lost.
        let inside = Arc::new(Mutex::new(Inside { work: Some(work), ran: None }));
        let wrapped = catch_unwind(AssertUnwindSafe(|| wrap(Form::body_of(&inside))));
        let ok = wrapped.is_ok();
        let form = match wrapped {
            Ok(body) => Form::around(body, inside),
            Err(payload) => {
                drop_caught(payload);
                let work = inside.lock().work.take();
                // Gone: the decorator has run it. What came of it is for whoever runs the task.
                work.map_or_else(|| Form::around(Box::new(|| {}), inside), Form::Bare)
            }
        };
        drop_caught(held.put_back(form)); // nothing, unless it was cancelled meanwhile
        ok
    }
}

impl<T: Send + 'static, W: Work<T> + 'static> Joinable<T> for Core<T, W> {
    fn wait_done(&self, deadline: Option<Instant>) -> Wake {
        loop {
            if self.is_done() {
                return Wake::Ready;
            }
            let earlier =
                |again: Option<Instant>| again.filter(|again| deadline.is_none_or(|end| *again < end));
            // One that runs is in nobody's queue. Ours to run, but later: until then we wait like anybody else.
            let waits = self.state() == TaskState::Pending;
            let (try_again, retry) = match if waits { self.help() } else { Help::Done } {
                Help::NotBefore(due) if deadline.is_none_or(|deadline| due < deadline) => (Some(due), None),
                Help::WhenNotified(cell) => (None, Some(cell)),
                Help::Done => (earlier(look_again(self.home())), None),
                _ => (None, None),
            };
            match self.sleep_until_done(try_again.or(deadline), retry.as_deref()) {
                Wake::TimedOut if try_again.is_some() => {}
                Wake::Ready if !self.is_done() => {}
                wake => return wake,
            }
        }
    }

    fn wait_as(&self, waiter: Waiter) -> Result<(), Waiter> {
        let waker: Option<Waker> = waiter.into(); // before the lock: it may allocate
        let mut place = self.waiter.lock();
        // Under the lock: whoever finds that somebody waits takes the lock, and finds who.
        if !self.slot.announce_waiter() {
            return Err(waker.map_or(Waiter::Nobody, Waiter::Task));
        }
        let old = std::mem::replace(&mut *place, waker);
        drop(place);
        drop_caught(old); // a waker, perhaps: not under the lock
        Ok(())
    }

    fn take_left(&self, claim: &mut ResultToken) -> Option<Result<T, JoinError>> {
        let left = self.slot.take(claim)?;
        Some(left.map_err(|payload| JoinError::Panicked(Panic::new(payload))))
    }

    fn detach(&self, claim: &mut ResultToken) {
        if self.slot.look().is_left_empty() {
            return; // cancelled, and nobody waits: as a rule, of many timers
        }
        if let Some(result) = self.slot.detach(claim) {
            drop_caught(result);
        }
        if self.slot.look().is_waited_for() {
            self.drop_waiter();
        }
    }
}
