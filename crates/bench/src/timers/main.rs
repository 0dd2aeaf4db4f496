//! Measures timer structures. Figures and conclusions: docs/timers.md.
//!
//! `cargo run --release -p bench --bin timers [-- LARGEST]`. The largest number of pending entries
//! is a million by default. One thread; the structures take turns in every round, and a figure is
//! the median of the rounds. `-- lateness` shows instead how late the timers of a whole pool fire,
//! over time. `-- whole [N [ROUNDS]]` shows the cost of inserting N timers into a whole pool and
//! cancelling them.

mod arity;
mod kept;
mod lateness;
mod lazy;
mod linked;
#[path = "../../../millpond/src/time"]
#[allow(dead_code, unused_imports, reason = "the files are the library's, and the library uses all of them")]
mod time {
    pub(crate) mod heap;
    pub(crate) mod tick;
    pub(crate) mod wheel;
    pub(crate) mod clock {
        pub(crate) use super::tick::Tick;
    }
}
/// The parts of the library's `sync` that these files use.
mod sync {
    pub(crate) const IN_MODEL: bool = false;
}
mod whole;

use std::cell::Cell;
use std::hint::black_box;
use std::rc::Rc;
use std::sync::Mutex;
use std::time::Instant;

use time::heap::TimerQueue;
use time::tick::Tick;
use time::wheel::TimerWheel;

/// A timer: a task of 128 bytes that knows its place. A canceller holds a reference to it.
struct Timer {
    index: usize,
    /// The place, as reported by its structure.
    place: Cell<u64>,
    _closure_and_result: [u64; 12],
}

type Item = Rc<Timer>;

impl Timer {
    fn new(index: usize) -> Item {
        Rc::new(Timer { index, place: Cell::new(u64::MAX), _closure_and_result: [0; 12] })
    }

    /// For structures that keep entries in slots.
    fn set_key(&self, slot: u32, generation: u32) {
        self.place.set(u64::from(generation) << 32 | u64::from(slot));
    }

    fn key(&self) -> (u32, u32) {
        (self.place.get() as u32, (self.place.get() >> 32) as u32)
    }
}

/// The operations of all structures.
trait Timers {
    fn new() -> Self;
    fn len(&self) -> usize;
    fn insert(&mut self, due: Tick, number: u64, item: Item);
    fn remove(&mut self, item: &Item) -> Option<Item>;
    fn pop_due(&mut self, now: Tick) -> Option<(Tick, Item)>;
}

const MINUTE: u64 = 60_000_000_000;

/// A linear congruential generator: all structures do the same work.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((u128::from(self.0) * u128::from(bound)) >> 64) as u64
    }
    fn due(&mut self) -> Tick {
        Tick::from_nanos(self.below(MINUTE))
    }
}

/// Nanoseconds for each of `n` steps of `work`.
fn time<R>(n: usize, work: impl FnOnce() -> R) -> (f64, R) {
    let begin = Instant::now();
    let result = work();
    (begin.elapsed().as_nanos() as f64 / n as f64, result)
}

fn items(n: usize) -> Vec<Item> {
    (0..n).map(Timer::new).collect()
}

/// `n` entries due at random within a minute, and their items.
fn filled<Q: Timers>(n: usize, random: &mut Random) -> (Q, Vec<Item>) {
    let (mut queue, items) = (Q::new(), items(n));
    for (index, item) in items.iter().enumerate() {
        queue.insert(random.due(), index as u64, Rc::clone(item));
    }
    (queue, items)
}

const COLUMNS: [&str; 7] = [
    "insert random",
    "insert ascending",
    "cancel random",
    "cancel, whole",
    "pop all",
    "steady",
    "steady, whole",
];

/// One round of all measurements.
fn round<Q: Timers>(n: usize, seed: u64) -> [f64; COLUMNS.len()] {
    let mut random = Random(seed);
    let dues: Vec<Tick> = (0..n).map(|_| random.due()).collect();
    let mut all = items(n);
    let mut queue = Q::new();
    let (insert_random, ()) = time(n, || {
        for (index, (due, item)) in dues.iter().zip(&all).enumerate() {
            queue.insert(*due, index as u64, Rc::clone(item));
        }
    });
    shuffle(&mut all, &mut random);
    let (cancel, ()) = time(n, || all.iter().for_each(|item| assert!(queue.remove(item).is_some())));
    assert_eq!(queue.len(), 0);
    drop((queue, all));

    let cancel_whole = cancel_whole::<Q>(n, &mut random);

    let (mut queue, all) = (Q::new(), items(n));
    let (insert_ascending, ()) = time(n, || {
        for (index, item) in all.iter().enumerate() {
            let due = Tick::from_nanos(MINUTE + index as u64 * 10_000);
            queue.insert(due, index as u64, Rc::clone(item));
        }
    });
    drop((queue, all));

    let (mut queue, all) = filled::<Q>(n, &mut random);
    let (pop, ()) = time(n, || {
        let mut last = Tick::from_nanos(0);
        while let Some((due, item)) = queue.pop_due(Tick::from_nanos(MINUTE)) {
            assert!(due >= last, "out of order");
            last = due;
            black_box(item);
        }
    });
    assert_eq!(queue.len(), 0);
    drop((queue, all));

    let steady = steady::<Q>(n, &mut random);
    let whole = steady_whole::<Q>(n, &mut random);
    [insert_random, insert_ascending, cancel, cancel_whole, pop, steady, whole]
}

