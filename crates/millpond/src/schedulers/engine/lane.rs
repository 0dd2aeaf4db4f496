//! A lane: a worker's jobs, one at a time, by due time and then by submission.
//!
//! A series that was scheduled without a worker is a lane of its own.

use std::fmt;
use std::time::Duration;

use super::slot::{Handed, Item, Permit, Slot, SlotRef};
use super::state::{After, State, Timed};
use super::{Engine, Handle};
use crate::clock::Tick;
use crate::executor::Rejected;
use crate::periodic::PeriodicTask;
use crate::schedulers::Lane;
use crate::schedulers::job::{Disposable, Job, Spot, Work};
use crate::sync::{Arc, Mutex, mutant};
use crate::task::Task;
use crate::timer_queue::{Key, TimerQueue};

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
    /// Its place in the line of its home: while it is in line.
    pub(super) place: Option<u64>,
    /// What waits, due or not.
    pub(super) heap: TimerQueue<Arc<Job>>,
    pub(super) running: Option<Arc<Job>>,
    /// When the job that runs was due.
    pub(super) due: Tick,
    /// Its entry among the scheduler's timers: while it is idle and has jobs.
    pub(super) timer: Option<Key>,
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
                place: None,
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
        self.engine().submit_to_lane(&self.lane, info, Work::Series(body), initial, Some(rhythm))
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

/// What a lane does under the lock of its scheduler.
impl State {
    /// The lane's next job, if it is the lane's turn and the job is due; the lane is then running.
    pub(super) fn claim_head(&mut self, lane: &Arc<LaneCore>, after: &mut After) -> Option<Arc<Job>> {
        let now = self.now();
        let mut cell = lane.cell.lock();
        if cell.phase != LanePhase::InLine {
            return None; // somebody else has it
        }
        let Some((due, _, job)) = cell.heap.pop_due(now) else {
            cell.phase = LanePhase::Idle;
            drop(cell);
            self.rest_lane(lane, after);
            return None;
        };
        cell.phase = LanePhase::Running;
        cell.due = due;
        cell.running = Some(Arc::clone(&job));
        drop(cell);
        *job.spot.lock() = Spot::Nowhere;
        self.waiting -= 1;
        if !job.is_series() {
            self.free_place(lane.home);
        }
        Some(job)
    }

    /// The lane has a job that is due, and is idle: finds a thread for it.
    pub(super) fn start_lane(&mut self, lane: &Arc<LaneCore>, after: &mut After) {
        lane.cell.lock().phase = LanePhase::InLine;
        let home = lane.home.index;
        let home_is_free = self.slot(lane.home).is_some_and(|slot| slot.is_free());
        // A lane that has just run goes behind those who wait already; the thread that ran it takes the first of them.
        let others_first = self.soft && self.prefer.is_some() && self.in_line > 0;
        let helper = if home_is_free || others_first { None } else { self.pick_free() };
        if others_first || (!home_is_free && helper.is_none()) {
            if self.slot(lane.home).is_some() {
                let place = self.push_line(home, Item::Lane(Arc::clone(lane)), after);
                lane.cell.lock().place = Some(place);
            }
            return;
        }
        let Some(job) = self.claim_head(lane, after) else { return };
        let permit = helper.map(|index| self.hold(index));
        let handed = Handed { job, lane: Some(Arc::clone(lane)), permit };
        self.hand(helper.unwrap_or(home), handed, after);
    }

    /// The lane does not run and is in no line: waits for its next job's time, or starts it, or closes.
    pub(super) fn rest_lane(&mut self, lane: &Arc<LaneCore>, after: &mut After) {
        let now = self.now();
        let mut cell = lane.cell.lock();
        if let Some(key) = cell.timer.take() {
            self.timers.remove(key);
        }
        match cell.heap.first_due() {
            None if cell.closed || cell.finishing => {
                let permit = cell.permit.take();
                cell.closed = true;
                drop(cell);
                self.lanes.remove(&lane.id);
                if let Some(permit) = permit {
                    self.give_back(permit, after);
                }
            }
            None => {}
            Some(due) if due <= now => {
                drop(cell);
                self.start_lane(lane, after);
            }
            Some(due) => {
                let number = self.next();
                cell.timer = Some(self.timers.insert(due, number, Timed::Lane(Arc::clone(lane))));
            }
        }
    }

    /// Puts a job into its lane; `due` and `number` decide its turn.
    pub(super) fn put_into_lane(
        &mut self,
        lane: &Arc<LaneCore>,
        job: Arc<Job>,
        due: Tick,
        after: &mut After,
    ) {
        let number = self.next();
        self.waiting += 1;
        let mut cell = lane.cell.lock();
        let key = cell.heap.insert(due, number, Arc::clone(&job));
        *job.spot.lock() = Spot::Lane(Arc::clone(lane), key);
        let idle = cell.phase == LanePhase::Idle || mutant("start_a_running_lane");
        drop(cell);
        if idle {
            self.rest_lane(lane, after);
        }
    }

    /// Throws away all that the lane has, and takes nothing more.
    pub(super) fn close_lane(&mut self, lane: &Arc<LaneCore>, after: &mut After) {
        let mut cell = lane.cell.lock();
        if std::mem::replace(&mut cell.closed, true) {
            return;
        }
        let mut thrown_out = Vec::new();
        while let Some((_, _, job)) = cell.heap.pop() {
            thrown_out.push(job);
        }
        let running = cell.running.clone();
        let at_rest = cell.phase != LanePhase::Running;
        drop(cell);
        for job in thrown_out {
            *job.spot.lock() = Spot::Nowhere;
            self.waiting -= 1;
            self.counted.cancelled += 1;
            self.free_place(lane.home);
            after.cancel.push(job);
        }
        after.cancel.extend(running); // last: it is interrupted when nothing is left to come after it
        if at_rest {
            self.step_out_of_line(lane);
            self.rest_lane(lane, after);
        }
    }

    /// The lane is in no line, and idle unless it runs.
    pub(super) fn step_out_of_line(&mut self, lane: &Arc<LaneCore>) {
        let mut cell = lane.cell.lock();
        if cell.phase != LanePhase::InLine {
            return;
        }
        cell.phase = LanePhase::Idle;
        let place = cell.place.take();
        drop(cell);
        if let Some(place) = place {
            self.take_item_out_of_line(lane.home.index, place);
        }
    }

    /// Jobs were taken out of the lane: if nothing in it is due any more it has no business in a line.
    pub(super) fn look_at_lane_again(&mut self, lane: &Arc<LaneCore>, after: &mut After) {
        let now = self.now();
        let cell = lane.cell.lock();
        let (phase, due) = (cell.phase, cell.heap.first_due().is_some_and(|due| due <= now));
        drop(cell);
        match phase {
            LanePhase::Running => {}
            LanePhase::InLine if due => {}
            LanePhase::InLine | LanePhase::Idle => {
                self.step_out_of_line(lane);
                self.rest_lane(lane, after);
            }
        }
    }

    /// A lane could start something that is due now at once.
    pub(super) fn could_start_now(&self, lane: &LaneCore) -> bool {
        let cell = lane.cell.lock();
        let next_up =
            cell.phase == LanePhase::Idle && cell.heap.first_due().is_none_or(|due| due > self.now());
        drop(cell);
        let home = self.slots.get(lane.home.index).and_then(Option::as_ref);
        next_up && (home.is_some_and(Slot::is_free) || (self.soft && self.has_free()))
    }

    pub(super) fn has_free(&self) -> bool {
        self.count < self.max || self.slots.iter().flatten().any(Slot::is_free)
    }
}
