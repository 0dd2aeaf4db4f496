//! Assigns work to slots, wakes or starts their threads, and finds work for a thread that asks.
//!
//! Which thread runs a job depends on timing, but users must not see that. So neither the slot that
//! is used, nor the number of busy slots, nor the age of an idle slot may depend on it.
//! [`State::may_steal`] ensures this.

use std::thread::JoinHandle;

use super::State;
use super::slot::Slot;
use super::slot_thread::ThreadState;
use crate::interrupt::wait::WaitCell;
use crate::schedulers::engine::deferred::Deferred;
use crate::schedulers::engine::model::{Assigned, Done, Item, Next, Permit, Shape, SlotRef, Start};
use crate::schedulers::job::{JobRef, Location};
use crate::sync::Arc;
use crate::time::clock::Tick;

impl State {
    // ---- assigning and queueing

    /// Assigns a job without a lane to the free slot of its permit.
    pub(super) fn assign_job(&mut self, job: &JobRef, permit: Permit, since: Tick, deferred: &mut Deferred) {
        self.counters.start();
        let index = permit.slot().index;
        self.assign(index, Assigned::job(job.clone(), permit, since), deferred);
    }

    /// Assigns work that counts as running to a free slot.
    ///
    /// Notifies its waiters if the thread may not arrive before they return: during a pause, or
    /// if the executor queues it behind the task that waits.
    pub(super) fn assign(&mut self, index: usize, assigned: Assigned, deferred: &mut Deferred) {
        if self.is_paused || matches!(self.shape, Shape::Bursts) {
            self.notify_waiters(&assigned.job, assigned.lane, deferred);
        }
        self.slots.at_mut(index).assign(assigned);
        self.ensure_thread(index, deferred);
    }

    pub(super) fn enqueue_job(&mut self, job: &JobRef, permit: Permit, since: Tick, deferred: &mut Deferred) {
        job.became_startable(&mut deferred.wake);
        let index = permit.slot().index;
        let place = self.enqueue(Item::Job(job.clone(), permit, since), deferred);
        let index = u32::try_from(index).expect("fewer than 2^32 slots fit into memory");
        job.set_location(Location::Queued(index, place));
    }

    /// Queues an item whose home slot is not free. Returns its place in the queues.
    pub(super) fn enqueue(&mut self, item: Item, deferred: &mut Deferred) -> u64 {
        let index = item.home().index;
        let is_movable = self.is_movable(matches!(item, Item::Lane(..)));
        let place = self.queues.push(&mut self.slots, item, is_movable);
        self.ensure_thread(index, deferred); // it has one, unless the last start failed
        place
    }

    /// Returns true if any thread may run such work. Jobs without a lane may move, unless slots are
    /// used round robin.
    fn is_movable(&self, is_lane: bool) -> bool {
        self.is_work_movable || (!is_lane && !matches!(self.shape, Shape::Fixed))
    }

    /// Returns true if another thread may run the work assigned to this slot.
    fn is_assigned_movable(&self, index: usize) -> bool {
        let assigned = self.slots.at(index).assigned();
        self.is_movable(assigned.is_none_or(|assigned| assigned.lane.is_some()))
    }

    // ---- waking and starting threads

    /// Makes sure that a thread will take the work of a slot.
    pub(super) fn ensure_thread(&mut self, index: usize, deferred: &mut Deferred) {
        if self.is_paused {
            return; // `resume` ensures the threads
        }
        let slot = self.slots.at_mut(index);
        match slot.thread().state() {
            ThreadState::None => {
                let attempt = slot.thread_mut().begin_start(self.threads.next_number());
                let slot = SlotRef { index, id: slot.id() };
                self.end.thread_starting();
                deferred.start.push(Start { slot, attempt });
            }
            ThreadState::Parked if self.is_assigned_movable(index) => {
                // Lanes usually arrive several at a time and have several jobs, so wake a second
                // thread.
                let is_lane = self.slots.at(index).assigned().is_some_and(|assigned| assigned.lane.is_some());
                self.wakes.defer(&mut self.slots, index);
                self.wake_pending(if is_lane { 2 } else { 1 }, deferred);
            }
            ThreadState::Searching | ThreadState::Parked => self.notify(index, deferred),
            // These ask for work before they park. `WakePending`: a notified thread wakes it
            // (invariant 4).
            ThreadState::Starting
            | ThreadState::Promised
            | ThreadState::Awake
            | ThreadState::Notified(_)
            | ThreadState::WakePending => {}
        }
    }

