//! [`Word`]: an epoch and its interrupt flag in one word.

/// A snapshot of `ThreadContext::word`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Word(u64);

impl Word {
    /// Bit 0 is the interrupt flag. The other bits are the epoch that the flag belongs to.
    pub(super) const FLAG: u64 = 1;
    /// An epoch that never begins.
    pub(super) const NEVER: u64 = u64::MAX >> 1;

    pub(super) fn new(epoch: u64, flag: bool) -> Word {
        Word(epoch << 1 | u64::from(flag))
    }

    #[inline]
    pub(super) fn from_bits(bits: u64) -> Word {
        Word(bits)
    }

    #[inline]
    pub(super) fn to_bits(self) -> u64 {
        self.0
    }

    #[inline]
    pub(super) fn epoch(self) -> u64 {
        self.0 >> 1
    }

    #[inline]
    pub(super) fn flag(self) -> bool {
        self.0 & Word::FLAG != 0
    }
}
