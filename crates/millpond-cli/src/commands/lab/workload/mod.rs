//! A workload: one or more scenes, each a pool and what is done to it, step by step.
//!
//! This is what a workload file says once it has been read and checked (`read.rs`). All times are
//! as the file has them; how fast they are played is the player's matter.

mod raw;
mod read;
mod tell;
mod words;

use std::time::Duration;

use millpond_sim::{Arrivals, Limit};

pub(crate) use read::{Origin, read};
pub(crate) use words::{Bound, Length, Policy, Queue};

/// A whole workload file.
#[derive(Debug)]
pub(crate) struct Workload {
    pub(crate) name: String,
    /// One line on what it shows.
    pub(crate) about: String,
    /// The scenes are not told one by one but set side by side.
    pub(crate) compare: bool,
    /// What is to be learned from it, in the end.
    pub(crate) verdict: Option<String>,
    pub(crate) scenes: Vec<Scene>,
}

/// One pool, and what is done to it.
#[derive(Debug)]
pub(crate) struct Scene {
    pub(crate) title: String,
    /// What to look at.
    pub(crate) says: Option<String>,
    /// In a comparison: under which heading it stands.
    pub(crate) group: Option<String>,
    /// For what is left to chance.
    pub(crate) seed: u64,
    pub(crate) pool: PoolPlan,
    pub(crate) steps: Vec<Step>,
    pub(crate) expect: Expect,
}

/// What a pool is made of.
#[derive(Debug, Clone)]
pub(crate) struct PoolPlan {
    pub(crate) kind: PoolKind,
    pub(crate) keep_alive: Duration,
    pub(crate) core_time_out: bool,
}

#[derive(Debug, Clone)]
pub(crate) enum PoolKind {
    /// A `ThreadPoolExecutor`.
    Threads { core: usize, max: usize, queue: Queue, policy: Policy, eager: bool },
    /// A `ScheduledThreadPoolExecutor`.
    Scheduled { core: usize },
    /// A `BoundedElasticScheduler`; the keep-alive time is its time to live.
    Elastic { max: usize, queue_per_thread: usize },
}

impl PoolPlan {
    /// The core size; a bounded-elastic scheduler has none.
    pub(crate) fn core(&self) -> usize {
        match self.kind {
            PoolKind::Threads { core, .. } | PoolKind::Scheduled { core } => core,
            PoolKind::Elastic { .. } => 0,
        }
    }

    /// The core size, if the pool has one.
    pub(crate) fn core_threads(&self) -> Option<usize> {
        match &self.kind {
            PoolKind::Threads { core, .. } | PoolKind::Scheduled { core } => Some(*core),
            PoolKind::Elastic { .. } => None,
        }
    }

    /// The maximum size, if there is a bound that a picture can show.
    pub(crate) fn max_threads(&self) -> Option<usize> {
        match &self.kind {
            PoolKind::Threads { max, .. } | PoolKind::Elastic { max, .. } => Some(*max),
            PoolKind::Scheduled { .. } => None,
        }
    }

    /// How many tasks may wait, if there is a bound.
    pub(crate) fn capacity(&self) -> Option<usize> {
        match &self.kind {
            PoolKind::Threads { queue: Queue::Array(n) | Queue::LinkedBounded(n), .. } => Some(*n),
            PoolKind::Threads { queue: Queue::Synchronous, .. } => Some(0),
            PoolKind::Elastic { max, queue_per_thread } => Some(max.saturating_mul(*queue_per_thread)),
            _ => None,
        }
    }
}

/// One thing that is done.
#[derive(Debug)]
pub(crate) struct Step {
    /// In the file's words, or in ours if it has none.
    pub(crate) says: String,
    pub(crate) does: Does,
}

#[derive(Debug)]
pub(crate) enum Does {
    Submit(Submit),
    Series(Series),
    Wait(Duration),
    /// Until every task has ended.
    UntilIdle,
    /// Until the pool has at most this many threads.
    UntilThreads(usize),
    /// Start core threads; `None`: all of them.
    Prestart(Option<usize>),
    Set(Settings),
    Shutdown {
        grace: Duration,
        force: Duration,
    },
    /// Only look at the pool.
    Look,
}

/// Tasks that are handed in.
#[derive(Debug)]
pub(crate) struct Submit {
    pub(crate) arrivals: Arrivals,
    /// Where the arrivals end.
    pub(crate) limit: Limit,
    /// Chosen from by weight.
    pub(crate) mix: Vec<TaskPlan>,
    /// None of them ends before those of the next submission have been handed in too.
    pub(crate) hold: bool,
    /// To a lane of that name, of a scheduler.
    pub(crate) lane: Option<String>,
}

/// What a task does.
#[derive(Debug, Clone)]
pub(crate) struct TaskPlan {
    pub(crate) name: Option<String>,
    pub(crate) weight: f64,
    /// It waits so long, as for a disk or a peer.
    pub(crate) takes: Length,
    /// It computes so long.
    pub(crate) computes: Length,
    pub(crate) priority: i32,
    pub(crate) delay: Duration,
    /// It submits a task to its own pool and joins it, so many deep.
    pub(crate) nested: usize,
    pub(crate) ignores_interrupts: bool,
    pub(crate) panics: bool,
}

impl Default for TaskPlan {
    fn default() -> TaskPlan {
        TaskPlan {
            name: None,
            weight: 1.0,
            takes: Length::ZERO,
            computes: Length::ZERO,
            priority: 0,
            delay: Duration::ZERO,
            nested: 0,
            ignores_interrupts: false,
            panics: false,
        }
    }
}

/// Work that runs again and again, on a scheduled pool.
#[derive(Debug)]
pub(crate) struct Series {
    pub(crate) task: TaskPlan,
    pub(crate) initial: Duration,
    pub(crate) rhythm: Rhythm,
    /// After so many it is cancelled.
    pub(crate) runs: usize,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Rhythm {
    FixedRate { period: Duration, missed: millpond::MissedTicks },
    FixedDelay(Duration),
}

/// New settings; what is `None` stays.
#[derive(Debug, Clone, Default)]
pub(crate) struct Settings {
    pub(crate) core: Option<usize>,
    pub(crate) max: Option<usize>,
    pub(crate) keep_alive: Option<Duration>,
    pub(crate) core_time_out: Option<bool>,
}

/// What the file says must come out.
#[derive(Debug, Default)]
pub(crate) struct Expect {
    pub(crate) figures: Vec<(Figure, Bound)>,
    pub(crate) outcome: Option<millpond::ShutdownOutcome>,
    /// The tasks in the order in which they began.
    pub(crate) order: Option<Vec<String>>,
    /// The number of threads after each step.
    pub(crate) threads_after_steps: Option<Vec<Bound>>,
}

/// A figure that a scene ends with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Figure {
    CoreThreads,
    ExtraThreads,
    NewThreads,
    Queued,
    IdleThreads,
    RanInCaller,
    Rejected,
    Discarded,
    Waited,
    Ran,
    Completed,
    Interrupted,
    Panicked,
    NeverRun,
    PeakThreads,
    ThreadsAtEnd,
}
