//! The pool's own first-in-first-out queue of tasks: array and linked, bounded and not.
//!
//! A ring of slots under one lock. A task that has a handle knows the number of its slot, so that cancelling it
//! or running it in place takes it out in constant time and leaves a hole; holes at the ends go at
//! once, those inside are skipped, and squeezed out when they outnumber the tasks.

use std::collections::VecDeque;

use crate::sync::{AtomicUsize, Mutex, Ordering};
use crate::task::{Task, TaskId};

#[derive(Debug)]
pub(super) struct Fifo {
    capacity: usize,
    /// Tasks in the queue, for a look without the lock. Written under the lock, after the change.
    len: AtomicUsize,
    ring: Mutex<Ring>,
}

#[derive(Debug, Default)]
struct Ring {
    /// Neither the first nor the last slot is a hole.
    slots: VecDeque<Option<Task>>,
    /// The number of the first slot; numbers only grow.
    first: u64,
    /// Slots that are not holes. Never above the capacity.
    tasks: usize,
    /// Tasks accepted so far and not taken back by `unpush`.
    pushed: u64,
}

/// Slots that an empty ring keeps; what a burst took beyond them is given back.
const KEPT_SLOTS: usize = 1024;

impl Fifo {
    pub(super) fn new(capacity: usize) -> Self {
        Fifo { capacity, len: AtomicUsize::new(0), ring: Mutex::new(Ring::default()) }
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    pub(super) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// Appends `task`, or gives it back when full.
    pub(super) fn push(&self, task: Task) -> Result<(), Task> {
        let mut ring = self.ring.lock();
        if ring.tasks >= self.capacity {
            return Err(task);
        }
        task.set_place(ring.first + ring.slots.len() as u64);
        ring.slots.push_back(Some(task));
        ring.tasks += 1;
        ring.pushed += 1;
        self.len.store(ring.tasks, Ordering::Relaxed);
        Ok(())
    }

    /// Takes the oldest task.
    pub(super) fn pop(&self) -> Option<Task> {
        if self.len() == 0 {
            return None; // spares idle workers the lock; whoever sleeps on it has looked after a fence
        }
        let mut ring = self.ring.lock();
        let task = ring.slots.pop_front()??;
        ring.first += 1;
        ring.tasks -= 1;
        ring.trim();
        self.len.store(ring.tasks, Ordering::Relaxed);
        Some(task)
    }

    /// Takes the task `id` out. `place` is where it was put, if that is known.
    pub(super) fn remove(&self, id: TaskId, place: Option<u64>) -> Option<Task> {
        let mut ring = self.ring.lock();
        let at = ring.find(id, place)?;
        let task = ring.slots[at].take();
        ring.tasks -= 1;
        ring.trim();
        ring.squeeze();
        self.len.store(ring.tasks, Ordering::Relaxed);
        task
    }

    /// As `remove`, for a task that turned out not to be accepted.
    pub(super) fn unpush(&self, id: TaskId) -> Option<Task> {
        let task = self.remove(id, None)?;
        self.ring.lock().pushed -= 1;
        Some(task)
    }

    /// Takes out all tasks that `unwanted` accepts.
    pub(super) fn remove_if(&self, unwanted: impl Fn(&Task) -> bool) -> Vec<Task> {
        let mut ring = self.ring.lock();
        let mut removed = Vec::new();
        for slot in &mut ring.slots {
            if slot.as_ref().is_some_and(&unwanted) {
                removed.extend(slot.take());
            }
        }
        ring.tasks -= removed.len();
        ring.trim();
        ring.squeeze();
        self.len.store(ring.tasks, Ordering::Relaxed);
        removed
    }

    /// The ids of the waiting tasks, oldest first.
    pub(super) fn ids(&self) -> Vec<TaskId> {
        self.ring.lock().slots.iter().flatten().map(Task::id).collect()
    }

    /// Tasks accepted so far.
    pub(super) fn pushed(&self) -> u64 {
        self.ring.lock().pushed
    }
}

impl Ring {
    /// `place` may be out of date: the task may have been taken out, which raises `first` above it, or squeezed
    /// into a smaller place since. So it is where it says, or before that, or gone.
    fn find(&self, id: TaskId, place: Option<u64>) -> Option<usize> {
        let is_it = |slot: &Option<Task>| slot.as_ref().is_some_and(|task| task.id() == id);
        let end = match place {
            None => self.slots.len(),
            Some(place) => {
                let at = usize::try_from(place.checked_sub(self.first)?).unwrap_or(usize::MAX);
                self.slots.len().min(at.saturating_add(1))
            }
        };
        // Backwards: whoever has no place to look at has most likely just put it there.
        self.slots.range(..end).rposition(is_it)
    }

    /// Restores: neither end is a hole.
    fn trim(&mut self) {
        while let Some(None) = self.slots.front() {
            self.slots.pop_front();
            self.first += 1;
        }
        while let Some(None) = self.slots.back() {
            self.slots.pop_back();
        }
        if self.slots.is_empty() && self.slots.capacity() > KEPT_SLOTS {
            self.slots = VecDeque::with_capacity(KEPT_SLOTS);
        }
    }

    /// Moves the tasks together when most slots are holes, so that a queue of few tasks stays small: each removal
    /// pays for one hole, so this costs constant time per removal.
    fn squeeze(&mut self) {
        const FEW: usize = 16;
        if self.slots.len() <= 2 * self.tasks + FEW {
            return;
        }
        self.slots.retain(Option::is_some);
        for (at, task) in self.slots.iter().flatten().enumerate() {
            task.set_place(self.first + at as u64);
        }
    }
}
