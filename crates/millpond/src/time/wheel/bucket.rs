//! A bucket of the timer wheel: unordered entries, with tombstones between them.
//!
//! A bit for each position marks the tombstones, so a cancel does not access the entry. The parent
//! module explains why.
//!
//! Invariant 1. A position whose bit is set in `tombstones` is a tombstone: it is empty, or its
//! item belongs to a canceller and must not be touched. The number of other positions is `len`.

use std::mem::ManuallyDrop;
use std::num::NonZeroU64;

use super::{LEVEL_BITS, LEVELS, Placed, STEP};
use crate::time::clock::Tick;

/// Number of entries from which a bucket is opened before its first entry is due.
const MANY: usize = if cfg!(test) { 32 } else { 1024 };
/// Upper bound of the time to open a bucket on an idle machine, in nanoseconds per entry.
const OPENING: u64 = if cfg!(test) { 1 << 16 } else { 128 };
/// A bucket with fewer tombstones is not compacted.
pub(super) const FEW: usize = 16;

/// Set in the place of an entry in a bucket. Such a place identifies the wheel, the bucket and the
/// position. The place of a near entry is its key, in which this bit is never set.
pub(super) const FAR: u64 = 1 << 63;
const AT_BITS: u32 = 32;
const BUCKET_BITS: u32 = (LEVELS << LEVEL_BITS).next_power_of_two().ilog2();
const WHEEL_BITS: u32 = u64::BITS - 1 - AT_BITS - BUCKET_BITS;
/// The number shared by all wheels without their own number. Differs from the wheel's part of
/// [`NOWHERE`](super::NOWHERE).
const ANY_WHEEL: u64 = (1 << WHEEL_BITS) - 2;

/// The part of a place that identifies the wheel.
pub(super) const fn mark_of(wheel: u64) -> u64 {
    FAR | (if wheel < ANY_WHEEL { wheel } else { ANY_WHEEL }) << (AT_BITS + BUCKET_BITS)
}

/// Returns the same place in a form that allows `remove`, which checks the item, but not `forget`.
pub(crate) fn to_be_looked_at(place: u64) -> u64 {
    let is_far = place & FAR != 0 && place != super::NOWHERE;
    if is_far { mark_of(ANY_WHEEL) | place & ((1 << (AT_BITS + BUCKET_BITS)) - 1) } else { place }
}

/// Returns true if `place` is in the wheel with this mark, and no other wheel has the mark.
pub(super) fn has_mark(place: u64, mark: u64) -> bool {
    mark != mark_of(ANY_WHEEL) && place >> (AT_BITS + BUCKET_BITS) == mark >> (AT_BITS + BUCKET_BITS)
}

/// Returns the bucket of a place, and the position in the bucket.
#[expect(clippy::cast_possible_truncation, reason = "the two halves")]
pub(super) fn far(place: u64) -> (usize, usize) {
    ((place >> AT_BITS) as usize & ((1 << BUCKET_BITS) - 1), place as u32 as usize)
}

#[derive(Debug)]
pub(super) struct Entry<T> {
    due: Tick,
    /// The number plus one. A non-zero field makes `Option<Entry>` as small as `Entry`.
    number: NonZeroU64,
    /// Not dropped with the entry, because the entry may be forgotten. `into_parts` returns the
    /// item.
    item: ManuallyDrop<T>,
}

impl<T> Entry<T> {
    #[inline]
    pub(super) fn new(due: Tick, number: u64, item: T) -> Self {
        let number = NonZeroU64::MIN.saturating_add(number);
        Entry { due, number, item: ManuallyDrop::new(item) }
    }

    pub(super) fn due(&self) -> Tick {
        self.due
    }

    pub(super) fn number(&self) -> u64 {
        self.number.get() - 1
    }

    pub(super) fn item(&self) -> &T {
        &self.item
    }

    #[inline]
    pub(super) fn into_parts(self) -> (Tick, u64, T) {
        (self.due, self.number(), ManuallyDrop::into_inner(self.item))
    }
}

#[derive(Debug)]
pub(super) struct Bucket<T> {
    /// Entries and tombstones. Invariant 1.
    entries: Vec<Option<Entry<T>>>,
    /// The number of entries.
    len: usize,
    /// The positions of tombstones.
    tombstones: Bits,
    /// No entry is due before this time.
    earliest: Tick,
    /// The position where the next search for a tombstone begins.
    searched: usize,
}

