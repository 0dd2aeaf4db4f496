//! The traits of a task cell: [`Tracked`] for executors, [`Joinable`] for handles, [`Erased`] for
//! schedulers.
//!
//! They define the vtables of a cell. Ordinary, periodic and scoped tasks and futures implement the
//! first two, the jobs of schedulers implement the third.

use std::any::Any;
use std::task::Waker;
use std::time::Instant;

use super::decorate::Body;
use super::error::{JoinError, Panic};
use super::id::{ResultToken, TaskId};
use super::place::Place;
use super::propagated::Propagated;
use super::state::{Outcome, Shed, TaskState};
use super::work::RunEvent;
use crate::interrupt::Wake;
use crate::sync::OnceLock;

/// Called for a waiting task that was cancelled, with the number of its owner (0 for none), its id
/// and its place. Removes the task from the queue of that owner.
pub(crate) type RemoveCancelled<'a> = &'a mut dyn FnMut(u64, TaskId, &Place);

/// The operations of an executor on a task.
pub(crate) trait Tracked: Send + Sync {
    /// Runs the work, if it has not been taken, and catches its panic. Returns true if the task is
    /// periodic and waits for its next run.
    fn run(&self, report: &mut dyn FnMut(RunEvent<'_>)) -> bool;

    /// Returns the place where a task that is submitted repeatedly keeps the context of its first
    /// submission.
    fn context(&self) -> Option<&OnceLock<Option<Propagated>>> {
        None
    }

    /// Resolves the handle of a task that will never run, unless it is already resolved.
    fn abandon(&self);

    /// Like `abandon`, but moves the work into `work`, which is an `Option` of the work's type.
    /// Does nothing if the task has begun or ended, or if the work has another type.
    fn take_work(&self, work: &mut dyn Any) {
        let _ = work;
    }

    /// Expires a pending task that has waited for too long: drops its work, calls `settle` before
    /// any other thread can see the end, and resolves the handle. Returns false if the task is not
    /// pending, or is of a kind that never expires.
    fn expire(&self, settle: &mut dyn FnMut(Shed)) -> bool {
        let _ = settle;
        false
    }

    /// Returns true if the task has expired.
    fn is_expired(&self) -> bool {
        false
    }

    fn state(&self) -> TaskState;

    /// Cancels the task and returns true, or returns false if it is done. If the task had not
    /// started, calls `remove` before waking the joiner. Call this through [`CellRef::cancel`].
    ///
    /// [`CellRef::cancel`]: super::CellRef::cancel
    fn try_cancel(&self, may_interrupt: bool, remove: RemoveCancelled<'_>) -> bool;

    /// Called when the owner with this number is about to accept the task.
    fn entered(&self, owner: u64);

    /// Like `entered`, for a periodic task that is queued again. Returns false if it was cancelled
    /// meanwhile, by a thread that may not have found the owner.
    fn entered_again(&self, owner: u64) -> bool {
        self.entered(owner);
        true
    }

    /// Called when the owner has given the task up without running it.
    fn left(&self);

    /// Returns the number of the owner; 0 if there is none.
    fn owner(&self) -> u64;

    /// Returns true if the task runs on the calling thread, or on a thread that waits for the
    /// calling thread. Waiting for such a task would deadlock.
    fn is_waiting_for_this_thread(&self) -> bool {
        false
    }

    fn place(&self) -> &Place;

    fn id(&self) -> TaskId;

    /// Replaces the work by the result of `wrap`. Returns false if `wrap` panicked; the work is
    /// then unchanged.
    fn decorate(&self, wrap: &mut dyn FnMut(Body) -> Body) -> bool {
        let _ = wrap;
        true
    }
}

/// The waker to call when a task is done.
pub(crate) struct Waiter {
    waker: Waker,
    #[cfg_attr(not(feature = "futures"), allow(dead_code, reason = "only futures are queued again"))]
    runs_in_place: bool,
}

impl Waiter {
    pub(crate) fn new(waker: Waker) -> Waiter {
        Waiter { waker, runs_in_place: false }
    }

    /// Creates a waiter that may have to run the task itself, so it is also woken when a future
    /// that it waits for is queued.
    pub(crate) fn running_in_place(waker: Waker) -> Waiter {
        Waiter { waker, runs_in_place: true }
    }

    #[cfg(feature = "futures")]
    pub(crate) fn runs_in_place(&self) -> bool {
        self.runs_in_place
    }

    pub(crate) fn into_waker(self) -> Waker {
        self.waker
    }
}

/// The operations of a handle on a task.
pub(crate) trait Joinable<T>: Tracked {
    /// Blocks until the task is done. Runs it on the calling thread if it waits in the queue of an
    /// owner that the thread works for.
    ///
    /// Without a deadline, `TimedOut` means that the task cannot end before the calling thread
    /// returns from its current task.
    fn wait_done(&self, deadline: Option<Instant>) -> Wake;

    /// Installs a waiter, or removes it. Returns it as an error if the task is done.
    fn wait_as(&self, waiter: Option<Waiter>) -> Result<(), Option<Waiter>>;

    /// Takes the result of a task that has run, if it is still there.
    fn take_left(&self, token: &mut ResultToken) -> Option<Result<T, JoinError>>;

    /// Gives up the result.
    fn detach(&self, token: &mut ResultToken);

    /// Takes the result of a task that is done; `None` if it is not done.
    fn take_result(&self, token: &mut ResultToken) -> Option<Result<T, JoinError>> {
        let state = self.state();
        if matches!(state, TaskState::Succeeded | TaskState::Failed) {
            return self.take_left(token).or(Some(Err(JoinError::Taken)));
        }
        match state {
            TaskState::Cancelled => Some(Err(JoinError::Cancelled)),
            TaskState::Abandoned if self.is_expired() => Some(Err(JoinError::Expired)),
            TaskState::Abandoned => Some(Err(JoinError::Abandoned)),
            _ => None,
        }
    }
}

/// The result of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RunEnd {
    /// The outcome of the work, even if it was cancelled meanwhile.
    pub(crate) outcome: Outcome,
    /// True if the work is periodic and waits for its next run.
    pub(crate) again: bool,
}

/// The state in which a cancel found the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CancelFound {
    /// The work had ended.
    Ended,
    /// The work was waiting, and has been dropped.
    Waiting,
    /// The work is running.
    Running,
}

/// The payload of a panic that already has an owner, such as the handle of a task, and has already
/// been reported.
pub(crate) struct PanicIsKept;

/// Whether a panic has an owner, such as the handle of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IsKept {
    Yes,
    No,
}

