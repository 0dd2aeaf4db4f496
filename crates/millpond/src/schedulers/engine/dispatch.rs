//! What waits for a thread: handing work to slots, lines, and taking work back.

use super::Shape;
use super::slot::{Assigned, Item, Permit, Slot, SlotRef, Thread};
use super::state::{Deferred, Full, State};
use crate::schedulers::job::{Job, Location};
use crate::sync::Arc;
use crate::task::TaskId;

impl State {
    /// Hands something to a slot that is free, and sees to its thread.
    pub(super) fn hand(&mut self, index: usize, handed: Assigned, after: &mut Deferred) {
        self.running += 1;
        let slot = self.at(index);
        slot.handed = Some(handed);
        self.see_to_thread(index, after);
    }

    /// There is work for this slot's thread.
    pub(super) fn see_to_thread(&mut self, index: usize, after: &mut Deferred) {
        let others_may = self.others_may_take(index);
        let slot = self.at(index);
        // A lane seldom comes alone, and seldom has only one task. And who is called second is called from here, and not
        // put behind the first on that one's core.
        let of_lane = slot.handed.as_ref().is_some_and(|handed| handed.lane.is_some());
        match &slot.thread {
            Thread::Looking => self.ring(index, after),
            Thread::Parked if others_may => {
                slot.thread = Thread::Owed;
                self.pending_wake.push_back(index);
                self.see_to_owed(if of_lane { 2 } else { 1 }, after);
            }
            Thread::Parked => self.ring(index, after),
            Thread::None => {
                slot.thread = Thread::Coming;
                slot.ticket += 1;
                let (id, ticket) = (slot.id, slot.ticket);
                self.live_threads += 1;
                self.carrying += 1;
                after.carry.push((SlotRef { index, id }, ticket));
            }
            Thread::Coming | Thread::Promised | Thread::Here | Thread::Woken(_) | Thread::Owed => {}
        }
    }

    /// Another thread may take what was handed to this slot.
    fn others_may_take(&mut self, index: usize) -> bool {
        let free_to_go = !matches!(self.shape, Shape::Fixed);
        self.soft
            || (free_to_go && self.at(index).handed.as_ref().is_some_and(|handed| handed.lane.is_none()))
    }

    /// Tells a thread that looks, or that is being woken, to ask for work.
    fn ring(&mut self, index: usize, after: &mut Deferred) {
        self.searching.retain(|looker| *looker != index);
        self.woken += 1;
        let ended = self.counted.ended();
        let slot = self.at(index);
        slot.thread = Thread::Woken(ended);
        after.wake.extend(slot.cell.clone().filter(|cell| cell.mark_notified()));
    }

    /// Sees to it that somebody comes for the slots that have work and whose threads are parked.
    ///
    /// A wake-up costs more than a small task, so there is only one at a time: as long as somebody has been called and has not
    /// come, nobody else is. Whoever comes calls the next before it runs anything. So if a slot is owed a thread, somebody has
    /// been called. Who knows better has `called` on their way: who submits to a lane, and
    /// [`many_to_call`](State::many_to_call).
    pub(super) fn see_to_owed(&mut self, called: usize, after: &mut Deferred) {
        while self.woken < called {
            let Some(index) = self.next_owed() else { return };
            // One who looks can come, but not for what it may not take.
            if let Some(looker) = self.held_looker()
                && self.may_take_over(looker, false, index)
            {
                return self.ring(looker, after);
            }
            self.pending_wake.pop_front();
            self.ring(index, after);
        }
    }

    /// How many should be on their way after somebody came who was called when `ended` runs had ended.
    ///
    /// If none has ended since, tasks take longer than a wake-up, and those who are awake will not do what is left. Then it
    /// calls two, each of whom may call two: a chain of single calls would be as slow as all wake-ups one after the other. A
    /// short chain is quick, and threads that come all at once are in each other's way.
    pub(super) fn many_to_call(&self, ended: u64) -> usize {
        const SHORT: usize = 4;
        if self.counted.ended() == ended && self.pending_wake.len() > SHORT { self.woken + 2 } else { 1 }
    }

    /// The slot that has been owed a thread for longest.
    fn next_owed(&mut self) -> Option<usize> {
        while let Some(index) = self.pending_wake.front().copied() {
            if let Some(slot) = self.slots[index].as_mut()
                && matches!(slot.thread, Thread::Owed)
            {
                if !slot.is_free() {
                    return Some(index);
                }
                slot.thread = Thread::Parked; // somebody else did it
            }
            self.pending_wake.pop_front();
        }
        None
    }

    /// The thread of the slot `taker` may take what was handed to the slot `from`. It has just run something, and holds its
    /// slot for that, if `ran`.
    ///
    /// A slot that is idle takes nothing: the slot that became idle last was chosen, and that is another. And as many slots are
    /// busy afterwards as if the chosen one did it: work that alone holds its slot goes to a slot that nobody else holds either, and
    /// work whose slot stays held goes to one that stays held.
    fn may_take_over(&mut self, taker: usize, ran: bool, from: usize) -> bool {
        if !self.others_may_take(from) {
            return false;
        }
        let holders = self.at(taker).holders;
        let stays_held = holders > usize::from(ran);
        let there = self.at(from);
        let alone = there.holders == 1 && there.handed.as_ref().is_some_and(|handed| handed.permit.is_some());
        holders > 0 && stays_held != alone
    }