    fn notify(&mut self, index: usize, deferred: &mut Deferred) {
        self.wakes.notify(&mut self.slots, index, self.counters.ended(), deferred);
    }

    /// Wakes threads for slots whose wake-up was deferred, until `wanted` threads are notified and
    /// have not asked for work yet.
    ///
    /// `wanted` is usually 1, because a notified thread wakes the next one before it runs anything.
    pub(super) fn wake_pending(&mut self, wanted: usize, deferred: &mut Deferred) {
        while self.wakes.notified() < wanted {
            let Some(index) = self.wakes.next_pending(&mut self.slots) else { return };
            // Prefer a searching thread that may take the work: it is awake already.
            if let Some(searcher) = self.wakes.held_searcher(&self.slots)
                && self.may_steal(searcher, false, index)
            {
                return self.notify(searcher, deferred);
            }
            self.wakes.pop_pending();
            self.notify(index, deferred);
        }
    }

    /// Returns how many threads should be notified after a thread arrived whose state was `before`.
    ///
    /// If no run has ended since that thread was notified, tasks take longer than a wake-up. Then
    /// it wakes two threads, because waking one after the other would take as long as all wake-ups
    /// together. For few pending threads one at a time is fast enough, and several would contend
    /// for the lock.
    fn wake_target(&self, before: ThreadState) -> usize {
        const SHORT: usize = 4;
        match before {
            ThreadState::Notified(ended)
                if self.counters.ended() == ended && self.wakes.pending() > SHORT =>
            {
                self.wakes.notified() + 2
            }
            _ => 1,
        }
    }

    // ---- finding work

    /// Registers a thread that has arrived. Returns whether it still is the current thread of its
    /// slot, and its index in the list of threads.
    pub(crate) fn thread_arrived(
        &mut self,
        start: Start,
        cell: &Arc<WaitCell>,
        os_thread_id: Option<u64>,
    ) -> (bool, usize) {
        let place = self.threads.add(start, os_thread_id);
        let there = self.slots.get_mut(start.slot).map(|slot| slot.thread_mut());
        let thread = there.filter(|thread| thread.is_attempt(start.attempt));
        (thread.map(|thread| thread.arrive(cell)).is_some(), place)
    }

    /// Answers the thread of a slot that asks for work. `ran` is true after a run, when the thread
    /// holds its slot. If there is no work, sets the thread's state to match the answer.
    pub(crate) fn next(&mut self, slot: SlotRef, ran: bool, deferred: &mut Deferred) -> Next {
        let Some(there) = self.slots.get_mut(slot) else { return Next::Leave };
        let before = there.thread_mut().ask();
        self.wakes.came(slot.index, before);
        let wanted = self.wake_target(before);
        let mut next = None;
        if !self.is_paused {
            next = self.take_work(slot.index, ran, deferred);
            self.wake_pending(wanted, deferred);
        }
        if let Some(assigned) = next {
            return Next::Run(assigned);
        }
        let Some(there) = self.slots.get_mut(slot) else { return Next::Leave };
        there.lap_mut().pause(&self.meter);
        if !self.shape.keeps_threads() {
            there.thread_mut().leave();
            return Next::Leave;
        }
        if before == ThreadState::Searching {
            there.thread_mut().park();
            return Next::Park;
        }
        self.wakes.search(&mut self.slots, slot.index);
        Next::Search
    }

    /// Ends a run and finds the next work for the same thread. The thread holds its slot meanwhile,
    /// so the slot is not removed.
    pub(crate) fn next_after_run(
        &mut self,
        slot: SlotRef,
        done: &Done<'_>,
        permit: Option<Permit>,
        deferred: &mut Deferred,
    ) -> Next {
        let held = self.slots.get(slot).is_some().then(|| self.slots.hold(slot.index));
        self.finish(done, permit, deferred);
        let next = self.next_on_right_thread(slot, done.again, deferred);
        if let Some(held) = held {
            self.release(held, deferred);
        }
        next
    }

