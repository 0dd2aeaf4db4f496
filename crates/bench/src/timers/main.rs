//! Measures structures for what waits for its time. The figures and what follows from them: docs/timers.md.
//!
//! `cargo run --release -p bench --bin timers [-- LARGEST]`; the largest number of pending entries is a million if it is
//! not given. One thread; the structures take turns in every round, and a figure is the median of the rounds.

mod arity;
mod clock;
mod lazy;
#[path = "../../../millpond/src/timer_queue.rs"]
#[allow(dead_code, reason = "the file is the library's, and the library uses all of it")]
mod timer_queue;
mod wheel;

use std::hint::black_box;
use std::num::NonZeroU64;
use std::sync::Mutex;
use std::time::Instant;

use clock::Tick;
use timer_queue::{Key, TimerQueue};

/// As large as an `Arc<dyn ..>`, and like that never zero.
type Item = (NonZeroU64, u64);

/// What all structures can do.
trait Timers {
    type Key: Copy;
    fn new() -> Self;
    fn len(&self) -> usize;
    fn insert(&mut self, due: Tick, number: u64, item: Item) -> Self::Key;
    fn remove(&mut self, key: Self::Key) -> Option<Item>;
    fn pop_due(&mut self, now: Tick) -> Option<(Tick, Item)>;
}

impl Timers for TimerQueue<Item> {
    type Key = Key;
    fn new() -> Self {
        TimerQueue::new()
    }
    fn len(&self) -> usize {
        self.len()
    }
    fn insert(&mut self, due: Tick, number: u64, item: Item) -> Key {
        self.insert(due, number, item)
    }
    fn remove(&mut self, key: Key) -> Option<Item> {
        self.remove(key)
    }
    fn pop_due(&mut self, now: Tick) -> Option<(Tick, Item)> {
        self.pop_due(now).map(|(due, _, item)| (due, item))
    }
}

const MINUTE: u64 = 60_000_000_000;

/// A linear congruential generator: the same work for all.
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

fn item(index: usize) -> Item {
    (NonZeroU64::MIN, index as u64)
}

/// Nanoseconds for each of `n` steps of `work`.
fn time<R>(n: usize, work: impl FnOnce() -> R) -> (f64, R) {
    let begin = Instant::now();
    let result = work();
    (begin.elapsed().as_nanos() as f64 / n as f64, result)
}

/// `n` entries due at random within a minute, and their keys.
fn filled<Q: Timers>(n: usize, random: &mut Random) -> (Q, Vec<Q::Key>) {
    let dues: Vec<Tick> = (0..n).map(|_| random.due()).collect();
    let mut keys = Vec::with_capacity(n);
    let mut queue = Q::new();
    for (index, due) in dues.into_iter().enumerate() {
        keys.push(queue.insert(due, index as u64, item(index)));
    }
    (queue, keys)
}

const COLUMNS: [&str; 6] =
    ["insert random", "insert ascending", "cancel random", "pop all", "steady", "steady, whole"];

/// One round of all measurements.
fn round<Q: Timers>(n: usize, seed: u64) -> [f64; COLUMNS.len()] {
    let mut random = Random(seed);
    let dues: Vec<Tick> = (0..n).map(|_| random.due()).collect();
    let mut keys = Vec::with_capacity(n);
    let mut queue = Q::new();
    let (insert_random, ()) = time(n, || {
        for (index, due) in dues.iter().enumerate() {
            keys.push(queue.insert(*due, index as u64, item(index)));
        }
    });
    shuffle(&mut keys, &mut random);
    let (cancel, ()) = time(n, || keys.iter().for_each(|key| assert!(queue.remove(*key).is_some())));
    assert_eq!(queue.len(), 0);
    drop(queue);

    let mut queue = Q::new();
    let (insert_ascending, ()) = time(n, || {
        for index in 0..n {
            black_box(queue.insert(
                Tick::from_nanos(MINUTE + index as u64 * 10_000),
                index as u64,
                item(index),
            ));
        }
    });
    drop(queue);

    let (mut queue, _) = filled::<Q>(n, &mut random);
    let (pop, ()) = time(n, || {
        let mut last = Tick::from_nanos(0);
        while let Some((due, item)) = queue.pop_due(Tick::from_nanos(MINUTE)) {
            assert!(due >= last, "out of order");
            last = due;
            black_box(item);
        }
    });
    assert_eq!(queue.len(), 0);
    drop(queue);

    let steady = steady::<Q>(n, &mut random);
    let whole = steady_whole::<Q>(n, &mut random);
    [insert_random, insert_ascending, cancel, pop, steady, whole]
}

fn shuffle<T>(items: &mut [T], random: &mut Random) {
    for index in (1..items.len()).rev() {
        items.swap(index, random.below(index as u64 + 1) as usize);
    }
}

/// `n` are pending. In each of `n` steps one leaves and one comes, due within a minute: of ten that leave nine are
/// cancelled, and one falls due.
fn steady<Q: Timers>(n: usize, random: &mut Random) -> f64 {
    let (mut queue, mut keys) = filled::<Q>(n, random);
    let mut now = 0;
    let work = || (n..2 * n).for_each(|number| _ = step(&mut queue, &mut keys, &mut now, number, random));
    time(n, work).0
}

/// The same, with what a pool does besides: it locks for each change, and what is run is allocated and freed.
fn steady_whole<Q: Timers>(n: usize, random: &mut Random) -> f64 {
    let (queue, keys) = filled::<Q>(n, random);
    let mut tasks: Vec<Box<[u64; 16]>> = (0..n).map(|index| Box::new([index as u64; 16])).collect();
    let queue = Mutex::new((queue, keys, 0));
    let work = || {
        for number in n..2 * n {
            let task = Box::new([number as u64; 16]);
            let mut locked = queue.lock().expect("nobody panics");
            let (timers, keys, now) = &mut *locked;
            let index = step(timers, keys, now, number, random);
            drop(locked);
            tasks[index] = task;
            drop(black_box(queue.lock()));
        }
    };
    time(n, work).0
}

/// Returns the index of the entry that left and of the one that came.
fn step<Q: Timers>(
    queue: &mut Q,
    keys: &mut [Q::Key],
    now: &mut u64,
    number: usize,
    random: &mut Random,
) -> usize {
    let index = if random.below(10) > 0 {
        let index = random.below(keys.len() as u64) as usize;
        assert!(queue.remove(keys[index]).is_some());
        index
    } else {
        let (due, item) = queue.pop_due(Tick::from_nanos(u64::MAX - 1)).expect("many are pending");
        *now = due.nanos();
        item.1 as usize
    };
    let due = Tick::from_nanos(*now + random.below(MINUTE));
    keys[index] = queue.insert(due, number as u64, item(index));
    index
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

type Round = fn(usize, u64) -> [f64; COLUMNS.len()];

const STRUCTURES: [(&str, Round); 6] = [
    ("kept: 4-ary heap", round::<TimerQueue<Item>>),
    ("2-ary", round::<arity::Heap<2>>),
    ("4-ary, never cut", round::<arity::Heap<4>>),
    ("8-ary", round::<arity::Heap<8>>),
    ("lazy deletion", round::<lazy::Lazy>),
    ("wheel", round::<wheel::Wheel>),
];

fn main() {
    let largest = std::env::args().nth(1).map_or(Ok(1_000_000), |n| n.parse::<usize>());
    let Ok(largest) = largest else {
        eprintln!("usage: timers [LARGEST]");
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
