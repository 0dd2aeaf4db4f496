//! The end of runs, the cancellation of work, and the end of a scheduler.

use std::thread::JoinHandle;

use super::State;
use super::lanes::LaneCell;
use crate::schedulers::end::Phase;
use crate::schedulers::engine::Engine;
use crate::schedulers::engine::deferred::Deferred;
use crate::schedulers::engine::model::{Assigned, Done, Item, LaneRef, Permit, Shape, SlotRef, Start, Waits};
use crate::schedulers::job::{JobRef, Location};
use crate::sync::Arc;
use crate::task::Outcome;
use crate::time::clock::Tick;

impl State {
    // ---- runs

    /// Records the end of a run: figures, lap, lane and permit.
    pub(crate) fn finish(&mut self, done: &Done<'_>, permit: Option<Permit>, deferred: &mut Deferred) {
        self.counters.end(done.outcome);
        if let Some(slot) = done.slot.and_then(|slot| self.slots.get_mut(slot)) {
            slot.stop();
            slot.lap_mut().end(done.runs(), done.is_late() || !self.shape.keeps_threads(), &self.meter);
        }
        if done.slot.is_none() && done.lane.is_none() {
            self.in_place.retain(|job| !job.is(done.job));
        }
        if let Some(lane) = done.lane {
            if done.slot.is_none() {
                self.lanes.end_in_place(lane);
            }
            self.preferred = done.slot.map(|slot| slot.index);
            self.finish_lane_run(lane, done, deferred);
            self.preferred = None;
        }
        if let Some(permit) = permit {
            self.release(permit, deferred);
        }
    }

    fn finish_lane_run(&mut self, lane: LaneRef, done: &Done<'_>, deferred: &mut Deferred) {
        let Some(cell) = self.lanes.get_mut(lane) else { return };
        cell.stop();
        let (home, was_due) = (cell.home(), cell.was_due());
        let goes_on = done.again && !cell.is_closed() && self.phase() == Phase::Live;
        if let Some(schedule) = done.job.schedule() {
            // A cancel after this check finds the job in its lane.
            if goes_on && !done.job.is_cancelled() {
                self.counters.accept();
                let next = schedule.next(was_due, self.now());
                return self.add_to_lane(lane, done.job, Waits::Due(next), deferred);
            }
            self.free_places(home, 1);
            if done.outcome == Outcome::Panicked && !done.again && !done.job.is_cancelled() {
                self.series_ended += 1;
            }
            if done.again {
                deferred.end_after_run.push(done.job.clone());
            }
        }
        self.rest_lane(lane, deferred);
    }

    /// Undoes the assignment of work. The job counts as waiting until the caller counts it
    /// otherwise.
    pub(super) fn unassign(&mut self, assigned: Assigned, deferred: &mut Deferred) {
        self.counters.unstart();
        if let Some(lane) = assigned.lane
            && let Some(cell) = self.lanes.get_mut(lane)
        {
            cell.stop();
            let home = cell.home();
            if assigned.job.is_periodic() {
                self.free_places(home, 1);
            }
            self.rest_lane(lane, deferred);
        }
        if let Some(permit) = assigned.permit {
            self.release(permit, deferred);
        }
    }

    // ---- cancelling

    /// Handles a job that was cancelled while it waited.
    pub(crate) fn job_cancelled(&mut self, job: &JobRef, deferred: &mut Deferred) {
        if self.remove_job(job, deferred) {
            self.counters.cancel();
        }
        self.end_if_done(deferred);
    }

    /// Removes a job from where it waits. Returns false if it does not wait.
    pub(super) fn remove_job(&mut self, job: &JobRef, deferred: &mut Deferred) -> bool {
        let location = job.location();
        job.set_location(Location::Nowhere);
        let removed = match location {
            Location::Nowhere => None,
            Location::Timers(key) => self.timers.remove_job(job, key).map(|_| self.capacity.free_unplaced()),
            Location::Queued(index, place) => {
                self.remove_queued(index as usize, place).map(|(permit, _)| self.release(permit, deferred))
            }
            Location::Ready(lane, _) | Location::Later(lane, _) => {
                self.remove_from_lane(lane, location, deferred)
            }
        };
        removed.is_some()
    }

