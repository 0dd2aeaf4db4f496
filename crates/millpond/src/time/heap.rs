//! [`TimerQueue`]: entries ordered by due time and number, with removal by key.
//!
//! An indexed four-ary heap. The heap contains only the keys to compare and the index of the entry.
//! The entries stay in place in a slab and know their position in the heap. So a cancelled timer is
//! removed without a search, which is the common case. `docs/timers.md` has measurements, also of
//! alternatives.
//!
//! Memory shrinks with the number of entries. The heap shrinks like any vector. Entries of the slab
//! cannot move. So a nearly empty slab first closes its upper half to new entries, and is truncated
//! when the last old entry in that half has left.

use super::tick::Tick;

/// The identity of an entry, valid until the entry leaves. A later entry in the same slot has
/// another key, unless a multiple of 2^31 insertions came in between. The highest bit is never set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key(u64);

impl Key {
    fn new(slot: u32, generation: u32) -> Key {
        Key(u64::from(generation) << 32 | u64::from(slot))
    }
    #[expect(clippy::cast_possible_truncation, reason = "the two halves")]
    fn parts(self) -> (u32, u32) {
        (self.0 as u32, (self.0 >> 32) as u32)
    }
    pub(crate) fn to_bits(self) -> u64 {
        self.0
    }
    pub(crate) fn from_bits(bits: u64) -> Key {
        Key(bits)
    }
}

/// The sort key of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank<D> {
    due: D,
    number: u64,
}

#[derive(Debug, Clone, Copy)]
struct Node<D> {
    rank: Rank<D>,
    slot: u32,
}

#[derive(Debug)]
struct Slot<T> {
    /// The generation of the current entry, or of the last one.
    generation: u32,
    /// The entry's position in the heap. In a free open slot, the index of the next free open slot.
    at: u32,
    item: Option<T>,
}

/// A queue ordered by due time. `D` is a [`Tick`] or an `Instant`.
#[derive(Debug)]
pub(crate) struct TimerQueue<T, D = Tick> {
    heap: Vec<Node<D>>,
    slots: Vec<Slot<T>>,
    /// The first free open slot.
    free: u32,
    /// Number of slots open to new entries: all, or the lower half before a truncation.
    open: usize,
    /// Number of entries in closed slots. Zero if and only if all slots are open.
    in_closed: usize,
    /// The generation of the next entry.
    generation: u32,
}

const ARITY: usize = 4;
const NONE: u32 = u32::MAX;
/// Slots up to this number are never freed.
const KEPT: usize = 64;

