//! [`SlotThread`]: the state of a slot's thread, from its start to its exit.
//!
//! ```text
//! None ──begin_start──▶ Starting ──promise──▶ Promised ──arrive──▶ Awake ◀─────────┐
//!   ▲                       └────────arrive─────────────────────────▲              │ ask
//!   └── refused, body dropped, or the thread left ──                │              │
//!                     Awake ──search──▶ Searching ──park──▶ Parked ──defer_wake──▶ WakePending
//!                                           └──notify──▶ Notified ◀──notify──┘──────────┘
//! ```
//!
//! All transitions happen under the scheduler's lock. So a thread parks only if no work was
//! assigned to it, and work that is assigned later finds the thread parked and wakes it.

use std::thread::JoinHandle;

use crate::interrupt::wait::WaitCell;
use crate::sync::Arc;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ThreadState {
    /// There is no thread.
    None,
    /// The source is being called for a thread.
    Starting,
    /// The source has accepted the thread, which has not arrived yet.
    Promised,
    /// The thread runs work or asks for it.
    Awake,
    /// The thread found no work and spins on its cell for about 2 µs before it parks. Listed in
    /// `Wakes::searching`.
    Searching,
    /// The thread's cell was notified, and the thread has not asked for work since. Counted in
    /// `Wakes::notified`. Holds the number of runs that had ended at the notification.
    Notified(u64),
    Parked,
    /// The thread is parked and its slot has work. A notified thread will wake it or run that work.
    /// Listed in `Wakes::pending`.
    WakePending,
}

/// The thread of a slot.
#[derive(Debug)]
pub(super) struct SlotThread {
    state: ThreadState,
    /// The park slot of the thread. Present once the thread has arrived.
    cell: Option<Arc<WaitCell>>,
    /// The number of the last attempt to start a thread; also the number of an own thread. Threads
    /// of earlier attempts no longer belong to the slot.
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

    /// Returns true if no thread has arrived for the work of the slot, and perhaps none ever will.
    pub(super) fn is_absent(&self) -> bool {
        use ThreadState::{None, Promised, Starting, WakePending};
        matches!(self.state, None | Starting | Promised | WakePending)
    }

    // ---- starting

    /// Begins another attempt to start a thread and returns its number: `number` for an own thread,
    /// else the next attempt number.
    pub(super) fn begin_start(&mut self, number: Option<u64>) -> u64 {
        self.state = ThreadState::Starting;
        self.attempt = number.unwrap_or(self.attempt + 1);
        self.attempt
    }

    /// Returns the number of the current attempt, if its thread has not arrived yet.
    pub(super) fn starting(&self) -> Option<u64> {
        matches!(self.state, ThreadState::Starting | ThreadState::Promised).then_some(self.attempt)
    }

    pub(super) fn is_attempt(&self, attempt: u64) -> bool {
        self.attempt == attempt
    }

    /// Records that the source accepted the thread, which may already have left. Returns the handle
    /// of the previous thread.
    pub(super) fn promise(&mut self, join: Option<JoinHandle<()>>) -> Option<JoinHandle<()>> {
        if self.state == ThreadState::Starting {
            self.state = ThreadState::Promised;
        }
        std::mem::replace(&mut self.join, join)
    }

    /// Records that the source refused the current attempt. If it kept the body, that thread may
    /// still arrive, unless another attempt begins first.
    pub(super) fn refused(&mut self) {
        if self.state == ThreadState::Starting {
            self.state = ThreadState::None;
        }
    }

    /// Records that the body of the current attempt was dropped. Returns true if a thread was
    /// promised.
    pub(super) fn body_dropped(&mut self) -> bool {
        self.dropped_attempt = self.attempt;
        std::mem::replace(&mut self.state, ThreadState::None) == ThreadState::Promised
    }

    pub(super) fn was_dropped(&self, attempt: u64) -> bool {
        self.dropped_attempt == attempt
    }

    /// Records that the thread has arrived and waits on `cell`.
    pub(super) fn arrive(&mut self, cell: &Arc<WaitCell>) {
        self.state = ThreadState::Awake;
        self.cell = Some(Arc::clone(cell));
    }

    // ---- working

    /// Marks the thread as awake, because it asks for work. Returns its previous state.
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

    /// Called under the scheduler's lock, as are notifications, so a later notification is not
    /// lost.
    fn reset_cell(&self) {
        if let Some(cell) = &self.cell {
            cell.reset();
        }
    }

    /// Notifies a searching or parked thread. Returns its cell for the caller to unpark.
    pub(super) fn notify(&mut self, ended_runs: u64) -> Option<Arc<WaitCell>> {
        self.state = ThreadState::Notified(ended_runs);
        self.mark_notified()
    }

    /// As `notify`, for the thread of a removed slot. That thread then exits.
    pub(super) fn mark_notified(&self) -> Option<Arc<WaitCell>> {
        self.cell.clone().filter(|cell| cell.mark_notified())
    }

    /// Defers waking a parked thread to a thread that is awake.
    pub(super) fn defer_wake(&mut self) {
        self.state = ThreadState::WakePending;
    }

    /// Undoes `defer_wake`: another thread took the work.
    pub(super) fn cancel_wake(&mut self) {
        self.state = ThreadState::Parked;
    }

    /// Records that the thread leaves its slot. Another one may be started.
    pub(super) fn leave(&mut self) {
        self.state = ThreadState::None;
    }

    pub(super) fn take_join(&mut self) -> Option<JoinHandle<()>> {
        self.join.take()
    }
}
