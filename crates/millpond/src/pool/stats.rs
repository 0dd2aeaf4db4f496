//! What a pool counts, and [`PoolStats`], one look at all of it.
//!
//! Each worker counts for itself, in cache lines of its own; the reader adds up. What workers cannot count
//! (tasks that never reach one) is counted here, on paths that are not hot.

#[cfg(not(loom))]
use std::cell::Cell;
use std::time::Duration;

use super::control::RunState;
use crate::sync::{AtomicU64, Ordering};
use crate::task::Outcome;

/// A worker's counters. Only the worker writes: plain loads and stores are enough, and each is exact.
///
/// Release, and Acquire in `totals`: a thread that reads a count of settled tasks also sees that
/// they were accepted; see `census.rs`.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct WorkerCounters {
    finished: AtomicU64,
    succeeded: AtomicU64,
    panicked: AtomicU64,
    cancelled: AtomicU64,
    /// Tasks that run in place now, inside the worker's own.
    in_place: AtomicU64,
}

/// For a counter with one writer at a time.
#[inline]
fn bump(counter: &AtomicU64) {
    counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Release);
}

impl WorkerCounters {
    /// The worker is through with a task.
    pub(super) fn finished(&self) {
        bump(&self.finished);
    }

    /// What came of a task; counted before its handle can tell.
    pub(super) fn settled(&self, outcome: Outcome) {
        bump(match outcome {
            Outcome::Succeeded => &self.succeeded,
            Outcome::Panicked => &self.panicked,
            Outcome::Cancelled => &self.cancelled,
        });
    }

    /// A task begins to run in place.
    pub(super) fn begin_in_place(&self) {
        bump(&self.in_place);
    }

    /// The innermost task that ran in place has ended, and is counted as settled.
    pub(super) fn end_in_place(&self) {
        let running = self.in_place.load(Ordering::Relaxed);
        self.in_place.store(running - 1, Ordering::Release);
    }

    pub(super) fn in_place(&self) -> usize {
        self.in_place.load(Ordering::Acquire) as usize
    }

    pub(super) fn totals(&self) -> Totals {
        let read = |counter: &AtomicU64| counter.load(Ordering::Acquire);
        Totals {
            finished: read(&self.finished),
            succeeded: read(&self.succeeded),
            panicked: read(&self.panicked),
            cancelled: read(&self.cancelled),
        }
    }
}

/// The sum of several workers' counters.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Totals {
    pub(super) finished: u64,
    pub(super) succeeded: u64,
    pub(super) panicked: u64,
    pub(super) cancelled: u64,
}

impl Totals {
    /// Tasks that came to a worker and ended there.
    pub(super) fn settled(&self) -> u64 {
        self.succeeded + self.panicked + self.cancelled
    }
}

impl std::ops::AddAssign for Totals {
    fn add_assign(&mut self, other: Totals) {
        self.finished += other.finished;
        self.succeeded += other.succeeded;
        self.panicked += other.panicked;
        self.cancelled += other.cancelled;
    }
}

/// The calling thread's number, from 1. No other thread ever has the same.
#[cfg(not(loom))]
#[inline]
fn thread_number() -> u64 {
    std::thread_local! {
        /// 0: it has none so far.
        static NUMBER: Cell<u64> = const { Cell::new(0) };
    }
    #[cold]
    fn first_time() -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        NUMBER.set(NEXT.fetch_add(1, Ordering::Relaxed)); // only uniqueness matters
        NUMBER.get()
    }
    match NUMBER.get() {
        0 => first_time(),
        number => number,
    }
}

/// In a model all threads are one to the system.
#[cfg(loom)]
fn thread_number() -> u64 {
    crate::interrupt::RunId::current().thread
}

/// A count that many threads raise. The first who come have a cell each, which nobody else writes: an addition that nobody
/// can get between takes as long as all the rest of a refusal, and a tenth of a cancel.
///
/// Release and Acquire as for [`WorkerCounters`]. It is exact: no two threads ever have the same number.
#[derive(Debug, Default)]
struct Tally {
    cells: [OwnCell; 4],
    /// What all others have counted.
    others: AtomicU64,
}

#[derive(Debug, Default)]
#[repr(align(64))]
struct OwnCell {
    /// The number of the thread that it belongs to, for good; 0: to nobody so far.
    owner: AtomicU64,
    count: AtomicU64,
}

impl Tally {
    #[inline]
    fn add_one(&self) {
        let me = thread_number();
        let cell = &self.cells[me as usize % self.cells.len()];
        if cell.owner.load(Ordering::Relaxed) == me {
            bump(&cell.count);
        } else {
            self.add_elsewhere(me, cell);
        }
    }

    #[cold]
    fn add_elsewhere(&self, me: u64, cell: &OwnCell) {
        if cell.owner.compare_exchange(0, me, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            bump(&cell.count);
        } else {
            self.others.fetch_add(1, Ordering::Release);
        }
    }

    fn sum(&self) -> u64 {
        let own = self.cells.iter().map(|cell| cell.count.load(Ordering::Acquire)).sum::<u64>();
        own + self.others.load(Ordering::Acquire)
    }
}

