//! The operations of lanes under the scheduler's lock: accept jobs, start, wait for a due time,
//! close.

use super::State;
use super::lanes::{LaneCell, LanePhase};
use super::slot_thread::ThreadState;
use crate::schedulers::engine::deferred::Deferred;
use crate::schedulers::engine::lane_queue::Unsettled;
use crate::schedulers::engine::model::{Assigned, Full, Item, LaneRef, Shape, SlotRef, Waits};
use crate::schedulers::job::{JobRef, Location};
use crate::sync::Arc;

impl State {
    // ---- for workers

    /// Returns the home slot of a lane, if the lane accepts jobs.
    pub(crate) fn home_of_open_lane(&self, lane: LaneRef) -> Option<SlotRef> {
        self.lanes.get(lane).filter(|cell| cell.accepts()).map(LaneCell::home)
    }

    /// Accepts a job in a lane, if there is capacity.
    pub(crate) fn accept_in_lane(
        &mut self,
        lane: LaneRef,
        job: &JobRef,
        waits: Waits,
        deferred: &mut Deferred,
    ) -> Result<(), Full> {
        let home = self.lanes.get(lane).map(LaneCell::home);
        let home = home.expect("the caller has found the lane open in this critical section");
        let is_due = matches!(waits, Waits::Accepted(_)) && !job.is_periodic();
        let starts_now = is_due && self.could_start_now(lane);
        if starts_now && let Some(slot) = self.slots.get_mut(home) {
            self.capacity.take_unchecked(slot); // the start frees it
        } else {
            self.take_place(home)?;
        }
        self.counters.accept();
        self.add_to_lane(lane, job, waits, deferred);
        self.open_lane(lane);
        Ok(())
    }

    /// Returns true if the lane would immediately start a job that is due now.
    fn could_start_now(&self, lane: LaneRef) -> bool {
        let Some(cell) = self.lanes.get(lane) else { return false };
        if cell.phase() != LanePhase::Idle || cell.has_due(self.timers.clock()) {
            return false;
        }
        self.slots.is_free(cell.home().index) || (self.is_work_movable && self.slots.has_free())
    }

    pub(crate) fn lane_len(&self, lane: LaneRef) -> usize {
        self.lanes.get(lane).map_or(0, LaneCell::len)
    }

    pub(crate) fn is_lane_closed(&self, lane: LaneRef) -> bool {
        self.lanes.get(lane).is_none_or(LaneCell::is_closed)
    }

    /// Handles the drop of the lane's worker: the lane accepts no more jobs and finishes those it
    /// has.
    pub(crate) fn finish_lane(&mut self, lane: LaneRef, deferred: &mut Deferred) {
        if let Some(cell) = self.lanes.get_mut(lane) {
            cell.finish();
            if cell.phase() == LanePhase::Idle && !cell.is_closed() {
                self.rest_lane(lane, deferred);
            }
        }
        self.end_if_done(deferred);
    }

    /// Cancels all jobs of the lane. The lane accepts no more jobs.
    pub(crate) fn close_lane(&mut self, lane: LaneRef, deferred: &mut Deferred) {
        if !self.lanes.get_mut(lane).is_some_and(LaneCell::close) {
            return;
        }
        self.settle_lane(lane);
        let Some(cell) = self.lanes.get_mut(lane) else { return };
        let (home, running) = (cell.home(), cell.queue().running());
        let is_running = cell.phase() == LanePhase::Running;
        let removed = self.lanes.change(lane, LaneCell::take_all).unwrap_or_default();
        for job in removed {
            job.set_location(Location::Nowhere);
            self.free_places(home, 1);
            self.cancel_waiting(job, deferred);
        }
        deferred.cancel.extend(running); // last: no later job is left when it is interrupted
        if !is_running {
            self.leave_queue(lane);
            self.rest_lane(lane, deferred);
        }
    }

    /// Returns true if `location` is in a lane whose running job belongs to the calling thread.
    pub(crate) fn is_behind_this_thread(&self, location: Location) -> bool {
        let (Location::Ready(lane, _) | Location::Later(lane, _)) = location else { return false };
        let cell = self.lanes.at(lane).and_then(|lane| self.lanes.get(lane));
        let running = cell.and_then(|cell| cell.queue().running());
        running.is_some_and(|job| job.runs_on_this_thread())
    }

    // ---- starting and resting

