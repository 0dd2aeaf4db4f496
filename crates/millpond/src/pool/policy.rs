//! Rejection policies: what happens to a task that the pool refuses.
//!
//! | policy | a refused task | after a shutdown |
//! |---|---|---|
//! | [`Abort`], the default | is returned in the error | is returned in the error |
//! | [`CallerRuns`] | runs on the submitting thread | is dropped |
//! | [`Block`] | waits for room; the submitter blocks | is returned in the error |
//! | [`Discard`] | is dropped | is dropped |
//! | [`DiscardOldest`] | replaces the head of the queue, which is dropped | is dropped |
//! | a closure | is passed to the closure | is passed to the closure |
//!
//! The handle of a dropped task resolves as abandoned. Every policy counts a refused task
//! ([`PoolStats::rejected`](crate::PoolStats::rejected)) and reports it to
//! [`Hooks::rejected`](crate::Hooks::rejected). A task for which [`Block`] finds room is not
//! refused.

use std::any::Any;
use std::fmt;
use std::time::Duration;

use super::ThreadPoolExecutor;
use crate::executor::{RejectReason, Rejected};
use crate::monitor::PolicyKind;
use crate::sync::{Arc, AtomicU8, Mutex, Ordering};
use crate::task::Task;

/// Decides what happens to a task that a saturated or shut-down pool refuses.
///
/// The pool calls the policy on the submitting thread, without holding any lock, once per refusal.
/// `Ok` means that the policy has handled the task. `Err` is returned to the submitter. Any closure
/// with this signature is a policy. If the policy drops the task, its handle resolves as abandoned.
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
///         eprintln!("{pool} refuses a task");
///         let is_shutdown = pool.is_shutdown();
///         let reason = if is_shutdown { RejectReason::Shutdown } else { RejectReason::Saturated };
///         Err(Rejected::new(task, reason))
///     })
///     .build()?;
/// # Ok::<(), millpond::ConfigError>(())
/// ```
pub trait RejectedExecutionHandler: Send + Sync + 'static {
    /// Handles `task`, or returns it.
    ///
    /// # Errors
    /// [`Rejected`] with the task, for the submitter.
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

/// Returns the task to the submitter as an error. The default.
#[derive(Debug, Clone, Copy, Default)]
pub struct Abort;

impl RejectedExecutionHandler for Abort {
    fn rejected_execution(&self, task: Task, pool: &ThreadPoolExecutor) -> Result<(), Rejected> {
        let reason = if pool.is_shutdown() { RejectReason::Shutdown } else { RejectReason::Saturated };
        Err(Rejected::by_pool(task, reason, pool.inner().facts()).by_name(pool.inner().name()))
    }
}

/// Runs the task on the submitting thread, which slows the submitter down. Drops it after a
/// shutdown.
///
/// The task does not count as completed. If it panics, the pool calls
/// [`Hooks::panicked`](crate::Hooks::panicked) and no other hook. If the task has a handle, the
/// handle receives the panic. Otherwise the panic unwinds into the submitter.
#[derive(Debug, Clone, Copy, Default)]
pub struct CallerRuns;

impl RejectedExecutionHandler for CallerRuns {
    fn rejected_execution(&self, task: Task, pool: &ThreadPoolExecutor) -> Result<(), Rejected> {
        if pool.is_shutdown() {
            task.drop_caught();
        } else {
            task.run_reporting_panics(|info, panic| pool.inner().report_panic(info, panic));
        }
        Ok(())
    }
}

/// Drops the task. Its handle, if it has one, resolves as abandoned.
#[derive(Debug, Clone, Copy, Default)]
pub struct Discard;

impl RejectedExecutionHandler for Discard {
    fn rejected_execution(&self, task: Task, _pool: &ThreadPoolExecutor) -> Result<(), Rejected> {
        task.drop_caught();
        Ok(())
    }
}

/// Drops tasks at the head of the queue until the pool admits the task. After a shutdown, drops the
/// task itself.
///
/// In a pool with [`max_queue_time`](crate::Builder::max_queue_time), tasks at the head that have
/// waited too long expire first. If any expired, no other task is dropped.
///
/// The head of a priority queue is its most urgent task. If the queue is empty, as a synchronous
/// queue always is, the task is returned as an error.
#[derive(Debug, Clone, Copy, Default)]
pub struct DiscardOldest;

/// Blocks the submitter until the pool has room (backpressure).
///
/// Blocked threads and the futures of [`submit_async`](ThreadPoolExecutor::submit_async) wait in
/// one line, first in, first out. A submission that finds room at once does not wait in it.
///
/// The wait ends with an error when the pool is shut down, when the timeout passes
/// ([`Saturated`](crate::RejectReason::Saturated)), or when the waiting thread is interrupted
/// ([`Interrupted`](crate::RejectReason::Interrupted); the interrupt flag stays set).
///
/// A task that submits to its own full pool does not wait. It is refused as `Saturated` at once,
/// with any timeout: if all workers waited, none would make room. Prefer [`CallerRuns`] there.
#[derive(Debug, Clone, Copy)]
pub struct Block {
    timeout: Duration,
}

