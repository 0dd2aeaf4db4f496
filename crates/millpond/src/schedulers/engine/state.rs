//! What a scheduler knows, under its one lock: slots, lines, lanes, timers and counts.
//!
//! Everything here is called with the lock held and does nothing that could block or call a user: what has to be done
//! outside is noted in [`After`].
//!
//! Invariants, whenever the lock is free:
//! 1. A slot is in `idle` exactly if nobody holds it (schedulers that let idle slots go).
//! 2. Something waits in a line only if the slot's thread is busy or on its way; and, if work may move between slots, only
//!    if no slot is free and no new one may be made. This is what "work conserving" means.
//! 3. `places` is the sum of the slots' `places` and of `unplaced`, and counts waiting tasks, and series for life.
//! 4. A lane is in at most one of: a timer, a line, a run.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::task::Waker;
use std::thread::JoinHandle;
use std::time::Duration;

use super::lane::{LaneCore, LanePhase};
use super::{Engine, Shape};
use crate::clock::Tick;
use crate::handle::Outcome;
use crate::interrupt::Sleeper;
use crate::schedulers::hooks::{Decorators, SlotInfo};
use crate::schedulers::job::{Job, Spot};
use crate::sync::{Arc, Weak, mutant};
use crate::timer_queue::{Key, TimerQueue};

/// How far the scheduler's life has come. Only grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    Live,
    /// Takes nothing more, and works off what it has.
    Draining,
    /// Has thrown away what waited; bodies may still be running.
    Disposed,
}

/// Which slot: an index is used again, an id is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SlotRef {
    pub(super) index: usize,
    pub(super) id: u64,
}

/// The right to be in a slot. Whoever has one keeps the slot from being let go; dropping it gives it back, whatever
/// happened on the way.
#[derive(Debug)]
pub(crate) struct Permit {
    engine: Weak<Engine>,
    slot: SlotRef,
    given_back: bool,
}

impl Permit {
    pub(super) fn slot(&self) -> SlotRef {
        self.slot
    }
}

impl Drop for Permit {
    /// Takes the lock, so it must not be held: code under the lock gives permits back by [`State::give_back`].
    fn drop(&mut self) {
        if !self.given_back
            && let Some(engine) = self.engine.upgrade()
        {
            engine.locked(|state, after| state.release(self.slot, after));
        }
    }
}

/// The thread of a slot.
#[derive(Debug)]
pub(super) enum Thread {
    None,
    /// It is being started.
    Coming,
    /// Whoever starts it says that it will come.
    Promised,
    /// It is there and awake.
    Here,
    Parked(Arc<Sleeper>),
}

/// Something that is to run now; its job is nowhere else any more.
#[derive(Debug)]
pub(super) struct Handed {
    pub(super) job: Arc<Job>,
    pub(super) lane: Option<Arc<LaneCore>>,
    /// For a lane that runs in its own slot the lane's permit is enough.
    pub(super) permit: Option<Permit>,
}

/// Something that waits for a thread.
#[derive(Debug)]
pub(super) enum Item {
    Job(Arc<Job>, Permit),
    Lane(Arc<LaneCore>),
    /// It was cancelled.
    Gone,
}

#[derive(Debug)]
pub(super) struct Slot {
    pub(super) id: u64,
    /// Permits that are out.
    pub(super) holders: usize,
    /// Grows with every change from idle to busy: who has been busy longest?
    busy_since: u64,
    idle_since: Tick,
    /// What waits for this slot's thread, with its place in line; places grow.
    line: VecDeque<(u64, Item)>,
    /// Entries of `line` that are not gone.
    in_line: usize,
    /// Of the slot's queue capacity, how much is taken.
    pub(super) places: u64,
    pub(super) thread: Thread,
    /// Which attempt to start a thread is the one that counts.
    pub(super) ticket: u64,
    /// Goes to the thread before the line.
    pub(super) handed: Option<Handed>,
    /// The attempt to start a thread of which nothing came.
    pub(super) stillborn: u64,
    /// What its thread runs.
    pub(super) running: Option<Arc<Job>>,
    /// `None`: `slot_created` is still to be called.
    pub(super) decorators: Option<Decorators>,
    pub(super) join: Option<JoinHandle<()>>,
}