impl<T, D: Ord + Copy> TimerQueue<T, D> {
    pub(crate) fn new() -> Self {
        TimerQueue { heap: Vec::new(), slots: Vec::new(), free: NONE, open: 0, in_closed: 0, generation: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// Inserts `item`. Among equal due times the lowest `number` comes first. No two entries may
    /// have the same due time and number.
    pub(crate) fn insert(&mut self, due: D, number: u64, item: T) -> Key {
        let (slot, generation) = self.take_slot(item);
        let at = self.heap.len();
        self.heap.push(Node { rank: Rank { due, number }, slot });
        self.rise(at);
        Key::new(slot, generation)
    }

    /// Removes the entry of `key`, if it still exists.
    pub(crate) fn remove(&mut self, key: Key) -> Option<T> {
        let (slot, generation) = key.parts();
        let entry = self.slots.get(slot as usize)?;
        if entry.generation != generation || entry.item.is_none() {
            return None;
        }
        Some(self.take_at(entry.at as usize).2)
    }

    /// Returns the item of `key`, if it still exists.
    pub(crate) fn get(&self, key: Key) -> Option<&T> {
        let (slot, generation) = key.parts();
        let entry = self.slots.get(slot as usize)?;
        if entry.generation == generation { entry.item.as_ref() } else { None }
    }

    /// Returns when the entry of `key` is due.
    pub(crate) fn due(&self, key: Key) -> Option<D> {
        self.get(key)?;
        let (slot, _) = key.parts();
        Some(self.heap[self.slots[slot as usize].at as usize].rank.due)
    }

    /// Returns any item for which `is_it` returns true.
    pub(crate) fn find(&self, mut is_it: impl FnMut(&T) -> bool) -> Option<&T> {
        self.heap.iter().map(|node| self.item(node)).find(|item| is_it(item))
    }

    pub(crate) fn first_due(&self) -> Option<D> {
        self.heap.first().map(|node| node.rank.due)
    }

    /// Returns the due time and number of the first entry.
    pub(crate) fn first(&self) -> Option<(D, u64)> {
        self.heap.first().map(|node| (node.rank.due, node.rank.number))
    }

    pub(crate) fn first_item(&self) -> Option<&T> {
        self.heap.first().map(|node| self.item(node))
    }

    /// Removes the first entry. Returns its due time, number and item.
    pub(crate) fn pop(&mut self) -> Option<(D, u64, T)> {
        if self.heap.is_empty() { None } else { Some(self.take_at(0)) }
    }

    /// Removes the first entry if it is due.
    pub(crate) fn pop_due(&mut self, now: D) -> Option<(D, u64, T)> {
        if self.first_due()? <= now { self.pop() } else { None }
    }

    /// Removes and returns all items that `unwanted` accepts, in order. Calls `unwanted` in order.
    /// If it panics, nothing is removed.
    pub(crate) fn remove_if(&mut self, mut unwanted: impl FnMut(&T) -> bool) -> Vec<T> {
        let mut chosen = self.in_order();
        chosen.retain(|node| unwanted(self.item(node)));
        let take = |node: Node<D>| self.take_at(self.slots[node.slot as usize].at as usize).2;
        chosen.into_iter().map(take).collect()
    }

    /// Returns all entries: the first one, then the others in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (D, &T)> {
        self.heap.iter().map(|node| (node.rank.due, self.item(node)))
    }

    /// Calls `see` with all entries, in order.
    pub(crate) fn for_each(&self, mut see: impl FnMut(D, &T)) {
        for node in self.in_order() {
            see(node.rank.due, self.item(&node));
        }
    }

    fn in_order(&self) -> Vec<Node<D>> {
        let mut nodes = self.heap.clone();
        nodes.sort_unstable_by_key(|node| node.rank);
        nodes
    }

    fn item(&self, node: &Node<D>) -> &T {
        self.slots[node.slot as usize].item.as_ref().expect("a node in the heap has an item")
    }

    /// Stores `item` in a slot. Returns the slot and its generation.
    fn take_slot(&mut self, item: T) -> (u32, u32) {
        if self.free == NONE && self.in_closed > 0 {
            self.open_up_to(self.slots.len());
        }
        let generation = self.generation;
        self.generation = (generation + 1) & (u32::MAX >> 1);
        let slot = self.free;
        if slot == NONE {
            let slot = u32::try_from(self.slots.len()).ok().filter(|slot| *slot != NONE);
            self.slots.push(Slot { generation, at: 0, item: Some(item) });
            self.open += 1;
            return (slot.expect("2^32 entries do not fit into memory"), generation);
        }
        let entry = &mut self.slots[slot as usize];
        self.free = entry.at;
        (entry.generation, entry.item) = (generation, Some(item));
        (slot, generation)
    }

    /// Empties a slot.
    fn leave_slot(&mut self, slot: u32) -> T {
        let entry = &mut self.slots[slot as usize];
        let item = entry.item.take().expect("a node in the heap has an item");
        if (slot as usize) < self.open {
            entry.at = self.free;
            self.free = slot;
        } else {
            self.in_closed -= 1;
        }
        let unused = self.heap.len() < self.heap.capacity().max(self.slots.len()) / 4;
        if unused || self.open < self.slots.len() {
            self.shrink();
        }
        item
    }

    /// Frees memory if three quarters are unused. Halving it amortises the work over the earlier
    /// removals, and the next few removals do not trigger it again.
    #[cold]
    fn shrink(&mut self) {
        let capacity = self.heap.capacity();
        if capacity > KEPT && self.heap.len() < capacity / 4 {
            self.heap.shrink_to(capacity / 2);
        }
        while self.in_closed == 0 {
            if self.open < self.slots.len() {
                self.slots.truncate(self.open);
                self.slots.shrink_to_fit();
            }
            if self.slots.len() <= KEPT || self.heap.len() >= self.slots.len() / 4 {
                return;
            }
            self.open_up_to(self.slots.len() / 2);
        }
    }

    /// Closes the slots from `open` on, and links the free slots before it, lowest first.
    fn open_up_to(&mut self, open: usize) {
        (self.open, self.free) = (open, NONE);
        let free = self.slots[..open].iter_mut().enumerate().rev().filter(|(_, entry)| entry.item.is_none());
        for (slot, entry) in free {
            entry.at = self.free;
            self.free = u32::try_from(slot).expect("fewer than 2^32 slots");
        }
        self.in_closed = self.slots[open..].iter().filter(|slot| slot.item.is_some()).count();
    }

    /// Removes the entry at position `at` of the heap.
    fn take_at(&mut self, at: usize) -> (D, u64, T) {
        let node = self.heap.swap_remove(at);
        if at < self.heap.len() {
            let parent_is_later = at > 0 && self.heap[(at - 1) / ARITY].rank > self.heap[at].rank;
            if parent_is_later { self.rise(at) } else { self.sink(at) }
        }
        (node.rank.due, node.rank.number, self.leave_slot(node.slot))
    }

    fn settle(&mut self, at: usize, node: Node<D>) {
        self.heap[at] = node;
        self.slots[node.slot as usize].at = u32::try_from(at).expect("fewer than 2^32 slots");
    }

    fn rise(&mut self, mut at: usize) {
        let node = self.heap[at];
        while at > 0 {
            let parent = (at - 1) / ARITY;
            if self.heap[parent].rank < node.rank {
                break;
            }
            self.settle(at, self.heap[parent]);
            at = parent;
        }
        self.settle(at, node);
    }

    fn sink(&mut self, mut at: usize) {
        let node = self.heap[at];
        loop {
            let first = at * ARITY + 1;
            let last = (first + ARITY).min(self.heap.len());
            let Some(least) = (first..last).min_by_key(|child| self.heap[*child].rank) else { break };
            if self.heap[least].rank > node.rank {
                break;
            }
            self.settle(at, self.heap[least]);
            at = least;
        }
        self.settle(at, node);
    }
}

#[cfg(all(test, not(loom)))]
pub(crate) mod tests {
    use std::collections::BTreeMap;

