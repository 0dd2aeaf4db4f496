//! How to look for the other side before going to sleep.
//!
//! A sleep and a wake-up across cores cost as much as hundreds of items. If the other side runs on another core it comes
//! within less than a microsecond, and it is best to look for it. If it has to run on the same core, looking only keeps it
//! from coming, and it is best to let it run. If strangers want to run here too then they, not the other side, run first, and
//! may run for milliseconds: it is best to sleep until woken. None of this can be asked, but how it went the last times is a
//! good guess.

use std::time::{Duration, Instant};

use crate::sync::{AtomicUsize, Ordering};

/// What is remembered of the last times that somebody waited.
///
/// Relaxed, all of it, and some of what is written at the same time is lost: a wrong guess costs time and nothing else. In a
/// model looking again is a wait without end: there is no looking.
#[derive(Debug)]
pub(super) struct Habit {
    /// So many waits in a row ended when the core had been left to others: the other side runs here, on the same core.
    together: AtomicUsize,
    /// Strangers run here too. For so many waits more the core is not left to them.
    crowded: AtomicUsize,
    /// A sleeper was woken and will be here soon; else 0. Who waits next knows whom it waits for.
    expected: AtomicUsize,
}

/// So many looks, while the other side seems to run on another core: more than half a microsecond. It takes a third.
const LOOKS: usize = 32;
/// After so many waits in a row that ended when the core had been left to others, one look will do.
const FEW: usize = 4;
/// After so many of them one sleeps all the same. Who is woken may be given an idle core, and the next look is not in
/// vain; threads that only leave the core to each other stay on it, with an idle one beside.
const MANY: usize = 128;
/// So often the core is left to others: some fifteen microseconds, if nobody wants it.
const YIELDS: usize = 64;
/// To be woken on another core takes tens of microseconds. If one went to sleep meanwhile then both would sleep at each
/// meeting from then on, and be woken by the other.
const YIELDS_FOR_A_SLEEPER: usize = 4 * YIELDS;
/// Who gets the core back later than this has left it to strangers.
const LONG: Duration = Duration::from_micros(100);
/// A turn of a stranger takes milliseconds: as much as a thousand sleeps.
const CROWDED: usize = 1000;
/// To read the clock takes long enough that it is done at one of so many waits.
const WATCHED: usize = 4;

impl Habit {
    pub(super) fn new() -> Self {
        Habit { together: AtomicUsize::new(0), crowded: AtomicUsize::new(0), expected: AtomicUsize::new(0) }
    }

    pub(super) fn expect_somebody(&self) {
        self.expected.store(1, Ordering::Relaxed);
    }

    /// Looks until `served`, or until it is time to sleep. Who calls it looks again.
    pub(super) fn look_until(&self, served: impl Fn() -> bool) {
        if cfg!(loom) {
            return;
        }
        // 1. The other side runs on another core.
        let together = self.together.load(Ordering::Relaxed);
        for _ in 0..if together < FEW { LOOKS } else { 1 } {
            if served() {
                if together > 0 {
                    self.together.store(0, Ordering::Relaxed);
                }
                return;
            }
            std::hint::spin_loop();
        }
        // 2. Only sleep helps.
        let crowded = self.crowded.load(Ordering::Relaxed);
        if crowded > 0 || together >= MANY {
            self.crowded.store(crowded.saturating_sub(1), Ordering::Relaxed);
            self.together.store(FEW - 2, Ordering::Relaxed);
            return;
        }
        // 3. The other side runs on this core, or has yet to be woken.
        let mut yields = YIELDS;
        if self.expected.load(Ordering::Relaxed) != 0 {
            self.expected.store(0, Ordering::Relaxed);
            yields = YIELDS_FOR_A_SLEEPER;
        }
        self.leave_the_core(yields, together, served);
    }

    fn leave_the_core(&self, yields: usize, together: usize, served: impl Fn() -> bool) {
        let mut left = together.is_multiple_of(WATCHED).then(Instant::now);
        for _ in 0..yields {
            std::thread::yield_now();
            let come = served();
            if let Some(left) = &mut left {
                let back = Instant::now();
                if back - *left > LONG {
                    self.crowded.store(CROWDED, Ordering::Relaxed);
                    self.together.store(0, Ordering::Relaxed);
                    return;
                }
                *left = back;
            }
            if come {
                self.together.store(together + 1, Ordering::Relaxed);
                return;
            }
        }
    }
}
