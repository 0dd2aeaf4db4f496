//! The scheduler for work that blocks: threads on demand up to a cap, each with a bounded queue.

use std::fmt;
use std::io;
use std::sync::atomic::AtomicU64;
use std::thread::JoinHandle;
use std::time::Duration;

use super::defaults::defaults;
use super::engine::{EngineScheduler, Plan, Shape, ThreadSource, new_scheduler};
use super::scheduler::Scheduler;
use crate::config::ConfigError;
use crate::sync::Arc;
use crate::threads::{ThreadFactory, WorkerBody, plain_threads};
use crate::time::clock::Clock;

/// Whether the work of a worker may move to another thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Affinity {
    /// Work may move, so a task never waits behind a long one while a thread is free. The tasks of
    /// a worker still run in order and one at a time.
    #[default]
    Soft,
    /// Work may not move: all work of a worker runs on the thread of one slot, as in Reactor.
    Strict,
}

/// A scheduler for work that blocks. It starts threads on demand, up to a cap, and lets a thread
/// exit when it has been idle for the time to live.
///
/// Work is assigned to the thread that became idle last, else to a new thread below the cap, else
/// to the thread with the least work. At most `queue_capacity_per_thread` tasks wait for each
/// thread; further ones are refused with [`Saturated`](crate::RejectReason::Saturated). Delayed and
/// periodic tasks count as waiting and occupy no thread meanwhile. Unless [`Affinity::Strict`] is
/// set, a free thread takes work that waits for another one.
///
/// This is a cheap handle. When the last clone and the last worker are dropped, the scheduler shuts
/// down gracefully, without blocking.
///
/// # Examples
/// ```
/// use millpond::schedulers::{BoundedElasticScheduler, Scheduler, SchedulerExt};
/// use std::time::Duration;
///
/// let files = BoundedElasticScheduler::builder()
///     .max_threads(4)
///     .queue_capacity_per_thread(100)
///     .name("files")
///     .ttl(Duration::from_secs(30))
///     .build()?;
/// files.schedule(|| println!("read"))?;
/// let name = r#"boundedElastic("files",maxThreads=4,maxTaskQueuedPerThread=100,ttl=30s)"#;
/// assert_eq!(files.to_string(), name);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct BoundedElasticScheduler {
    scheduler: EngineScheduler,
}

impl BoundedElasticScheduler {
    /// Returns a builder with the [`defaults`](super::defaults()) of the environment.
    pub fn builder() -> BoundedElasticBuilder {
        BoundedElasticBuilder::new()
    }

    /// Returns the largest number of threads.
    pub fn max_threads(&self) -> usize {
        self.stats().max_threads
    }

    /// Returns the current number of threads.
    pub fn live_threads(&self) -> usize {
        self.stats().live_threads
    }

    /// Returns the number of slots, with or without a thread.
    pub fn slots(&self) -> usize {
        self.stats().slots
    }

    /// Returns the number of slots with a holder.
    pub fn busy(&self) -> usize {
        self.stats().busy
    }

    /// Returns the number of slots without a holder.
    pub fn idle(&self) -> usize {
        self.stats().idle
    }

    /// Returns the number of tasks that wait for a thread or for their due time.
    pub fn queued(&self) -> u64 {
        self.stats().queued
    }

    /// Returns how many more tasks may wait; `u64::MAX` if there is no bound.
    pub fn remaining_capacity(&self) -> u64 {
        self.stats().remaining_capacity
    }
}

forward_scheduler!([] BoundedElasticScheduler, |it| it.scheduler);

impl fmt::Display for BoundedElasticScheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.scheduler.fmt(f)
    }
}

impl fmt::Debug for BoundedElasticScheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BoundedElasticScheduler").field(&self.scheduler).finish()
    }
}

/// The options of a [`BoundedElasticScheduler`].
#[must_use = "a builder does nothing until `build`"]
pub struct BoundedElasticBuilder {
    max_threads: usize,
    capacity: usize,
    name: String,
    ttl: Duration,
    affinity: Affinity,
    thread_per_task: bool,
    factory: Arc<ThreadFactory>,
    clock: Clock,
}