    use super::*;

    pub(crate) fn tick(nanos: u64) -> Tick {
        Tick::from_nanos(nanos)
    }

    /// A generator of numbers below its argument. The seed determines the sequence.
    pub(crate) fn random(mut seed: u64) -> impl FnMut(u64) -> u64 {
        move |below| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        }
    }

    /// Compares the queue with a sorted list under a random mixture of insertions, removals and
    /// pops.
    #[test]
    fn behaves_like_a_sorted_list() {
        let mut random = random(42);
        for _ in 0..50 {
            let mut queue = TimerQueue::<_, Tick>::new();
            let mut model: Vec<(u64, u64, Key)> = Vec::new();
            for number in 0..400 {
                match random(4) {
                    0 | 1 => {
                        let due = random(50);
                        let key = queue.insert(tick(due), number, number);
                        model.push((due, number, key));
                        model.sort_by_key(|(due, number, _)| (*due, *number));
                    }
                    2 if !model.is_empty() => {
                        let (due, number, key) = model.remove(random(model.len() as u64) as usize);
                        assert_eq!(queue.due(key), Some(tick(due)));
                        assert_eq!(queue.remove(key), Some(number));
                        assert_eq!(queue.remove(key), None, "a key is valid once");
                    }
                    _ => {
                        let now = random(50);
                        let expected = model.first().filter(|(due, ..)| *due <= now).copied();
                        assert_eq!(queue.pop_due(tick(now)).map(|(_, _, item)| item), expected.map(|e| e.1));
                        if expected.is_some() {
                            model.remove(0);
                        }
                    }
                }
                assert_eq!(queue.len(), model.len());
                assert_eq!(queue.first_due(), model.first().map(|(due, ..)| tick(*due)));
            }
            let mut seen = Vec::new();
            queue.for_each(|_, number| seen.push(*number));
            assert_eq!(seen, model.iter().map(|(_, number, _)| *number).collect::<Vec<_>>());
            let odd = queue.remove_if(|number| number % 2 == 1);
            assert_eq!(odd, seen.iter().copied().filter(|n| n % 2 == 1).collect::<Vec<_>>());
            let rest: Vec<u64> = std::iter::from_fn(|| queue.pop().map(|(_, _, item)| item)).collect();
            assert_eq!(rest, seen.into_iter().filter(|n| n % 2 == 0).collect::<Vec<_>>());
        }
    }

