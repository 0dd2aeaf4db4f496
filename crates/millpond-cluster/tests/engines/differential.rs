//! Random operations on the memory engine and on SQLite: equal answers and equal records after each
//! step.

use std::time::Duration;

use millpond_cluster::engine::*;
use millpond_cluster::state::{Options, Record, UniqueKey};
use millpond_cluster::{DeadReason, Mode, Priority, Retention, Unique};

use crate::common::Folder;
use crate::kit::*;

const SEEDS: u64 = 30;
const STEPS: usize = 150;
const IDS: u128 = 24;

/// A small generator: a seed gives the same sequence on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) % n
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

fn random_task(random: &mut Random) -> NewTask {
    let mut new = task(u128::from(random.below(IDS as u64)));
    new.class = Priority::ALL[random.below(3) as usize];
    new.delay = seconds(if random.chance(30) { random.below(20) } else { 0 });
    new.deadline = random.chance(20).then(|| seconds(5 + random.below(60)));
    if random.chance(40) {
        let until =
            [Unique::UntilDone, Unique::UntilStarted, Unique::For(seconds(15))][random.below(3) as usize];
        new.options = Options {
            max_attempts: random.chance(50).then(|| 1 + random.below(3) as u32),
            max_crashes: random.chance(50).then(|| 1 + random.below(3) as u32),
            keep_result_ms: random.chance(50).then(|| random.below(40_000)),
            unique: random.chance(50).then(|| UniqueKey { key: format!("k{}", random.below(3)), until }),
            ..Options::default()
        };
    }
    new
}

fn random_verdict(random: &mut Random) -> Verdict {
    match random.below(6) {
        0 | 1 => Verdict::Succeeded(vec![0; random.below(50) as usize]),
        2 => retry_in(random.below(10)),
        3 => failed("never again", Retry::Never(DeadReason::Permanent)),
        4 => Verdict::GivenBack,
        _ => {
            if random.chance(50) {
                Verdict::NoHandler
            } else {
                Verdict::Cancelled
            }
        }
    }
}

/// A current fence, or sometimes an outdated one.
fn random_fence(random: &mut Random) -> Fence {
    Fence { id: id(u128::from(random.below(IDS as u64))), attempt: 1 + random.below(3) as u32 }
}

/// Applies one random operation to an engine and describes the answer.
fn step(random: &mut Random, kit: &Kit) -> String {
    let engine = &kit.engine;
    let n = 1 + random.below(3) as u32;
    match random.below(12) {
        0..=2 => {
            let tasks: Vec<NewTask> = (0..random.below(4)).map(|_| random_task(random)).collect();
            format!("submit {:?}", engine.submit(&tasks).unwrap())
        }
        3 | 4 => {
            let ask =
                Claim { max_suspects: random.below(2) as usize, ..kit.ask(n, random.below(5) as usize) };
            format!("claim {:?}", engine.claim(&ask).unwrap())
        }
        5..=7 => {
            let reports: Vec<Report> = (0..4)
                .map(|_| Report { fence: random_fence(random), verdict: random_verdict(random) })
                .collect();
            let settle = Settle { worker: &worker(n), local: None, reports: &reports };
            format!("settle {:?}", engine.settle(&settle).unwrap())
        }
        8 => {
            let held = [(random_fence(random), random.chance(30).then(|| vec![1, 2]))];
            format!("renew {:?}", engine.renew(&worker(n), seconds(1 + random.below(40)), &held).unwrap())
        }
        9 => format!("cancel {:?}", engine.cancel(&[random_fence(random).id]).unwrap()),
        10 => format!("tick {:?}", engine.tick(QUEUE, 1 + random.below(4) as usize).unwrap()),
        _ => {
            let mode =
                [Mode::Open, Mode::Open, Mode::Open, Mode::Paused, Mode::Closed][random.below(5) as usize];
            let capacity = random.chance(30).then(|| random.chance(50).then(|| 1 + random.below(8)));
            let retention = random
                .chance(20)
                .then(|| Retention { records: random.below(10), bytes: 200 + random.below(3000) });
            let change = QueueChange { mode: Some(mode), capacity, retention };
            format!("queue {:?}", engine.queue(QUEUE, &change).unwrap())
        }
    }
}

/// Positions differ, because SQLite reuses those of deleted rows. The order of the list is compared
/// instead.
fn records(kit: &Kit) -> Vec<Record> {
    let ask = Browse { limit: 500, ..Browse::default() };
    let page = kit.engine.browse(&ask).unwrap();
    page.records.into_iter().map(|record| Record { seq: 0, ..record }).collect()
}

#[test]
fn memory_and_sqlite_agree_on_random_sequences() {
    let seeds = std::env::var("MILLPOND_DIFFERENTIAL_SEEDS").map_or(SEEDS, |seeds| seeds.parse().unwrap());
    let folder = Folder::new("differential");
    for seed in 0..seeds {
        let memory = Kit::new(|clock| Box::new(MemoryEngine::with_clock(clock)));
        let path = folder.path(&format!("{seed}.db"));
        let open = |clock| SqliteEngine::open_with_clock(&path, Durability::Relaxed, clock).unwrap();
        let sqlite = Kit::new(|clock| Box::new(open(clock)));
        let mut random = Random(seed);
        for number in 0..STEPS {
            let time =
                if random.chance(60) { Duration::from_millis(random.below(20_000)) } else { Duration::ZERO };
            let state = random.0;
            let answers = [&memory, &sqlite].map(|kit| {
                kit.clock.advance(time);
                random.0 = state;
                step(&mut random, kit)
            });
            assert_eq!(answers[0], answers[1], "seed {seed}, step {number}");
            let (left, right) = (records(&memory), records(&sqlite));
            assert_eq!(left.len(), right.len(), "seed {seed}, step {number}: {}", answers[0]);
            for (left, right) in left.iter().zip(&right) {
                assert_eq!(left, right, "seed {seed}, step {number}: {}", answers[0]);
            }
            let stats =
                [&memory, &sqlite].map(|kit| kit.engine.queue(QUEUE, &QueueChange::default()).unwrap());
            assert_eq!(stats[0], stats[1], "seed {seed}, step {number}: {}", answers[0]);
        }
        drop(sqlite);
        std::fs::remove_file(path).unwrap();
    }
}
