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
//! Taking out by place is what matters most, because most timers are cancelled, and among a million every step to another
//! entry is a step to memory that no cache has. So it touches the entry and nothing else: an entry lies in
//! its bucket's own memory, and leaves a hole there. A bucket that is three quarters holes is squeezed, and an
//! empty one has no memory. Entries are told when they have been moved; see [`Placed`].
//!
//! Of a large bucket what is cancelled is not even touched: there a bit says that it is dead. It counts no more and is
//! not seen any more. What it held is gone, because it was cancelled; what is left of it is dropped when there are more of
//! the dead than of the living, some at a time, and about in the order in which they came, for in that order they lie
//! in memory. To find and to free a million of them in random order takes several times as long.
//!
//! A bucket knows the earliest time that was put into it. That is when its first entry is due, unless just that one
//! has been taken out: then it is a time before that. So whoever sleeps until [`TimerWheel::look_by`] never sleeps
//! too long, and wakes in vain only if the entry that it waits for is taken out meanwhile, which is the same with a heap, or
//! if there is a large bucket to open. `docs/timers.md` has the measurements.

use crate::clock::Tick;
use crate::timer_queue::{Key, TimerQueue};

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
/// A bucket with fewer entries is opened when its first one is due, a larger one before.
const MANY: usize = if cfg!(test) { 32 } else { 1024 };
/// To open a bucket takes no more than so long for each entry, in nanoseconds, unless the machine has other work.
const OPENING: u64 = if cfg!(test) { 1 << 16 } else { 128 };
/// A bucket with fewer holes than that is not worth squeezing.
const FEW: usize = 16;
/// The memory of so many buckets that have become empty is kept for others, if each has room for no more than that.
const SPARE: usize = 8;
const SPARE_ROOM: usize = 256;
/// A bucket with fewer entries, holes and all, has no dead ones: a cache holds it, so they are taken out at once.
const SMALL: usize = if cfg!(test) { 48 } else { 256 };
/// So many of the dead are dropped in one step, or a few more.
const SWEEP: usize = 16;

#[derive(Debug)]
struct Entry<T> {
    due: Tick,
    number: u64,
    item: T,
}

#[derive(Debug)]
struct Bucket<T> {
    /// Entries in no order, and holes.
    entries: Vec<Option<Entry<T>>>,
    /// So many are alive: neither holes nor dead.
    len: usize,
    dead: Dead,
    /// None of them is due before that.
    earliest: Tick,
}

impl<T> Bucket<T> {
    const EMPTY: Self = Bucket { entries: Vec::new(), len: 0, dead: Dead::NONE, earliest: Tick::NEVER };

    /// The entry there, if it is alive.
    fn living(&mut self, at: usize) -> Option<&mut Option<Entry<T>>> {
        if self.dead.has(at) { None } else { self.entries.get_mut(at) }
    }

    /// When it is time to begin with the opening. It changes only when the number of entries has doubled: whoever sleeps
    /// until then is not to be woken for every entry that comes.
    fn open_by(&self) -> Tick {
        if self.len < MANY {
            return self.earliest;
        }
        let time = OPENING * self.len.next_power_of_two() as u64;
        Tick::from_nanos(self.earliest.nanos().saturating_sub(time))
    }
}

/// Which entries of a bucket are dead.
#[derive(Debug)]
struct Dead {
    /// Bit n of word m is entry 64 * m + n. As many words as were needed.
    words: Vec<u64>,
    len: usize,
}

impl Dead {
    const NONE: Dead = Dead { words: Vec::new(), len: 0 };

    #[inline]
    fn has(&self, at: usize) -> bool {
        self.words.get(at / 64).is_some_and(|word| word >> (at % 64) & 1 == 1)
    }

    /// `entries`: how many there are in the bucket.
    #[inline]
    fn add(&mut self, at: usize, entries: usize) {
        if at / 64 >= self.words.len() {
            self.words.resize(entries.div_ceil(64), 0);
        }
        self.words[at / 64] |= 1 << (at % 64);
        self.len += 1;
    }

