//! What is wrong with a setting: the one error of every builder, constructor and setter.

use std::fmt;
use std::time::Duration;

/// A setting that cannot be; nothing was built or changed.
///
/// # Examples
/// ```
/// use millpond::ThreadPoolExecutor;
///
/// let error = ThreadPoolExecutor::builder().core_pool_size(5).maximum_pool_size(2).build().unwrap_err();
/// assert_eq!(error.to_string(), "maximum_pool_size is 2 but core_pool_size is 5");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// A pool must be allowed at least one thread.
    ZeroMaximum {
        /// The core size that was asked for beside it.
        core: usize,
    },
    /// The core size may not exceed the maximum size.
    CoreExceedsMaximum {
        /// The core size asked for, or in force.
        core: usize,
        /// The maximum size asked for, or in force.
        maximum: usize,
    },
    /// Core threads that time out need a time to wait.
    ZeroKeepAlive {
        /// The keep-alive time asked for, or in force.
        keep_alive: Duration,
    },
    /// A scheduler must be allowed at least one thread.
    ZeroThreads {
        /// The option that was 0.
        option: &'static str,
    },
    /// A scheduler with a fixed number of threads cannot have so many.
    TooManyThreads {
        /// The number asked for.
        threads: usize,
        /// How many there may be.
        most: usize,
    },
    /// IdleWorkers threads need a time to live.
    ZeroTtl,
    /// A limit on the time in the queue must be above zero.
    ZeroQueueTime,
    /// A bounded queue must have room for at least one item.
    ZeroCapacity {
        /// Which queue was to be made or changed.
        queue: &'static str,
    },
    /// There is no memory for the slots of a bounded queue.
    NoMemory {
        /// Which queue was to be made.
        queue: &'static str,
        /// The capacity asked for.
        capacity: usize,
        /// The size of one item, in bytes.
        item_size: usize,
    },
    /// A variable of the environment has a value that cannot be used; see
    /// [`config_problems`](crate::schedulers::config_problems).
    BadVariable {
        /// The variable.
        variable: &'static str,
        /// Its value.
        value: &'static str,
        /// What it should have been.
        expected: &'static str,
    },
    /// A name for threads contains a NUL byte, which no system accepts: no thread could be started.
    NulInName {
        /// The option that was given the name.
        option: &'static str,
        /// The position of the NUL, in bytes from the start of the name.
        position: usize,
    },
    /// The factory of [`set_factory`](crate::schedulers::set_factory) panicked.
    FactoryPanicked,
}

impl ConfigError {
    /// Refuses a name that no thread can have; `option` says where it was given.
    pub(crate) fn check_name(option: &'static str, name: &str) -> Result<(), ConfigError> {
        match name.find('\0') {
            Some(position) => Err(ConfigError::NulInName { option, position }),
            None => Ok(()),
        }
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
            Self::NulInName { option, position } => {
                write!(f, "{option} has a NUL at byte {position}, but a thread name cannot contain one")
            }
            Self::FactoryPanicked => f.write_str("the factory of schedulers panicked"),
        }
    }
}

impl std::error::Error for ConfigError {}
