//! The library's wheel and its heap.

use std::rc::Rc;

use crate::time::heap::{Key, TimerQueue};
use crate::time::tick::Tick;
use crate::time::wheel::{Look, Placed, TimerWheel};
use crate::{Item, Timers};

impl Placed for Item {
    fn moved_to(&self, place: u64) {
        self.place.set(place);
    }
}

impl Timers for TimerWheel<Item> {
    fn new() -> Self {
        TimerWheel::new(0)
    }

    fn len(&self) -> usize {
        self.len()
    }

    fn insert(&mut self, due: Tick, number: u64, item: Item) {
        self.insert(due, number, item);
    }

    fn remove(&mut self, item: &Item) -> Option<Item> {
        self.remove(item.place.get(), |there| Rc::ptr_eq(there, item))
    }

    fn pop_due(&mut self, now: Tick) -> Option<(Tick, Item)> {
        loop {
            match self.look(now) {
                Look::Due => return self.pop(),
                Look::Again => {}
                Look::Later | Look::Ahead => return None,
            }
        }
    }
}

impl Timers for TimerQueue<Item> {
    fn new() -> Self {
        TimerQueue::new()
    }

    fn len(&self) -> usize {
        self.len()
    }

    fn insert(&mut self, due: Tick, number: u64, item: Item) {
        let place = Rc::clone(&item);
        place.place.set(self.insert(due, number, item).to_bits());
    }

    fn remove(&mut self, item: &Item) -> Option<Item> {
        self.remove(Key::from_bits(item.place.get()))
    }

    fn pop_due(&mut self, now: Tick) -> Option<(Tick, Item)> {
        self.pop_due(now).map(|(due, _, item)| (due, item))
    }
}
