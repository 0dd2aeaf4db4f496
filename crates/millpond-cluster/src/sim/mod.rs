//! Deterministic simulation with faults: the real state machine, memory engine and ledger in
//! virtual time.
//!
//! One thread, one seed, no clock. Requests and replies are lost, duplicated and delayed; workers
//! crash, stall and drain; the engine restarts without its latest writes; its clock jumps; every
//! hint is lost. The invariants are checked after each step. A failure prints its seed. Deliberate
//! faults ([`Mutant`]) must be found.

mod check;
mod client;
mod world;

use self::world::World;

/// A deliberate fault in an engine or a worker. The simulation must find each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mutant {
    None,
    /// The fence does not compare the owner.
    FenceWithoutOwner,
    /// The fence does not compare the attempt.
    FenceWithoutAttempt,
    /// A worker reports success before its handler has run.
    AckBeforeRun,
    /// Giving a task back lowers its attempt.
    AttemptLowered,
    /// Expiry writes what it read earlier, without checking again.
    MaintenanceWithoutGuard,
    /// Each renewal omits its last task.
    RenewAllButLast,
    /// Leases are never renewed.
    NoRenewal,
    /// A worker looks for work only when it gets a hint.
    NoSafetyPoll,
    /// Workers tick too rarely.
    SlowTick,
    /// A tick handles everything that is due, without a limit.
    UnboundedBatch,
}

impl Mutant {
    const ALL: [Mutant; 10] = [
        Mutant::FenceWithoutOwner,
        Mutant::FenceWithoutAttempt,
        Mutant::AckBeforeRun,
        Mutant::AttemptLowered,
        Mutant::MaintenanceWithoutGuard,
        Mutant::RenewAllButLast,
        Mutant::NoRenewal,
        Mutant::NoSafetyPoll,
        Mutant::SlowTick,
        Mutant::UnboundedBatch,
    ];
}

/// SplitMix64: the same sequence everywhere.
#[derive(Debug)]
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

/// How many seeds to run: `MILLPOND_SIM_SEEDS`, or the default.
fn seeds(default: u64) -> u64 {
    std::env::var("MILLPOND_SIM_SEEDS").map_or(default, |seeds| seeds.parse().expect("a number of seeds"))
}

#[test]
fn no_seed_breaks_an_invariant() {
    let from: u64 = std::env::var("MILLPOND_SIM_FROM").map_or(0, |from| from.parse().expect("a seed"));
    let mut steps = 0;
    for seed in from..from + seeds(300) {
        match World::new(seed, Mutant::None).run() {
            Ok(world) => steps += world.steps,
            Err(error) => {
                panic!("seed {seed}: {error} (repeat with MILLPOND_SIM_FROM={seed} MILLPOND_SIM_SEEDS=1)")
            }
        }
    }
    eprintln!("{} seeds, {steps} steps", seeds(300));
}

#[test]
fn same_seed_takes_the_same_steps() {
    for seed in 0..5 {
        let [first, second] = [(); 2].map(|()| World::new(seed, Mutant::None).run().expect("it is sound"));
        assert_eq!((first.steps, first.now), (second.steps, second.now), "seed {seed}");
    }
}

#[test]
fn every_mutant_is_caught() {
    for mutant in Mutant::ALL {
        let caught =
            (0..3000).find_map(|seed| World::new(seed, mutant).run().err().map(|error| (seed, error)));
        let (seed, error) = caught.unwrap_or_else(|| panic!("{mutant:?} was not caught"));
        eprintln!("{mutant:?}: seed {seed}: {error}");
    }
}
