//! A heap without positions: a cancelled entry is marked. It leaves when it reaches the top, or
//! when the heap is rebuilt because more than half of the entries are dead.

use crate::time::tick::Tick;
use crate::{Item, Timers};

const ARITY: usize = 4;
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Node {
    rank: (Tick, u64),
    slot: u32,
}

struct Slot {
    generation: u32,
    next_free: u32,
    /// `None` if cancelled or free.
    item: Option<Item>,
}

/// Between calls the top of the heap is alive.
pub(crate) struct Lazy {
    heap: Vec<Node>,
    slots: Vec<Slot>,
    free: u32,
    dead: usize,
}

impl Lazy {
    fn give_back(&mut self, slot: u32) {
        let entry = &mut self.slots[slot as usize];
        entry.generation = entry.generation.wrapping_add(1);
        entry.next_free = self.free;
        self.free = slot;
    }

    fn take_top(&mut self) -> Node {
        let node = self.heap.swap_remove(0);
        if !self.heap.is_empty() {
            self.sink(0);
        }
        node
    }

    fn bury_the_top(&mut self) {
        while let Some(node) = self.heap.first().copied() {
            if self.slots[node.slot as usize].item.is_some() {
                return;
            }
            self.take_top();
            self.give_back(node.slot);
            self.dead -= 1;
        }
    }

    fn compact(&mut self) {
        let mut heap = std::mem::take(&mut self.heap);
        heap.retain(|node| {
            let alive = self.slots[node.slot as usize].item.is_some();
            if !alive {
                self.give_back(node.slot);
            }
            alive
        });
        self.heap = heap;
        self.dead = 0;
        if self.heap.len() > 1 {
            for at in (0..=(self.heap.len() - 2) / ARITY).rev() {
                self.sink(at);
            }
        }
    }

    fn rise(&mut self, mut at: usize) {
        let node = self.heap[at];
        while at > 0 {
            let parent = (at - 1) / ARITY;
            if self.heap[parent].rank < node.rank {
                break;
            }
            self.heap[at] = self.heap[parent];
            at = parent;
        }
        self.heap[at] = node;
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
            self.heap[at] = self.heap[least];
            at = least;
        }
        self.heap[at] = node;
    }
}

impl Timers for Lazy {
    fn new() -> Self {
        Lazy { heap: Vec::new(), slots: Vec::new(), free: NONE, dead: 0 }
    }

    fn len(&self) -> usize {
        self.heap.len() - self.dead
    }

    fn insert(&mut self, due: Tick, number: u64, item: Item) {
        let mut slot = self.free;
        if slot == NONE {
            item.set_key(self.slots.len() as u32, 0);
            self.slots.push(Slot { generation: 0, next_free: NONE, item: Some(item) });
            slot = self.slots.len() as u32 - 1;
        } else {
            let entry = &mut self.slots[slot as usize];
            self.free = entry.next_free;
            item.set_key(slot, entry.generation);
            entry.item = Some(item);
        }
        let at = self.heap.len();
        self.heap.push(Node { rank: (due, number), slot });
        self.rise(at);
    }

    fn remove(&mut self, item: &Item) -> Option<Item> {
        let (slot, generation) = item.key();
        let entry = self.slots.get_mut(slot as usize).filter(|entry| entry.generation == generation)?;
        let item = entry.item.take()?;
        self.dead += 1;
        if self.heap[0].slot == slot {
            self.bury_the_top();
        }
        if self.dead > self.heap.len() / 2 {
            self.compact();
        }
        Some(item)
    }

    fn pop_due(&mut self, now: Tick) -> Option<(Tick, Item)> {
        if self.heap.first()?.rank.0 > now {
            return None;
        }
        let node = self.take_top();
        let item = self.slots[node.slot as usize].item.take().expect("the top is alive");
        self.give_back(node.slot);
        self.bury_the_top();
        Some((node.rank.0, item))
    }
}
