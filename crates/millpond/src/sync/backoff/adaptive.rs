//! Back-off at a rendezvous, which adapts to the outcome of the last waits.
//!
//! At a rendezvous nearly every operation waits for the other side. There are three cases:
//!
//! 1. The other side runs on another core. It arrives within 1 µs, and spinning is best.
//! 2. The other side must run on the same core. Spinning only delays it, and yielding is best.
//! 3. Unrelated threads need this core too. A yield lets them run first, for milliseconds, and
//!    parking is best.
//!
//! The system does not say which case applies, so the last waits serve as a prediction.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::cores::{has_other_core, refresh_core_count};
use super::{pause_until, yield_until};
use crate::sync::IN_MODEL;

/// The outcome of the last waits.
///
/// All accesses are Relaxed, and concurrent updates may be lost: a wrong prediction only costs
/// time.
#[derive(Debug, Default)]
pub(crate) struct AdaptiveBackoff {
    /// Number of waits in a row that ended after a yield (case 2).
    same_core: AtomicUsize,
    /// Number of next waits that do not yield, because case 3 was seen.
    crowded: AtomicUsize,
    /// 1 if a parked thread was woken and will arrive soon. The next wait is then longer.
    expects_woken: AtomicUsize,
}

/// Polls in case 1: about 1 µs. The other side needs a quarter of that.
const POLLS: usize = 8;
/// Pauses between two polls, because each poll takes the cache line from the other side.
const PAUSES: u32 = 8;
/// After this many waits of case 2 in a row, one poll is enough before yielding.
const FEW: usize = 4;
/// After this many waits of case 2 in a row, park once if there is another core. A woken thread may
/// be scheduled on an idle core, whereas threads that only yield to each other stay on one core.
const MANY: usize = 256;
/// Yields before parking: about 15 µs if no other thread wants the core.
const YIELDS: u32 = 64;
/// Yields while a woken thread is on its way, which takes tens of microseconds. If this side parked
/// meanwhile, both sides would park at every rendezvous from then on.
const YIELDS_FOR_WOKEN: u32 = 4 * YIELDS;
/// A longer yield may have let unrelated threads run.
const LONG: Duration = Duration::from_micros(100);
/// It did if fewer than one item per this time passed meanwhile.
const BUSY: Duration = Duration::from_micros(2);
/// Number of waits without a yield after case 3 was seen. The time slice of an unrelated thread
/// takes milliseconds, as long as a thousand parks.
const CROWDED: usize = 1000;
/// The clock is read in one of this many waits.
const TIMED: usize = 4;

impl AdaptiveBackoff {
    /// Called after a parked thread was woken. The next wait expects that thread to arrive.
    pub(crate) fn expect_woken(&self) {
        self.expects_woken.store(1, Ordering::Relaxed);
    }

    /// Polls `ready` until it returns true or it is time to park. The caller then checks the
    /// condition again. `passed` returns the number of items that have passed so far.
    #[inline]
    pub(crate) fn snooze(&self, ready: impl Fn() -> bool, passed: impl Fn() -> usize) {
        if IN_MODEL {
            return;
        }
        // Case 1.
        let same_core = self.same_core.load(Ordering::Relaxed);
        let polls = if same_core < FEW { POLLS } else { 1 };
        if ready() || pause_until(std::iter::repeat_n(PAUSES, polls - 1), &ready) {
            if same_core > 0 {
                self.same_core.store(0, Ordering::Relaxed);
            }
        } else if !self.parks_at_once(same_core) {
            self.yield_until(same_core, ready, passed);
        }
    }

    /// Returns true in case 3, and occasionally in case 2.
    fn parks_at_once(&self, same_core: usize) -> bool {
        let crowded = self.crowded.load(Ordering::Relaxed);
        if crowded > 0 {
            self.crowded.store(crowded - 1, Ordering::Relaxed);
            // Afterwards, the first yield is timed again.
            self.same_core.store(if crowded > 1 { FEW } else { 0 }, Ordering::Relaxed);
        } else if same_core >= MANY && has_other_core() {
            self.same_core.store(FEW - 2, Ordering::Relaxed);
        } else {
            return false;
        }
        true
    }

    /// Yields in case 2, or while the other side is being woken.
    fn yield_until(&self, same_core: usize, ready: impl Fn() -> bool, passed: impl Fn() -> usize) {
        let mut yields = YIELDS;
        if self.expects_woken.load(Ordering::Relaxed) != 0 {
            self.expects_woken.store(0, Ordering::Relaxed);
            yields = YIELDS_FOR_WOKEN;
        }
        let mut left = same_core.is_multiple_of(TIMED).then(|| (Instant::now(), passed()));
        yield_until(yields, || {
            let is_ready = ready();
            let crowded = left.as_mut().is_some_and(|left| self.was_crowded(left, passed()));
            if is_ready && !crowded {
                self.same_core.store(same_core + 1, Ordering::Relaxed);
            }
            is_ready || crowded
        });
    }

    /// Detects case 3 after a yield. `left` contains the time and the number of items before it.
    fn was_crowded(&self, left: &mut (Instant, usize), passed: usize) -> bool {
        let back = (Instant::now(), passed);
        let (away, passed) = (back.0 - left.0, back.1.wrapping_sub(left.1));
        let crowded = away > LONG && (passed as u128) < away.as_nanos() / BUSY.as_nanos();
        if crowded {
            self.crowded.store(CROWDED, Ordering::Relaxed);
            self.same_core.store(0, Ordering::Relaxed);
        }
        refresh_core_count(back.0); // on a single core, possibly no thread ever parks
        *left = back;
        crowded
    }
}