/// What no worker can count.
#[derive(Debug, Default)]
pub(super) struct Counters {
    /// Tasks that came with a new thread.
    first_tasks: AtomicU64,
    rejected: Tally,
    /// Cancelled and taken out of the queue.
    cancelled: Tally,
    /// Removed, drained or evicted.
    handed_back: AtomicU64,
    /// Shed, because they waited for too long.
    expired: AtomicU64,
    series_ended_by_panic: AtomicU64,
}

impl Counters {
    pub(super) fn first_task(&self) {
        self.first_tasks.fetch_add(1, Ordering::Relaxed);
    }

    /// The thread did not start after all.
    pub(super) fn no_first_task(&self) {
        self.first_tasks.fetch_sub(1, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn rejected(&self) {
        self.rejected.add_one();
    }

    #[inline]
    pub(super) fn cancelled_in_queue(&self) {
        self.cancelled.add_one();
    }

    pub(super) fn handed_back(&self, tasks: usize) {
        self.handed_back.fetch_add(tasks as u64, Ordering::Release); // as in `WorkerCounters`
    }

    pub(super) fn expired(&self) {
        self.expired.fetch_add(1, Ordering::Release); // as in `WorkerCounters`
    }

    #[cold]
    pub(super) fn series_ended_by_panic(&self) {
        self.series_ended_by_panic.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn first_tasks(&self) -> u64 {
        self.first_tasks.load(Ordering::Relaxed)
    }

    pub(super) fn read(&self) -> CountersRead {
        CountersRead {
            rejected: self.rejected.sum(),
            cancelled: self.cancelled.sum(),
            handed_back: self.handed_back.load(Ordering::Acquire),
            expired: self.expired.load(Ordering::Acquire),
            series_ended_by_panic: self.series_ended_by_panic.load(Ordering::Relaxed),
        }
    }
}

pub(super) struct CountersRead {
    pub(super) rejected: u64,
    pub(super) cancelled: u64,
    pub(super) handed_back: u64,
    pub(super) expired: u64,
    pub(super) series_ended_by_panic: u64,
}

/// One look at a pool.
///
/// A task counts from the moment it is accepted until it is settled. When nothing moves, `submitted`
/// = `completed` + `panicked` + `cancelled` + `handed_back` + `expired` + `queued_count` +
/// `active_count` + `in_place_count`. While tasks come and go two things hold at every moment. The settled tasks
/// (`completed`, `panicked`, `cancelled`, `handed_back`, `expired`) are never more than `submitted`. And every
/// task that was accepted before the look is in one of the counts, in two at most for the moment in
/// which it moves from one to the next. The outcome of a task is counted before its handle resolves.
///
/// The counts of a pool with a custom queue are those of the queue: a task that its owner puts in
/// counts as submitted when it is settled, and for an instant a task that a worker has taken out
/// is in no count.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolStats {
    /// How far the pool's life has come.
    pub state: RunState,
    /// The core size in force.
    pub core_pool_size: usize,
    /// The maximum size in force.
    pub maximum_pool_size: usize,
    /// How long a surplus worker waits for work before it leaves.
    pub keep_alive_time: Duration,
    /// Workers now.
    pub pool_size: usize,
    /// Workers that run a task now, or have one put into their hands. Never more than `pool_size`.
    pub active_count: usize,
    /// Tasks that run inside other tasks, which wait for them: see
    /// [`TaskHandle::join`](crate::TaskHandle::join). Their workers are in `active_count` already.
    pub in_place_count: usize,
    /// The most workers there ever were.
    pub largest_pool_size: usize,
    /// Tasks that wait in the queue.
    pub queued_count: usize,
    /// Tasks that the queue would still take; `usize::MAX` if it has no bound.
    pub remaining_queue_capacity: usize,
    /// Tasks accepted so far.
    pub submitted: u64,
    /// Tasks that ran and returned.
    pub completed: u64,
    /// Tasks that panicked, and those that a panicking `before_execute` kept from running.
    pub panicked: u64,
    /// Tasks that were cancelled, before or while they ran.
    pub cancelled: u64,
    /// Tasks that were refused, whatever the policy then did with them; those for which the blocking policy
    /// found room are not among them.
    pub rejected: u64,
    /// Tasks that were accepted and left without having run: removed, drained by `shutdown_now`, or
    /// evicted by `DiscardOldest`.
    pub handed_back: u64,
    /// Tasks that were accepted and not run because they had waited for longer than
    /// [`max_queue_time`](crate::Builder::max_queue_time).
    pub expired: u64,
    /// Series of a scheduled pool that ended because a run panicked. If it grows, something that should
    /// happen periodically no longer does.
    pub periodic_ended_by_panic: u64,
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Tally;

    #[test]
    fn a_tally_of_more_threads_than_cells_is_exact() {
        const EACH: u64 = if cfg!(miri) { 20 } else { 1000 };
        let tally = Tally::default();
        let threads = 3 * tally.cells.len() as u64;
        std::thread::scope(|s| {
            for _ in 0..threads {
                s.spawn(|| (0..EACH).for_each(|_| tally.add_one()));
            }
        });
        assert_eq!(tally.sum(), threads * EACH);
        assert!(tally.cells.iter().all(|cell| cell.count.load(super::Ordering::Relaxed) > 0));
    }
}
