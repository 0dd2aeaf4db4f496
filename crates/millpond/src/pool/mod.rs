//! [`ThreadPoolExecutor`]: the public methods, mostly a few lines each.
//!
//! `README.md` beside this file tells the protocols in prose. The rooms: `core` (what all share; settings, shutdown),
//! `admission` (what becomes of a task), `census` (where all tasks are), `growth` (the rule), `control` (the control word), `feed`, `fifo` and `segments` (work queues),
//! `delayed` and `series` (a scheduled pool's queue, and what runs again), `idle` (sleeping workers), `workers` (adding
//! workers), `worker` (a worker's life), `room` (submitters that wait), `submit_async`, `policy`, `hooks`, `stats`, `report`, `builder`,
//! `scope`.

mod admission;
mod builder;
mod census;
mod control;
pub mod growth;
mod hooks;
mod idle;
mod inner;
mod periodic;
pub mod policy;
mod queue;
mod queue_time;
mod report;
#[expect(unsafe_code, reason = "erases the lifetime of tasks that borrow from the caller")]
mod scope;
mod stats;
mod submit_async;
mod submitters;
mod watch;
mod worker;
mod workers;

#[cfg(all(test, loom))]
#[path = "../loom_tests/pool.rs"]
mod models;

#[cfg(all(test, loom))]
#[path = "../loom_tests/delayed.rs"]
mod delayed_models;

use std::fmt;
use std::io;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use self::admission::Refusal;
use self::inner::{PoolInner, Settings};
use self::policy::{BuiltinPolicy, Handler, RejectedExecutionHandler};
use self::workers::Limit;
use crate::ConfigError;
use crate::executor::{
    Executor, ExecutorService, RejectReason, Rejected, TrySubmitError, close_and_wait,
    inherent_executor_methods,
};
use crate::interrupt::{Interrupted, TaskFrame, ThreadContext};
use crate::panic::{catch, drop_caught};
use crate::sync::{Arc, Weak};
use crate::task::TaskHandle;
use crate::task::{Task, TaskId, TaskOf};
use crate::threads::WorkerBody;

pub use self::builder::Builder;
pub use self::control::RunState;
pub use self::hooks::Hooks;
pub use self::idle::ParkedWorkers;
pub use self::queue::WorkQueue;
pub use self::report::{ShutdownOutcome, ShutdownReport};
pub use self::scope::{Scope, ScopeRejected, ScopedTaskHandle};
pub use self::stats::PoolStats;
pub use self::submit_async::SubmitAsync;

/// A pool of threads with a core size, a queue, a maximum size and a rejection policy.
///
/// A task that arrives gets a new thread while there are fewer than the core size; then a place in the queue; when
/// that is full, a new thread up to the maximum; and then the rejection policy. A thread above the core size that
/// finds no work for the keep-alive time leaves.
///
/// This is a cheap handle. When the last clone is dropped the pool shuts down in good order, without
/// blocking: what was accepted still runs. The process does not wait for that; call [`close`](Self::close) or
/// [`shutdown_gracefully`](Self::shutdown_gracefully) at the end of `main`.
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

/// A reference to a pool that does not keep it running. Made by
/// [`ThreadPoolExecutor::downgrade`].
///
/// For a task, a cache or a registry that may use the pool as long as somebody else wants it: the pool
/// shuts down when the last [`ThreadPoolExecutor`] is dropped, whatever references of this kind there are.
///
/// # Examples
/// ```
/// let pool = millpond::executors::fixed(1)?;
/// let weak = pool.downgrade();
/// assert_eq!(weak.upgrade().unwrap().submit(|| 7)?.join()?, 7);
/// drop(pool);
/// assert!(weak.upgrade().is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct PoolRef {
    handle: Weak<Handle>,
}

impl PoolRef {
    /// The pool, unless its last handle was dropped. Does not block.
    ///
    /// From the moment in which the last handle is dropped it is `None`, also while workers still run what
    /// was accepted. A pool that was shut down by a call, and of which there are handles, is still there.
    pub fn upgrade(&self) -> Option<ThreadPoolExecutor> {
        self.handle.upgrade().map(|handle| ThreadPoolExecutor { handle })
    }
}

impl fmt::Debug for PoolRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolRef").field("handles", &self.handle.strong_count()).finish()
    }
}

/// Shared by the users' clones and not by the workers: when it is dropped, nobody can submit any more.
struct Handle {
    core: Arc<PoolInner>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.core.shutdown();
    }
}

