//! [`Tick`]: a point in time as one word.

use std::time::Duration;

/// A point in time of a clock: nanoseconds since the clock's origin. Saturates at [`Tick::NEVER`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tick(u64);

impl Tick {
    pub(crate) const ORIGIN: Tick = Tick(0);
    /// Five centuries after the origin.
    pub(crate) const NEVER: Tick = Tick(u64::MAX);

    #[inline]
    pub(crate) fn plus(self, duration: Duration) -> Tick {
        // 64-bit arithmetic: the 128 bits of `as_nanos` take longer than the rest of an insert.
        let nanos = duration.as_secs().saturating_mul(1_000_000_000);
        let nanos = nanos.saturating_add(u64::from(duration.subsec_nanos()));
        Tick(self.0.saturating_add(nanos))
    }

    /// Returns the time from `now` until this tick: zero if it has passed, `Duration::MAX` for
    /// `NEVER`.
    pub(crate) fn since(self, now: Tick) -> Duration {
        if self == Tick::NEVER { Duration::MAX } else { Duration::from_nanos(self.0.saturating_sub(now.0)) }
    }

    pub(crate) fn nanos(self) -> u64 {
        self.0
    }

    pub(crate) fn from_nanos(nanos: u64) -> Tick {
        Tick(nanos)
    }
}
