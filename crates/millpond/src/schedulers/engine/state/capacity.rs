//! The queue capacity: how many tasks may wait for each slot, and for all of them together.
//!
//! A waiting task takes one place of its home slot. A delayed task without a worker has no slot
//! yet, so it takes a place of the total only. A periodic task keeps its place until it ends.
//!
//! Invariant: `taken` is the sum of the places of all slots and of `unplaced`.

use super::slot::Slot;
use crate::schedulers::engine::model::Full;

#[derive(Debug)]
pub(super) struct Capacity {
    per_slot: u64,
    total: u64,
    taken: u64,
    /// Places taken by tasks without a slot.
    unplaced: u64,
}

impl Capacity {
    /// `usize::MAX` places per slot mean no bound.
    pub(super) fn new(per_slot: usize, max_slots: usize) -> Capacity {
        let per_slot = if per_slot == usize::MAX { u64::MAX } else { per_slot as u64 };
        let total = per_slot.saturating_mul(u64::try_from(max_slots).unwrap_or(u64::MAX));
        Capacity { per_slot, total, taken: 0, unplaced: 0 }
    }

    /// Returns how many more tasks may wait; `u64::MAX` if there is no bound.
    pub(super) fn remaining(&self) -> u64 {
        if self.per_slot == u64::MAX { u64::MAX } else { self.total.saturating_sub(self.taken) }
    }

    /// Takes a place of a slot, unless the slot or the total is full.
    pub(super) fn take(&mut self, slot: &mut Slot) -> Result<(), Full> {
        if slot.places() >= self.per_slot {
            return Err(Full { would_be: slot.places() + 1, cap: self.per_slot });
        }
        self.check_total()?;
        self.take_unchecked(slot);
        Ok(())
    }

    fn check_total(&self) -> Result<(), Full> {
        if self.taken >= self.total {
            return Err(Full { would_be: self.taken + 1, cap: self.total });
        }
        Ok(())
    }

    /// Takes a place without a check, for a task that frees it in the same critical section.
    pub(super) fn take_unchecked(&mut self, slot: &mut Slot) {
        slot.set_places(slot.places() + 1);
        self.taken += 1;
    }

    /// Takes a place for a task whose slot is chosen later.
    pub(super) fn take_unplaced(&mut self) -> Result<(), Full> {
        self.check_total()?;
        self.taken += 1;
        self.unplaced += 1;
        Ok(())
    }

    /// Moves a place taken by `take_unplaced` to the slot that was chosen for the task.
    pub(super) fn place(&mut self, slot: &mut Slot) {
        self.unplaced -= 1;
        slot.set_places(slot.places() + 1);
    }

    pub(super) fn free(&mut self, slot: &mut Slot, places: u64) {
        slot.set_places(slot.places() - places);
        self.taken -= places;
    }

    pub(super) fn free_unplaced(&mut self) {
        self.unplaced -= 1;
        self.taken -= 1;
    }

    /// Takes up to `most` places of a slot, but no more than half of those left. Returns the
    /// number.
    pub(super) fn reserve(&mut self, slot: &mut Slot, most: u64) -> u64 {
        let of_slot = self.per_slot.saturating_sub(slot.places());
        let left = of_slot.min(self.total.saturating_sub(self.taken));
        let reserved = most.min(left / 2);
        slot.set_places(slot.places() + reserved);
        self.taken += reserved;
        reserved
    }

    /// Frees the places of a removed slot. These belong to periodic tasks that still run.
    pub(super) fn slot_removed(&mut self, slot: &Slot) {
        self.taken -= slot.places();
    }
}
