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
//! A bucket knows the earliest time that was put into it. That is when its first entry is due, unless just that one
//! has been taken out: then it is a time before that. So whoever sleeps until [`TimerWheel::look_by`] never sleeps
//! too long, and wakes in vain only if the entry that it waits for is taken out meanwhile, which is the same with a heap, or
//! if there is a large bucket to open. `docs/timers.md` has the measurements.

use crate::clock::Tick;
use crate::timer_queue::{Key, TimerQueue};

/// An item that is told where it is. The place is valid until the item is told of another, or is taken out.
pub(crate) trait Placed {
    fn moved_to(&self, place: u64);
}

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
    /// So many are not holes.
    len: usize,
    /// None of them is due before that.
    earliest: Tick,
}

impl<T> Bucket<T> {
    const EMPTY: Self = Bucket { entries: Vec::new(), len: 0, earliest: Tick::NEVER };

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

/// Set in the place of an entry in a bucket, which says which bucket and where in it. The place of a near one is its key,
/// in which this bit is never set.
const FAR: u64 = 1 << 63;

#[expect(clippy::cast_possible_truncation, reason = "the two halves")]
fn far(place: u64) -> (usize, usize) {
    ((place & !FAR) as usize >> 32, place as u32 as usize)
}

/// A queue in time.
#[derive(Debug)]
pub(crate) struct TimerWheel<T> {
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
    pub(crate) fn new() -> Self {
        TimerWheel {
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
        let entry = self.buckets.get(bucket)?.entries.get(at)?.as_ref()?;
        is_it(&entry.item).then_some(entry.due)
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
        let hole = self.buckets.get_mut(bucket)?.entries.get_mut(at)?;
        let entry = hole.take_if(|entry| is_it(&entry.item))?;
        self.len -= 1;
        self.made_hole(bucket);
        Some(entry.item)
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
                Err(item) => kept.push(Entry { due, number, item }),
            }
        }
        for entry in kept {
            self.place(entry);
        }
        let mut far = Vec::new();
        for bucket in 0..self.buckets.len() {
            let before = far.len();
            for hole in &mut self.buckets[bucket].entries {
                let Some(Entry { due, number, item }) = hole.take() else { continue };
                match take(item, due) {
                    Ok(item) => far.push((due, number, item)),
                    Err(item) => *hole = Some(Entry { due, number, item }),
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
        bucket.push(number, entry);
        bucket.open_by()
    }

    /// An entry has been taken out of a bucket.
    fn made_hole(&mut self, number: usize) {
        let bucket = &mut self.buckets[number];
        bucket.len -= 1;
        if bucket.len == 0 {
            self.emptied(number);
            self.note_first();
        } else if bucket.len + FEW < bucket.entries.len() / 4 {
            bucket.squeeze(number);
        }
    }

    /// Nothing is left in a bucket.
    fn emptied(&mut self, number: usize) {
        let (level, digit) = level_of(number);
        self.occupied[level] &= !(1 << digit);
        self.opening.take_if(|opening| *opening == number);
        let bucket = std::mem::replace(&mut self.buckets[number], Bucket::EMPTY);
        self.keep(bucket.entries);
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
    fn push(&mut self, number: usize, entry: Entry<T>) {
        entry.item.moved_to(place_in(number, self.entries.len()));
        self.earliest = self.earliest.min(entry.due);
        self.len += 1;
        self.entries.push(Some(entry));
    }

    /// Moves the entries together.
    #[cold]
    fn squeeze(&mut self, number: usize) {
        self.entries.retain(Option::is_some);
        self.entries.shrink_to(2 * self.len);
        for (at, entry) in self.entries.iter().flatten().enumerate() {
            entry.item.moved_to(place_in(number, at));
        }
    }
}

fn place_in(bucket: usize, at: usize) -> u64 {
    let at = u32::try_from(at).expect("four thousand million entries do not fit into memory");
    FAR | (bucket as u64) << 32 | u64::from(at)
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
        let mut opened_ahead = 0;
        for round in 0..150 {
            let mut wheel = Wheel::new();
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
                        assert!(remove(&mut wheel, &item));
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
            }
            assert!(!gone.iter().any(|item| remove(&mut wheel, item)), "a place serves once");
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
    }

    /// Due at `begin` and then every slot or so, in a bucket of the third level.
    fn large_bucket(wheel: &mut Wheel, begin: u64) -> Vec<Rc<Item>> {
        (0..2000).map(|number| insert(wheel, begin + number * SLOT, number)).collect()
    }

    #[test]
    fn a_large_bucket_is_open_when_its_first_entry_is_due() {
        let mut wheel = Wheel::new();
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
        let mut wheel = Wheel::new();
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
        let mut wheel = Wheel::new();
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
        let mut wheel = Wheel::new();
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
        let mut wheel = Wheel::new();
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
        let mut wheel = Wheel::new();
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
        let mut wheel = Wheel::new();
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

    #[test]
    fn memory_is_given_back_while_they_are_cancelled() {
        let mut wheel = Wheel::new();
        let mut random = random(3);
        let due = |random: &mut dyn FnMut(u64) -> u64| (60_000 + random(60_000)) * SLOT;
        let mut items: Vec<_> =
            (0..100_000).map(|number| insert(&mut wheel, due(&mut random), number)).collect();
        for last in (1..items.len()).rev() {
            items.swap(last, random(last as u64 + 1) as usize);
        }
        while let Some(item) = items.pop() {
            assert!(remove(&mut wheel, &item));
            let buckets: u32 = wheel.occupied.iter().map(|level| level.count_ones()).sum();
            let enough = 4 * (wheel.len() + FEW * buckets as usize) + SPARE * SPARE_ROOM;
            assert!(room(&wheel) <= 2 * enough, "room for {} with {} left", room(&wheel), wheel.len());
        }
        assert!(room(&wheel) <= SPARE * SPARE_ROOM, "room for {}", room(&wheel));
    }
}
