//! Counts the tasks that ran, without making the workers meet: one counter per thread, each on its own cache lines.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::workloads::Failure;

/// Two lines, because processors fetch lines in pairs.
#[repr(align(128))]
struct Slot(AtomicU64);

/// More than the threads that count at a time. If two share one, the sum is still right.
const SLOTS: usize = 256;
static TALLY: [Slot; SLOTS] = [const { Slot(AtomicU64::new(0)) }; SLOTS];
static NEXT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static MINE: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Counts one task, on the thread that runs it.
pub(crate) fn count() {
    let mine = MINE.get();
    let mine = if mine == usize::MAX { take_a_slot() } else { mine };
    // Release: whoever sees the sum sees what the tasks did.
    TALLY[mine].0.fetch_add(1, Ordering::Release);
}

#[cold]
fn take_a_slot() -> usize {
    let slot = NEXT.fetch_add(1, Ordering::Relaxed) % SLOTS;
    MINE.set(slot);
    slot
}

fn total() -> u64 {
    TALLY.iter().map(|slot| slot.0.load(Ordering::Acquire)).sum()
}

/// What has been counted since it was made.
pub(crate) struct Count {
    before: u64,
}

/// A task that has not run by then is lost.
const PATIENCE: Duration = Duration::from_secs(60);

impl Count {
    pub(crate) fn begin() -> Count {
        Count { before: total() }
    }

    /// Waits until `tasks` have run. It looks rarely: each look takes the counters' lines away from the workers.
    pub(crate) fn wait_for(&self, tasks: u64) -> Result<(), Failure> {
        let begin = Instant::now();
        while total() - self.before < tasks {
            if begin.elapsed() > PATIENCE {
                return self.check(tasks);
            }
            thread::sleep(Duration::from_micros(20));
        }
        Ok(())
    }

    /// That `tasks` ran, and not one more.
    pub(crate) fn check(&self, tasks: u64) -> Result<(), Failure> {
        match total() - self.before {
            ran if ran == tasks => Ok(()),
            ran => Err(Failure::Wrong(format!("{ran} tasks ran of {tasks}"))),
        }
    }
}
