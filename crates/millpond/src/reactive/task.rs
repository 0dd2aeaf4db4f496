//! Futures as tasks: polled in turns on an executor, and visible to users as a [`TaskHandle`].
//!
//! There are three types. The [`FutureCore`] (`core.rs`) contains the future, later its result, and
//! the waiter; the handle holds it. The [`Poller`] is the state of the wakers; a running turn holds
//! it too. A [`PollTask`] is one submission to the executor, for one poll.
//!
//! The executor and the wakers keep the poller alive, and the poller keeps the core alive. The core
//! does not keep the poller alive. When nothing is left that could wake the future, the poller is
//! dropped and resolves the handle as abandoned. So a handle never waits for a future that no
//! thread will poll.

use std::any::Any;
use std::cell::RefCell;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::{self, Poll, Waker};

use super::core::{FutureCore, Losing, Pause};
use crate::executor::{Executor, Rejected};
use crate::interrupt::RunId;
use crate::panic::drop_caught;
use crate::sync::{Arc, AtomicBool, OnceLock, Ordering, Weak, thread_local};
use crate::task::periodic::Body;
use crate::task::{
    CellRef, Outcome, Place, Propagated, RemoveCancelled, ResultToken, RunEvent, TaskHandle, TaskState,
    Tracked,
};
use crate::task::{Task, TaskId};

thread_local! {
    /// The future that this thread is polling.
    static POLLED: RefCell<Option<Arc<dyn Losing>>> = nothing();
}

fn nothing() -> RefCell<Option<Arc<dyn Losing>>> {
    RefCell::new(None)
}

/// Returns true if the running turn of this thread is the last one: the future was cancelled, or
/// its executor has ended. For futures of this crate that process many items per turn. A canceller
/// decides this before it interrupts, so code that swallows the interrupt is not called again.
pub(super) fn in_last_turn() -> bool {
    let ending = |polled: &RefCell<Option<Arc<dyn Losing>>>| {
        polled.borrow().as_ref().is_some_and(|future| future.is_ending())
    };
    POLLED.try_with(ending).unwrap_or(false)
}

/// While it lives, this thread polls a future. Restores the previous value on drop.
struct Polling(Option<Arc<dyn Losing>>);

impl Polling {
    fn of(future: Arc<dyn Losing>) -> Polling {
        Polling(POLLED.try_with(|polled| polled.replace(Some(future))).unwrap_or(None))
    }
}

impl Drop for Polling {
    fn drop(&mut self) {
        let before = self.0.take();
        // Replaced outside of the borrow, because this may drop the future.
        drop(POLLED.try_with(|polled| polled.replace(before)));
    }
}

/// The state of the wakers. When the last waker is dropped, nothing can wake the future.
struct Poller<F>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    core: CellRef<FutureCore<F>>,
    /// Called after a turn that leaves the future idle.
    rests: Option<Weak<dyn Rests>>,
}

/// An executor that is to be told when a turn has left its future idle.
pub(super) trait Rests: Send + Sync {
    fn came_to_rest(&self);
}

impl<F> Poller<F>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    /// Submits the next turn. Called by the thread that changed the phase to Queued. If the
    /// executor rejects the turn or panics, the turn is dropped, and with it the future.
    ///
    /// Returns true if the executor tried to run the turn inside this call and, because of
    /// `in_a_turn`, the caller must run it instead. Otherwise a future that wakes itself would
    /// overflow the stack on an executor that runs tasks on the caller's thread.
    fn hand_in(self: &Arc<Self>, in_a_turn: bool) -> bool {
        let Some(executor) = self.core.executor() else { return false };
        let turn = PollTask::new(self, in_a_turn.then(|| RunId::current().thread));
        let task = PollTask::task(&turn);
        drop_caught(catch_unwind(AssertUnwindSafe(|| executor.execute_task(task))));
        drop_caught(executor);
        turn.in_call.store(false, Ordering::Relaxed);
        self.core.call_waiter();
        turn.deferred.load(Ordering::Relaxed)
    }

    fn came_to_rest(&self) {
        if let Some(executor) = self.rests.as_ref().and_then(Weak::upgrade) {
            executor.came_to_rest();
            drop_caught(executor);
        }
    }
}

impl<F> Losing for Poller<F>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn no_more_turns(&self) {
        self.core.no_more_turns();
    }

    fn is_ending(&self) -> bool {
        self.core.is_ending()
    }
}

impl<F> task::Wake for Poller<F>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.core.notify() {
            self.hand_in(false);
        }
    }
}

impl<F> Drop for Poller<F>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn drop(&mut self) {
        self.core.abandon(); // does nothing if the future is over
    }
}

/// One submission to the executor.
struct PollTask<F>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    poller: Arc<Poller<F>>,
    /// The turn was run or dropped.
    used: AtomicBool,
    /// Set if a turn submits this turn at its end: the number of the submitting thread. That thread
    /// polls again itself if the executor runs the task inside that call. Only that thread accesses
    /// the two flags below.
    giver: Option<u64>,
    in_call: AtomicBool,
    deferred: AtomicBool,
}