    /// As `next`, after a run. In `PerTask`, another thread must run the next work. The same holds
    /// in `Bursts` after a periodic job: a job with a period of zero would keep the executor's
    /// thread forever.
    fn next_on_right_thread(&mut self, slot: SlotRef, was_periodic: bool, deferred: &mut Deferred) -> Next {
        let next = self.next(slot, true, deferred);
        let needs_new_thread = match self.shape {
            Shape::PerTask => true,
            Shape::Bursts => was_periodic,
            Shape::Fixed | Shape::Elastic { .. } => false,
        };
        let Next::Run(assigned) = next else { return next };
        if !needs_new_thread {
            return Next::Run(assigned);
        }
        let there = self.slots.at_mut(slot.index);
        there.stop();
        there.lap_mut().abandon();
        there.thread_mut().leave();
        self.assign(slot.index, assigned, deferred);
        Next::Leave
    }

    /// Takes the next work for the thread of a slot: first its assigned work, then queued work,
    /// then work assigned to slots whose threads are parked or could not be started.
    fn take_work(&mut self, index: usize, ran: bool, deferred: &mut Deferred) -> Option<Assigned> {
        let assigned = self.slots.at_mut(index).take_assigned();
        let next = assigned
            .or_else(|| self.take_queued(index, deferred))
            .or_else(|| self.steal_pending(index, ran, deferred))
            .or_else(|| self.steal_stuck(index, deferred))?;
        self.slots.at_mut(index).run(&next, &self.meter);
        Some(next)
    }

    /// Takes the oldest queued work that the thread of this slot may run.
    pub(super) fn take_queued(&mut self, index: usize, deferred: &mut Deferred) -> Option<Assigned> {
        loop {
            let item = self.queues.pop(&mut self.slots, index)?;
            let home = item.home();
            let mut assigned = match item {
                Item::Job(job, permit, since) => {
                    job.set_location(Location::Nowhere);
                    self.free_places(home, 1);
                    self.counters.start();
                    Assigned::job(job, permit, since)
                }
                Item::Lane(lane, ..) => {
                    if let Some(cell) = self.lanes.get_mut(lane) {
                        cell.take_place();
                    }
                    let Some(assigned) = self.start_lane_job(lane, deferred) else { continue };
                    assigned
                }
            };
            if home.index != index {
                let permit = self.slots.hold(index);
                if let Some(left) = assigned.permit.replace(permit) {
                    self.release(left, deferred);
                }
            }
            return Some(assigned);
        }
    }

    // ---- stealing

    /// Returns true if the thread of slot `taker` may run the work assigned to slot `from`. `ran`:
    /// the thread has just run something, and still holds its slot for that run.
    ///
    /// The rules keep the figures independent of timing. An idle slot steals nothing, because the
    /// newest idle slot was chosen for the work. The number of busy slots must be the same as if
    /// the chosen slot ran it. So work that is the only holder of its slot moves to a slot that
    /// would otherwise become idle, and other work moves to a slot that stays held.
    fn may_steal(&self, taker: usize, ran: bool, from: usize) -> bool {
        if !self.is_assigned_movable(from) {
            return false;
        }
        let holders = self.slots.at(taker).holders();
        let stays_held = holders > usize::from(ran);
        let there = self.slots.at(from);
        let has_permit = there.assigned().is_some_and(|assigned| assigned.permit.is_some());
        let is_alone = there.holders() == 1 && has_permit;
        holders > 0 && stays_held != is_alone
    }

    /// Takes the work of a slot whose thread is still parked. Requires that no queued work is left
    /// for the taker: the other slot becomes free, and no thread would arrive there to take queued
    /// work.
    fn steal_pending(&mut self, taker: usize, ran: bool, deferred: &mut Deferred) -> Option<Assigned> {
        let from = self.wakes.next_pending(&mut self.slots)?;
        if !self.may_steal(taker, ran, from) {
            return None;
        }
        self.steal(taker, from, deferred)
    }

    /// Takes the work of a slot whose thread could not be started. Such a slot exists only while a
    /// retry is set, or until `relieve_stuck` runs.
    fn steal_stuck(&mut self, taker: usize, deferred: &mut Deferred) -> Option<Assigned> {
        if !self.timers.has_retry() {
            return None;
        }
        let has_stuck_work = |index: &usize| {
            self.slots.try_at(*index).is_some_and(|slot| slot.is_stuck() && slot.assigned().is_some())
        };
        let is_movable = |index: &usize| self.is_assigned_movable(*index);
        let from = self.slots.indices().filter(has_stuck_work).find(is_movable)?;
        self.steal(taker, from, deferred)
    }