impl<T> Bucket<T> {
    pub(super) const EMPTY: Self =
        Bucket { entries: Vec::new(), len: 0, tombstones: Bits::NONE, earliest: Tick::NEVER, searched: 0 };

    /// Returns the number of entries.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns the number of positions, including tombstones.
    pub(super) fn places(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn capacity(&self) -> usize {
        self.entries.capacity()
    }

    /// Returns a time before which no entry is due.
    pub(super) fn earliest(&self) -> Tick {
        self.earliest
    }

    /// Uses `memory` if the bucket has none.
    pub(super) fn use_memory(&mut self, memory: impl FnOnce() -> Vec<Option<Entry<T>>>) {
        if self.entries.capacity() == 0 {
            self.entries = memory();
        }
    }

    /// Returns the memory of an empty bucket.
    pub(super) fn into_memory(mut self) -> Vec<Option<Entry<T>>> {
        debug_assert_eq!(self.len, 0);
        let mut memory = std::mem::take(&mut self.entries);
        memory.clear();
        memory
    }

    /// Returns the entry at a position.
    pub(super) fn get(&self, at: usize) -> Option<&Entry<T>> {
        if self.tombstones.has(at) { None } else { self.entries.get(at)?.as_ref() }
    }

    #[cfg(all(test, not(loom)))]
    pub(super) fn has_forgotten(&self) -> bool {
        self.entries.iter().enumerate().any(|(at, entry)| entry.is_some() && self.tombstones.has(at))
    }

    /// Returns all entries.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry<T>> {
        (0..self.entries.len()).filter_map(|at| self.get(at))
    }

    /// Removes the entry at a position, if `is_it` recognises its item.
    pub(super) fn take_if(&mut self, at: usize, is_it: impl FnOnce(&T) -> bool) -> Option<Entry<T>> {
        if self.tombstones.has(at) {
            return None;
        }
        let entry = self.entries.get_mut(at)?.take_if(|entry| is_it(&entry.item))?;
        self.tombstones.add(at, self.entries.len());
        self.len -= 1;
        Some(entry)
    }

    /// Puts an entry back to its old position.
    pub(super) fn put_back(&mut self, at: usize, entry: Entry<T>) {
        self.entries[at] = Some(entry);
        self.tombstones.remove(at);
        self.len += 1;
    }

    /// Removes the last position. Returns its entry, or `Some(None)` for a tombstone.
    pub(super) fn pop(&mut self) -> Option<Option<Entry<T>>> {
        let last = self.entries.pop()?;
        if self.tombstones.remove(self.entries.len()) {
            return Some(None);
        }
        self.len -= 1;
        Some(last)
    }

    /// Forgets the entry at a position, whose item then belongs to the caller. Returns false if
    /// there is none.
    #[inline]
    pub(super) fn forget(&mut self, at: usize) -> bool {
        let was_there = at < self.entries.len() && self.tombstones.add(at, self.entries.len());
        self.len -= usize::from(was_there);
        was_there
    }

    /// Returns when to begin the opening. Changes only when the number of entries has doubled, so a
    /// waiting thread is not woken for every new entry.
    pub(super) fn open_by(&self) -> Tick {
        if self.len < MANY {
            return self.earliest;
        }
        let time = OPENING * self.len.next_power_of_two() as u64;
        Tick::from_nanos(self.earliest.nanos().saturating_sub(time))
    }
}

impl<T> Drop for Bucket<T> {
    fn drop(&mut self) {
        let mut places = 0..self.entries.len();
        while self.len > 0 {
            let entry = places.next().and_then(|at| self.take_if(at, |_| true));
            drop(entry.map(Entry::into_parts));
        }
    }
}

/// A set of positions.
#[derive(Debug)]
struct Bits {
    /// Bit n is position n. Most buckets need no further words, and so no allocation.
    first: u64,
    /// Bit n of word m is position 64 * (m + 1) + n. Grows as needed.
    more: Vec<u64>,
}

impl Bits {
    const NONE: Bits = Bits { first: 0, more: Vec::new() };

    #[inline]
    fn word(&self, at: usize) -> u64 {
        if at < 64 { self.first } else { self.more.get(at / 64 - 1).copied().unwrap_or(0) }
    }

    #[inline]
    fn has(&self, at: usize) -> bool {
        self.word(at) >> (at % 64) & 1 == 1
    }