impl Slot {
    fn new(id: u64, now: Tick) -> Slot {
        Slot {
            id,
            holders: 0,
            busy_since: 0,
            idle_since: now,
            line: VecDeque::new(),
            in_line: 0,
            places: 0,
            thread: Thread::None,
            ticket: 0,
            handed: None,
            stillborn: 0,
            running: None,
            decorators: None,
            join: None,
        }
    }

    /// Something that is handed to it now has nothing to wait for.
    fn is_free(&self) -> bool {
        self.load() == 0
    }

    fn is_stuck(&self) -> bool {
        !self.is_free() && matches!(self.thread, Thread::None)
    }

    fn load(&self) -> usize {
        self.in_line + usize::from(self.handed.is_some()) + usize::from(self.running.is_some())
    }
}

/// What a thread has to tell about a run.
pub(super) struct Done<'a> {
    pub(super) job: &'a Arc<Job>,
    pub(super) lane: Option<&'a Arc<LaneCore>>,
    /// The slot whose thread ran it as its own work.
    pub(super) slot: Option<SlotRef>,
    pub(super) outcome: Outcome,
    /// It is a series, and its body is ready for another run.
    pub(super) again: bool,
}

/// What waits for its time.
#[derive(Debug)]
pub(super) enum Timed {
    Job(Arc<Job>),
    Lane(Arc<LaneCore>),
}

#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Counted {
    pub(super) submitted: u64,
    pub(super) completed: u64,
    pub(super) panicked: u64,
    pub(super) cancelled: u64,
    pub(super) rejected: u64,
}

/// Somebody who waits for the end.
#[derive(Debug)]
pub(super) enum EndWaiter {
    Thread(Arc<Sleeper>),
    Task(Waker),
}

/// What is to be done when the lock is free again.
#[derive(Debug, Default)]
pub(super) struct After {
    pub(super) wake: Vec<Arc<Sleeper>>,
    /// Slots that need a thread.
    pub(super) carry: Vec<(SlotRef, u64)>,
    /// Jobs that are taken out of everything, to be marked as cancelled.
    pub(super) cancel: Vec<Arc<Job>>,
    /// Series whose run under way is the last.
    pub(super) end_series: Vec<Arc<Job>>,
    pub(super) closed: Vec<(SlotInfo, Decorators)>,
    pub(super) ended: Vec<EndWaiter>,
    /// Threads whose end nobody waits for.
    pub(super) detached: Vec<JoinHandle<()>>,
    /// Not dropped under its own lock.
    pub(super) kept: Option<Arc<Engine>>,
}

/// Why something was not taken.
#[derive(Debug)]
pub(super) struct Full {
    pub(super) would_be: u64,
    pub(super) cap: u64,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) phase: Phase,
    engine: Weak<Engine>,
    shape: Shape,
    soft: bool,
    max: usize,
    cap: u64,
    pub(super) name: Arc<str>,
    slots: Vec<Option<Slot>>,
    /// Indices to be used again, the smallest first.
    free: BinaryHeap<Reverse<usize>>,
    /// How many of `slots` there are.
    pub(super) count: usize,
    /// Slots that nobody holds, the newest last.
    idle: Vec<usize>,
    /// Whose turn it is, for a fixed number of slots.
    turn: usize,
    next_id: u64,
    /// The slot whose thread is just asking for work: it need not be woken.
    prefer: Option<usize>,
    /// Entries in all lines that are not gone.
    in_line: usize,
    pub(super) timers: TimerQueue<Timed>,
    /// Places taken by tasks that wait for their time and have no slot yet.
    unplaced: u64,
    /// All places taken.
    pub(super) places: u64,
    /// Tasks accepted that do not run.
    pub(super) waiting: u64,
    /// Tasks that run or have been handed to a thread.
    pub(super) running: u64,
    pub(super) lanes: HashMap<u64, Arc<LaneCore>>,
    pub(super) live_threads: usize,
    /// Threads that somebody is just starting.
    pub(super) carrying: usize,
    pub(super) counted: Counted,
    /// What the alarm is set to; it may ring earlier than needed, and then does nothing.
    pub(super) alarm: Option<Tick>,
    /// A thread could not be started and nobody could be told: when to try again.
    pub(super) retry: Option<Tick>,
    pub(super) exited: Vec<JoinHandle<()>>,
    pub(super) waiting_for_end: Vec<EndWaiter>,
    /// The scheduler itself, from the beginning of its end until it has ended: what waits for its time is then all that
    /// could hold it.
    pub(super) until_the_end: Option<Arc<Engine>>,
}

