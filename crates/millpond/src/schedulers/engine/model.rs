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

/// How slots are created and removed.
#[derive(Debug, Clone, Copy)]
pub(in crate::schedulers) enum Shape {
    /// All slots exist from the start and are used round robin.
    Fixed,
    /// Slots are created on demand and removed after they were idle for `ttl`.
    Elastic { ttl: Duration },
    /// Slots are created on demand and removed with their last holder. Every task gets a new
    /// thread.
    PerTask,
    /// As `PerTask`, but a thread stays while its slot has work. Used over an executor.
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
    /// The name that `Display` writes.
    pub(in crate::schedulers) name: String,
    /// The name in the registry of pools. If empty, `name` is used.
    pub(in crate::schedulers) registered_as: String,
    pub(in crate::schedulers) shape: Shape,
    /// A thread may run the work of a busy slot other than its own.
    pub(in crate::schedulers) is_work_movable: bool,
    pub(in crate::schedulers) max_slots: usize,
    /// How many tasks may wait for each slot; `usize::MAX` means no bound.
    pub(in crate::schedulers) queue_capacity: usize,
    pub(in crate::schedulers) source: ThreadSource,
    pub(in crate::schedulers) clock: Clock,
    /// Whether delays and periods are accepted.
    pub(in crate::schedulers) has_timing: bool,
}

impl Plan {
    /// Returns the name in the registry of pools.
    pub(super) fn registered_name(&self) -> Arc<str> {
        if self.registered_as.is_empty() { self.name.as_str() } else { &self.registered_as }.into()
    }
}

/// Identifies a slot. Indices are reused, ids are not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SlotRef {
    pub(super) index: usize,
    pub(super) id: u64,
}

/// Identifies a lane. An index is reused with the next generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LaneRef {
    pub(super) index: u32,
    pub(super) generation: u32,
}

impl LaneRef {
    /// Refers to no lane, which has the same effect as a closed lane.
    pub(super) const CLOSED: LaneRef = LaneRef { index: u32::MAX, generation: 0 };
}

/// Counts as one holder of a slot. A slot is not removed while it has holders.
///
/// A permit is a plain value that must be released under the lock, so no error path may lose it.
/// User code that runs while a permit is held is called inside `catch_unwind`.
#[derive(Debug)]
#[must_use = "a permit that is not released keeps its slot forever"]
pub(super) struct Permit {
    slot: SlotRef,
}

impl Permit {
    /// Called only by `Slots::hold`, which counts the permit.
    pub(super) fn new(slot: SlotRef) -> Permit {
        Permit { slot }
    }

    pub(super) fn slot(&self) -> SlotRef {
        self.slot
    }
}

/// The time from which a job of a lane counts as waiting for a thread.
#[derive(Debug, Clone, Copy)]
pub(super) enum Waits {
    /// Since its acceptance at this time. `Tick::NEVER` if the time is unknown.
    Accepted(Tick),
    /// From this due time on.
    Due(Tick),
}

/// Work that a thread is about to run. Its job has left all queues.
#[derive(Debug)]
pub(super) struct Assigned {
    pub(super) job: JobRef,
    pub(super) lane: Option<LaneRef>,
    /// A permit for the slot that runs the work. `None` for a lane that runs in its home slot,
    /// because the permit of the lane suffices.
    pub(super) permit: Option<Permit>,
    /// The queue of the lane, if the thread may continue with its ready jobs.
    pub(super) more: Option<Arc<LaneQueue>>,
    /// When the job was accepted, or due if it has a delay. `Tick::NEVER` if the time is unknown.
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
    /// A job without a lane, and the time since which it waits. The permit is for its home slot.
    Job(JobRef, Permit, Tick),
    /// A lane with a due job, and its home slot.
    Lane(LaneRef, SlotRef),
}

impl Item {
    /// Returns the slot whose capacity the item uses.
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

/// Work whose due time has passed.
#[derive(Debug)]
pub(super) enum Due {
    /// A job without a lane, with its due time.
    Job(JobRef, Tick),
    Lane(LaneRef),
}

/// The answer to a thread that asks the state for work.
#[derive(Debug)]
pub(super) enum Next {
    Run(Assigned),
    /// Spin for about 2 µs, then ask again.
    Search,
    Park,
    Leave,
}

/// The result of a run, as its thread reports it.
pub(super) struct Done<'a> {
    pub(super) job: &'a JobRef,
    pub(super) lane: Option<LaneRef>,
    /// The slot whose thread ran the job. `None` if the job ran in place inside another task.
    pub(super) slot: Option<SlotRef>,
    pub(super) outcome: Outcome,
    /// The job is periodic and may run again.
    pub(super) again: bool,
    /// The number of runs: more than one if the thread continued in a lane, zero if the job was
    /// cancelled.
    runs: u64,
    /// The run of the lane ended because of its time limit.
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

    /// Adds `runs` earlier runs of the same lane run.
    pub(super) fn after(self, runs: u64, is_late: bool) -> Done<'a> {
        Done { runs: self.runs + runs, is_late, ..self }
    }
}

/// The end of a job that was cancelled before it began.
pub(super) const NOT_RUN: RunEnd = RunEnd { outcome: Outcome::Cancelled, again: false };

/// A queue is full: the length that it would have, and the bound.
#[derive(Debug)]
pub(super) struct Full {
    pub(super) would_be: u64,
    pub(super) cap: u64,
}

/// A request to start a thread for a slot, with the number of the attempt. For an own thread, this
/// is also the number in the thread's name.
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