    /// True if it was dead.
    fn remove(&mut self, at: usize) -> bool {
        let is_dead = self.has(at);
        if is_dead {
            self.words[at / 64] &= !(1 << (at % 64));
            self.len -= 1;
        }
        is_dead
    }

    /// Takes all of a word out, and tells how many were there.
    fn take_word(&mut self, word: usize, mut take: impl FnMut(usize)) -> usize {
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

/// Set in the place of an entry in a bucket, which says which wheel, which bucket and where in it. The place of a near one is
/// its key, in which this bit is never set.
const FAR: u64 = 1 << 63;
const AT_BITS: u32 = 32;
const BUCKET_BITS: u32 = (LEVELS << LEVEL_BITS).ilog2();

/// Which bucket, and where in it.
#[expect(clippy::cast_possible_truncation, reason = "the two halves")]
fn far(place: u64) -> (usize, usize) {
    ((place >> AT_BITS) as usize & ((1 << BUCKET_BITS) - 1), place as u32 as usize)
}

/// A queue in time.
#[derive(Debug)]
pub(crate) struct TimerWheel<T> {
    /// The part of a place that says which wheel.
    mark: u64,
    /// Of those that are alive.
    len: usize,
    /// So many of the others have not been dropped yet: no more than are alive, and a few.
    dead: usize,
    /// Where the next of the dead are looked for: in which word, and in which bucket. Word by word through all buckets, for
    /// what has come at about the same time is at about the same place in different buckets.
    sweep_at: (usize, usize),
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
    /// `number` is another for each wheel. A place in another wheel is not taken for one of this, unless their numbers differ by a
    /// multiple of 2^22.
    pub(crate) fn new(number: u64) -> Self {
        TimerWheel {
            mark: FAR | (number << (AT_BITS + BUCKET_BITS) & !FAR),
            len: 0,
            dead: 0,
            sweep_at: (0, 0),
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
    pub(crate) fn insert(&mut self, due: Tick, number: u64, item: T) {
        self.len += 1;
        let by = self.place(Entry { due, number, item });
        self.look_by = self.look_by.min(by);
    }

    /// When the item at `place` is due, if `is_it` knows it.
    pub(crate) fn due(&self, place: u64, is_it: impl FnOnce(&T) -> bool) -> Option<Tick> {
        if place & FAR == 0 {
            let key = Key::from_bits(place);
            return self.near.get(key).is_some_and(is_it).then(|| self.near.due(key))?;
        }
        let (bucket, at) = far(place);
        let bucket = self.buckets.get(bucket)?;
        let entry = bucket.entries.get(at).filter(|_| !bucket.dead.has(at))?.as_ref()?;
        is_it(&entry.item).then_some(entry.due)
    }

    /// Takes out the item at `place`, if `is_it` knows it: there may be another by now.
    pub(crate) fn remove(&mut self, place: u64, is_it: impl FnOnce(&T) -> bool) -> Option<T> {
        if place & FAR == 0 {
            let key = Key::from_bits(place);
            let item = self.near.get(key).is_some_and(is_it).then(|| self.near.remove(key))??;
            self.len -= 1;
            self.note_first();
            self.bury();
            return Some(item);
        }
        let (bucket, at) = far(place);
        let hole = self.buckets.get_mut(bucket)?.living(at)?;
        let entry = hole.take_if(|entry| is_it(&entry.item))?;
        entry.item.moved_to(NOWHERE);
        self.len -= 1;
        self.made_hole(bucket);
        self.bury();
        Some(entry.item)
    }

    /// As `remove`, for an item that holds nothing any more, and that nobody will ask for. It is dropped, but perhaps not yet.
    /// True: it was there. Then the caller tells it that it is [`NOWHERE`].
    ///
    /// The place alone says that it is there. So this is for items whose place cannot change meanwhile: those are told under
    /// the lock of the wheel.
    pub(crate) fn discard(&mut self, place: u64, is_it: impl FnOnce(&T) -> bool) -> bool {
        let (number, at) = far(place);
        match self.buckets.get_mut(number) {
            Some(bucket) if place & !place_bits() == self.mark && bucket.entries.len() >= SMALL => {
                if bucket.living(at).is_none() {
                    return false;
                }
                bucket.dead.add(at, bucket.entries.len());
                self.dead += 1;
                self.len -= 1;
                self.made_hole(number);
                self.bury();
                true
            }
            _ => self.remove(place, is_it).is_some(),
        }
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

    /// Takes the first entry out, with when it was due. Only after a look that found it so.
    pub(crate) fn pop(&mut self) -> Option<(Tick, T)> {
        let (due, _, item) = self.near.pop()?;
        self.len -= 1;
        self.note_first();
        self.bury();
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
        self.sweep_all();
        // The near ones come before all others.
        let (mut taken, mut kept) = (Vec::new(), Vec::new());
        while let Some((due, number, item)) = self.near.pop() {
            match take(item, due) {
                Ok(item) => taken.push(item),
                Err(item) => kept.push(Entry { due, number, item }),
            }
        }
        for entry in kept {
            self.place(entry);
        }
        let mut far = Vec::new();
        for bucket in 0..self.buckets.len() {
            let before = far.len();
            for (at, hole) in self.buckets[bucket].entries.iter_mut().enumerate() {
                let Some(Entry { due, number, item }) = hole.take() else { continue };
                item.moved_to(NOWHERE);
                match take(item, due) {
                    Ok(item) => far.push((due, number, item)),
                    Err(item) => {
                        item.moved_to(place_in(self.mark, bucket, at));
                        *hole = Some(Entry { due, number, item });
                    }
                }
            }
            (before..far.len()).for_each(|_| self.made_hole(bucket));
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
        self.sweep_all();
        self.near.for_each(|_, item| see(item));
        let all = self.buckets.iter().flat_map(|bucket| bucket.entries.iter().flatten());
        let mut all: Vec<&Entry<T>> = all.collect();
        all.sort_unstable_by_key(|entry| (entry.due, entry.number));
        all.into_iter().for_each(|entry| see(&entry.item));
    }

    /// Puts an entry where it belongs as seen from the current slot. Returns when somebody has to look for its sake.
    fn place(&mut self, entry: Entry<T>) -> Tick {
        let slot = slot_of(entry.due);
        if slot <= self.current {
            let due = entry.due;
            let key = self.near.insert(due, entry.number, entry.item);
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
        if bucket.entries.capacity() == 0 {
            bucket.entries = self.spare.pop().unwrap_or_default();
        }
        bucket.push(self.mark, number, entry);
        bucket.open_by()
    }

    /// An entry has been taken out of a bucket, or is dead.
    #[inline]
    fn made_hole(&mut self, number: usize) {
        let bucket = &mut self.buckets[number];
        bucket.len -= 1;
        if bucket.len == 0 {
            self.emptied(number);
            self.note_first();
        } else {
            bucket.squeeze_if_worth(self.mark, number);
        }
    }

    /// Nothing alive is left in a bucket.
    fn emptied(&mut self, number: usize) {
        let (level, digit) = level_of(number);
        self.occupied[level] &= !(1 << digit);
        self.opening.take_if(|opening| *opening == number);
        self.buckets[number].earliest = Tick::NEVER;
        self.give_back(number);
    }

    /// If nothing at all is left in a bucket its memory is not needed.
    fn give_back(&mut self, number: usize) {
        let bucket = &mut self.buckets[number];
        if bucket.len == 0 && bucket.dead.len == 0 {
            let bucket = std::mem::replace(bucket, Bucket::EMPTY);
            self.keep(bucket.entries);
        }
    }

    /// After every change by which there are fewer of the living, or more of the dead.
    #[inline]
    fn bury(&mut self) {
        if self.dead > self.len + FEW {
            self.sweep();
        }
        if self.len == 0 && self.dead > 0 {
            self.sweep_all();
        }
    }

    fn sweep_all(&mut self) {
        while self.dead > 0 {
            self.sweep();
        }
    }

    /// Drops some of the dead.
    #[inline(never)]
    fn sweep(&mut self) {
        let enough = self.dead.saturating_sub(SWEEP);
        let (mut word, mut number) = self.sweep_at;
        while self.dead > enough {
            if number >= self.buckets.len() {
                let words = self.buckets.iter().map(|bucket| bucket.dead.words.len()).max();
                (word, number) = (if Some(word + 1) < words { word + 1 } else { 0 }, 0);
            }
            let Bucket { entries, dead, .. } = &mut self.buckets[number];
            let dropped = dead.take_word(word, |at| entries[at] = None);
            if dropped > 0 {
                self.dead -= dropped;
                self.buckets[number].squeeze_if_worth(self.mark, number);
                self.give_back(number);
            }
            number += 1;
        }
        self.sweep_at = (word, number);
    }

    /// Keeps the memory of an empty bucket, or gives it back.
    fn keep(&mut self, mut entries: Vec<Option<Entry<T>>>) {
        if self.spare.len() < SPARE && entries.capacity() <= SPARE_ROOM {
            entries.clear();
            self.spare.push(entries);
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
        if cfg!(loom) {
            return; // the machine's clock is real in a model too, and what is moved must not depend on it
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
            let bucket = &mut self.buckets[number];
            let Some(last) = bucket.entries.pop() else { break };
            if bucket.dead.remove(bucket.entries.len()) {
                self.dead -= 1;
                continue;
            }
            if let Some(entry) = last {
                bucket.len -= 1;
                self.place(entry);
            }
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

impl<T: Placed> Bucket<T> {
    fn push(&mut self, mark: u64, number: usize, entry: Entry<T>) {
        entry.item.moved_to(place_in(mark, number, self.entries.len()));
        self.earliest = self.earliest.min(entry.due);
        self.len += 1;
        self.entries.push(Some(entry));
    }

    #[inline]
    fn squeeze_if_worth(&mut self, mark: u64, number: usize) {
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

fn place_in(mark: u64, bucket: usize, at: usize) -> u64 {
    let at = u32::try_from(at).expect("four thousand million entries do not fit into memory");
    mark | (bucket as u64) << AT_BITS | u64::from(at)
}

/// The part of a place that is not the mark.
const fn place_bits() -> u64 {
    (1 << (AT_BITS + BUCKET_BITS)) - 1
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::cell::Cell;
    use std::collections::BTreeMap;
    use std::rc::Rc;

    use super::*;

    #[derive(Debug)]
    struct Item {
        number: u64,
        place: Cell<u64>,
    }

    impl Placed for Rc<Item> {
        fn moved_to(&self, place: u64) {
            self.place.set(place);
        }
    }

    type Wheel = TimerWheel<Rc<Item>>;

    fn insert(wheel: &mut Wheel, due: u64, number: u64) -> Rc<Item> {
        let item = Rc::new(Item { number, place: Cell::new(u64::MAX) });
        wheel.insert(tick(due), number, Rc::clone(&item));
        item
    }

    fn remove(wheel: &mut Wheel, item: &Rc<Item>) -> bool {
        wheel.remove(item.place.get(), |there| Rc::ptr_eq(there, item)).is_some()
    }

    /// As a pool does it with a task that was cancelled.
    fn discard(wheel: &mut Wheel, item: &Rc<Item>) -> bool {
        let there = wheel.discard(item.place.get(), |there| Rc::ptr_eq(there, item));
        if there {
            item.moved_to(NOWHERE);
        }
        there
    }

    /// Looks until that tells.
    fn has_due(wheel: &mut Wheel, now: Tick) -> bool {
        loop {
            match wheel.look(now) {
                Look::Due => return true,
                Look::Later | Look::Ahead => return false,
                Look::Again => {}
            }
        }
    }

    fn pop_due(wheel: &mut Wheel, now: Tick) -> Option<Rc<Item>> {
        if has_due(wheel, now) { wheel.pop().map(|(_, item)| item) } else { None }
    }

    fn tick(nanos: u64) -> Tick {
        Tick::from_nanos(nanos)
    }

    fn random(mut seed: u64) -> impl FnMut(u64) -> u64 {
        move |below| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        }
    }

    const SLOT: u64 = 1 << SLOT_BITS;

    /// Against a sorted list: every mixture of insertions, removals and pops gives the same, also when time runs
    /// ahead or back, and for delays of all levels.
    #[test]
    fn behaves_like_a_sorted_list() {
        let mut random = random(42);
        let (mut opened_ahead, mut with_dead) = (0, 0);
        for round in 0..150 {
            let mut wheel = Wheel::new(7);
            let mut model: BTreeMap<(u64, u64), Rc<Item>> = BTreeMap::new();
            let mut gone: Vec<Rc<Item>> = Vec::new();
            let (mut now, most) = (0, 1 + random(400));
            for number in 0..1500 {
                // From a few nanoseconds to five centuries; coarse, so that some are due at the same time.
                let step = 1 << random(if round % 3 == 0 { 62 } else { 34 });
                match random(if model.len() as u64 > most { 10 } else { 5 }) {
                    0..=2 => {
                        let due = now + random(4) * step;
                        model.insert((due, number), insert(&mut wheel, due, number));
                    }
                    3 | 6.. if !model.is_empty() => {
                        let rank = *model.keys().nth(random(model.len() as u64) as usize).unwrap();
                        let item = model.remove(&rank).unwrap();
                        let due = wheel.due(item.place.get(), |there| Rc::ptr_eq(there, &item));
                        assert_eq!(due, Some(tick(rank.0)));
                        let out = if round % 2 == 0 { remove } else { discard };
                        assert!(out(&mut wheel, &item));
                        gone.push(item);
                    }
                    _ => {
                        now = if random(8) == 0 { now - now / 8 } else { now + random(3) * step / 4 };
                        let first = model.first_key_value().map(|(rank, _)| *rank);
                        let due = first.filter(|(due, _)| *due <= now);
                        assert_eq!(has_due(&mut wheel, tick(now)), due.is_some());
                        let popped = pop_due(&mut wheel, tick(now));
                        assert_eq!(popped.as_ref().map(|item| item.number), due.map(|(_, number)| number));
                        due.inspect(|rank| gone.extend(model.remove(rank)));
                    }
                }
                assert_eq!((wheel.len(), wheel.is_empty()), (model.len(), model.is_empty()));
                let first = model.first_key_value().map(|((due, _), _)| tick(*due));
                assert_eq!(wheel.first_due().is_some(), first.is_some());
                assert!(wheel.first_due() <= first, "nobody may sleep too long");
                assert!(wheel.look_by() <= wheel.first_due());
                opened_ahead += u32::from(wheel.opening.is_some());
                with_dead += u32::from(wheel.dead > 0);
                assert!(wheel.dead <= wheel.len() + FEW, "more dead than alive");
                assert_eq!(wheel.dead, wheel.buckets.iter().map(|bucket| bucket.dead.len).sum());
            }
            assert!(!gone.iter().any(|item| remove(&mut wheel, item)), "a place serves once");
            assert!(!gone.iter().any(|item| discard(&mut wheel, item)), "a place serves once");
            let mut seen = Vec::new();
            wheel.for_each(|item| seen.push(item.number));
            assert_eq!(seen, model.keys().map(|(_, number)| *number).collect::<Vec<_>>());
            let is_odd = |item: &Rc<Item>| item.number % 2 == 1;
            let odd = wheel.take_out(|item, due| {
                assert!(model.contains_key(&(due.nanos(), item.number)));
                if is_odd(&item) { Ok(item.number) } else { Err(item) }
            });
            assert_eq!(odd, seen.iter().copied().filter(|n| n % 2 == 1).collect::<Vec<_>>());
            for item in model.values() {
                assert_eq!(remove(&mut wheel, item), !is_odd(item), "those that stayed are where they say");
            }
            assert!(wheel.is_empty() && wheel.first_due().is_none());
        }
        assert!(opened_ahead > 100, "only {opened_ahead} steps found a bucket half open");
        assert!(with_dead > 1000, "only {with_dead} steps found any dead");
    }

    /// Due at `begin` and then every slot or so, in a bucket of the third level.
    fn large_bucket(wheel: &mut Wheel, begin: u64) -> Vec<Rc<Item>> {
        (0..2000).map(|number| insert(wheel, begin + number * SLOT, number)).collect()
    }

    #[test]
    fn a_large_bucket_is_open_when_its_first_entry_is_due() {
        let mut wheel = Wheel::new(7);
        let begin = 3 * 64 * 64 * SLOT;
        large_bucket(&mut wheel, begin);
        let by = wheel.look_by().unwrap();
        assert_eq!(wheel.first_due(), Some(tick(begin)));
        assert_eq!(wheel.look(tick(by.nanos() - 1)), Look::Later, "not before it is needed");
        let ahead = (0..).take_while(|_| wheel.look(by) == Look::Ahead).count();
        assert!(ahead >= 2000 / STEP / 2, "in small steps, {ahead} of them");
        assert_eq!(wheel.first_due(), Some(tick(begin)));
        assert_eq!(wheel.look(tick(begin - 1)), Look::Later);
        assert_eq!(wheel.look(tick(begin)), Look::Due, "with one look");
    }

    #[test]
    fn a_look_moves_few_entries_also_if_it_comes_late() {
        let mut wheel = Wheel::new(7);
        let begin = 3 * 64 * 64 * SLOT;
        let items = large_bucket(&mut wheel, begin);
        let places = || items.iter().map(|item| item.place.get()).collect::<Vec<_>>();
        for looks in 1.. {
            let before = places();
            let look = wheel.look(tick(begin + SLOT / 2));
            let moved = before.iter().zip(places()).filter(|(before, after)| *before != after).count();
            assert!(moved <= STEP * 4, "{moved} were moved");
            if look == Look::Due {
                assert!(looks >= 2000 / STEP, "it took {looks} looks");
                break;
            }
            assert_eq!(look, Look::Again, "something is due, and may not be missed");
        }
        assert_eq!(wheel.pop().unwrap().1.number, 0);
    }

    #[test]
    fn what_is_due_before_does_not_wait_for_a_large_bucket_and_all_can_be_taken_out_of_it() {
        let mut wheel = Wheel::new(7);
        let begin = 3 * 64 * 64 * SLOT;
        let items = large_bucket(&mut wheel, begin);
        let by = wheel.look_by().unwrap();
        assert_eq!(wheel.look(by), Look::Ahead);
        insert(&mut wheel, by.nanos() - 1, 5000);
        assert_eq!(wheel.look(by), Look::Due);
        assert_eq!(wheel.pop().unwrap().1.number, 5000);
        assert!(items.iter().all(|item| remove(&mut wheel, item)), "they are where they say");
        assert!(wheel.is_empty() && wheel.opening.is_none() && wheel.look_by().is_none());
        assert!(room(&wheel) <= SPARE * SPARE_ROOM, "room for {}", room(&wheel));
    }

    /// Without that one level would have them all.
    #[test]
    fn an_empty_wheel_follows_the_time() {
        let mut wheel = Wheel::new(7);
        let now = 3_000_010 * SLOT;
        wheel.begin_at(tick(now));
        let near = insert(&mut wheel, now + 20 * SLOT, 0);
        let (bucket, _) = far(near.place.get());
        assert_eq!(level_of(bucket).0, 0);
        assert_eq!(wheel.look(tick(now + 10 * SLOT)), Look::Later);
        assert_eq!(wheel.look(tick(now + 20 * SLOT)), Look::Due);
    }

    #[test]
    fn knows_when_the_first_is_due_while_nothing_is_taken_out() {
        let mut wheel = Wheel::new(7);
        for (number, due) in [(0, 900), (1, 7000), (2, 300), (3, 301), (4, 299)] {
            insert(&mut wheel, due * SLOT + 5, number);
        }
        for due in [299, 300, 301, 900, 7000] {
            let exactly = tick(due * SLOT + 5);
            assert_eq!(wheel.first_due(), Some(exactly));
            assert!(pop_due(&mut wheel, tick(due * SLOT + 4)).is_none(), "one nanosecond too early");
            assert!(pop_due(&mut wheel, exactly).is_some());
        }
    }

    /// Whoever sleeps until then wakes once in vain, and then knows.
    #[test]
    fn knows_again_after_the_time_of_one_that_was_taken_out() {
        let mut wheel = Wheel::new(7);
        let first = insert(&mut wheel, 5000 * SLOT, 0);
        insert(&mut wheel, 5100 * SLOT + 7, 1);
        insert(&mut wheel, 8000 * SLOT, 2);
        assert!(remove(&mut wheel, &first));
        let in_vain = wheel.first_due().unwrap();
        assert!(!has_due(&mut wheel, in_vain));
        assert_eq!(wheel.first_due(), Some(tick(5100 * SLOT + 7)));
    }

    #[test]
    fn never_is_after_everything() {
        let mut wheel = Wheel::new(7);
        wheel.insert(Tick::NEVER, 0, Rc::new(Item { number: 0, place: Cell::new(0) }));
        insert(&mut wheel, u64::MAX - 1, 1);
        insert(&mut wheel, 0, 2);
        assert_eq!(pop_due(&mut wheel, tick(0)).unwrap().number, 2);
        assert!(pop_due(&mut wheel, tick(u64::MAX - 2)).is_none());
        assert_eq!(pop_due(&mut wheel, tick(u64::MAX - 1)).unwrap().number, 1);
        assert_eq!(wheel.first_due(), Some(Tick::NEVER));
        assert!(!has_due(&mut wheel, tick(u64::MAX - 1)));
    }

    fn room(wheel: &Wheel) -> usize {
        let room: usize = wheel.buckets.iter().map(|bucket| bucket.entries.capacity()).sum();
        room + wheel.spare.iter().map(Vec::capacity).sum::<usize>()
    }

    fn memory_is_given_back(taken_out: bool) {
        let mut wheel = Wheel::new(7);
        let mut random = random(3);
        let due = |random: &mut dyn FnMut(u64) -> u64| (60_000 + random(60_000)) * SLOT;
        let mut items: Vec<_> =
            (0..100_000).map(|number| insert(&mut wheel, due(&mut random), number)).collect();
        for last in (1..items.len()).rev() {
            items.swap(last, random(last as u64 + 1) as usize);
        }
        while let Some(item) = items.pop() {
            let out = if taken_out { remove } else { discard };
            assert!(out(&mut wheel, &item));
            let buckets: u32 = wheel.occupied.iter().map(|level| level.count_ones()).sum();
            let enough = 4 * (wheel.len() + wheel.dead + FEW * buckets as usize) + SPARE * SPARE_ROOM;
            assert!(room(&wheel) <= 2 * enough, "room for {} with {} left", room(&wheel), wheel.len());
            assert!(wheel.dead <= wheel.len() + FEW && (wheel.dead == 0 || !taken_out));
        }
        assert!(room(&wheel) <= SPARE * SPARE_ROOM, "room for {}", room(&wheel));
    }

    #[test]
    fn memory_is_given_back_while_they_are_taken_out() {
        memory_is_given_back(true);
    }

    #[test]
    fn memory_is_given_back_while_they_are_discarded() {
        memory_is_given_back(false);
    }

    /// More of the dead than of the living may also come of the living being taken.
    #[test]
    fn what_is_dead_is_dropped_when_few_are_alive() {
        let mut wheel = Wheel::new(7);
        let items: Vec<_> =
            (0..1000).map(|number| insert(&mut wheel, 5000 * SLOT + number, number)).collect();
        assert!(items[..400].iter().all(|item| discard(&mut wheel, item)));
        let kept = || items.iter().filter(|item| Rc::strong_count(item) > 1).count();
        assert_eq!((wheel.len(), kept()), (600, 1000), "not touched yet");
        for left in (0..600).rev() {
            assert!(pop_due(&mut wheel, tick(6000 * SLOT)).is_some());
            assert_eq!(wheel.len(), left);
            assert!(kept() <= 2 * left + FEW);
        }
        assert_eq!(kept(), 0);
    }

    #[test]
    fn a_place_in_another_wheel_is_none_in_this() {
        let (mut wheel, mut other) = (Wheel::new(7), Wheel::new(8));
        let of = |wheel: &mut Wheel| -> Vec<_> {
            (0..100).map(|number| insert(wheel, 5000 * SLOT, number)).collect()
        };
        let (mine, others) = (of(&mut wheel), of(&mut other));
        assert!(!others.iter().any(|item| discard(&mut wheel, item)));
        assert_eq!((wheel.len(), other.len()), (100, 100));
        assert!(mine.iter().all(|item| discard(&mut wheel, item)));
    }
}
