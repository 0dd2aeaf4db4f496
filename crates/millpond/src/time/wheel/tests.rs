//! Tests of the timer wheel: compared with a sorted list, memory, removal, and forgotten entries.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::*;
use crate::time::heap::tests::{random, tick};

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

/// Cancels an item as a pool does.
#[expect(unsafe_code, reason = "what is forgotten is dropped by hand")]
fn discard(wheel: &mut Wheel, item: &Rc<Item>) -> bool {
    if !wheel.forget(item.place.get()) {
        return remove(wheel, item);
    }
    item.moved_to(NOWHERE);
    // SAFETY: the wheel held a reference of its own, which it has forgotten.
    unsafe { Rc::decrement_strong_count(Rc::as_ptr(item)) };
    true
}

/// Returns the number of items to which the wheel holds a reference.
fn held(items: &[Rc<Item>]) -> usize {
    items.iter().filter(|item| Rc::strong_count(item) > 1).count()
}

/// Calls `look` until the answer is definite.
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

const SLOT: u64 = 1 << SLOT_BITS;

/// Compares with a sorted list under a random mixture of insertions, removals and pops, with time
/// that moves forwards and backwards, and with delays for all levels.
#[test]
fn behaves_like_a_sorted_list() {
    let mut random = random(42);
    let (mut opened_ahead, mut with_forgotten) = (0, 0);
    for round in 0..150 {
        let mut wheel = Wheel::new(7);
        let mut model: BTreeMap<(u64, u64), Rc<Item>> = BTreeMap::new();
        let mut gone: Vec<Rc<Item>> = Vec::new();
        let (mut now, most) = (0, 1 + random(400));
        for number in 0..1500 {
            // From a few nanoseconds to five centuries; coarse, so that several are due at the same
            // time.
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
            assert!(wheel.first_due() <= first, "no thread may wait too long");
            assert!(wheel.look_by() <= wheel.first_due());
            opened_ahead += u32::from(wheel.opening.is_some());
            with_forgotten += u32::from(wheel.buckets.iter().any(Bucket::has_forgotten));
        }
        assert!(!gone.iter().any(|item| remove(&mut wheel, item)), "a place is valid once");
        assert!(!gone.iter().any(|item| discard(&mut wheel, item)), "a place is valid once");
        assert_eq!(held(&gone), 0, "removed items are not kept");
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
    assert!(with_forgotten > 1000, "only {with_forgotten} steps found any forgotten");
}

/// Inserts entries that are due from `begin` on, about one per slot, into a bucket of the third
/// level.
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
        let moves = moved(&before, &places());
        assert!(moves <= STEP * 4, "{moves} were moved");
        if look == Look::Due {
            assert!(looks >= 2000 / STEP, "it took {looks} looks");
            break;
        }
        assert_eq!(look, Look::Again, "something is due, and may not be missed");
    }
    assert_eq!(wheel.pop().unwrap().1.number, 0);
}

/// Returns the number of places that have changed.
fn moved(before: &[u64], after: &[u64]) -> usize {
    before.iter().zip(after).filter(|(before, after)| before != after).count()
}

#[test]
fn a_removal_moves_few_others_and_all_are_found_again() {
    for out in [remove, discard] {
        let mut wheel = Wheel::new(7);
        let mut random = random(11);
        let mut items = large_bucket(&mut wheel, 3 * 64 * 64 * SLOT);
        let mut all_moves = 0;
        while !items.is_empty() {
            let item = items.swap_remove(random(items.len() as u64) as usize);
            let places = || items.iter().map(|item| item.place.get()).collect::<Vec<_>>();
            let before = places();
            assert!(out(&mut wheel, &item));
            let moves = moved(&before, &places());
            assert!(moves <= STEP, "{moves} were moved");
            all_moves += moves;
        }
        assert!(wheel.is_empty());
        assert!((1..500).contains(&all_moves), "{all_moves} moves for 2000 that were taken out");
    }
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
    assert!(capacity(&wheel) <= SPARE * SPARE_CAPACITY, "capacity of {}", capacity(&wheel));
}

/// Without `begin_at`, one level would hold all entries.
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

/// A thread that waits for a removed entry wakes up once too early, and then knows the right time.
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

fn capacity(wheel: &Wheel) -> usize {
    let room: usize = wheel.buckets.iter().map(Bucket::capacity).sum();
    room + wheel.spare.iter().map(Vec::capacity).sum::<usize>()
}