    /// Adds a job whose place is taken. Due time and order of arrival decide when it runs.
    pub(super) fn add_to_lane(&mut self, lane: LaneRef, job: &JobRef, waits: Waits, deferred: &mut Deferred) {
        let phase = self.lanes.change(lane, |cell| {
            cell.add(lane, job, waits, self.timers.clock());
            cell.phase()
        });
        if phase == Some(LanePhase::Idle) {
            self.rest_lane(lane, deferred);
        }
    }

    /// Handles a lane that neither runs nor is queued. Starts its next job, sets a timer for it, or
    /// removes the lane if it is empty and accepts no more jobs.
    pub(super) fn rest_lane(&mut self, lane: LaneRef, deferred: &mut Deferred) {
        let has_ready = self.settle_idle_lane(lane);
        let Some(cell) = self.lanes.get_mut(lane) else { return };
        if let Some(timer) = cell.take_timer() {
            self.timers.remove_lane(timer);
        }
        if has_ready || cell.has_due(self.timers.clock()) {
            return self.start_lane(lane, deferred);
        }
        match cell.next_due() {
            Some(due) => cell.set_timer(self.timers.add_lane(lane, due)),
            None if !cell.accepts() => {
                if let Some(permit) = self.lanes.remove(lane) {
                    self.release(permit, deferred);
                }
            }
            None => {}
        }
    }

    /// Finds a slot for an idle lane that has a due job, or queues the lane.
    pub(super) fn start_lane(&mut self, lane: LaneRef, deferred: &mut Deferred) {
        let Some(cell) = self.lanes.get_mut(lane) else { return };
        cell.set_phase(LanePhase::Queued);
        let home = cell.home();
        // A lane that has just run is queued behind older work. The thread that ran it takes the
        // oldest work.
        let others_first = self.is_work_movable && self.preferred.is_some() && self.queues.has_shared();
        let slot = if others_first { None } else { self.slot_for_lane(home) };
        let Some(index) = slot else { return self.enqueue_lane(lane, home, deferred) };
        let Some(mut assigned) = self.start_lane_job(lane, deferred) else { return };
        assigned.permit = (index != home.index).then(|| self.slots.hold(index));
        self.assign(index, assigned, deferred);
    }

    fn enqueue_lane(&mut self, lane: LaneRef, home: SlotRef, deferred: &mut Deferred) {
        if self.slots.get(home).is_none() {
            return;
        }
        if let Some(cell) = self.lanes.get_mut(lane) {
            cell.notify_awaiting(&mut deferred.wake);
        }
        let place = self.enqueue(Item::Lane(lane, home), deferred);
        if let Some(cell) = self.lanes.get_mut(lane) {
            cell.set_place(place);
        }
    }

    /// Returns a slot where a lane can start at once: that of the thread that has just run it, its
    /// home slot, or any free slot.
    fn slot_for_lane(&mut self, home: SlotRef) -> Option<usize> {
        let preferred = self.preferred.filter(|index| self.is_work_movable && self.slots.is_free(*index));
        if preferred.is_some() {
            return preferred;
        }
        if !self.slots.get(home).is_some_and(|slot| slot.is_free()) {
            return self.free_slot();
        }
        let is_parked = self.slots.at(home.index).thread().state() == ThreadState::Parked;
        // A searching thread takes the work sooner than a parked one.
        let searcher =
            if is_parked && self.is_work_movable { self.wakes.held_searcher(&self.slots) } else { None };
        searcher.or(Some(home.index))
    }

    /// Returns a free slot for work whose home slot is busy. Creates one if that is allowed; the
    /// first thread that runs there announces it to decorators.
    fn free_slot(&mut self) -> Option<usize> {
        if !self.is_work_movable {
            return None;
        }
        let free = self.slots.newest_idle().or_else(|| self.wakes.held_searcher(&self.slots));
        let timers = &self.timers;
        free.or_else(|| self.slots.first_free())
            .or_else(|| self.slots.add_below_max(|| timers.clock().tick()))
    }

    /// Starts the next job of a queued lane. Returns `None` if no job is due or another thread has
    /// taken the lane.
    pub(super) fn start_lane_job(&mut self, lane: LaneRef, deferred: &mut Deferred) -> Option<Assigned> {
        let cell = self.lanes.get_mut(lane)?;
        if cell.phase() != LanePhase::Queued {
            return None;
        }
        let started = self.lanes.change(lane, |cell| cell.start_due(self.timers.clock()))?;
        let cell = self.lanes.get_mut(lane)?;
        let Some((job, since, has_more)) = started else {
            cell.set_phase(LanePhase::Idle);
            self.rest_lane(lane, deferred);
            return None;
        };
        cell.set_phase(LanePhase::Running);
        let (home, queue) = (cell.home(), Arc::clone(cell.queue()));
        if let Some(timer) = cell.take_timer() {
            self.timers.remove_lane(timer); // this thread was faster than the alarm
        }
        job.set_location(Location::Nowhere);
        self.counters.start();
        if !job.is_periodic() {
            self.free_places(home, 1);
        }
        let more = (has_more && self.may_run_on(home)).then_some(queue);
        if more.is_some() {
            self.lanes.mark_unsettled(lane);
        }
        Some(Assigned { job, lane: Some(lane), permit: None, more, since })
    }

