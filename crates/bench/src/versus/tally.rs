//! Counts the tasks that ran, without contention between workers: one counter per thread, each on
//! its own cache lines, with plain writes. An atomic addition would take as long as the measured
//! work.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::workloads::Failure;

/// Two cache lines, because processors prefetch lines in pairs.
#[repr(align(128))]
struct Slot(AtomicU64);

/// More than the number of threads that count at a time.
const SLOTS: usize = 1024;
static TALLY: [Slot; SLOTS] = [const { Slot(AtomicU64::new(0)) }; SLOTS];
/// The number of slots ever used. Grows under the lock of `FREE`.
static USED: AtomicUsize = AtomicUsize::new(0);
/// Slots of threads that have ended. Their counts stay.
static FREE: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// The slot of a thread. No other thread writes to it while the thread lives.
struct Mine(usize);

impl Mine {
    fn take() -> Mine {
        let mut free = FREE.lock().expect("nobody panics with it");
        // Release; pairs with the Acquire in `total`, which must not read a slot before its number.
        let slot = free.pop().unwrap_or_else(|| USED.fetch_add(1, Ordering::Release));
        assert!(slot < SLOTS, "more threads than slots");
        Mine(slot)
    }
}

impl Drop for Mine {
    fn drop(&mut self) {
        FREE.lock().expect("nobody panics with it").push(self.0);
    }
}

thread_local! {
    static MINE: Mine = Mine::take();
}

/// Counts one task, on the thread that runs it.
pub(crate) fn count() {
    MINE.with(|mine| {
        let slot = &TALLY[mine.0].0;
        // Release; pairs with the Acquire in `total`: a reader of the sum sees the effects of the
        // tasks. The lock of `FREE` orders successive owners of the slot.
        slot.store(slot.load(Ordering::Relaxed) + 1, Ordering::Release);
    });
}

fn total() -> u64 {
    let used = USED.load(Ordering::Acquire);
    TALLY[..used].iter().map(|slot| slot.0.load(Ordering::Acquire)).sum()
}

/// The tasks counted since it was created.
pub(crate) struct Count {
    before: u64,
}

/// A task that has not run by then counts as lost.
const PATIENCE: Duration = Duration::from_secs(20);
/// During this time the end is polled in short steps, so that a short case does not pay for a long
/// one.
const EAGER: Duration = Duration::from_micros(100);

impl Count {
    pub(crate) fn begin() -> Count {
        Count { before: total() }
    }

    /// Waits until `tasks` have run. Polls rarely: each poll takes the counters' cache lines from
    /// the workers.
    pub(crate) fn wait_for(&self, tasks: u64) -> Result<(), Failure> {
        let begin = Instant::now();
        while total() - self.before < tasks {
            let waited = begin.elapsed();
            if waited > PATIENCE {
                return self.check(tasks);
            }
            if waited < EAGER { thread::yield_now() } else { thread::sleep(Duration::from_micros(20)) }
        }
        Ok(())
    }

    /// Checks that exactly `tasks` have run.
    pub(crate) fn check(&self, tasks: u64) -> Result<(), Failure> {
        match total() - self.before {
            ran if ran == tasks => Ok(()),
            ran => Err(Failure::Wrong(format!("{ran} tasks ran of {tasks}"))),
        }
    }
}
