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
    /// To read the clock takes time, so it is done at one of so many waits.
    watched: usize,
    /// A core that was away for long was left to others who come here, and not to strangers, if an item passed in so much
    /// time: some times as much as an item takes where there are no strangers.
    busy: Duration,
}

/// So many looks, while the other side seems to run on another core: about a microsecond. It takes a quarter.
const LOOKS: usize = 8;
/// So many pauses between two looks. Each look takes the cache line from the other side, which is about to write it.
const PAUSES: usize = 8;
/// After so many waits in a row that ended when the core had been left to others, one look will do.
const FEW: usize = 4;
/// After so many of them one sleeps all the same. Who is woken may be given an idle core, and the next look is not in
/// vain; threads that only leave the core to each other stay on it, with an idle one beside.
const MANY: usize = 256;
/// So often the core is left to others: some fifteen microseconds, if nobody wants it.
const YIELDS: usize = 64;
/// To be woken on another core takes tens of microseconds. If one went to sleep meanwhile then both would sleep at each
/// meeting from then on, and be woken by the other.
const YIELDS_FOR_A_SLEEPER: usize = 4 * YIELDS;
/// Who gets the core back later than this has left it to strangers; or to others who come here and find all they want.
const LONG: Duration = Duration::from_micros(100);
/// A turn of a stranger takes milliseconds: as much as a thousand sleeps.
const CROWDED: usize = 1000;

impl Habit {
    /// For who waits at nearly every item.
    pub(super) fn of_many_waits() -> Self {
        let none = || AtomicUsize::new(0);
        Habit {
            together: none(),
            crowded: none(),
            expected: none(),
            watched: 4,
            busy: Duration::from_micros(2),
        }
    }

    /// For who waits once in a while.
    pub(super) fn of_few_waits() -> Self {
        Habit { watched: 1, busy: Duration::from_nanos(200), ..Self::of_many_waits() }
    }

    pub(super) fn expect_somebody(&self) {
        self.expected.store(1, Ordering::Relaxed);
    }

    /// Looks until `served`, or until it is time to sleep. Who calls it looks again. `passed` tells how many items have passed.
    #[inline]
    pub(super) fn look_until(&self, served: impl Fn() -> bool, passed: impl Fn() -> usize) {
        if cfg!(loom) {
            return;
        }
        // 1. The other side runs on another core.
        let together = self.together.load(Ordering::Relaxed);
        let looks = if together < FEW { LOOKS } else { 1 };
        for look in 1..=looks {
            if served() {
                if together > 0 {
                    self.together.store(0, Ordering::Relaxed);
                }
                return;
            }
            if look < looks {
                (0..PAUSES).for_each(|_| std::hint::spin_loop());
            }
        }
        // 2. Only sleep helps.
        let crowded = self.crowded.load(Ordering::Relaxed);
        if crowded > 0 {
            self.crowded.store(crowded - 1, Ordering::Relaxed);
            // Who leaves the core next is watched again.
            self.together.store(if crowded > 1 { FEW } else { 0 }, Ordering::Relaxed);
            return;
        }
        if together >= MANY {
            self.together.store(FEW - 2, Ordering::Relaxed);
            return;
        }
        // 3. The other side runs on this core, or has yet to be woken.
        let mut yields = YIELDS;
        if self.expected.load(Ordering::Relaxed) != 0 {
            self.expected.store(0, Ordering::Relaxed);
            yields = YIELDS_FOR_A_SLEEPER;
        }
        let mut left = together.is_multiple_of(self.watched).then(|| (Instant::now(), passed()));
        for _ in 0..yields {
            std::thread::yield_now();
            let come = served();
            if let Some(left) = &mut left
                && self.was_crowded(left, passed())
            {
                return;
            }
            if come {
                self.together.store(together + 1, Ordering::Relaxed);
                return;
            }
        }
    }

    /// The core was left when `left` tells, with how many items passed, and is back: notes if it was left to strangers.
    fn was_crowded(&self, left: &mut (Instant, usize), passed: usize) -> bool {
        let back = (Instant::now(), passed);
        let (away, passed) = (back.0 - left.0, back.1.wrapping_sub(left.1));
        let crowded = away > LONG && (passed as u128) < away.as_nanos() / self.busy.as_nanos();
        if crowded {
            self.crowded.store(CROWDED, Ordering::Relaxed);
            self.together.store(0, Ordering::Relaxed);
        }
        *left = back;
        crowded
    }
}