fn memory_is_given_back(after_removal: bool) {
    let mut wheel = Wheel::new(7);
    let mut random = random(3);
    let due = |random: &mut dyn FnMut(u64) -> u64| (60_000 + random(60_000)) * SLOT;
    let mut items: Vec<_> = (0..100_000).map(|number| insert(&mut wheel, due(&mut random), number)).collect();
    for last in (1..items.len()).rev() {
        items.swap(last, random(last as u64 + 1) as usize);
    }
    while let Some(item) = items.pop() {
        let out = if after_removal { remove } else { discard };
        assert!(out(&mut wheel, &item));
        let buckets: u32 = wheel.occupied.iter().map(|level| level.count_ones()).sum();
        let enough = 4 * (wheel.len() + bucket::FEW * buckets as usize) + SPARE * SPARE_CAPACITY;
        assert!(capacity(&wheel) <= 2 * enough, "room for {} with {} left", capacity(&wheel), wheel.len());
    }
    assert!(capacity(&wheel) <= SPARE * SPARE_CAPACITY, "capacity of {}", capacity(&wheel));
}

#[test]
fn memory_is_given_back_while_they_are_taken_out() {
    memory_is_given_back(true);
}

#[test]
fn memory_is_given_back_while_they_are_discarded() {
    memory_is_given_back(false);
}

/// In a large bucket, in a small bucket, and near: the wheel drops everything except the entries
/// that it has forgotten.
#[test]
fn a_wheel_that_is_dropped_drops_all_but_what_it_has_forgotten() {
    let mut wheel = Wheel::new(7);
    let due = |number: u64| [5000 * SLOT + number, 5200 * SLOT, 0][(number % 100 / 40) as usize];
    let items: Vec<_> = (0..1000).map(|number| insert(&mut wheel, due(number), number)).collect();
    let (gone, left) = items.split_at(450);
    assert!(gone.iter().all(|item| discard(&mut wheel, item)));
    assert!(wheel.buckets.iter().any(Bucket::has_forgotten));
    assert_eq!((wheel.len(), held(gone), held(left)), (550, 0, 550));
    drop(wheel);
    assert_eq!(held(left), 0);
}

/// Forgotten entries at the end of a bucket that is opened, between other entries, and as its only
/// entries.
#[test]
fn what_is_forgotten_does_not_come_back_when_its_bucket_is_opened() {
    let mut wheel = Wheel::new(7);
    let items: Vec<_> = (0..1000).map(|number| insert(&mut wheel, 5000 * SLOT + number, number)).collect();
    let is_gone = |number: u64| number < 100 || number.is_multiple_of(3) || number > 900;
    let gone = items.iter().filter(|item| is_gone(item.number));
    gone.for_each(|item| assert!(discard(&mut wheel, item)));
    let popped: Vec<_> = std::iter::from_fn(|| pop_due(&mut wheel, tick(6000 * SLOT))).collect();
    let expected: Vec<_> = (0..1000).filter(|number| !is_gone(*number)).collect();
    assert_eq!(popped.iter().map(|item| item.number).collect::<Vec<_>>(), expected);
}

/// With more wheels than marks, a place still allows `remove` but not `forget`.
#[test]
fn a_wheel_without_a_mark_of_its_own_forgets_nothing() {
    let mut wheel = Wheel::new(u64::MAX);
    let item = insert(&mut wheel, 5000 * SLOT, 1);
    assert!(!wheel.forget(item.place.get()) && wheel.len() == 1);
    assert!(remove(&mut wheel, &item));
}

#[test]
fn an_item_that_is_to_be_looked_at_is_removed_and_never_forgotten() {
    let mut wheel = Wheel::new(7);
    let (far, near) = (insert(&mut wheel, 5000 * SLOT, 1), insert(&mut wheel, 0, 2));
    for item in [&far, &near] {
        item.place.set(to_be_looked_at(item.place.get()));
        assert!(!wheel.forget(item.place.get()));
        assert!(remove(&mut wheel, item));
    }
    assert_eq!(to_be_looked_at(NOWHERE), NOWHERE);
}

#[test]
fn a_place_in_another_wheel_is_none_in_this() {
    let (mut wheel, mut other) = (Wheel::new(7), Wheel::new(8));
    let of =
        |wheel: &mut Wheel| -> Vec<_> { (0..100).map(|number| insert(wheel, 5000 * SLOT, number)).collect() };
    let (mine, others) = (of(&mut wheel), of(&mut other));
    assert!(!others.iter().any(|item| discard(&mut wheel, item)));
    assert_eq!((wheel.len(), other.len()), (100, 100));
    assert!(mine.iter().all(|item| discard(&mut wheel, item)));
}
