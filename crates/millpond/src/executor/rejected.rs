//! The errors of a refused task: [`Rejected`] returns the task, [`TrySubmitError`] the closure.
//! Both have a [`RejectReason`].

use std::error::Error;
use std::fmt;
use std::io;
use std::num::NonZeroU32;

use super::pool_name::PoolName;
use crate::sync::Arc;
use crate::task::Task;

/// The reason why a task was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RejectReason {
    /// All threads are busy, no further thread is allowed, and the queue is full or its oldest task
    /// has waited longer than [`max_queue_time`](crate::Builder::max_queue_time).
    Saturated,
    /// The executor has been shut down.
    Shutdown,
    /// A thread was needed and could not be started. The error's `source` is the cause.
    SpawnFailed,
    /// The submitting thread was interrupted while it waited for space. Its interrupt flag is still
    /// set.
    Interrupted,
    /// The scheduler's worker has been disposed.
    WorkerDisposed,
    /// The scheduler cannot run delayed or periodic tasks.
    NotTimeCapable,
    /// The period of a periodic task is zero.
    ZeroPeriod,
    /// A hook, decorator, factory or custom executor panicked when it was called for the task, or
    /// the capture of [`propagate`](crate::Builder::propagate) did.
    CallbackPanicked,
}

impl RejectReason {
    /// All reasons, in the order of their discriminants.
    pub(crate) const ALL: [RejectReason; 8] = [
        Self::Saturated,
        Self::Shutdown,
        Self::SpawnFailed,
        Self::Interrupted,
        Self::WorkerDisposed,
        Self::NotTimeCapable,
        Self::ZeroPeriod,
        Self::CallbackPanicked,
    ];

    /// Returns the name in lower case, for metric labels: `spawn_failed`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Saturated => "saturated",
            Self::Shutdown => "shutdown",
            Self::SpawnFailed => "spawn_failed",
            Self::Interrupted => "interrupted",
            Self::WorkerDisposed => "worker_disposed",
            Self::NotTimeCapable => "not_time_capable",
            Self::ZeroPeriod => "zero_period",
            Self::CallbackPanicked => "callback_panicked",
        }
    }

    /// Returns true if the executor is running but has no capacity for the task now. A service
    /// would answer "busy, try again later" (HTTP 503 with `Retry-After`).
    ///
    /// This is true for [`Saturated`](Self::Saturated) only. A failed thread start
    /// ([`SpawnFailed`](Self::SpawnFailed)) is a fault of the system or of the thread factory.
    ///
    /// # Examples
    /// ```
    /// use millpond::{Rejected, executors};
    ///
    /// fn status(rejected: &Rejected) -> u16 {
    ///     let reason = rejected.reason();
    ///     if reason.is_overload() || reason.is_shutdown() { 503 } else { 500 }
    /// }
    ///
    /// let pool = executors::fixed(1)?;
    /// pool.shutdown();
    /// let rejected = pool.submit(|| 42).unwrap_err();
    /// assert!(rejected.reason().is_shutdown() && !rejected.reason().is_overload());
    /// assert_eq!(status(&rejected), 503);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_overload(self) -> bool {
        matches!(self, Self::Saturated)
    }

    /// Returns true if the executor will never accept a task again: it was shut down, or the
    /// scheduler's worker was disposed.
    pub fn is_shutdown(self) -> bool {
        matches!(self, Self::Shutdown | Self::WorkerDisposed)
    }

    /// Returns the predicate of a sentence about the executor: "is saturated" for "pool-1 is
    /// saturated".
    pub(crate) fn predicate(self) -> &'static str {
        match self {
            Self::Saturated => "is saturated",
            Self::Shutdown => "has been shut down",
            Self::SpawnFailed => "could not start a thread",
            Self::Interrupted => "was still full when the waiting thread was interrupted",
            Self::WorkerDisposed => "has disposed of this worker",
            Self::NotTimeCapable => "cannot run tasks later or periodically",
            Self::ZeroPeriod => "needs a period above zero",
            Self::CallbackPanicked => "called a hook, decorator, factory or executor that panicked",
        }
    }
}

