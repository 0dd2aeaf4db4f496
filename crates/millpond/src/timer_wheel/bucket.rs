//! A bucket of the wheel: entries in no order, the holes between them, and the dead.
//!
//! It gives each entry its place, in memory of its own, and says which of them are dead: a bit for each, so that to cancel one
//! of many does not touch it. Why that pays is told in the file above this one.

use super::{LEVEL_BITS, LEVELS, Placed};
use crate::clock::Tick;

/// A bucket with fewer entries is opened when its first one is due, a larger one before.
const MANY: usize = if cfg!(test) { 32 } else { 1024 };
/// To open a bucket takes no more than so long for each entry, in nanoseconds, unless the machine has other work.
const OPENING: u64 = if cfg!(test) { 1 << 16 } else { 128 };
/// A bucket with fewer holes than that is not worth squeezing.
pub(super) const FEW: usize = 16;

/// Set in the place of an entry in a bucket, which says which wheel, which bucket and where in it. The place of a near one is
/// its key, in which this bit is never set.
pub(super) const FAR: u64 = 1 << 63;
const AT_BITS: u32 = 32;
const BUCKET_BITS: u32 = (LEVELS << LEVEL_BITS).next_power_of_two().ilog2();

/// The part of a place that says which wheel.
pub(super) const fn mark_of(wheel: u64) -> u64 {
    FAR | (wheel << (AT_BITS + BUCKET_BITS) & !FAR)
}

pub(super) fn has_mark(place: u64, mark: u64) -> bool {
    place >> (AT_BITS + BUCKET_BITS) == mark >> (AT_BITS + BUCKET_BITS)
}

/// Which bucket, and where in it.
#[expect(clippy::cast_possible_truncation, reason = "the two halves")]
pub(super) fn far(place: u64) -> (usize, usize) {
    ((place >> AT_BITS) as usize & ((1 << BUCKET_BITS) - 1), place as u32 as usize)
}

#[derive(Debug)]
pub(super) struct Entry<T> {
    pub(super) due: Tick,
    pub(super) number: u64,
    pub(super) item: T,
}

#[derive(Debug)]
pub(super) struct Bucket<T> {
    /// Entries in no order, and holes.
    pub(super) entries: Vec<Option<Entry<T>>>,
    /// So many are alive: neither holes nor dead.
    pub(super) len: usize,
    pub(super) dead: Dead,
    /// None of them is due before that.
    pub(super) earliest: Tick,
}

impl<T> Bucket<T> {
    pub(super) const EMPTY: Self =
        Bucket { entries: Vec::new(), len: 0, dead: Dead::NONE, earliest: Tick::NEVER };

    /// The entry there, if it is alive.
    pub(super) fn living(&mut self, at: usize) -> Option<&mut Option<Entry<T>>> {
        if self.dead.has(at) { None } else { self.entries.get_mut(at) }
    }

    /// When it is time to begin with the opening. It changes only when the number of entries has doubled: whoever sleeps
    /// until then is not to be woken for every entry that comes.
    pub(super) fn open_by(&self) -> Tick {
        if self.len < MANY {
            return self.earliest;
        }
        let time = OPENING * self.len.next_power_of_two() as u64;
        Tick::from_nanos(self.earliest.nanos().saturating_sub(time))
    }
}

/// Which entries of a bucket are dead.
#[derive(Debug)]
pub(super) struct Dead {
    /// Bit n of word m is entry 64 * m + n. As many words as were needed.
    pub(super) words: Vec<u64>,
    pub(super) len: usize,
}

impl Dead {
    pub(super) const NONE: Dead = Dead { words: Vec::new(), len: 0 };

    #[inline]
    pub(super) fn has(&self, at: usize) -> bool {
        self.words.get(at / 64).is_some_and(|word| word >> (at % 64) & 1 == 1)
    }

    /// `entries`: how many there are in the bucket.
    #[inline]
    pub(super) fn add(&mut self, at: usize, entries: usize) {
        if at / 64 >= self.words.len() {
            self.words.resize(entries.div_ceil(64), 0);
        }
        self.words[at / 64] |= 1 << (at % 64);
        self.len += 1;
    }

    /// True if it was dead.
    pub(super) fn remove(&mut self, at: usize) -> bool {
        let is_dead = self.has(at);
        if is_dead {
            self.words[at / 64] &= !(1 << (at % 64));
            self.len -= 1;
        }
        is_dead
    }

    /// Takes all of a word out, and tells how many were there.
    pub(super) fn take_word(&mut self, word: usize, mut take: impl FnMut(usize)) -> usize {
        let mut bits = self.words.get_mut(word).map_or(0, std::mem::take);
        let taken = bits.count_ones() as usize;
        self.len -= taken;
        while bits != 0 {
            take(word * 64 + bits.trailing_zeros() as usize);
            bits &= bits - 1;
        }
        taken
    }
}

impl<T: Placed> Bucket<T> {
    #[inline]
    pub(super) fn push(&mut self, mark: u64, number: usize, entry: Entry<T>) {
        entry.item.moved_to(place_in(mark, number, self.entries.len()));
        self.earliest = self.earliest.min(entry.due);
        self.len += 1;
        self.entries.push(Some(entry));
    }

    #[inline]
    pub(super) fn squeeze_if_worth(&mut self, mark: u64, number: usize) {
        if self.len + self.dead.len + FEW < self.entries.len() / 4 {
            self.squeeze(mark, number);
        }
    }

    /// Moves the entries together.
    #[cold]
    fn squeeze(&mut self, mark: u64, number: usize) {
        let dead = std::mem::replace(&mut self.dead, Dead::NONE);
        let left = self.len + dead.len;
        let (mut from, mut at) = (0, 0);
        self.entries.retain(|entry| {
            if let Some(entry) = entry {
                if dead.has(from) {
                    self.dead.add(at, left);
                } else {
                    entry.item.moved_to(place_in(mark, number, at));
                }
                at += 1;
            }
            from += 1;
            entry.is_some()
        });
        self.entries.shrink_to(2 * left);
    }
}

pub(super) fn place_in(mark: u64, bucket: usize, at: usize) -> u64 {
    let at = u32::try_from(at).expect("four thousand million entries do not fit into memory");
    mark | (bucket as u64) << AT_BITS | u64::from(at)
}
