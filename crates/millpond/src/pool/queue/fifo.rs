//! The first-in-first-out queue behind the array and linked work queues, bounded and unbounded.
//!
//! Tasks are packed into segments, see `segments.rs`. A task with a handle stores its position in
//! them. So cancelling it or running it inline removes it in constant time and leaves a tombstone.
//! Tombstones are skipped, and compacted away when they outnumber the tasks.
//!
//! The length is the difference of two counts that only grow, one for each end: tasks pushed and
//! tasks gone. A reader without the locks loads `gone` first.
//!
//! Time marks beside the queue record when tasks were pushed, see `marks.rs`. The comparison that
//! detects a full queue also detects that a mark is due, so most pushes pay nothing.

use std::fmt;

use self::marks::TimeMarks;
use super::segments::{BothGuard, Segments, TailGuard};
use crate::sync::{AtomicU64, AtomicUsize, Ordering};
use crate::task::{Pack, Task, TaskId, TaskInfo};
use crate::time::clock::{Clock, Tick};

mod marks;

pub(in crate::pool) struct Fifo {
    /// The maximum length for a push to succeed. Written with the tail locked.
    capacity: AtomicUsize,
    /// Upper bound of the length: the capacity, or the length when the capacity was last lowered
    /// below it. Written with the tail locked.
    most: AtomicUsize,
    segments: Segments,
    /// Number of pushed tasks that were taken back because they were not admitted.
    taken_back: AtomicU64,
    /// Nonzero once tasks have been moved, so that positions may be stale. Guarded by both locks.
    compacted: AtomicU64,
    marks: TimeMarks,
}

impl Fifo {
    /// Creates a queue with this clock for time marks. No marks are made before
    /// [`set_marks`](Self::set_marks).
    pub(in crate::pool) fn new(capacity: usize, clock: Clock) -> Self {
        Fifo {
            capacity: AtomicUsize::new(capacity),
            most: AtomicUsize::new(capacity),
            segments: Segments::new(limit(0, capacity)),
            taken_back: AtomicU64::new(0),
            compacted: AtomicU64::new(0),
            marks: TimeMarks::new(clock),
        }
    }

    /// Returns the capacity. Relaxed: it may be stale, unless the tail is locked.
    #[inline]
    pub(in crate::pool) fn capacity(&self) -> usize {
        self.capacity.load(Ordering::Relaxed)
    }

    /// Changes the capacity. Queued tasks stay, even if they exceed it. Later pushes succeed only
    /// if there is room. They read the capacity with the tail locked, and not the limit that an
    /// earlier push has computed. Model: `a_push_after_a_capacity_change_respects_it`.
    pub(in crate::pool) fn set_capacity(&self, capacity: usize) {
        let mut tail = self.segments.tail();
        let queued = usize::try_from(self.segments.put() - self.segments.gone()).unwrap_or(usize::MAX);
        self.capacity.store(capacity, Ordering::Relaxed);
        self.most.store(capacity.max(queued), Ordering::Relaxed);
        self.marks.ask(self.segments.put());
        tail.set_limit(0);
    }

    /// Returns the length. Exact unless a task is popped between the two loads. Never above the
    /// capacity, unless the capacity was lowered.
    #[inline]
    pub(in crate::pool) fn len(&self) -> usize {
        let gone = self.segments.gone();
        let put = self.segments.put();
        usize::try_from(put - gone).unwrap_or(usize::MAX).min(self.most.load(Ordering::Relaxed))
    }

    pub(in crate::pool) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Returns true if the queue seems full: a hint. While there is room, it does not load the
    /// cache line that popping threads write.
    #[inline]
    pub(in crate::pool) fn is_full(&self) -> bool {
        self.full_len().is_some()
    }

    /// Returns the length if the queue seems full: a hint, like `is_full`.
    #[inline]
    pub(in crate::pool) fn full_len(&self) -> Option<usize> {
        if self.segments.put() < self.segments.limit() {
            return None;
        }
        Some(self.len()).filter(|len| *len >= self.capacity())
    }

    /// Appends `task` with the id `id` and then calls `observe`, both with the tail locked. Returns
    /// the task if the queue is full.
    ///
    /// A thread that calls [`order`](Self::order) after a change takes the same lock. If it takes
    /// the lock first, `observe` sees the change. Otherwise that thread sees the task.
    #[inline]
    pub(in crate::pool) fn push<T: Pack, L>(
        &self,
        id: TaskId,
        task: T,
        observe: impl FnOnce() -> L,
    ) -> Result<L, T> {
        let mut tail = self.segments.tail();
        if self.segments.put() >= self.segments.limit() {
            let full_at = limit(self.segments.gone(), self.capacity());
            if self.segments.put() >= full_at {
                return Err(task);
            }
            if self.segments.put() >= self.marks.due() {
                self.mark(&tail);
            }
            tail.set_limit(full_at.min(self.marks.due()));
        }
        tail.push(id, task);
        Ok(observe())
    }

    #[cold]
    fn mark(&self, tail: &TailGuard<'_>) {
        self.marks.add(self.segments.put(), tail.end(), || self.segments.begin());
    }

    /// Sets whether time marks are made.
    pub(in crate::pool) fn set_marks(&self, on: bool) {
        self.marks.set_most_pushes(u64::from(on));
        self.ask_for_mark();
    }

    /// Sets the maximum number of pushes between two time marks, unless marks are off.
    pub(in crate::pool) fn space_marks(&self, pushes: u64) {
        let before = self.marks.most_pushes();
        if before != 0 && before != pushes {
            self.marks.set_most_pushes(pushes);
        }
    }

