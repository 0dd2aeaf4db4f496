//! [`FutureCore`]: a future, later its result, and the thread or task that waits for it.
//!
//! The handle holds the core. `task.rs` contains the turns that poll the future. One lock guards
//! all changes. It is held for a few instructions and never while user code runs. User code is the
//! future, its destructor, the destructor of its result, a waker, or the executor.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::task::Waker;
use std::time::Instant;

use super::polled::{Decorated, Polled};
use super::waiter::FutureWaiter;
use crate::executor::Executor;
use crate::interrupt::{RunId, ThreadContext, Wake};
use crate::panic::{catch, drop_caught};
use crate::sync::{Arc, AtomicBool, AtomicU8, AtomicU64, Mutex, MutexGuard, OnceLock, Ordering};
use crate::task::periodic::Body;
use crate::task::{
    Help, JoinError, Joinable, Outcome, Panic, Place, Propagated, RemoveCancelled, ResultToken, RunEvent,
    TaskId, TaskState, Tracked, Waiter, help_to_run, is_behind_this_thread, waits_for_this_thread,
};

/// The phase of a future.
///
/// ```text
/// Queued -> Polling     a turn takes the future
/// Polling -> Notified   woken during the poll
/// Polling -> Idle       the poll was pending; the future is back
/// Notified -> Queued    the same after a wake-up: the turn submits the next one
/// Idle -> Queued        woken: the waking thread submits a turn
/// any -> Over           ready, panicked, cancelled, abandoned
/// ```
///
/// The thread that changes the phase to Over decides the outcome. It drops the future, and then
/// changes the state, which resolves the handle. So the captures of the future are dropped before
/// the handle resolves. Only a cancel during a poll resolves the handle at once, as for a running
/// closure; the turn drops the future afterwards.
///
/// No wake-up is lost. A wake-up and the end of a poll both change the phase under the lock. If the
/// wake-up is first, the end of the poll finds Notified and submits a turn. If the end of the poll
/// is first, the wake-up finds Idle and submits a turn itself. In Queued, a turn is pending whose
/// poll begins after the wake-up.
///
/// Two threads never poll at the same time. Only the thread that changed the phase to Queued
/// submits a turn, and a turn leaves Queued under the lock. Model: `loom_tests/reactive.rs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Idle,
    Queued,
    Polling,
    Notified,
    Over,
}

pub(super) struct FutureCore<F: Future> {
    id: TaskId,
    /// A [`TaskState`]: Pending until the first poll, then Running until the future is over and
    /// dropped. Written under `cell`.
    state: AtomicU8,
    /// As `state`, but changes together with the phase: it is the state that the handle will have
    /// once the future is dropped. Used by turns and queues. Release stores pair with the Acquire
    /// load in `decided`.
    decided: AtomicU8,
    /// The place of the queued turn. At most one turn is queued.
    place: Place,
    /// How often a turn was left in the queue of a pool while a thread waited for the future. The
    /// waiting thread may have to run such a turn itself.
    left_to_waiter: AtomicU64,
    /// The executor accepts no more turns after the queued or running one. Written under `cell`.
    lost: AtomicBool,
    /// The context of the thread that spawned the future; used for all its turns.
    context: OnceLock<Option<Propagated>>,
    cell: Mutex<Cell<F>>,
}

struct Cell<F: Future> {
    phase: Phase,
    /// Present while the phase is Idle or Queued.
    future: Option<Polled<F>>,
    /// Present until the phase is Over, so that a waker that outlives the future does not keep a
    /// pool or a worker alive.
    executor: Option<Arc<dyn Executor>>,
    /// Present from the end of the future until it is taken.
    result: Option<Result<F::Output, Panic>>,
    /// The run that polls. Present while the phase is Polling or Notified.
    runner: Option<RunId>,
    /// The number of the pool that has the queued turn; 0 if none.
    home: u64,
    waiter: Option<FutureWaiter>,
    /// The handle has been dropped, so the result is dropped at once.
    detached: bool,
}

/// The remains of a future that is over, to be dropped or called without the lock.
struct Remains<F: Future> {
    future: Option<Polled<F>>,
    executor: Option<Arc<dyn Executor>>,
    home: u64,
    runner: Option<RunId>,
}

