//! [`Settings`]: the configurable properties of a pool, with their current values.

use std::fmt;
use std::time::Duration;

use crate::sync::Arc;

/// The settings of a pool at one moment.
///
/// # Examples
/// ```
/// use millpond::monitor::{PolicyKind, QueueKind};
/// use millpond::{ThreadPoolExecutor, WorkQueue, policy};
///
/// let pool = ThreadPoolExecutor::builder()
///     .work_queue(WorkQueue::array(100))
///     .rejected_execution_handler(policy::CallerRuns)
///     .build()?;
/// let settings = pool.settings();
/// assert_eq!((settings.queue, settings.queue_capacity), (QueueKind::Array, Some(100)));
/// assert_eq!(settings.policy, PolicyKind::CallerRuns);
/// # Ok::<(), millpond::ConfigError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settings {
    /// Increases by one with every change. 1 for a new pool.
    pub version: u64,
    /// The number of threads that are started before tasks are queued, and that are kept when idle.
    pub core_pool_size: usize,
    /// The maximum number of threads.
    pub maximum_pool_size: usize,
    /// How long an idle thread above the core size waits for work before it exits.
    pub keep_alive_time: Duration,
    /// True if idle core threads exit too.
    pub core_threads_time_out: bool,
    /// The kind of queue. Never changes.
    pub queue: QueueKind,
    /// How many tasks the queue holds; `None` if it is unbounded or custom.
    pub queue_capacity: Option<usize>,
    /// The rejection policy.
    pub policy: PolicyKind,
    /// How the pool measures times.
    pub timing: Timing,
}

/// The author of a change and the reason for it, for logs and observers.
///
/// # Examples
/// ```
/// use millpond::monitor::Actor;
///
/// let actor = Actor::new("console", "incident 17");
/// assert_eq!(actor.to_string(), "console: incident 17");
/// assert_eq!(Actor::default().to_string(), "the program");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Actor {
    /// The person or the part of the program that made the change. Default: `the program`.
    pub who: Arc<str>,
    /// The reason; may be empty.
    pub reason: Arc<str>,
}

impl Actor {
    /// Creates an actor.
    pub fn new(who: impl Into<Arc<str>>, reason: impl Into<Arc<str>>) -> Actor {
        Actor { who: who.into(), reason: reason.into() }
    }
}

impl Default for Actor {
    fn default() -> Self {
        Actor::new("the program", "")
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.who)?;
        if self.reason.is_empty() { Ok(()) } else { write!(f, ": {}", self.reason) }
    }
}

/// The kind of queue of a pool; see [`WorkQueue`](crate::WorkQueue).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum QueueKind {
    /// First in, first out, bounded: [`WorkQueue::array`](crate::WorkQueue::array).
    Array,
    /// First in, first out, bounded or not: [`WorkQueue::linked`](crate::WorkQueue::linked), and
    /// schedulers.
    Linked,
    /// Holds no tasks: [`WorkQueue::synchronous`](crate::WorkQueue::synchronous).
    Synchronous,
    /// The largest priority first: [`WorkQueue::priority`](crate::WorkQueue::priority).
    Priority,
    /// Ordered by due time: [`WorkQueue::delay`](crate::WorkQueue::delay), and scheduled pools.
    Delay,
    /// A custom queue: [`WorkQueue::custom`](crate::WorkQueue::custom).
    Custom,
}

impl QueueKind {
    /// Returns the name in lower case, for metric labels: `array`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Array => "array",
            Self::Linked => "linked",
            Self::Synchronous => "synchronous",
            Self::Priority => "priority",
            Self::Delay => "delay",
            Self::Custom => "custom",
        }
    }
}

/// The rejection policy of a pool; see [`policy`](crate::policy).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PolicyKind {
    /// [`policy::Abort`](crate::policy::Abort).
    Abort,
    /// [`policy::CallerRuns`](crate::policy::CallerRuns).
    CallerRuns,
    /// [`policy::Discard`](crate::policy::Discard).
    Discard,
    /// [`policy::DiscardOldest`](crate::policy::DiscardOldest).
    DiscardOldest,
    /// [`policy::Block`](crate::policy::Block).
    Block {
        /// How long a submitter waits at most; `Duration::MAX` means without limit.
        timeout: Duration,
    },
    /// A custom closure or type, with the name of its type.
    Custom(&'static str),
}

impl PolicyKind {
    /// Returns the name in lower case, for metric labels: `caller_runs`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Abort => "abort",
            Self::CallerRuns => "caller_runs",
            Self::Discard => "discard",
            Self::DiscardOldest => "discard_oldest",
            Self::Block { .. } => "block",
            Self::Custom(_) => "custom",
        }
    }
}

/// How a pool measures the times of its tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Timing {
    /// Reads the clock about once per 20 µs of work, so a longer task is timed individually.
    /// Shorter tasks are timed in groups of at most 64, which costs 3 to 5 ns per task.
    #[default]
    Sampled,
    /// Times every task individually, which costs about 120 ns per task.
    Every,
    /// Measures nothing and never reads the clock.
    Off,
}

impl Timing {
    /// Returns the name in lower case, for metric labels: `sampled`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sampled => "sampled",
            Self::Every => "every",
            Self::Off => "off",
        }
    }
}
