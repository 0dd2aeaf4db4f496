//! A bucket of the wheel: entries in no order, and the holes between them.
//!
//! It gives each entry its place, in memory of its own, and says by a bit for each which are holes, so that to cancel one of many
//! does not touch it. Why that pays is told in the file above this one.

use std::mem::ManuallyDrop;
use std::num::NonZeroU64;

use super::{LEVEL_BITS, LEVELS, Placed, STEP};
use crate::time::clock::Tick;

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
const WHEEL_BITS: u32 = u64::BITS - 1 - AT_BITS - BUCKET_BITS;
/// Of all wheels without a number of their own, and of no place that is [`NOWHERE`](super::NOWHERE).
const ANY_WHEEL: u64 = (1 << WHEEL_BITS) - 2;

/// The part of a place that says which wheel. The first four million have one of their own.
pub(super) const fn mark_of(wheel: u64) -> u64 {
    FAR | (if wheel < ANY_WHEEL { wheel } else { ANY_WHEEL }) << (AT_BITS + BUCKET_BITS)
}

/// A place by which an item can be removed, after a look at it, but not forgotten.
pub(crate) fn to_be_looked_at(place: u64) -> u64 {
    let is_far = place & FAR != 0 && place != super::NOWHERE;
    if is_far { mark_of(ANY_WHEEL) | place & ((1 << (AT_BITS + BUCKET_BITS)) - 1) } else { place }
}

/// The place is one in the wheel with this mark, which no other wheel has.
pub(super) fn has_mark(place: u64, mark: u64) -> bool {
    mark != mark_of(ANY_WHEEL) && place >> (AT_BITS + BUCKET_BITS) == mark >> (AT_BITS + BUCKET_BITS)
}

/// Which bucket, and where in it.
#[expect(clippy::cast_possible_truncation, reason = "the two halves")]
pub(super) fn far(place: u64) -> (usize, usize) {
    ((place >> AT_BITS) as usize & ((1 << BUCKET_BITS) - 1), place as u32 as usize)
}

#[derive(Debug)]
pub(super) struct Entry<T> {
    pub(super) due: Tick,
    /// One more than the number: an entry that is not zero leaves room for "none" in its place.
    number: NonZeroU64,
    /// Not dropped with the entry, for it may be forgotten: who takes an entry out takes the item too.
    item: ManuallyDrop<T>,
}

impl<T> Entry<T> {
    #[inline]
    pub(super) fn new(due: Tick, number: u64, item: T) -> Self {
        let number = NonZeroU64::MIN.saturating_add(number);
        Entry { due, number, item: ManuallyDrop::new(item) }
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
    /// Entries in no order, and holes. In a hole is nothing, or what is forgotten: its item is another's, and not to be touched
    /// any more.
    entries: Vec<Option<Entry<T>>>,
    /// So many entries there are.
    pub(super) len: usize,
    /// Which places are holes.
    holes: Bits,
    /// None of them is due before that.
    pub(super) earliest: Tick,
    /// So far has it been searched for holes.
    searched: usize,
}

impl<T> Bucket<T> {
    pub(super) const EMPTY: Self =
        Bucket { entries: Vec::new(), len: 0, holes: Bits::NONE, earliest: Tick::NEVER, searched: 0 };

    /// How many entries there is room for, and how many are, holes and all.
    pub(super) fn room(&self) -> usize {
        self.entries.capacity()
    }
    pub(super) fn places(&self) -> usize {
        self.entries.len()
    }

    /// Makes use of this memory, if there is none yet.
    pub(super) fn use_memory(&mut self, memory: impl FnOnce() -> Vec<Option<Entry<T>>>) {
        if self.entries.capacity() == 0 {
            self.entries = memory();
        }
    }

    /// The memory of a bucket in which nothing is left.
    pub(super) fn into_memory(mut self) -> Vec<Option<Entry<T>>> {
        debug_assert_eq!(self.len, 0);
        let mut memory = std::mem::take(&mut self.entries);
        memory.clear();
        memory
    }

    /// The entry there.
    pub(super) fn get(&self, at: usize) -> Option<&Entry<T>> {
        if self.holes.has(at) { None } else { self.entries.get(at)?.as_ref() }
    }

    #[cfg(all(test, not(loom)))]
    pub(super) fn has_forgotten(&self) -> bool {
        self.entries.iter().enumerate().any(|(at, entry)| entry.is_some() && self.holes.has(at))
    }

    /// All entries.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry<T>> {
        (0..self.entries.len()).filter_map(|at| self.get(at))
    }