    fn steal(&mut self, taker: usize, from: usize, deferred: &mut Deferred) -> Option<Assigned> {
        let mut assigned = self.slots.at_mut(from).take_assigned()?;
        let permit = self.slots.hold(taker);
        if let Some(left) = assigned.permit.replace(permit) {
            self.release_unused(left, deferred);
        }
        Some(assigned)
    }

    // ---- starts that failed

    /// Records that the source returned from a start. Returns true if the body has been dropped.
    pub(crate) fn start_returned(&mut self, start: Start) -> bool {
        self.end.start_returned();
        self.slots.get(start.slot).is_some_and(|slot| slot.thread().was_dropped(start.attempt))
    }

    /// Records that the source accepted the thread of a slot. The thread may already have arrived
    /// or left.
    pub(crate) fn thread_promised(&mut self, start: Start, join: Option<JoinHandle<()>>) {
        let thread = self.slots.get_mut(start.slot).map(|slot| slot.thread_mut());
        let unused = match thread.filter(|thread| thread.is_attempt(start.attempt)) {
            Some(thread) => thread.promise(join),
            None => join,
        };
        self.end.remember(unused);
    }

    /// Records that the source refused a start. It may have kept the body.
    pub(crate) fn thread_refused(&mut self, start: Start) {
        let thread = self.slots.get_mut(start.slot).map(|slot| slot.thread_mut());
        if let Some(thread) = thread.filter(|thread| thread.is_attempt(start.attempt)) {
            thread.refused();
        }
    }

    /// Records that the body of a thread was dropped without being run. Cancels the work that
    /// relied on a promised thread.
    pub(crate) fn body_dropped(&mut self, start: Start, deferred: &mut Deferred) {
        self.end.thread_left();
        let thread = self.slots.get_mut(start.slot).map(|slot| slot.thread_mut());
        let thread = thread.filter(|thread| thread.is_attempt(start.attempt));
        if thread.is_some_and(|thread| thread.body_dropped()) {
            self.abandon_slot(start.slot, deferred);
        }
        self.end_if_done(deferred);
    }

    /// Returns true if no thread has come from a start that failed, and no other one has begun or
    /// will begin at `resume`.
    pub(crate) fn has_no_thread_since(&self, start: Start) -> bool {
        let thread = self.slots.get(start.slot).map(|slot| slot.thread());
        !self.is_paused
            && thread
                .is_some_and(|thread| thread.is_attempt(start.attempt) && thread.state() == ThreadState::None)
    }

    pub(crate) fn has_stuck_slot(&self) -> bool {
        self.slots.iter().any(|(_, slot)| slot.is_stuck())
    }

    /// Moves the work of slots without a thread to free threads. Busy threads take it later: after
    /// their run (`steal_stuck`), or when they wait for the job themselves.
    pub(crate) fn relieve_stuck(&mut self, deferred: &mut Deferred) {
        if self.is_paused {
            return;
        }
        // In `PerTask`, a thread without work could only start another one.
        while !matches!(self.shape, Shape::PerTask)
            && let Some(to) = self.free_thread()
            && let Some(assigned) = self.steal_stuck(to, deferred).or_else(|| self.take_queued(to, deferred))
        {
            self.assign(to, assigned, deferred);
        }
        self.notify_waiters_of_assigned(Slot::is_stuck, deferred);
    }

    /// Returns a free slot with a thread, preferring the newest idle one.
    fn free_thread(&self) -> Option<usize> {
        let is_free = |index: &usize| {
            self.slots.try_at(*index).is_some_and(|slot| {
                let has_thread = !matches!(slot.thread().state(), ThreadState::None | ThreadState::Starting);
                slot.is_free() && has_thread
            })
        };
        self.slots.idle().find(is_free).or_else(|| self.slots.indices().find(is_free))
    }

    /// Returns the job that is assigned to a slot.
    pub(crate) fn assigned_job(&self, slot: SlotRef) -> Option<JobRef> {
        self.slots.get(slot)?.assigned().map(|assigned| assigned.job.clone())
    }
}
