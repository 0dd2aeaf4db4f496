//! Allocates the numbers for the placeholder `{%}`.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Mutex, PoisonError};

#[derive(Debug, Default)]
pub(super) struct Slots {
    state: Mutex<FreeSlots>,
}

#[derive(Debug, Default)]
struct FreeSlots {
    free: BinaryHeap<Reverse<usize>>,
    /// The largest slot so far.
    count: usize,
}

impl Slots {
    /// Takes the smallest free slot.
    pub(super) fn take(&self) -> usize {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Reverse(slot)) = state.free.pop() {
            return slot;
        }
        state.count += 1;
        state.count
    }

    pub(super) fn give_back(&self, slot: usize) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).free.push(Reverse(slot));
    }
}
