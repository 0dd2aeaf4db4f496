//! One interface for the pools of the lab: a thread pool, a scheduled pool, a bounded-elastic
//! scheduler.
//!
//! All are built with the library's builders and policies. Each policy is wrapped in an observer,
//! because only a policy sees every refusal: no hook reports a submission that `Block` keeps
//! waiting.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{fmt, io, thread};

use millpond::schedulers::{BoundedElasticScheduler, Scheduler, Worker};
use millpond::{
    ConfigError, RejectReason, Rejected, RejectedExecutionHandler, ScheduledThreadPoolExecutor,
    ShutdownOutcome, Task, ThreadPoolExecutor, WorkQueue, WorkerBody, policy,
};

use super::super::workload::{Policy, PoolKind, PoolPlan, Queue, Settings};
use super::Pace;
use super::gate::Gate;
use super::recorder::{Recorder, Watching};

/// Prefix of thread names, before the number.
const PREFIX: &str = "thread-";

#[derive(Clone)]
pub(super) enum Pond {
    Threads(ThreadPoolExecutor),
    Scheduled(ScheduledThreadPoolExecutor),
    Elastic(BoundedElasticScheduler),
}

/// How the pool ended. Durations are in real time.
pub(super) struct Ended {
    pub(super) outcome: ShutdownOutcome,
    pub(super) elapsed: Duration,
    pub(super) never_run: Vec<Task>,
}

impl Pond {
    /// Builds the pool of `plan`, with all its times at `pace`.
    pub(super) fn build(
        plan: &PoolPlan,
        pace: Pace,
        recorder: &Arc<Recorder>,
        gate: &Arc<Gate>,
    ) -> Result<Pond, ConfigError> {
        let keep_alive = pace.real(plan.keep_alive);
        let factory = spawning(recorder);
        match &plan.kind {
            PoolKind::Threads { core, max, queue, policy, eager } => {
                let builder = ThreadPoolExecutor::builder()
                    .core_pool_size(*core)
                    .maximum_pool_size(*max)
                    .keep_alive_time(keep_alive)
                    .allow_core_thread_time_out(plan.core_time_out)
                    .work_queue(work_queue(queue))
                    .rejected_execution_handler(Observed::new(policy, pace, recorder, gate))
                    .thread_name_prefix(PREFIX)
                    .thread_factory(factory)
                    .hooks(Watching(Arc::clone(recorder)));
                let builder = if *eager { builder.eager() } else { builder };
                builder.build().map(Pond::Threads)
            }
            PoolKind::Scheduled { core } => ScheduledThreadPoolExecutor::builder()
                .core_pool_size(*core)
                .keep_alive_time(keep_alive)
                .allow_core_thread_time_out(plan.core_time_out)
                .thread_name_prefix(PREFIX)
                .thread_factory(factory)
                .hooks(Watching(Arc::clone(recorder)))
                .build()
                .map(Pond::Scheduled),
            PoolKind::Elastic { max, queue_per_thread } => BoundedElasticScheduler::builder()
                .max_threads(*max)
                .queue_capacity_per_thread(*queue_per_thread)
                .ttl(keep_alive)
                .name("elastic")
                .thread_factory(watched_from_outside(recorder))
                .build()
                .map(Pond::Elastic),
        }
    }

    /// Submits `task`.
    pub(super) fn submit(&self, task: Task, delay: Duration, lane: Option<&Worker>) -> Result<(), Rejected> {
        match (self, lane) {
            (Pond::Threads(pool), _) => pool.execute_task(task.with_delay(delay)),
            (Pond::Scheduled(pool), _) => pool.execute_task_after(delay, task),
            (Pond::Elastic(_), Some(lane)) if delay.is_zero() => lane.schedule_task(task).map(drop),
            (Pond::Elastic(_), Some(lane)) => lane.schedule_task_after(delay, task).map(drop),
            (Pond::Elastic(pool), None) if delay.is_zero() => pool.schedule_task(task).map(drop),
            (Pond::Elastic(pool), None) => pool.schedule_task_after(delay, task).map(drop),
        }
    }

    /// Creates a lane of a scheduler, for tasks that keep their order.
    pub(super) fn lane(&self) -> Option<Worker> {
        match self {
            Pond::Elastic(scheduler) => Some(scheduler.create_worker()),
            _ => None,
        }
    }

    /// Number of threads.
    pub(super) fn size(&self) -> usize {
        match self {
            Pond::Threads(pool) => pool.pool_size(),
            Pond::Scheduled(pool) => pool.pool_size(),
            Pond::Elastic(scheduler) => scheduler.live_threads(),
        }
    }

