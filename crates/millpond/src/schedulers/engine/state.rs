//! What a scheduler knows, under its one lock: slots, lines, lanes, timers and counts.
//!
//! Everything here is called with the lock held and does nothing that could block or call a user: what has to be done
//! outside is noted in [`Deferred`].
//!
//! Invariants, whenever the lock is free:
//! 1. A slot is in `idle` exactly if nobody holds it (schedulers that let idle slots go).
//! 2. Something waits in a line only if the slot's thread is busy or on its way; and, if work may move between slots, only
//!    if no slot is free and no new one may be made. This is what "work conserving" means.
//! 3. `places` is the sum of the slots' `places` and of `unplaced`, and counts waiting tasks, and series for life. What went on in
//!    lanes without the lock has to be settled first, and what is set aside for them be given back ([`ready`](super::lane_queue)); so
//!    it is for `waiting` and the counts of tasks.
//! 4. A lane is in at most one of: a timer, a line, a run.
//! 5. A slot with work whose thread is parked is in `pending_wake`, and then some thread is woken and has not come yet.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::thread::JoinHandle;
use std::time::Duration;

use super::lane::{LaneRef, Lanes};
use super::lane_queue::Runs;
use super::slot::{Permit, Slot, SlotRef, Thread};
use super::start::Start;
use super::{Engine, Shape};
use crate::interrupt::wait::WaitCell;
use crate::schedulers::hooks::{Decorators, SlotInfo};
use crate::schedulers::job::Job;
use crate::sync::Arc;
use crate::time::clock::{Clock, Tick};
use crate::time::heap::TimerQueue;
use crate::time::wheel::{Look, TimerWheel};

/// How far the scheduler's life has come. Only grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    Live,
    /// Takes nothing more, and works off what it has.
    Draining,
    /// Has thrown away what waited; bodies may still be running.
    Disposed,
}

/// What has fallen due.
#[derive(Debug)]
pub(super) enum Due {
    Job(Arc<Job>),
    Lane(LaneRef),
}

#[derive(Debug, Default, Clone, Copy)]
pub(super) struct CountedCell {
    pub(super) submitted: u64,
    pub(super) completed: u64,
    pub(super) panicked: u64,
    pub(super) cancelled: u64,
    pub(super) rejected: u64,
}

impl CountedCell {
    pub(super) fn add(&mut self, runs: Runs) {
        self.completed += runs.succeeded;
        self.panicked += runs.panicked;
        self.cancelled += runs.cancelled;
    }

    /// All that came to an end.
    pub(super) fn ended(&self) -> u64 {
        self.completed + self.panicked + self.cancelled
    }
}

/// What is to be done when the lock is free again.
#[derive(Debug, Default)]
pub(super) struct Deferred {
    pub(super) wake: Vec<Arc<WaitCell>>,
    /// Slots that need a thread.
    pub(super) carry: Vec<Start>,
    /// Jobs that are taken out of everything, to be marked as cancelled.
    pub(super) cancel: Vec<Arc<Job>>,
    /// Series whose run under way is the last.
    pub(super) end_series: Vec<Arc<Job>>,
    pub(super) closed: Vec<(SlotInfo, Decorators)>,
    /// It is later already than the alarm was set to.
    pub(super) ring: bool,
    /// The end has come: whoever waits for it should look.
    pub(super) ended: bool,
    /// Not dropped under its own lock.
    pub(super) kept: Option<Arc<Engine>>,
    /// Threads that are gone. What they ended with may be the user's: not dropped under the lock.
    pub(super) gone: Vec<JoinHandle<()>>,
}

