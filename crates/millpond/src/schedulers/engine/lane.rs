//! A lane: a worker's jobs, one at a time, by due time and then by submission.
//!
//! A series that was scheduled without a worker is a lane of its own.

use std::fmt;
use std::time::Duration;

use super::state::{Permit, SlotRef, TimerKey};
use super::{Engine, Handle};
use crate::clock::Tick;
use crate::executor::Rejected;
use crate::periodic::PeriodicTask;
use crate::schedulers::Lane;
use crate::schedulers::job::{Disposable, Job, Work};
use crate::sync::{Arc, Mutex};
use crate::task::Task;
use crate::timer_queue::TimerQueue;

/// What a lane does now.
///
/// Idle -> InLine       a job is due
/// InLine -> Running    a thread has taken the job at the head
/// InLine -> Idle       the jobs that were due have been cancelled
/// Running -> Idle      the job has ended; from there on to the next
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LanePhase {
    Idle,
    InLine,
    Running,
}

pub(crate) struct LaneCore {
    pub(super) id: u64,
    /// The slot in which it has its place, and, if work may not move, runs.
    pub(super) home: SlotRef,
    /// Locked only under the lock of the scheduler.
    pub(super) cell: Mutex<LaneCell>,
}

#[derive(Debug)]
pub(super) struct LaneCell {
    pub(super) phase: LanePhase,
    /// What waits, due or not.
    pub(super) heap: TimerQueue<Arc<Job>>,
    pub(super) running: Option<Arc<Job>>,
    /// When the job that runs was due.
    pub(super) due: Tick,
    /// Its entry among the scheduler's timers: while it is idle and has jobs.
    pub(super) timer: Option<TimerKey>,
    /// There until it is closed and at rest.
    pub(super) permit: Option<Permit>,
    /// Takes nothing more, and works off what it has.
    pub(super) finishing: bool,
    /// Takes nothing more, and has nothing any more but perhaps a run under way.
    pub(super) closed: bool,
}

impl LaneCore {
    pub(super) fn new(id: u64, home: SlotRef, permit: Option<Permit>, closed: bool) -> Arc<LaneCore> {
        Arc::new(LaneCore {
            id,
            home,
            cell: Mutex::new(LaneCell {
                phase: LanePhase::Idle,
                heap: TimerQueue::new(),
                running: None,
                due: Tick::from_nanos(0),
                timer: None,
                permit,
                finishing: false,
                closed,
            }),
        })
    }
}

impl fmt::Debug for LaneCore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LaneCore").field("id", &self.id).field("home", &self.home).finish_non_exhaustive()
    }
}

/// What a worker holds. Keeps its scheduler alive, and lets the lane finish when it goes.
pub(super) struct LaneHandle {
    pub(super) handle: Arc<Handle>,
    pub(super) lane: Arc<LaneCore>,
}

impl LaneHandle {
    fn engine(&self) -> &Arc<Engine> {
        &self.handle.engine
    }
}

impl Lane for LaneHandle {
    fn schedule_task(&self, task: Task) -> Result<Disposable, Rejected> {
        self.schedule_task_after(Duration::ZERO, task)
    }

    fn schedule_task_after(&self, delay: Duration, task: Task) -> Result<Disposable, Rejected> {
        self.engine().submit_to_lane(&self.lane, task.info().clone(), Work::Once(task), delay, None)
    }

    fn schedule_periodically_task(
        &self,
        initial: Duration,
        period: Duration,
        task: PeriodicTask,
    ) -> Result<Disposable, Rejected> {
        let (info, body, rhythm) = task.into_series(period);
        self.engine().submit_to_lane(&self.lane, info, Work::Body(body), initial, Some(rhythm))
    }

    fn dispose(&self) {
        self.engine().locked(|state, after| {
            state.close_lane(&self.lane, after);
            state.end_if_done(after);
        });
    }

    fn is_disposed(&self) -> bool {
        let engine = self.engine();
        engine.locked(|_, _| self.lane.cell.lock().closed) || engine.is_disposed()
    }

    fn queued(&self) -> usize {
        self.engine().locked(|_, _| self.lane.cell.lock().heap.len())
    }
}

impl Drop for LaneHandle {
    fn drop(&mut self) {
        self.engine().locked(|state, after| {
            let mut cell = self.lane.cell.lock();
            cell.finishing = true;
            let idle = cell.phase == LanePhase::Idle && !cell.closed;
            drop(cell);
            if idle {
                state.rest_lane(&self.lane, after);
            }
            state.end_if_done(after);
        });
    }
}
