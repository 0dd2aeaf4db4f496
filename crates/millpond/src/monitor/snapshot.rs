//! [`PoolSnapshot`]: all figures and settings of a pool at one moment.

use std::time::{Duration, Instant, SystemTime};

use super::histogram::HistogramSnapshot;
use super::settings::Settings;
use super::stats::PoolStats;
use crate::executor::RejectReason;
use crate::sync::Arc;
use crate::task::TaskId;

/// The kind of a pool.
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
    /// Returns the name in lower case, for metric labels: `pool`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pool => "pool",
            Self::Scheduled => "scheduled",
            Self::Scheduler => "scheduler",
        }
    }
}

/// All figures and settings of a pool at one moment.
///
/// While no task moves, all figures are exact and consistent with each other. While tasks move,
/// each figure is correct for some moment during the call, and those of `stats` keep the invariants
/// of [`PoolStats`].
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
    /// The name given to the builder, or `pool-N`.
    pub name: Arc<str>,
    /// The name, made unique in the process: the second pool `db` gets the label `db#2`.
    pub label: Arc<str>,
    /// The kind of pool.
    pub kind: Kind,
    /// When the snapshot was taken.
    pub taken: Instant,
    /// The counters and gauges.
    pub stats: PoolStats,
    /// The settings in force.
    pub settings: Settings,
    /// True if the pool is paused: its workers take no tasks.
    pub paused: bool,
    /// Queued tasks of a scheduled pool or a scheduler that have a delay or a period, due or not;
    /// `oldest_wait` shows whether one is late. In a scheduled pool these are all queued tasks. 0
    /// for other pools.
    pub delayed_count: usize,
    /// How long tasks waited, from their acceptance until a thread started them. Tasks with a delay
    /// or a period, and all tasks of a scheduled pool, wait from their due time.
    pub wait: HistogramSnapshot,
    /// How long tasks ran. Includes tasks that were cancelled just after a thread had taken them.
    pub run: HistogramSnapshot,
    /// The total time that workers have spent in tasks.
    pub busy: Duration,
    /// How long the head of the queue has waited; for a scheduler, the longest wait. `None` if no
    /// task waits, or if the pool measures nothing ([`Timing::Off`](super::Timing::Off)).
    pub oldest_wait: Option<Duration>,
    /// How long the longest running task has run. `None` if no task runs, or if the pool measures
    /// nothing.
    pub longest_running: Option<Duration>,
    /// Refused tasks, by reason and by the action of the policy.
    pub rejected: RejectedBy,
    /// The number of threads started so far.
    pub threads_started: u64,
    /// The number of threads that could not be started.
    pub thread_start_failures: u64,
    /// The last eight panics of tasks, newest last.
    pub last_panics: Arc<[PanicRecord]>,
}

/// Refused tasks, by reason and by the action of the rejection policy.
///
/// [`total`](Self::total) equals [`PoolStats::rejected`]. While no task is being refused, it is
/// also the sum of `returned`, `caller_ran`, `discarded`, `evicted` and `other`. A task for which
/// [`Block`](crate::policy::Block) found space was not refused, so `blocked` is not part of the
/// sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct RejectedBy {
    /// Returned to the submitter in an error.
    pub returned: u64,
    /// Run on the submitting thread.
    pub caller_ran: u64,
    /// Dropped.
    pub discarded: u64,
    /// Accepted after the head of the queue was dropped, usually one task. The dropped tasks count
    /// as [`handed_back`](PoolStats::handed_back).
    pub evicted: u64,
    /// Passed to a custom policy that did not return an error.
    pub other: u64,
    /// Submitted after the submitter had waited for space. These were not refused.
    pub blocked: u64,
    reasons: [u64; RejectReason::ALL.len()],
}

impl RejectedBy {
    /// Returns these counts with `reasons`, which are in the order of [`RejectReason::ALL`].
    /// `returned` becomes the number of refusals that the other counts do not include.
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

    /// Returns every reason with its number of refused tasks, including zeros.
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
    /// The id of the task.
    pub task: TaskId,
    /// The name of the task, if it has one.
    pub task_name: Option<Arc<str>>,
    /// The first 256 characters of the message.
    pub message: Arc<str>,
}
