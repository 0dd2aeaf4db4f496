//! The growth rule: new core thread, queue, extra thread or rejection, as one pure function.
//!
//! The pool calls it for every task it is given, so whoever else calls it with the same numbers (a simulator,
//! a test that walks through all of them) gets the answer that the pool would give.

/// In which order a pool uses its threads and its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GrowthRule {
    /// The JDK's: threads up to core, then the queue, then threads up to the maximum, then rejection.
    #[default]
    QueueFirst,
    /// Threads up to the maximum as long as no worker is free, then the queue, then rejection.
    Eager,
}

/// What the rule looks at: the pool, at the moment when a task arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// Workers the pool has.
    pub workers: usize,
    /// The core size.
    pub core: usize,
    /// The maximum size.
    pub maximum: usize,
    /// The queue would take the task. For a synchronous queue: a worker waits for one.
    pub queue_has_room: bool,
    /// Some worker has nothing to do. Only [`GrowthRule::Eager`] asks.
    pub worker_is_free: bool,
}

/// What becomes of an arriving task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Admission {
    /// A new thread below the core size runs it first.
    CoreThread,
    /// It goes to the queue, or straight to a worker that waits.
    Queue,
    /// A new thread above the core size runs it first.
    ExtraThread,
    /// The rejection policy gets it.
    Reject,
}

/// Decides what becomes of a task that arrives at a running pool.
///
/// # Examples
/// ```
/// use millpond::growth::{Admission, GrowthRule, Load, admit};
///
/// let full_queue = Load { workers: 2, core: 2, maximum: 4, queue_has_room: false, worker_is_free: false };
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
