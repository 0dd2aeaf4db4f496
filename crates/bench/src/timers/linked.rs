//! The usual timer wheel: the entries of a bucket are a linked list in one slab. Removing an entry
//! also touches its neighbours. It never frees memory, and does not know when the first entry of a
//! bucket is due.

use crate::time::heap::{Key, TimerQueue};
use crate::time::tick::Tick;
use crate::{Item, Timers};

const LEVELS: usize = 8;
const NONE: u32 = u32::MAX;
/// In the heap.
const NEAR: u32 = u32::MAX - 1;

struct Entry {
    generation: u32,
    /// The list: level * 64 + slot, or near.
    list: u32,
    /// Neighbours in the list; the next free entry; or the two halves of the key in the heap.
    previous: u32,
    next: u32,
    due: Tick,
    number: u64,
    item: Option<Item>,
}

pub(crate) struct Wheel {
    /// In units of the finest slots. Entries up to it are near, all others are in the wheel.
    current: u64,
    near: TimerQueue<u32>,
    /// Bit n: slot n of that level is not empty.
    occupied: [u64; LEVELS],
    heads: Vec<u32>,
    entries: Vec<Entry>,
    free: u32,
    len: usize,
}

fn slot_of(due: Tick) -> u64 {
    due.nanos() >> 20
}

impl Wheel {
    /// Puts entry `index` into the list that belongs to it at the current time.
    fn place(&mut self, index: u32) {
        let entry = &mut self.entries[index as usize];
        let slot = slot_of(entry.due);
        if slot <= self.current {
            let key = self.near.insert(entry.due, entry.number, index).to_bits();
            (entry.list, entry.previous, entry.next) = (NEAR, key as u32, (key >> 32) as u32);
            return;
        }
        let level = (63 - (slot ^ self.current).leading_zeros()) / 6;
        let slot = (slot >> (6 * level)) & 63;
        self.occupied[level as usize] |= 1 << slot;
        let list = level * 64 + slot as u32;
        let next = std::mem::replace(&mut self.heads[list as usize], index);
        (entry.list, entry.previous, entry.next) = (list, NONE, next);
        if next != NONE {
            self.entries[next as usize].previous = index;
        }
    }

    fn unlink(&mut self, index: u32) {
        let Entry { list, previous, next, .. } = self.entries[index as usize];
        if list == NEAR {
            self.near.remove(Key::from_bits(u64::from(next) << 32 | u64::from(previous)));
            return;
        }
        if next != NONE {
            self.entries[next as usize].previous = previous;
        }
        if previous != NONE {
            self.entries[previous as usize].next = next;
        } else {
            self.heads[list as usize] = next;
            if next == NONE {
                self.occupied[list as usize / 64] &= !(1 << (list % 64));
            }
        }
    }

    fn give_back(&mut self, index: u32) -> (Tick, Item) {
        let entry = &mut self.entries[index as usize];
        let item = entry.item.take().expect("listed, so there");
        entry.generation = entry.generation.wrapping_add(1);
        entry.next = self.free;
        self.free = index;
        self.len -= 1;
        (entry.due, item)
    }

    /// Opens the next slot that is not empty, if it begins by `now`.
    fn turn(&mut self, now: u64) -> bool {
        let Some(level) = (0..LEVELS).find(|level| self.occupied[*level] != 0) else { return false };
        let slot = u64::from(self.occupied[level].trailing_zeros());
        let above = 6 * level as u32 + 6;
        let begin = (self.current.checked_shr(above).unwrap_or(0) << above) | slot << (6 * level);
        if begin > now {
            self.current = self.current.max(now);
            return false;
        }
        self.current = begin;
        self.occupied[level] &= !(1 << slot);
        let mut index = std::mem::replace(&mut self.heads[level * 64 + slot as usize], NONE);
        while index != NONE {
            let next = self.entries[index as usize].next;
            self.place(index);
            index = next;
        }
        true
    }
}

impl Timers for Wheel {
    fn new() -> Self {
        Wheel {
            current: 0,
            near: TimerQueue::new(),
            occupied: [0; LEVELS],
            heads: vec![NONE; LEVELS * 64],
            entries: Vec::new(),
            free: NONE,
            len: 0,
        }
    }

    fn len(&self) -> usize {
        self.len
    }

    fn insert(&mut self, due: Tick, number: u64, item: Item) {
        let mut index = self.free;
        if index == NONE {
            index = self.entries.len() as u32;
            item.set_key(index, 0);
            let item = Some(item);
            let (generation, list, previous, next) = (0, NEAR, NONE, NONE);
            self.entries.push(Entry { generation, list, previous, next, due, number, item });
        } else {
            let entry = &mut self.entries[index as usize];
            self.free = entry.next;
            item.set_key(index, entry.generation);
            (entry.due, entry.number, entry.item) = (due, number, Some(item));
        }
        self.len += 1;
        self.place(index);
    }

    fn remove(&mut self, item: &Item) -> Option<Item> {
        let (index, generation) = item.key();
        let entry = self.entries.get(index as usize).filter(|entry| entry.generation == generation)?;
        entry.item.as_ref()?;
        self.unlink(index);
        Some(self.give_back(index).1)
    }

    fn pop_due(&mut self, now: Tick) -> Option<(Tick, Item)> {
        loop {
            if let Some((_, _, index)) = self.near.pop_due(now) {
                return Some(self.give_back(index));
            }
            if !self.near.is_empty() || !self.turn(slot_of(now)) {
                return None;
            }
        }
    }
}
