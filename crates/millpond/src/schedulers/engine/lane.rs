//! A lane: a worker's jobs, one at a time, by due time and then by submission.
//!
//! A series that was scheduled without a worker is a lane of its own.

use std::time::Duration;

use super::lane_queue::{LaneQueue, Uncounted};
use super::slot::{Assigned, Item, Permit, Slot, SlotRef, Thread};
use super::state::{Deferred, State};
use super::{Engine, Handle, Shape};
use crate::executor::Rejected;
use crate::interrupt::wait::WaitCell;
use crate::schedulers::Lane;
use crate::schedulers::job::{Disposable, Job, Location, Work};
use crate::sync::Arc;
use crate::task::periodic::PeriodicTask;
use crate::task::{Task, TaskId};
use crate::time::clock::{Clock, Tick};
use crate::time::heap::{Key, TimerQueue};

/// What a lane does now.
///
/// IdleWorkers -> InLine       a job is due
/// InLine -> Running    a thread has taken the job at the head
/// InLine -> IdleWorkers       the jobs that were due have been cancelled
/// Running -> IdleWorkers      the job has ended; from there on to the next
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LanePhase {
    IdleWorkers,
    InLine,
    Running,
}

/// Which lane: an index is used again, with another generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LaneRef {
    index: u32,
    generation: u32,
}

impl LaneRef {
    /// No lane, which is as good as one that is closed.
    pub(super) const CLOSED: LaneRef = LaneRef { index: u32::MAX, generation: 0 };

    /// Where it is as long as it is there.
    pub(super) fn index(self) -> u32 {
        self.index
    }
}

/// All lanes of a scheduler that are not closed, or have a run under way.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    /// The generation of the lane that is there, or was last.
    entries: Vec<(u32, Option<Box<LaneCell>>)>,
    free: Vec<u32>,
    /// Where something may have gone on that is not counted: those that let jobs in, or run on. Each knows its place here.
    unsettled: Vec<LaneRef>,
}

impl Lanes {
    fn insert(&mut self, cell: LaneCell) -> LaneRef {
        let cell = Some(Box::new(cell));
        let Some(index) = self.free.pop() else {
            let index = u32::try_from(self.entries.len()).ok().filter(|index| *index != u32::MAX);
            let index = index.expect("so many lanes do not fit into memory");
            self.entries.push((0, cell));
            return LaneRef { index, generation: 0 };
        };
        let entry = &mut self.entries[index as usize];
        *entry = (entry.0.wrapping_add(1), cell);
        LaneRef { index, generation: entry.0 }
    }

    pub(super) fn get(&self, lane: LaneRef) -> Option<&LaneCell> {
        let (generation, cell) = self.entries.get(lane.index as usize)?;
        cell.as_deref().filter(|_| *generation == lane.generation)
    }

    pub(super) fn get_mut(&mut self, lane: LaneRef) -> Option<&mut LaneCell> {
        let (generation, cell) = self.entries.get_mut(lane.index as usize)?;
        cell.as_deref_mut().filter(|_| *generation == lane.generation)
    }

    /// The lane that is there now.
    pub(super) fn at(&self, index: u32) -> Option<LaneRef> {
        let (generation, cell) = self.entries.get(index as usize)?;
        cell.as_ref().map(|_| LaneRef { index, generation: *generation })
    }

    /// Something may go on in it that is not counted.
    fn list(&mut self, lane: LaneRef) {
        let place = self.unsettled.len();
        let Some(cell) = self.get_mut(lane) else { return };
        if cell.listed.is_none() {
            cell.listed = Some(place);
            self.unsettled.push(lane);
        }
    }

    /// All is counted, and nothing more will go on.
    fn unlist(&mut self, lane: LaneRef) {
        let Some(place) = self.get_mut(lane).and_then(|cell| cell.listed.take()) else { return };
        self.unsettled.swap_remove(place);
        let moved = self.unsettled.get(place).copied();
        if let Some(cell) = moved.and_then(|moved| self.get_mut(moved)) {
            cell.listed = Some(place);
        }
    }

