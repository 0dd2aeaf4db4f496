//! How runs end, and how a scheduler ends.

use super::Shape;
use super::lane::LaneRef;
use super::lane_queue::Runs;
use super::slot::{Assigned, Item, Permit, Slot, SlotRef, Thread};
use super::state::{Deferred, Phase, State};
use crate::schedulers::job::{Job, Location};
use crate::sync::Arc;
use crate::task::Outcome;

/// What a thread has to tell about a run.
pub(super) struct Done<'a> {
    pub(super) job: &'a Arc<Job>,
    pub(super) lane: Option<LaneRef>,
    /// The slot whose thread ran it as its own work.
    pub(super) slot: Option<SlotRef>,
    pub(super) outcome: Outcome,
    /// It is a series, and its body is ready for another run.
    pub(super) again: bool,
}

impl State {
    /// A run has ended, of a job that is not in any line.
    pub(super) fn finish(&mut self, done: Done<'_>, after: &mut Deferred) {
        self.running -= 1;
        let mut run = Runs::default();
        run.count(done.outcome);
        self.counted.add(run);
        if let Some(slot) = done.slot
            && let Some(slot) = self.slot(slot)
        {
            slot.running = None;
        }
        let Some(lane) = done.lane else { return };
        let Some(cell) = self.lanes.get_mut(lane) else { return };
        cell.come_to_rest();
        let (home, due, goes_on) = (cell.home, cell.due, done.again && !cell.closed);
        self.prefer = done.slot.map(|slot| slot.index).filter(|index| *index < self.slots.len());
        if done.job.is_series() {
            if let Some(rhythm) = done.job.rhythm()
                && goes_on
                && self.phase == Phase::Live
                && !done.job.is_cancelled()
            {
                self.counted.submitted += 1;
                let next = rhythm.next(due, self.now());
                self.put_into_lane(lane, done.job, Some(next), after);
                self.prefer = None;
                return;
            }
            self.free_place(home);
            if done.again {
                after.end_series.push(Arc::clone(done.job));
            }
        }
        self.rest_lane(lane, after);
        self.prefer = None;
    }

    /// Takes back a job that was accepted a moment ago. False: somebody has it already.
    pub(super) fn undo(&mut self, job: &Arc<Job>, after: &mut Deferred) -> bool {
        let has_it = |slot: &Slot| slot.handed.as_ref().is_some_and(|handed| Arc::ptr_eq(&handed.job, job));
        let at = self.slots.iter().position(|slot| slot.as_ref().is_some_and(has_it));
        let Some(index) = at else { return self.take_out(job, after).is_some() };
        let handed = self.at(index).handed.take().expect("found there");
        self.unhand(handed, after);
        true
    }

    /// Something that was handed to a thread will not run there.
    pub(super) fn unhand(&mut self, handed: Assigned, after: &mut Deferred) {
        self.running -= 1;
        if let Some(lane) = handed.lane
            && let Some(cell) = self.lanes.get_mut(lane)
        {
            cell.come_to_rest();
            let home = cell.home;
            if handed.job.is_series() {
                self.free_place(home);
            }
            self.rest_lane(lane, after);
        }
        if let Some(permit) = handed.permit {
            self.give_back(permit, after);
        }
    }

    /// There will be no thread for this slot, and nobody who could be told: cancels what relied on it.
    pub(super) fn abandon_slot(&mut self, slot: SlotRef, after: &mut Deferred) {
        let Some(there) = self.slot(slot) else { return };
        let handed = there.handed.take();
        let line: Vec<_> = there.line.take_all().collect();
        self.in_line -= line.len();
        if let Some(handed) = handed {
            let job = Arc::clone(&handed.job);
            self.counted.cancelled += 1;
            after.cancel.push(job);
            self.unhand(handed, after);
        }
        for item in line {
            match item {
                Item::Job(job, permit) => self.cancel_in_line(job, permit, after),
                Item::Lane(lane) => self.close_lane(lane, after),
            }
        }
    }

    /// Throws away all that waits; what runs is to be interrupted.
    pub(super) fn throw_out_all(&mut self, after: &mut Deferred) {
        for lane in self.lanes.all() {
            self.close_lane(lane, after);
        }
        while self.timers.pop().is_some() {}
        self.look_ahead = None;
        for job in self.delayed.take_out(|job, _| Ok(job)) {
            job.set_spot(Location::Nowhere);
            self.free_place_anywhere();
            self.cancel_waiting(job, after);
        }
        for index in 0..self.slots.len() {
            let Some(slot) = self.slots[index].as_mut() else { continue };
            let line: Vec<_> = slot.line.take_all().collect();
            self.in_line -= line.len();
            after.cancel.extend(slot.handed.as_ref().map(|handed| Arc::clone(&handed.job)));
            after.cancel.extend(slot.running.clone());
            // If the thread did not start nobody comes, and to try again for what is cancelled would be of no use.
            let stuck = if matches!(slot.thread, Thread::None) { slot.handed.take() } else { None };
            for item in line {
                if let Item::Job(job, permit) = item {
                    self.cancel_in_line(job, permit, after);
                }
            }
            if let Some(handed) = stuck {
                self.counted.cancelled += 1;
                self.unhand(handed, after);
            }
        }
    }

    /// A task was in a line, and is thrown away.
    fn cancel_in_line(&mut self, job: Arc<Job>, permit: Permit, after: &mut Deferred) {
        job.set_spot(Location::Nowhere);
        self.free_place(permit.slot());
        self.give_back(permit, after);
        self.cancel_waiting(job, after);
    }

    pub(super) fn cancel_waiting(&mut self, job: Arc<Job>, after: &mut Deferred) {
        self.waiting -= 1;
        self.counted.cancelled += 1;
        after.cancel.push(job);
    }

    /// Ends all series, and lets lanes close as soon as they are empty.
    pub(super) fn drain(&mut self, after: &mut Deferred) {
        for lane in self.lanes.all() {
            let Some(cell) = self.lanes.get_mut(lane) else { continue };
            cell.finishing = true;
            let (home, series) = (cell.home, cell.take_series());
            after.end_series.extend(cell.ready.lock().running.clone().filter(|job| job.is_series()));
            for job in series {
                job.set_spot(Location::Nowhere);
                self.free_place(home);
                self.cancel_waiting(job, after);
            }
            self.look_at_lane_again(lane, after);
        }
    }

    /// If nothing is left to do in a scheduler that ends: sends the threads home, and once they are gone tells
    /// everybody.
    pub(super) fn end_if_done(&mut self, after: &mut Deferred) {
        if self.phase == Phase::Live
            || self.waiting > 0
            || (self.phase == Phase::Draining && self.running > 0)
        {
            return;
        }
        if !self.all_busy() {
            self.remove_free_slots(after);
        }
        if self.has_ended() {
            after.kept = self.until_the_end.take();
            after.ended = true;
        }
    }

    /// No slot over an executor is free. There is one for each task, and to look at all of them whenever one ends would take
    /// long. Nothing is in line when this is asked, so each that is not free has something that runs. What runs in place has
    /// no slot and counts too; then a slot that is free may be seen only when that has ended.
    fn all_busy(&self) -> bool {
        matches!(self.shape, Shape::Bursts) && self.count as u64 <= self.running
    }

    fn remove_free_slots(&mut self, after: &mut Deferred) {
        for index in 0..self.slots.len() {
            if self.slots[index].as_ref().is_some_and(Slot::is_free) {
                self.remove_slot(index, after);
            }
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.phase != Phase::Live
            && self.waiting == 0
            && self.running == 0
            && self.live_threads == 0
            && self.carrying == 0
            && self.closing == 0
    }
}