/// What the turn does after a poll that was pending.
pub(super) enum Pause {
    Idle,
    Again,
}

impl<F> FutureCore<F>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    pub(super) fn new(id: TaskId, executor: Arc<dyn Executor>, future: F) -> Self {
        FutureCore {
            id,
            state: AtomicU8::new(TaskState::Pending as u8),
            decided: AtomicU8::new(TaskState::Pending as u8),
            place: Place::new(),
            left_to_waiter: AtomicU64::new(0),
            lost: AtomicBool::new(false),
            context: OnceLock::new(),
            cell: Mutex::new(Cell {
                phase: Phase::Queued,
                future: Some(Polled::new(future)),
                executor: Some(executor),
                result: None,
                runner: None,
                home: 0,
                waiter: None,
                detached: false,
            }),
        }
    }

    pub(super) fn context(&self) -> &OnceLock<Option<Propagated>> {
        &self.context
    }

    fn is_done(&self) -> bool {
        self.state().is_done()
    }

    /// Release; pairs with the Acquire load in `state`: a thread that sees "done" sees the result.
    fn set_state(&self, state: TaskState) {
        self.state.store(state as u8, Ordering::Release);
    }

    /// Decides the outcome. The caller must drop the future and then resolve the handle.
    fn end(&self, mut cell: MutexGuard<'_, Cell<F>>, state: TaskState) -> Remains<F> {
        cell.phase = Phase::Over;
        self.decided.store(state as u8, Ordering::Release);
        Remains {
            future: cell.future.take(),
            executor: cell.executor.take(),
            home: std::mem::take(&mut cell.home),
            runner: cell.runner.take(),
        }
    }

    /// Returns the decided outcome, even if the future has not been dropped yet.
    pub(super) fn decided(&self) -> TaskState {
        TaskState::from_u8(self.decided.load(Ordering::Acquire))
    }

    /// Resolves the handle of a future that is over and wakes the waiter.
    fn resolve(&self, state: TaskState, result: Option<Result<F::Output, Panic>>) {
        let mut cell = self.cell.lock();
        let unwanted = if cell.detached { result } else { std::mem::replace(&mut cell.result, result) };
        self.set_state(state);
        let waiter = cell.waiter.take();
        drop(cell);
        drop_caught(unwanted);
        waiter.into_iter().for_each(FutureWaiter::wake);
    }

    /// Drops the future and then resolves its handle, so that a joiner finds everything dropped.
    fn bury(&self, remains: Remains<F>, state: TaskState) {
        drop_caught(remains.future);
        drop_caught(remains.executor);
        self.resolve(state, None);
    }

    /// Lets a decorator wrap the polls of the future, unless the future is over or already
    /// decorated. Returns false if the decorator panicked; the future is then unchanged.
    pub(super) fn decorate(&self, wrap: &mut dyn FnMut(Body) -> Body) -> bool {
        if self.cell.lock().future.as_ref().is_none_or(Polled::is_decorated) {
            return true;
        }
        let Some(decorated) = Decorated::by(wrap) else { return false };
        let mut decorated = Some(decorated);
        if let Some(future) = &mut self.cell.lock().future {
            decorated.take().into_iter().for_each(|decorated| future.set_decorated(decorated));
        }
        drop_caught(decorated); // not taken if the future was cancelled meanwhile
        true
    }

    /// Takes the future out in order to poll it. Returns `None` if the future is over.
    pub(super) fn begin(&self) -> Option<Polled<F>> {
        let mut cell = self.cell.lock();
        let future = cell.future.take()?;
        cell.phase = Phase::Polling;
        cell.home = 0;
        cell.runner = Some(RunId::current());
        self.decided.store(TaskState::Running as u8, Ordering::Release);
        self.set_state(TaskState::Running);
        Some(future)
    }

    /// Puts the future back after a poll that was pending.
    pub(super) fn pause(&self, future: Polled<F>) -> Pause {
        let mut cell = self.cell.lock();
        cell.runner = None;
        let notified = match cell.phase {
            Phase::Over => {
                drop(cell);
                drop_caught(future); // cancelled during the poll
                return Pause::Idle;
            }
            phase => phase == Phase::Notified,
        };
        cell.future = Some(future);
        if notified {
            cell.phase = Phase::Queued;
            return Pause::Again;
        }
        cell.phase = Phase::Idle;
        if self.lost.load(Ordering::Relaxed) {
            let remains = self.end(cell, TaskState::Abandoned);
            self.bury(remains, TaskState::Abandoned);
        }
        Pause::Idle
    }

    /// Records the result, unless the future was cancelled meanwhile.
    pub(super) fn finish(
        &self,
        result: Result<F::Output, Box<dyn Any + Send>>,
        report: &mut dyn FnMut(RunEvent<'_>),
    ) {
        let (state, outcome) = match &result {
            Ok(_) => (TaskState::Succeeded, Outcome::Succeeded),
            Err(_) => (TaskState::Failed, Outcome::Panicked),
        };
        let result = result.map_err(Panic::new);
        if let Err(panic) = &result {
            report(RunEvent::Panicked(panic));
        }
        let cell = self.cell.lock();
        if cell.phase == Phase::Over {
            drop(cell);
            report(RunEvent::Settled(Outcome::Cancelled));
            return drop_caught(result);
        }
        let remains = self.end(cell, state);
        report(RunEvent::Settled(outcome));
        drop_caught(remains.executor);
        self.resolve(state, Some(result));
    }

    /// Returns the executor for further turns, or `None` if the future is over.
    pub(super) fn executor(&self) -> Option<Arc<dyn Executor>> {
        self.cell.lock().executor.clone()
    }

    /// Called by a waker. Returns true if the caller must submit a turn.
    pub(super) fn notify(&self) -> bool {
        let mut cell = self.cell.lock();
        match cell.phase {
            Phase::Idle => {
                cell.phase = Phase::Queued;
                true
            }
            Phase::Polling => {
                cell.phase = Phase::Notified;
                false
            }
            Phase::Queued | Phase::Notified | Phase::Over => false,
        }
    }

    /// Called after a turn was submitted. If the turn is queued in a pool and a thread waits for
    /// the future, wakes that thread, because it may be the only one that can run the turn.
    pub(super) fn call_waiter(&self) {
        let cell = self.cell.lock();
        if let (true, Some(FutureWaiter::EachTurn(waker))) = (cell.home != 0, &cell.waiter) {
            let waker = Arc::clone(waker);
            drop(cell);
            // Relaxed: the unpark token of the waiting thread makes the change visible.
            self.left_to_waiter.fetch_add(1, Ordering::Relaxed);
            catch(move || waker.wake_by_ref());
        }
    }
}