impl<F> PollTask<F>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn new(poller: &Arc<Poller<F>>, giver: Option<u64>) -> CellRef<Self> {
        CellRef::new(PollTask {
            poller: Arc::clone(poller),
            used: AtomicBool::new(false),
            in_call: AtomicBool::new(giver.is_some()),
            giver,
            deferred: AtomicBool::new(false),
        })
    }

    fn task(turn: &CellRef<Self>) -> Task {
        Task::tracked(turn.core().id(), turn.clone().into_tracked())
    }

    fn core(&self) -> &FutureCore<F> {
        &self.poller.core
    }

    fn is_inside_the_call(&self) -> bool {
        let here = |giver: u64| giver != 0 && giver == RunId::current().thread;
        self.giver.is_some_and(here) && self.in_call.load(Ordering::Relaxed)
    }

    /// Polls once, and again while the executor runs the next turn inside the submission. `report`
    /// receives the outcome of the first poll.
    fn poll(&self, report: &mut dyn FnMut(RunEvent<'_>)) {
        let waker = Waker::from(Arc::clone(&self.poller));
        let _polling = Polling::of(Arc::clone(&self.poller) as Arc<dyn Losing>);
        let mut told = false;
        let mut report = |event: RunEvent<'_>| {
            if matches!(event, RunEvent::Panicked(_)) || !std::mem::replace(&mut told, true) {
                report(event);
            }
        };
        loop {
            let Some(future) = self.core().begin() else {
                return report(RunEvent::Settled(Outcome::Cancelled));
            };
            let result = match future.poll(&waker) {
                Ok((future, Poll::Ready(output))) => Some(drop_before(future, output)),
                Err(payload) => Some(Err(payload)),
                Ok((future, Poll::Pending)) => {
                    report(RunEvent::Settled(Outcome::Succeeded));
                    match self.core().pause(future) {
                        Pause::Again if self.poller.hand_in(true) => None,
                        Pause::Again => return,
                        Pause::Idle => return self.poller.came_to_rest(),
                    }
                }
            };
            if let Some(result) = result {
                return self.core().finish(result, &mut report);
            }
        }
    }
}

/// Drops a ready future before its output is returned, as the captures of a closure are dropped
/// when it returns. A panic of the destructor counts as a panic of the task.
fn drop_before<F, T>(future: F, output: T) -> Result<T, Box<dyn Any + Send>> {
    match catch_unwind(AssertUnwindSafe(|| drop(future))) {
        Ok(()) => Ok(output),
        Err(payload) => {
            drop_caught(output);
            Err(payload)
        }
    }
}

impl<F> Tracked for PollTask<F>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn run(&self, report: &mut dyn FnMut(RunEvent<'_>)) -> bool {
        // Relaxed: the thread that drops the task is synchronized with the thread that ran it.
        self.used.store(true, Ordering::Relaxed);
        if self.is_inside_the_call() {
            self.deferred.store(true, Ordering::Relaxed);
            report(RunEvent::Settled(Outcome::Succeeded));
        } else {
            self.poll(report);
        }
        false
    }

    fn context(&self) -> Option<&OnceLock<Option<Propagated>>> {
        Some(self.core().context())
    }

    fn abandon(&self) {
        if !self.used.swap(true, Ordering::Relaxed) {
            self.core().abandon();
        }
    }

    fn state(&self) -> TaskState {
        self.core().decided()
    }

    fn try_cancel(&self, may_interrupt: bool, remove: RemoveCancelled<'_>) -> bool {
        self.core().try_cancel(may_interrupt, remove)
    }

    fn entered(&self, home: u64) {
        self.core().entered(home);
    }

    fn left(&self) {
        self.core().left();
    }

    fn owner(&self) -> u64 {
        self.core().owner()
    }

    fn place(&self) -> &Place {
        self.core().place()
    }

    fn decorate(&self, wrap: &mut dyn FnMut(Body) -> Body) -> bool {
        self.core().decorate(wrap)
    }

    fn id(&self) -> TaskId {
        self.core().id()
    }
}

/// Submits the first turn of `future` to `executor`. `rests` is told of every turn that leaves the
/// future idle. Calls `made` with a reference that is to be notified when the executor accepts no
/// more turns.
pub(super) fn spawn<F>(
    executor: Arc<dyn Executor>,
    rests: Option<Weak<dyn Rests>>,
    future: F,
    made: impl FnOnce(Weak<dyn Losing>),
) -> Result<TaskHandle<F::Output>, Rejected>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let claim = ResultToken::fresh();
    let core = CellRef::new(FutureCore::new(claim.id(), Arc::clone(&executor), future));
    let handle = TaskHandle::new(core.clone().into_joinable(), claim);
    let poller = Arc::new(Poller { core, rests });
    // Without a poller, the future is over or has been abandoned.
    let losing = Arc::downgrade(&poller) as Weak<dyn Losing>;
    let task = PollTask::task(&PollTask::new(&poller, None));
    drop(poller);
    executor.execute_task(task)?;
    made(losing);
    Ok(handle)
}