impl Deferred {
    /// Something of it may call the user.
    pub(super) fn is_for_courier(&self) -> bool {
        let nothing = self.carry.is_empty()
            && self.cancel.is_empty()
            && self.end_series.is_empty()
            && self.closed.is_empty()
            && self.gone.is_empty()
            && self.kept.is_none();
        !nothing || self.ended || self.ring
    }
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
    pub(super) clock: Clock,
    pub(super) shape: Shape,
    pub(super) soft: bool,
    pub(super) max: usize,
    pub(super) cap: u64,
    pub(super) name: Arc<str>,
    pub(super) slots: Vec<Option<Slot>>,
    /// Indices to be used again, the smallest first.
    pub(super) free: BinaryHeap<Reverse<usize>>,
    /// How many of `slots` there are.
    pub(super) count: usize,
    /// Slots that nobody holds, the newest last.
    pub(super) idle: Vec<usize>,
    /// Whose turn it is, for a fixed number of slots.
    pub(super) turn: usize,
    pub(super) next_id: u64,
    /// The slot whose thread is just asking for work: it need not be woken.
    pub(super) prefer: Option<usize>,
    /// Entries in all lines.
    pub(super) in_line: usize,
    /// Slots whose threads look.
    pub(super) searching: Vec<usize>,
    /// Threads whose bell has been rung, and who have not come yet.
    pub(super) woken: usize,
    /// Slots that have work and whose threads are parked: see `owe`. Some may have been seen to since.
    pub(super) pending_wake: VecDeque<usize>,
    /// Jobs whose time has not come, and that belong to no lane.
    pub(super) delayed: TimerWheel<Arc<Job>>,
    /// The wheel has a bucket to open before its entries are due: look again by then, which is now.
    pub(super) look_ahead: Option<Tick>,
    /// Lanes that wait for the time of their next job.
    pub(super) timers: TimerQueue<LaneRef>,
    /// Places taken by tasks that wait for their time and have no slot yet.
    pub(super) unplaced: u64,
    /// All places taken.
    pub(super) places: u64,
    /// Tasks accepted that do not run.
    pub(super) waiting: u64,
    /// Tasks that run or have been handed to a thread.
    pub(super) running: u64,
    pub(super) lanes: Lanes,
    pub(super) live_threads: usize,
    /// Threads that somebody is just starting.
    pub(super) carrying: usize,
    /// Slots that are gone, and whose decorators are just being told.
    pub(super) closing: usize,
    pub(super) counted: CountedCell,
    /// What the alarm is set to; it may ring earlier than needed, and then does nothing.
    pub(super) alarm: Option<Tick>,
    /// A thread could not be started and nobody could be told: when to try again.
    pub(super) retry: Option<Tick>,
    /// Threads that have left and are not known to be gone.
    pub(super) exited: Vec<JoinHandle<()>>,
    /// Those of them that are gone: on their way into an [`Deferred`].
    pub(super) gone: Vec<JoinHandle<()>>,
    /// Threads that somebody waits for just now.
    pub(super) joining: usize,
    /// The scheduler itself, from the beginning of its end until it has ended: what waits for its time is then all that
    /// could hold it.
    pub(super) until_the_end: Option<Arc<Engine>>,
}
impl State {
    pub(super) fn new(clock: Clock, name: Arc<str>, shape: Shape, soft: bool, max: usize, cap: u64) -> State {
        let mut state = State {
            phase: Phase::Live,
            clock,
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
            searching: Vec::new(),
            woken: 0,
            pending_wake: VecDeque::new(),
            delayed: TimerWheel::new(u64::MAX),
            look_ahead: None,
            timers: TimerQueue::new(),
            unplaced: 0,
            places: 0,
            waiting: 0,
            running: 0,
            lanes: Lanes::default(),
            live_threads: 0,
            carrying: 0,
            closing: 0,
            counted: CountedCell::default(),
            alarm: None,
            retry: None,
            exited: Vec::new(),
            gone: Vec::new(),
            joining: 0,
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

    pub(super) fn at(&mut self, index: usize) -> &mut Slot {
        self.slots[index].as_mut().expect("listed, so there")
    }

    pub(super) fn info(&self, index: usize) -> SlotInfo {
        SlotInfo { scheduler: Arc::clone(&self.name), index }
    }

    pub(super) fn new_slot(&mut self, now: Tick) -> usize {
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
    pub(super) fn remove_slot(&mut self, index: usize, after: &mut Deferred) {
        self.idle.retain(|idle| *idle != index);
        let Some(slot) = self.slots[index].take() else { return };
        self.free.push(Reverse(index));
        self.count -= 1;
        self.places -= slot.places; // of series that run; nothing else is left here
        match slot.thread {
            Thread::Looking => self.searching.retain(|looker| *looker != index),
            Thread::Woken(_) => self.woken -= 1,
            Thread::None
            | Thread::Coming
            | Thread::Promised
            | Thread::Here
            | Thread::Parked
            | Thread::Owed => {}
        }
        after.wake.extend(slot.cell.filter(|cell| cell.mark_notified()));
        self.see_to_owed(1, after);
        self.left(slot.join);
        if let Some(decorators) = slot.decorators.filter(|decorators| !decorators.is_empty()) {
            self.closing += 1;
            after.closed.push((self.info(index), decorators));
        }
    }

    /// Remembers the thread of a slot until it is gone: at the end somebody wants to know.
    pub(super) fn left(&mut self, thread: Option<JoinHandle<()>>) {
        self.gone.extend(self.exited.extract_if(.., |thread| thread.is_finished()));
        self.exited.extend(thread);
    }

    /// Forgets a slot whose decorators refused it, if nobody else has begun to use it.
    pub(super) fn remove_if_unused(&mut self, slot: SlotRef, after: &mut Deferred) {
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
            && let Some(at) = self.idle.iter().rposition(|idle| *idle == index)
        {
            self.idle.remove(at);
        }
        Permit::new(SlotRef { index, id })
    }

    /// Gives a permit back.
    pub(super) fn give_back(&mut self, permit: Permit, after: &mut Deferred) {
        if let Some(index) = self.take_back(permit, after) {
            let (now, turn) = (self.now(), self.next());
            let slot = self.at(index);
            (slot.idle_since, slot.idle_turn) = (now, turn);
            self.idle.push(index);
        }
    }

    /// Gives a permit back for work that another slot's thread has taken over. This one has not been used: it is as old as
    /// before, and where it was among the idle ones.
    pub(super) fn give_back_unused(&mut self, permit: Permit, after: &mut Deferred) {
        if let Some(index) = self.take_back(permit, after) {
            let turn = self.at(index).idle_turn;
            let older = |idle: &usize| self.slots[*idle].as_ref().is_some_and(|slot| slot.idle_turn < turn);
            let place = self.idle.partition_point(older);
            self.idle.insert(place, index);
        }
    }

    /// The slot that `permit` was for, if it is idle now.
    fn take_back(&mut self, permit: Permit, after: &mut Deferred) -> Option<usize> {
        let slot = permit.slot();
        let there = self.slot(slot)?;
        there.holders -= 1;
        if there.holders > 0 {
            return None;
        }
        let keeps = there.is_free();
        match self.shape {
            Shape::Fixed => None,
            Shape::Elastic { .. } if keeps && self.phase != Phase::Disposed => Some(slot.index),
            // Nobody is in it any more, and it has no time to live.
            _ => {
                self.remove_slot(slot.index, after);
                None
            }
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

    /// The slot whose thread has just run something and asks for more, if work may move to it.
    pub(super) fn preferred(&self) -> Option<usize> {
        let free = |index: &usize| self.slots[*index].as_ref().is_some_and(Slot::is_free);
        self.prefer.filter(|index| self.soft && free(index))
    }

    /// A slot that somebody holds and whose thread looks for work. One that looks in an idle slot is none of these: idle slots
    /// are used from the top of their stack, whatever their threads do.
    pub(super) fn held_looker(&self) -> Option<usize> {
        let held = |slot: &Slot| slot.is_free() && slot.holders > 0;
        let is_held = |index: &usize| self.slots[*index].as_ref().is_some_and(held);
        self.searching.iter().rev().copied().find(is_held)
    }

    /// A slot whose thread could begin now, for work whose own slot is busy.
    pub(super) fn pick_free(&mut self) -> Option<usize> {
        if !self.soft {
            return None;
        }
        if let Some(index) = self.idle.last().copied().or_else(|| self.held_looker()) {
            return Some(index);
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

    pub(super) fn now(&self) -> Tick {
        self.clock.tick()
    }

    // ---- capacity

    pub(super) fn total_capacity(&self) -> u64 {
        self.cap.saturating_mul(u64::try_from(self.max).unwrap_or(u64::MAX))
    }

    pub(super) fn remaining_capacity(&self) -> u64 {
        let total = self.total_capacity();
        if self.cap == u64::MAX { u64::MAX } else { total.saturating_sub(self.places) }
    }

    /// Takes a place in the queue of a slot.
    pub(super) fn take_place(&mut self, slot: SlotRef) -> Result<(), Full> {
        self.try_take_place(slot).or_else(|_| {
            self.shut_all();
            self.try_take_place(slot)
        })
    }

    fn try_take_place(&mut self, slot: SlotRef) -> Result<(), Full> {
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
            self.shut_all();
        }
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

    // ---- time

    /// When somebody has to look again.
    pub(super) fn next_time(&self) -> Option<Tick> {
        let evict = match (self.shape, self.idle.first()) {
            (Shape::Elastic { ttl }, Some(index)) => {
                self.slots[*index].as_ref().map(|slot| slot.idle_since.plus(ttl))
            }
            _ => None,
        };
        let timed = self.timers.first_due().into_iter().chain(self.delayed.look_by());
        timed.chain(self.look_ahead).chain(evict).chain(self.retry).min()
    }

    /// Puts a job in that is to be handed to a slot when it is `due`.
    pub(super) fn delay(&mut self, job: &Arc<Job>, due: Tick) {
        if self.delayed.is_empty() {
            self.delayed.begin_at(self.clock.tick());
        }
        let number = self.next();
        self.delayed.insert(due, number, Arc::clone(job));
    }

    /// Takes out what is due by `now`, in order of time and then of arrival.
    pub(super) fn pop_due(&mut self, now: Tick) -> Option<Due> {
        let mut look = self.delayed.look(now);
        // A manual clock is not late, and its alarm rings on the thread that moves it.
        while look == Look::Again || (look == Look::Ahead && self.clock.tells()) {
            look = self.delayed.look(now);
        }
        self.look_ahead = (look == Look::Ahead).then_some(now);
        let job = if look == Look::Due { self.delayed.first() } else { None };
        let lane = self.timers.first().filter(|(due, _)| *due <= now);
        if job.is_some() && lane.is_none_or(|lane| job < Some(lane)) {
            return self.delayed.pop().map(|(_, job)| Due::Job(job));
        }
        lane?;
        self.timers.pop().map(|(_, _, lane)| Due::Lane(lane))
    }

    /// Lets idle slots go whose time is over.
    pub(super) fn evict(&mut self, now: Tick, ttl: Duration, after: &mut Deferred) {
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

    pub(super) fn retry_threads(&mut self, after: &mut Deferred) {
        for index in 0..self.slots.len() {
            if self.slots[index].as_ref().is_some_and(Slot::is_stuck) {
                self.see_to_thread(index, after);
            }
        }
    }

    // ---- looking at it

    pub(super) fn busy(&self) -> usize {
        self.slots.iter().flatten().filter(|slot| slot.holders > 0).count()
    }
}