impl<F> Tracked for FutureCore<F>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    /// Not called to run the future: only its turns run, as separate tasks.
    fn run(&self, report: &mut dyn FnMut(RunEvent<'_>)) -> bool {
        report(RunEvent::Settled(Outcome::Cancelled));
        false
    }

    fn abandon(&self) {
        let cell = self.cell.lock();
        // During a poll a turn exists, and that turn abandons the future if necessary.
        if !matches!(cell.phase, Phase::Idle | Phase::Queued) {
            return;
        }
        let remains = self.end(cell, TaskState::Abandoned);
        self.bury(remains, TaskState::Abandoned);
    }

    fn state(&self) -> TaskState {
        // Acquire; pairs with the Release in `set_state`.
        TaskState::from_u8(self.state.load(Ordering::Acquire))
    }

    fn try_cancel(&self, may_interrupt: bool, remove: RemoveCancelled<'_>) -> bool {
        let cell = self.cell.lock();
        if cell.phase == Phase::Over {
            return false;
        }
        let remains = self.end(cell, TaskState::Cancelled);
        drop_caught(remains.future); // absent during a poll; then the turn drops it
        remove(remains.home, self.id, &self.place);
        drop_caught(remains.executor);
        self.resolve(TaskState::Cancelled, None);
        if let (Some(runner), true) = (remains.runner, may_interrupt) {
            runner.interrupt();
        }
        true
    }

    fn is_waiting_for_this_thread(&self) -> bool {
        let cell = self.cell.lock();
        let (runner, home) = (cell.runner, cell.home);
        drop(cell);
        match runner {
            Some(run) => waits_for_this_thread(run),
            None => is_behind_this_thread(home, self.id, &self.place),
        }
    }

    fn entered(&self, home: u64) {
        let mut cell = self.cell.lock();
        if cell.phase == Phase::Queued {
            cell.home = home;
        }
    }

    fn left(&self) {
        self.cell.lock().home = 0;
    }

    fn owner(&self) -> u64 {
        self.cell.lock().home
    }

    fn place(&self) -> &Place {
        &self.place
    }

    fn id(&self) -> TaskId {
        self.id
    }
}

