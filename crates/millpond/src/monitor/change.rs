//! [`Change`]: a change of any subset of a pool's settings, applied in one step.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use super::settings::{Actor, PolicyKind, Settings, Timing};
use crate::ConfigError;

/// A change of any subset of a pool's settings; see
/// [`reconfigure`](crate::ThreadPoolExecutor::reconfigure).
///
/// # Examples
/// ```
/// use millpond::monitor::{Change, ChangeError, PolicyKind};
/// use millpond::{ThreadPoolExecutor, WorkQueue};
///
/// let pool = ThreadPoolExecutor::builder().work_queue(WorkQueue::array(10)).build()?;
/// let before = pool.settings();
/// let change = Change::new()
///     .core_pool_size(4) // neither size alone would be valid after the other
///     .maximum_pool_size(8)
///     .queue_capacity(200)
///     .policy(PolicyKind::CallerRuns)
///     .if_version(before.version)
///     .by("console", "incident 17");
/// let after = pool.reconfigure(change.clone())?;
/// assert_eq!((after.maximum_pool_size, after.queue_capacity), (8, Some(200)));
/// assert_eq!(after.version, before.version + 1);
///
/// let late = pool.reconfigure(change).unwrap_err();
/// assert!(matches!(late, ChangeError::Stale { current } if current == after));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
#[must_use = "a change does nothing until `reconfigure`"]
pub struct Change {
    core: Option<usize>,
    maximum: Option<usize>,
    keep_alive: Option<Duration>,
    core_times_out: Option<bool>,
    capacity: Option<usize>,
    policy: Option<PolicyKind>,
    timing: Option<Timing>,
    if_version: Option<u64>,
    by: Actor,
}

impl Change {
    /// Creates an empty change whose author is the program.
    pub fn new() -> Change {
        Change::default()
    }

    /// Sets the core size.
    pub fn core_pool_size(mut self, threads: usize) -> Change {
        self.core = Some(threads);
        self
    }

    /// Sets the maximum size.
    pub fn maximum_pool_size(mut self, threads: usize) -> Change {
        self.maximum = Some(threads);
        self
    }

    /// Sets how long an idle thread above the core size waits for work before it exits.
    pub fn keep_alive_time(mut self, time: Duration) -> Change {
        self.keep_alive = Some(time);
        self
    }

    /// Sets whether idle core threads exit too.
    pub fn core_threads_time_out(mut self, time_out: bool) -> Change {
        self.core_times_out = Some(time_out);
        self
    }

    /// Sets how many tasks an array or linked queue holds; `usize::MAX` means no bound.
    ///
    /// If more tasks are already queued, they stay, and new ones are refused until there is space.
    pub fn queue_capacity(mut self, tasks: usize) -> Change {
        self.capacity = Some(tasks);
        self
    }

    /// Sets the rejection policy: any except [`PolicyKind::Custom`].
    pub fn policy(mut self, policy: PolicyKind) -> Change {
        self.policy = Some(policy);
        self
    }

    /// Sets how the pool measures times.
    pub fn timing(mut self, timing: Timing) -> Change {
        self.timing = Some(timing);
        self
    }

    /// Applies the change only if the settings still have this version.
    pub fn if_version(mut self, version: u64) -> Change {
        self.if_version = Some(version);
        self
    }

    /// Sets the author of the change and the reason, for observers.
    pub fn by(mut self, who: &str, reason: &str) -> Change {
        self.by = Actor::new(who, reason);
        self
    }

    pub(crate) fn author(&self) -> &Actor {
        &self.by
    }

    pub(crate) fn sets_maximum(&self) -> bool {
        self.maximum.is_some()
    }

    pub(crate) fn new_capacity(&self) -> Option<usize> {
        self.capacity
    }

    pub(crate) fn new_policy(&self) -> Option<PolicyKind> {
        self.policy
    }

    /// Returns the settings after the change. Only the version is checked.
    pub(crate) fn applied_to(&self, old: &Settings) -> Result<Settings, ChangeError> {
        if self.if_version.is_some_and(|expected| expected != old.version) {
            return Err(ChangeError::Stale { current: old.clone() });
        }
        let capacity = self.capacity.map(|capacity| Some(capacity).filter(|tasks| *tasks != usize::MAX));
        Ok(Settings {
            version: old.version + 1,
            core_pool_size: self.core.unwrap_or(old.core_pool_size),
            maximum_pool_size: self.maximum.unwrap_or(old.maximum_pool_size),
            keep_alive_time: self.keep_alive.unwrap_or(old.keep_alive_time),
            core_threads_time_out: self.core_times_out.unwrap_or(old.core_threads_time_out),
            queue: old.queue,
            queue_capacity: capacity.unwrap_or(old.queue_capacity),
            policy: self.policy.unwrap_or(old.policy),
            timing: self.timing.unwrap_or(old.timing),
        })
    }
}

/// The reason why a pool was not changed. Nothing has changed then.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChangeError {
    /// The settings no longer have the version given to [`Change::if_version`].
    Stale {
        /// The settings in force.
        current: Settings,
    },
    /// The settings would contradict each other.
    Invalid(ConfigError),
    /// The pool cannot change this setting while it runs.
    Unsupported {
        /// The setting.
        setting: &'static str,
        /// The reason.
        why: &'static str,
    },
    /// The pool has terminated.
    Ended,
}

impl From<ConfigError> for ChangeError {
    fn from(error: ConfigError) -> Self {
        ChangeError::Invalid(error)
    }
}

impl fmt::Display for ChangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stale { current } => {
                write!(f, "the settings have changed: their version is now {}", current.version)
            }
            Self::Invalid(error) => error.fmt(f),
            Self::Unsupported { setting, why } => write!(f, "{setting} cannot be changed: {why}"),
            Self::Ended => f.write_str("the pool has terminated"),
        }
    }
}

impl Error for ChangeError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Invalid(error) => Some(error),
            _ => None,
        }
    }
}
