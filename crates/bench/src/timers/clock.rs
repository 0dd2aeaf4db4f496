//! What the library's timer queue needs of the library's clock, so that its file can be included as it is.

/// A moment: nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tick(u64);

impl Tick {
    pub(crate) fn from_nanos(nanos: u64) -> Tick {
        Tick(nanos)
    }

    pub(crate) fn nanos(self) -> u64 {
        self.0
    }
}