    fn remove(&mut self, lane: LaneRef) {
        if self.get(lane).is_some() {
            self.unlist(lane);
            self.entries[lane.index as usize].1 = None;
            self.free.push(lane.index);
        }
    }

    pub(super) fn all(&self) -> Vec<LaneRef> {
        let there = self.entries.iter().zip(0..).filter(|((_, cell), _)| cell.is_some());
        there.map(|((generation, _), index)| LaneRef { index, generation: *generation }).collect()
    }
}

#[derive(Debug)]
pub(super) struct LaneCell {
    /// The slot in which it has its place, and, if work may not move, runs.
    pub(super) home: SlotRef,
    pub(super) phase: LanePhase,
    /// Its place in the line of its home: while it is in line.
    pub(super) place: Option<u64>,
    /// What came without a delay, and before all that is in `later`: so no clock is needed to know that it is due, and
    /// that it is first. And what runs.
    pub(super) ready: Arc<LaneQueue>,
    /// What else waits, due or not.
    later: TimerQueue<Arc<Job>>,
    /// It has, or had, a series, whose next run may be due before something that came meanwhile: all goes to `later`.
    by_time: bool,
    /// When the series that runs was due.
    pub(super) due: Tick,
    /// Its entry among the scheduler's timers: while it is idle and has jobs.
    pub(super) timer: Option<Key>,
    /// There until it is closed and at rest.
    permit: Option<Permit>,
    /// Takes nothing more, and works off what it has.
    pub(super) finishing: bool,
    /// Takes nothing more, and has nothing any more but perhaps a run under way.
    pub(super) closed: bool,
    /// Its place in [`Lanes::unsettled`].
    listed: Option<usize>,
    /// Jobs that were in it when a thread of the scheduler came to wait for them. When the lane goes into a line that
    /// thread may be the one it waits for, and is told, whichever job is first: it can run those before its own.
    awaited: Vec<Arc<Job>>,
}

impl LaneCell {
    fn new(permit: Permit, finishing: bool) -> LaneCell {
        LaneCell {
            home: permit.slot(),
            phase: LanePhase::IdleWorkers,
            place: None,
            ready: LaneQueue::new(),
            later: TimerQueue::new(),
            by_time: false,
            due: Tick::from_nanos(0),
            timer: None,
            permit: Some(permit),
            finishing,
            closed: false,
            listed: None,
            awaited: Vec::new(),
        }
    }

    fn len(&self) -> usize {
        self.ready.lock().line.len() + self.later.len()
    }

    /// The job of this task, if it waits in here.
    pub(super) fn find_task(&self, id: TaskId) -> Option<Arc<Job>> {
        let ready = self.ready.lock();
        let found = ready.line.iter().rev().find(|(_, job)| job.is_of(id)).map(|(_, job)| job);
        found.or_else(|| self.later.find(|job| job.is_of(id))).cloned()
    }

    /// Somebody waits for a job in here, and wants to know when the lane goes into a line.
    ///
    /// Those that nobody waits for any more are forgotten meanwhile, so there are never more of them than threads that wait.
    pub(super) fn note_awaited(&mut self, job: &Arc<Job>) {
        self.awaited.retain(|known| known.is_awaited() && !Arc::ptr_eq(known, job));
        self.awaited.push(Arc::clone(job));
    }

    /// The lane goes into a line. Whoever is told asks again, and is noted again if it has to wait further.
    pub(super) fn tell_awaiting(&mut self, wake: &mut Vec<Arc<WaitCell>>) {
        self.awaited.drain(..).for_each(|job| job.could_start(wake));
    }

    fn has_due(&self, clock: &Clock) -> bool {
        !self.ready.lock().line.is_empty() || self.later.first_due().is_some_and(|due| due <= clock.tick())
    }

