//! [`Wakes`]: which threads are searching, notified, or waiting for a deferred wake-up.
//!
//! Waking a parked thread costs more than a small task. So if other threads may run the work of a
//! slot, its parked thread is not woken while another thread is notified and has not asked for work
//! yet.
//!
//! Invariant: if a slot has work and its thread is `WakePending`, some thread is `Notified`.

use std::collections::VecDeque;

use super::slot_thread::ThreadState;
use super::slots::Slots;
use crate::schedulers::engine::deferred::Deferred;

#[derive(Debug, Default)]
pub(super) struct Wakes {
    /// Slots whose threads are searching.
    searching: Vec<usize>,
    /// Threads that were notified and have not asked for work since.
    notified: usize,
    /// Slots whose threads are `WakePending`, oldest first. Some entries may be outdated.
    pending: VecDeque<usize>,
}

impl Wakes {
    pub(super) fn notified(&self) -> usize {
        self.notified
    }

    pub(super) fn pending(&self) -> usize {
        self.pending.len()
    }

    pub(super) fn search(&mut self, slots: &mut Slots, index: usize) {
        slots.at_mut(index).thread_mut().search();
        self.searching.push(index);
    }

    /// Notifies a searching or parked thread.
    pub(super) fn notify(
        &mut self,
        slots: &mut Slots,
        index: usize,
        ended_runs: u64,
        deferred: &mut Deferred,
    ) {
        self.searching.retain(|searcher| *searcher != index);
        self.notified += 1;
        deferred.wake.extend(slots.at_mut(index).thread_mut().notify(ended_runs));
    }

    /// Records that a thread asked for work or that its slot is removed. `before` is its previous
    /// state.
    pub(super) fn came(&mut self, index: usize, before: ThreadState) {
        match before {
            ThreadState::Searching => self.searching.retain(|searcher| *searcher != index),
            ThreadState::Notified(_) => self.notified -= 1,
            _ => {}
        }
    }

    /// Defers waking the parked thread of a slot to another thread.
    pub(super) fn defer(&mut self, slots: &mut Slots, index: usize) {
        slots.at_mut(index).thread_mut().defer_wake();
        self.pending.push_back(index);
    }

    /// Returns the slot whose thread has been `WakePending` for longest. Drops outdated entries.
    pub(super) fn next_pending(&mut self, slots: &mut Slots) -> Option<usize> {
        while let Some(index) = self.pending.front().copied() {
            if let Some(slot) = slots.try_at_mut(index)
                && slot.thread().state() == ThreadState::WakePending
            {
                if !slot.is_free() {
                    return Some(index);
                }
                slot.thread_mut().cancel_wake(); // another thread ran the work
            }
            self.pending.pop_front();
        }
        None
    }

    pub(super) fn pop_pending(&mut self) {
        self.pending.pop_front();
    }

    /// Returns a free slot with a holder whose thread is searching. Idle slots do not count: they
    /// are always used from the top of their stack, whether or not their threads are searching.
    pub(super) fn held_searcher(&self, slots: &Slots) -> Option<usize> {
        let is_held =
            |index: &usize| slots.try_at(*index).is_some_and(|slot| slot.is_free() && slot.holders() > 0);
        self.searching.iter().rev().copied().find(is_held)
    }
}
