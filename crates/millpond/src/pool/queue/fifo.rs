//! The pool's own first-in-first-out queue of tasks: array and linked, bounded and not.
//!
//! Tasks lie packed in segments, see `segments.rs`. A task that has a handle knows its place there, so that cancelling it
//! or running it in place takes it out in constant time and leaves a hole. Holes are skipped, and squeezed out when
//! they outnumber the tasks.
//!
//! How many tasks there are follows from two numbers that only grow, one for each end: how many were put, and how many
//! are gone. Whoever looks from outside reads `gone` first.

use std::fmt;

use super::segments::{BothGuard, Segments};
use crate::sync::{AtomicU64, Ordering};
use crate::task::{Pack, Task, TaskId};

pub(in crate::pool) struct Fifo {
    capacity: usize,
    segments: Segments,
    /// Tasks that turned out not to be accepted.
    taken_back: AtomicU64,
    /// Tasks have been moved, so that a place may be out of date. Touched with both ends locked.
    squeezed: AtomicU64,
}

impl Fifo {
    pub(in crate::pool) fn new(capacity: usize) -> Self {
        Fifo {
            capacity,
            segments: Segments::new(limit(0, capacity)),
            taken_back: AtomicU64::new(0),
            squeezed: AtomicU64::new(0),
        }
    }

    pub(in crate::pool) fn capacity(&self) -> usize {
        self.capacity
    }

    /// How many wait. Exact if nobody took one between the two looks; and never more than there may be.
    #[inline]
    pub(in crate::pool) fn len(&self) -> usize {
        let gone = self.segments.gone();
        let put = self.segments.put();
        usize::try_from(put - gone).unwrap_or(usize::MAX).min(self.capacity)
    }

    pub(in crate::pool) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// A look from outside. While there is room it does not touch what those who take tasks write.
    #[inline]
    pub(in crate::pool) fn is_full(&self) -> bool {
        self.segments.put() >= self.segments.limit() && self.len() >= self.capacity
    }

    /// Appends `task` and then looks around by `look`; or gives it back when full.
    ///
    /// The look is taken with the tail locked, and so is the turn of everybody who calls [`order`](Self::order) after
    /// a change. If their turn comes first, `look` sees the change; if ours, they see the task.
    #[inline]
    pub(in crate::pool) fn push<T: Pack, L>(&self, task: T, look: impl FnOnce() -> L) -> Result<L, T> {
        if self.is_full() {
            return Err(task);
        }
        self.push_if_it_fits(task, look)
    }

    /// As `push`, for who has looked from outside whether there is room.
    #[inline]
    pub(in crate::pool) fn push_if_it_fits<T: Pack, L>(
        &self,
        task: T,
        look: impl FnOnce() -> L,
    ) -> Result<L, T> {
        let mut tail = self.segments.tail();
        if self.segments.put() >= self.segments.limit() {
            tail.set_limit(limit(self.segments.gone(), self.capacity));
            if self.segments.put() >= self.segments.limit() {
                return Err(task);
            }
        }
        tail.push(task);
        Ok(look())
    }

    /// Between a change and a look at the queue: who puts a task from now on sees the change, and we see all tasks
    /// that were put before.
    pub(in crate::pool) fn order(&self) {
        drop(self.segments.tail());
    }

    /// Between a change and a look at what was taken: who takes a task from now on sees the change, and we see what
    /// others did before they took theirs.
    pub(in crate::pool) fn order_takes(&self) {
        drop(self.segments.head());
    }

    /// Calls `look` with the oldest task, if there is one and it has a label, with the head locked.
    pub(in crate::pool) fn with_first<R>(&self, look: impl FnOnce(Option<&Task>) -> R) -> R {
        self.segments.head().with_first(look)
    }

    /// Takes the oldest task.
    pub(in crate::pool) fn pop(&self) -> Option<Task> {
        let mut task = None;
        self.pop_into(&mut task);
        task
    }

    /// As `pop`, and puts it `into` the place where it will run: moving a task costs as much as taking it.
    #[inline]
    pub(in crate::pool) fn pop_into(&self, into: &mut Option<Task>) {
        self.segments.head().pop(into);
    }

    /// Takes the task `id` out. `place` is where it was put, if that is known.
    pub(in crate::pool) fn remove(&self, id: TaskId, place: Option<u64>) -> Option<Task> {
        let mut whole = self.segments.whole();
        let at_place = place.and_then(|place| whole.remove_at(id, place));
        // One that knows its place and is not there has been taken, unless all were moved meanwhile.
        let moved = self.squeezed.load(Ordering::Relaxed) > 0;
        let search = place.is_none() || moved;
        let task = at_place.or_else(|| search.then(|| whole.remove(id)).flatten())?;
        self.squeeze(&mut whole);
        Some(task)
    }

    /// As `remove`, for a task that turned out not to be accepted.
    pub(in crate::pool) fn unpush(&self, id: TaskId) -> Option<Task> {
        let task = self.remove(id, None)?;
        self.taken_back.fetch_add(1, Ordering::Release); // see `pushed`
        Some(task)
    }

    /// Takes out all tasks that `unwanted` accepts.
    pub(in crate::pool) fn remove_if(&self, unwanted: impl Fn(&Task) -> bool) -> Vec<Task> {
        let mut whole = self.segments.whole();
        self.move_all(&mut whole, unwanted)
    }

    fn move_all(&self, whole: &mut BothGuard<'_>, unwanted: impl Fn(&Task) -> bool) -> Vec<Task> {
        self.squeezed.store(1, Ordering::Relaxed);
        whole.remove_if(unwanted)
    }

    /// Moves the tasks together when most of what waits are holes, so that a queue of few tasks stays small: each
    /// removal pays for one hole, so this costs constant time per removal.
    fn squeeze(&self, whole: &mut BothGuard<'_>) {
        const FEW: u64 = 16;
        if whole.holes() > 2 * self.len() as u64 + FEW {
            self.move_all(whole, |_| false);
        }
    }

    /// The ids of the waiting tasks, oldest first.
    pub(in crate::pool) fn ids(&self) -> Vec<TaskId> {
        self.segments.whole().ids()
    }

    /// Tasks accepted so far.
    pub(in crate::pool) fn pushed(&self) -> u64 {
        // Read first, and by an Acquire: whoever sees that one was taken back sees that it had been put, and so the difference is
        // not below zero.
        let taken_back = self.taken_back.load(Ordering::Acquire);
        self.segments.put() - taken_back
    }

    /// Frees the memory that a burst took. Called by a worker that is about to park.
    pub(in crate::pool) fn trim(&self) {
        if self.segments.has_surplus() {
            let unused = self.segments.whole().trim();
            drop(unused); // after the locks
        }
    }
}

/// How many tasks may be put in all when so many are gone.
fn limit(gone: u64, capacity: usize) -> u64 {
    gone.saturating_add(capacity as u64)
}

impl fmt::Debug for Fifo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fifo").field("len", &self.len()).field("capacity", &self.capacity).finish()
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
