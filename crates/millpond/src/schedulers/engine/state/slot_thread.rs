//! The thread of a slot: whether it starts, works, searches or is parked.
//!
//! ```text
//! None ──begin_start──▶ Starting ──promise──▶ Promised ──arrive──▶ Awake ◀─────────┐
//!   ▲                       └────────arrive─────────────────────────▲              │ ask
//!   └── body dropped, or the thread left ──                         │              │
//!                     Awake ──search──▶ Searching ──park──▶ Parked ──defer_wake──▶ WakePending
//!                                           └──notify──▶ Notified ◀──notify──┘──────────┘
//! ```
//!
//! All transitions happen under the scheduler's lock. So a thread parks only if no work was
//! assigned to it, and a thread that assigns work later finds it parked and wakes it.

use std::thread::JoinHandle;

use crate::interrupt::wait::WaitCell;
use crate::sync::Arc;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ThreadState {
    /// There is no thread.
    None,
    /// The source has been asked for a thread.
    Starting,
    /// The source has promised a thread.
    Promised,
    /// It works, or asks for work.
    Awake,
    /// It found no work, and spins on its cell for a moment before it parks. In `Wakes::searching`.
    Searching,
    /// Its cell was notified and it has not asked for work since. Counted in `Wakes::notified`.
    /// Holds the number of runs that had ended when it was notified.
    Notified(u64),
    Parked,
    /// It is parked and its slot has work, which another thread that is awake will run or wake it
    /// for. In `Wakes::pending`.
    WakePending,
}

/// The thread of a slot.
#[derive(Debug)]
pub(super) struct SlotThread {
    state: ThreadState,
    /// What the thread waits on. Present once it has arrived.
    cell: Option<Arc<WaitCell>>,
    /// The number of the last attempt to start a thread, and of an own thread. Earlier ones do not
    /// count any more.
    attempt: u64,
    /// The last attempt whose body was dropped instead of run.
    dropped_attempt: u64,
    join: Option<JoinHandle<()>>,
}

impl SlotThread {
    pub(super) fn new() -> SlotThread {
        SlotThread { state: ThreadState::None, cell: None, attempt: 0, dropped_attempt: 0, join: None }
    }

    pub(super) fn state(&self) -> ThreadState {
        self.state
    }

    /// Returns true if the thread has not come for the work of its slot, and may never come.
    pub(super) fn is_absent(&self) -> bool {
        use ThreadState::{None, Promised, Starting, WakePending};
        matches!(self.state, None | Starting | Promised | WakePending)
    }

    // ---- starting

    /// Begins another attempt to start a thread and returns its number: that of the own thread, or
    /// the next one.
    pub(super) fn begin_start(&mut self, number: Option<u64>) -> u64 {
        self.state = ThreadState::Starting;
        self.attempt = number.unwrap_or(self.attempt + 1);
        self.attempt
    }

    /// The number of the thread that has not arrived, if one was asked for.
    pub(super) fn starting(&self) -> Option<u64> {
        matches!(self.state, ThreadState::Starting | ThreadState::Promised).then_some(self.attempt)
    }

    pub(super) fn is_attempt(&self, attempt: u64) -> bool {
        self.attempt == attempt
    }

    /// The source has accepted the thread, which may even have left by now. Returns the handle of
    /// the thread before.
    pub(super) fn promise(&mut self, join: Option<JoinHandle<()>>) -> Option<JoinHandle<()>> {
        if self.state == ThreadState::Starting {
            self.state = ThreadState::Promised;
        }
        std::mem::replace(&mut self.join, join)
    }

    /// The body of the current attempt was dropped. Returns true if a thread had been promised.
    pub(super) fn body_dropped(&mut self) -> bool {
        self.dropped_attempt = self.attempt;
        std::mem::replace(&mut self.state, ThreadState::None) == ThreadState::Promised
    }

    pub(super) fn was_dropped(&self, attempt: u64) -> bool {
        self.dropped_attempt == attempt
    }

    /// The thread is there, and waits on `cell`.
    pub(super) fn arrive(&mut self, cell: &Arc<WaitCell>) {
        self.state = ThreadState::Awake;
        self.cell = Some(Arc::clone(cell));
    }

    // ---- working

    /// The thread asks for work. Returns its state before.
    pub(super) fn ask(&mut self) -> ThreadState {
        std::mem::replace(&mut self.state, ThreadState::Awake)
    }

    pub(super) fn search(&mut self) {
        self.reset_cell();
        self.state = ThreadState::Searching;
    }

    pub(super) fn park(&mut self) {
        self.reset_cell();
        self.state = ThreadState::Parked;
    }

    /// Under the lock, like every notification: one that comes later is not lost.
    fn reset_cell(&self) {
        if let Some(cell) = &self.cell {
            cell.reset();
        }
    }

    /// Notifies a thread that searches or is parked, and returns its cell to be unparked.
    pub(super) fn notify(&mut self, ended_runs: u64) -> Option<Arc<WaitCell>> {
        self.state = ThreadState::Notified(ended_runs);
        self.mark_notified()
    }

    /// As `notify`, for the thread of a removed slot, which leaves then.
    pub(super) fn mark_notified(&self) -> Option<Arc<WaitCell>> {
        self.cell.clone().filter(|cell| cell.mark_notified())
    }

    /// Leaves waking a parked thread to a thread that is awake.
    pub(super) fn defer_wake(&mut self) {
        self.state = ThreadState::WakePending;
    }

    /// The work that the thread was to be woken for is gone.
    pub(super) fn cancel_wake(&mut self) {
        self.state = ThreadState::Parked;
    }

    /// The thread leaves its slot, and another one may be started.
    pub(super) fn leave(&mut self) {
        self.state = ThreadState::None;
    }

    pub(super) fn take_join(&mut self) -> Option<JoinHandle<()>> {
        self.join.take()
    }
}
