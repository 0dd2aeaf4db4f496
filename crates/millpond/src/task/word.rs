//! [`StateWord`]: the state of a task, in one atomic word, and the transitions between states.
//!
//! The word also defines which thread may access the content of the task's slot, see invariant 3 in
//! `raw.rs`. A thread that makes a transition here obtains or gives up the content accordingly.

use std::fmt;

use super::state::TaskState;
use crate::sync::backoff::Backoff;
use crate::sync::{AtomicU8, AtomicU32, Ordering};

const PENDING: u8 = TaskState::Pending as u8;
const RUNNING: u8 = TaskState::Running as u8;
const SUCCEEDED: u8 = TaskState::Succeeded as u8;
const FAILED: u8 = TaskState::Failed as u8;
const CANCELLED: u8 = TaskState::Cancelled as u8;
const ABANDONED: u8 = TaskState::Abandoned as u8;
/// Pending, while a decorator has the work.
const HELD: u8 = 6;
/// Abandoned, because the task had waited for too long.
const EXPIRED: u8 = 7;
/// The bits of a state: a [`TaskState`], `HELD` or `EXPIRED`.
const STATE: u8 = 7;
/// Set together with `RUNNING`: the outcome is decided and about to be published, so it is too late
/// to cancel. With `CANCELLED` the bit has no meaning.
const FINISHING: u8 = 8;
/// A thread waits for the task, or has waited.
const WAITED: u8 = 16;
/// The handle was dropped before the task was done.
const DETACHED: u8 = 32;

/// A snapshot of a [`StateWord`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Word(u8);

impl Word {
    pub(super) fn state(self) -> TaskState {
        match self.0 & STATE {
            HELD => TaskState::Pending,
            EXPIRED => TaskState::Abandoned,
            state => TaskState::from_u8(state),
        }
    }

    #[inline]
    pub(super) fn is_done(self) -> bool {
        !matches!(self.0 & STATE, PENDING | RUNNING | HELD)
    }

    pub(super) fn is_expired(self) -> bool {
        self.0 & STATE == EXPIRED
    }

    /// Returns true if the thread that ends the task may have to wake a waiter.
    pub(super) fn is_waited_for(self) -> bool {
        self.0 & WAITED != 0
    }

    /// Returns true if the task ended without a result and no thread has waited for it. The content
    /// is empty as soon as no runner or decorator is left.
    #[inline]
    pub(super) fn is_left_empty(self) -> bool {
        self.is_done() && !self.has_result() && !self.is_waited_for()
    }

    #[inline]
    fn has_result(self) -> bool {
        matches!(self.0 & STATE, SUCCEEDED | FAILED)
    }

    /// Returns true if the task has a result that belongs to the handle and not to the runner.
    #[inline]
    pub(super) fn has_result_for_handle(self) -> bool {
        self.has_result() && !self.is_detached()
    }

    pub(super) fn is_detached(self) -> bool {
        self.0 & DETACHED != 0
    }

    fn is_pending(self) -> bool {
        self.0 & STATE == PENDING
    }

    fn is_finishing(self) -> bool {
        self.0 & STATE == RUNNING && self.0 & FINISHING != 0
    }

    fn with(self, state: u8) -> u8 {
        self.0 & !STATE | state
    }
}

impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {:#b}", self.state(), self.0)
    }
}

/// How a thread takes a task out of Pending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leave {
    /// The thread runs the work.
    Run = RUNNING as isize,
    /// The thread decorates the work and puts it back.
    Hold = HELD as isize,
    /// The thread drops the work, or returns it.
    Abandon = ABANDONED as isize,
}

/// The state in which a cancel found the task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cancel {
    /// The task was already done.
    TooLate,
    /// The task was pending.
    Pending(Word),
    /// The task is running, or a decorator has the work.
    Started(Word),
}

/// The state of a task, and the number of its owner.
#[repr(C)]
pub(super) struct StateWord {
    /// A [`Word`]. Succeeded, Failed, Cancelled, Abandoned and Expired are final. `WAITED` and
    /// `DETACHED` are set at any time and never cleared.
    ///
    /// ```text
    /// Pending -> Running, Held, Abandoned   leave_pending
    /// Held -> Pending                       put_back
    /// Pending, Held, Running -> Cancelled   cancel
    /// Running -> Finishing                  finish; a cancel is too late from here on
    /// Finishing -> Succeeded, Failed        end
    /// Finishing -> Expired                  expire: the work was dropped, not run
    /// Finishing -> Pending                  repeat: a periodic task waits for its next run
    /// ```
    ///
    /// An exchange that gives up the content is a Release; an exchange that obtains it is an
    /// Acquire.
    word: AtomicU8,
    /// The number of the owner, 0 if there is none.
    ///
    /// A periodic task enters its owner again while another thread cancels it:
    ///
    /// ```text
    /// entered_again                   try_cancel
    /// E1 store `owner`                C1 exchange the state (SeqCst, in `cancel`)
    /// E2 fence (SeqCst)               C2 load `owner` (SeqCst)
    /// E3 load the state
    /// ```
    ///
    /// E3 sees the cancel, or C2 sees the owner. E2, C1 and C2 have one total order, in which C1
    /// comes before C2. If E3 misses C1, then E2 is before C1. If C2 misses E1, then C2 is before
    /// E2. Both together would be a cycle. Model: `requeue_against_cancel` in
    /// `loom_tests/delayed.rs`. `entered` needs no fence: the worker that takes the task finds it
    /// cancelled.
    owner: AtomicU32,
}