impl ThreadPoolExecutor {
    /// Begins the making of a pool.
    pub fn builder() -> Builder {
        Builder::new()
    }

    fn from_core(core: Arc<PoolInner>) -> Self {
        ThreadPoolExecutor { handle: Arc::new(Handle { core }) }
    }

    fn core(&self) -> &Arc<PoolInner> {
        &self.handle.core
    }

    /// A reference that does not keep the pool running.
    pub fn downgrade(&self) -> PoolRef {
        PoolRef { handle: Arc::downgrade(&self.handle) }
    }

    // ---- giving it work

    /// Takes `task` by the growth rule, or passes it to the rejection policy.
    ///
    /// Does not block unless the policy does.
    ///
    /// # Errors
    /// [`Rejected`] with the task: from the policy, or if a needed thread could not be started.
    pub fn execute_task(&self, task: Task) -> Result<(), Rejected> {
        self.core().admit(task).or_else(|refusal| self.refuse(refusal))
    }

    #[cold]
    fn refuse(&self, refusal: Refusal) -> Result<(), Rejected> {
        let core = self.core();
        // An overloaded pool must refuse quickly: the usual policy is known without the lock.
        if core.usual_policy() == BuiltinPolicy::Abort || refusal.reason == RejectReason::SpawnFailed {
            self.count_rejected(&refusal.task, refusal.reason);
            return Err(core.rejected(refusal));
        }
        let handler = core.handler.lock().clone();
        if handler.waits {
            return handler.call(refusal.task, self).inspect_err(|rejected| {
                self.count_rejected(rejected.task(), rejected.reason());
            });
        }
        self.count_rejected(&refusal.task, refusal.reason);
        handler.call(refusal.task, self)
    }

    fn count_rejected(&self, task: &Task, reason: RejectReason) {
        self.core().counters.rejected();
        if let Some(hooks) = &self.core().hooks {
            catch(|| hooks.rejected(task.info(), reason));
        }
    }

    /// The error for a task that this pool does not take, with the reason as it is now.
    fn refusal(&self, task: Task) -> Rejected {
        let reason = if self.is_shutdown() { RejectReason::Shutdown } else { RejectReason::Saturated };
        self.core().rejected(Refusal::new(task, reason))
    }

    fn admit_when_room(&self, task: Task, timeout: Duration) -> Result<(), Rejected> {
        // Its own workers do not wait: if all of them did, none would be left to make room.
        let timeout = if worker::is_worker_of(self.core()) { Duration::ZERO } else { timeout };
        self.core().admit_when_room(task, timeout).map_err(|refusal| self.core().rejected(refusal))
    }

