//! The distance between two cores: the time that a cache line takes from one to the other.
//!
//! The costs that threads impose on each other are a multiple of it. On a virtual machine it may
//! change at any moment, when the host moves one of the two cores.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Round trips of a cache line per try. The fastest try counts: the others were disturbed, or both
/// threads were still on one core.
const TRIPS: u32 = 200;
const TRIES: u32 = 12;
/// A longer trip, in nanoseconds, is a context switch on one core.
const ONE_CORE: f64 = 2000.0;
/// The time limit for two threads on one core.
const PATIENCE: Duration = Duration::from_millis(20);

/// Nanoseconds, one way. `None` if there is only one core, or both threads stayed on the same one.
pub fn nanos() -> Option<f64> {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return None;
    }
    let line = Line(AtomicU32::new(0));
    let deadline = Instant::now() + PATIENCE;
    let fastest = std::thread::scope(|s| {
        s.spawn(|| {
            for answer in 0..TRIES * TRIPS {
                if !line.pass(2 * answer + 1, deadline) {
                    return;
                }
            }
        });
        let tries = (0..TRIES).map_while(|try_| {
            let begin = Instant::now();
            let (from, to) = (try_ * TRIPS, (try_ + 1) * TRIPS);
            (from..to).all(|call| line.pass(2 * call, deadline)).then(|| begin.elapsed())
        });
        tries.min()
    })?;
    let nanos = fastest.as_nanos() as f64 / f64::from(2 * TRIPS);
    (nanos < ONE_CORE).then_some(nanos)
}

#[repr(align(128))]
struct Line(AtomicU32);

impl Line {
    /// Waits for its turn and passes the turn on. Returns false if the turn did not come in time.
    fn pass(&self, turn: u32, deadline: Instant) -> bool {
        for look in 1u32.. {
            if self.0.load(Ordering::Acquire) == turn {
                break;
            }
            if look.is_multiple_of(1000) {
                if Instant::now() > deadline {
                    return false;
                }
                std::thread::yield_now();
            }
            spin_loop();
        }
        self.0.store(turn + 1, Ordering::Release);
        true
    }
}
