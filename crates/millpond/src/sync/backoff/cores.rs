//! The test whether the process may use more than one core, repeated every few seconds.
//!
//! The affinity mask and the CPU quota of a process may change while it runs. All accesses are
//! Relaxed: an outdated answer only costs time.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Instant;

use crate::sync::OnceLock;

const UNKNOWN: u8 = 0;
const ONE: u8 = 1;
const SEVERAL: u8 = 2;

/// [`UNKNOWN`], [`ONE`] or [`SEVERAL`].
static CORES: AtomicU8 = AtomicU8::new(UNKNOWN);

/// Returns true if another thread can run while this one spins.
pub(super) fn has_other_core() -> bool {
    match CORES.load(Ordering::Relaxed) {
        UNKNOWN => {
            let several = ask_system();
            CORES.store(if several { SEVERAL } else { ONE }, Ordering::Relaxed);
            several
        }
        cores => cores == SEVERAL,
    }
}

/// Queries the system. This takes tens of microseconds, because it reads the files of the control
/// group.
fn ask_system() -> bool {
    std::thread::available_parallelism().is_ok_and(|cores| cores.get() > 1)
}

/// Queries the number of cores again if the last result is old. Called by a thread that is about to
/// park, so the delay does not matter.
pub(super) fn refresh_core_count(now: Instant) {
    static REFRESH: Refresh = Refresh::new();
    static START: OnceLock<Instant> = OnceLock::new();
    let second = now.saturating_duration_since(*START.get_or_init(|| now)).as_secs();
    if REFRESH.is_due(second) {
        let several = REFRESH.combine(second, ask_system());
        CORES.store(if several { SEVERAL } else { ONE }, Ordering::Relaxed);
    }
}

/// When the system was queried for the number of cores, in seconds.
#[derive(Debug)]
struct Refresh {
    asked: AtomicU64,
    /// When the result was last "more than one".
    several: AtomicU64,
}

impl Refresh {
    /// A result is valid for this many seconds.
    const GOOD_FOR: u64 = 3;
    /// The result applies to the calling thread, which may be pinned to one core. So "several"
    /// overrides results of "one" for this many seconds.
    const SEVERAL_FOR: u64 = 10;

    const fn new() -> Refresh {
        Refresh { asked: AtomicU64::new(0), several: AtomicU64::new(0) }
    }

    /// Returns true to one caller if the last result is too old.
    fn is_due(&self, second: u64) -> bool {
        let asked = self.asked.load(Ordering::Relaxed);
        second >= asked + Self::GOOD_FOR
            && self.asked.compare_exchange(asked, second, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Combines this result with the earlier ones.
    fn combine(&self, second: u64, several: bool) -> bool {
        if several {
            self.several.store(second, Ordering::Relaxed);
        }
        several || second < self.several.load(Ordering::Relaxed) + Self::SEVERAL_FOR
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_cores_is_asked_again_every_few_seconds() {
        let refresh = Refresh::new();
        let asked: Vec<u64> = (0..12).filter(|second| refresh.is_due(*second)).collect();
        assert_eq!(asked, [3, 6, 9]);
    }

    #[test]
    fn a_pinned_thread_does_not_speak_for_the_process() {
        let refresh = Refresh::new();
        let answers = [(3, true), (6, false), (12, false), (13, false), (15, true), (18, false)];
        let believed = answers.map(|(second, several)| refresh.combine(second, several));
        assert_eq!(believed, [true, true, true, false, true, true]);
    }
}
