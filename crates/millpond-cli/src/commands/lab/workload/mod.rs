//! A workload: one or more scenes, each a pool and the steps that are applied to it.
//!
//! `read.rs` parses and checks workload files. All times are those of the file; the player applies
//! the speed-up.

mod raw;
mod read;
mod tell;
mod words;

use std::time::Duration;

use millpond_sim::{Arrivals, Limit};

pub(crate) use read::{Origin, read};
pub(crate) use words::{Bound, Length, Policy, Queue};

/// A complete workload file.
#[derive(Debug)]
pub(crate) struct Workload {
    pub(crate) name: String,
    /// What it shows, in one line.
    pub(crate) about: String,
    /// Whether to show the scenes side by side instead of one after the other.
    pub(crate) compare: bool,
    /// The conclusion, printed as advice.
    pub(crate) verdict: Option<String>,
    pub(crate) scenes: Vec<Scene>,
}

/// One pool and its steps.
#[derive(Debug)]
pub(crate) struct Scene {
    pub(crate) title: String,
    /// What the reader should notice.
    pub(crate) says: Option<String>,
    /// The heading in a comparison.
    pub(crate) group: Option<String>,
    /// Seed of all random values.
    pub(crate) seed: u64,
    pub(crate) pool: PoolPlan,
    pub(crate) steps: Vec<Step>,
    pub(crate) expect: Expect,
}

/// The settings of a pool.
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
    /// A `BoundedElasticScheduler`. The keep-alive time is its time to live.
    Elastic { max: usize, queue_per_thread: usize },
}

impl PoolPlan {
    /// The core size; 0 for a bounded-elastic scheduler, which has none.
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

    /// The maximum size, if it is small enough to show.
    pub(crate) fn max_threads(&self) -> Option<usize> {
        match &self.kind {
            PoolKind::Threads { max, .. } | PoolKind::Elastic { max, .. } => Some(*max),
            PoolKind::Scheduled { .. } => None,
        }
    }

    /// How many tasks may wait, if the number is bounded.
    pub(crate) fn capacity(&self) -> Option<usize> {
        match &self.kind {
            PoolKind::Threads { queue: Queue::Array(n) | Queue::LinkedBounded(n), .. } => Some(*n),
            PoolKind::Threads { queue: Queue::Synchronous, .. } => Some(0),
            PoolKind::Elastic { max, queue_per_thread } => Some(max.saturating_mul(*queue_per_thread)),
            _ => None,
        }
    }
}

/// One step.
#[derive(Debug)]
pub(crate) struct Step {
    /// The description in the file, or a generated one.
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
    /// Starts core threads; `None`: all of them.
    Prestart(Option<usize>),
    Set(Settings),
    Shutdown {
        grace: Duration,
        force: Duration,
    },
    /// Only records the state of the pool.
    Look,
}

/// Tasks to submit.
#[derive(Debug)]
pub(crate) struct Submit {
    pub(crate) arrivals: Arrivals,
    /// When the arrivals end.
    pub(crate) limit: Limit,
    /// Each task is chosen from these, by weight.
    pub(crate) mix: Vec<TaskPlan>,
    /// Whether to hold these tasks until those of the next submission have been submitted too.
    pub(crate) hold: bool,
    /// The name of the scheduler's lane to submit to.
    pub(crate) lane: Option<String>,
}

/// What a task does.
#[derive(Debug, Clone)]
pub(crate) struct TaskPlan {
    pub(crate) name: Option<String>,
    pub(crate) weight: f64,
    /// Waiting time, as for a disk or a remote server.
    pub(crate) takes: Length,
    /// Computing time.
    pub(crate) computes: Length,
    pub(crate) priority: i32,
    pub(crate) delay: Duration,
    /// Nesting depth: it submits a task to its own pool and joins it.
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

/// A periodic task of a scheduled pool.
#[derive(Debug)]
pub(crate) struct Series {
    pub(crate) task: TaskPlan,
    pub(crate) initial: Duration,
    pub(crate) rhythm: Rhythm,
    /// It is cancelled after this many runs.
    pub(crate) runs: usize,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Rhythm {
    FixedRate { period: Duration, missed: millpond::MissedTicks },
    FixedDelay(Duration),
}

/// New settings; `None` means unchanged.
#[derive(Debug, Clone, Default)]
pub(crate) struct Settings {
    pub(crate) core: Option<usize>,
    pub(crate) max: Option<usize>,
    pub(crate) keep_alive: Option<Duration>,
    pub(crate) core_time_out: Option<bool>,
}

/// The expectations of the file.
#[derive(Debug, Default)]
pub(crate) struct Expect {
    pub(crate) figures: Vec<(Figure, Bound)>,
    pub(crate) outcome: Option<millpond::ShutdownOutcome>,
    /// The names of the tasks, in the order in which they begin.
    pub(crate) order: Option<Vec<String>>,
    /// The number of threads after each step.
    pub(crate) threads_after_steps: Option<Vec<Bound>>,
}

/// A final figure of a scene.
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