/// Cancels all entries as a pool does: each item is freed with its last reference, and the queue is
/// locked for each. A lock waits for all earlier memory accesses, so cancels cannot overlap.
fn cancel_whole<Q: Timers>(n: usize, random: &mut Random) -> f64 {
    let (queue, mut items) = filled::<Q>(n, random);
    shuffle(&mut items, random);
    let queue = Mutex::new(queue);
    let cancel = |item: Item| {
        let removed = queue.lock().expect("nobody panics").remove(&item);
        assert!(removed.is_some());
    };
    time(n, || items.into_iter().for_each(cancel)).0
}

fn shuffle<T>(items: &mut [T], random: &mut Random) {
    for index in (1..items.len()).rev() {
        items.swap(index, random.below(index as u64 + 1) as usize);
    }
}

/// `n` entries are pending. In each of `n` steps one leaves and one is inserted, due within a
/// minute. Of ten that leave, nine are cancelled and one is due.
fn steady<Q: Timers>(n: usize, random: &mut Random) -> f64 {
    let (mut queue, items) = filled::<Q>(n, random);
    let mut now = 0;
    let work = || {
        for number in n..2 * n {
            let item = leave(&mut queue, &items, &mut now, random);
            let due = Tick::from_nanos(now + random.below(MINUTE));
            queue.insert(due, number as u64, item);
        }
    };
    time(n, work).0
}

/// The same with the other work of a pool: a lock for each change, and allocation of the items.
fn steady_whole<Q: Timers>(n: usize, random: &mut Random) -> f64 {
    let (queue, mut items) = filled::<Q>(n, random);
    let queue = Mutex::new(queue);
    let mut now = 0;
    let work = || {
        for number in n..2 * n {
            let left = leave(&mut *queue.lock().expect("nobody panics"), &items, &mut now, random);
            let index = left.index;
            items[index] = Timer::new(index);
            drop(left);
            let due = Tick::from_nanos(now + random.below(MINUTE));
            let item = Rc::clone(&items[index]);
            queue.lock().expect("nobody panics").insert(due, number as u64, item);
        }
    };
    time(n, work).0
}

/// One entry leaves.
fn leave<Q: Timers>(queue: &mut Q, items: &[Item], now: &mut u64, random: &mut Random) -> Item {
    if random.below(10) > 0 {
        let item = &items[random.below(items.len() as u64) as usize];
        return queue.remove(item).expect("it is pending");
    }
    let (due, item) = queue.pop_due(Tick::from_nanos(u64::MAX - 1)).expect("many are pending");
    *now = due.nanos();
    item
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

type Round = fn(usize, u64) -> [f64; COLUMNS.len()];

const STRUCTURES: [(&str, Round); 7] = [
    ("used: wheel with tombstones", round::<TimerWheel<Item>>),
    ("wheel of linked lists", round::<linked::Wheel>),
    ("4-ary heap", round::<TimerQueue<Item>>),
    ("2-ary", round::<arity::Heap<2>>),
    ("4-ary, never shrunk", round::<arity::Heap<4>>),
    ("8-ary", round::<arity::Heap<8>>),
    ("lazy deletion", round::<lazy::Lazy>),
];

fn main() {
    let number = |at, otherwise| std::env::args().nth(at).and_then(|n| n.parse().ok()).unwrap_or(otherwise);
    match std::env::args().nth(1).as_deref() {
        Some("lateness") => return lateness::main(),
        Some("whole") => return whole::main(number(2, 100_000), number(3, 15)),
        _ => {}
    }
    let largest = std::env::args().nth(1).map_or(Ok(1_000_000), |n| n.parse::<usize>());
    let Ok(largest) = largest else {
        eprintln!("usage: timers [LARGEST | lateness | whole [N [ROUNDS]]]");
        std::process::exit(2);
    };
    println!("| pending | structure | {} |", COLUMNS.join(" | "));
    println!("|---|---|{}", "---:|".repeat(COLUMNS.len()));
    for n in [1_000, 10_000, 100_000, 1_000_000].into_iter().filter(|n| *n <= largest) {
        let rounds = (3_000_000 / n).clamp(9, 201) as u64;
        let mut figures = vec![vec![Vec::new(); COLUMNS.len()]; STRUCTURES.len()];
        for seed in 0..rounds {
            for (structure, (_, round)) in STRUCTURES.iter().enumerate() {
                let row = round(n, seed);
                row.iter().zip(&mut figures[structure]).for_each(|(figure, all)| all.push(*figure));
            }
        }
        for ((name, _), columns) in STRUCTURES.iter().zip(figures) {
            let medians: Vec<String> = columns.into_iter().map(|all| format!("{:.0}", median(all))).collect();
            println!("| {n} | {name} | {} |", medians.join(" | "));
        }
    }
}
