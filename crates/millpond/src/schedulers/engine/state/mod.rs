//! [`State`]: everything under the scheduler's one lock: slots, capacity, queues, lanes, timers,
//! figures.
//!
//! Nothing here blocks or calls user code. Effects that must happen without the lock are collected
//! in [`Deferred`]. Each field of `State` is a group with its own file and private fields. The
//! files with `impl State` connect the groups.
//!
//! Invariants between two critical sections
//! 1. An item is queued only if the thread of its home slot is busy or will ask for work. If work
//!    may move, an item is queued only if in addition no slot is free and no more slots are
//!    allowed.
//! 2. A lane is in at most one place: the timers, a queue, or a run.
//! 3. The figures count everything except unsettled changes in lanes ([`lane_queue`]).
//!
//! [`lane_queue`]: super::lane_queue

mod capacity;
mod claim;
mod dispatch;
mod end;
mod ending;
mod lane_runs;
mod lanes;
mod lap;
mod observed;
mod pause;
mod queues;
mod slot;
mod slot_thread;
mod slots;
mod threads;
mod timers;
mod views;
mod wakes;

#[cfg(all(test, not(loom)))]
mod tests;

use self::capacity::Capacity;
use self::end::End;
use self::lanes::Lanes;
use self::queues::Queues;
use self::slots::Slots;
use self::threads::Threads;
use self::timers::Timers;
pub(super) use self::views::ThreadView;
use self::wakes::Wakes;
use super::deferred::Deferred;
use super::lane_queue::LaneQueue;
use super::model::{Due, Full, LaneRef, Permit, Plan, Shape, SlotRef, Waits};
use crate::executor::RejectReason;
use crate::monitor::Meter;
use crate::schedulers::decorators::{Decorators, SlotInfo, any_decorators};
use crate::schedulers::end::{Lifecycle, Phase};
use crate::schedulers::job::{JobRef, Location};
use crate::schedulers::stats::{Counters, SchedulerStats};
use crate::sync::Arc;
use crate::time::clock::Tick;

/// How many due jobs and lanes are handled in one critical section.
const MOST_DUE_AT_ONCE: usize = 64;

#[derive(Debug)]
pub(super) struct State {
    name: Arc<str>,
    shape: Shape,
    /// A thread may run the work of a busy slot other than its own.
    is_work_movable: bool,
    slots: Slots,
    threads: Threads,
    capacity: Capacity,
    queues: Queues,
    wakes: Wakes,
    lanes: Lanes,
    /// Jobs without a lane that run in place. `Lanes::in_place` has the lanes.
    in_place: Vec<JobRef>,
    timers: Timers,
    end: End,
    counters: Counters,
    meter: Arc<Meter>,
    is_paused: bool,
    /// Periodic jobs that ended because a run panicked.
    series_ended: u64,
    /// The slot whose thread has just run a lane and now asks for work, so it need not be woken.
    preferred: Option<usize>,
}

impl State {
    pub(super) fn new(plan: &Plan, name: Arc<str>, lifecycle: Arc<Lifecycle>, meter: &Arc<Meter>) -> State {
        State {
            name,
            shape: plan.shape,
            is_work_movable: plan.is_work_movable,
            slots: Slots::new(plan.shape, plan.max_slots),
            threads: Threads::new(plan.source.numbers()),
            capacity: Capacity::new(plan.queue_capacity, plan.max_slots),
            queues: Queues::new(),
            wakes: Wakes::default(),
            lanes: Lanes::default(),
            in_place: Vec::new(),
            timers: Timers::new(plan.clock.clone()),
            end: End::new(lifecycle),
            counters: Counters::default(),
            meter: Arc::clone(meter),
            is_paused: false,
            series_ended: 0,
            preferred: None,
        }
    }

    fn now(&self) -> Tick {
        self.timers.clock().tick()
    }

    pub(super) fn phase(&self) -> Phase {
        self.end.phase()
    }

    pub(super) fn count_rejected(&mut self, reason: RejectReason) {
        self.counters.reject(reason);
    }

    pub(super) fn stats(&mut self) -> SchedulerStats {
        self.settle_all();
        let busy = self.slots.busy();
        SchedulerStats {
            live_threads: self.end.live_threads(),
            slots: self.slots.count(),
            busy,
            idle: self.slots.count() - busy,
            remaining_capacity: self.capacity.remaining(),
            ..self.counters.stats(&self.name, self.phase() != Phase::Live)
        }
    }

    // ---- accepting work

    /// Picks the slot for new work and takes a permit for it.
    pub(super) fn hold_picked(&mut self) -> Permit {
        let timers = &self.timers;
        let index = self.slots.pick(|| timers.clock().tick());
        self.slots.hold(index)
    }

    pub(super) fn hold(&mut self, slot: SlotRef) -> Permit {
        self.slots.hold(slot.index)
    }