    /// Takes the first job that is due, which runs then. Also tells whether more is ready.
    fn pop_due(&mut self, clock: &Clock) -> Option<(Arc<Job>, bool)> {
        let mut jobs = self.ready.lock();
        let job = match jobs.line.pop() {
            Some(job) => job,
            None => {
                self.later.first_due()?;
                let (due, _, job) = self.later.pop_due(clock.tick())?;
                self.due = due;
                job
            }
        };
        jobs.running = Some(Arc::clone(&job));
        Some((job, !jobs.line.is_empty()))
    }

    fn take_all(&mut self) -> Vec<Arc<Job>> {
        let ready = self.ready.lock().line.take_all(); // and the lock is free again: they may be many
        let mut all: Vec<_> = ready.collect();
        all.extend(std::iter::from_fn(|| self.later.pop().map(|(_, _, job)| job)));
        all
    }

    /// Its run has ended.
    pub(super) fn come_to_rest(&mut self) {
        self.ready.lock().running = None;
        self.phase = LanePhase::IdleWorkers;
    }

    /// Takes the series out that it has.
    pub(super) fn take_series(&mut self) -> Vec<Arc<Job>> {
        self.later.remove_if(|job| job.is_series())
    }
}

/// What a worker holds. Keeps its scheduler alive, and lets the lane finish when it goes.
pub(super) struct LaneHandle {
    pub(super) handle: Arc<Handle>,
    pub(super) lane: LaneRef,
    /// That of the lane.
    pub(super) ready: Arc<LaneQueue>,
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
        self.engine().submit_to_lane(self.lane, &self.ready, Work::Once(task), delay, None)
    }

    fn schedule_periodically_task(
        &self,
        initial: Duration,
        period: Duration,
        task: PeriodicTask,
    ) -> Result<Disposable, Rejected> {
        let (work, rhythm) = task.into_series(period);
        self.engine().submit_to_lane(self.lane, &self.ready, work, initial, Some(rhythm))
    }

    fn dispose(&self) {
        self.engine().locked(|state, after| {
            state.close_lane(self.lane, after);
            state.end_if_done(after);
        });
    }

    fn is_disposed(&self) -> bool {
        let engine = self.engine();
        engine.is_disposed() || engine.lock().lanes.get(self.lane).is_none_or(|cell| cell.closed)
    }

    fn queued(&self) -> usize {
        self.engine().lock().lanes.get(self.lane).map_or(0, LaneCell::len)
    }
}

impl Drop for LaneHandle {
    fn drop(&mut self) {
        self.engine().locked(|state, after| {
            if let Some(cell) = state.lanes.get_mut(self.lane) {
                cell.finishing = true;
                if cell.phase == LanePhase::IdleWorkers && !cell.closed {
                    state.rest_lane(self.lane, after);
                }
            }
            state.end_if_done(after);
        });
    }
}

/// What a lane does under the lock of its scheduler.
impl State {
    /// What is at `spot` waits in a lane whose running job is the calling thread's.
    pub(super) fn lane_runs_on_this_thread(&self, spot: Location) -> bool {
        let (Location::Ready(lane, _) | Location::Later(lane, _)) = spot else { return false };
        let cell = self.lanes.at(lane).and_then(|lane| self.lanes.get(lane));
        let running = cell.and_then(|cell| cell.ready.lock().running.clone());
        running.is_some_and(|job| job.runs_on_this_thread())
    }

    /// A lane with its home where `permit` says.
    pub(super) fn new_lane(&mut self, permit: Permit, finishing: bool) -> LaneRef {
        self.lanes.insert(LaneCell::new(permit, finishing))
    }