impl Block {
    /// Waits without a time limit.
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

/// The policies that the pool knows. It applies some of them without a virtual call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KnownPolicy {
    Abort,
    CallerRuns,
    Discard,
    DiscardOldest,
    /// Tries to enter again itself. A task is refused only if it finds no room.
    Block,
    /// A custom policy.
    Other,
}

impl KnownPolicy {
    const ALL: [KnownPolicy; 6] =
        [Self::Abort, Self::CallerRuns, Self::Discard, Self::DiscardOldest, Self::Block, Self::Other];

    /// Inverts `as u8`.
    #[inline]
    fn from_u8(bits: u8) -> KnownPolicy {
        Self::ALL.into_iter().find(|kind| *kind as u8 == bits).unwrap_or(Self::Other)
    }
}

/// Returns the public description of a policy.
fn describe<H: RejectedExecutionHandler>(policy: &H) -> PolicyKind {
    let policy = policy as &dyn Any;
    if policy.is::<Abort>() {
        PolicyKind::Abort
    } else if policy.is::<CallerRuns>() {
        PolicyKind::CallerRuns
    } else if policy.is::<Discard>() {
        PolicyKind::Discard
    } else if policy.is::<DiscardOldest>() {
        PolicyKind::DiscardOldest
    } else if let Some(block) = policy.downcast_ref::<Block>() {
        PolicyKind::Block { timeout: block.timeout }
    } else {
        PolicyKind::Custom(std::any::type_name::<H>())
    }
}

/// A policy of any type, with its description.
#[derive(Clone)]
pub(super) struct Handler {
    policy: Arc<dyn RejectedExecutionHandler>,
    kind: PolicyKind,
}

impl Handler {
    pub(super) fn new<H: RejectedExecutionHandler>(policy: H) -> Self {
        Handler { kind: describe(&policy), policy: Arc::new(policy) }
    }

    /// Returns the policy of this kind, or `None` for a custom policy.
    pub(super) fn of(kind: PolicyKind) -> Option<Self> {
        Some(match kind {
            PolicyKind::Abort => Handler::new(Abort),
            PolicyKind::CallerRuns => Handler::new(CallerRuns),
            PolicyKind::Discard => Handler::new(Discard),
            PolicyKind::DiscardOldest => Handler::new(DiscardOldest),
            PolicyKind::Block { timeout } => Handler::new(Block { timeout }),
            PolicyKind::Custom(_) => return None,
        })
    }

    pub(super) fn kind(&self) -> PolicyKind {
        self.kind
    }

    fn known(&self) -> KnownPolicy {
        match self.kind {
            PolicyKind::Abort => KnownPolicy::Abort,
            PolicyKind::CallerRuns => KnownPolicy::CallerRuns,
            PolicyKind::Discard => KnownPolicy::Discard,
            PolicyKind::DiscardOldest => KnownPolicy::DiscardOldest,
            PolicyKind::Block { .. } => KnownPolicy::Block,
            PolicyKind::Custom(_) => KnownPolicy::Other,
        }
    }
}

impl fmt::Debug for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handler").field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// The current policy of a pool.
#[derive(Debug)]
pub(super) struct CurrentPolicy {
    handler: Mutex<Handler>,
    /// The kind of `handler`, for reads without the lock. Written under the lock.
    known: AtomicU8,
}

impl CurrentPolicy {
    pub(super) fn new(handler: Handler) -> Self {
        CurrentPolicy { known: AtomicU8::new(handler.known() as u8), handler: Mutex::new(handler) }
    }

    /// Relaxed: a rejection that races with a change of the policy may follow either.
    #[inline]
    pub(super) fn known(&self) -> KnownPolicy {
        KnownPolicy::from_u8(self.known.load(Ordering::Relaxed))
    }

    /// Returns the policy and its kind. The kind may differ from the earlier result of
    /// [`known`](Self::known).
    pub(super) fn get(&self) -> (Arc<dyn RejectedExecutionHandler>, KnownPolicy) {
        let handler = self.handler.lock();
        (Arc::clone(&handler.policy), handler.known())
    }

    /// Installs `new` and returns the previous policy, to be dropped outside of the lock.
    pub(super) fn replace(&self, new: Handler) -> Handler {
        let mut handler = self.handler.lock();
        self.known.store(new.known() as u8, Ordering::Relaxed);
        std::mem::replace(&mut *handler, new)
    }
}