impl State {
    pub(super) fn new(
        engine: Weak<Engine>,
        name: Arc<str>,
        shape: Shape,
        soft: bool,
        max: usize,
        cap: u64,
    ) -> State {
        let mut state = State {
            phase: Phase::Live,
            engine,
            shape,
            soft,
            max,
            cap,
            name,
            slots: Vec::new(),
            free: BinaryHeap::new(),
            count: 0,
            idle: Vec::new(),
            turn: 0,
            next_id: 0,
            prefer: None,
            in_line: 0,
            timers: TimerQueue::new(),
            unplaced: 0,
            places: 0,
            waiting: 0,
            running: 0,
            lanes: HashMap::new(),
            live_threads: 0,
            carrying: 0,
            counted: Counted::default(),
            alarm: None,
            retry: None,
            exited: Vec::new(),
            waiting_for_end: Vec::new(),
            until_the_end: None,
        };
        if matches!(shape, Shape::Fixed) {
            for _ in 0..max {
                state.new_slot(Tick::from_nanos(0));
            }
        }
        state
    }

    /// A number that grows: ids, places in line, order of submission.
    pub(super) fn next(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    // ---- slots

    pub(super) fn slot(&mut self, slot: SlotRef) -> Option<&mut Slot> {
        self.slots.get_mut(slot.index)?.as_mut().filter(|there| there.id == slot.id)
    }

    fn at(&mut self, index: usize) -> &mut Slot {
        self.slots[index].as_mut().expect("listed, so there")
    }

    pub(super) fn slot_ref(&self, index: usize) -> SlotRef {
        SlotRef { index, id: self.slots[index].as_ref().expect("listed, so there").id }
    }

    pub(super) fn info(&self, index: usize) -> SlotInfo {
        SlotInfo { scheduler: Arc::clone(&self.name), index }
    }

    fn new_slot(&mut self, now: Tick) -> usize {
        let id = self.next();
        let slot = Some(Slot::new(id, now));
        self.count += 1;
        match self.free.pop() {
            Some(Reverse(index)) => {
                self.slots[index] = slot;
                index
            }
            None => {
                self.slots.push(slot);
                self.slots.len() - 1
            }
        }
    }

    /// Forgets a slot. Its thread, if it sleeps, is woken and finds that it has none.
    fn remove_slot(&mut self, index: usize, after: &mut After) {
        self.idle.retain(|idle| *idle != index);
        let Some(slot) = self.slots[index].take() else { return };
        self.free.push(Reverse(index));
        self.count -= 1;
        self.places -= slot.places; // of series that run; nothing else is left here
        if let Thread::Parked(sleeper) = slot.thread {
            after.wake.push(sleeper);
        }
        if let Some(join) = slot.join {
            let keep = self.phase != Phase::Live;
            if keep { self.exited.push(join) } else { after.detached.push(join) }
        }
        if let Some(decorators) = slot.decorators {
            after.closed.push((self.info(index), decorators));
        }
    }

    /// Forgets a slot whose decorators refused it, if nobody else has begun to use it.
    pub(super) fn remove_if_unused(&mut self, slot: SlotRef, after: &mut After) {
        let unused = |there: &mut Slot| there.holders == 0 && there.decorators.is_none();
        if !matches!(self.shape, Shape::Fixed) && self.slot(slot).is_some_and(unused) {
            self.remove_slot(slot.index, after);
        }
    }

    /// Takes a permit for a slot.
    pub(super) fn hold(&mut self, index: usize) -> Permit {
        let busy_since = self.next();
        let slot = self.at(index);
        slot.holders += 1;
        if slot.holders == 1 {
            slot.busy_since = busy_since;
        }
        let id = slot.id;
        if slot.holders == 1
            && !mutant("stay_listed_as_idle")
            && let Some(at) = self.idle.iter().rposition(|idle| *idle == index)
        {
            self.idle.remove(at);
        }
        Permit { engine: Weak::clone(&self.engine), slot: SlotRef { index, id }, given_back: false }
    }

    /// Gives a permit back, under the lock.
    pub(super) fn give_back(&mut self, mut permit: Permit, after: &mut After) {
        permit.given_back = true;
        self.release(permit.slot, after);
    }

    fn release(&mut self, slot: SlotRef, after: &mut After) {
        let now = self.now();
        let (shape, phase) = (self.shape, self.phase);
        let Some(there) = self.slot(slot) else { return };
        there.holders -= 1;
        if there.holders > 0 {
            return;
        }
        there.idle_since = now;
        let keeps = there.is_free();
        match shape {
            Shape::Fixed => {}
            Shape::Elastic { .. } if keeps && phase != Phase::Disposed => self.idle.push(slot.index),
            // Nobody is in it any more, and it has no time to live.
            _ => self.remove_slot(slot.index, after),
        }
    }

    /// The slot for something new: the newest idle one, else a new one, else the one with the least to do; of
    /// equals the one with the fewest holders, and of those the one that has been busy longest.
    pub(super) fn pick(&mut self) -> usize {
        if matches!(self.shape, Shape::Fixed) {
            let index = self.turn;
            self.turn = (self.turn + 1) % self.slots.len();
            return index;
        }
        if let Some(index) = self.idle.last() {
            return *index;
        }
        if self.count < self.max {
            let now = self.now();
            return self.new_slot(now);
        }
        let slots = self.slots.iter().enumerate().filter_map(|(index, slot)| Some((index, slot.as_ref()?)));
        let least = slots.min_by_key(|(_, slot)| (slot.load(), slot.holders, slot.busy_since));
        least.map(|(index, _)| index).expect("at the cap there is at least one")
    }

    /// A slot whose thread could begin now, for work whose own slot is busy.
    fn pick_free(&mut self) -> Option<usize> {
        if !self.soft {
            return None;
        }
        let prefer = self.prefer.filter(|index| self.slots[*index].as_ref().is_some_and(Slot::is_free));
        if prefer.is_some() {
            return prefer;
        }
        if let Some(index) = self.idle.last() {
            return Some(*index);
        }
        let free = |slot: &Option<Slot>| slot.as_ref().is_some_and(Slot::is_free);
        if let Some(index) = self.slots.iter().position(free) {
            return Some(index);
        }
        if self.count < self.max {
            let now = self.now();
            let index = self.new_slot(now);
            // Not the submitting thread's doing, so nobody could be refused: decorators are told by whoever runs in it.
            return Some(index);
        }
        None
    }

    fn now(&self) -> Tick {
        self.engine.upgrade().map_or(Tick::from_nanos(0), |engine| engine.clock.tick())
    }

    // ---- capacity

    fn total_capacity(&self) -> u64 {
        self.cap.saturating_mul(u64::try_from(self.max).unwrap_or(u64::MAX))
    }

    pub(super) fn remaining_capacity(&self) -> u64 {
        let total = self.total_capacity();
        if self.cap == u64::MAX { u64::MAX } else { total.saturating_sub(self.places) }
    }

    /// Takes a place in the queue of a slot.
    pub(super) fn take_place(&mut self, slot: SlotRef) -> Result<(), Full> {
        let (cap, total, places) = (self.cap, self.total_capacity(), self.places);
        let Some(there) = self.slot(slot) else { return Ok(()) };
        if there.places >= cap {
            return Err(Full { would_be: there.places + 1, cap });
        }
        if places >= total {
            return Err(Full { would_be: places + 1, cap: total });
        }
        there.places += 1;
        self.places += 1;
        Ok(())
    }

    /// Takes a place for something that gives it back at once.
    pub(super) fn force_place(&mut self, slot: SlotRef) {
        if let Some(there) = self.slot(slot) {
            there.places += 1;
            self.places += 1;
        }
    }

    /// Takes a place for something whose slot is found when its time comes.
    pub(super) fn take_place_anywhere(&mut self) -> Result<(), Full> {
        let total = self.total_capacity();
        if self.places >= total {
            return Err(Full { would_be: self.places + 1, cap: total });
        }
        self.places += 1;
        self.unplaced += 1;
        Ok(())
    }

    pub(super) fn free_place(&mut self, slot: SlotRef) {
        if let Some(there) = self.slot(slot) {
            there.places -= 1;
            self.places -= 1;
        }
    }

    pub(super) fn free_place_anywhere(&mut self) {
        self.unplaced -= 1;
        self.places -= 1;
    }

    // ---- lines

    /// Hands something to a slot that is free, and sees to its thread.
    pub(super) fn hand(&mut self, index: usize, handed: Handed, after: &mut After) {
        self.running += 1;
        let slot = self.at(index);
        slot.handed = Some(handed);
        self.see_to_thread(index, after);
    }

    /// There is work for this slot's thread.
    pub(super) fn see_to_thread(&mut self, index: usize, after: &mut After) {
        let slot = self.at(index);
        match &slot.thread {
            Thread::Parked(sleeper) => {
                after.wake.push(Arc::clone(sleeper));
                slot.thread = Thread::Here;
            }
            Thread::None => {
                slot.thread = Thread::Coming;
                slot.ticket += 1;
                let (id, ticket) = (slot.id, slot.ticket);
                self.live_threads += 1;
                self.carrying += 1;
                after.carry.push((SlotRef { index, id }, ticket));
            }
            Thread::Coming | Thread::Promised | Thread::Here => {}
        }
    }

    fn push_line(&mut self, index: usize, item: Item, after: &mut After) -> u64 {
        let place = self.next();
        match &item {
            Item::Job(job, _) => job.could_start(&mut after.wake),
            Item::Lane(lane) => {
                if let Some((_, job)) = lane.cell.lock().heap.first() {
                    job.could_start(&mut after.wake);
                }
            }
            Item::Gone => {}
        }
        let slot = self.at(index);
        slot.line.push_back((place, item));
        slot.in_line += 1;
        self.in_line += 1;
        self.see_to_thread(index, after); // it is busy, unless it could not be started the last time
        place
    }

    /// Puts a task that is ready into a slot: to its thread if that is free, else into its line if there is a place.
    pub(super) fn put(
        &mut self,
        job: &Arc<Job>,
        permit: Permit,
        has_place: bool,
        after: &mut After,
    ) -> Result<(), Full> {
        let slot = permit.slot;
        let index = slot.index;
        if self.at(index).is_free() {
            if has_place {
                self.free_place_anywhere();
                self.waiting -= 1;
            }
            let handed = Handed { job: Arc::clone(job), lane: None, permit: Some(permit) };
            self.hand(index, handed, after);
            return Ok(());
        }
        if has_place {
            // It had one, wherever: now it is here.
            self.unplaced -= 1;
            self.at(index).places += 1;
        } else if let Err(full) = self.take_place(slot) {
            self.give_back(permit, after);
            return Err(full);
        } else {
            self.waiting += 1;
        }
        let place = self.push_line(index, Item::Job(Arc::clone(job), permit), after);
        *job.spot.lock() = Spot::Slot(index, place);
        Ok(())
    }

    /// The next thing for the slot's thread: what was handed to it, then its line; if work may move, what has waited longest
    /// in any line.
    pub(super) fn take_next(&mut self, index: usize, after: &mut After) -> Option<Handed> {
        let handed = self.at(index).handed.take();
        let others_wait = self.in_line > self.at(index).in_line;
        let next = match handed {
            Some(handed) => handed,
            None if self.soft && others_wait => self.take_oldest(index, after)?,
            None => self.take_from_line(index, after)?,
        };
        self.at(index).running = Some(Arc::clone(&next.job));
        Some(next)
    }

    fn take_from_line(&mut self, index: usize, after: &mut After) -> Option<Handed> {
        loop {
            let slot = self.at(index);
            let (_, item) = slot.line.pop_front()?;
            if !matches!(item, Item::Gone) {
                slot.in_line -= 1;
                self.in_line -= 1;
            }
            match item {
                Item::Gone => {}
                Item::Job(job, permit) => {
                    *job.spot.lock() = Spot::Nowhere;
                    self.free_place(permit.slot);
                    self.waiting -= 1;
                    self.running += 1;
                    return Some(Handed { job, lane: None, permit: Some(permit) });
                }
                Item::Lane(lane) => {
                    if let Some(job) = self.claim_head(&lane, after) {
                        self.running += 1;
                        return Some(Handed { job, lane: Some(lane), permit: None });
                    }
                }
            }
        }
    }

    /// Takes what has waited longest in any line.
    fn take_oldest(&mut self, taker: usize, after: &mut After) -> Option<Handed> {
        while self.in_line > 0 {
            let slots = self.slots.iter_mut().enumerate();
            let fronts = slots.filter_map(|(index, slot)| {
                let slot = slot.as_mut().filter(|slot| slot.in_line > 0)?;
                while matches!(slot.line.front(), Some((_, Item::Gone))) {
                    slot.line.pop_front();
                }
                slot.line.front().map(|(place, _)| (*place, index))
            });
            let (_, from) = fronts.min()?;
            let Some(mut handed) = self.take_from_line(from, after) else { continue };
            if from != taker {
                let permit = self.hold(taker);
                if let Some(left) = handed.permit.replace(permit) {
                    self.give_back(left, after);
                }
            }
            return Some(handed);
        }
        None
    }

    /// Takes the job at `place` out of a line.
    pub(super) fn take_out_of_line(&mut self, index: usize, place: u64) -> Option<Permit> {
        let slot = self.slots.get_mut(index)?.as_mut()?;
        let at = slot.line.binary_search_by_key(&place, |(place, _)| *place).ok()?;
        let Item::Job(_, permit) = std::mem::replace(&mut slot.line[at].1, Item::Gone) else { return None };
        slot.in_line -= 1;
        self.in_line -= 1;
        if slot.line.len() > 32 && slot.in_line * 2 < slot.line.len() {
            slot.line.retain(|(_, item)| !matches!(item, Item::Gone));
        }
        Some(permit)
    }

    // ---- lanes

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
                self.push_line(home, Item::Lane(Arc::clone(lane)), after);
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
    pub(super) fn into_lane(&mut self, lane: &Arc<LaneCore>, job: Arc<Job>, due: Tick, after: &mut After) {
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
        after.cancel.extend(cell.running.clone());
        let at_rest = cell.phase != LanePhase::Running;
        drop(cell);
        for job in thrown_out {
            *job.spot.lock() = Spot::Nowhere;
            self.waiting -= 1;
            self.counted.cancelled += 1;
            self.free_place(lane.home);
            after.cancel.push(job);
        }
        if at_rest {
            lane.cell.lock().phase = LanePhase::Idle;
            self.rest_lane(lane, after);
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

    fn has_free(&self) -> bool {
        self.count < self.max || self.slots.iter().flatten().any(Slot::is_free)
    }

    // ---- the end of a run

    /// A run has ended, of a job that is not in any line.
    pub(super) fn finish(&mut self, done: Done<'_>, after: &mut After) {
        self.running -= 1;
        match done.outcome {
            Outcome::Succeeded => self.counted.completed += 1,
            Outcome::Panicked => self.counted.panicked += 1,
            Outcome::Cancelled => self.counted.cancelled += 1,
        }
        if let Some(slot) = done.slot
            && let Some(slot) = self.slot(slot)
        {
            slot.running = None;
        }
        let Some(lane) = done.lane else { return };
        let mut cell = lane.cell.lock();
        cell.running = None;
        cell.phase = LanePhase::Idle;
        let (due, goes_on) = (cell.due, done.again && !cell.closed && self.phase == Phase::Live);
        drop(cell);
        if let Some(rhythm) = done.job.rhythm {
            if goes_on && !done.job.is_cancelled() {
                self.counted.submitted += 1;
                let next = rhythm.next(due, self.now());
                self.prefer = done.slot.map(|slot| slot.index).filter(|index| *index < self.slots.len());
                self.into_lane(lane, Arc::clone(done.job), next, after);
                self.prefer = None;
                return;
            }
            self.free_place(lane.home);
            if done.again {
                after.end_series.push(Arc::clone(done.job));
            }
        }
        self.prefer = done.slot.map(|slot| slot.index).filter(|index| *index < self.slots.len());
        self.rest_lane(lane, after);
        self.prefer = None;
    }

    /// Takes back a job that was accepted a moment ago. False: somebody has it already.
    pub(super) fn undo(&mut self, job: &Arc<Job>, after: &mut After) -> bool {
        let has_it = |slot: &Slot| slot.handed.as_ref().is_some_and(|handed| Arc::ptr_eq(&handed.job, job));
        let at = self.slots.iter().position(|slot| slot.as_ref().is_some_and(has_it));
        let Some(index) = at else { return self.take_out(job, after).is_some() };
        let handed = self.at(index).handed.take().expect("found there");
        self.unhand(handed, after);
        true
    }

    /// Something that was handed to a thread will not run there.
    fn unhand(&mut self, handed: Handed, after: &mut After) {
        self.running -= 1;
        if let Some(lane) = &handed.lane {
            let mut cell = lane.cell.lock();
            cell.running = None;
            cell.phase = LanePhase::Idle;
            drop(cell);
            if handed.job.is_series() {
                self.free_place(lane.home);
            }
            self.rest_lane(lane, after);
        }
        if let Some(permit) = handed.permit {
            self.give_back(permit, after);
        }
    }

    /// There will be no thread for this slot, and nobody who could be told: cancels what relied on it.
    pub(super) fn abandon_slot(&mut self, slot: SlotRef, after: &mut After) {
        let Some(there) = self.slot(slot) else { return };
        let handed = there.handed.take();
        let line = std::mem::take(&mut there.line);
        let in_line = std::mem::take(&mut there.in_line);
        self.in_line -= in_line;
        if let Some(handed) = handed {
            let job = Arc::clone(&handed.job);
            self.counted.cancelled += 1;
            after.cancel.push(job);
            self.unhand(handed, after);
        }
        for (_, item) in line {
            match item {
                Item::Gone => {}
                Item::Job(job, permit) => {
                    *job.spot.lock() = Spot::Nowhere;
                    self.free_place(permit.slot);
                    self.give_back(permit, after);
                    self.cancel_waiting(job, after);
                }
                Item::Lane(lane) => self.close_lane(&lane, after),
            }
        }
    }

    // ---- cancelling

    /// Takes a job out of wherever it waits. `None`: it does not wait.
    pub(super) fn take_out(&mut self, job: &Arc<Job>, after: &mut After) -> Option<()> {
        let spot = std::mem::take(&mut *job.spot.lock());
        match spot {
            Spot::Nowhere => return None,
            Spot::Timers(key) => {
                self.timers.remove(key)?;
                self.free_place_anywhere();
            }
            Spot::Slot(index, place) => {
                let permit = self.take_out_of_line(index, place)?;
                self.free_place(permit.slot);
                self.give_back(permit, after);
            }
            Spot::Lane(lane, key) => {
                lane.cell.lock().heap.remove(key)?;
                self.free_place(lane.home);
                if lane.cell.lock().phase == LanePhase::Idle {
                    self.rest_lane(&lane, after);
                }
            }
        }
        self.waiting -= 1;
        Some(())
    }

    // ---- time

    /// When somebody has to look again.
    pub(super) fn next_time(&self) -> Option<Tick> {
        let evict = match (self.shape, self.idle.first()) {
            (Shape::Elastic { ttl }, Some(index)) => {
                self.slots[*index].as_ref().map(|slot| slot.idle_since.plus(ttl))
            }
            _ => None,
        };
        self.timers.first_due().into_iter().chain(evict).chain(self.retry).min()
    }

    /// Lets idle slots go whose time is over.
    pub(super) fn evict(&mut self, now: Tick, ttl: Duration, after: &mut After) {
        while let Some(index) = self.idle.first().copied() {
            let slot = self.at(index);
            if slot.idle_since.plus(ttl) > now {
                break;
            }
            self.remove_slot(index, after);
        }
    }

    /// Some slot has work and no thread: one could not be started.
    pub(super) fn is_stuck(&self) -> bool {
        self.slots.iter().flatten().any(Slot::is_stuck)
    }

    pub(super) fn retry_threads(&mut self, after: &mut After) {
        for index in 0..self.slots.len() {
            if self.slots[index].as_ref().is_some_and(Slot::is_stuck) {
                self.see_to_thread(index, after);
            }
        }
    }

    // ---- the end

    /// Throws away all that waits; what runs is to be interrupted.
    pub(super) fn throw_out_all(&mut self, after: &mut After) {
        let lanes: Vec<_> = self.lanes.values().cloned().collect();
        for lane in lanes {
            self.close_lane(&lane, after);
        }
        while let Some((_, _, timed)) = self.timers.pop() {
            if let Timed::Job(job) = timed {
                *job.spot.lock() = Spot::Nowhere;
                self.free_place_anywhere();
                self.cancel_waiting(job, after);
            }
        }
        for index in 0..self.slots.len() {
            let Some(slot) = self.slots[index].as_mut() else { continue };
            let line = std::mem::take(&mut slot.line);
            self.in_line -= std::mem::take(&mut slot.in_line);
            after.cancel.extend(slot.handed.as_ref().map(|handed| Arc::clone(&handed.job)));
            after.cancel.extend(slot.running.clone());
            for (_, item) in line {
                if let Item::Job(job, permit) = item {
                    *job.spot.lock() = Spot::Nowhere;
                    self.free_place(permit.slot);
                    self.give_back(permit, after);
                    self.cancel_waiting(job, after);
                }
            }
        }
    }

    fn cancel_waiting(&mut self, job: Arc<Job>, after: &mut After) {
        self.waiting -= 1;
        self.counted.cancelled += 1;
        after.cancel.push(job);
    }

    /// Ends all series, and lets lanes close as soon as they are empty.
    pub(super) fn drain(&mut self, after: &mut After) {
        let lanes: Vec<_> = self.lanes.values().cloned().collect();
        for lane in lanes {
            let mut cell = lane.cell.lock();
            cell.finishing = true;
            let series = cell.heap.remove_if(|job| job.is_series());
            after.end_series.extend(cell.running.clone().filter(|job| job.is_series()));
            let idle = cell.phase == LanePhase::Idle;
            drop(cell);
            for job in series {
                *job.spot.lock() = Spot::Nowhere;
                self.free_place(lane.home);
                self.cancel_waiting(job, after);
            }
            if idle {
                self.rest_lane(&lane, after);
            }
        }
    }

    /// If nothing is left to do in a scheduler that ends: sends the threads home, and once they are gone tells
    /// everybody.
    pub(super) fn end_if_done(&mut self, after: &mut After) {
        if self.phase == Phase::Live
            || self.waiting > 0
            || (self.phase == Phase::Draining && self.running > 0)
        {
            return;
        }
        for index in 0..self.slots.len() {
            let done = |slot: &Slot| slot.is_free();
            if self.slots[index].as_ref().is_some_and(done) {
                self.remove_slot(index, after);
            }
        }
        if self.has_ended() {
            after.kept = self.until_the_end.take();
            after.ended.append(&mut self.waiting_for_end);
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.phase != Phase::Live
            && self.waiting == 0
            && self.running == 0
            && self.live_threads == 0
            && self.carrying == 0
    }

    // ---- looking at it

    pub(super) fn busy(&self) -> usize {
        self.slots.iter().flatten().filter(|slot| slot.holders > 0).count()
    }
}

/// For the key of a timer entry.
pub(super) type TimerKey = Key;
