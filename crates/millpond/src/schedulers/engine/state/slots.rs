//! [`Slots`]: the slots of a scheduler: which exist, which are idle, and which is used next.
//!
//! Invariants of the shape `Elastic`
//! 1. A slot is on the idle stack exactly if it has no holder.
//! 2. The idle stack is ordered by the time of the last use, the newest on top.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use super::slot::Slot;
use crate::schedulers::engine::model::{Permit, Shape, SlotRef};
use crate::time::clock::Tick;

#[derive(Debug)]
pub(super) struct Slots {
    shape: Shape,
    max: usize,
    slots: Vec<Option<Slot>>,
    /// Free indices, reused smallest first. After `trim`, some may be beyond the end of `slots`, or
    /// in use again.
    free_indices: BinaryHeap<Reverse<usize>>,
    count: usize,
    /// The idle stack. The newest idle slot is last.
    idle: Vec<usize>,
    /// The next slot of a `Fixed` scheduler.
    next_in_turn: usize,
    /// The last number used for an id or a turn.
    last_number: u64,
}

impl Slots {
    pub(super) fn new(shape: Shape, max: usize) -> Slots {
        let mut slots = Slots {
            shape,
            max,
            slots: Vec::new(),
            free_indices: BinaryHeap::new(),
            count: 0,
            idle: Vec::new(),
            next_in_turn: 0,
            last_number: 0,
        };
        if matches!(shape, Shape::Fixed) {
            (0..max).for_each(|_| _ = slots.add(Tick::from_nanos(0)));
        }
        slots
    }

    fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    // ---- access

    pub(super) fn get(&self, slot: SlotRef) -> Option<&Slot> {
        self.slots.get(slot.index)?.as_ref().filter(|there| there.id() == slot.id)
    }

    pub(super) fn get_mut(&mut self, slot: SlotRef) -> Option<&mut Slot> {
        self.slots.get_mut(slot.index)?.as_mut().filter(|there| there.id() == slot.id)
    }

    /// Returns the slot with an index that is in use. Panics if it is not.
    pub(super) fn at(&self, index: usize) -> &Slot {
        self.slots[index].as_ref().expect("the index is in use")
    }

    pub(super) fn at_mut(&mut self, index: usize) -> &mut Slot {
        self.slots[index].as_mut().expect("the index is in use")
    }

    pub(super) fn try_at(&self, index: usize) -> Option<&Slot> {
        self.slots.get(index)?.as_ref()
    }

