//! Time marks: when the tasks of a first-in-first-out queue were pushed, without a time in each
//! task.
//!
//! Every few pushes the submitter records a *time mark*, the time and the position of the task,
//! before it pushes the task. A task was pushed at the time of the last mark at or before its
//! position, or slightly later. The number of pushes between two marks depends on their [`Pace`].
//! It is at most the number of tasks that a worker runs per lap, so each task of 20 µs or more has
//! its own mark. A worker that waits for work requests a mark at the next push.
//!
//! The list has a fixed size. When it is full, marks that the head has passed are dropped. If that
//! is not enough, marks are dropped that are close in time to the previous mark, relative to the
//! time that all marks span. So a wait time read at the head of the queue is right to within about
//! 3 %, for any length of the queue.
//!
//! # Locks
//!
//! `due` is written under the lock of the queue's tail. The list has its own lock, which is always
//! taken last: submitters hold the tail lock then, and workers hold no lock or both ends. A mark is
//! in the list before its task is in the queue, and positions only grow. So a thread that has seen
//! the task finds its mark, or a later mark if the head has moved on.

use std::collections::VecDeque;

use crate::monitor::Pace;
use crate::sync::{AtomicU64, Ordering, SpinLock, SpinLockGuard};
use crate::time::clock::{Clock, Tick};

/// The maximum number of marks in the list.
const MOST: usize = 64;
/// Marks that are closer than this fraction of the span of all marks are thinned out.
const PARTS: u64 = 32;
/// The value of `due` if no marks are made.
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
    /// Maximum number of pushes between two marks; 0 if none are made. Relaxed: a hint from the
    /// workers.
    most_pushes: AtomicU64,
    /// The number of pushes at which the next mark is due.
    due: AtomicU64,
    noted: SpinLock<Noted>,
}

#[derive(Debug)]
struct Noted {
    /// Ordered by position, and therefore by time.
    list: VecDeque<TimeMark>,
    pace: Pace,
}

impl TimeMarks {
    pub(super) fn new(clock: Clock) -> Self {
        let noted = SpinLock::new(Noted { list: VecDeque::with_capacity(MOST), pace: Pace::new() });
        TimeMarks { clock, most_pushes: AtomicU64::new(0), due: AtomicU64::new(NEVER), noted }
    }

    /// Returns the number of pushes at which the next mark is due.
    #[inline]
    pub(super) fn due(&self) -> u64 {
        self.due.load(Ordering::Relaxed)
    }

    /// Adds a mark for the task that will be pushed at position `end`, after `put` earlier pushes.
    /// `begin` returns the position of the head. Called with the tail locked.
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

    /// Requests a mark at the next push, after `put` earlier pushes. Called with the tail locked.
    pub(super) fn ask(&self, put: u64) {
        let is_on = self.most_pushes() > 0;
        self.due.store(if is_on { put } else { NEVER }, Ordering::Relaxed);
    }

    /// Sets the maximum number of pushes between two marks; 0 for no marks.
    pub(super) fn set_most_pushes(&self, pushes: u64) {
        self.most_pushes.store(pushes, Ordering::Relaxed);
    }

    pub(super) fn most_pushes(&self) -> u64 {
        self.most_pushes.load(Ordering::Relaxed)
    }

    /// Returns when the task at the head was pushed. Drops the marks before it.
    pub(super) fn time_of_head(&self, begin: u64) -> Option<Tick> {
        let mut noted = self.noted.lock();
        forget_before(&mut noted.list, begin);
        noted.list.front().map(|mark| mark.time)
    }

    /// Returns when the task at `position` was pushed.
    pub(super) fn time_of(&self, position: u64) -> Option<Tick> {
        let list = &self.noted.lock().list;
        let after = list.partition_point(|mark| mark.position <= position);
        list.get(after.saturating_sub(1)).map(|mark| mark.time)
    }

    /// Locks the marks while all tasks move to new positions. Called with both ends of the queue
    /// locked.
    pub(super) fn moving(&self) -> MovingMarks<'_> {
        let noted = self.noted.lock();
        MovingMarks { left: noted.list.len(), noted }
    }
}

/// Moves the marks together with the tasks of the queue.
pub(super) struct MovingMarks<'a> {
    /// First the marks that have not moved, then the marks that have.
    noted: SpinLockGuard<'a, Noted>,
    /// Number of marks that have not moved.
    left: usize,
}

impl MovingMarks<'_> {
    /// Called for each moved task. Tasks move in order, so only the last mark before a task counts.
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
    /// Drops the remaining marks, which belong to no task.
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

/// Keeps at most `PARTS + 1` marks.
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