impl BoundedElasticBuilder {
    fn new() -> Self {
        let defaults = defaults();
        BoundedElasticBuilder {
            max_threads: defaults.bounded_elastic_size,
            capacity: defaults.bounded_elastic_queue_size,
            name: "boundedElastic".to_owned(),
            ttl: defaults.bounded_elastic_ttl,
            affinity: Affinity::default(),
            thread_per_task: defaults.bounded_elastic_on_virtual_threads,
            factory: plain_threads(),
            clock: Clock::system(),
        }
    }

    /// Sets the largest number of threads. Default: ten per processor.
    pub fn max_threads(mut self, threads: usize) -> Self {
        self.max_threads = threads;
        self
    }

    /// Sets how many tasks may wait for each thread; `usize::MAX` means no bound. Default: 100,000.
    pub fn queue_capacity_per_thread(mut self, tasks: usize) -> Self {
        self.capacity = tasks;
        self
    }

    /// Sets the name of the scheduler. Threads are named after it, with a number. Default:
    /// `boundedElastic`.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets how long a thread may be idle before it exits. Default: 60 s. Has no effect with a
    /// thread per task.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// Sets whether the work of a worker may move to another thread. Default:
    /// [`Affinity::Soft`].
    pub fn affinity(mut self, affinity: Affinity) -> Self {
        self.affinity = affinity;
        self
    }

    /// Sets whether every task runs on a new thread, with no idle threads kept. Default: false,
    /// unless the environment sets it.
    pub fn thread_per_task(mut self, per_task: bool) -> Self {
        self.thread_per_task = per_task;
        self
    }

    /// Sets how threads are created; see
    /// [`Builder::thread_factory`](crate::Builder::thread_factory). If no thread can be started,
    /// the submission is refused with [`SpawnFailed`](crate::RejectReason::SpawnFailed).
    pub fn thread_factory(
        mut self,
        factory: impl Fn(WorkerBody) -> io::Result<JoinHandle<()>> + Send + Sync + 'static,
    ) -> Self {
        self.factory = Arc::new(factory);
        self
    }

    /// Sets the clock for delays, periods and the time to live. Default: [`Clock::system`].
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Creates the scheduler. Starts no thread yet.
    ///
    /// # Errors
    /// Returns [`ConfigError`] if the number of threads, the capacity or the time to live is zero,
    /// or the name contains a NUL.
    pub fn build(self) -> Result<BoundedElasticScheduler, ConfigError> {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        if self.max_threads == 0 {
            return Err(ConfigError::ZeroThreads { option: "max_threads" });
        }
        if self.capacity == 0 {
            return Err(ConfigError::ZeroCapacity {
                queue: "queue of each thread (queue_capacity_per_thread)",
            });
        }
        if self.ttl.is_zero() {
            return Err(ConfigError::ZeroTtl);
        }
        ConfigError::check_name("name", &self.name)?;
        let shape = if self.thread_per_task { Shape::PerTask } else { Shape::Elastic { ttl: self.ttl } };
        let name = self.display_name();
        Ok(BoundedElasticScheduler {
            scheduler: new_scheduler(Plan {
                name,
                registered_as: self.name.clone(),
                shape,
                is_work_movable: self.affinity == Affinity::Soft,
                max_slots: self.max_threads,
                queue_capacity: self.capacity,
                source: ThreadSource::threads(self.factory, &self.name, &NUMBERS, false),
                clock: self.clock,
                has_timing: true,
            }),
        })
    }

    fn display_name(&self) -> String {
        let kind = if self.thread_per_task { "loomBoundedElastic" } else { "boundedElastic" };
        let capacity = match self.capacity {
            usize::MAX => "unbounded".to_owned(),
            capacity => capacity.to_string(),
        };
        let ttl = match self.ttl.as_secs() {
            _ if self.thread_per_task => String::new(),
            0 => format!(",ttl={}ms", self.ttl.as_millis()),
            seconds => format!(",ttl={seconds}s"),
        };
        let (name, threads) = (&self.name, self.max_threads);
        format!("{kind}({name:?},maxThreads={threads},maxTaskQueuedPerThread={capacity}{ttl})")
    }
}

impl fmt::Debug for BoundedElasticBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoundedElasticBuilder")
            .field("max_threads", &self.max_threads)
            .field("queue_capacity_per_thread", &self.capacity)
            .field("name", &self.name)
            .field("ttl", &self.ttl)
            .field("affinity", &self.affinity)
            .field("thread_per_task", &self.thread_per_task)
            .finish_non_exhaustive()
    }
}