    pub(super) fn try_at_mut(&mut self, index: usize) -> Option<&mut Slot> {
        self.slots.get_mut(index)?.as_mut()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, &Slot)> {
        self.slots.iter().enumerate().filter_map(|(index, slot)| Some((index, slot.as_ref()?)))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Slot> {
        self.slots.iter_mut().flatten()
    }

    /// The range of all indices that are or were in use.
    pub(super) fn indices(&self) -> std::ops::Range<usize> {
        0..self.slots.len()
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Returns the number of slots with a holder.
    pub(super) fn busy(&self) -> usize {
        self.iter().filter(|(_, slot)| slot.holders() > 0).count()
    }

    // ---- creating and removing

    fn add(&mut self, now: Tick) -> usize {
        let slot = Some(Slot::new(self.next_number(), now));
        self.count += 1;
        while let Some(Reverse(index)) = self.free_indices.pop() {
            if let Some(place @ None) = self.slots.get_mut(index) {
                *place = slot;
                return index;
            }
        }
        self.slots.push(slot);
        self.slots.len() - 1
    }

    pub(super) fn remove(&mut self, index: usize) -> Option<Slot> {
        self.idle.retain(|idle| *idle != index);
        let slot = self.slots.get_mut(index)?.take()?;
        self.free_indices.push(Reverse(index));
        self.count -= 1;
        self.trim();
        Some(slot)
    }

    /// Drops free places at the end, so that the cost of a visit to all slots follows their number.
    /// Takes constant time per removed slot on average.
    fn trim(&mut self) {
        const FEW: usize = 64;
        while self.slots.len() > FEW
            && self.count <= self.slots.len() / 4
            && self.slots.last().is_some_and(Option::is_none)
        {
            self.slots.pop();
        }
        if self.free_indices.len() > FEW + 2 * self.slots.len() {
            let is_free = |index: &usize| self.slots[*index].is_none();
            self.free_indices = (0..self.slots.len()).filter(is_free).map(Reverse).collect();
            self.slots.shrink_to_fit();
        }
    }

    // ---- holding

    /// Takes a permit for a slot.
    pub(super) fn hold(&mut self, index: usize) -> Permit {
        let turn = self.next_number();
        let slot = self.at_mut(index);
        let id = slot.id();
        let is_first = slot.hold(turn);
        if is_first && let Some(at) = self.idle.iter().rposition(|idle| *idle == index) {
            self.idle.remove(at);
        }
        Permit::new(SlotRef { index, id })
    }

    /// Releases a permit. Returns the index of the slot if it was the last one.
    pub(super) fn release(&mut self, permit: &Permit) -> Option<usize> {
        let slot = permit.slot();
        let was_last = self.get_mut(slot)?.release();
        was_last.then_some(slot.index)
    }

    /// Puts a slot on top of the idle stack.
    pub(super) fn make_idle(&mut self, index: usize, now: Tick) {
        let turn = self.next_number();
        self.at_mut(index).make_idle(now, turn);
        self.idle.push(index);
    }

    /// Puts a slot that was held but not used back at its old position in the idle stack.
    pub(super) fn restore_idle(&mut self, index: usize) {
        let turn = self.at(index).idle_turn();
        let place = self.idle.partition_point(|idle| self.at(*idle).idle_turn() < turn);
        self.idle.insert(place, index);
    }

    // ---- choosing

    /// Picks the slot for new work: the newest idle slot, else a new one, else the one with the
    /// least work. In the shape `Fixed`, slots are picked round robin.
    pub(super) fn pick(&mut self, now: impl FnOnce() -> Tick) -> usize {
        if matches!(self.shape, Shape::Fixed) {
            let index = self.next_in_turn;
            self.next_in_turn = (index + 1) % self.slots.len();
            return index;
        }
        if let Some(index) = self.newest_idle() {
            return index;
        }
        if let Some(index) = self.add_below_max(now) {
            return index;
        }
        let least = self.iter().min_by_key(|(_, slot)| slot.load_order());
        least.map(|(index, _)| index).expect("a scheduler at its maximum has slots")
    }

    pub(super) fn newest_idle(&self) -> Option<usize> {
        self.idle.last().copied()
    }

    /// Creates a slot if another one is allowed.
    pub(super) fn add_below_max(&mut self, now: impl FnOnce() -> Tick) -> Option<usize> {
        if self.count < self.max { Some(self.add(now())) } else { None }
    }

    pub(super) fn first_free(&self) -> Option<usize> {
        self.iter().find(|(_, slot)| slot.is_free()).map(|(index, _)| index)
    }

    /// Returns true if a slot is free or can be created.
    pub(super) fn has_free(&self) -> bool {
        self.count < self.max || self.first_free().is_some()
    }

    pub(super) fn is_free(&self, index: usize) -> bool {
        self.try_at(index).is_some_and(Slot::is_free)
    }

    /// Iterates over the idle slots, newest first.
    pub(super) fn idle(&self) -> impl Iterator<Item = usize> {
        self.idle.iter().rev().copied()
    }

    // ---- eviction

    /// Returns when the slot that has been idle for longest expires.
    pub(super) fn next_eviction(&self) -> Option<Tick> {
        let Shape::Elastic { ttl } = self.shape else { return None };
        self.idle.first().map(|index| self.at(*index).idle_since().plus(ttl))
    }

    /// Returns the slot that has been idle for longest, if its time to live is over.
    pub(super) fn expired(&self, now: Tick, ttl: Duration) -> Option<usize> {
        let oldest = self.idle.first().copied();
        oldest.filter(|index| self.at(*index).idle_since().plus(ttl) <= now)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_burst_leaves_few_places_and_each_index_is_given_once() {
        let mut slots = Slots::new(Shape::Bursts, usize::MAX);
        let add = |slots: &mut Slots| slots.add_below_max(|| Tick::ORIGIN).expect("there is no bound");
        for (most, kept) in [(1000, 3), (500, 400), (2000, 0)] {
            let before = slots.count();
            let mut added: Vec<_> = (0..most).map(|_| add(&mut slots)).collect();
            added.sort_unstable();
            added.dedup();
            assert_eq!((added.len(), slots.count()), (most, before + most));
            // From the middle, so that both ends have free places for a while.
            added.rotate_left(most / 2);
            added.iter().filter(|index| **index >= kept).for_each(|index| _ = slots.remove(*index));
            let last = slots.iter().last().map_or(0, |(index, _)| index + 1);
            let len = slots.indices().len();
            assert!(
                len <= 64 || len == last || 4 * slots.count() > len,
                "{len} places for {}",
                slots.count()
            );
            assert!(slots.free_indices.len() <= 64 + 2 * len);
        }
    }
}
