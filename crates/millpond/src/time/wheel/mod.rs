//! [`TimerWheel`]: a hierarchical timer wheel for many entries, with a heap for the earliest ones.
//!
//! Time is divided into slots of about 1 ms. Entries of the current slot and earlier slots are
//! *near*: they are in a [`TimerQueue`], in exact order. All other entries are in buckets,
//! unordered. A bucket of the finest level is one slot wide, a bucket of the next level 64 slots,
//! and so on. An entry is in the finest level in which its bucket is not the current one. When the
//! first entry of the first bucket is due, the bucket is *opened*: its entries move to finer levels
//! or become near. So an entry is accessed when it is inserted, when it leaves, and at most once
//! per level in between: four times for a delay of a few hours.
//!
//! A bucket may contain a million entries. They must not all be moved when the first of them is
//! due, nor while other threads wait for the lock. So a bucket is opened in steps, one with every
//! [`look`](TimerWheel::look). The opening of a large bucket begins early; see
//! [`TimerWheel::look_by`].
//!
//! Most timers are cancelled, so removal must be fast. Among a million entries every access to
//! another entry is a cache miss, so removal accesses only the removed entry. An entry is stored in
//! the memory of its bucket, and its removal leaves a tombstone there. A bucket with three quarters
//! of tombstones is compacted, a few entries at a time. An empty bucket has no memory. Items are
//! notified when they move; see [`Placed`].
//!
//! A cancel through a handle does not access the entry at all. A bit of the bucket marks the entry
//! as forgotten, which counts as a tombstone. From then on the canceller owns what the wheel owned
//! of the item; see [`TimerWheel::forget`].
//!
//! A bucket stores the earliest due time ever inserted into it. That is when its first entry is
//! due, or earlier if that entry was removed. So a thread that waits until [`TimerWheel::look_by`]
//! never waits too long. It wakes too early only if the first entry was removed meanwhile, as with
//! a heap, or if a large bucket must be opened. `docs/timers.md` has measurements.

mod bucket;

use bucket::{Bucket, Entry, FAR, far, has_mark, mark_of, place_in};

pub(crate) use bucket::to_be_looked_at;

use crate::sync::IN_MODEL;
use crate::time::clock::Tick;
use crate::time::heap::{Key, TimerQueue};

/// An item that is notified when its place in the wheel changes.
pub(crate) trait Placed {
    fn moved_to(&self, place: u64);
}

/// The place of an item that is not in the wheel.
pub(crate) const NOWHERE: u64 = u64::MAX;

/// The width of a slot: 2^20 nanoseconds.
const SLOT_BITS: u32 = 20;
/// The number of buckets of a level: 2^6, one bit of a word for each.
const LEVEL_BITS: u32 = 6;
const LEVELS: u32 = (u64::BITS - SLOT_BITS).div_ceil(LEVEL_BITS);
/// The number of entries that one step moves.
const STEP: usize = if cfg!(test) { 8 } else { 64 };
/// The wheel keeps the memory of up to `SPARE` empty buckets, each with a capacity of at most
/// `SPARE_CAPACITY`.
const SPARE: usize = 8;
const SPARE_CAPACITY: usize = 256;

/// The result of a check of the wheel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    /// The first entry is due and can be popped.
    Due,
    /// No entry is due.
    Later,
    /// No entry is due, but a bucket is being opened: check again instead of waiting.
    Ahead,
    /// An entry may be due. Check again.
    Again,
}

/// A queue ordered by due time.
#[derive(Debug)]
pub(crate) struct TimerWheel<T> {
    /// The part of a place that identifies the wheel.
    mark: u64,
    len: usize,
    /// The current slot. Entries up to this slot are near, all other entries are in buckets.
    current: u64,
    near: TimerQueue<T>,
    /// One word per level. Bit n is set if bucket n of that level is not empty.
    occupied: [u64; LEVELS as usize],
    /// The buckets, level by level. Levels are added as needed.
    buckets: Vec<Bucket<T>>,
    /// The bucket that is being opened. It contains the current slot, and the finer levels were
    /// empty when the opening began. Some of its entries have already moved. Its bit in `occupied`
    /// is not set.
    opening: Option<usize>,
    /// When a thread must check the wheel. Exact after every check. A removal may leave it too
    /// early.
    look_by: Tick,
    /// Memory of empty buckets, for reuse.
    spare: Vec<Vec<Option<Entry<T>>>>,
}

fn slot_of(due: Tick) -> u64 {
    due.nanos() >> SLOT_BITS
}

