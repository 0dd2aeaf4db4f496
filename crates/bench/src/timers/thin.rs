//! The library's heap, with nodes of two words: the number stays in the slab and is looked at only when two
//! are due at the same time.

use crate::clock::Tick;
use crate::{Item, Timers};

const ARITY: usize = 4;
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Node {
    due: Tick,
    slot: u32,
}

struct Slot {
    number: u64,
    generation: u32,
    /// Its place in the heap; if the slot is free, the next free one.
    at: u32,
    item: Option<Item>,
}

pub(crate) struct Thin {
    heap: Vec<Node>,
    slots: Vec<Slot>,
    free: u32,
}

impl Thin {
    fn earlier(&self, a: Node, b: Node) -> bool {
        if a.due != b.due {
            a.due < b.due
        } else {
            self.slots[a.slot as usize].number < self.slots[b.slot as usize].number
        }
    }

    fn take_at(&mut self, at: usize) -> (Tick, Item) {
        let node = self.heap.swap_remove(at);
        if at < self.heap.len() {
            let parent_is_later = at > 0 && self.earlier(self.heap[at], self.heap[(at - 1) / ARITY]);
            if parent_is_later { self.rise(at) } else { self.sink(at) }
        }
        let entry = &mut self.slots[node.slot as usize];
        let item = entry.item.take().expect("listed, so there");
        entry.generation = entry.generation.wrapping_add(1);
        entry.at = self.free;
        self.free = node.slot;
        (node.due, item)
    }

    fn settle(&mut self, at: usize, node: Node) {
        self.heap[at] = node;
        self.slots[node.slot as usize].at = at as u32;
    }

    fn rise(&mut self, mut at: usize) {
        let node = self.heap[at];
        while at > 0 {
            let parent = (at - 1) / ARITY;
            if self.earlier(self.heap[parent], node) {
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
            if first >= last {
                break;
            }
            let mut least = first;
            for child in first + 1..last {
                if self.earlier(self.heap[child], self.heap[least]) {
                    least = child;
                }
            }
            if self.earlier(node, self.heap[least]) {
                break;
            }
            self.settle(at, self.heap[least]);
            at = least;
        }
        self.settle(at, node);
    }
}

impl Timers for Thin {
    type Key = (u32, u32);

    fn new() -> Self {
        Thin { heap: Vec::new(), slots: Vec::new(), free: NONE }
    }

    fn len(&self) -> usize {
        self.heap.len()
    }

    fn insert(&mut self, due: Tick, number: u64, item: Item) -> (u32, u32) {
        let mut slot = self.free;
        if slot == NONE {
            slot = self.slots.len() as u32;
            self.slots.push(Slot { number, generation: 0, at: 0, item: Some(item) });
        } else {
            let entry = &mut self.slots[slot as usize];
            self.free = entry.at;
            (entry.number, entry.item) = (number, Some(item));
        }
        let at = self.heap.len();
        self.heap.push(Node { due, slot });
        self.rise(at);
        (slot, self.slots[slot as usize].generation)
    }

    fn remove(&mut self, (slot, generation): (u32, u32)) -> Option<Item> {
        let entry = self.slots.get(slot as usize).filter(|entry| entry.generation == generation)?;
        entry.item?;
        Some(self.take_at(entry.at as usize).1)
    }

    fn pop_due(&mut self, now: Tick) -> Option<(Tick, Item)> {
        if self.heap.first()?.due <= now { Some(self.take_at(0)) } else { None }
    }
}