    /// Waves of up to 1,500 entries: slots are closed, reopened and truncated.
    #[test]
    fn behaves_like_a_sorted_list_while_it_grows_and_shrinks() {
        let mut random = random(7);
        let mut queue = TimerQueue::<_, Tick>::new();
        let mut model: BTreeMap<(u64, u64), Key> = BTreeMap::new();
        let mut gone: Vec<Key> = Vec::new();
        let (mut number, mut cuts, mut reopened) = (0, 0, 0);
        for wave in 0..60 {
            let (high, low) = (random(1500), random(40));
            while (model.len() as u64) < high {
                let due = random(1000);
                let closed = queue.in_closed;
                model.insert((due, number), queue.insert(tick(due), number, number));
                reopened += usize::from(closed > 0 && queue.in_closed == 0);
                number += 1;
            }
            while model.len() as u64 > low {
                let slots = queue.slots.len();
                if wave % 3 == 0 || random(10) == 0 {
                    let ((due, number), key) = model.pop_first().unwrap();
                    assert_eq!(queue.pop(), Some((tick(due), number, number)));
                    gone.push(key);
                } else {
                    let chosen = *model.keys().nth(random(model.len() as u64) as usize).unwrap();
                    let key = model.remove(&chosen).unwrap();
                    assert_eq!(queue.remove(key), Some(chosen.1));
                    gone.push(key);
                }
                cuts += usize::from(queue.slots.len() < slots);
            }
            assert_eq!(queue.len(), model.len());
            assert_eq!(queue.first_due(), model.keys().next().map(|(due, _)| tick(*due)));
            for (rank, key) in &model {
                assert_eq!((queue.due(*key), queue.get(*key)), (Some(tick(rank.0)), Some(&rank.1)));
            }
            assert!(gone.iter().all(|key| queue.get(*key).is_none()), "a key outlives its entry");
            assert_eq!(queue.in_closed == 0, queue.open == queue.slots.len());
        }
        assert!(cuts > 10 && reopened > 0, "truncated {cuts} times, opened again {reopened} times");
    }

    #[test]
    fn memory_is_given_back_when_all_are_cancelled() {
        let mut queue = TimerQueue::<_, Tick>::new();
        let mut keys: Vec<Key> = (0..100_000).map(|number| queue.insert(tick(number), number, ())).collect();
        let mut random = random(3);
        for last in (1..keys.len()).rev() {
            keys.swap(last, random(last as u64 + 1) as usize);
        }
        for key in keys {
            queue.remove(key).unwrap();
        }
        assert!(queue.heap.capacity() <= 2 * KEPT, "the capacity of the heap is {}", queue.heap.capacity());
        assert!(queue.slots.capacity() <= 2 * KEPT, "the capacity of the slab is {}", queue.slots.capacity());
    }

    /// A periodic task leaves and returns with each run. It must move to the lower half of the
    /// slab.
    #[test]
    fn memory_is_given_back_although_a_periodic_task_came_last() {
        let mut queue = TimerQueue::<_, Tick>::new();
        let keys: Vec<Key> = (0..100_000).map(|number| queue.insert(tick(1), number, ())).collect();
        queue.insert(tick(0), 100_000, ());
        for key in keys {
            queue.remove(key).unwrap();
        }
        assert_eq!(queue.slots.len(), 100_001, "its slot cannot be truncated");
        for run in 0..2 {
            queue.pop().unwrap();
            queue.insert(tick(run), 100_000, ());
        }
        assert!(queue.slots.capacity() <= 2 * KEPT, "the capacity of the slab is {}", queue.slots.capacity());
    }
}
