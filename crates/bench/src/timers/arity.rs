//! The library's heap with a different number of children. It never frees memory.

use crate::time::tick::Tick;
use crate::{Item, Timers};

#[derive(Clone, Copy)]
struct Node {
    rank: (Tick, u64),
    slot: u32,
}

struct Slot {
    generation: u32,
    /// The position in the heap. In a free slot: the next free slot.
    at: u32,
    item: Option<Item>,
}

pub(crate) struct Heap<const ARITY: usize> {
    heap: Vec<Node>,
    slots: Vec<Slot>,
    free: u32,
}

const NONE: u32 = u32::MAX;

impl<const ARITY: usize> Heap<ARITY> {
    fn take_at(&mut self, at: usize) -> (Tick, Item) {
        let node = self.heap.swap_remove(at);
        if at < self.heap.len() {
            let parent_is_later = at > 0 && self.heap[(at - 1) / ARITY].rank > self.heap[at].rank;
            if parent_is_later { self.rise(at) } else { self.sink(at) }
        }
        let entry = &mut self.slots[node.slot as usize];
        let item = entry.item.take().expect("listed, so there");
        entry.generation = entry.generation.wrapping_add(1);
        entry.at = self.free;
        self.free = node.slot;
        (node.rank.0, item)
    }

    fn settle(&mut self, at: usize, node: Node) {
        self.heap[at] = node;
        self.slots[node.slot as usize].at = at as u32;
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

impl<const ARITY: usize> Timers for Heap<ARITY> {
    fn new() -> Self {
        Heap { heap: Vec::new(), slots: Vec::new(), free: NONE }
    }

    fn len(&self) -> usize {
        self.heap.len()
    }

    fn insert(&mut self, due: Tick, number: u64, item: Item) {
        let slot = self.free;
        let slot = if slot == NONE {
            item.set_key(self.slots.len() as u32, 0);
            self.slots.push(Slot { generation: 0, at: 0, item: Some(item) });
            self.slots.len() as u32 - 1
        } else {
            let entry = &mut self.slots[slot as usize];
            self.free = entry.at;
            item.set_key(slot, entry.generation);
            entry.item = Some(item);
            slot
        };
        let at = self.heap.len();
        self.heap.push(Node { rank: (due, number), slot });
        self.rise(at);
    }

    fn remove(&mut self, item: &Item) -> Option<Item> {
        let (slot, generation) = item.key();
        let entry = self.slots.get(slot as usize)?;
        if entry.generation != generation || entry.item.is_none() {
            return None;
        }
        Some(self.take_at(entry.at as usize).1)
    }

    fn pop_due(&mut self, now: Tick) -> Option<(Tick, Item)> {
        if self.heap.first()?.rank.0 <= now { Some(self.take_at(0)) } else { None }
    }
}