impl<F> Joinable<F::Output> for FutureCore<F>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    /// A worker that waits for a future of its own pool runs the turns that no other worker takes.
    fn wait_done(&self, deadline: Option<Instant>) -> Wake {
        let me = ThreadContext::current();
        loop {
            // Register before the check of the queue: a turn submitted later finds the waiter.
            let seen = self.left_to_waiter.load(Ordering::Relaxed);
            let waiter = Waiter::running_in_place(Waker::from(Arc::clone(&me)));
            if self.wait_as(Some(waiter)).is_err() {
                return Wake::Ready;
            }
            let help = help_to_run(self);
            if deadline.is_none() && self.is_waiting_for_this_thread() {
                let _ = self.wait_as(None);
                return Wake::TimedOut; // the turn was queued after the check of the caller
            }
            let (try_again, retry) = match help {
                Help::NotBefore(due) if deadline.is_none_or(|deadline| due < deadline) => (Some(due), None),
                Help::WhenNotified(cell) => (None, Some(cell)),
                _ => (None, None),
            };
            let may_retry = || retry.as_ref().is_some_and(|cell| cell.is_notified());
            let called = || self.left_to_waiter.load(Ordering::Relaxed) != seen || may_retry();
            let wake = me.wait(try_again.or(deadline), || self.is_done() || called());
            match wake {
                Wake::Ready if !self.is_done() => {}
                Wake::TimedOut if try_again.is_some() => {}
                Wake::Ready => return wake,
                Wake::TimedOut | Wake::Interrupted => {
                    let _ = self.wait_as(None);
                    return wake;
                }
            }
        }
    }

    fn wait_as(&self, waiter: Option<Waiter>) -> Result<(), Option<Waiter>> {
        if self.is_done() {
            return Err(waiter);
        }
        let waiter = waiter.map(FutureWaiter::new); // allocates, so not under the lock
        let mut cell = self.cell.lock();
        if self.is_done() {
            drop(cell);
            return Err(waiter.map(|waiter| Waiter::new(waiter.into_waker())));
        }
        let old = std::mem::replace(&mut cell.waiter, waiter);
        drop(cell);
        drop_caught(old);
        Ok(())
    }

    fn take_left(&self, _claim: &mut ResultToken) -> Option<Result<F::Output, JoinError>> {
        let result = self.cell.lock().result.take()?;
        Some(result.map_err(JoinError::Panicked))
    }

    fn detach(&self, _claim: &mut ResultToken) {
        let mut cell = self.cell.lock();
        cell.detached = true;
        let waiter = cell.waiter.take();
        let result = cell.result.take();
        drop(cell);
        drop_caught(waiter);
        drop_caught(result);
    }
}

/// Notified when an executor accepts no further turn.
pub(super) trait Losing: Send + Sync {
    /// A queued or running turn may still finish the future. Without one, it is abandoned.
    fn no_more_turns(&self);

    /// Returns true if the future is over, or will be over after this turn.
    fn is_ending(&self) -> bool;
}

impl<F> Losing for FutureCore<F>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn no_more_turns(&self) {
        let cell = self.cell.lock();
        // Relaxed: readers use the value as a hint or hold the lock.
        self.lost.store(true, Ordering::Relaxed);
        let idle = cell.phase == Phase::Idle;
        drop(cell);
        if idle {
            self.abandon();
        }
    }

    fn is_ending(&self) -> bool {
        self.decided().is_done() || self.lost.load(Ordering::Relaxed)
    }
}

impl<F: Future> fmt::Debug for FutureCore<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FutureCore").field("id", &self.id).finish_non_exhaustive()
    }
}
