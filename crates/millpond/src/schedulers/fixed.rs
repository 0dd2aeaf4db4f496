//! The schedulers with a fixed number of threads: single and parallel.

use std::sync::atomic::AtomicU64;

use super::engine::{Plan, Shape, ThreadSource, new_scheduler};
use super::scheduler::Scheduler;
use crate::config::ConfigError;
use crate::sync::Arc;
use crate::threads::plain_threads;
use crate::time::clock::Clock;

/// The largest number of threads of a fixed scheduler, whose slots are allocated when it is
/// created.
pub(super) const MAX_THREADS: usize = 1 << 16;

/// Creates a scheduler with one thread, which starts with the first task and is named after `name`.
pub(super) fn single(name: &str) -> Result<Arc<dyn Scheduler>, ConfigError> {
    static NUMBERS: AtomicU64 = AtomicU64::new(1);
    fixed(1, name, format!("single({name:?})"), &NUMBERS)
}

/// Creates a scheduler with `threads` threads, each with its own queue. Tasks are assigned round
/// robin; a worker stays on its thread.
pub(super) fn parallel(threads: usize, name: &str) -> Result<Arc<dyn Scheduler>, ConfigError> {
    static NUMBERS: AtomicU64 = AtomicU64::new(1);
    if threads == 0 {
        return Err(ConfigError::ZeroThreads { option: "parallelism" });
    }
    if threads > MAX_THREADS {
        return Err(ConfigError::TooManyThreads { threads, most: MAX_THREADS });
    }
    fixed(threads, name, format!("parallel({threads},{name:?})"), &NUMBERS)
}

fn fixed(
    threads: usize,
    prefix: &str,
    name: String,
    numbers: &'static AtomicU64,
) -> Result<Arc<dyn Scheduler>, ConfigError> {
    ConfigError::check_name("name", prefix)?;
    Ok(Arc::new(new_scheduler(Plan {
        name,
        registered_as: prefix.to_owned(),
        shape: Shape::Fixed,
        is_work_movable: false,
        max_slots: threads,
        queue_capacity: usize::MAX,
        source: ThreadSource::threads(plain_threads(), prefix, numbers, true),
        clock: Clock::system(),
        has_timing: true,
    })))
}
