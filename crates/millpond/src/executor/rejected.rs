//! [`Rejected`], the error that hands a task back, and why: [`RejectReason`].

use std::error::Error;
use std::fmt;
use std::io;

use crate::sync::Arc;
use crate::task::Task;

/// Why a task was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RejectReason {
    /// No thread, no place in the queue and no further thread allowed.
    Saturated,
    /// The executor has been shut down.
    Shutdown,
    /// A thread was needed and could not be started; the cause is the error's `source`.
    SpawnFailed,
    /// The submitting thread was interrupted while a blocking policy waited for room; its flag is still set.
    Interrupted,
    /// The scheduler's worker has been disposed.
    WorkerDisposed,
    /// The scheduler can run work, but not later or again and again.
    NotTimeCapable,
    /// A series with a period of zero would run without end.
    ZeroPeriod,
    /// A hook, decorator, factory or foreign executor panicked while it was asked about the task.
    CallbackPanicked,
}

impl RejectReason {
    /// What is the matter, to be put after the name of whoever refused: "pool-1 is saturated".
    pub(crate) fn predicate(self) -> &'static str {
        match self {
            Self::Saturated => "is saturated",
            Self::Shutdown => "has been shut down",
            Self::SpawnFailed => "could not start a thread",
            Self::Interrupted => "had no room before the waiting thread was interrupted",
            Self::WorkerDisposed => "has a worker that was disposed",
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

/// The error of a refused task. It owns the task: run it, retry it, store it.
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
    /// In a box: as a rule there is none, and then there is next to nothing to drop.
    source: Option<Box<io::Error>>,
    /// Who refused it: for the message.
    by: Option<By>,
}

/// Who refused a task.
#[derive(Debug, Clone)]
enum By {
    Pool(PoolFacts),
    Scheduler(Box<SchedulerFacts>),
}

/// What a rejection remembers of the scheduler.
#[derive(Debug, Clone)]
pub(crate) struct SchedulerFacts {
    pub(crate) name: Arc<str>,
    /// If it is full: how many tasks would wait, and how many may.
    pub(crate) full: Option<(u64, u64)>,
}

/// What a rejection remembers of the pool: enough for a useful message, small enough to be handed around as a value.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PoolFacts {
    pub(crate) number: u64,
    pub(crate) pool_size: u32,
    /// [`PoolFacts::NO_BOUND`]: there is none.
    pub(crate) maximum: u32,
    pub(crate) queued: usize,
}

impl PoolFacts {
    pub(crate) const NO_BOUND: u32 = u32::MAX;
}

impl Rejected {
    /// Makes the error: for executors and policies of your own.
    #[inline]
    pub fn new(task: Task, reason: RejectReason) -> Rejected {
        Rejected { task, reason, source: None, by: None }
    }

    /// The error of a pool. Made in one piece: an overloaded pool makes many, and each move costs as much as the rest.
    #[inline]
    pub(crate) fn by_pool(task: Task, reason: RejectReason, facts: PoolFacts) -> Rejected {
        Rejected { task, reason, source: None, by: Some(By::Pool(facts)) }
    }

    pub(crate) fn by_scheduler(mut self, facts: SchedulerFacts) -> Rejected {
        self.by = Some(By::Scheduler(Box::new(facts)));
        self
    }

    pub(crate) fn because(mut self, source: io::Error) -> Rejected {
        self.source = Some(Box::new(source));
        self
    }

    /// Why the task was refused.
    pub fn reason(&self) -> RejectReason {
        self.reason
    }

    /// The refused task.
    pub fn task(&self) -> &Task {
        &self.task
    }

    /// The refused task, to be run, retried or stored. Dropping it resolves its handle as abandoned.
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
        match &self.by {
            Some(By::Pool(pool)) => write!(f, "pool-{} ", pool.number)?,
            Some(By::Scheduler(scheduler)) => write!(f, "{} ", scheduler.name)?,
            None => f.write_str("the executor ")?,
        }
        f.write_str(self.reason.predicate())?;
        if let Some(source) = &self.source {
            write!(f, ": {source}")?;
        }
        match &self.by {
            Some(By::Pool(pool)) => {
                write!(f, " (pool size = {}, ", pool.pool_size)?;
                if pool.maximum != PoolFacts::NO_BOUND {
                    write!(f, "maximum = {}, ", pool.maximum)?;
                }
                write!(f, "queued tasks = {})", pool.queued)
            }
            Some(By::Scheduler(scheduler)) => match scheduler.full {
                Some((would_be, cap)) => {
                    write!(f, ": {would_be} tasks would wait, but at most {cap} may")
                }
                None => Ok(()),
            },
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rejected")
            .field("task", &self.task)
            .field("reason", &self.reason)
            .field("source", &self.source)
            .field("by", &self.by)
            .finish()
    }
}

impl Error for Rejected {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn Error + 'static))
    }
}