/// Returns the level of a bucket, and its index in that level.
fn level_of(bucket: usize) -> (usize, u32) {
    (bucket >> LEVEL_BITS, bucket as u32 & ((1 << LEVEL_BITS) - 1))
}

impl<T: Placed> TimerWheel<T> {
    /// Creates an empty wheel. `number` must be unique. The first four million wheels have their
    /// own mark. Later wheels share a mark and forget no entries, so no place is mistaken for a
    /// place in another wheel.
    pub(crate) fn new(number: u64) -> Self {
        TimerWheel {
            mark: mark_of(number),
            len: 0,
            current: 0,
            near: TimerQueue::new(),
            occupied: [0; LEVELS as usize],
            buckets: Vec::new(),
            opening: None,
            look_by: Tick::NEVER,
            spare: Vec::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Inserts `item`. Among equal due times the lowest `number` comes first. No two entries may
    /// have the same due time and number.
    #[inline]
    pub(crate) fn insert(&mut self, due: Tick, number: u64, item: T) {
        self.len += 1;
        let by = self.place(due, number, item);
        self.look_by = self.look_by.min(by);
    }

    /// Returns when the item at `place` is due, if `is_it` recognises the item.
    pub(crate) fn due(&self, place: u64, is_it: impl FnOnce(&T) -> bool) -> Option<Tick> {
        if Self::is_near(place) {
            let key = Key::from_bits(place);
            return self.near.get(key).is_some_and(is_it).then(|| self.near.due(key))?;
        }
        let (bucket, at) = far(place);
        let entry = self.buckets.get(bucket)?.get(at)?;
        is_it(entry.item()).then_some(entry.due())
    }

    /// Returns true if an item at `place` is due, or will be within about a millisecond of the
    /// current slot. After [`Look::Due`] the first item is near.
    #[inline]
    pub(crate) fn is_near(place: u64) -> bool {
        place & FAR == 0
    }

    /// Removes the item at `place`, if `is_it` recognises it. The place may belong to another item
    /// meanwhile.
    pub(crate) fn remove(&mut self, place: u64, is_it: impl FnOnce(&T) -> bool) -> Option<T> {
        if Self::is_near(place) {
            let key = Key::from_bits(place);
            let item = self.near.get(key).is_some_and(is_it).then(|| self.near.remove(key))??;
            self.len -= 1;
            self.note_first();
            return Some(item);
        }
        let (bucket, at) = far(place);
        let (_, _, item) = self.buckets.get_mut(bucket)?.take_if(at, is_it)?.into_parts();
        item.moved_to(NOWHERE);
        self.len -= 1;
        self.after_removal(bucket);
        Some(item)
    }

    /// Forgets the item at `place` without accessing it. Returns true if it was there. The item
    /// then belongs to the caller, as if `remove` had returned it, and the caller sets its place to
    /// [`NOWHERE`].
    ///
    /// Returns false if the item is near, or in another wheel. The caller must ensure that the item
    /// was last notified of this place, and that it is not moved meanwhile. Items are moved only
    /// under the lock of their wheel.
    #[inline]
    pub(crate) fn forget(&mut self, place: u64) -> bool {
        let (number, at) = far(place);
        let bucket = self.buckets.get_mut(number).filter(|_| has_mark(place, self.mark));
        let was_there = bucket.is_some_and(|bucket| bucket.forget(at));
        if was_there {
            self.len -= 1;
            self.after_removal(number);
        }
        was_there
    }

    /// Returns when the first entry is due, or an earlier time if the first entry of a bucket was
    /// removed.
    #[cfg(all(test, not(loom)))]
    fn first_due(&self) -> Option<Tick> {
        self.first_by(|bucket| bucket.earliest())
    }

    /// Returns when a thread must check the wheel: when the first entry is due, or earlier.
    #[inline]
    pub(crate) fn look_by(&self) -> Option<Tick> {
        (!self.is_empty()).then_some(self.look_by)
    }

    /// Like `look_by`, with [`Tick::NEVER`] for an empty wheel.
    #[inline]
    pub(crate) fn look_by_or_never(&self) -> Tick {
        self.look_by
    }

    /// Called after a change that may postpone the next check.
    fn note_first(&mut self) {
        self.look_by = self.first_by(Bucket::open_by).unwrap_or(Tick::NEVER);
    }

    fn first_by(&self, time: impl FnOnce(&Bucket<T>) -> Tick) -> Option<Tick> {
        let near = self.near.first_due();
        match self.opening {
            // Its remaining entries may be due before entries that have become near. All other
            // entries are later.
            Some(opening) => near.into_iter().chain([self.buckets[opening].earliest()]).min(),
            None => near.or_else(|| Some(time(&self.buckets[self.first_bucket()?]))),
        }
    }

    /// Checks whether an entry is due, and takes one step of opening a bucket. The time it takes is
    /// bounded.
    pub(crate) fn look(&mut self, now: Tick) -> Look {
        let look = self.look_and_open(now);
        self.note_first();
        look
    }

    fn look_and_open(&mut self, now: Tick) -> Look {
        if self.opening.is_none() {
            self.follow(now);
            self.begin_opening(now);
        }
        self.open_some();
        while self.near.is_empty() && self.opening.is_none() && self.begin_opening(now) {
            self.open_some();
        }
        let is_due = |due: Tick| due <= now;
        let Some(opening) = self.opening else {
            return if self.near.first_due().is_some_and(is_due) { Look::Due } else { Look::Later };
        };
        let earliest = self.buckets[opening].earliest();
        match self.near.first_due() {
            Some(due) if is_due(due) && due < earliest => Look::Due,
            _ if is_due(earliest) => Look::Again,
            _ => Look::Ahead,
        }
    }

    /// Returns the due time and number of the first entry. Valid only after [`Look::Due`].
    pub(crate) fn first(&self) -> Option<(Tick, u64)> {
        self.near.first()
    }

    /// Returns any item for which `is_it` returns true.
    pub(crate) fn find(&self, mut is_it: impl FnMut(&T) -> bool) -> Option<&T> {
        let far = || self.buckets.iter().flat_map(Bucket::iter).map(Entry::item);
        self.near.find(&mut is_it).or_else(|| far().find(|item| is_it(item)))
    }

    /// Removes the first entry. Returns its due time and item. Valid only after [`Look::Due`].
    pub(crate) fn pop(&mut self) -> Option<(Tick, T)> {
        let (due, _, item) = self.near.pop()?;
        self.len -= 1;
        self.note_first();
        Some((due, item))
    }

    /// Moves an empty wheel to `now`. Otherwise entries would be placed relative to the origin of
    /// time, into few buckets.
    pub(crate) fn begin_at(&mut self, now: Tick) {
        if self.is_empty() {
            self.follow(now);
        }
    }

    /// Passes all items with their due times to `take`. Items that it returns as an error remain in
    /// the wheel. Returns the other results in order.
    pub(crate) fn take_out<R>(&mut self, mut take: impl FnMut(T, Tick) -> Result<R, T>) -> Vec<R> {
        self.open_all();
        // Near entries come before all other entries.
        let (mut taken, mut kept) = (Vec::new(), Vec::new());
        while let Some((due, number, item)) = self.near.pop() {
            match take(item, due) {
                Ok(item) => taken.push(item),
                Err(item) => kept.push((due, number, item)),
            }
        }
        for (due, number, item) in kept {
            self.place(due, number, item);
        }
        let mut far = Vec::new();
        for bucket in 0..self.buckets.len() {
            for at in 0..self.buckets[bucket].places() {
                let Some(entry) = self.buckets[bucket].take_if(at, |_| true) else { continue };
                let (due, number, item) = entry.into_parts();
                item.moved_to(NOWHERE);
                match take(item, due) {
                    Ok(item) => far.push((due, number, item)),
                    Err(item) => {
                        item.moved_to(place_in(self.mark, bucket, at));
                        self.buckets[bucket].put_back(at, Entry::new(due, number, item));
                    }
                }
            }
            self.after_removals(bucket);
        }
        far.sort_unstable_by_key(|(due, number, _)| (*due, *number));
        taken.extend(far.into_iter().map(|(_, _, item)| item));
        self.len -= taken.len();
        self.note_first();
        taken
    }

    /// Returns all items with their due times: first the near items, then the others, bucket by
    /// bucket.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Tick, &T)> {
        let far = self.buckets.iter().flat_map(Bucket::iter).map(|entry| (entry.due(), entry.item()));
        self.near.iter().chain(far)
    }

    /// Calls `see` with all items, in order.
    pub(crate) fn for_each(&mut self, mut see: impl FnMut(&T)) {
        self.open_all();
        self.near.for_each(|_, item| see(item));
        let mut all: Vec<&Entry<T>> = self.buckets.iter().flat_map(Bucket::iter).collect();
        all.sort_unstable_by_key(|entry| (entry.due(), entry.number()));
        all.into_iter().for_each(|entry| see(entry.item()));
    }

    /// Puts an entry into its heap or bucket, relative to the current slot. Returns when a thread
    /// must check the wheel because of this entry.
    #[inline]
    fn place(&mut self, due: Tick, order: u64, item: T) -> Tick {
        let slot = slot_of(due);
        if slot <= self.current {
            let key = self.near.insert(due, order, item);
            self.near.get(key).into_iter().for_each(|item| item.moved_to(key.to_bits()));
            return due;
        }
        let level = (slot ^ self.current).ilog2() / LEVEL_BITS;
        let digit = (slot >> (level * LEVEL_BITS)) & ((1 << LEVEL_BITS) - 1);
        let number = (level << LEVEL_BITS) as usize | digit as usize;
        if number >= self.buckets.len() {
            self.buckets.resize_with(((level + 1) << LEVEL_BITS) as usize, || Bucket::EMPTY);
        }
        self.occupied[level as usize] |= 1 << digit;
        let bucket = &mut self.buckets[number];
        bucket.use_memory(|| self.spare.pop().unwrap_or_default());
        bucket.push(self.mark, number, Entry::new(due, order, item));
        bucket.open_by()
    }

    /// Called after one entry has left a bucket.
    #[inline]
    fn after_removal(&mut self, number: usize) {
        let bucket = &mut self.buckets[number];
        if bucket.len() == 0 {
            self.emptied(number);
            self.note_first();
        } else if bucket.has_many_tombstones() {
            bucket.compact_some(self.mark, number);
        }
    }

    /// Called after any number of entries have left a bucket.
    fn after_removals(&mut self, number: usize) {
        let bucket = &mut self.buckets[number];
        while bucket.has_many_tombstones() {
            bucket.compact_some(self.mark, number);
        }
        if bucket.len() == 0 && bucket.places() > 0 {
            self.emptied(number);
        }
    }

    /// Called when a bucket has become empty.
    fn emptied(&mut self, number: usize) {
        let (level, digit) = level_of(number);
        self.occupied[level] &= !(1 << digit);
        self.opening.take_if(|opening| *opening == number);
        let bucket = std::mem::replace(&mut self.buckets[number], Bucket::EMPTY);
        if self.spare.len() < SPARE && bucket.capacity() <= SPARE_CAPACITY {
            self.spare.push(bucket.into_memory());
        }
    }

    /// Returns the first bucket that is not empty. Buckets of finer levels come first.
    fn first_bucket(&self) -> Option<usize> {
        let level = self.occupied.iter().position(|level| *level != 0)?;
        Some(level << LEVEL_BITS | self.occupied[level].trailing_zeros() as usize)
    }

    /// Moves the current slot up to the slot before `now`, or before the first bucket, so no entry
    /// has to move. It does not reach the slot of `now`, because all entries due at once would then
    /// be in the heap.
    fn follow(&mut self, now: Tick) {
        if IN_MODEL {
            return; // a model must not depend on real time
        }
        let slot = slot_of(now).saturating_sub(1);
        if slot > self.current {
            let most = self.first_bucket().map_or(u64::MAX, |first| self.begin_of(first) - 1);
            self.current = slot.min(most);
        }
    }

    /// Returns the first slot of a bucket.
    fn begin_of(&self, bucket: usize) -> u64 {
        let (level, digit) = level_of(bucket);
        let shift = level as u32 * LEVEL_BITS;
        let above = self.current.checked_shr(shift + LEVEL_BITS).unwrap_or(0);
        (above << LEVEL_BITS | u64::from(digit)) << shift
    }

    /// Begins to open the first bucket, if it is time. Returns true if it has begun.
    fn begin_opening(&mut self, now: Tick) -> bool {
        let Some(number) = self.first_bucket() else { return false };
        let bucket = &self.buckets[number];
        if bucket.open_by() > now {
            return false;
        }
        let (level, digit) = level_of(number);
        // One slot at a time, even when late, to keep the heap of near entries small.
        if level == 0 && !self.near.is_empty() {
            return false;
        }
        // The new current slot is in this bucket, so no other entry has to move.
        self.current = slot_of(bucket.earliest());
        self.occupied[level] &= !(1 << digit);
        self.opening = Some(number);
        true
    }

    /// Moves some entries of the bucket that is being opened to their new places.
    fn open_some(&mut self) {
        let Some(number) = self.opening else { return };
        for _ in 0..STEP {
            let Some(last) = self.buckets[number].pop() else { break };
            last.into_iter().map(Entry::into_parts).for_each(|(due, order, item)| {
                self.place(due, order, item);
            });
        }
        if self.buckets[number].len() == 0 {
            self.emptied(number);
        }
    }

    fn open_all(&mut self) {
        while self.opening.is_some() {
            self.open_some();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
