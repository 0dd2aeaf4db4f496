//! Memory per pending timer, counted in the allocator.
//!
//! A counting allocator sees the whole process, so each test runs in its own process.
use std::time::Duration;

use crate::counting::live_bytes;
use crate::support::in_a_process_of_its_own;
use millpond::executors;
use millpond::schedulers::{self, Scheduler, SchedulerExt};

/// Bytes per timer with a closure of two words, for `timers` calls of `insert`. Excludes the vector
/// of handles.
fn bytes_per_timer<H>(timers: usize, mut insert: impl FnMut(Duration) -> H) -> f64 {
    let mut handles = Vec::with_capacity(timers);
    drop(insert(Duration::from_secs(3600))); // one-time allocations, such as threads
    let before = live_bytes();
    for n in 0..timers {
        // From one to two hours, in no order.
        let millis = n.wrapping_mul(2_654_435_761) % 3_600_000;
        handles.push(insert(Duration::from_secs(3600) + Duration::from_millis(millis as u64)));
    }
    let bytes = live_bytes() - before;
    bytes as f64 / timers as f64
}

/// The largest number of bytes per timer.
///
/// - 96 for the slot of the slab, whose size is exact for a closure of two words.
/// - 36 for the entry of the wheel: 32, and an eighth more, because that is how a large bucket grows.
///   The timers are in about 15 buckets, so all buckets are large.
/// - 2 for tables. The slab has 24 bytes per block of 64 slots in a vector that doubles, and one
///   block that is partly used. This is below 1 byte per timer, and the rest does not depend on the
///   number of timers.
const MOST: f64 = 134.0;

/// Numbers of timers for which a doubling vector is nearly full, half full, and in between.
const MANY: [usize; 3] = [130_000, 135_000, 200_000];

#[test]
fn a_timer_of_a_scheduled_pool_takes_at_most_134_bytes() {
    in_a_process_of_its_own("timer_bytes::a_timer_of_a_scheduled_pool_takes_at_most_134_bytes", || {
        for timers in MANY {
            let pool = executors::scheduled(2);
            let bytes = bytes_per_timer(timers, |delay| {
                let words = (timers, delay.as_millis() as usize);
                pool.schedule(delay, move || assert!(words.0 < words.1)).unwrap()
            });
            println!("{timers} timers of a scheduled pool: {bytes:.1} bytes each");
            assert!(bytes <= MOST, "{bytes:.1} bytes for each of {timers} timers");
            pool.shutdown_now();
            pool.close();
        }
    });
}

#[test]
fn a_timer_of_the_parallel_scheduler_takes_at_most_134_bytes() {
    in_a_process_of_its_own("timer_bytes::a_timer_of_the_parallel_scheduler_takes_at_most_134_bytes", || {
        for timers in MANY {
            let scheduler = schedulers::parallel();
            let bytes = bytes_per_timer(timers, |delay| {
                let words = (timers, delay.as_millis() as usize);
                scheduler.schedule_after(delay, move || assert!(words.0 < words.1)).unwrap()
            });
            println!("{timers} timers of the parallel scheduler: {bytes:.1} bytes each");
            assert!(bytes <= MOST, "{bytes:.1} bytes for each of {timers} timers");
            scheduler.dispose();
            schedulers::shutdown_now();
        }
    });
}
