//! What happens to a task that does not fit: the rejection policies.
//!
//! | policy | the task | after a shutdown |
//! |---|---|---|
//! | [`Abort`], the default | comes back in the error | the same |
//! | [`CallerRuns`] | is run by the submitter | is dropped |
//! | [`Block`] | waits for room, and the submitter with it | comes back in the error |
//! | [`Discard`] | is dropped | is dropped |
//! | [`DiscardOldest`] | takes the place of the head of the queue, which is dropped | is dropped |
//! | a closure | as you write it | is asked too |
//!
//! The handle of a task that is dropped resolves as abandoned. With every policy a refused task is counted
//! ([`PoolStats::rejected`](crate::PoolStats::rejected)) and told to [`Hooks::rejected`](crate::Hooks::rejected); one for
//! which [`Block`] found room was not refused.

use std::any::TypeId;
use std::fmt;
use std::time::Duration;

use super::ThreadPoolExecutor;
use crate::executor::Rejected;
use crate::sync::Arc;
use crate::task::Task;

/// Decides what becomes of a task that the pool refused, because it is saturated or shut down.
///
/// Called on the submitting thread, with none of the pool's locks held, once for each time that a task is refused. `Ok` means
/// that the task is taken care of; `Err` goes to whoever submitted it. Any closure of this shape is a
/// policy. A task that is dropped resolves its handle as abandoned.
///
/// # Examples
/// ```
/// use millpond::{RejectReason, Rejected, Task, ThreadPoolExecutor, WorkQueue};
///
/// let pool = ThreadPoolExecutor::builder()
///     .core_pool_size(1)
///     .maximum_pool_size(1)
///     .work_queue(WorkQueue::array(1))
///     .rejected_execution_handler(|task: Task, pool: &ThreadPoolExecutor| {
///         eprintln!("{pool} has no room");
///         Err(Rejected::new(task, RejectReason::Saturated))
///     })
///     .build()?;
/// # Ok::<(), millpond::ConfigError>(())
/// ```
pub trait RejectedExecutionHandler: Send + Sync + 'static {
    /// Takes care of `task`, or gives it back.
    ///
    /// # Errors
    /// [`Rejected`], with the task, if the submitter should have it.
    fn rejected_execution(&self, task: Task, pool: &ThreadPoolExecutor) -> Result<(), Rejected>;
}

impl<F> RejectedExecutionHandler for F
where
    F: Fn(Task, &ThreadPoolExecutor) -> Result<(), Rejected> + Send + Sync + 'static,
{
    fn rejected_execution(&self, task: Task, pool: &ThreadPoolExecutor) -> Result<(), Rejected> {
        self(task, pool)
    }
}

/// Gives the task back to the submitter, as an error. The default.
#[derive(Debug, Clone, Copy, Default)]
pub struct Abort;

impl RejectedExecutionHandler for Abort {
    fn rejected_execution(&self, task: Task, pool: &ThreadPoolExecutor) -> Result<(), Rejected> {
        Err(pool.refusal(task))
    }
}

/// Runs the task on the submitting thread, which slows the submitter down. After a shutdown the task is dropped.
///
/// It is not counted as completed, and of the hooks only [`Hooks::panicked`](crate::Hooks::panicked) is
/// called for it, if it panics. The panic of a task without a handle unwinds to the submitter.
#[derive(Debug, Clone, Copy, Default)]
pub struct CallerRuns;

impl RejectedExecutionHandler for CallerRuns {
    fn rejected_execution(&self, task: Task, pool: &ThreadPoolExecutor) -> Result<(), Rejected> {
        if pool.is_shutdown() {
            task.drop_caught();
        } else {
            task.run_reporting_panics(|info, panic| pool.core().tell_panicked(info, panic));
        }
        Ok(())
    }
}

/// Drops the task. If it has a handle, that resolves as abandoned.
#[derive(Debug, Clone, Copy, Default)]
pub struct Discard;

