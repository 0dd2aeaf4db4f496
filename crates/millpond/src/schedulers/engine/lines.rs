//! What waits for a thread: handing work to slots, lines, and taking work back.

use super::Shape;
use super::slot::{Handed, Item, Permit, Slot, SlotRef, Thread};
use super::state::{After, Full, State};
use crate::schedulers::job::{Job, Spot};
use crate::sync::Arc;

impl State {
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

    pub(super) fn push_line(&mut self, index: usize, item: Item, after: &mut After) -> u64 {
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
            None => match self.take_from_line(index, after) {
                Some(handed) => handed,
                None if others_wait => self.take_oldest_job(index, after)?,
                None => return None,
            },
        };
        self.at(index).running = Some(Arc::clone(&next.job));
        Some(next)
    }

    pub(super) fn take_from_line(&mut self, index: usize, after: &mut After) -> Option<Handed> {
        loop {
            let slot = self.slots[index].as_mut()?;
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
                    lane.cell.lock().place = None;
                    if let Some(job) = self.claim_head(&lane, after) {
                        self.running += 1;
                        return Some(Handed { job, lane: Some(lane), permit: None });
                    }
                }
            }
        }
    }

    /// Takes what has waited longest in any line.
    pub(super) fn take_oldest(&mut self, taker: usize, after: &mut After) -> Option<Handed> {
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

    /// Takes the task without a worker that has waited longest in any line. Workers stay with their slot where this is asked
    /// for, but such a task has no worker; only where slots get their shares by turns it stays too.
    fn take_oldest_job(&mut self, taker: usize, after: &mut After) -> Option<Handed> {
        if matches!(self.shape, Shape::Fixed) {
            return None;
        }
        let first_job = |slot: &Slot| {
            let job = slot.line.iter().find(|(_, item)| matches!(item, Item::Job(..)))?;
            Some(job.0)
        };
        let jobs = self.slots.iter().enumerate();
        let jobs = jobs.filter_map(|(index, slot)| Some((first_job(slot.as_ref()?)?, index)));
        let (place, from) = jobs.min()?;
        let (job, permit) = self.take_job_out_of_line(from, place)?;
        *job.spot.lock() = Spot::Nowhere;
        self.free_place(permit.slot);
        self.waiting -= 1;
        self.running += 1;
        let mine = self.hold(taker);
        self.give_back(permit, after);
        Some(Handed { job, lane: None, permit: Some(mine) })
    }

    /// Takes the job at `place` out of a line.
    pub(super) fn take_out_of_line(&mut self, index: usize, place: u64) -> Option<Permit> {
        self.take_job_out_of_line(index, place).map(|(_, permit)| permit)
    }

    fn take_job_out_of_line(&mut self, index: usize, place: u64) -> Option<(Arc<Job>, Permit)> {
        match self.take_item_out_of_line(index, place)? {
            Item::Job(job, permit) => Some((job, permit)),
            Item::Lane(_) | Item::Gone => None,
        }
    }

    /// Takes what is at `place` out of a line. Places are used once, so it is what was put there or nothing.
    pub(super) fn take_item_out_of_line(&mut self, index: usize, place: u64) -> Option<Item> {
        let slot = self.slots.get_mut(index)?.as_mut()?;
        let at = slot.line.binary_search_by_key(&place, |(place, _)| *place).ok()?;
        let item = std::mem::replace(&mut slot.line[at].1, Item::Gone);
        if matches!(item, Item::Gone) {
            return None;
        }
        slot.in_line -= 1;
        self.in_line -= 1;
        if slot.line.len() > 32 && slot.in_line * 2 < slot.line.len() {
            slot.line.retain(|(_, item)| !matches!(item, Item::Gone));
        }
        Some(item)
    }

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
                self.look_at_lane_again(&lane, after);
            }
        }
        self.waiting -= 1;
        Some(())
    }
}