    /// Removes a queued job and frees its place. Also returns the time since which it waited.
    pub(super) fn remove_queued(&mut self, index: usize, place: u64) -> Option<(Permit, Tick)> {
        let removed = self.queues.remove(&mut self.slots, index, place)?;
        let Item::Job(_, permit, since) = removed else { return None };
        self.free_places(permit.slot(), 1);
        Some((permit, since))
    }

    fn remove_from_lane(&mut self, lane: u32, location: Location, deferred: &mut Deferred) -> Option<()> {
        let lane = self.lanes.at(lane)?;
        let home = self.lanes.get(lane)?.home();
        self.lanes.change(lane, |cell| cell.remove(location))??;
        self.free_places(home, 1);
        self.jobs_removed(lane, deferred);
        Some(())
    }

    /// Cancels a job that has been removed from where it waited.
    pub(super) fn cancel_waiting(&mut self, job: JobRef, deferred: &mut Deferred) {
        self.counters.cancel();
        deferred.cancel.push(job);
    }

    fn cancel_assigned(&mut self, assigned: Assigned, deferred: &mut Deferred) {
        let job = assigned.job.clone();
        self.unassign(assigned, deferred);
        self.cancel_waiting(job, deferred);
    }

    fn cancel_item(&mut self, item: Item, deferred: &mut Deferred) {
        match item {
            Item::Job(job, permit, _) => {
                job.set_location(Location::Nowhere);
                self.free_places(permit.slot(), 1);
                self.release(permit, deferred);
                self.cancel_waiting(job, deferred);
            }
            Item::Lane(lane, ..) => self.close_lane(lane, deferred),
        }
    }

    // ---- starts that failed

    /// Handles a failed start whose submitter has returned. `retry` is the time of the next
    /// attempt. If it is `None`, the work of the slot is cancelled.
    pub(crate) fn start_failed(&mut self, start: Start, retry: Option<Tick>, deferred: &mut Deferred) {
        match retry.filter(|_| self.phase() != Phase::Disposed) {
            Some(at) => {
                self.timers.set_retry(at);
                self.relieve_stuck(deferred); // a thread may have become free meanwhile
            }
            None if self.has_no_thread_since(start) => self.abandon_slot(start.slot, deferred),
            None => {}
        }
        self.end_if_done(deferred);
    }

    /// Cancels all work that relies on the thread of a slot, because that thread will never arrive.
    pub(crate) fn abandon_slot(&mut self, slot: SlotRef, deferred: &mut Deferred) {
        let Some(there) = self.slots.get_mut(slot) else { return };
        let assigned = there.take_assigned();
        let items = self.queues.take_homed(&mut self.slots, slot);
        if let Some(assigned) = assigned {
            self.cancel_assigned(assigned, deferred);
        }
        items.into_iter().for_each(|item| self.cancel_item(item, deferred));
    }

    // ---- the end of the scheduler

    pub(crate) fn begin_drain(&mut self, engine: &Arc<Engine>, deferred: &mut Deferred) {
        deferred.news.0 |= self.resume(deferred);
        if self.end.advance(Phase::Draining) == Phase::Live {
            self.end.keep_alive(Arc::clone(engine));
            self.lanes.all().into_iter().for_each(|lane| self.drain_lane(lane, deferred));
        }
        self.end_if_done(deferred);
    }

    /// Ends the periodic jobs of a lane and lets the lane close when it is empty.
    fn drain_lane(&mut self, lane: LaneRef, deferred: &mut Deferred) {
        let Some(cell) = self.lanes.get_mut(lane) else { return };
        cell.finish();
        let (home, running) = (cell.home(), cell.queue().running());
        let periodic = self.lanes.change(lane, LaneCell::take_periodic).unwrap_or_default();
        deferred.end_after_run.extend(running.filter(|job| job.is_periodic()));
        for job in periodic {
            job.set_location(Location::Nowhere);
            self.free_places(home, 1);
            self.cancel_waiting(job, deferred);
        }
        self.jobs_removed(lane, deferred);
    }

    /// Cancels waiting jobs and interrupts running ones. Returns true for the first call.
    pub(crate) fn dispose(&mut self, deferred: &mut Deferred) -> bool {
        let is_first = self.end.advance(Phase::Disposed) < Phase::Disposed;
        if is_first {
            self.cancel_all(deferred); // first: a resumed thread finds no work
            deferred.news.0 |= self.resume(deferred);
        }
        self.end_if_done(deferred);
        is_first
    }