    /// Takes what was handed to a slot whose thread is still parked. To be asked only when nothing is in line: the
    /// slot is free then, and nobody else comes to it.
    fn take_owed(&mut self, taker: usize, ran: bool, after: &mut Deferred) -> Option<Assigned> {
        let from = self.next_owed()?;
        if !self.may_take_over(taker, ran, from) {
            return None;
        }
        self.steal(taker, from, after)
    }

    /// What was handed to the slot `from`, for the slot `taker`.
    fn steal(&mut self, taker: usize, from: usize, after: &mut Deferred) -> Option<Assigned> {
        let mut handed = self.at(from).handed.take()?;
        let permit = self.hold(taker);
        if let Some(left) = handed.permit.replace(permit) {
            self.give_back_unused(left, after);
        }
        Some(handed)
    }

    /// Takes what was handed to a slot whose thread could not be started. As long as there is such a slot it is to be tried
    /// again, or somebody is about to note that down and to look for a thread without work (`hand_head_to_idle`).
    fn take_stuck(&mut self, taker: usize, after: &mut Deferred) -> Option<Assigned> {
        self.retry?;
        let handed_in_vain = |slot: &Slot| slot.is_stuck() && slot.handed.is_some();
        let stuck = |index: &usize| self.slots[*index].as_ref().is_some_and(handed_in_vain);
        let stuck: Vec<usize> = (0..self.slots.len()).filter(stuck).collect();
        let from = stuck.into_iter().find(|index| self.others_may_take(*index))?;
        self.steal(taker, from, after)
    }

    /// A thread could not be started. Hands what others may take to threads that are there and have nothing to do; those that
    /// have something take it when they are done (`take_stuck`), or when they wait for just this.
    pub(super) fn hand_head_to_idle(&mut self, after: &mut Deferred) {
        if matches!(self.shape, Shape::PerTask) {
            return; // a thread that is there could only start another
        }
        while let Some(to) = self.free_thread()
            && let Some(handed) = self.take_stuck(to, after).or_else(|| self.take_in_line(to, after))
        {
            self.at(to).handed = Some(handed);
            self.see_to_thread(to, after);
        }
        let stuck = self.slots.iter().flatten().filter(|slot| slot.is_stuck());
        stuck
            .filter_map(|slot| slot.handed.as_ref())
            .for_each(|handed| handed.job.could_start(&mut after.wake));
    }

    /// A slot whose thread has nothing to do, the newest first.
    fn free_thread(&self) -> Option<usize> {
        let has_thread = |slot: &Slot| !matches!(slot.thread, Thread::None | Thread::Coming);
        let is_free = |slot: &Slot| slot.is_free() && has_thread(slot);
        let free = |index: &usize| self.slots[*index].as_ref().is_some_and(is_free);
        self.idle.iter().rev().copied().find(free).or_else(|| (0..self.slots.len()).find(free))
    }