    /// Returns true if a thread may run several jobs of a lane in a row. If work may not move,
    /// lanes that wait for the same thread take turns after each job.
    fn may_run_on(&self, home: SlotRef) -> bool {
        let is_alone = || self.slots.get(home).is_some_and(|slot| !slot.has_queued());
        !matches!(self.shape, Shape::PerTask) && (self.is_work_movable || is_alone())
    }

    /// Removes a queued lane from its queue and makes it idle.
    pub(super) fn leave_queue(&mut self, lane: LaneRef) {
        let cell = self.lanes.get_mut(lane);
        let Some(cell) = cell.filter(|cell| cell.phase() == LanePhase::Queued) else { return };
        cell.set_phase(LanePhase::Idle);
        let (home, place) = (cell.home(), cell.take_place());
        if let Some(place) = place {
            self.queues.remove(&mut self.slots, home.index, place);
        }
    }

    /// Updates a lane from which jobs were removed. If no job is due any more, the lane leaves its
    /// queue.
    pub(super) fn jobs_removed(&mut self, lane: LaneRef, deferred: &mut Deferred) {
        self.settle_lane(lane);
        let Some(cell) = self.lanes.get(lane) else { return };
        match cell.phase() {
            LanePhase::Running => {}
            LanePhase::Queued if cell.has_due(self.timers.clock()) => {}
            LanePhase::Queued | LanePhase::Idle => {
                self.leave_queue(lane);
                self.rest_lane(lane, deferred);
            }
        }
    }

    // ---- settling: adding changes that were made without the scheduler's lock to the figures

    fn settle(&mut self, home: SlotRef, unsettled: Unsettled) {
        self.counters.settle(unsettled.accepted(), unsettled.outcomes());
        self.free_places(home, unsettled.freed_places());
    }

    /// Settles a lane. It then accepts no more jobs without the scheduler's lock.
    fn settle_lane(&mut self, lane: LaneRef) {
        let Some(cell) = self.lanes.get(lane) else { return };
        let (home, unsettled) = (cell.home(), cell.queue().settle());
        self.settle(home, unsettled);
    }

    /// Settles a lane that does not run. Returns true if it has a ready job. If not, it accepts no
    /// more jobs without the scheduler's lock.
    fn settle_idle_lane(&mut self, lane: LaneRef) -> bool {
        let Some(cell) = self.lanes.get(lane) else { return false };
        let (home, (unsettled, is_empty)) = (cell.home(), cell.queue().settle_and_shut_if_empty());
        self.settle(home, unsettled);
        if is_empty {
            self.lanes.mark_settled(lane);
        }
        !is_empty
    }

    /// Settles all lanes, for exact figures. Visits only lanes that may have unsettled changes, so
    /// the cost of a refusal does not grow with the number of lanes.
    pub(super) fn settle_all(&mut self) {
        for place in (0..self.lanes.unsettled().len()).rev() {
            let lane = self.lanes.unsettled()[place];
            self.settle_lane(lane);
            if self.lanes.get(lane).is_some_and(|cell| cell.phase() != LanePhase::Running) {
                // This moves the last lane to `place`. The loop has already visited that lane.
                self.lanes.mark_settled(lane);
            }
        }
    }

    /// Lets a lane that runs or is queued accept some jobs without the scheduler's lock.
    fn open_lane(&mut self, lane: LaneRef) {
        const MOST: u64 = 64;
        let Some(cell) = self.lanes.get(lane) else { return };
        if cell.phase() == LanePhase::Idle || !cell.is_in_order_of_arrival() || !cell.accepts() {
            return;
        }
        let (home, queue) = (cell.home(), Arc::clone(cell.queue()));
        let Some(slot) = self.slots.get_mut(home) else { return };
        queue.open(|| self.capacity.reserve(slot, MOST));
        self.lanes.mark_unsettled(lane);
    }
}