    fn cancel_all(&mut self, deferred: &mut Deferred) {
        for lane in self.lanes.all() {
            self.close_lane(lane, deferred);
        }
        for job in self.timers.take_all() {
            job.set_location(Location::Nowhere);
            self.capacity.free_unplaced();
            self.cancel_waiting(job, deferred);
        }
        for item in self.queues.take_all(&mut self.slots) {
            self.cancel_item(item, deferred);
        }
        for index in self.slots.indices() {
            self.cancel_slot(index, deferred);
        }
        deferred.cancel.extend(self.in_place.iter().cloned());
    }

    /// Interrupts the running job of a slot and cancels the assigned one.
    fn cancel_slot(&mut self, index: usize, deferred: &mut Deferred) {
        // No thread arrives for such work: none is started or woken for cancelled work.
        let is_waiting = self.slots.try_at(index).is_some_and(|slot| self.is_assigned_waiting(slot));
        let Some(slot) = self.slots.try_at_mut(index) else { return };
        deferred.cancel.extend(slot.running().cloned());
        let waiting = if is_waiting { slot.take_assigned() } else { None };
        deferred.cancel.extend(slot.assigned().map(|assigned| assigned.job.clone()));
        if let Some(assigned) = waiting {
            self.cancel_assigned(assigned, deferred);
        }
    }

    /// Records that a thread has left. `place` is its index in the list of threads.
    pub(crate) fn thread_left(&mut self, slot: SlotRef, place: usize, deferred: &mut Deferred) {
        self.threads.remove(place);
        self.end.thread_left();
        let thread = self.slots.get_mut(slot).and_then(|there| there.thread_mut().take_join());
        self.end.remember(thread);
        self.end_if_done(deferred);
    }

    /// Records that the decorators of removed slots have been notified.
    pub(crate) fn slots_closed(&mut self, slots: usize, deferred: &mut Deferred) {
        self.end.slots_closed(slots);
        self.end_if_done(deferred);
    }

    /// If an ending scheduler has no work left, removes free slots, so their threads exit. Reports
    /// the end if nothing is left.
    pub(crate) fn end_if_done(&mut self, deferred: &mut Deferred) {
        let is_done = match self.phase() {
            Phase::Live => false,
            Phase::Draining => self.counters.queued() == 0 && self.counters.running() == 0,
            Phase::Disposed => self.counters.queued() == 0,
        };
        if !is_done {
            return;
        }
        if !self.are_all_slots_busy() {
            self.remove_free_slots(deferred);
        }
        if self.has_ended() {
            // This may run twice in a critical section.
            deferred.engine = deferred.engine.take().or_else(|| self.end.take_engine());
            deferred.ended = true;
            deferred.news.1 |= self.end.report();
        }
    }

    /// Returns true if no slot of a scheduler over an executor is free. Such a scheduler has a slot
    /// per task, so a scan of all slots at the end of each task would be slow. No work is queued
    /// here, so each slot that is not free has a running job. Jobs that run in place count as
    /// running but have no slot. Then a free slot may be found only after those have ended.
    fn are_all_slots_busy(&self) -> bool {
        matches!(self.shape, Shape::Bursts) && self.slots.count() as u64 <= self.counters.running()
    }

    fn remove_free_slots(&mut self, deferred: &mut Deferred) {
        for index in self.slots.indices() {
            if self.slots.is_free(index) {
                self.remove_slot(index, deferred);
            }
        }
    }

    /// Returns true if all work is done and no thread is left.
    pub(crate) fn has_ended(&self) -> bool {
        self.end.is_over() && self.counters.queued() == 0 && self.counters.running() == 0
    }

    // ---- joining threads

    pub(crate) fn remember_thread(&mut self, thread: JoinHandle<()>) {
        self.end.remember(Some(thread));
    }

    pub(crate) fn take_exited(&mut self) -> Vec<JoinHandle<()>> {
        self.end.take_exited()
    }

    /// Takes those threads that have left and are `selected`, for the caller to join.
    pub(crate) fn take_to_join(&mut self, selected: impl Fn(&JoinHandle<()>) -> bool) -> Vec<JoinHandle<()>> {
        self.end.take_to_join(selected)
    }

    pub(crate) fn joined(&mut self, threads: usize) {
        self.end.joined(threads);
    }

    pub(crate) fn has_joined_all(&self) -> bool {
        self.end.has_joined_all()
    }
}