    /// Runs `f` without a handle.
    ///
    /// A closure of up to five words goes into the pool's queue as it is, without an allocation.
    ///
    /// # Errors
    /// [`Rejected`] if the pool is shut down or full; [`Rejected::into_task`] gives the work back.
    ///
    /// # Examples
    /// ```
    /// let pool = millpond::executors::fixed(2)?;
    /// pool.execute(|| println!("on {:?}", std::thread::current().name()))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn execute(&self, f: impl FnOnce() + Send + 'static) -> Result<(), Rejected> {
        match self.core().queue_closure(f) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(refusal)) => self.refuse(*refusal),
            Err((f, None)) => self.execute_the_long_way(Task::new(f)),
            // An overloaded pool must say no quickly.
            Err((f, Some(facts))) => match self.core().usual_policy() {
                BuiltinPolicy::Abort => Err(self.core().abort(f, facts)),
                BuiltinPolicy::CallerRuns => {
                    self.core().counters.rejected();
                    let _frame = TaskFrame::enter(); // as `Task::run`, without making a task of it first
                    f();
                    Ok(())
                }
                BuiltinPolicy::Discard => {
                    self.core().counters.rejected();
                    drop_caught(f);
                    Ok(())
                }
                BuiltinPolicy::No => self.execute_the_long_way(Task::new(f)),
            },
        }
    }

    /// Submits `f` and returns a handle to its result.
    ///
    /// Does not block unless the rejection policy does. Dropping the handle detaches the task, it does not cancel it. It takes
    /// one allocation.
    ///
    /// # Errors
    /// [`Rejected`] if the pool is shut down or full; [`Rejected::into_task`] gives the work back. To try again and still get the
    /// result, keep the handle: [`TaskOf::into_parts`](crate::TaskOf::into_parts).
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
        match self.core().queue_tracked(task) {
            Ok(Ok(())) => Ok(handle),
            Ok(Err(refusal)) => self.refuse(*refusal).map(|()| handle),
            Err(task) => self.execute_the_long_way(task.into_task()).map(|()| handle),
        }
    }

    /// Submits `f` if there is room for it now; otherwise gives `f` itself back.
    ///
    /// Never blocks, and the rejection policy is not asked: whatever it is, a closure that does not fit is neither run
    /// by the caller nor dropped, and nothing is evicted for it. A refused closure counts as
    /// [`rejected`](PoolStats::rejected) and is told to [`Hooks::rejected`], once for every attempt.
    ///
    /// # Errors
    /// [`TrySubmitError`] with the closure: [`Saturated`](RejectReason::Saturated) if there is no room,
    /// [`Shutdown`](RejectReason::Shutdown), or [`SpawnFailed`](RejectReason::SpawnFailed) if a needed thread could not
    /// be started.
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
        let core = self.core();
        if core.is_overloaded() {
            core.counters.rejected();
            return Err(TrySubmitError::new(f, RejectReason::Saturated, None));
        }
        let (task, handle) = TaskOf::bare(f);
        let admitted = match core.queue_tracked(task) {
            Ok(queued) => queued.map_err(|refusal| *refusal),
            Err(task) => core.admit_as(task.into_task(), false),
        };
        let Err(Refusal { task, reason, source }) = admitted else { return Ok(handle) };
        self.count_rejected(&task, reason);
        let work = if task.id() == handle.id() { task.take_work::<F>() } else { None };
        match work {
            Some(f) => Err(TrySubmitError::new(f, reason, source)),
            None => {
                // A custom queue took this task and gave another one back: that one is refused.
                task.drop_caught();
                Ok(handle)
            }
        }
    }

    /// Submits `f` as soon as there is room for it: the future waits, and no thread does.
    ///
    /// The rejection policy is not asked: whatever it is, the future waits until the queue or a thread has room. BlockedSubmitters is
    /// offered in the order in which submitters began to wait, futures and threads blocked by
    /// [`policy::Block`](crate::policy::Block) alike. Any runtime will do, also a `block_on` of your own; but a task of this
    /// pool that blocks its worker until such a future resolves may wait for itself.
    ///
    /// Dropping the future before it resolves is safe: `f` is dropped without having run, its place in line is free, and
    /// room that it was told of goes to the next in line. Once it has resolved the task belongs to the pool, and
    /// [`cancel_on_drop`](TaskHandle::cancel_on_drop) may be what you want.
    ///
    /// The future owns a clone of the pool, so it can be spawned, and a pool with a submitter that waits is not shut down
    /// by the drop of its last other clone.
    ///
    /// # Errors
    /// [`Rejected`] with the task, only if the pool is shut down ([`Shutdown`](RejectReason::Shutdown)) or a needed thread
    /// could not be started ([`SpawnFailed`](RejectReason::SpawnFailed)). Only these count as
    /// [`rejected`](PoolStats::rejected).
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

    #[cold]
    fn execute_the_long_way(&self, task: Task) -> Result<(), Rejected> {
        self.core().admit_as(task, false).or_else(|refusal| self.refuse(refusal))
    }

    inherent_executor_methods!(but execute and submit);

    /// Runs `f` with a [`Scope`] from which tasks can be started that borrow from the caller; returns when all of
    /// them have ended. Not interruptible. Called by a worker of this pool, it runs waiting tasks of the scope
    /// itself.
    ///
    /// # Panics
    /// With the payload of `f`, or of one of the tasks, after all have ended.
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

    // ---- settings

    /// The number of threads that are started before the queue is used, and kept.
    pub fn core_pool_size(&self) -> usize {
        self.core().settings().core
    }

    /// Sets the core size. Raising it starts threads for waiting tasks; lowering it lets surplus threads leave when
    /// they have been idle for the keep-alive time.
    ///
    /// # Errors
    /// [`ConfigError`] if it exceeds the maximum size; nothing changes then.
    pub fn set_core_pool_size(&self, threads: usize) -> Result<(), ConfigError> {
        let core = self.core();
        let (old, new) = core.change_settings(|settings| settings.core = threads)?;
        if core.control.load().workers() > new.core {
            core.recheck_all();
        } else if new.core > old.core {
            core.room.changed();
            let mut wanted = (new.core - old.core).min(core.queue.len_if_it_tells().unwrap_or(usize::MAX));
            while wanted > 0 && core.add_worker(None, Limit::Core).is_ok() && !core.queue.is_empty() {
                wanted -= 1;
            }
        }
        Ok(())
    }

    /// The number of threads that there may be.
    pub fn maximum_pool_size(&self) -> usize {
        self.core().settings().maximum
    }

    /// Sets the maximum size. IdleWorkers threads beyond it leave at once, busy ones after their task.
    ///
    /// # Errors
    /// [`ConfigError`] if it is 0 or below the core size; nothing changes then.
    pub fn set_maximum_pool_size(&self, threads: usize) -> Result<(), ConfigError> {
        self.change(|settings| settings.maximum = threads)
    }

    /// How long a surplus thread waits for work before it leaves.
    pub fn keep_alive_time(&self) -> Duration {
        self.core().settings().keep_alive
    }

    /// Sets how long a surplus thread waits for work before it leaves. Those that wait now begin anew.
    ///
    /// # Errors
    /// [`ConfigError`] if it is zero while core threads time out; nothing changes then.
    pub fn set_keep_alive_time(&self, time: Duration) -> Result<(), ConfigError> {
        self.change(|settings| settings.keep_alive = time)
    }

    /// Tells whether idle core threads leave too.
    pub fn allows_core_thread_time_out(&self) -> bool {
        self.core().settings().core_times_out
    }

    /// Sets whether idle core threads leave too, after the keep-alive time.
    ///
    /// # Errors
    /// [`ConfigError`] if they should and the keep-alive time is zero; nothing changes then.
    pub fn allow_core_thread_time_out(&self, allow: bool) -> Result<(), ConfigError> {
        self.change(|settings| settings.core_times_out = allow)
    }

    /// Changes a setting. IdleWorkers workers look around if they would now leave earlier, and blocked submitters if
    /// there may be room for another thread.
    fn change(&self, change: impl FnOnce(&mut Settings)) -> Result<(), ConfigError> {
        let core = self.core();
        let (old, new) = core.change_settings(change)?;
        if core.control.load().workers() > new.maximum
            || new.keep_alive != old.keep_alive
            || (new.core_times_out && !old.core_times_out)
        {
            core.recheck_all();
        } else {
            core.room.changed();
        }
        Ok(())
    }

    /// Replaces the rejection policy, from the next rejection on.
    pub fn set_rejected_execution_handler(&self, handler: impl RejectedExecutionHandler) {
        let old = self.core().set_policy(Handler::new(handler));
        drop(old); // not under the lock: it is the user's
    }

    /// Replaces the thread factory, for threads started from now on; see
    /// [`Builder::thread_factory`].
    pub fn set_thread_factory(
        &self,
        factory: impl Fn(WorkerBody) -> io::Result<JoinHandle<()>> + Send + Sync + 'static,
    ) {
        let old = std::mem::replace(&mut *self.core().factory.lock(), Arc::new(factory));
        drop(old);
    }

    /// Starts one core thread that waits for work. False: the core size is reached, or a thread could not be
    /// started, or the pool is shut down.
    pub fn prestart_core_thread(&self) -> bool {
        self.core().add_worker(None, Limit::Core).is_ok()
    }

    /// Starts all missing core threads, and returns how many those were.
    pub fn prestart_all_core_threads(&self) -> usize {
        std::iter::repeat_with(|| self.prestart_core_thread()).take_while(|started| *started).count()
    }

    // ---- looking at it

    /// The number of threads now.
    pub fn pool_size(&self) -> usize {
        self.core().control.load().workers()
    }

    /// The number of threads that run a task now, or have one put into their hands: a task that was
    /// accepted and does not wait in the queue counts, also before its thread has begun.
    pub fn active_count(&self) -> usize {
        self.core().census().active
    }

    /// The most threads that there ever were.
    pub fn largest_pool_size(&self) -> usize {
        self.core().workers.lock().largest
    }

    /// The number of tasks that were ever scheduled: finished, running and waiting. As in the JDK, tasks that are
    /// taken out of the queue leave it again; see [`PoolStats::submitted`] for a count that only grows.
    pub fn task_count(&self) -> u64 {
        let census = self.core().census();
        if !self.core().queue.is_custom() {
            return census.submitted - census.removed();
        }
        // The queue may hold tasks that were never submitted here.
        let inside = census.queued + census.active + census.in_place;
        census.totals.finished + inside as u64
    }

    /// The number of tasks that workers are through with: also those that panicked or that a hook refused, but not
    /// those that were cancelled out of the queue.
    pub fn completed_task_count(&self) -> u64 {
        self.core().workers.lock().totals().finished
    }

    /// The number of tasks that wait in the queue.
    pub fn queued_count(&self) -> usize {
        self.core().queue.len()
    }

    /// The ids of the tasks that wait, in queue order.
    pub fn queued_tasks(&self) -> Vec<TaskId> {
        self.core().queue.ids()
    }

    /// How many more tasks the queue would take; `usize::MAX` if it has no bound.
    pub fn remaining_queue_capacity(&self) -> usize {
        self.core().queue.remaining_capacity()
    }

    /// How far the pool's life has come.
    pub fn state(&self) -> RunState {
        self.core().control.load().state()
    }

    /// One look at all figures.
    pub fn stats(&self) -> PoolStats {
        let core = self.core();
        let settings = core.settings();
        let census = core.census();
        PoolStats {
            state: census.control.state(),
            core_pool_size: settings.core,
            maximum_pool_size: settings.maximum,
            keep_alive_time: settings.keep_alive,
            pool_size: census.control.workers(),
            active_count: census.active,
            in_place_count: census.in_place,
            largest_pool_size: census.largest,
            queued_count: census.queued,
            remaining_queue_capacity: core.queue.remaining_capacity(),
            submitted: census.submitted,
            completed: census.totals.succeeded,
            panicked: census.totals.panicked,
            cancelled: census.totals.cancelled + census.counted.cancelled + census.struck,
            rejected: census.counted.rejected,
            handed_back: census.counted.handed_back,
            expired: census.counted.expired,
            periodic_ended_by_panic: census.counted.series_ended_by_panic,
        }
    }

    /// The workers that sleep, for drivers of deterministic tests.
    #[doc(hidden)]
    pub fn parked_workers(&self) -> ParkedWorkers {
        self.core().idle.parked()
    }

    // ---- taking work back

    /// Takes a waiting task out of the queue; its handle resolves as abandoned. False: it does not wait there.
    pub fn remove(&self, id: TaskId) -> bool {
        match self.core().remove(id) {
            Some(task) => {
                task.drop_caught();
                true
            }
            None => false,
        }
    }

    /// Takes all cancelled tasks out of the queue, and returns how many those were. Only a pool with
    /// `remove_on_cancel(false)` has any.
    pub fn purge(&self) -> usize {
        self.core().purge()
    }

    // ---- ending it

    /// Takes no more tasks; those already taken run to their end. Does not wait.
    pub fn shutdown(&self) {
        self.core().shutdown();
    }

    /// Takes no more tasks, interrupts the running ones and returns those that never started, in queue order.
    ///
    /// A task that ignores interrupts runs on. The returned tasks can be run by hand or submitted elsewhere;
    /// dropping one resolves its handle as abandoned.
    pub fn shutdown_now(&self) -> Vec<Task> {
        self.core().shutdown_now()
    }

    /// Tells whether a shutdown has begun.
    pub fn is_shutdown(&self) -> bool {
        self.state() != RunState::Running
    }

    /// Tells whether a shutdown has begun and not yet come to its end.
    pub fn is_terminating(&self) -> bool {
        self.is_shutdown() && !self.is_terminated()
    }

    /// Tells whether all tasks and workers have ended after a shutdown.
    pub fn is_terminated(&self) -> bool {
        self.core().is_terminated()
    }

    /// Waits until terminated, at most `timeout`; true if it is. Completion wins over a pending interrupt.
    ///
    /// Inside a task or a hook of this pool it returns `Ok(false)` at once: the pool does not end before they do.
    ///
    /// # Errors
    /// [`Interrupted`] if the calling thread is interrupted while it has to wait.
    pub fn await_termination(&self, timeout: Duration) -> Result<bool, Interrupted> {
        if worker::is_worker_of(self.core()) {
            return Ok(self.is_terminated());
        }
        self.core().await_termination(timeout)
    }

    /// A future that is ready when the pool has terminated: [`await_termination`](Self::await_termination)
    /// for async code, on any runtime.
    ///
    /// It does not shut the pool down, and it is no handle: it does not keep the pool from shutting down when
    /// the last clone is dropped. There may be many, and one that is dropped leaves nothing behind.
    ///
    /// # Examples
    /// ```
    /// # fn block_on<F: Future>(future: F) -> F::Output {
    /// #     let mut future = std::pin::pin!(future);
    /// #     struct Unpark(std::thread::Thread);
    /// #     impl std::task::Wake for Unpark {
    /// #         fn wake(self: std::sync::Arc<Self>) { self.0.unpark() }
    /// #     }
    /// #     let waker = std::sync::Arc::new(Unpark(std::thread::current())).into();
    /// #     loop {
    /// #         match future.as_mut().poll(&mut std::task::Context::from_waker(&waker)) {
    /// #             std::task::Poll::Ready(output) => return output,
    /// #             std::task::Poll::Pending => std::thread::park(),
    /// #         }
    /// #     }
    /// # }
    /// let pool = millpond::executors::fixed(2)?;
    /// pool.execute(|| println!("the last words"))?;
    /// block_on(async {
    ///     pool.shutdown();
    ///     pool.terminated().await; // in a `timeout` of your runtime, and then `shutdown_now`
    /// });
    /// assert!(pool.is_terminated());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn terminated(&self) -> impl Future<Output = ()> + Send + Sync + Unpin + 'static + use<> {
        watch::Terminated::of(self.core())
    }

    /// Waits until no task waits or runs, at most `timeout`; true if there was such a moment. Does not shut
    /// down, and says nothing about tasks that are submitted meanwhile.
    ///
    /// A worker counts as running until it has dropped what is left of its task, and until `after_execute`
    /// has returned. In a scheduled pool tasks that are not due do not count, nor does a series between its
    /// runs. Called by a task of this pool it returns false at once, for it would wait for itself. A pool with
    /// a custom queue may seem idle while a worker takes a task out of the queue.
    ///
    /// # Errors
    /// [`Interrupted`] if the calling thread is interrupted while it has to wait.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    ///
    /// let pool = millpond::executors::fixed(2)?;
    /// for part in 0..10 {
    ///     pool.execute(move || println!("part {part}"))?;
    /// }
    /// assert!(pool.wait_idle(Duration::MAX)?);
    /// assert_eq!(pool.stats().completed, 10);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn wait_idle(&self, timeout: Duration) -> Result<bool, Interrupted> {
        if worker::is_worker_of(self.core()) {
            return Ok(false);
        }
        self.core().wait_idle(timeout)
    }

    /// Shuts down and waits for all tasks to end; see [`ExecutorService::close`].
    ///
    /// Called inside a task or a hook of this pool it does not wait: it would wait for itself.
    pub fn close(&self) {
        if worker::is_worker_of(self.core()) {
            self.shutdown();
        } else {
            close_and_wait(self);
        }
    }

    /// Shuts down in two steps: waits up to `grace` for the work to end by itself, then interrupts what runs, takes
    /// back what waits, and waits up to `force` for the rest.
    ///
    /// An interrupt of the calling thread ends the waiting that goes on: during `grace` it goes on to
    /// force at once, during `force` it gives up waiting; the flag is set again afterwards.
    ///
    /// # Examples
    /// ```
    /// use millpond::{ShutdownOutcome, executors, interrupt};
    /// use std::time::Duration;
    ///
    /// let pool = executors::fixed(1)?;
    /// pool.execute(|| while interrupt::check().is_ok() { std::thread::yield_now() })?;
    /// pool.execute(|| println!("never runs"))?;
    ///
    /// let report = pool.shutdown_gracefully(Duration::from_millis(10), Duration::from_secs(60));
    /// assert_eq!(report.outcome, ShutdownOutcome::Interrupted);
    /// assert_eq!(report.never_run.len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn shutdown_gracefully(&self, grace: Duration, force: Duration) -> ShutdownReport {
        let begin = Instant::now();
        self.shutdown();
        let mut interrupted = false;
        // Also inside a task of the pool: the others have their grace.
        let mut ended = |timeout| match self.core().await_termination(timeout) {
            Ok(ended) => ended,
            Err(Interrupted) => {
                interrupted = true;
                self.is_terminated()
            }
        };
        let (outcome, never_run) = if ended(grace) {
            (ShutdownOutcome::Drained, Vec::new())
        } else {
            let never_run = self.shutdown_now();
            let ended = ended(force);
            (if ended { ShutdownOutcome::Interrupted } else { ShutdownOutcome::StillRunning }, never_run)
        };
        if interrupted {
            ThreadContext::with_current(|me| me.restore_interrupt());
        }
        ShutdownReport { outcome, elapsed: begin.elapsed(), never_run }
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
            "pool-{}[{state}, pool size = {size}, active threads = {}, queued tasks = {}, completed tasks = {}]",
            self.core().number,
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
