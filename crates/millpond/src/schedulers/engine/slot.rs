//! A slot: the place of one thread, its line, and the permits that keep it.

use std::thread::JoinHandle;

use super::lane::LaneRef;
use super::lane_queue::LaneQueue;
use super::line::SlotQueue;
use crate::interrupt::wait::WaitCell;
use crate::schedulers::hooks::Decorators;
use crate::schedulers::job::Job;
use crate::sync::Arc;
use crate::time::clock::Tick;

/// Which slot: an index is used again, an id is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SlotRef {
    pub(super) index: usize,
    pub(super) id: u64,
}

/// The right to be in a slot. Whoever has one keeps the slot from being let go, and gives it back under the lock, by
/// [`State::give_back`](super::state::State::give_back). No user code that could unwind stands between: what is called
/// while a permit is out is called inside of `catch_unwind`.
#[derive(Debug)]
#[must_use = "a slot whose permits do not come back stays for ever"]
pub(super) struct Permit {
    slot: SlotRef,
}

impl Permit {
    /// CountedCell by [`State::hold`](super::state::State::hold).
    pub(super) fn new(slot: SlotRef) -> Permit {
        Permit { slot }
    }

    pub(super) fn slot(&self) -> SlotRef {
        self.slot
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
    /// It has found nothing, and looks at the bell for a moment before it parks. In `State::searching`.
    Looking,
    /// Its bell has been rung, and it has not asked for work since. CountedCell in `State::woken`; with how many runs had ended
    /// when it was called.
    Woken(u64),
    Parked,
    /// It is parked and has work; somebody who is awake will see to that. In `State::pending_wake`.
    Owed,
}

impl Thread {
    /// It has not come for what was handed to its slot, and nobody knows whether it will.
    pub(super) fn is_absent(&self) -> bool {
        matches!(self, Thread::None | Thread::Coming | Thread::Promised | Thread::Owed)
    }
}

/// Something that is to run now; its job is nowhere else any more.
#[derive(Debug)]
pub(super) struct Assigned {
    pub(super) job: Arc<Job>,
    pub(super) lane: Option<LaneRef>,
    /// For a lane that runs in its own slot the lane's permit is enough.
    pub(super) permit: Option<Permit>,
    /// The lane has more that is ready, and whoever runs it may go on.
    pub(super) more: Option<Arc<LaneQueue>>,
}

/// Something that waits for a thread.
#[derive(Debug)]
pub(super) enum Item {
    Job(Arc<Job>, Permit),
    Lane(LaneRef),
}

impl Item {
    pub(super) fn job(&self) -> Option<&Arc<Job>> {
        match self {
            Item::Job(job, _) => Some(job),
            Item::Lane(_) => None,
        }
    }
}

#[derive(Debug)]
pub(super) struct Slot {
    pub(super) id: u64,
    /// Permits that are out.
    pub(super) holders: usize,
    /// Grows with every change from idle to busy: who has been busy longest?
    pub(super) busy_since: u64,
    /// When its last holder gave it back; one that did not use it after all does not count.
    pub(super) idle_since: Tick,
    /// Grows with every change from busy to idle: which of the idle slots is the newest?
    pub(super) idle_turn: u64,
    /// What waits for this slot's thread.
    pub(super) line: SlotQueue<Item>,
    /// Of the slot's queue capacity, how much is taken.
    pub(super) places: u64,
    pub(super) thread: Thread,
    /// That of its thread. Notified under the lock: the thread, if it looks or is parked, asks for work.
    pub(super) cell: Option<Arc<WaitCell>>,
    /// Which attempt to start a thread is the one that counts.
    pub(super) ticket: u64,
    /// Goes to the thread before the line.
    pub(super) handed: Option<Assigned>,
    /// The attempt to start a thread of which nothing came.
    pub(super) never_started: u64,
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
            idle_turn: 0,
            line: SlotQueue::new(),
            places: 0,
            thread: Thread::None,
            cell: None,
            ticket: 0,
            handed: None,
            never_started: 0,
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
        self.line.len() + usize::from(self.handed.is_some()) + usize::from(self.running.is_some())
    }
}
