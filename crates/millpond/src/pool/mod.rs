//! [`ThreadPoolExecutor`]: the handle of a pool, and the methods that submit tasks to it.
//!
//! `README.md` explains the protocols: states, invariants and races. Read it first. Each module
//! below imports only from modules above it:
//!
//! | module | contents |
//! |---|---|
//! | `control` | the control word: run state and number of workers |
//! | `growth` | the growth rule, a pure function |
//! | `settings`, `policy`, `hooks` | what users configure |
//! | `counters`, `waiters`, `workers` | data: counts, lists of waiting threads, list of workers |
//! | `idle` | parked workers, and the choice of the one to wake |
//! | `queue` | the kinds of work queue |
//! | `inner` | [`PoolInner`], which holds all of the above |
//! | `times` | how workers measure wait and run times |
//! | `removal`, `lifecycle` | how tasks and the pool end |
//! | `spawn` | starts workers |
//! | `admission`, `refusal`, `backpressure` | how tasks enter, are refused, or wait |
//! | `periodic` | the parts that only a scheduled pool uses |
//! | `run`, `worker` | how a worker runs one task; the worker thread |
//! | `reconfigure`, `pause` | changes of a running pool |
//! | `stats`, `views`, `monitor`, `builder`, `scope`, `delegate` | other public methods |

mod admission;
mod backpressure;
mod builder;
mod control;
mod counters;
mod delegate;
pub mod growth;
mod hooks;
mod idle;
mod inner;
mod lifecycle;
mod monitor;
mod pause;
mod periodic;
pub mod policy;
mod queue;
mod reconfigure;
mod refusal;
mod removal;
mod run;
#[expect(unsafe_code, reason = "erases the lifetime of tasks that borrow from the caller")]
mod scope;
mod settings;
mod spawn;
mod stats;
mod times;
mod views;
mod waiters;
mod worker;
mod workers;

#[cfg(all(test, loom))]
#[path = "../loom_tests/pool.rs"]
mod models;

#[cfg(all(test, loom))]
#[path = "../loom_tests/backpressure.rs"]
mod backpressure_models;

#[cfg(all(test, loom))]
#[path = "../loom_tests/lifecycle.rs"]
mod lifecycle_models;

#[cfg(all(test, loom))]
#[path = "../loom_tests/fifo.rs"]
mod fifo_models;

#[cfg(all(test, loom))]
#[path = "../loom_tests/times.rs"]
mod times_models;

#[cfg(all(test, loom))]
#[path = "../loom_tests/delayed.rs"]
mod delayed_models;

#[cfg(all(test, loom))]
#[path = "../loom_tests/steering.rs"]
mod steering_models;

use std::fmt;
use std::time::Duration;

use self::inner::{PoolInner, PoolOptions};
use crate::executor::{
    Executor, ExecutorService, RejectReason, Rejected, TrySubmitError, inherent_executor_methods,
};
use crate::interrupt::Interrupted;
use crate::monitor::{Event, Kind, PoolRef, RunState};
use crate::sync::{Arc, Weak};
use crate::task::{Task, TaskHandle, TaskOf};

pub(crate) use self::admission::Refusal;
pub use self::backpressure::SubmitAsync;
pub use self::builder::Builder;
pub(crate) use self::delegate::{delegate_executor_service, delegate_lifecycle, delegate_to_pool};
pub use self::hooks::Hooks;
pub use self::idle::ParkedWorkers;
pub use self::lifecycle::{ShutdownOutcome, ShutdownReport};
pub use self::queue::WorkQueue;
pub(crate) use self::queue::delayed::ShutdownPolicy;
pub use self::scope::{Scope, ScopeRejected, ScopedTaskHandle};