    /// Accepts a job without a lane at time `since`. Assigns it to its slot if that is free, and
    /// queues it otherwise.
    pub(super) fn accept_now(
        &mut self,
        job: &JobRef,
        permit: Permit,
        since: Tick,
        deferred: &mut Deferred,
    ) -> Result<(), Full> {
        let slot = permit.slot();
        if self.slots.is_free(slot.index) {
            self.counters.accept();
            self.assign_job(job, permit, since, deferred);
        } else {
            if let Err(full) = self.take_place(slot) {
                self.release(permit, deferred);
                return Err(full);
            }
            self.counters.accept();
            self.enqueue_job(job, permit, since, deferred);
        }
        Ok(())
    }

    /// Accepts a job without a lane that is due at `due`. It has no slot until then.
    pub(super) fn accept_delayed(&mut self, job: &JobRef, due: Tick) -> Result<(), Full> {
        self.capacity.take_unplaced().or_else(|_| {
            self.settle_all();
            self.capacity.take_unplaced()
        })?;
        self.counters.accept();
        self.timers.add_job(job, due);
        Ok(())
    }

    /// Accepts a periodic job without a worker, in a lane of its own.
    pub(super) fn accept_periodic(
        &mut self,
        job: &JobRef,
        permit: Permit,
        due: Tick,
        deferred: &mut Deferred,
    ) -> Result<(), Full> {
        if let Err(full) = self.take_place(permit.slot()) {
            self.release(permit, deferred);
            return Err(full);
        }
        let lane = self.lanes.add(permit, true);
        self.counters.accept();
        self.add_to_lane(lane, job, Waits::Due(due), deferred);
        Ok(())
    }

    /// Creates the lane of a worker. Returns `None` if the scheduler is ending.
    pub(super) fn create_lane(&mut self) -> Option<(LaneRef, Arc<LaneQueue>)> {
        if self.phase() != Phase::Live {
            return None;
        }
        let permit = self.hold_picked();
        let lane = self.lanes.add(permit, false);
        let queue = Arc::clone(self.lanes.get(lane)?.queue());
        Some((lane, queue))
    }

    /// Takes back a job that was just accepted, because no thread started in `slot`. Returns false
    /// if a thread has already taken it.
    ///
    /// Assigned work moves only to slots with own threads. An executor may have any number of
    /// slots, so these are not searched.
    pub(super) fn undo(&mut self, job: &JobRef, slot: SlotRef, deferred: &mut Deferred) -> bool {
        let has_it = |index: &usize| {
            let assigned = self.slots.try_at(*index).and_then(|slot| slot.assigned());
            assigned.is_some_and(|assigned| assigned.job.is(job))
        };
        let searched = if matches!(self.shape, Shape::Bursts) { 0..0 } else { self.slots.indices() };
        let found = [slot.index].into_iter().chain(searched).find(has_it);
        let undone = match found.and_then(|index| self.slots.at_mut(index).take_assigned()) {
            Some(assigned) => {
                self.unassign(assigned, deferred);
                true
            }
            None => self.remove_job(job, deferred),
        };
        if undone {
            self.counters.withdraw();
        }
        undone
    }

    // ---- capacity

    /// Takes a place of a slot. If none is left, settles all lanes, which may free some, and tries
    /// again.
    fn take_place(&mut self, slot: SlotRef) -> Result<(), Full> {
        self.try_take_place(slot).or_else(|_| {
            self.settle_all();
            self.try_take_place(slot)
        })
    }

    fn try_take_place(&mut self, slot: SlotRef) -> Result<(), Full> {
        let there = self.slots.get_mut(slot).expect("a permit of the caller keeps the slot");
        self.capacity.take(there)
    }

    fn free_places(&mut self, slot: SlotRef, places: u64) {
        if let Some(there) = self.slots.get_mut(slot) {
            self.capacity.free(there, places);
        }
    }

    // ---- slots

    /// Releases a permit. A slot without holders becomes idle or is removed.
    pub(super) fn release(&mut self, permit: Permit, deferred: &mut Deferred) {
        if let Some(index) = self.release_holder(permit, deferred) {
            let now = self.now();
            self.slots.make_idle(index, now);
        }
    }

    /// As `release`, for a slot whose work ran in another slot. The slot was not used, so it keeps
    /// its age and its position among the idle slots.
    fn release_unused(&mut self, permit: Permit, deferred: &mut Deferred) {
        if let Some(index) = self.release_holder(permit, deferred) {
            self.slots.restore_idle(index);
        }
    }

    /// Releases a permit. Returns the slot if it must be put on the idle stack.
    fn release_holder(&mut self, permit: Permit, deferred: &mut Deferred) -> Option<usize> {
        let index = self.slots.release(&permit)?;
        match self.shape {
            Shape::Fixed => None,
            Shape::Elastic { .. } if self.slots.is_free(index) && self.phase() != Phase::Disposed => {
                Some(index)
            }
            _ => {
                self.remove_slot(index, deferred);
                None
            }
        }
    }

