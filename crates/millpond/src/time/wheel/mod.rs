//! What waits for its time, for many: a hierarchical wheel, with a heap for what comes next.
//!
//! Time is cut into slots of a millisecond. Entries of the current slot and before are near: they are in a
//! [`TimerQueue`], and so in exact order. All others are in buckets, in no order. A bucket of the finest level is one slot
//! wide, one of the next level 64 slots, and so on; an entry is in the finest level in which its bucket is not the
//! current one. When something in the first bucket falls due the bucket is opened: its entries go to finer levels or
//! become near. So an entry is touched when it is put in, when it leaves, and at most once per level in between, of
//! which there are few: four for a delay of a few hours.
//!
//! A bucket may have a million entries, and they must not all be touched at the moment when the first of them is due, nor
//! while others wait for the lock. So a bucket is opened in steps, one with every look at the wheel, and a large one is
//! begun some time before, which is what [`TimerWheel::look_by`] is for.
//!
//! HeadGuard out by place is what matters most, because most timers are cancelled, and among a million every step to another
//! entry is a step to memory that no cache has. So it touches the entry and nothing else: an entry lies in
//! its bucket's own memory, and leaves a hole there. A bucket that is three quarters holes is squeezed, a
//! few entries at a time, and an empty one has no memory. Entries are told when they have been moved; see [`Placed`].
//!
//! What is cancelled by its handle is not even touched: a bit of its bucket says that it is forgotten, which is as good as a hole.
//! Who cancels has the item at hand anyway, and owns from then on what the wheel owned of it; see [`TimerWheel::forget`].
//!
//! A bucket knows the earliest time that was put into it. That is when its first entry is due, unless just that one
//! has been taken out: then it is a time before that. So whoever sleeps until [`TimerWheel::look_by`] never sleeps
//! too long, and wakes in vain only if the entry that it waits for is taken out meanwhile, which is the same with a heap, or
//! if there is a large bucket to open. `docs/timers.md` has the measurements.

mod bucket;

use bucket::{Bucket, Entry, FAR, far, has_mark, mark_of, place_in};

pub(crate) use bucket::to_be_looked_at;

use crate::sync::IN_MODEL;
use crate::time::clock::Tick;
use crate::time::heap::{Key, TimerQueue};

/// An item that is told where it is, and when it is [`NOWHERE`] any more.
pub(crate) trait Placed {
    fn moved_to(&self, place: u64);
}

/// The place of what is in no bucket.
pub(crate) const NOWHERE: u64 = u64::MAX;

/// The width of a slot: 2^20 nanoseconds.
const SLOT_BITS: u32 = 20;
/// So many buckets does a level have: 2^6, a bit of a word for each.
const LEVEL_BITS: u32 = 6;
const LEVELS: u32 = (u64::BITS - SLOT_BITS).div_ceil(LEVEL_BITS);
/// So many entries of a bucket are touched in one step.
const STEP: usize = if cfg!(test) { 8 } else { 64 };
/// The memory of so many buckets that have become empty is kept for others, if each has room for no more than that.
const SPARE: usize = 8;
const SPARE_ROOM: usize = 256;

/// What a look at the wheel has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    /// The first entry is due, and can be had.
    Due,
    /// Nothing is due.
    Later,
    /// Nothing is due, but there is something to do before it is: look again rather than sleep.
    Ahead,
    /// Something may be due, which only another look can tell.
    Again,
}

/// A queue in time.
#[derive(Debug)]
pub(crate) struct TimerWheel<T> {
    /// The part of a place that says which wheel.
    mark: u64,
    len: usize,
    /// The current slot. Entries up to it are near, all others are in buckets.
    current: u64,
    near: TimerQueue<T>,
    /// One word per level. Bit n: bucket n of that level is not empty.
    occupied: [u64; LEVELS as usize],
    /// Level by level, as many levels as have been needed.
    buckets: Vec<Bucket<T>>,
    /// The bucket that is being opened: the current slot is one of it, the finer levels were empty when that was begun, and
    /// some of its entries are already where they belong. Its bit in `occupied` is not set.
    opening: Option<usize>,
    /// When somebody has to look at the wheel. Exact after every look; an entry that is taken out may leave it too early.
    look_by: Tick,
    /// Memory for buckets.
    spare: Vec<Vec<Option<Entry<T>>>>,
}

fn slot_of(due: Tick) -> u64 {
    due.nanos() >> SLOT_BITS
}

/// The level of a bucket, and which of that level it is.
fn level_of(bucket: usize) -> (usize, u32) {
    (bucket >> LEVEL_BITS, bucket as u32 & ((1 << LEVEL_BITS) - 1))
}