    /// Takes the entry there out, if it is the right one.
    pub(super) fn take_if(&mut self, at: usize, is_it: impl FnOnce(&T) -> bool) -> Option<Entry<T>> {
        if self.holes.has(at) {
            return None;
        }
        let entry = self.entries.get_mut(at)?.take_if(|entry| is_it(&entry.item))?;
        self.holes.add(at, self.entries.len());
        self.len -= 1;
        Some(entry)
    }

    /// Puts an entry back to where it has been.
    pub(super) fn put_back(&mut self, at: usize, entry: Entry<T>) {
        self.entries[at] = Some(entry);
        self.holes.remove(at);
        self.len += 1;
    }

    /// Takes the last one out, if there are any: an entry, or nothing.
    pub(super) fn pop(&mut self) -> Option<Option<Entry<T>>> {
        let last = self.entries.pop()?;
        if self.holes.remove(self.entries.len()) {
            return Some(None);
        }
        self.len -= 1;
        Some(last)
    }

    /// Forgets the entry there: its item is the caller's. False: there is none.
    #[inline]
    pub(super) fn forget(&mut self, at: usize) -> bool {
        let was_there = at < self.entries.len() && self.holes.add(at, self.entries.len());
        self.len -= usize::from(was_there);
        was_there
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

impl<T> Drop for Bucket<T> {
    fn drop(&mut self) {
        let mut places = 0..self.entries.len();
        while self.len > 0 {
            let entry = places.next().and_then(|at| self.take_if(at, |_| true));
            drop(entry.map(Entry::into_parts));
        }
    }
}

/// A set of places in a bucket.
#[derive(Debug)]
struct Bits {
    /// Bit n is place n. Most buckets need no more, and so no memory of their own.
    first: u64,
    /// Bit n of word m is place 64 * (m + 1) + n. As many words as were needed.
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

    /// True: it was not there before. `places`: how many there are in the bucket.
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

    /// Where the last of so many places is that is not in the set: one more than that.
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

    /// The first from `begin` on that is in the set and before `end`.
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

    /// There are only so many places any more.
    fn cut(&mut self, places: usize) {
        let kept = (1 << (places % 64)) - 1;
        if places < 64 {
            self.first &= kept;
        } else if let Some(last) = self.more.get_mut(places / 64 - 1) {
            *last &= kept;
        }
        self.more.truncate(places / 64);
    }

    /// True if it was there.
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

    /// Doubles while it is small, and grows by an eighth from there on: a vector that doubles keeps
    /// up to as much memory as is in use. Allocators move what is large without copying it.
    #[cold]
    fn grow(&mut self) {
        const SMALL: usize = 256;
        let places = self.entries.len();
        self.entries.reserve_exact(if places < SMALL { places.max(4) } else { places / 8 });
    }

    #[inline]
    pub(super) fn has_many_holes(&self) -> bool {
        self.len + FEW < self.entries.len() / 4
    }

    /// Makes it smaller: some entries are moved from its end into holes.
    #[cold]
    pub(super) fn squeeze_some(&mut self, mark: u64, number: usize) {
        for _ in 0..STEP / 8 {
            self.drop_holes_at_the_end();
            let Some(hole) = self.next_hole() else { break };
            let Some(last) = self.pop().flatten() else { break };
            last.item.moved_to(place_in(mark, number, hole));
            self.put_back(hole, last);
        }
        self.drop_holes_at_the_end();
        let places = self.entries.len();
        if places + FEW < self.entries.capacity() / 2 {
            self.entries.shrink_to(places + places / 2);
            self.holes.more.shrink_to_fit();
        }
    }

    fn drop_holes_at_the_end(&mut self) {
        let places = self.holes.end_of_others(self.entries.len());
        self.entries.truncate(places);
        self.holes.cut(places);
    }

    /// A hole, if one is soon found: the search goes on where the last one ended.
    fn next_hole(&mut self) -> Option<usize> {
        let begin = if self.searched < self.entries.len() { self.searched } else { 0 };
        let end = self.entries.len().min(begin + 64 * STEP);
        let hole = self.holes.first(begin, end);
        self.searched = hole.map_or(end, |hole| hole + 1);
        hole
    }
}

pub(super) fn place_in(mark: u64, bucket: usize, at: usize) -> u64 {
    let at = u32::try_from(at).expect("four thousand million entries do not fit into memory");
    mark | (bucket as u64) << AT_BITS | u64::from(at)
}
