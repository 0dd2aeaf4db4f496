//! Detects when a pool is at rest: nothing can happen without a new step or a long time.
//!
//! A worker is at rest in one of two places: at the closed gate of its task, which the driver's own
//! [`Gate`]s report, or in the pool's list of idle workers, which the pool reports. A worker in
//! neither place (starting, in a hook, between two tasks, woken but not yet running) makes the sum
//! smaller than the pool's size. A worker that is leaving may no longer count, but its thread has
//! not reported its end yet. So no sleep and no query of the operating system is needed, and a
//! loaded machine only makes it slower.
//!
//! [`Gate`]: crate::gate::Gate

use std::thread;
use std::time::{Duration, Instant};

use millpond::ThreadPoolExecutor;

use crate::PlayError;

/// The driver gives up after this time.
const LIMIT: Duration = Duration::from_secs(20);

/// State that the driver knows.
pub trait Witness {
    /// Workers at the closed gate of their task that nothing is about to wake.
    fn busy(&self) -> usize;
    /// Worker threads that have started and not yet decided to end.
    fn threads(&self) -> usize;
    /// Number of events so far.
    fn events(&self) -> u64;
}

/// One snapshot of the pool and the gates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Look {
    events: u64,
    busy: usize,
    threads: usize,
    active: usize,
    size: usize,
    idle: usize,
    idle_timed: usize,
    queued: usize,
    terminated: bool,
}

impl Look {
    fn at(pool: &ThreadPoolExecutor, witness: &impl Witness) -> Look {
        // Only the driver, which runs this code, opens gates and interrupts. So during a snapshot a
        // worker can arrive at a gate, but not leave one. Idle workers may come and expire; then
        // the sums or the two snapshots differ.
        let busy = witness.busy();
        let (active, size) = (pool.active_count(), pool.pool_size());
        let (queued, terminated) = (pool.queued_count(), pool.is_terminated());
        let parked = pool.parked_workers();
        Look {
            events: witness.events(),
            busy,
            threads: witness.threads(),
            active,
            size,
            idle: parked.all,
            idle_timed: parked.timed,
            queued,
            terminated,
        }
    }

    fn is_at_rest(&self, pool: &ThreadPoolExecutor, expiry_due: bool) -> bool {
        let waits = self.idle > 0;
        let shutdown = pool.is_shutdown();
        let may_expire = pool.allows_core_thread_time_out() || self.size > pool.core_pool_size();
        self.size == self.busy + self.idle
            && self.active == self.busy
            // An exiting worker is no longer counted, but may still find that it is needed.
            && self.threads == self.size
            && !(waits && self.queued > 0)
            && !(shutdown && waits)
            && !(shutdown && self.size == 0 && !self.terminated)
            && !(waits && self.size > pool.maximum_pool_size())
            && !(expiry_due && (self.idle_timed > 0 || (waits && may_expire)))
    }
}

/// Waits until `pool` is at rest in two consecutive snapshots without an event in between.
///
/// # Errors
/// If that takes longer than 20 seconds. The message contains the last snapshot.
pub fn settle(pool: &ThreadPoolExecutor, witness: &impl Witness, expiry_due: bool) -> Result<(), PlayError> {
    let begun = Instant::now();
    let mut pause = Duration::from_micros(20);
    let mut before = None;
    loop {
        let look = Look::at(pool, witness);
        if !look.is_at_rest(pool, expiry_due) {
            if begun.elapsed() > LIMIT {
                return Err(PlayError::Failed(format!("the pool does not come to rest: {look:?}")));
            }
            before = None;
            thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_micros(200));
        } else if before == Some(look) {
            return Ok(());
        } else {
            before = Some(look);
        }
    }
}
