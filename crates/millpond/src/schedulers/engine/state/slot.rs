//! [`Slot`]: the place of one thread, with the work bound to it.

use super::lap::Lap;
use super::slot_thread::{SlotThread, ThreadState};
use crate::monitor::Meter;
use crate::schedulers::decorators::Decorators;
use crate::schedulers::engine::model::{Assigned, Item, LaneRef};
use crate::schedulers::engine::removal_queue::RemovalQueue;
use crate::schedulers::job::JobRef;
use crate::time::clock::Tick;

#[derive(Debug)]
pub(super) struct Slot {
    id: u64,
    /// The number of permits that have not been released.
    holders: usize,
    /// Set to a growing number when the slot becomes busy: a smaller number means busy for longer.
    busy_turn: u64,
    /// Set to a growing number when the slot becomes idle: the largest number is the newest idle
    /// slot.
    idle_turn: u64,
    /// When the last holder released the slot. Holders that did not use it do not count.
    idle_since: Tick,
    /// Places of the queue capacity taken by work of this slot.
    places: u64,
    /// Work that only the thread of this slot may run.
    pinned: RemovalQueue<Item>,
    /// Queued items whose home is this slot: those in `pinned`, and some in the shared queue.
    queued: usize,
    /// Work that the thread runs before all queued work. It already counts as running.
    assigned: Option<Assigned>,
    /// The job that the thread runs, and its lane.
    running: Option<(JobRef, Option<LaneRef>)>,
    lap: Lap,
    thread: SlotThread,
    /// `None` until the slot has been announced to the decorators.
    decorators: Option<Decorators>,
}

impl Slot {
    pub(super) fn new(id: u64, now: Tick) -> Slot {
        Slot {
            id,
            holders: 0,
            busy_turn: 0,
            idle_turn: 0,
            idle_since: now,
            places: 0,
            pinned: RemovalQueue::new(),
            queued: 0,
            assigned: None,
            running: None,
            lap: Lap::default(),
            thread: SlotThread::new(),
            decorators: None,
        }
    }

    pub(super) fn id(&self) -> u64 {
        self.id
    }

    // ---- holders

    pub(super) fn holders(&self) -> usize {
        self.holders
    }

    /// Adds a holder. Returns true if it is the first.
    pub(super) fn hold(&mut self, turn: u64) -> bool {
        self.holders += 1;
        if self.holders == 1 {
            self.busy_turn = turn;
        }
        self.holders == 1
    }

    /// Removes a holder. Returns true if it was the last.
    pub(super) fn release(&mut self) -> bool {
        self.holders -= 1;
        self.holders == 0
    }

    pub(super) fn make_idle(&mut self, now: Tick, turn: u64) {
        (self.idle_since, self.idle_turn) = (now, turn);
    }

    pub(super) fn idle_turn(&self) -> u64 {
        self.idle_turn
    }

    pub(super) fn idle_since(&self) -> Tick {
        self.idle_since
    }

    // ---- work

    /// The order in which busy slots are chosen: least work, then fewest holders, then busy for
    /// longest.
    pub(super) fn load_order(&self) -> (usize, usize, u64) {
        (self.load(), self.holders, self.busy_turn)
    }

    fn load(&self) -> usize {
        self.queued + usize::from(self.assigned.is_some()) + usize::from(self.running.is_some())
    }

    /// Returns true if work assigned now could run at once.
    pub(super) fn is_free(&self) -> bool {
        self.load() == 0
    }

    /// Returns true if the slot has work but no thread, because a start failed.
    pub(super) fn is_stuck(&self) -> bool {
        !self.is_free() && self.thread.state() == ThreadState::None
    }

    pub(super) fn assigned(&self) -> Option<&Assigned> {
        self.assigned.as_ref()
    }

    pub(super) fn assign(&mut self, assigned: Assigned) {
        self.assigned = Some(assigned);
    }

    pub(super) fn take_assigned(&mut self) -> Option<Assigned> {
        self.assigned.take()
    }

    pub(super) fn running(&self) -> Option<&JobRef> {
        self.running.as_ref().map(|(job, _)| job)
    }

    /// Returns the lane that the thread runs.
    pub(super) fn running_lane(&self) -> Option<LaneRef> {
        self.running.as_ref()?.1
    }

    /// Returns the lane that the thread runs or is about to run.
    pub(super) fn lane(&self) -> Option<LaneRef> {
        self.running_lane().or_else(|| self.assigned.as_ref()?.lane)
    }

    /// Records that the thread now runs this work.
    pub(super) fn run(&mut self, assigned: &Assigned, meter: &Meter) {
        self.running = Some((assigned.job.clone(), assigned.lane));
        self.lap.begin(assigned.since, meter);
    }

    /// Records that the thread runs nothing.
    pub(super) fn stop(&mut self) {
        self.running = None;
    }

    pub(super) fn lap(&self) -> &Lap {
        &self.lap
    }

    pub(super) fn lap_mut(&mut self) -> &mut Lap {
        &mut self.lap
    }

    pub(super) fn pinned(&self) -> &RemovalQueue<Item> {
        &self.pinned
    }

    pub(super) fn pinned_mut(&mut self) -> &mut RemovalQueue<Item> {
        &mut self.pinned
    }

    /// Returns true if an item whose home is this slot is queued.
    pub(super) fn has_queued(&self) -> bool {
        self.queued > 0
    }

    /// Counts a queued item whose home is this slot.
    pub(super) fn item_queued(&mut self) {
        self.queued += 1;
    }

    /// Uncounts an item that left its queue.
    pub(super) fn item_left(&mut self) {
        self.queued -= 1;
    }

    // ---- capacity: only `Capacity` changes it

    pub(super) fn places(&self) -> u64 {
        self.places
    }

    pub(super) fn set_places(&mut self, places: u64) {
        self.places = places;
    }

    // ---- thread and decorators

    pub(super) fn thread(&self) -> &SlotThread {
        &self.thread
    }

    pub(super) fn thread_mut(&mut self) -> &mut SlotThread {
        &mut self.thread
    }

    pub(super) fn decorators(&self) -> Option<&Decorators> {
        self.decorators.as_ref()
    }

    pub(super) fn decorators_mut(&mut self) -> &mut Option<Decorators> {
        &mut self.decorators
    }
}
