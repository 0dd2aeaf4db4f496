//! [`ConfigError`]: the error of every builder, constructor and setter.

use std::fmt;
use std::time::Duration;

/// An invalid setting. Nothing was built or changed.
///
/// # Examples
/// ```
/// use millpond::ThreadPoolExecutor;
///
/// let builder = ThreadPoolExecutor::builder().core_pool_size(5).maximum_pool_size(2);
/// let error = builder.build().unwrap_err();
/// assert_eq!(error.to_string(), "maximum_pool_size is 2 but core_pool_size is 5");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// The maximum size is zero.
    ZeroMaximum {
        /// The requested core size.
        core: usize,
    },
    /// The core size exceeds the maximum size.
    CoreExceedsMaximum {
        /// The core size, requested or current.
        core: usize,
        /// The maximum size, requested or current.
        maximum: usize,
    },
    /// Core threads time out, but the keep-alive time is zero.
    ZeroKeepAlive {
        /// The keep-alive time, requested or current.
        keep_alive: Duration,
    },
    /// The maximum number of threads of a scheduler is zero.
    ZeroThreads {
        /// The option that was 0.
        option: &'static str,
    },
    /// A scheduler with a fixed number of threads would exceed its upper limit.
    TooManyThreads {
        /// The requested number.
        threads: usize,
        /// The largest number allowed.
        most: usize,
    },
    /// The time to live of idle threads is zero.
    ZeroTtl,
    /// The limit of the time in the queue is zero.
    ZeroQueueTime,
    /// The capacity of a bounded queue is zero.
    ZeroCapacity {
        /// The kind of queue.
        queue: &'static str,
    },
    /// The slots of a bounded queue could not be allocated.
    NoMemory {
        /// The kind of queue.
        queue: &'static str,
        /// The requested capacity.
        capacity: usize,
        /// The size of one item, in bytes.
        item_size: usize,
    },
    /// An environment variable has an invalid value; see
    /// [`config_problems`](crate::schedulers::config_problems).
    BadVariable {
        /// The name of the variable.
        variable: &'static str,
        /// The value of the variable.
        value: &'static str,
        /// A description of valid values.
        expected: &'static str,
    },
    /// A thread name contains a NUL byte, which no operating system accepts.
    NulInName {
        /// The option that sets the name.
        option: &'static str,
        /// The position of the NUL byte in the name.
        position: usize,
    },
    /// The name of a pool is invalid.
    InvalidName {
        /// The option that sets the name.
        option: &'static str,
        /// The problem with the name.
        problem: &'static str,
    },
    /// The factory of [`set_factory`](crate::schedulers::set_factory) panicked.
    FactoryPanicked,
}

impl ConfigError {
    /// Checks a thread name that was set by `option`.
    pub(crate) fn check_name(option: &'static str, name: &str) -> Result<(), ConfigError> {
        match name.find('\0') {
            Some(position) => Err(ConfigError::NulInName { option, position }),
            None => Ok(()),
        }
    }

    fn fmt_name_problem(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NulInName { option, position } => {
                write!(f, "{option} has a NUL at byte {position}, but a thread name cannot contain one")
            }
            Self::InvalidName { option, problem } => write!(f, "{option} {problem}"),
            _ => Ok(()),
        }
    }

    /// Checks the name of a pool that was set by `option`.
    pub(crate) fn check_pool_name(option: &'static str, name: &str) -> Result<(), ConfigError> {
        let problem = if name.is_empty() {
            "is empty, but pools are looked up by name"
        } else if name.chars().count() > 64 {
            "has more than 64 characters"
        } else if name.contains(char::is_control) {
            "contains a control character"
        } else {
            return Ok(());
        };
        Err(ConfigError::InvalidName { option, problem })
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ZeroMaximum { core } => {
                write!(
                    f,
                    "maximum_pool_size is 0 (core_pool_size is {core}), but a pool needs at least one thread"
                )
            }
            Self::CoreExceedsMaximum { core, maximum } => {
                write!(f, "maximum_pool_size is {maximum} but core_pool_size is {core}")
            }
            Self::ZeroKeepAlive { keep_alive } => {
                write!(
                    f,
                    "keep_alive_time is {keep_alive:?}, but core threads that time out need more than zero"
                )
            }
            Self::ZeroThreads { option } => {
                write!(f, "{option} is 0, but a scheduler needs at least one thread")
            }
            Self::TooManyThreads { threads, most } => {
                write!(f, "parallelism is {threads}, but a scheduler may have at most {most} threads")
            }
            Self::ZeroQueueTime => f.write_str("max_queue_time is 0s, so every task that waits would expire"),
            Self::ZeroTtl => f.write_str("ttl is 0s, but idle threads need more than zero"),
            Self::NoMemory { queue, capacity, item_size } => {
                write!(f, "no memory for an {queue} of {capacity} items of {item_size} bytes")
            }
            Self::ZeroCapacity { queue } => {
                write!(f, "the capacity of the {queue} is 0, but it needs room for at least one item")
            }
            Self::BadVariable { variable, value, expected } => {
                write!(f, "{variable} is {value:?}, but it should be {expected}")
            }
            Self::NulInName { .. } | Self::InvalidName { .. } => self.fmt_name_problem(f),
            Self::FactoryPanicked => f.write_str("the factory of schedulers panicked"),
        }
    }
}

impl std::error::Error for ConfigError {}
