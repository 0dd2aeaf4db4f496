//! The plain types of the engine. They have no behaviour that needs a lock.

use std::io;
use std::time::Duration;

use super::lane_queue::LaneQueue;
use super::source::ThreadSource;
use crate::executor::RejectReason;
use crate::schedulers::job::JobRef;
use crate::sync::Arc;
use crate::task::{Outcome, RunEnd};
use crate::time::clock::{Clock, Tick};

/// How slots come and go.
#[derive(Debug, Clone, Copy)]
pub(in crate::schedulers) enum Shape {
    /// All slots exist from the start. Work goes to them round robin.
    Fixed,
    /// A slot is created on demand and removed after it was idle for `ttl`.
    Elastic { ttl: Duration },
    /// A slot is created on demand and removed with its last holder. Every task gets a new thread.
    PerTask,
    /// As `PerTask`, but a thread stays while its slot has work. For threads of an executor.
    Bursts,
}

impl Shape {
    /// Returns true if a thread without work parks instead of exiting.
    pub(super) fn keeps_threads(self) -> bool {
        matches!(self, Shape::Fixed | Shape::Elastic { .. })
    }
}

/// The settings of a scheduler.
pub(in crate::schedulers) struct Plan {
    /// What `Display` writes.
    pub(in crate::schedulers) name: String,
    /// The name in the registry of pools, unless it is empty.
    pub(in crate::schedulers) registered_as: String,
    pub(in crate::schedulers) shape: Shape,
    /// Work may move from a busy slot to a free one.
    pub(in crate::schedulers) is_work_movable: bool,
    pub(in crate::schedulers) max_slots: usize,
    /// How many tasks may wait for each slot; `usize::MAX` means no bound.
    pub(in crate::schedulers) queue_capacity: usize,
    pub(in crate::schedulers) source: ThreadSource,
    pub(in crate::schedulers) clock: Clock,
    /// Accepts delays and periods.
    pub(in crate::schedulers) has_timing: bool,
}

impl Plan {
    /// The name in the registry of pools.
    pub(super) fn registered_name(&self) -> Arc<str> {
        if self.registered_as.is_empty() { self.name.as_str() } else { &self.registered_as }.into()
    }
}

/// Identifies a slot. An index is used again, an id is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SlotRef {
    pub(super) index: usize,
    pub(super) id: u64,
}

/// Identifies a lane. An index is used again, with another generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LaneRef {
    pub(super) index: u32,
    pub(super) generation: u32,
}

impl LaneRef {
    /// Refers to no lane, which is the same as a closed one.
    pub(super) const CLOSED: LaneRef = LaneRef { index: u32::MAX, generation: 0 };
}

/// Counts as one holder of a slot, which is not removed while it has holders.
///
/// A permit is a plain value that must be released under the lock, so it must not be lost on an
/// error path. User code that runs while a permit is out is called inside `catch_unwind`.
#[derive(Debug)]
#[must_use = "a permit that is not released keeps its slot forever"]
pub(super) struct Permit {
    slot: SlotRef,
}

impl Permit {
    /// Only for `Slots::hold`, which counts it.
    pub(super) fn new(slot: SlotRef) -> Permit {
        Permit { slot }
    }

    pub(super) fn slot(&self) -> SlotRef {
        self.slot
    }
}

/// From when on a job of a lane waits for a thread.
#[derive(Debug, Clone, Copy)]
pub(super) enum Waits {
    /// From its acceptance, at this time. `Tick::NEVER` if that is not known.
    Accepted(Tick),
    /// From this time.
    Due(Tick),
}

/// Work that a thread is about to run. Its job is in no queue any more.
#[derive(Debug)]
pub(super) struct Assigned {
    pub(super) job: JobRef,
    pub(super) lane: Option<LaneRef>,
    /// For the slot that runs it. `None` for a lane in its home slot, where the permit of the lane
    /// is enough.
    pub(super) permit: Option<Permit>,
    /// The queue of the lane, if the thread may go on with what is ready there.
    pub(super) more: Option<Arc<LaneQueue>>,
    /// When the job was accepted, or due if it has a delay. `Tick::NEVER` if that is not known.
    pub(super) since: Tick,
}

impl Assigned {
    /// A job without a lane.
    pub(super) fn job(job: JobRef, permit: Permit, since: Tick) -> Assigned {
        Assigned { job, lane: None, permit: Some(permit), more: None, since }
    }
}

/// Work that waits in a queue for a thread.
#[derive(Debug)]
pub(super) enum Item {
    /// A job without a lane, and since when it waits. The permit is for its home slot.
    Job(JobRef, Permit, Tick),
    /// A lane with a due job, and its home slot.
    Lane(LaneRef, SlotRef),
}

impl Item {
    /// The slot whose capacity it uses.
    pub(super) fn home(&self) -> SlotRef {
        match self {
            Item::Job(_, permit, _) => permit.slot(),
            Item::Lane(_, home) => *home,
        }
    }

    pub(super) fn job(&self) -> Option<&JobRef> {
        match self {
            Item::Job(job, ..) => Some(job),
            Item::Lane(..) => None,
        }
    }
}

/// Work whose time has come.
#[derive(Debug)]
pub(super) enum Due {
    /// With the time when it was due.
    Job(JobRef, Tick),
    Lane(LaneRef),
}

/// The answer to a thread that asks for work.
#[derive(Debug)]
pub(super) enum Next {
    Run(Assigned),
    /// Spin for a moment, then ask again.
    Search,
    Park,
    Leave,
}

/// What a thread reports about a run.
pub(super) struct Done<'a> {
    pub(super) job: &'a JobRef,
    pub(super) lane: Option<LaneRef>,
    /// The slot whose thread ran it, unless it ran in place inside another task.
    pub(super) slot: Option<SlotRef>,
    pub(super) outcome: Outcome,
    /// The job is periodic and may run again.
    pub(super) again: bool,
    /// The number of runs: several if the thread went on in a lane, none if the job was cancelled.
    runs: u64,
    /// The time of the lane was over.
    is_late: bool,
}

impl<'a> Done<'a> {
    /// `end` is `None` if the job was cancelled before it began.
    pub(super) fn new(
        job: &'a JobRef,
        lane: Option<LaneRef>,
        slot: Option<SlotRef>,
        end: Option<RunEnd>,
    ) -> Done<'a> {
        let runs = u64::from(end.is_some());
        let end = end.unwrap_or(NOT_RUN);
        Done { job, lane, slot, outcome: end.outcome, again: end.again, runs, is_late: false }
    }

    pub(super) fn runs(&self) -> u64 {
        self.runs
    }

    pub(super) fn is_late(&self) -> bool {
        self.is_late
    }

    /// The thread ended `runs` more runs in the lane before.
    pub(super) fn after(self, runs: u64, is_late: bool) -> Done<'a> {
        Done { runs: self.runs + runs, is_late, ..self }
    }
}

/// The end of a job that was cancelled before it began.
pub(super) const NOT_RUN: RunEnd = RunEnd { outcome: Outcome::Cancelled, again: false };

/// A queue is full: the length it would have, and the bound.
#[derive(Debug)]
pub(super) struct Full {
    pub(super) would_be: u64,
    pub(super) cap: u64,
}

/// A slot that needs a thread, and the number of the attempt to start it. That of an own thread is
/// also the number in its name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Start {
    pub(super) slot: SlotRef,
    pub(super) attempt: u64,
}

/// A start that failed.
pub(super) struct StartFailure {
    pub(super) start: Start,
    pub(super) reason: RejectReason,
    pub(super) source: Option<io::Error>,
}