    /// Requests a time mark at the next push.
    pub(in crate::pool) fn ask_for_mark(&self) {
        if self.segments.limit() <= self.segments.put() {
            return; // a mark is due already
        }
        let mut tail = self.segments.tail();
        self.marks.ask(self.segments.put());
        tail.set_limit(self.segments.limit().min(self.marks.due()));
    }

    /// Returns when the task at `position` was pushed, or a slightly earlier time.
    pub(in crate::pool) fn since(&self, position: u64) -> Option<Tick> {
        self.marks.time_of(position)
    }

    /// Returns when the oldest task was pushed, or a slightly earlier time. `None` if the queue is
    /// empty.
    pub(in crate::pool) fn head_since(&self) -> Option<Tick> {
        let begin = self.segments.first_position()?;
        self.marks.time_of_head(begin)
    }

    /// Orders a change before a read of the queue: later pushes see the change, and the caller sees
    /// all earlier pushes.
    pub(in crate::pool) fn order(&self) {
        drop(self.segments.tail());
    }

    /// Orders a change before a read: later pops see the change, and the caller sees what other
    /// threads wrote before their earlier pops.
    pub(in crate::pool) fn order_takes(&self) {
        drop(self.segments.head());
    }

    /// Calls `inspect` with the oldest task, with the head locked. Passes `None` if the queue is
    /// empty or the task is not stored in a box. A task with a time stamp is stored in a box.
    pub(in crate::pool) fn with_first<R>(&self, inspect: impl FnOnce(Option<&Task>) -> R) -> R {
        self.segments.head().with_first(inspect)
    }

    /// Pops the oldest task.
    pub(in crate::pool) fn pop(&self) -> Option<Task> {
        let mut task = None;
        self.pop_into(&mut task);
        task
    }

    /// Like `pop`, into the place where the task will run: a move costs as much as the pop itself.
    #[inline]
    pub(in crate::pool) fn pop_into(&self, into: &mut Option<Task>) {
        self.segments.head().pop(into);
    }

    /// Removes the task `id`. `place` is the position of its push, if known.
    pub(in crate::pool) fn remove(&self, id: TaskId, place: Option<u64>) -> Option<Task> {
        let mut whole = self.segments.whole();
        let at_place = place.and_then(|place| whole.remove_at(id, place));
        // A task that is not at its position has been popped, unless tasks have been moved since.
        let moved = self.compacted.load(Ordering::Relaxed) > 0;
        let search = place.is_none() || moved;
        let task = at_place.or_else(|| search.then(|| whole.remove(id)).flatten())?;
        self.compact(&mut whole);
        Some(task)
    }

    /// Like `remove`, for a task that was not admitted: it does not count as pushed.
    pub(in crate::pool) fn unpush(&self, id: TaskId) -> Option<Task> {
        let task = self.remove(id, None)?;
        self.taken_back.fetch_add(1, Ordering::Release); // see `pushed`
        Some(task)
    }

    /// Removes all tasks for which `unwanted` returns true.
    pub(in crate::pool) fn remove_if(&self, unwanted: impl Fn(&Task) -> bool) -> Vec<Task> {
        let mut whole = self.segments.whole();
        self.move_all(&mut whole, unwanted)
    }

    fn move_all(&self, whole: &mut BothGuard<'_>, unwanted: impl Fn(&Task) -> bool) -> Vec<Task> {
        self.compacted.store(1, Ordering::Relaxed);
        let mut marks = self.marks.moving();
        whole.remove_if(unwanted, |from, to| marks.moved(from, to))
    }

    /// Moves the tasks together if most entries are tombstones, so a queue of few tasks stays
    /// small. Each removal pays for one tombstone, so the amortized cost per removal is constant.
    fn compact(&self, whole: &mut BothGuard<'_>) {
        const FEW: u64 = 16;
        if whole.tombstones() > 2 * self.len() as u64 + FEW {
            self.move_all(whole, |_| false);
        }
    }

    /// Returns the ids of the queued tasks, oldest first.
    pub(in crate::pool) fn ids(&self) -> Vec<TaskId> {
        self.segments.whole().ids()
    }

    /// Returns the first tasks with their positions. Reads at most `limit` entries.
    pub(in crate::pool) fn first_tasks(&self, limit: usize) -> Vec<(TaskInfo, u64)> {
        let mut tasks = Vec::with_capacity(limit.min(self.len()));
        tasks.extend(self.segments.whole().first_tasks(limit));
        tasks
    }

    /// Returns the number of tasks accepted so far.
    pub(in crate::pool) fn pushed(&self) -> u64 {
        // Loaded first, with Acquire: a thread that sees a task taken back also sees its push, so
        // the difference is never negative.
        let taken_back = self.taken_back.load(Ordering::Acquire);
        self.segments.put() - taken_back
    }

    /// Frees memory that a burst has left unused. Called by a worker before it parks.
    pub(in crate::pool) fn trim(&self) {
        if self.segments.has_surplus() {
            let unused = self.segments.whole().trim();
            drop(unused); // after the locks
        }
    }
}

/// Returns the total number of pushes allowed after `gone` tasks have left.
fn limit(gone: u64, capacity: usize) -> u64 {
    gone.saturating_add(capacity as u64)
}

impl fmt::Debug for Fifo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fifo").field("len", &self.len()).field("capacity", &self.capacity()).finish()
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