impl fmt::Display for RejectReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the executor {}", self.predicate())
    }
}

/// The error of a refused task. It owns the task, so that the caller can run, retry or store it.
///
/// # Examples
/// ```
/// use millpond::{RejectReason, executors};
///
/// let pool = executors::fixed(1)?;
/// pool.shutdown();
/// let rejected = pool.execute(|| println!("then I do it myself")).unwrap_err();
/// assert_eq!(rejected.reason(), RejectReason::Shutdown);
/// rejected.into_task().run();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Rejected {
    task: Task,
    reason: RejectReason,
    /// The pool that refused the task; used in the message.
    pool: Option<PoolFacts>,
    /// Boxed because it is rarely present. A saturated pool refuses without an allocation.
    details: Option<Box<Details>>,
}

/// Details that only some rejections have.
#[derive(Debug, Default)]
struct Details {
    source: Option<io::Error>,
    scheduler: Option<SchedulerFacts>,
    /// The name that the user gave to the pool. If absent, the name is looked up.
    pool_name: Option<Arc<str>>,
}

/// The facts about a scheduler that appear in the message.
#[derive(Debug, Clone)]
pub(crate) struct SchedulerFacts {
    pub(crate) name: Arc<str>,
    /// If the scheduler is full: the would-be number of queued tasks, and its bound.
    pub(crate) full: Option<(u64, u64)>,
}

/// The facts about a pool that appear in the message, small enough to be passed by value.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PoolFacts {
    /// N in `pool-N`.
    number: NonZeroU32,
    pool_size: u32,
    /// [`UNBOUNDED`](Self::UNBOUNDED), or the maximum size.
    maximum: u32,
    /// `u32::MAX` means this number or more.
    queued: u32,
}

impl PoolFacts {
    const UNBOUNDED: u32 = u32::MAX;

    /// `maximum` is `None` if the pool is unbounded. Sizes of a pool fit into 32 bits.
    #[inline]
    pub(crate) fn new(
        number: NonZeroU32,
        pool_size: usize,
        maximum: Option<usize>,
        queued: usize,
    ) -> PoolFacts {
        PoolFacts {
            number,
            pool_size: pool_size as u32,
            maximum: maximum.map_or(Self::UNBOUNDED, |maximum| maximum as u32),
            queued: queued.min(u32::MAX as usize) as u32,
        }
    }
}

impl Rejected {
    /// Creates the error, for custom executors and policies.
    #[inline]
    pub fn new(task: Task, reason: RejectReason) -> Rejected {
        Rejected { task, reason, pool: None, details: None }
    }

    /// Creates the error of a pool in one step, because a move costs as much as the rest of a
    /// rejection.
    #[inline]
    pub(crate) fn by_pool(task: Task, reason: RejectReason, facts: PoolFacts) -> Rejected {
        Rejected { task, reason, pool: Some(facts), details: None }
    }

    pub(crate) fn by_scheduler(mut self, facts: SchedulerFacts) -> Rejected {
        self.pool = None;
        self.details.get_or_insert_default().scheduler = Some(facts);
        self
    }

    pub(crate) fn because(mut self, source: io::Error) -> Rejected {
        self.details.get_or_insert_default().source = Some(source);
        self
    }

    /// Stores the name of the pool, so that the message contains it even after the end of the pool.
    pub(crate) fn by_name(mut self, name: &PoolName) -> Rejected {
        if let Some(given) = name.given() {
            self.details.get_or_insert_default().pool_name = Some(Arc::clone(given));
        }
        self
    }

    fn pool_name(&self) -> Option<Arc<str>> {
        let kept = self.details.as_ref().and_then(|details| details.pool_name.clone());
        kept.or_else(|| PoolName::find(self.pool.as_ref()?.number))
    }

