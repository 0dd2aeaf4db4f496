//! [`Queues`]: work that waits for a thread. Work that may move is in one shared queue, other work
//! in the queue of its slot.
//!
//! Every item has a home slot, whose capacity it uses. Places are numbered across all queues, so
//! the item with the smaller place is older.

use std::collections::BTreeMap;

use super::slots::Slots;
use crate::schedulers::engine::model::{Item, SlotRef};
use crate::schedulers::engine::removal_queue::RemovalQueue;
use crate::schedulers::job::JobRef;
use crate::task::TaskId;

#[derive(Debug)]
pub(super) struct Queues {
    shared: RemovalQueue<Item>,
    last_place: u64,
}

impl Queues {
    pub(super) fn new() -> Queues {
        Queues { shared: RemovalQueue::new(), last_place: 0 }
    }

    /// Appends an item and returns its place.
    pub(super) fn push(&mut self, slots: &mut Slots, item: Item, is_movable: bool) -> u64 {
        self.last_place += 1;
        let home = slots.at_mut(item.home().index);
        home.item_queued();
        let queue = if is_movable { &mut self.shared } else { home.pinned_mut() };
        queue.push(self.last_place, item);
        self.last_place
    }

    /// Takes the oldest item that the thread of this slot may run.
    pub(super) fn pop(&mut self, slots: &mut Slots, index: usize) -> Option<Item> {
        let slot = slots.at_mut(index);
        let item = match (slot.pinned().first_place(), self.shared.first_place()) {
            (Some(pinned), Some(shared)) if shared < pinned => self.shared.pop(),
            (None, Some(_)) => self.shared.pop(),
            _ => slot.pinned_mut().pop(),
        }?;
        slots.at_mut(item.home().index).item_left();
        Some(item)
    }

    /// Removes the item at `place` whose home is slot `index`. Returns `None` if it is gone.
    pub(super) fn remove(&mut self, slots: &mut Slots, index: usize, place: u64) -> Option<Item> {
        let slot = slots.try_at_mut(index)?;
        let item = self.shared.remove(place).or_else(|| slot.pinned_mut().remove(place))?;
        slot.item_left();
        Some(item)
    }

    /// Removes all items whose home is this slot.
    pub(super) fn take_homed(&mut self, slots: &mut Slots, home: SlotRef) -> Vec<Item> {
        let Some(slot) = slots.get_mut(home) else { return Vec::new() };
        let mut items = self.shared.take_if(|item| item.home() == home);
        items.extend(slot.pinned_mut().take_all());
        items.iter().for_each(|_| slot.item_left());
        items
    }

    pub(super) fn take_all(&mut self, slots: &mut Slots) -> Vec<Item> {
        let mut items: Vec<_> = self.shared.take_all().collect();
        slots.iter_mut().for_each(|slot| items.extend(slot.pinned_mut().take_all()));
        items.iter().for_each(|item| slots.at_mut(item.home().index).item_left());
        items
    }

    /// Iterates over the items of all queues, oldest first, with `None` for removed ones.
    pub(super) fn in_order<'a>(&'a self, slots: &'a Slots) -> impl Iterator<Item = Option<&'a Item>> {
        let pinned = slots.iter().map(|(_, slot)| slot.pinned());
        let queues = std::iter::once(&self.shared).chain(pinned).map(RemovalQueue::entries);
        // The first entry of each queue, keyed by its place.
        let mut heads: BTreeMap<u64, (Option<&Item>, _)> =
            queues.filter_map(|mut queue| queue.next().map(|(place, item)| (place, (item, queue)))).collect();
        std::iter::from_fn(move || {
            let (_, (first, mut queue)) = heads.pop_first()?;
            if let Some((place, item)) = queue.next() {
                heads.insert(place, (item, queue));
            }
            Some(first)
        })
    }

    pub(super) fn first_shared(&self) -> Option<&Item> {
        self.shared.first()
    }

    pub(super) fn has_shared(&self) -> bool {
        !self.shared.is_empty()
    }

    /// Finds the queued job of a task without a lane.
    pub(super) fn find_task(&self, slots: &Slots, id: TaskId) -> Option<JobRef> {
        let find = |queue: &RemovalQueue<Item>| {
            queue.find(|item| item.job().is_some_and(|job| job.is_of(id)))?.job().cloned()
        };
        find(&self.shared).or_else(|| slots.iter().find_map(|(_, slot)| find(slot.pinned())))
    }
}
