//! A slot: the place of one thread, its line, and the permits that keep it.

use std::collections::VecDeque;
use std::thread::JoinHandle;

use super::Engine;
use super::lane::LaneCore;
use crate::clock::Tick;
use crate::interrupt::Sleeper;
use crate::schedulers::hooks::Decorators;
use crate::schedulers::job::Job;
use crate::sync::{Arc, Weak};

/// Which slot: an index is used again, an id is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SlotRef {
    pub(super) index: usize,
    pub(super) id: u64,
}

/// The right to be in a slot. Whoever has one keeps the slot from being let go; dropping it gives it back, whatever
/// happened on the way.
#[derive(Debug)]
pub(crate) struct Permit {
    pub(super) engine: Weak<Engine>,
    pub(super) slot: SlotRef,
    pub(super) given_back: bool,
}

impl Permit {
    pub(super) fn slot(&self) -> SlotRef {
        self.slot
    }
}

impl Drop for Permit {
    /// Takes the lock, so it must not be held: code under the lock gives permits back by [`State::give_back`].
    fn drop(&mut self) {
        if !self.given_back
            && let Some(engine) = self.engine.upgrade()
        {
            engine.locked(|state, after| state.release(self.slot, after));
        }
    }
}

/// The thread of a slot.
#[derive(Debug)]
pub(super) enum Thread {
    None,
    /// It is being started.
    Coming,
    /// Whoever starts it says that it will come.
    Promised,
    /// It is there and awake.
    Here,
    Parked(Arc<Sleeper>),
}

/// Something that is to run now; its job is nowhere else any more.
#[derive(Debug)]
pub(super) struct Handed {
    pub(super) job: Arc<Job>,
    pub(super) lane: Option<Arc<LaneCore>>,
    /// For a lane that runs in its own slot the lane's permit is enough.
    pub(super) permit: Option<Permit>,
}

/// Something that waits for a thread.
#[derive(Debug)]
pub(super) enum Item {
    Job(Arc<Job>, Permit),
    Lane(Arc<LaneCore>),
    /// It was cancelled.
    Gone,
}

#[derive(Debug)]
pub(super) struct Slot {
    pub(super) id: u64,
    /// Permits that are out.
    pub(super) holders: usize,
    /// Grows with every change from idle to busy: who has been busy longest?
    pub(super) busy_since: u64,
    pub(super) idle_since: Tick,
    /// What waits for this slot's thread, with its place in line; places grow.
    pub(super) line: VecDeque<(u64, Item)>,
    /// Entries of `line` that are not gone.
    pub(super) in_line: usize,
    /// Of the slot's queue capacity, how much is taken.
    pub(super) places: u64,
    pub(super) thread: Thread,
    /// Which attempt to start a thread is the one that counts.
    pub(super) ticket: u64,
    /// Goes to the thread before the line.
    pub(super) handed: Option<Handed>,
    /// The attempt to start a thread of which nothing came.
    pub(super) stillborn: u64,
    /// What its thread runs.
    pub(super) running: Option<Arc<Job>>,
    /// `None`: `slot_created` is still to be called.
    pub(super) decorators: Option<Decorators>,
    pub(super) join: Option<JoinHandle<()>>,
}

impl Slot {
    pub(super) fn new(id: u64, now: Tick) -> Slot {
        Slot {
            id,
            holders: 0,
            busy_since: 0,
            idle_since: now,
            line: VecDeque::new(),
            in_line: 0,
            places: 0,
            thread: Thread::None,
            ticket: 0,
            handed: None,
            stillborn: 0,
            running: None,
            decorators: None,
            join: None,
        }
    }

    /// Something that is handed to it now has nothing to wait for.
    pub(super) fn is_free(&self) -> bool {
        self.load() == 0
    }

    pub(super) fn is_stuck(&self) -> bool {
        !self.is_free() && matches!(self.thread, Thread::None)
    }

    pub(super) fn load(&self) -> usize {
        self.in_line + usize::from(self.handed.is_some()) + usize::from(self.running.is_some())
    }
}
