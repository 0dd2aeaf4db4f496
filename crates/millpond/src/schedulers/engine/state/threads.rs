//! [`Threads`]: the threads that have arrived and not left, for observers, and numbers of own
//! threads.
//!
//! A thread stays in this list after its slot was removed, until it has left.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::schedulers::engine::model::Start;

#[derive(Debug)]
pub(super) struct Threads {
    /// The counter for the numbers of own threads. `None` if the threads belong to an executor.
    numbers: Option<&'static AtomicU64>,
    entries: Vec<Option<Arrived>>,
    /// Free indices of `entries`.
    free: Vec<usize>,
}

#[derive(Debug, Clone, Copy)]
struct Arrived {
    start: Start,
    os_thread_id: Option<u64>,
}

impl Threads {
    pub(super) fn new(numbers: Option<&'static AtomicU64>) -> Threads {
        Threads { numbers, entries: Vec::new(), free: Vec::new() }
    }

    /// Returns the number of the next own thread.
    pub(super) fn next_number(&self) -> Option<u64> {
        self.numbers.map(|numbers| numbers.fetch_add(1, Ordering::Relaxed)) // Relaxed: only unique
    }

    /// Lists a thread and returns its index.
    pub(super) fn add(&mut self, start: Start, os_thread_id: Option<u64>) -> usize {
        let arrived = Some(Arrived { start, os_thread_id });
        match self.free.pop() {
            Some(place) => {
                self.entries[place] = arrived;
                place
            }
            None => {
                self.entries.push(arrived);
                self.entries.len() - 1
            }
        }
    }

    pub(super) fn remove(&mut self, place: usize) {
        if self.entries.get_mut(place).and_then(Option::take).is_some() {
            self.free.push(place);
        }
    }

    /// Iterates over the threads: how each was started, and its thread id in the operating system.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Start, Option<u64>)> {
        self.entries.iter().flatten().map(|arrived| (arrived.start, arrived.os_thread_id))
    }
}