impl<T: Placed> TimerWheel<T> {
    /// `number` is another for each wheel. A place in another wheel is never taken for one of this: after four million wheels those
    /// that come have no mark of their own, and forget nothing.
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

    /// Puts `item` in. Among equal due times the lower `number` comes first; no two may have both equal.
    #[inline]
    pub(crate) fn insert(&mut self, due: Tick, number: u64, item: T) {
        self.len += 1;
        let by = self.place(due, number, item);
        self.look_by = self.look_by.min(by);
    }

    /// When the item at `place` is due, if `is_it` knows it.
    pub(crate) fn due(&self, place: u64, is_it: impl FnOnce(&T) -> bool) -> Option<Tick> {
        if place & FAR == 0 {
            let key = Key::from_bits(place);
            return self.near.get(key).is_some_and(is_it).then(|| self.near.due(key))?;
        }
        let (bucket, at) = far(place);
        let entry = self.buckets.get(bucket)?.get(at)?;
        is_it(entry.item()).then_some(entry.due)
    }

    /// Takes out the item at `place`, if `is_it` knows it: there may be another by now.
    pub(crate) fn remove(&mut self, place: u64, is_it: impl FnOnce(&T) -> bool) -> Option<T> {
        if place & FAR == 0 {
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
        self.made_hole(bucket);
        Some(item)
    }

    /// Forgets the item that is told to be at `place`, without a look at it. True: it was there, and it is now the caller's, as if
    /// `remove` had given it. Then the caller tells it that it is [`NOWHERE`].
    ///
    /// False: it is near, or not here. A place in another wheel is not mistaken for one in this; but the caller must know that the
    /// item was told this place last, and that it is not told another meanwhile. All are told under the lock of their wheel.
    #[inline]
    pub(crate) fn forget(&mut self, place: u64) -> bool {
        let (number, at) = far(place);
        let bucket = self.buckets.get_mut(number).filter(|_| has_mark(place, self.mark));
        let was_there = bucket.is_some_and(|bucket| bucket.forget(at));
        if was_there {
            self.len -= 1;
            self.made_hole(number);
        }
        was_there
    }

    /// When the first entry is due, or a time before that: nothing is due sooner. It is exact unless the first entry of
    /// a bucket has been taken out since.
    #[cfg(all(test, not(loom)))]
    fn first_due(&self) -> Option<Tick> {
        self.first_by(|bucket| bucket.earliest)
    }

    /// When somebody has to look, for nothing to be late: when the first entry is due, or some time before that.
    #[inline]
    pub(crate) fn look_by(&self) -> Option<Tick> {
        (!self.is_empty()).then_some(self.look_by)
    }

    /// The same, or that it is never.
    #[inline]
    pub(crate) fn look_by_or_never(&self) -> Tick {
        self.look_by
    }

    /// After a change by which somebody may have to look later than before.
    fn note_first(&mut self) {
        self.look_by = self.first_by(Bucket::open_by).unwrap_or(Tick::NEVER);
    }

    fn first_by(&self, time: impl FnOnce(&Bucket<T>) -> Tick) -> Option<Tick> {
        let near = self.near.first_due();
        match self.opening {
            // What it has left may be due before what has become near of it. All else comes later.
            Some(opening) => near.into_iter().chain([self.buckets[opening].earliest]).min(),
            None => near.or_else(|| Some(time(&self.buckets[self.first_bucket()?]))),
        }
    }

    /// Looks whether something is due, and opens a part of what is to be opened. It takes a short time, whatever there is
    /// to do.
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
        let earliest = self.buckets[opening].earliest;
        match self.near.first_due() {
            Some(due) if is_due(due) && due < earliest => Look::Due,
            _ if is_due(earliest) => Look::Again,
            _ => Look::Ahead,
        }
    }

    /// When the first entry is due, and its number. Only after a look that found it due.
    pub(crate) fn first(&self) -> Option<(Tick, u64)> {
        self.near.first()
    }

    /// Some item for which this is so.
    pub(crate) fn find(&self, mut is_it: impl FnMut(&T) -> bool) -> Option<&T> {
        let far = || self.buckets.iter().flat_map(Bucket::iter).map(Entry::item);
        self.near.find(&mut is_it).or_else(|| far().find(|item| is_it(item)))
    }

    /// Takes the first entry out, with when it was due. Only after a look that found it so.
    pub(crate) fn pop(&mut self) -> Option<(Tick, T)> {
        let (due, _, item) = self.near.pop()?;
        self.len -= 1;
        self.note_first();
        Some((due, item))
    }

    /// It is `now`, if nothing is in the wheel yet: else entries would be put where they belong as seen from the
    /// beginning of time, which is in few buckets.
    pub(crate) fn begin_at(&mut self, now: Tick) {
        if self.is_empty() {
            self.follow(now);
        }
    }

