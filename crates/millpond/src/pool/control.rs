//! The control word: the pool's run state and its number of workers, in one atomic.
//!
//! Adding a worker and the test for termination are each one compare-exchange on this word. Only
//! this file knows the bits. Other modules use [`Snapshot`] and the named transitions of [`Ctl`].

use std::fmt;

use crate::monitor::RunState;
use crate::sync::{AtomicU64, Ordering};

const COUNT_BITS: u32 = 32;
const PAUSED_BIT: u32 = COUNT_BITS - 1;
const PAUSED: u64 = 1 << PAUSED_BIT;
const COUNT_MASK: u64 = PAUSED - 1;

/// The largest number of workers, for any `maximum_pool_size`.
pub(super) const MAX_WORKERS: usize = (1 << 29) - 1;

#[derive(Debug)]
pub(super) struct Ctl {
    /// Bits 0..31: number of worker permits. Bit 31: paused. Bits 32..: [`RunState`].
    ///
    /// Invariants
    /// 1. The run state only grows: Running < Shutdown < Stop < Tidying < Terminated.
    /// 2. From Tidying on, the worker count is zero.
    /// 3. The count includes workers whose thread is still being spawned and excludes workers that
    ///    are exiting. So it counts every worker that may still take a task.
    /// 4. The pool is paused only in Running: every advance of the run state clears the bit.
    ///
    /// ```text
    /// Running            -> Shutdown     `shutdown`
    /// Running | Shutdown -> Stop         `shutdown_now`
    /// Shutdown           -> Tidying      queue empty and no workers
    /// Stop               -> Tidying      no workers
    /// Tidying            -> Terminated   the `terminated` hook has returned
    /// ```
    ///
    /// Every access is SeqCst: changes are rare, and on x86-64 a SeqCst load costs no more than a
    /// Relaxed one. The races in `README.md` do not rely on it: they go through `TaskQueue::order`.
    word: AtomicU64,
}

/// The control word at one moment.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Snapshot(u64);

impl Snapshot {
    #[inline]
    pub(super) fn state(self) -> RunState {
        RunState::ALL[(self.0 >> COUNT_BITS) as usize]
    }

    #[inline]
    pub(super) fn workers(self) -> usize {
        (self.0 & COUNT_MASK) as usize
    }

    #[inline]
    pub(super) fn is_running(self) -> bool {
        self.0 >> COUNT_BITS == RunState::Running as u64
    }

    /// True if workers may not take tasks until the pool is resumed.
    #[inline]
    pub(super) fn is_paused(self) -> bool {
        self.0 & PAUSED != 0
    }

    /// True if the pool is in Running and not paused.
    #[inline]
    pub(super) fn takes_tasks(self) -> bool {
        const RUNNING: u64 = (RunState::Running as u64) << (COUNT_BITS - PAUSED_BIT);
        self.0 >> PAUSED_BIT == RUNNING // one comparison, with the bit of the pause
    }

    fn with_state(self, state: RunState) -> Snapshot {
        Snapshot((self.0 & COUNT_MASK) | ((state as u64) << COUNT_BITS))
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let paused = if self.is_paused() { ", paused," } else { "" };
        write!(f, "{:?}{paused} with {} workers", self.state(), self.workers())
    }
}

impl Ctl {
    pub(super) fn new() -> Self {
        Ctl { word: AtomicU64::new(0) }
    }

    #[inline]
    pub(super) fn load(&self) -> Snapshot {
        Snapshot(self.word.load(Ordering::SeqCst))
    }

    fn exchange(&self, seen: Snapshot, new: Snapshot) -> bool {
        self.word.compare_exchange(seen.0, new.0, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Adds a worker permit, unless the word has changed since `seen`.
    pub(super) fn try_add_worker(&self, seen: Snapshot) -> bool {
        self.exchange(seen, Snapshot(seen.0 + 1))
    }

    /// Removes a worker permit, unless the word has changed since `seen`.
    pub(super) fn try_remove_worker(&self, seen: Snapshot) -> bool {
        debug_assert!(seen.workers() > 0);
        self.exchange(seen, Snapshot(seen.0 - 1))
    }

    /// Removes a worker permit.
    pub(super) fn remove_worker(&self) {
        self.word.fetch_sub(1, Ordering::SeqCst);
    }

    /// Advances to `state`. Returns the previous word, or `None` if the pool is already in `state`
    /// or a later state.
    pub(super) fn advance_to(&self, state: RunState) -> Option<Snapshot> {
        loop {
            let seen = self.load();
            if seen.state() >= state {
                return None;
            }
            if self.exchange(seen, seen.with_state(state)) {
                return Some(seen);
            }
        }
    }

    /// Pauses or resumes a running pool. Returns false if nothing changed.
    pub(super) fn set_paused(&self, paused: bool) -> bool {
        loop {
            let seen = self.load();
            if !seen.is_running() || seen.is_paused() == paused {
                return false;
            }
            if self.exchange(seen, Snapshot(seen.0 ^ PAUSED)) {
                return true;
            }
        }
    }

    /// Advances to Tidying, unless the word differs from `seen`, which must have no workers. The
    /// caller holds the lock of the list of workers, because the word may have changed in between
    /// and back.
    pub(super) fn try_tidy(&self, seen: Snapshot) -> bool {
        debug_assert_eq!(seen.workers(), 0);
        self.exchange(seen, seen.with_state(RunState::Tidying))
    }
}