    /// Removes a slot. If it has a thread, that thread exits.
    fn remove_slot(&mut self, index: usize, deferred: &mut Deferred) {
        let Some(mut slot) = self.slots.remove(index) else { return };
        self.capacity.slot_removed(&slot);
        self.wakes.came(index, slot.thread().state());
        deferred.wake.extend(slot.thread().mark_notified());
        self.wake_pending(1, deferred);
        self.end.remember(slot.thread_mut().take_join());
        if let Some(decorators) = slot.decorators().filter(|decorators| !decorators.is_empty()) {
            self.end.slot_closing();
            deferred.closed.push((SlotInfo::new(Arc::clone(&self.name), index), decorators.clone()));
        }
    }

    /// Removes a slot that was created for work that no longer exists.
    fn remove_if_unheld(&mut self, index: usize, deferred: &mut Deferred) {
        let is_idle = self.slots.idle().any(|idle| idle == index);
        let is_unheld = self.slots.try_at(index).is_some_and(|slot| slot.holders() == 0);
        if is_unheld && !is_idle && !matches!(self.shape, Shape::Fixed) {
            self.remove_slot(index, deferred);
        }
    }

    /// Removes a slot for which a decorator panicked, unless it is in use by now.
    pub(super) fn remove_if_unused(&mut self, slot: SlotRef, deferred: &mut Deferred) {
        let is_unused =
            self.slots.get(slot).is_some_and(|there| there.holders() == 0 && there.decorators().is_none());
        if is_unused && !matches!(self.shape, Shape::Fixed) {
            self.remove_slot(slot.index, deferred);
        }
    }

    /// Returns true if a slot must be announced to decorators before it is used.
    pub(super) fn needs_announcement(&mut self, slot: SlotRef) -> bool {
        let Some(there) = self.slots.get_mut(slot) else { return false };
        let decorators = there.decorators_mut();
        if decorators.is_none() && !any_decorators() {
            *decorators = Some(Decorators::none());
        }
        decorators.is_none()
    }

    /// Gives a slot the decorators in `announced`, unless it has some. Returns the decorators of
    /// the slot, or `None` if the slot is gone. Decorators that are not used stay in `announced`.
    pub(super) fn decorate(
        &mut self,
        slot: SlotRef,
        announced: &mut Option<Decorators>,
    ) -> Option<Decorators> {
        let decorators = self.slots.get_mut(slot)?.decorators_mut();
        if decorators.is_none() {
            *decorators = announced.take();
        }
        decorators.clone()
    }

    pub(super) fn decorators(&self, slot: SlotRef) -> Option<Decorators> {
        self.slots.get(slot)?.decorators().cloned()
    }

    // ---- time

    /// Returns the time to which the alarm must be moved, or `None` if it is early enough.
    pub(super) fn next_alarm(&self) -> Option<Tick> {
        let next = self.timers.next_time().into_iter().chain(self.slots.next_eviction()).min()?;
        self.timers.needs_alarm(next).then_some(next)
    }

    pub(super) fn alarm_set(&mut self, at: Tick) {
        self.timers.alarm_set(at);
    }

    pub(super) fn set_retry(&mut self, at: Tick) {
        self.timers.set_retry(at);
    }

    /// Handles the alarm: starts or queues due work and removes expired slots. Returns true if
    /// failed starts are retried.
    ///
    /// If much work is due, handles a part of it. The alarm then rings again at once, and others
    /// get the lock in between.
    pub(super) fn alarm_rang(&mut self, deferred: &mut Deferred) -> bool {
        self.timers.alarm_rang();
        let now = self.now();
        let retries = self.timers.take_retry(now);
        if retries {
            self.restart_stuck(deferred);
        }
        let mut left = MOST_DUE_AT_ONCE;
        while let Some(due) = self.timers.pop_due(now, &mut left) {
            match due {
                Due::Lane(lane) => {
                    if let Some(cell) = self.lanes.get_mut(lane) {
                        cell.take_timer();
                    }
                    self.start_lane(lane, deferred);
                }
                Due::Job(job, due) => self.job_due(&job, due, deferred),
            }
        }
        if let Shape::Elastic { ttl } = self.shape {
            while let Some(index) = self.slots.expired(now, ttl) {
                self.remove_slot(index, deferred);
            }
        }
        self.end_if_done(deferred);
        retries
    }

    /// Gives a slot to a delayed job that is due, and assigns or queues the job there.
    fn job_due(&mut self, job: &JobRef, due: Tick, deferred: &mut Deferred) {
        job.set_location(Location::Nowhere);
        let permit = self.hold_picked();
        let index = permit.slot().index;
        if self.slots.is_free(index) {
            self.capacity.free_unplaced();
            self.assign_job(job, permit, due, deferred);
        } else {
            self.capacity.place(self.slots.at_mut(index));
            self.enqueue_job(job, permit, due, deferred);
        }
    }

    fn restart_stuck(&mut self, deferred: &mut Deferred) {
        for index in self.slots.indices() {
            if self.slots.try_at(index).is_some_and(|slot| slot.is_stuck()) {
                self.ensure_thread(index, deferred);
            }
        }
    }
}
