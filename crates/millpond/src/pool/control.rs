//! The control word: how many workers the pool has, and how far its shutdown has gone.
//!
//! Both live in one atomic, so that "may I add a worker?" and "are we done?" are each a single
//! compare-exchange. No other file sees the bits: they see [`Snapshot`] and the transitions below.

use std::fmt;

use crate::sync::{AtomicU64, Ordering};

/// How far a pool's life has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RunState {
    /// Takes tasks.
    Running,
    /// Takes no more; what was taken still runs.
    Shutdown,
    /// Takes no more, runs no more from the queue; what runs was interrupted.
    Stop,
    /// All workers are gone; the `terminated` hook runs.
    Tidying,
    /// All over.
    Terminated,
}

impl RunState {
    const ALL: [RunState; 5] = [Self::Running, Self::Shutdown, Self::Stop, Self::Tidying, Self::Terminated];
}

const COUNT_BITS: u32 = 32;
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;

/// More workers than this cannot be, whatever the settings say.
pub(super) const MOST_WORKERS: usize = (1 << 29) - 1;

#[derive(Debug)]
pub(super) struct Ctl {
    /// Bits 0..32: workers allowed to start and not yet told to stop. Bits 32..: [`RunState`].
    ///
    /// Invariants
    /// 1. The run state only grows: Running < Shutdown < Stop < Tidying < Terminated.
    /// 2. From Tidying on, the worker count is zero.
    /// 3. The count is of permissions, not of threads: it includes a worker whose thread is still being spawned,
    ///    and leaves out one whose thread is on its way to exit.
    ///
    /// Running -> Shutdown            `shutdown`
    /// Running | Shutdown -> Stop     `shutdown_now`
    /// Shutdown -> Tidying            queue empty and no workers
    /// Stop -> Tidying                no workers
    /// Tidying -> Terminated          the `terminated` hook has returned
    ///
    /// Every access is SeqCst: on the machines we care about a load costs no more for it, changes are rare,
    /// and the two places that need store-before-load order (see the pool's README) use fences anyway.
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

    fn with_state(self, state: RunState) -> Snapshot {
        Snapshot((self.0 & COUNT_MASK) | ((state as u64) << COUNT_BITS))
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} with {} workers", self.state(), self.workers())
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

    /// Counts one more worker, if nothing has changed since `seen`.
    pub(super) fn try_add_worker(&self, seen: Snapshot) -> bool {
        self.exchange(seen, Snapshot(seen.0 + 1))
    }

    /// Counts one worker less, if nothing has changed since `seen`.
    pub(super) fn try_remove_worker(&self, seen: Snapshot) -> bool {
        debug_assert!(seen.workers() > 0);
        self.exchange(seen, Snapshot(seen.0 - 1))
    }

    /// Counts one worker less.
    pub(super) fn remove_worker(&self) {
        self.word.fetch_sub(1, Ordering::SeqCst);
    }

    /// Goes to `state`, unless already there or further; true if this call did it.
    pub(super) fn advance_to(&self, state: RunState) -> bool {
        loop {
            let seen = self.load();
            if seen.state() >= state {
                return false;
            }
            if self.exchange(seen, seen.with_state(state)) {
                return true;
            }
        }
    }

    /// Goes to Tidying if nothing has changed since `seen`, in which there were no workers.
    pub(super) fn try_tidy(&self, seen: Snapshot) -> bool {
        debug_assert_eq!(seen.workers(), 0);
        self.exchange(seen, seen.with_state(RunState::Tidying))
    }
}