    /// The lane's next job, if it is the lane's turn and the job is due; the lane is then running.
    pub(super) fn claim_head(&mut self, lane: LaneRef, after: &mut Deferred) -> Option<Assigned> {
        let cell = self.lanes.get_mut(lane)?;
        if cell.phase != LanePhase::InLine {
            return None; // somebody else has it
        }
        let Some((job, more)) = cell.pop_due(&self.clock) else {
            cell.phase = LanePhase::IdleWorkers;
            self.rest_lane(lane, after);
            return None;
        };
        cell.phase = LanePhase::Running;
        let more = (more && !matches!(self.shape, Shape::PerTask)).then(|| Arc::clone(&cell.ready));
        let (home, timer) = (cell.home, cell.timer.take());
        if let Some(key) = timer {
            self.timers.remove(key); // somebody was faster than the alarm
        }
        job.set_spot(Location::Nowhere);
        self.waiting -= 1;
        if !job.is_series() {
            self.free_place(home);
        }
        // Where work may not move, those who wait for the same thread take turns task by task.
        let more = more.filter(|_| self.soft || self.slot(home).is_some_and(|slot| slot.line.is_empty()));
        if more.is_some() {
            self.lanes.list(lane);
        }
        Some(Assigned { job, lane: Some(lane), permit: None, more })
    }

    /// Counts what went on in a lane without the lock. For each run that ended the next job was taken from the lane.
    fn settle(&mut self, home: SlotRef, gone_on: Uncounted) {
        let Uncounted { came, runs, unused } = gone_on;
        self.counted.submitted += came;
        self.counted.add(runs);
        self.waiting = self.waiting + came - runs.all();
        if let Some(home) = self.slot(home) {
            home.places -= runs.all() + unused;
            self.places -= runs.all() + unused;
        }
    }

    /// The same, and if nothing is ready in it the lane lets nobody in any more. True: something is ready.
    pub(super) fn settle_lane(&mut self, lane: LaneRef) -> bool {
        let Some(cell) = self.lanes.get(lane) else { return false };
        let (home, mut jobs) = (cell.home, cell.ready.lock());
        let empty = jobs.line.is_empty();
        if empty {
            jobs.shut();
        }
        let gone_on = jobs.take_uncounted();
        drop(jobs);
        self.settle(home, gone_on);
        if empty {
            self.lanes.unlist(lane);
        }
        !empty
    }

    /// Lets nobody into the lane without the lock, and counts what has been.
    fn shut_lane(&mut self, lane: LaneRef) {
        let Some(cell) = self.lanes.get(lane) else { return };
        let (home, mut jobs) = (cell.home, cell.ready.lock());
        jobs.shut();
        let gone_on = jobs.take_uncounted();
        drop(jobs);
        self.settle(home, gone_on);
    }

    /// The same for all lanes, for whoever wants to know exactly. It looks only at those where something may have gone on: at no
    /// more than have been opened since, and those that run. So to refuse many submissions is as quick with many lanes as with few.
    pub(super) fn shut_all(&mut self) {
        for place in (0..self.lanes.unsettled.len()).rev() {
            let lane = self.lanes.unsettled[place];
            self.shut_lane(lane);
            if self.lanes.get(lane).is_some_and(|cell| cell.phase != LanePhase::Running) {
                self.lanes.unlist(lane); // the last one takes its place, which has been looked at
            }
        }
    }

    /// Lets some jobs into the lane without the lock: it runs, or is in line, and takes no more than half of what is free.
    pub(super) fn open_lane(&mut self, lane: LaneRef) {
        const AT_A_TIME: u64 = 64;
        let (cap, total, places) = (self.cap, self.total_capacity(), self.places);
        let Some(cell) = self.lanes.get(lane) else { return };
        let by_time = cell.by_time || !cell.later.is_empty();
        if cell.phase == LanePhase::IdleWorkers || by_time || cell.closed || cell.finishing {
            return;
        }
        let (home, ready) = (cell.home, Arc::clone(&cell.ready));
        let Some(slot) = self.slot(home) else { return };
        let mut jobs = ready.lock();
        if jobs.is_open() {
            return;
        }
        let left = cap.saturating_sub(slot.places).min(total.saturating_sub(places));
        let reserved = AT_A_TIME.min(left / 2);
        slot.places += reserved;
        self.places += reserved;
        jobs.open(reserved);
        drop(jobs);
        self.lanes.list(lane);
    }

