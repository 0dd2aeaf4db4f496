//! [`PoolSnapshot`]: all that is known about a pool at one moment.

use std::time::{Duration, Instant, SystemTime};

use super::histogram::HistogramSnapshot;
use super::settings::Settings;
use super::stats::PoolStats;
use crate::executor::RejectReason;
use crate::sync::Arc;
use crate::task::TaskId;

/// What a pool is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// A [`ThreadPoolExecutor`](crate::ThreadPoolExecutor).
    Pool,
    /// A [`ScheduledThreadPoolExecutor`](crate::ScheduledThreadPoolExecutor).
    Scheduled,
    /// One of the [`schedulers`](crate::schedulers).
    Scheduler,
}

impl Kind {
    /// Returns the name in lower case, for labels of metrics: `pool`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pool => "pool",
            Self::Scheduled => "scheduled",
            Self::Scheduler => "scheduler",
        }
    }
}

/// All that is known about a pool at one moment.
///
/// While no task moves, all figures are exact and agree with each other. While tasks move, each
/// figure is one of that moment, and those of `stats` keep the invariants of [`PoolStats`].
///
/// # Examples
/// ```
/// use millpond::ThreadPoolExecutor;
///
/// let pool = ThreadPoolExecutor::builder().name("db").build()?;
/// pool.submit(|| 6 * 7)?.join()?;
/// let snapshot = pool.snapshot();
/// assert_eq!(&*snapshot.name, "db");
/// assert_eq!(snapshot.stats.completed, 1);
/// assert_eq!(snapshot.rejected.total(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PoolSnapshot {
    /// The name that the builder was given, or `pool-N`.
    pub name: Arc<str>,
    /// The name, made unique in the process: the second pool `db` is `db#2`.
    pub label: Arc<str>,
    /// What the pool is.
    pub kind: Kind,
    /// When the snapshot was taken.
    pub taken: Instant,
    /// The counters and gauges.
    pub stats: PoolStats,
    /// The settings in force.
    pub settings: Settings,
    /// True if workers take no tasks.
    pub paused: bool,
    /// Queued tasks of a scheduled pool or a scheduler that came with a delay or a period, due or
    /// not: `oldest_wait` says whether one is late. In a scheduled pool these are all. 0 for other
    /// pools.
    pub delayed_count: usize,
    /// How long tasks waited, from their acceptance until a thread began them. In a scheduled pool,
    /// from the time when they were due.
    pub wait: HistogramSnapshot,
    /// How long tasks ran. A task that was cancelled when a thread had just taken it counts too.
    pub run: HistogramSnapshot,
    /// The time that workers have spent in tasks.
    pub busy: Duration,
    /// How long the oldest queued task has waited. `None` if none waits.
    pub oldest_wait: Option<Duration>,
    /// How long the longest running task has run. `None` if none runs.
    pub longest_running: Option<Duration>,
    /// Refused tasks, by reason and by what the policy did.
    pub rejected: RejectedBy,
    /// Threads started so far.
    pub threads_started: u64,
    /// How often a thread could not be started.
    pub thread_start_failures: u64,
    /// The last eight panics of tasks, the newest last.
    pub last_panics: Arc<[PanicRecord]>,
}

/// Refused tasks, by reason and by what the rejection policy did with them.
///
/// [`total`](Self::total) equals [`PoolStats::rejected`]. While no task is refused, it is also the
/// sum of `returned`, `caller_ran`, `discarded`, `evicted` and `other`. A task for which
/// [`Block`](crate::policy::Block) found room was not refused: `blocked` is not part of the sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct RejectedBy {
    /// Returned to the submitter in an error.
    pub returned: u64,
    /// Run on the submitting thread.
    pub caller_ran: u64,
    /// Dropped.
    pub discarded: u64,
    /// Submitted again after the head of the queue was dropped.
    pub evicted: u64,
    /// Given to a policy of the user, which did not return an error.
    pub other: u64,
    /// Submitted after the submitter had to wait for room. These were not refused.
    pub blocked: u64,
    reasons: [u64; RejectReason::ALL.len()],
}

impl RejectedBy {
    /// The counts with these refusals by reason, in the order of [`RejectReason::ALL`]. `returned`
    /// is what the other figures leave.
    pub(crate) fn by_reason(mut self, reasons: [u64; RejectReason::ALL.len()]) -> Self {
        self.reasons = reasons;
        let handled = self.caller_ran + self.discarded + self.evicted + self.other;
        self.returned = self.total().saturating_sub(handled);
        self
    }

    /// Returns the number of tasks that were refused for this reason.
    pub fn count(&self, reason: RejectReason) -> u64 {
        self.reasons[reason as usize]
    }

    /// Returns the number of refused tasks.
    pub fn total(&self) -> u64 {
        self.reasons.iter().sum()
    }

    /// Returns every reason with its number of refused tasks, zeros included.
    pub fn iter(&self) -> impl Iterator<Item = (RejectReason, u64)> + use<> {
        RejectReason::ALL.into_iter().zip(self.reasons)
    }
}

/// A panic of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PanicRecord {
    /// When the task panicked.
    pub at: SystemTime,
    /// The name of the thread that ran it, if it has one.
    pub thread: Option<Arc<str>>,
    /// The number of the task.
    pub task: TaskId,
    /// The name of the task, if it has one.
    pub task_name: Option<Arc<str>>,
    /// The first 256 characters of the message.
    pub message: Arc<str>,
}