    /// Adds a position. Returns true if it is new. `places` is the number of positions in the
    /// bucket.
    #[inline]
    fn add(&mut self, at: usize, places: usize) -> bool {
        let word = if at < 64 { &mut self.first } else { self.word_of_more(at, places) };
        let bit = 1 << (at % 64);
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    #[inline]
    fn word_of_more(&mut self, at: usize, places: usize) -> &mut u64 {
        let at = at / 64 - 1;
        if at >= self.more.len() {
            self.more.resize(places.div_ceil(64) - 1, 0);
        }
        &mut self.more[at]
    }

    /// Returns one more than the last of the first `places` positions that is not in the set. Zero
    /// if all are in the set.
    fn end_of_others(&self, places: usize) -> usize {
        let mut end = places;
        while end > 0 {
            let begin = (end - 1) / 64 * 64;
            let others = !self.word(begin) & u64::MAX >> (64 - (end - begin));
            if others != 0 {
                return begin + 64 - others.leading_zeros() as usize;
            }
            end = begin;
        }
        0
    }

    /// Returns the first position of the set from `begin` on and before `end`.
    fn first(&self, begin: usize, end: usize) -> Option<usize> {
        let mut from = begin;
        while from < end {
            let word = self.word(from) >> (from % 64);
            if word != 0 {
                return Some(from + word.trailing_zeros() as usize).filter(|at| *at < end);
            }
            from = (from / 64 + 1) * 64;
        }
        None
    }

    /// Removes all positions from `places` on.
    fn cut(&mut self, places: usize) {
        let kept = (1 << (places % 64)) - 1;
        if places < 64 {
            self.first &= kept;
        } else if let Some(last) = self.more.get_mut(places / 64 - 1) {
            *last &= kept;
        }
        self.more.truncate(places / 64);
    }

    /// Removes a position. Returns true if it was in the set.
    fn remove(&mut self, at: usize) -> bool {
        let was_there = self.has(at);
        if was_there {
            let word = if at < 64 { &mut self.first } else { &mut self.more[at / 64 - 1] };
            *word &= !(1 << (at % 64));
        }
        was_there
    }
}

impl<T: Placed> Bucket<T> {
    #[inline]
    pub(super) fn push(&mut self, mark: u64, number: usize, entry: Entry<T>) {
        entry.item.moved_to(place_in(mark, number, self.entries.len()));
        self.earliest = self.earliest.min(entry.due);
        self.len += 1;
        if self.entries.len() == self.entries.capacity() {
            self.grow();
        }
        self.entries.push(Some(entry));
    }

    /// Doubles a small bucket, and grows a large one by an eighth, because doubling leaves up to
    /// half of the memory unused. Allocators move large blocks without copying.
    #[cold]
    fn grow(&mut self) {
        const SMALL: usize = 256;
        let places = self.entries.len();
        self.entries.reserve_exact(if places < SMALL { places.max(4) } else { places / 8 });
    }

    #[inline]
    pub(super) fn has_many_tombstones(&self) -> bool {
        self.len + FEW < self.entries.len() / 4
    }

    /// Moves some entries from the end into tombstones, and frees memory.
    #[cold]
    pub(super) fn compact_some(&mut self, mark: u64, number: usize) {
        for _ in 0..STEP / 8 {
            self.drop_tombstones_at_the_end();
            let Some(tombstone) = self.next_tombstone() else { break };
            let Some(last) = self.pop().flatten() else { break };
            last.item.moved_to(place_in(mark, number, tombstone));
            self.put_back(tombstone, last);
        }
        self.drop_tombstones_at_the_end();
        let places = self.entries.len();
        if places + FEW < self.entries.capacity() / 2 {
            self.entries.shrink_to(places + places / 2);
            self.tombstones.more.shrink_to_fit();
        }
    }

    fn drop_tombstones_at_the_end(&mut self) {
        let places = self.tombstones.end_of_others(self.entries.len());
        self.entries.truncate(places);
        self.tombstones.cut(places);
    }

    /// Finds a tombstone in a bounded search, which continues where the previous search ended.
    fn next_tombstone(&mut self) -> Option<usize> {
        let begin = if self.searched < self.entries.len() { self.searched } else { 0 };
        let end = self.entries.len().min(begin + 64 * STEP);
        let tombstone = self.tombstones.first(begin, end);
        self.searched = tombstone.map_or(end, |tombstone| tombstone + 1);
        tombstone
    }
}

pub(super) fn place_in(mark: u64, bucket: usize, at: usize) -> u64 {
    let at = u32::try_from(at).expect("four thousand million entries do not fit into memory");
    mark | (bucket as u64) << AT_BITS | u64::from(at)
}