impl StateWord {
    /// Creates the word of a pending task. `detached` means that it has no handle.
    #[inline(always)]
    pub(super) fn pending(detached: bool) -> StateWord {
        let detached = if detached { DETACHED } else { 0 };
        StateWord { word: AtomicU8::new(PENDING | detached), owner: AtomicU32::new(0) }
    }

    /// Returns the number of the owner; 0 if there is none.
    #[inline]
    pub(super) fn owner(&self, order: Ordering) -> u64 {
        u64::from(self.owner.load(order))
    }

    #[inline]
    pub(super) fn set_owner(&self, owner: u64) {
        let owner = u32::try_from(owner).expect("the number of an owner has 32 bits");
        self.owner.store(owner, Ordering::Relaxed);
    }

    /// Acquire: a thread that sees the end also sees what was written before it.
    #[inline]
    pub(super) fn load(&self) -> Word {
        Word(self.word.load(Ordering::Acquire))
    }

    /// Leaves Pending, which makes the caller the owner of the content. Returns the previous word,
    /// or `None` if the task is not pending.
    #[inline]
    pub(super) fn leave_pending(&self, to: Leave) -> Option<Word> {
        let mut seen = Word(self.word.load(Ordering::Relaxed));
        while seen.is_pending() {
            // Release: also publishes the runner to a cancel that finds the task running.
            let next = seen.with(to as u8);
            match self.word.compare_exchange(seen.0, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return Some(seen),
                Err(now) => seen = Word(now),
            }
        }
        None
    }

    /// Puts held work back: Held -> Pending. Returns false if the task was cancelled meanwhile; the
    /// caller then still owns the content.
    pub(super) fn put_back(&self) -> bool {
        let mut seen = Word(self.word.load(Ordering::Relaxed));
        while seen.0 & STATE == HELD {
            let next = seen.with(PENDING);
            match self.word.compare_exchange(seen.0, next, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => seen = Word(now),
            }
        }
        false
    }

    /// Cancels the task, unless it is done; spins while it is Finishing. If the task was pending,
    /// the caller then owns the content.
    pub(super) fn cancel(&self) -> Cancel {
        let mut seen = self.load();
        loop {
            if seen.is_done() {
                return Cancel::TooLate;
            }
            if seen.is_finishing() {
                seen = self.load_when_finished();
                continue;
            }
            // SeqCst: C1 of `owner`. Its Acquire also makes the runner visible.
            let next = seen.with(CANCELLED);
            match self.word.compare_exchange(seen.0, next, Ordering::SeqCst, Ordering::Acquire) {
                Ok(_) if seen.is_pending() => return Cancel::Pending(seen),
                Ok(_) => return Cancel::Started(seen),
                Err(now) => seen = Word(now),
            }
        }
    }

    /// Waits for the second of two exchanges of the runner, which are a few instructions apart. In
    /// between, the state is still Running although it is too late to cancel.
    #[cold]
    fn load_when_finished(&self) -> Word {
        let mut backoff = Backoff::default();
        loop {
            let seen = self.load();
            if !seen.is_finishing() {
                return seen;
            }
            backoff.spin();
        }
    }

    /// Sets `WAITED`. The caller holds the lock that guards the waker. Returns false if the task is
    /// done, so no thread will look for the waker.
    ///
    /// The exchange that ends the task returns the previous word. If that has `WAITED`, the runner
    /// takes the lock and finds the waker. Otherwise this exchange comes later and finds the task
    /// done.
    pub(super) fn announce_waiter(&self) -> bool {
        // Acquire: as in `load`. The waker itself is under the lock.
        !Word(self.word.fetch_or(WAITED, Ordering::Acquire)).is_done()
    }

    /// Sets `DETACHED`, unless the task is done. Returns the previous word.
    pub(super) fn detach(&self) -> Word {
        let seen = self.load();
        if seen.is_done() {
            return seen;
        }
        // Acquire: pairs with the Release in `end`, if that came first.
        Word(self.word.fetch_or(DETACHED, Ordering::Acquire))
    }

    /// Called when the closure has returned. Returns false if the task was cancelled meanwhile.
    /// Otherwise it is too late to cancel, and a cancel spins until the outcome is published.
    #[inline]
    pub(super) fn finish(&self) -> bool {
        // Only the runner sets the bit, once per run, so it is clear. An addition is one
        // instruction where an "or" is a loop. Acquire: if the task was cancelled, the runner sees
        // what was written before the cancel.
        let seen = Word(self.word.fetch_add(FINISHING, Ordering::Acquire));
        seen.0 & STATE == RUNNING
    }

    /// Finishing -> Succeeded or Failed. Returns the previous word.
    #[inline]
    pub(super) fn end(&self, succeeded: bool) -> Word {
        self.leave_finishing(if succeeded { SUCCEEDED } else { FAILED }, Ordering::Release)
    }

    /// Finishing -> Expired. Returns the previous word.
    pub(super) fn expire(&self) -> Word {
        self.leave_finishing(EXPIRED, Ordering::Release)
    }

    /// Finishing -> Pending.
    pub(super) fn repeat(&self) {
        self.leave_finishing(PENDING, Ordering::Release);
    }

    /// Called by the runner only. No other thread changes the state while it is Finishing. So the
    /// difference can be added, which leaves the other bits unchanged and needs no loop.
    #[inline]
    fn leave_finishing(&self, state: u8, order: Ordering) -> Word {
        Word(self.word.fetch_add(state.wrapping_sub(RUNNING | FINISHING), order))
    }
}