/// A pool of threads with a core size, a queue, a maximum size and a rejection policy.
///
/// While there are fewer threads than the core size, a submitted task starts a new thread. After
/// that, tasks are queued. When the queue is full, a task starts a new thread, up to the maximum
/// size. Beyond that the rejection policy decides. An idle thread above the core size exits after
/// the keep-alive time.
///
/// Cloning is cheap: all clones refer to the same pool. Dropping the last clone shuts the pool down
/// without blocking: accepted tasks still run, but the process does not wait for them. Call
/// [`close`](Self::close) or [`shutdown_gracefully`](Self::shutdown_gracefully) at the end of
/// `main`.
///
/// # Examples
/// ```
/// use millpond::{ThreadPoolExecutor, WorkQueue, policy};
/// use std::time::Duration;
///
/// let pool = ThreadPoolExecutor::builder()
///     .core_pool_size(2)
///     .maximum_pool_size(4)
///     .keep_alive_time(Duration::from_secs(60))
///     .work_queue(WorkQueue::array(1000))
///     .rejected_execution_handler(policy::CallerRuns)
///     .thread_name_prefix("resize-")
///     .build()?;
///
/// let width = pool.submit(|| 640 / 2)?;
/// assert_eq!(width.join()?, 320);
/// pool.close();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct ThreadPoolExecutor {
    handle: Arc<Handle>,
}

impl PoolRef {
    /// Returns the pool, or `None` once its last handle has been dropped. Does not block.
    ///
    /// The result may be `None` while workers still run accepted tasks. It is `None` for a
    /// scheduler, and for a scheduled pool, which has [its own reference](crate::ScheduledPoolRef).
    /// A pool that has been shut down is returned as long as it has handles.
    pub fn upgrade(&self) -> Option<ThreadPoolExecutor> {
        if self.identity().kind() == Kind::Pool { self.upgrade_any() } else { None }
    }

    /// Like [`upgrade`](Self::upgrade), and also returns the pool inside a scheduled pool.
    pub(crate) fn upgrade_any(&self) -> Option<ThreadPoolExecutor> {
        let handle = self.identity().handle()?.downcast::<Handle>().ok()?;
        Some(ThreadPoolExecutor { handle })
    }
}

/// Shared by the users' clones and not by the workers. Its drop shuts the pool down, because no
/// task can be submitted any more.
struct Handle {
    inner: Arc<PoolInner>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.inner.shutdown();
    }
}

impl ThreadPoolExecutor {
    /// Returns a builder with default options.
    pub fn builder() -> Builder {
        Builder::new()
    }

    fn new(options: PoolOptions) -> Self {
        let handle = Arc::new_cyclic(|handle: &Weak<Handle>| {
            let handle = Weak::clone(handle);
            Handle { inner: PoolInner::new(options, handle) }
        });
        handle.inner.me().tell(&Event::Created);
        ThreadPoolExecutor { handle }
    }

    fn inner(&self) -> &Arc<PoolInner> {
        &self.handle.inner
    }

    /// Returns a weak reference, which does not keep the pool running. Does not block.
    pub fn downgrade(&self) -> PoolRef {
        PoolRef::clone(self.inner().me())
    }
}

/// Submitting tasks.
impl ThreadPoolExecutor {
    /// Submits `task`.
    ///
    /// Does not block unless the rejection policy does. The policy decides about a task that does
    /// not fit.
    ///
    /// # Errors
    /// [`Rejected`] with the task: from the policy, or if a needed thread could not be started.
    pub fn execute_task(&self, task: Task) -> Result<(), Rejected> {
        self.inner().admit(task).or_else(|refused| self.refuse(refused))
    }

