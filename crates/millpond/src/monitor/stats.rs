//! [`PoolStats`]: the counters and gauges of a pool, and [`RunState`].

use std::time::Duration;

/// The phases in the life of a pool, in order. A pool never returns to an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RunState {
    /// Accepts tasks and runs them.
    Running,
    /// Rejects new tasks; queued and running tasks still complete.
    Shutdown,
    /// Rejects new tasks; the queue has been drained and running tasks have been interrupted.
    Stop,
    /// All workers have exited; the `terminated` hook runs.
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
/// `active_count` + `in_place_count`. While tasks move, two things still hold. The settled tasks
/// (`completed`, `panicked`, `cancelled`, `handed_back`, `expired`) never exceed `submitted`. Every
/// task accepted before the call is in one of the counts, or in two while it moves from one to the
/// next. The outcome of a task is counted before its handle resolves.
///
/// A pool with a custom queue counts what the queue holds. A task that the owner of the queue adds
/// counts as submitted when it is settled. A task that a worker has just dequeued is in no count
/// for a moment.
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
    /// Number of workers.
    pub pool_size: usize,
    /// Workers that run a task or have been given one. Never more than `pool_size`.
    pub active_count: usize,
    /// Tasks that run inside another task that joins them, see
    /// [`TaskHandle::join`](crate::TaskHandle::join). Their workers are in `active_count` already.
    pub in_place_count: usize,
    /// The largest number of workers so far.
    pub largest_pool_size: usize,
    /// Queued tasks.
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
    /// Tasks that were refused, whatever the policy did with them. Tasks for which the blocking
    /// policy found room are not included.
    pub rejected: u64,
    /// Accepted tasks that left without having run: removed, drained by `shutdown_now`, or evicted
    /// by `DiscardOldest`.
    pub handed_back: u64,
    /// Accepted tasks that did not run because they waited longer than
    /// [`max_queue_time`](crate::Builder::max_queue_time).
    pub expired: u64,
    /// Periodic tasks of a scheduled pool that ended because a run panicked. If this grows,
    /// something that should happen periodically no longer does.
    pub periodic_ended_by_panic: u64,
}
