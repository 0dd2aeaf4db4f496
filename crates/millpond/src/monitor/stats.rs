//! [`PoolStats`]: the counters and gauges of a pool, and [`RunState`].

use std::time::Duration;

/// The phases of a pool's life, in order. A pool never returns to an earlier phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RunState {
    /// Accepts tasks and runs them.
    Running,
    /// Rejects new tasks; queued and running tasks still complete.
    Shutdown,
    /// Rejects new tasks; the queue has been drained and running tasks have been interrupted.
    Stop,
    /// All workers have exited; the `terminated` hook is running.
    Tidying,
    /// The `terminated` hook has returned.
    Terminated,
}

impl RunState {
    pub(crate) const ALL: [RunState; 5] =
        [Self::Running, Self::Shutdown, Self::Stop, Self::Tidying, Self::Terminated];
}

/// The figures of a pool at one moment.
///
/// A task counts from its acceptance until it is settled. While no task moves, `submitted` =
/// `completed` + `panicked` + `cancelled` + `handed_back` + `expired` + `queued_count` +
/// `active_count` + `in_place_count`. While tasks move, two statements still hold. The settled
/// tasks (`completed`, `panicked`, `cancelled`, `handed_back`, `expired`) never exceed `submitted`.
/// Every task accepted before the call is in one of the counts, or in two while it moves from one
/// count to the next. The outcome of a task is counted before its handle resolves.
///
/// A pool with a custom queue reports the length of that queue. A task that the owner adds directly
/// to the queue counts as submitted when it is settled. A task that a worker has just dequeued is
/// briefly in no count.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolStats {
    /// The run state.
    pub state: RunState,
    /// The core size in force.
    pub core_pool_size: usize,
    /// The maximum size in force.
    pub maximum_pool_size: usize,
    /// How long an idle worker above the core size waits for work before it exits.
    pub keep_alive_time: Duration,
    /// The number of workers.
    pub pool_size: usize,
    /// Workers that run a task or have been assigned one. Never more than `pool_size`.
    pub active_count: usize,
    /// Tasks that run inside another task that joins them; see
    /// [`TaskHandle::join`](crate::TaskHandle::join). Their workers are already in `active_count`.
    pub in_place_count: usize,
    /// The largest number of workers so far.
    pub largest_pool_size: usize,
    /// The number of queued tasks.
    pub queued_count: usize,
    /// How many more tasks the queue accepts; `usize::MAX` if it is unbounded.
    pub remaining_queue_capacity: usize,
    /// Tasks accepted so far.
    pub submitted: u64,
    /// Tasks that ran and returned.
    pub completed: u64,
    /// Tasks that panicked, and tasks that did not run because `before_execute` panicked.
    pub panicked: u64,
    /// Tasks that were cancelled, before or while they ran.
    pub cancelled: u64,
    /// Tasks that were refused, regardless of what the policy did with them. Tasks for which the
    /// blocking policy found space are not included.
    pub rejected: u64,
    /// Accepted tasks that left the pool without running: removed, drained by `shutdown_now`, or
    /// evicted by `DiscardOldest`.
    pub handed_back: u64,
    /// Accepted tasks that did not run because they waited longer than
    /// [`max_queue_time`](crate::Builder::max_queue_time).
    pub expired: u64,
    /// Periodic tasks of a scheduled pool or scheduler that ended because a run panicked. If this
    /// grows, some periodic work no longer happens.
    pub periodic_ended_by_panic: u64,
}
