//! Discrete-event simulation of a millpond thread pool.
//!
//! Tasks arrive, are admitted by [`millpond::growth::admit`] (the function that the real pool
//! calls), wait, run and end. Time is virtual and counted in whole nanoseconds, so hours of virtual
//! time take a fraction of a second. The same tasks give identical figures on every machine.
//!
//! # Examples
//! ```
//! use millpond_sim::{Arrivals, Kind, Length, Limit, Mix, Observe, Pool, Stream, World, simulate};
//!
//! let pool = Pool { maximum: 4, ..Pool::fixed(2, Some(4)) };
//! // Nine tasks of one second at once: two core threads take two, the queue takes four, two extra
//! // threads take two, and one is rejected.
//! let second = Mix::new(vec![Kind { weight: 1.0, length: Length::Fixed(1e9), cpu: 0.0 }]);
//! let nine = Stream::new(&[Arrivals::Burst { count: 9, every: None }], Limit::None, &second, 1);
//! let world = World { cores: 1, one_caller: false };
//! let figures = simulate(&pool, world, nine, &Observe::default(), &mut ());
//! assert_eq!((figures.levels.peak_threads, figures.completed, figures.rejected), (4, 8, 1));
//! ```

mod arrivals;
mod chance;
mod figures;
mod histogram;
mod lengths;
mod levels;
mod processor;
mod simulation;
#[cfg(test)]
mod tests;

use millpond::growth::GrowthRule;

pub use arrivals::{Arrivals, Limit, Stream};
pub use chance::Chance;
pub use figures::Figures;
pub use histogram::Histogram;
pub use lengths::{Kind, Length, Mix};
pub use levels::{Bin, Levels};
use simulation::Simulation;

/// A time or a duration, in nanoseconds.
pub type Nanos = u64;

/// The time of an event that is not scheduled.
const NEVER: Nanos = Nanos::MAX;

/// One task: when it arrives, how long it waits (for a disk or a server), and how long it computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Task {
    /// When it arrives.
    pub arrival: Nanos,
    /// How long it waits. A task waits first and computes afterwards.
    pub wait: Nanos,
    /// How long it computes with a core to itself.
    pub compute: Nanos,
}

/// The settings of a `ThreadPoolExecutor`, under the same names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    /// Number of core threads.
    pub core: usize,
    /// Maximum number of threads.
    pub maximum: usize,
    /// Queue capacity. `None` is an unbounded queue, 0 a synchronous one.
    pub queue: Option<usize>,
    /// How long an extra thread stays idle before it exits.
    pub keep_alive: Nanos,
    /// Whether core threads exit after `keep_alive` too.
    pub core_time_out: bool,
    /// Whether the pool queues first or grows first.
    pub rule: GrowthRule,
    /// What happens to a task that is not admitted.
    pub policy: Policy,
}

impl Pool {
    /// A pool with `threads` core threads and no extra ones, and the library's defaults elsewhere.
    pub fn fixed(threads: usize, queue: Option<usize>) -> Pool {
        Pool {
            core: threads,
            maximum: threads,
            queue,
            keep_alive: 60_000_000_000,
            core_time_out: false,
            rule: GrowthRule::QueueFirst,
            policy: Policy::Abort,
        }
    }

    /// A pool that starts a thread for every task that finds no idle one.
    pub fn unlimited() -> Pool {
        Pool { maximum: usize::MAX, ..Pool::fixed(0, Some(0)) }
    }
}

/// What happens to a task that is not admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// It is returned to the caller.
    Abort,
    /// It is dropped.
    Discard,
    /// The oldest task in the queue is dropped to make room.
    DiscardOldest,
    /// The caller runs it.
    CallerRuns,
    /// The caller waits for room, up to the timeout if there is one.
    Block(Option<Nanos>),
}

/// The machine and the callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct World {
    /// Number of cores, which computing tasks share evenly.
    pub cores: usize,
    /// Whether a single caller submits all tasks in sequence. While it is blocked or runs a task,
    /// later tasks are late. Otherwise every task has its own caller.
    pub one_caller: bool,
}

/// What to count, and when to stop early.
#[derive(Debug, Clone, Default)]
pub struct Observe {
    /// Tasks that arrive before this time load the pool but are not counted. Means over time begin
    /// here too.
    pub warm_up: Nanos,
    /// When to stop early.
    pub goal: Goal,
}

/// Limits on late and lost tasks. A run that exceeds one of them ends early.
#[derive(Debug, Clone)]
pub struct Goal {
    /// Late tasks are counted for each of these bounds.
    pub bounds: Vec<Bound>,
    /// Maximum number of lost tasks.
    pub most_lost: u64,
}

impl Default for Goal {
    fn default() -> Goal {
        Goal { bounds: Vec::new(), most_lost: u64::MAX }
    }
}

/// A time limit for tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bound {
    /// Which time of a task is limited.
    pub of: Judged,
    /// A task that takes longer is late.
    pub limit: Nanos,
    /// Maximum number of late tasks.
    pub most_late: u64,
}

/// Which time of a task a [`Bound`] limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judged {
    /// From arrival to start.
    Wait,
    /// From arrival to end.
    Total,
}

/// Receives every counted task that ran, at its end.
pub trait Watch {
    /// A task ended. The arguments are its arrival, its wait for a thread, and its total time.
    fn finished(&mut self, _arrival: Nanos, _wait: Nanos, _total: Nanos) {}
}

/// Ignores every task.
impl Watch for () {}

/// Simulates `tasks`, which must be in order of arrival, on `pool`.
pub fn simulate(
    pool: &Pool,
    world: World,
    tasks: impl Iterator<Item = Task>,
    observe: &Observe,
    watch: &mut impl Watch,
) -> Figures {
    let mut simulation = Simulation::new(pool, world, observe, watch);
    simulation.run(tasks);
    simulation.finish_run()
}

/// Like [`simulate`], for a [`Stream`] and without a watcher.
///
/// It is not generic, so it is compiled at the optimisation level of this crate.
pub fn simulate_stream(pool: &Pool, world: World, tasks: Stream<'_>, observe: &Observe) -> Figures {
    simulate(pool, world, tasks, observe, &mut ())
}
