//! The growth rule: core thread, queue, extra thread or rejection, as one pure function.
//!
//! The pool calls [`admit`] for every task. A simulator or a test that calls it with the same
//! numbers gets the pool's answer.

/// The order in which a pool uses its threads and its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GrowthRule {
    /// The JDK's order: threads up to the core size, the queue, threads up to the maximum,
    /// rejection.
    #[default]
    QueueFirst,
    /// Threads up to the maximum while no worker is free, then the queue, then rejection.
    Eager,
}

/// The state of the pool when a task arrives: the input of the rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// Number of workers.
    pub workers: usize,
    /// Core size.
    pub core: usize,
    /// Maximum size.
    pub maximum: usize,
    /// True if the queue would accept the task. For a synchronous queue: true if a worker waits.
    pub queue_has_room: bool,
    /// True if some worker has no task. Only [`GrowthRule::Eager`] reads it.
    pub worker_is_free: bool,
}

/// The decision about an arriving task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Admission {
    /// Start a thread below the core size with this task.
    CoreThread,
    /// Put the task into the queue, or hand it to a waiting worker.
    Queue,
    /// Start a thread above the core size with this task.
    ExtraThread,
    /// Give the task to the rejection policy.
    Reject,
}

/// Decides about a task that arrives at a running pool.
///
/// # Examples
/// ```
/// use millpond::growth::{Admission, GrowthRule, Load, admit};
///
/// let full_queue = Load {
///     workers: 2,
///     core: 2,
///     maximum: 4,
///     queue_has_room: false,
///     worker_is_free: false,
/// };
/// assert_eq!(admit(GrowthRule::QueueFirst, full_queue), Admission::ExtraThread);
/// assert_eq!(admit(GrowthRule::QueueFirst, Load { workers: 4, ..full_queue }), Admission::Reject);
/// ```
#[inline]
pub fn admit(rule: GrowthRule, load: Load) -> Admission {
    let thread = if load.workers < load.core { Admission::CoreThread } else { Admission::ExtraThread };
    let may_grow = load.workers < load.maximum;
    match rule {
        GrowthRule::QueueFirst if load.workers < load.core => thread,
        GrowthRule::Eager if may_grow && !(load.worker_is_free && load.queue_has_room) => thread,
        _ if load.queue_has_room => Admission::Queue,
        _ if may_grow => thread,
        _ => Admission::Reject,
    }
}