/// The operations of a scheduler on work of unknown type.
pub(crate) trait Erased: Send + Sync {
    fn id(&self) -> TaskId;

    fn state(&self) -> TaskState;

    /// Takes the work, if it has not been taken, and runs it inside `around`, which calls its
    /// argument once. Catches and reports a panic, and whether an owner keeps it. Returns `None` if
    /// the work has begun or ended.
    fn run(
        &self,
        around: &mut dyn FnMut(&mut dyn FnMut()),
        report: &dyn Fn(&Panic, IsKept),
    ) -> Option<RunEnd>;

    /// Ensures that no further run starts.
    fn cancel(&self) -> CancelFound;

    /// Interrupts the run that `cancel` found in progress, unless it is on the calling thread.
    fn interrupt_run(&self);

    /// Moves work that has not begun into `work`, an `Option` of its type. Does nothing if the work
    /// has begun or ended, or if it has another type.
    fn take_work(&self, work: &mut dyn Any);

    /// Takes work that has not begun, as a closure.
    fn take_closure(&self) -> Option<Box<dyn FnOnce() + Send>>;

    /// Returns true if the most recent run is on the calling thread, or on a thread that waits for
    /// the calling thread.
    fn last_run_waits_for_this_thread(&self) -> bool;
}

/// Work of an erased type, with fields of its owner before it.
#[repr(C)]
pub(crate) struct Attached<X, W: ?Sized = dyn Erased> {
    own: X,
    work: W,
}

impl<X, W> Attached<X, W> {
    pub(crate) fn new(own: X, work: W) -> Self {
        Attached { own, work }
    }
}

impl<X, W: ?Sized> Attached<X, W> {
    #[inline]
    pub(crate) fn own(&self) -> &X {
        &self.own
    }

    #[inline]
    pub(crate) fn work(&self) -> &W {
        &self.work
    }
}
