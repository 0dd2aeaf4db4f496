//! Pausing a scheduler: threads finish their current job and take no more until `resume`.
//!
//! A paused scheduler accepts, assigns and queues work as usual. But no thread is woken or started
//! for it, and a thread that asks for work gets none: it parks, or exits if the shape keeps no
//! threads. So during a pause a slot may have work and a parked thread, and work may be queued
//! while a slot is free. `resume` restores the invariants of [`State`]. A thread that waits for a
//! job of its own scheduler still runs it, because no other thread will.
//!
//! All of this happens under the scheduler's lock. A thread that continues in a lane does not take
//! that lock, so a flag in the queue of the lane stops it.

use super::State;
use super::lanes::LanePhase;
use super::slot::Slot;
use crate::schedulers::end::Phase;
use crate::schedulers::engine::deferred::Deferred;
use crate::schedulers::engine::model::LaneRef;
use crate::schedulers::job::JobRef;

impl State {
    pub(crate) fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Pauses the scheduler. Returns false if it was already paused or is ending.
    pub(crate) fn pause(&mut self, deferred: &mut Deferred) -> bool {
        if self.is_paused || self.phase() != Phase::Live {
            return false;
        }
        self.is_paused = true;
        for lane in self.lanes.all() {
            let cell = self.lanes.get(lane).filter(|cell| cell.phase() == LanePhase::Running);
            cell.into_iter().for_each(|cell| cell.queue().set_paused(true));
        }
        self.notify_waiters_of_assigned(|_| true, deferred);
        true
    }

    /// Notifies the waiters of the work that is assigned to `selected` slots.
    pub(super) fn notify_waiters_of_assigned(
        &mut self,
        selected: impl Fn(&Slot) -> bool,
        deferred: &mut Deferred,
    ) {
        let slots = self.slots.iter().filter(|(_, slot)| selected(slot));
        let assigned = slots.filter_map(|(_, slot)| slot.assigned());
        let assigned: Vec<_> = assigned.map(|assigned| (assigned.job.clone(), assigned.lane)).collect();
        for (job, lane) in assigned {
            self.notify_waiters(&job, lane, deferred);
        }
    }

    /// Notifies waiters that they may run assigned work, because no thread will arrive for it.
    pub(super) fn notify_waiters(&mut self, job: &JobRef, lane: Option<LaneRef>, deferred: &mut Deferred) {
        job.became_startable(&mut deferred.wake);
        if let Some(cell) = lane.and_then(|lane| self.lanes.get_mut(lane)) {
            cell.notify_awaiting(&mut deferred.wake);
        }
    }

    /// Resumes the scheduler. Returns false if it was not paused.
    pub(crate) fn resume(&mut self, deferred: &mut Deferred) -> bool {
        if !std::mem::replace(&mut self.is_paused, false) {
            return false;
        }
        for lane in self.lanes.all() {
            self.lanes.get(lane).into_iter().for_each(|cell| cell.queue().set_paused(false));
        }
        self.use_free_slots(deferred);
        for index in self.slots.indices() {
            if self.slots.try_at(index).is_some_and(|slot| !slot.is_free()) {
                self.ensure_thread(index, deferred);
            }
        }
        self.wake_pending(1, deferred);
        true
    }

    /// Assigns queued work to slots that became free during the pause, as far as it may move.
    fn use_free_slots(&mut self, deferred: &mut Deferred) {
        while self.queues.has_shared()
            && let Some(index) = self.free_or_new_slot()
        {
            let Some(assigned) = self.take_queued(index, deferred) else {
                return self.remove_if_unheld(index, deferred);
            };
            self.assign(index, assigned, deferred);
        }
    }

    fn free_or_new_slot(&mut self) -> Option<usize> {
        let timers = &self.timers;
        let free = self.slots.newest_idle().or_else(|| self.slots.first_free());
        free.or_else(|| self.slots.add_below_max(|| timers.clock().tick()))
    }
}