    /// The lane has a job that is due, and is idle: finds a thread for it.
    pub(super) fn start_lane(&mut self, lane: LaneRef, after: &mut Deferred) {
        let Some(cell) = self.lanes.get_mut(lane) else { return };
        cell.phase = LanePhase::InLine;
        let home = cell.home;
        // A lane that has just run goes behind those who wait already; the thread that ran it takes the first of them.
        let others_first = self.soft && self.prefer.is_some() && self.in_line > 0;
        let to = if others_first { None } else { self.slot_for_lane(home) };
        let Some(index) = to else {
            if self.slot(home).is_some() {
                let place = self.push_line(home.index, Item::Lane(lane), after);
                if let Some(cell) = self.lanes.get_mut(lane) {
                    cell.place = Some(place);
                }
            }
            return;
        };
        let Some(mut handed) = self.claim_head(lane, after) else { return };
        handed.permit = (index != home.index).then(|| self.hold(index));
        self.hand(index, handed, after);
    }

    /// Where a lane could begin at once: with the thread that has just run it, at home, or with anybody who is free.
    fn slot_for_lane(&mut self, home: SlotRef) -> Option<usize> {
        if let Some(index) = self.preferred() {
            return Some(index);
        }
        let at_home = self.slot(home).filter(|slot| slot.is_free());
        let Some(slot) = at_home else { return self.pick_free() };
        let sleeps = matches!(slot.thread, Thread::Parked);
        // Somebody who looks for work is there sooner than one who sleeps.
        let looker = if sleeps && self.soft { self.held_looker() } else { None };
        looker.or(Some(home.index))
    }

    /// The lane does not run and is in no line: waits for its next job's time, or starts it, or closes.
    pub(super) fn rest_lane(&mut self, lane: LaneRef, after: &mut Deferred) {
        let is_ready = self.settle_lane(lane);
        let Some(cell) = self.lanes.get_mut(lane) else { return };
        if let Some(key) = cell.timer.take() {
            self.timers.remove(key);
        }
        if is_ready || cell.has_due(&self.clock) {
            return self.start_lane(lane, after);
        }
        match cell.later.first_due() {
            Some(due) => {
                let number = self.next();
                let timer = self.timers.insert(due, number, lane);
                if let Some(cell) = self.lanes.get_mut(lane) {
                    cell.timer = Some(timer);
                }
            }
            None if cell.closed || cell.finishing => {
                let permit = cell.permit.take();
                self.lanes.remove(lane);
                if let Some(permit) = permit {
                    self.give_back(permit, after);
                }
            }
            None => {}
        }
    }

    /// Puts a job into its lane; `due` and the order of coming decide its turn. `None`: it is due now.
    pub(super) fn put_into_lane(
        &mut self,
        lane: LaneRef,
        job: &Arc<Job>,
        due: Option<Tick>,
        after: &mut Deferred,
    ) {
        let number = self.next();
        let Some(cell) = self.lanes.get_mut(lane) else { return };
        self.waiting += 1;
        cell.by_time |= job.is_series();
        if job.is_series() && job.is_awaited() {
            cell.note_awaited(job); // since a run of it, when it was not in here
        }
        if due.is_none() && cell.later.is_empty() && !cell.by_time {
            cell.ready.lock().push(lane, job);
        } else {
            cell.ready.lock().shut();
            let due = due.unwrap_or_else(|| self.clock.tick());
            let key = cell.later.insert(due, number, Arc::clone(job));
            job.set_spot(Location::Later(lane.index, key));
        }
        if cell.phase == LanePhase::IdleWorkers {
            self.rest_lane(lane, after);
        }
    }

    /// Takes a job out of its lane that waits there.
    pub(super) fn take_out_of_lane(
        &mut self,
        lane: LaneRef,
        spot: Location,
        after: &mut Deferred,
    ) -> Option<()> {
        let cell = self.lanes.get_mut(lane)?;
        match spot {
            Location::Ready(_, place) => cell.ready.lock().line.remove(place)?,
            Location::Later(_, key) => cell.later.remove(key)?,
            _ => return None,
        };
        let home = cell.home;
        self.free_place(home);
        self.look_at_lane_again(lane, after);
        Some(())
    }