    /// Runs `f` without a handle.
    ///
    /// Does not block unless the rejection policy does. A closure of up to five words is queued
    /// without an allocation.
    ///
    /// # Errors
    /// [`Rejected`] if the pool is shut down or full; [`Rejected::into_task`] returns the work.
    ///
    /// # Examples
    /// ```
    /// let pool = millpond::executors::fixed(2)?;
    /// pool.execute(|| println!("on {:?}", std::thread::current().name()))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn execute(&self, f: impl FnOnce() + Send + 'static) -> Result<(), Rejected> {
        self.inner().admit(f).or_else(|refused| self.refuse(refused))
    }

    /// Submits `f` and returns a handle to its result.
    ///
    /// Does not block unless the rejection policy does. Dropping the handle detaches the task and
    /// does not cancel it. Needs one allocation.
    ///
    /// # Errors
    /// [`Rejected`] if the pool is shut down or full; [`Rejected::into_task`] returns the work. To
    /// retry and still get the result, keep the handle:
    /// [`TaskOf::into_parts`](crate::TaskOf::into_parts).
    ///
    /// # Examples
    /// ```
    /// # use millpond::ThreadPoolExecutor;
    /// let pool = ThreadPoolExecutor::builder().core_pool_size(2).maximum_pool_size(2).build()?;
    /// assert_eq!(pool.submit(|| 6 * 7)?.join()?, 42);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn submit<T: Send + 'static>(
        &self,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> Result<TaskHandle<T>, Rejected> {
        let (task, handle) = TaskOf::bare(f);
        match self.inner().admit(task) {
            Ok(()) => Ok(handle),
            Err(refused) => self.refuse(refused).map(|()| handle),
        }
    }

    /// Submits `f` if the pool has room now, and returns `f` otherwise.
    ///
    /// Never blocks and never applies the rejection policy: a refused closure does not run, is not
    /// dropped, and evicts no other task. Every refusal counts as
    /// [`rejected`](crate::PoolStats::rejected) and calls [`Hooks::rejected`].
    ///
    /// # Errors
    /// [`TrySubmitError`] with the closure: [`Saturated`](RejectReason::Saturated) if there is no
    /// room, [`Shutdown`](RejectReason::Shutdown), or [`SpawnFailed`](RejectReason::SpawnFailed) if
    /// a needed thread could not be started.
    ///
    /// # Examples
    /// ```
    /// use millpond::{ThreadPoolExecutor, WorkQueue};
    ///
    /// let pool = ThreadPoolExecutor::builder().work_queue(WorkQueue::array(10)).build()?;
    /// let answer = match pool.try_submit(|| 6 * 7) {
    ///     Ok(handle) => handle.join()?,
    ///     Err(refused) => (refused.into_inner())(), // here and now
    /// };
    /// assert_eq!(answer, 42);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn try_submit<T, F>(&self, f: F) -> Result<TaskHandle<T>, TrySubmitError<F>>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        if self.inner().is_overloaded() {
            // Check before the task and its handle are allocated.
            self.inner().counters().add_often(counters::Often::Returned);
            return Err(TrySubmitError::new(f, RejectReason::Saturated, None));
        }
        let (task, handle) = TaskOf::bare(f);
        let Err(refused) = self.inner().admit(task) else { return Ok(handle) };
        let (task, reason, source) = refused.into_refusal().into_parts();
        self.count_rejected(&task, reason);
        let work = if task.id() == handle.id() { task.take_work::<F>() } else { None };
        match work {
            Some(f) => Err(TrySubmitError::new(f, reason, source)),
            None => {
                // A custom queue accepted this task and returned another one, which is refused
                // instead.
                task.drop_caught();
                Ok(handle)
            }
        }
    }

    /// Submits `f` as soon as the pool has room. The future waits without blocking a thread.
    ///
    /// The rejection policy does not apply: the future waits until the queue or a thread has room.
    /// Futures and threads blocked by [`policy::Block`](crate::policy::Block) wait in one line, and
    /// are offered room in its order. A waiter that has been offered room does not reserve it: a
    /// submission that comes before the waiter runs again may take the room, and the waiter keeps
    /// its place in the line. The future works on any runtime. A task of this pool that blocks its
    /// worker until such a future resolves may deadlock. So may a waker that waits for a task of
    /// this pool: it may run on a worker that is about to park.
    ///
    /// Dropping the future before it resolves drops `f` without running it, and passes its turn to
    /// the next submitter. Once the future has resolved, the task belongs to the pool; see
    /// [`cancel_on_drop`](TaskHandle::cancel_on_drop).
    ///
    /// The future owns a clone of the pool. So it can be spawned, and it keeps the pool from
    /// shutting down.
    ///
    /// # Errors
    /// [`Rejected`] with the task, if the pool is shut down ([`Shutdown`](RejectReason::Shutdown)),
    /// a needed thread could not be started ([`SpawnFailed`](RejectReason::SpawnFailed)), or the
    /// capture of [`propagate`](crate::Builder::propagate) panicked
    /// ([`CallbackPanicked`](RejectReason::CallbackPanicked)). These refusals count as
    /// [`rejected`](crate::PoolStats::rejected); the wait for room does not.
    ///
    /// # Examples
    /// ```
    /// # #[cfg(feature = "futures")] {
    /// use millpond::{executors, reactive::block_on};
    ///
    /// let pool = executors::bounded(2, 2, 8)?;
    /// let sum = block_on(async {
    ///     let mut handles = Vec::new();
    ///     for n in 0..100_u32 {
    ///         handles.push(pool.submit_async(move || n).await?); // waits while ten are inside
    ///     }
    ///     let mut sum = 0;
    ///     for handle in handles {
    ///         sum += handle.await?;
    ///     }
    ///     Ok::<_, Box<dyn std::error::Error>>(sum)
    /// })??;
    /// assert_eq!(sum, 4950);
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn submit_async<T: Send + 'static>(&self, f: impl FnOnce() -> T + Send + 'static) -> SubmitAsync<T> {
        SubmitAsync::new(self, f)
    }

    inherent_executor_methods!(but execute and submit);

    /// Runs `f` with a [`Scope`], which can start tasks that borrow from the caller. Returns when
    /// all of these tasks have ended.
    ///
    /// Blocks, and cannot be interrupted. A worker of this pool runs queued tasks of the scope
    /// itself while it waits.
    ///
    /// # Panics
    /// With the payload of `f` or of one of the tasks, after all of them have ended.
    ///
    /// # Examples
    /// ```
    /// let pool = millpond::executors::fixed(2)?;
    /// let mut pixels = [1, 2, 3, 4];
    /// pool.scope(|scope| {
    ///     for half in pixels.chunks_mut(2) {
    ///         scope.execute(move || half.iter_mut().for_each(|p| *p *= 10)).unwrap();
    ///     }
    /// });
    /// assert_eq!(pixels, [10, 20, 30, 40]);
    /// # Ok::<(), millpond::ConfigError>(())
    /// ```
    pub fn scope<'env, R>(&self, f: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> R) -> R {
        scope::scope(self, f)
    }
}

