//! The schedulers with a fixed number of threads: single and parallel.

use std::sync::atomic::AtomicU64;

use super::Scheduler;
use super::engine::{Plan, Shape, Slots, ThreadSource};
use crate::config::ConfigError;
use crate::sync::Arc;
use crate::threads::plain_threads;
use crate::time::clock::Clock;

/// More threads than this no system has, and each takes its place when the scheduler is made.
pub(super) const MOST_THREADS: usize = 1 << 16;

/// A scheduler with one thread, started with its first task and called after `name`.
pub(super) fn single(name: &str) -> Result<Arc<dyn Scheduler>, ConfigError> {
    static NUMBERS: AtomicU64 = AtomicU64::new(1);
    fixed(1, name, format!("single({name:?})"), &NUMBERS)
}

/// A scheduler with `threads` threads, each with a line of its own; work is dealt out by turns, workers stay with their thread.
pub(super) fn parallel(threads: usize, name: &str) -> Result<Arc<dyn Scheduler>, ConfigError> {
    static NUMBERS: AtomicU64 = AtomicU64::new(1);
    if threads == 0 {
        return Err(ConfigError::ZeroThreads { option: "parallelism" });
    }
    if threads > MOST_THREADS {
        return Err(ConfigError::TooManyThreads { threads, most: MOST_THREADS });
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
    Ok(Arc::new(Slots::new(Plan {
        name,
        shape: Shape::Fixed,
        soft: false,
        max: threads,
        cap: usize::MAX,
        carrier: ThreadSource::threads(plain_threads(), prefix, numbers, true),
        clock: Clock::system(),
        timing: true,
    })))
}