    pub(super) fn push_line(&mut self, index: usize, item: Item, after: &mut Deferred) -> u64 {
        let place = self.next();
        match &item {
            Item::Job(job, _) => job.could_start(&mut after.wake),
            Item::Lane(lane) => {
                if let Some(cell) = self.lanes.get_mut(*lane) {
                    cell.tell_awaiting(&mut after.wake);
                }
            }
        }
        let slot = self.at(index);
        slot.line.push(place, item);
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
        after: &mut Deferred,
    ) -> Result<(), Full> {
        let slot = permit.slot();
        let index = slot.index;
        if self.at(index).is_free() {
            if has_place {
                self.free_place_anywhere();
                self.waiting -= 1;
            }
            let handed = Assigned { job: Arc::clone(job), lane: None, permit: Some(permit), more: None };
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
        job.set_spot(Location::Slot(u32::try_from(index).expect("so many threads do not fit"), place));
        Ok(())
    }

    /// The next thing for the slot's thread: what was handed to it, then what is in line, then what was handed to others whose
    /// threads sleep or could not be started. The thread has just run something if `ran`, and holds its slot for that.
    pub(super) fn take_next(&mut self, index: usize, ran: bool, after: &mut Deferred) -> Option<Assigned> {
        let handed = self.at(index).handed.take();
        let next = handed
            .or_else(|| self.take_in_line(index, after))
            .or_else(|| self.take_owed(index, ran, after))
            .or_else(|| self.take_stuck(index, after))?;
        self.at(index).running = Some(Arc::clone(&next.job));
        Some(next)
    }

    /// What is in the slot's own line; if work may move, what has waited longest in any line.
    fn take_in_line(&mut self, index: usize, after: &mut Deferred) -> Option<Assigned> {
        if self.in_line == 0 {
            return None;
        }
        let others_wait = self.in_line > self.at(index).line.len();
        if self.soft && others_wait {
            return self.take_oldest(index, after);
        }
        let mine = self.take_from_line(index, after);
        if others_wait { mine.or_else(|| self.take_oldest_job(index, after)) } else { mine }
    }

    pub(super) fn take_from_line(&mut self, index: usize, after: &mut Deferred) -> Option<Assigned> {
        loop {
            let item = self.slots[index].as_mut()?.line.pop()?;
            self.in_line -= 1;
            match item {
                Item::Job(job, permit) => {
                    job.set_spot(Location::Nowhere);
                    self.free_place(permit.slot());
                    self.waiting -= 1;
                    self.running += 1;
                    return Some(Assigned { job, lane: None, permit: Some(permit), more: None });
                }
                Item::Lane(lane) => {
                    if let Some(cell) = self.lanes.get_mut(lane) {
                        cell.place = None;
                    }
                    if let Some(handed) = self.claim_head(lane, after) {
                        self.running += 1;
                        return Some(handed);
                    }
                }
            }
        }
    }

    /// Takes what has waited longest in any line.
    pub(super) fn take_oldest(&mut self, taker: usize, after: &mut Deferred) -> Option<Assigned> {
        while self.in_line > 0 {
            let slots = self.slots.iter().enumerate();
            let fronts = slots.filter_map(|(index, slot)| Some((slot.as_ref()?.line.first()?.0, index)));
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

    /// Takes the task without a worker that has waited longest in any line. Workers stay with their slot where this is asked
    /// for, but such a task has no worker; only where slots get their shares by turns it stays too.
    fn take_oldest_job(&mut self, taker: usize, after: &mut Deferred) -> Option<Assigned> {
        if matches!(self.shape, Shape::Fixed) {
            return None;
        }
        let first_job = |slot: &Slot| {
            let (place, _) = slot.line.iter().find(|(_, item)| matches!(item, Item::Job(..)))?;
            Some(place)
        };
        let jobs = self.slots.iter().enumerate();
        let jobs = jobs.filter_map(|(index, slot)| Some((first_job(slot.as_ref()?)?, index)));
        let (place, from) = jobs.min()?;
        let (job, permit) = self.take_job_out_of_line(from, place)?;
        job.set_spot(Location::Nowhere);
        self.free_place(permit.slot());
        self.waiting -= 1;
        self.running += 1;
        let mine = self.hold(taker);
        self.give_back(permit, after);
        Some(Assigned { job, lane: None, permit: Some(mine), more: None })
    }

    /// Takes the job at `place` out of a line.
    pub(super) fn take_out_of_line(&mut self, index: usize, place: u64) -> Option<Permit> {
        self.take_job_out_of_line(index, place).map(|(_, permit)| permit)
    }

    fn take_job_out_of_line(&mut self, index: usize, place: u64) -> Option<(Arc<Job>, Permit)> {
        match self.take_item_out_of_line(index, place)? {
            Item::Job(job, permit) => Some((job, permit)),
            Item::Lane(_) => None,
        }
    }

    /// Takes what is at `place` out of a line. Places are used once, so it is what was put there or nothing.
    pub(super) fn take_item_out_of_line(&mut self, index: usize, place: u64) -> Option<Item> {
        let item = self.slots.get_mut(index)?.as_mut()?.line.remove(place)?;
        self.in_line -= 1;
        Some(item)
    }

    /// The job of a task that waits here, for a thread that joins it. `lane`: in the lane of this index, else without one.
    ///
    /// Those without a lane are looked at one by one, the newest first: as a rule who joins a task has submitted it a moment ago.
    pub(super) fn find_task(&self, id: TaskId, lane: u64) -> Option<Arc<Job>> {
        let is_it = |job: &&Arc<Job>| job.is_of(id);
        let slots = || self.slots.iter().flatten();
        let handed = slots().filter_map(|slot| Some(&slot.handed.as_ref()?.job)).find(is_it);
        if handed.is_some() {
            return handed.cloned();
        }
        if let Ok(lane) = u32::try_from(lane) {
            return self.lanes.get(self.lanes.at(lane)?)?.find_task(id);
        }
        let in_line =
            |slot: &'_ Slot| slot.line.iter().rev().filter_map(|(_, item)| item.job()).find(is_it).cloned();
        let delayed = || self.delayed.find(|job| job.is_of(id)).cloned();
        slots().find_map(in_line).or_else(delayed)
    }

    /// Takes a job out of wherever it waits. `None`: it does not wait.
    pub(super) fn take_out(&mut self, job: &Arc<Job>, after: &mut Deferred) -> Option<()> {
        let spot = job.spot();
        job.set_spot(Location::Nowhere);
        match spot {
            Location::Nowhere => return None,
            Location::Timers(key) => {
                self.delayed.remove(key.to_bits(), |other| Arc::ptr_eq(job, other))?;
                self.free_place_anywhere();
            }
            Location::Slot(index, place) => {
                let permit = self.take_out_of_line(index as usize, place)?;
                self.free_place(permit.slot());
                self.give_back(permit, after);
            }
            Location::Ready(lane, _) | Location::Later(lane, _) => {
                let lane = self.lanes.at(lane)?;
                self.take_out_of_lane(lane, spot, after)?;
            }
        }
        self.waiting -= 1;
        Some(())
    }
}