    fn source_error(&self) -> Option<&io::Error> {
        self.details.as_ref()?.source.as_ref()
    }

    fn scheduler(&self) -> Option<&SchedulerFacts> {
        self.details.as_ref()?.scheduler.as_ref()
    }

    /// Returns the task, and the cause if a thread could not be started.
    pub(crate) fn into_parts(self) -> (Task, Option<io::Error>) {
        (self.task, self.details.and_then(|details| details.source))
    }

    /// Returns why the task was refused.
    pub fn reason(&self) -> RejectReason {
        self.reason
    }

    /// Returns the refused task.
    pub fn task(&self) -> &Task {
        &self.task
    }

    /// Returns the refused task, so that the caller can run, retry or store it. Dropping it
    /// resolves its handle as abandoned.
    pub fn into_task(self) -> Task {
        self.task
    }
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task {}", self.task.id())?;
        if let Some(name) = self.task.name() {
            write!(f, " ({name})")?;
        }
        f.write_str(" rejected: ")?;
        match (&self.pool, self.scheduler()) {
            (Some(pool), _) => match self.pool_name() {
                Some(name) => write!(f, "{name} ")?,
                None => write!(f, "pool-{} ", pool.number)?,
            },
            (None, Some(scheduler)) => write!(f, "{} ", scheduler.name)?,
            (None, None) => f.write_str("the executor ")?,
        }
        f.write_str(self.reason.predicate())?;
        if let Some(source) = self.source_error() {
            write!(f, ": {source}")?;
        }
        if let Some(pool) = &self.pool {
            write!(f, " (pool size = {}, ", pool.pool_size)?;
            if pool.maximum != PoolFacts::UNBOUNDED {
                write!(f, "maximum = {}, ", pool.maximum)?;
            }
            write!(f, "queued tasks = {})", pool.queued)?;
        } else if let Some((would_be, cap)) = self.scheduler().and_then(|scheduler| scheduler.full) {
            write!(f, ": {would_be} tasks would wait, but at most {cap} may")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rejected")
            .field("task", &self.task)
            .field("reason", &self.reason)
            .field("pool_name", &self.pool_name())
            .field("pool", &self.pool)
            .field("details", &self.details)
            .finish()
    }
}

impl Error for Rejected {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source_error().map(|source| source as &(dyn Error + 'static))
    }
}

/// The error of a refused closure, from [`try_submit`](crate::ThreadPoolExecutor::try_submit) and
/// the methods of a [`Scope`](crate::Scope). It owns the closure, with its original type.
///
/// # Examples
/// ```
/// use millpond::executors;
///
/// let pool = executors::fixed(1)?;
/// pool.shutdown();
/// let refused = pool.try_submit(|| 6 * 7).unwrap_err();
/// assert!(refused.reason().is_shutdown());
/// let f = refused.into_inner();
/// assert_eq!(f(), 42);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TrySubmitError<F> {
    work: F,
    reason: RejectReason,
    /// Boxed because it is rarely present: only a failed thread start has a source.
    source: Option<Box<io::Error>>,
}

impl<F> TrySubmitError<F> {
    pub(crate) fn new(work: F, reason: RejectReason, source: Option<io::Error>) -> Self {
        TrySubmitError { work, reason, source: source.map(Box::new) }
    }

    /// Returns why the closure was refused.
    pub fn reason(&self) -> RejectReason {
        self.reason
    }

    /// Returns the closure, so that the caller can run it or submit it again.
    pub fn into_inner(self) -> F {
        self.work
    }
}

impl<F> fmt::Debug for TrySubmitError<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TrySubmitError")
            .field("reason", &self.reason)
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

impl<F> fmt::Display for TrySubmitError<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task rejected: the pool {}", self.reason.predicate())?;
        match &self.source {
            Some(source) => write!(f, ": {source}"),
            None => Ok(()),
        }
    }
}

impl<F> Error for TrySubmitError<F> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn Error + 'static))
    }
}