    /// Throws away all that the lane has, and takes nothing more.
    pub(super) fn close_lane(&mut self, lane: LaneRef, after: &mut Deferred) {
        let Some(cell) = self.lanes.get_mut(lane) else { return };
        if std::mem::replace(&mut cell.closed, true) {
            return;
        }
        self.shut_lane(lane);
        let Some(cell) = self.lanes.get_mut(lane) else { return };
        let (home, thrown_out, running) = (cell.home, cell.take_all(), cell.ready.lock().running.clone());
        let at_rest = cell.phase != LanePhase::Running;
        for job in thrown_out {
            job.set_spot(Location::Nowhere);
            self.free_place(home);
            self.cancel_waiting(job, after);
        }
        after.cancel.extend(running); // last: it is interrupted when nothing is left to come after it
        if at_rest {
            self.step_out_of_line(lane);
            self.rest_lane(lane, after);
        }
    }

    /// The lane is in no line, and idle unless it runs.
    pub(super) fn step_out_of_line(&mut self, lane: LaneRef) {
        let Some(cell) = self.lanes.get_mut(lane).filter(|cell| cell.phase == LanePhase::InLine) else {
            return;
        };
        cell.phase = LanePhase::IdleWorkers;
        let home = cell.home;
        if let Some(place) = cell.place.take() {
            self.take_item_out_of_line(home.index, place);
        }
    }

    /// Jobs were taken out of the lane: if nothing in it is due any more it has no business in a line.
    pub(super) fn look_at_lane_again(&mut self, lane: LaneRef, after: &mut Deferred) {
        self.shut_lane(lane);
        let Some(cell) = self.lanes.get(lane) else { return };
        match cell.phase {
            LanePhase::Running => {}
            LanePhase::InLine if cell.has_due(&self.clock) => {}
            LanePhase::InLine | LanePhase::IdleWorkers => {
                self.step_out_of_line(lane);
                self.rest_lane(lane, after);
            }
        }
    }

    /// A lane could start something that is due now at once.
    pub(super) fn could_start_now(&self, lane: LaneRef) -> bool {
        let Some(cell) = self.lanes.get(lane) else { return false };
        if cell.phase != LanePhase::IdleWorkers || cell.has_due(&self.clock) {
            return false;
        }
        let home = self.slots.get(cell.home.index).and_then(Option::as_ref);
        home.is_some_and(Slot::is_free) || (self.soft && self.has_free())
    }

    pub(super) fn has_free(&self) -> bool {
        self.count < self.max || self.slots.iter().flatten().any(Slot::is_free)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn lane(lanes: &mut Lanes) -> LaneRef {
        lanes.insert(LaneCell::new(Permit::new(SlotRef { index: 0, id: 0 }), false))
    }

    fn assert_each_knows_its_place(lanes: &Lanes, listed: &[LaneRef]) {
        assert_eq!(lanes.unsettled.len(), listed.len());
        for lane in listed {
            let place = lanes.get(*lane).expect("it is there").listed.expect("it is listed");
            assert_eq!(lanes.unsettled[place], *lane);
        }
    }

    #[test]
    fn a_list_of_unsettled_lanes_has_each_once_and_none_that_is_gone() {
        let mut lanes = Lanes::default();
        let [a, b, c, d] = [(); 4].map(|()| lane(&mut lanes));
        for listed in [a, b, c, d, b, a] {
            lanes.list(listed);
        }
        assert_each_knows_its_place(&lanes, &[a, b, c, d]);
        lanes.remove(b);
        let another = lane(&mut lanes);
        assert_eq!(another.index, b.index, "in the place of the one that is gone");
        assert_each_knows_its_place(&lanes, &[a, c, d]);
        lanes.list(another);
        [a, b, a, d].into_iter().for_each(|unlisted| lanes.unlist(unlisted));
        assert_each_knows_its_place(&lanes, &[c, another]);
    }
}
