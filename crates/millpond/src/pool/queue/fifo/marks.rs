//! When the tasks of a first-in-first-out queue were pushed, without touching the tasks.
//!
//! Every few pushes the submitter notes the time and the position of the task, before it pushes it:
//! a *time mark*. A task was pushed at the time of the last mark at or before its position, or a
//! little later. How many pushes go from one mark to the next depends on their [`Pace`], but they
//! are at most as many as the workers run tasks per lap: tasks of 20 µs or more have a mark each. A
//! worker that waits for work asks for a mark at the next push.
//!
//! The list has a fixed size. When it is full, marks that the head has passed go, and then those
//! that are close in time to the mark before, compared with the time that all marks span. So a
//! wait that is read at the head of the queue is right to within about 3 %, however long the queue
//! is.
//!
//! # Locks
//!
//! `due` is written under the lock of the queue's tail. The list has a lock of its own, which is
//! taken last: a submitter holds the tail, a worker nothing or both ends. A mark is in the list
//! before its task is in the queue, and positions only grow. So a thread that has seen the task
//! finds the mark, or a later one if the head has moved on meanwhile.

use std::collections::VecDeque;

use crate::monitor::Pace;
use crate::sync::{AtomicU64, Ordering, SpinLock, SpinLockGuard};
use crate::time::clock::{Clock, Tick};

/// The size of the list.
const MOST: usize = 64;
/// Marks that are closer than this part of the span of all marks are thinned out.
const PARTS: u64 = 32;
/// Never: the queue is not measured.
const NEVER: u64 = u64::MAX;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TimeMark {
    /// Tasks from this position on were pushed at `time` or later.
    position: u64,
    time: Tick,
}

#[derive(Debug)]
pub(super) struct TimeMarks {
    clock: Clock,
    /// Pushes from one mark to the next at most; 0 if none are made. Relaxed: a hint of the
    /// workers.
    most_pushes: AtomicU64,
    /// The number of pushes at which the next mark is due.
    due: AtomicU64,
    noted: SpinLock<Noted>,
}

#[derive(Debug)]
struct Noted {
    /// By position, and so by time.
    list: VecDeque<TimeMark>,
    pace: Pace,
}

impl TimeMarks {
    pub(super) fn new(clock: Clock) -> Self {
        let noted = SpinLock::new(Noted { list: VecDeque::with_capacity(MOST), pace: Pace::new() });
        TimeMarks { clock, most_pushes: AtomicU64::new(0), due: AtomicU64::new(NEVER), noted }
    }

    /// The number of pushes at which the next mark is due.
    #[inline]
    pub(super) fn due(&self) -> u64 {
        self.due.load(Ordering::Relaxed)
    }

    /// Makes a mark for the task that will be pushed at `end`, after `put` others. The head is at
    /// `begin`. Called with the tail locked.
    pub(super) fn add(&self, put: u64, end: u64, begin: impl FnOnce() -> u64) {
        let most = self.most_pushes();
        if most == 0 {
            return self.due.store(NEVER, Ordering::Relaxed);
        }
        let now = self.clock.tick();
        let mut noted = self.noted.lock();
        self.due.store(put + noted.pace.next(put, now, most), Ordering::Relaxed);
        insert(&mut noted.list, TimeMark { position: end, time: now }, begin);
    }

    /// Asks for a mark at the next push, after `put` others. Called with the tail locked.
    pub(super) fn ask(&self, put: u64) {
        let is_on = self.most_pushes() > 0;
        self.due.store(if is_on { put } else { NEVER }, Ordering::Relaxed);
    }

    /// Sets the number of pushes from one mark to the next at most; 0 for no marks.
    pub(super) fn set_most_pushes(&self, pushes: u64) {
        self.most_pushes.store(pushes, Ordering::Relaxed);
    }

    pub(super) fn most_pushes(&self) -> u64 {
        self.most_pushes.load(Ordering::Relaxed)
    }

    /// When the task at the head was pushed. Forgets the marks before it.
    pub(super) fn time_of_head(&self, begin: u64) -> Option<Tick> {
        let mut noted = self.noted.lock();
        forget_before(&mut noted.list, begin);
        noted.list.front().map(|mark| mark.time)
    }

    /// When the task at `position` was pushed.
    pub(super) fn time_of(&self, position: u64) -> Option<Tick> {
        let list = &self.noted.lock().list;
        let after = list.partition_point(|mark| mark.position <= position);
        list.get(after.saturating_sub(1)).map(|mark| mark.time)
    }

    /// The marks, while all tasks move to new positions, with both ends of the queue locked.
    pub(super) fn moving(&self) -> MovingMarks<'_> {
        let noted = self.noted.lock();
        MovingMarks { left: noted.list.len(), noted }
    }
}

/// The tasks of the queue move, and the marks with them.
pub(super) struct MovingMarks<'a> {
    /// The list: first the marks that have not moved, then those that have.
    noted: SpinLockGuard<'a, Noted>,
    /// The marks that have not moved.
    left: usize,
}

impl MovingMarks<'_> {
    /// A task moves. Tasks move in order, so the last mark before it is the one that counts.
    pub(super) fn moved(&mut self, from: u64, to: u64) {
        let mut last = None;
        let list = &mut self.noted.list;
        while self.left > 0 && list.front().is_some_and(|mark| mark.position <= from) {
            last = list.pop_front();
            self.left -= 1;
        }
        if let Some(mark) = last {
            list.push_back(TimeMark { position: to, ..mark });
        }
    }
}

impl Drop for MovingMarks<'_> {
    /// The marks that are left belong to no task.
    fn drop(&mut self) {
        self.noted.list.drain(..self.left);
    }
}

fn insert(list: &mut VecDeque<TimeMark>, mark: TimeMark, begin: impl FnOnce() -> u64) {
    if list.back().is_some_and(|last| last.position == mark.position) {
        list.pop_back(); // no task was pushed since
    }
    if list.len() == MOST {
        forget_before(list, begin());
    }
    if list.len() == MOST {
        thin_out(list);
    }
    list.push_back(mark);
}

/// Removes the marks of tasks before `position`.
fn forget_before(list: &mut VecDeque<TimeMark>, position: u64) {
    while list.get(1).is_some_and(|second| second.position <= position) {
        list.pop_front();
    }
}

/// Keeps at most [`PARTS`] marks and one.
fn thin_out(list: &mut VecDeque<TimeMark>) {
    let (Some(first), Some(last)) = (list.front(), list.back()) else { return };
    let gap = (last.time.nanos() - first.time.nanos()).div_ceil(PARTS).max(1);
    let mut kept = None;
    list.retain(|mark| {
        let keep = kept.is_none_or(|kept: u64| mark.time.nanos() - kept >= gap);
        if keep {
            kept = Some(mark.time.nanos());
        }
        keep
    });
}

#[cfg(all(test, not(loom)))]
mod tests;