impl RejectedExecutionHandler for Discard {
    fn rejected_execution(&self, task: Task, _pool: &ThreadPoolExecutor) -> Result<(), Rejected> {
        task.drop_caught();
        Ok(())
    }
}

/// Drops the head of the queue and submits the task again. After a shutdown the task itself is dropped.
///
/// In a pool with [`max_queue_time`](crate::Builder::max_queue_time) tasks at the head that are too old make room first: these
/// expire, and no other task is dropped.
///
/// The head of a priority queue is its most urgent task. If there is nothing to evict, as with a
/// synchronous queue, the task is given back as an error.
#[derive(Debug, Clone, Copy, Default)]
pub struct DiscardOldest;

impl RejectedExecutionHandler for DiscardOldest {
    fn rejected_execution(&self, task: Task, pool: &ThreadPoolExecutor) -> Result<(), Rejected> {
        if pool.is_shutdown() {
            task.drop_caught();
            return Ok(());
        }
        if !pool.core().shed_overdue() {
            match pool.core().evict() {
                Some(oldest) => oldest.drop_caught(),
                None => return Err(pool.refusal(task)),
            }
        }
        pool.execute_task(task)
    }
}

/// Makes the submitter wait until there is room: back-pressure.
///
/// The wait ends with an error when the pool is shut down, when the time is over
/// ([`Saturated`](crate::RejectReason::Saturated)), or when the waiting thread is interrupted
/// ([`Interrupted`](crate::RejectReason::Interrupted); its flag stays set). A task that submits to its own pool does not
/// wait: if the pool is full it is refused as `Saturated` at once, whatever the time-out, because when all workers wait
/// none is left to make room. Prefer [`CallerRuns`] for such tasks.
#[derive(Debug, Clone, Copy)]
pub struct Block {
    timeout: Duration,
}

impl Block {
    /// Waits as long as it takes.
    pub fn forever() -> Block {
        Block { timeout: Duration::MAX }
    }

    /// Waits at most `timeout`.
    pub fn timeout(timeout: Duration) -> Block {
        Block { timeout }
    }
}

impl RejectedExecutionHandler for Block {
    fn rejected_execution(&self, task: Task, pool: &ThreadPoolExecutor) -> Result<(), Rejected> {
        pool.admit_when_room(task, self.timeout)
    }
}

/// A policy in force.
#[derive(Clone)]
pub(super) struct Handler {
    policy: Arc<dyn RejectedExecutionHandler>,
    /// The policy waits for room: only if it finds none is the task refused.
    pub(super) waits: bool,
    pub(super) usual: BuiltinPolicy,
}

/// The policies that are followed without a look at the handler, because they are followed often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BuiltinPolicy {
    /// None of those.
    No,
    Abort,
    CallerRuns,
    Discard,
}

impl BuiltinPolicy {
    /// The one that `as u8` made this of.
    #[inline]
    pub(super) fn from_u8(bits: u8) -> BuiltinPolicy {
        let others = [Self::Abort, Self::CallerRuns, Self::Discard];
        others.into_iter().find(|usual| *usual as u8 == bits).unwrap_or(Self::No)
    }
}

impl Handler {
    pub(super) fn new<H: RejectedExecutionHandler>(policy: H) -> Self {
        let is = |kind| TypeId::of::<H>() == kind;
        Handler {
            policy: Arc::new(policy),
            waits: is(TypeId::of::<Block>()),
            usual: match () {
                () if is(TypeId::of::<Abort>()) => BuiltinPolicy::Abort,
                () if is(TypeId::of::<CallerRuns>()) => BuiltinPolicy::CallerRuns,
                () if is(TypeId::of::<Discard>()) => BuiltinPolicy::Discard,
                () => BuiltinPolicy::No,
            },
        }
    }

    pub(super) fn call(&self, task: Task, pool: &ThreadPoolExecutor) -> Result<(), Rejected> {
        self.policy.rejected_execution(task, pool)
    }
}

impl fmt::Debug for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handler").field("waits", &self.waits).finish_non_exhaustive()
    }
}