    /// Number of threads that run a task. `None` for a scheduler: its `busy` slots include those
    /// that lanes hold.
    pub(super) fn active(&self) -> Option<usize> {
        match self {
            Pond::Threads(pool) => Some(pool.active_count()),
            Pond::Scheduled(pool) => Some(pool.active_count()),
            Pond::Elastic(_) => None,
        }
    }

    /// Returns true if no worker is busy and all finished tasks have been counted.
    pub(super) fn is_through(&self) -> bool {
        match self {
            Pond::Threads(pool) => pool.active_count() == 0,
            Pond::Scheduled(pool) => pool.active_count() == 0,
            Pond::Elastic(scheduler) => {
                let stats = scheduler.stats();
                stats.completed + stats.panicked + stats.cancelled >= stats.submitted
            }
        }
    }

    /// Returns true if all workers are parked, so that each is available for the next task.
    pub(super) fn sleeps(&self) -> bool {
        match self {
            Pond::Threads(pool) => pool.parked_workers().all >= pool.pool_size(),
            Pond::Scheduled(_) | Pond::Elastic(_) => true,
        }
    }

    /// Returns false if a worker is parked although it could run a waiting task.
    pub(super) fn is_settled(&self) -> bool {
        match self {
            Pond::Threads(pool) => {
                let (size, active) = (pool.pool_size(), pool.active_count());
                active == size || pool.queued_count() == 0
            }
            Pond::Scheduled(_) | Pond::Elastic(_) => true,
        }
    }

    /// Number of waiting tasks.
    pub(super) fn queued(&self) -> usize {
        match self {
            Pond::Threads(pool) => pool.queued_count(),
            Pond::Scheduled(pool) => pool.queued_count(),
            Pond::Elastic(scheduler) => scheduler.queued() as usize,
        }
    }

    /// Number of tasks that workers have finished.
    pub(super) fn completed(&self) -> u64 {
        match self {
            Pond::Threads(pool) => pool.completed_task_count(),
            Pond::Scheduled(pool) => pool.completed_task_count(),
            Pond::Elastic(scheduler) => scheduler.stats().completed,
        }
    }

    /// Largest number of threads so far, if the pool knows it.
    pub(super) fn largest(&self) -> Option<usize> {
        match self {
            Pond::Threads(pool) => Some(pool.largest_pool_size()),
            Pond::Scheduled(pool) => Some(pool.largest_pool_size()),
            Pond::Elastic(_) => None,
        }
    }

    /// Starts core threads; `None`: all of them.
    pub(super) fn prestart(&self, threads: Option<usize>) {
        let one = || match self {
            Pond::Threads(pool) => pool.prestart_core_thread(),
            Pond::Scheduled(pool) => pool.prestart_core_thread(),
            Pond::Elastic(_) => false,
        };
        let mut left = threads.unwrap_or(usize::MAX);
        while left > 0 && one() {
            left -= 1;
        }
    }

    /// Changes settings in an order that never puts the core size above the maximum.
    pub(super) fn set(&self, settings: &Settings, pace: Pace) -> Result<(), ConfigError> {
        let Pond::Threads(pool) = self else { return Ok(()) };
        let grows = settings.max.is_some_and(|max| max >= pool.maximum_pool_size());
        if let (Some(max), true) = (settings.max, grows) {
            pool.set_maximum_pool_size(max)?;
        }
        if let Some(core) = settings.core {
            pool.set_core_pool_size(core)?;
        }
        if let (Some(max), false) = (settings.max, grows) {
            pool.set_maximum_pool_size(max)?;
        }
        if let Some(time) = settings.keep_alive {
            pool.set_keep_alive_time(pace.real(time))?;
        }
        if let Some(allow) = settings.core_time_out {
            pool.allow_core_thread_time_out(allow)?;
        }
        Ok(())
    }

    /// Shuts down: waits up to `grace`, interrupts, waits up to `force`. In real time.
    pub(super) fn end(&self, grace: Duration, force: Duration) -> Ended {
        let report = match self {
            Pond::Threads(pool) => pool.shutdown_gracefully(grace, force),
            Pond::Scheduled(pool) => pool.shutdown_gracefully(grace, force),
            Pond::Elastic(scheduler) => return end_scheduler(scheduler, grace, force),
        };
        Ended { outcome: report.outcome, elapsed: report.elapsed, never_run: report.never_run }
    }
}