    /// Gives all items to `take`, with when they are due. Those that it gives back stay; returns what it made of the
    /// others, in order.
    pub(crate) fn take_out<R>(&mut self, mut take: impl FnMut(T, Tick) -> Result<R, T>) -> Vec<R> {
        self.open_all();
        // The near ones come before all others.
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
            self.made_holes(bucket);
        }
        far.sort_unstable_by_key(|(due, number, _)| (*due, *number));
        taken.extend(far.into_iter().map(|(_, _, item)| item));
        self.len -= taken.len();
        self.note_first();
        taken
    }

    /// Shows all entries, in order.
    pub(crate) fn for_each(&mut self, mut see: impl FnMut(&T)) {
        self.open_all();
        self.near.for_each(|_, item| see(item));
        let mut all: Vec<&Entry<T>> = self.buckets.iter().flat_map(Bucket::iter).collect();
        all.sort_unstable_by_key(|entry| (entry.due, entry.number()));
        all.into_iter().for_each(|entry| see(entry.item()));
    }

    /// Puts an entry where it belongs as seen from the current slot. Returns when somebody has to look for its sake.
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

    /// An entry has left a bucket.
    #[inline]
    fn made_hole(&mut self, number: usize) {
        let bucket = &mut self.buckets[number];
        if bucket.len == 0 {
            self.emptied(number);
            self.note_first();
        } else if bucket.has_many_holes() {
            bucket.squeeze_some(self.mark, number);
        }
    }

    /// Any number of entries may have left a bucket.
    fn made_holes(&mut self, number: usize) {
        let bucket = &mut self.buckets[number];
        while bucket.has_many_holes() {
            bucket.squeeze_some(self.mark, number);
        }
        if bucket.len == 0 && bucket.places() > 0 {
            self.emptied(number);
        }
    }

    /// Nothing is left in a bucket.
    fn emptied(&mut self, number: usize) {
        let (level, digit) = level_of(number);
        self.occupied[level] &= !(1 << digit);
        self.opening.take_if(|opening| *opening == number);
        let bucket = std::mem::replace(&mut self.buckets[number], Bucket::EMPTY);
        if self.spare.len() < SPARE && bucket.room() <= SPARE_ROOM {
            self.spare.push(bucket.into_memory());
        }
    }

    /// The bucket with the first entries that are not near. Those of a finer level come before all of a coarser one.
    fn first_bucket(&self) -> Option<usize> {
        let level = self.occupied.iter().position(|level| *level != 0)?;
        Some(level << LEVEL_BITS | self.occupied[level].trailing_zeros() as usize)
    }

    /// Moves the current slot up to the one before `now`, or before the first bucket: then all entries are still where
    /// they belong. Not into that of `now`, for what is due at once would then all be in the heap.
    fn follow(&mut self, now: Tick) {
        if IN_MODEL {
            return; // a model must not depend on the real time
        }
        let slot = slot_of(now).saturating_sub(1);
        if slot > self.current {
            let most = self.first_bucket().map_or(u64::MAX, |first| self.begin_of(first) - 1);
            self.current = slot.min(most);
        }
    }

    /// The first slot of a bucket.
    fn begin_of(&self, bucket: usize) -> u64 {
        let (level, digit) = level_of(bucket);
        let shift = level as u32 * LEVEL_BITS;
        let above = self.current.checked_shr(shift + LEVEL_BITS).unwrap_or(0);
        (above << LEVEL_BITS | u64::from(digit)) << shift
    }

    /// If it is time to open the first bucket, begins with it.
    fn begin_opening(&mut self, now: Tick) -> bool {
        let Some(number) = self.first_bucket() else { return false };
        let bucket = &self.buckets[number];
        if bucket.open_by() > now {
            return false;
        }
        let (level, digit) = level_of(number);
        // What is near is in a heap, and that is to stay small, also if it is late: one slot at a time.
        if level == 0 && !self.near.is_empty() {
            return false;
        }
        // The slot is one of this bucket, so all others are still where they belong.
        self.current = slot_of(bucket.earliest);
        self.occupied[level] &= !(1 << digit);
        self.opening = Some(number);
        true
    }

    /// Puts some entries of the bucket that is being opened where they belong by now.
    fn open_some(&mut self) {
        let Some(number) = self.opening else { return };
        for _ in 0..STEP {
            let Some(last) = self.buckets[number].pop() else { break };
            last.into_iter().map(Entry::into_parts).for_each(|(due, order, item)| {
                self.place(due, order, item);
            });
        }
        if self.buckets[number].len == 0 {
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
