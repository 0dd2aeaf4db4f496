//! [`Ring`]: the first-in, first-out store of the array and linked queues.

use std::collections::{TryReserveError, VecDeque};

use super::one_lock::Store;

/// Rings up to this capacity never release memory.
const SMALL: usize = if cfg!(miri) { 32 } else { 1024 };

/// A ring of items that grows as needed, and shrinks to no less than its initial capacity.
#[derive(Debug)]
pub(super) struct Ring<T> {
    items: VecDeque<T>,
    /// The capacity below which memory is never released.
    keep: usize,
}

impl<T> Ring<T> {
    /// Creates an empty ring without memory.
    pub(super) fn new() -> Self {
        Ring { items: VecDeque::new(), keep: SMALL }
    }

    /// Creates an empty ring with memory for `slots` items.
    pub(super) fn with_slots(slots: usize) -> Result<Self, TryReserveError> {
        let mut items = VecDeque::new();
        items.try_reserve_exact(slots)?;
        Ok(Ring { items, keep: slots.max(SMALL) })
    }

    pub(super) fn push(&mut self, item: T) {
        self.items.push_back(item);
    }

    /// Creates an empty ring with the same `keep`, without memory.
    pub(super) fn another(&self) -> Self {
        Ring { items: VecDeque::new(), keep: self.keep }
    }

    /// Moves all items of `other` to the end.
    pub(super) fn append(&mut self, other: &mut Self) {
        self.items.append(&mut other.items);
    }

    /// Resets an empty ring to its first slot, whose memory is likely in the cache.
    pub(super) fn rewind(&mut self) {
        self.items.clear();
    }

    /// Releases memory when seven eighths are unused. Between two such shrinks, at least as many
    /// items are added or removed as were moved. So the amortized cost per item is constant.
    #[inline]
    fn give_back(&mut self) {
        let slots = self.items.capacity();
        if slots > self.keep && self.items.len() < slots / 8 {
            self.shrink();
        }
    }

    /// Moves the items to a smaller ring and frees the large one as a whole. Shrinking the large
    /// one in place would return the rest to the system at once. glibc only adapts the amount of
    /// memory that it keeps when whole blocks are freed.
    #[cold]
    #[inline(never)]
    fn shrink(&mut self) {
        let mut smaller = VecDeque::with_capacity((2 * self.items.len()).max(self.keep));
        smaller.append(&mut self.items);
        self.items = smaller;
    }
}

impl<T> Store<T> for Ring<T> {
    type Place = ();

    fn place_for(&self, _: &T) {}

    fn insert(&mut self, (): (), item: T) {
        self.push(item);
    }

    fn pop(&mut self) -> Option<T> {
        let item = self.items.pop_front();
        self.give_back();
        item
    }

    fn len(&self) -> usize {
        self.items.len()
    }

    fn first(&self) -> Option<&T> {
        self.items.front()
    }

    fn for_first(&self, limit: usize, see: &mut dyn FnMut(&T)) {
        self.items.iter().take(limit).for_each(see);
    }

    fn remove_if(&mut self, matches: &mut dyn FnMut(&T) -> bool) -> Vec<T> {
        // Call `matches` for all items before moving any, so that a panic leaves the ring
        // unchanged.
        let doomed: Vec<bool> = self.items.iter().map(matches).collect();
        let mut removed = Vec::new();
        if doomed.contains(&true) {
            for doomed in doomed {
                let item = self.items.pop_front().expect("one answer for each item");
                if doomed { removed.push(item) } else { self.items.push_back(item) }
            }
            self.give_back();
        }
        removed
    }

    fn take_all(&mut self) -> Vec<T> {
        let all = self.items.drain(..).collect();
        self.give_back();
        all
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Ring, SMALL, Store};

    #[test]
    fn an_emptied_ring_gives_its_memory_back_and_keeps_what_it_was_made_for() {
        for keep in [0, 4 * SMALL] {
            let mut ring = Ring::with_slots(keep).unwrap();
            for all_at_once in [true, false] {
                (0..100 * SMALL).for_each(|n| ring.insert((), n));
                if all_at_once {
                    ring.take_all();
                } else {
                    while ring.pop().is_some() {}
                }
                assert!((keep..=4 * SMALL.max(keep)).contains(&ring.items.capacity()));
            }
        }
    }
}