impl Executor for ThreadPoolExecutor {
    fn execute_task(&self, task: Task) -> Result<(), Rejected> {
        ThreadPoolExecutor::execute_task(self, task)
    }
}

impl ExecutorService for ThreadPoolExecutor {
    fn shutdown(&self) {
        ThreadPoolExecutor::shutdown(self);
    }

    fn shutdown_now(&self) -> Vec<Task> {
        ThreadPoolExecutor::shutdown_now(self)
    }

    fn is_shutdown(&self) -> bool {
        ThreadPoolExecutor::is_shutdown(self)
    }

    fn is_terminated(&self) -> bool {
        ThreadPoolExecutor::is_terminated(self)
    }

    fn await_termination(&self, timeout: Duration) -> Result<bool, Interrupted> {
        ThreadPoolExecutor::await_termination(self, timeout)
    }

    fn close(&self) {
        ThreadPoolExecutor::close(self);
    }
}

impl fmt::Display for ThreadPoolExecutor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state() {
            RunState::Running => "Running",
            RunState::Shutdown | RunState::Stop | RunState::Tidying => "Shutting down",
            RunState::Terminated => "Terminated",
        };
        let (active, size) = (self.active_count(), self.pool_size());
        write!(
            f,
            "{}[{state}, pool size = {size}, active threads = {}, queued tasks = {}, completed tasks = {}]",
            self.name(),
            active.min(size),
            self.queued_count(),
            self.completed_task_count()
        )
    }
}

impl fmt::Debug for ThreadPoolExecutor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ThreadPoolExecutor").field(&format_args!("{self}")).finish()
    }
}