/// A scheduler returns no report: it drops the tasks that it cancels, and these report it.
fn end_scheduler(scheduler: &BoundedElasticScheduler, grace: Duration, force: Duration) -> Ended {
    let begin = Instant::now();
    let outcome = if scheduler.dispose_gracefully(grace).unwrap_or(false) {
        ShutdownOutcome::Drained
    } else {
        scheduler.dispose();
        match scheduler.dispose_gracefully(force) {
            Ok(true) => ShutdownOutcome::Interrupted,
            _ => ShutdownOutcome::StillRunning,
        }
    };
    Ended { outcome, elapsed: begin.elapsed(), never_run: Vec::new() }
}

impl fmt::Display for Pond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pond::Threads(pool) => pool.fmt(f),
            Pond::Scheduled(pool) => pool.fmt(f),
            Pond::Elastic(scheduler) => scheduler.fmt(f),
        }
    }
}

impl fmt::Debug for Pond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn work_queue(queue: &Queue) -> WorkQueue {
    match queue {
        Queue::Array(n) => WorkQueue::array(*n),
        Queue::Linked => WorkQueue::linked(),
        Queue::LinkedBounded(n) => WorkQueue::linked_bounded(*n),
        Queue::Synchronous => WorkQueue::synchronous(),
        Queue::Priority => WorkQueue::priority(),
        Queue::Delay => WorkQueue::delay(),
    }
}

type Spawned = io::Result<thread::JoinHandle<()>>;

/// A thread factory that reports for which task a thread is started. Hooks report its start and
/// end.
fn spawning(recorder: &Arc<Recorder>) -> impl Fn(WorkerBody) -> Spawned + Send + Sync + 'static {
    let recorder = Arc::clone(recorder);
    move |body| {
        recorder.spawns();
        thread::Builder::new().name(body.name().to_owned()).spawn(move || body.run())
    }
}

/// The same for a scheduler, which has no thread hooks: this also reports start and end.
fn watched_from_outside(recorder: &Arc<Recorder>) -> impl Fn(WorkerBody) -> Spawned + Send + Sync + 'static {
    let recorder = Arc::clone(recorder);
    move |body| {
        recorder.spawns();
        let recorder = Arc::clone(&recorder);
        let name = body.name().to_owned();
        thread::Builder::new().name(name.clone()).spawn(move || {
            recorder.thread_started(&name);
            body.run();
            recorder.thread_stopped(&name);
        })
    }
}

/// A policy of the library, with an observer.
struct Observed {
    policy: Box<dyn RejectedExecutionHandler>,
    recorder: Arc<Recorder>,
    /// Opened if the policy blocks the submitter, because no other thread would open it.
    gate: Option<Arc<Gate>>,
}

impl Observed {
    fn new(policy: &Policy, pace: Pace, recorder: &Arc<Recorder>, gate: &Arc<Gate>) -> Observed {
        let boxed: Box<dyn RejectedExecutionHandler> = match policy {
            Policy::Abort => Box::new(policy::Abort),
            Policy::CallerRuns => Box::new(policy::CallerRuns),
            Policy::Discard => Box::new(policy::Discard),
            Policy::DiscardOldest => Box::new(policy::DiscardOldest),
            Policy::Block(None) => Box::new(policy::Block::forever()),
            Policy::Block(Some(time)) => Box::new(policy::Block::timeout(pace.real(*time))),
            Policy::CountAndWarn => Box::new(count_and_warn(recorder)),
        };
        let keeps_the_submitter = matches!(policy, Policy::CallerRuns | Policy::Block(_));
        Observed {
            policy: boxed,
            recorder: Arc::clone(recorder),
            gate: keeps_the_submitter.then(|| Arc::clone(gate)),
        }
    }
}

impl RejectedExecutionHandler for Observed {
    fn rejected_execution(&self, task: Task, pool: &ThreadPoolExecutor) -> Result<(), Rejected> {
        self.recorder.refused();
        if let Some(gate) = &self.gate {
            gate.open();
        }
        self.policy.rejected_execution(task, pool)
    }
}

/// A custom policy, as users might write it.
fn count_and_warn(recorder: &Arc<Recorder>) -> impl RejectedExecutionHandler {
    let recorder = Arc::clone(recorder);
    let refused = AtomicU64::new(0);
    move |task: Task, pool: &ThreadPoolExecutor| {
        let count = refused.fetch_add(1, Ordering::Relaxed) + 1;
        let name = task.name().unwrap_or("a task").to_owned();
        let (threads, queued) = (pool.pool_size(), pool.queued_count());
        recorder.note(format!("warning: {name} refused, {count} so far; {threads} threads, {queued} queued"));
        Err(Rejected::new(task, RejectReason::Saturated))
    }
}
