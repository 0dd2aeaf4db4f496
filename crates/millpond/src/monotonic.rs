//! The system's monotonic clock, in nanoseconds.
//!
//! It is the clock that [`Instant`] reads. An `Instant` does not say what it counts, so that to make a number of it takes the
//! difference of two, in seconds and nanoseconds, with all checks: 6 to 15 ns, as much as to put a timer into its queue. Where
//! the system's own function is known it is asked itself, and elsewhere an `Instant`.
//!
//! This file is one of the rooms with `unsafe`; its outside is safe.

/// Nanoseconds since a time that is the same for all who ask, and before the first that asks. It never goes back.
#[inline]
pub(crate) fn nanos() -> u64 {
    system::nanos()
}

#[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
mod system {
    use std::ffi::{c_int, c_long};

    const CLOCK_MONOTONIC: c_int = 1;
    const NANOS: u64 = 1_000_000_000;

    /// As the system has it where a word has 64 bits.
    #[repr(C)]
    struct Timespec {
        seconds: i64,
        nanos: c_long,
    }

    unsafe extern "C" {
        fn clock_gettime(clock: c_int, time: *mut Timespec) -> c_int;
    }

    #[inline]
    pub(super) fn nanos() -> u64 {
        let mut time = Timespec { seconds: 0, nanos: 0 };
        // SAFETY: it is the system's function of this name, and writes to the place that it is given, which is ours.
        let failed = unsafe { clock_gettime(CLOCK_MONOTONIC, &raw mut time) } != 0;
        debug_assert!(!failed, "every Linux has this clock");
        // Neither is negative, and five centuries fit.
        time.seconds.unsigned_abs().wrapping_mul(NANOS).wrapping_add(time.nanos.unsigned_abs())
    }
}

#[cfg(not(all(target_os = "linux", target_pointer_width = "64", not(miri))))]
mod system {
    use std::sync::OnceLock;
    use std::time::Instant;

    pub(super) fn nanos() -> u64 {
        static BEGINNING: OnceLock<Instant> = OnceLock::new();
        u64::try_from(BEGINNING.get_or_init(Instant::now).elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::{Duration, Instant};

    use super::nanos;

    /// Between two looks at an `Instant` no more time passes by this clock than by that, and between two looks at this clock no
    /// more by that: so both run at the same speed.
    #[test]
    fn it_goes_as_an_instant_does() {
        let (outer, begin, inner) = (Instant::now(), nanos(), Instant::now());
        std::thread::sleep(Duration::from_millis(20));
        let within = inner.elapsed();
        let passed = Duration::from_nanos(nanos() - begin);
        assert!(within <= passed && passed <= outer.elapsed(), "{within:?}, {passed:?}");
    }

    #[test]
    fn it_does_not_go_back() {
        let mut last = nanos();
        for _ in 0..if cfg!(miri) { 100 } else { 10_000 } {
            let now = nanos();
            assert!(now >= last, "{now} after {last}");
            last = now;
        }
    }
}
