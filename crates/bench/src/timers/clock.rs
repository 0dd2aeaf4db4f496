//! What the library's timer queues need of the library's clock, so that their files can be included as they are.

/// A moment: nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tick(u64);

impl Tick {
    pub(crate) const NEVER: Tick = Tick(u64::MAX);

    pub(crate) fn from_nanos(nanos: u64) -> Tick {
        Tick(nanos)
    }

    pub(crate) fn nanos(self) -> u64 {
        self.0
    }
}
