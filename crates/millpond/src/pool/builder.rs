//! [`Builder`]: a pool's options and their defaults, checked once in `build`.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::ThreadPoolExecutor;
use super::growth::GrowthRule;
use super::hooks::Hooks;
use super::inner::{Plan, PoolInner, Settings};
use super::policy::{self, Handler, RejectedExecutionHandler};
use super::queue::WorkQueue;
use super::queue_time::QueueTime;
use crate::ConfigError;
use crate::sync::Arc;
use crate::threads::{ThreadFactory, WorkerBody, plain_threads};
use crate::time::clock::Clock;

/// Gathers the options of a [`ThreadPoolExecutor`].
///
/// Without any, a pool has one thread, an unbounded queue and the aborting policy.
#[derive(Debug)]
#[must_use = "a builder does nothing until `build`"]
pub struct Builder {
    core: usize,
    maximum: Option<usize>,
    keep_alive: Duration,
    core_times_out: bool,
    queue: WorkQueue,
    handler: Handler,
    name_prefix: Option<String>,
    factory: Factory,
    hooks: Option<HooksOption>,
    remove_on_cancel: bool,
    rule: GrowthRule,
    max_queue_time: Option<Duration>,
    clock: Clock,
}

struct Factory(Arc<ThreadFactory>);
struct HooksOption(Arc<dyn Hooks>);

impl fmt::Debug for Factory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Factory")
    }
}

impl fmt::Debug for HooksOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hooks")
    }
}

impl Builder {
    pub(super) fn new() -> Self {
        Builder {
            core: 1,
            maximum: None,
            keep_alive: Duration::from_secs(60),
            core_times_out: false,
            queue: WorkQueue::linked(),
            handler: Handler::new(policy::Abort),
            name_prefix: None,
            factory: Factory(plain_threads()),
            hooks: None,
            remove_on_cancel: true,
            rule: GrowthRule::QueueFirst,
            max_queue_time: None,
            clock: Clock::system(),
        }
    }

    /// Sets how many threads are started before the queue is used, and kept when there is no work. Default: 1.
    pub fn core_pool_size(mut self, threads: usize) -> Self {
        self.core = threads;
        self
    }

    /// Sets how many threads there may be when the queue is full. Default: the core size, and at least 1. With the
    /// default queue, which has no bound, it is never reached: see [`work_queue`](Self::work_queue).
    pub fn maximum_pool_size(mut self, threads: usize) -> Self {
        self.maximum = Some(threads);
        self
    }

    /// Sets how long a thread above the core size waits for work before it leaves. Default: 60 seconds.
    /// `Duration::MAX` keeps it for ever, zero lets it go at once.
    pub fn keep_alive_time(mut self, time: Duration) -> Self {
        self.keep_alive = time;
        self
    }

    /// Lets idle core threads leave too: an idle pool then shrinks to nothing. Needs a keep-alive time above zero.
    /// Default: false.
    pub fn allow_core_thread_time_out(mut self, allow: bool) -> Self {
        self.core_times_out = allow;
        self
    }

    /// Sets the queue for tasks that no thread can take yet. Default: [`WorkQueue::linked`], without a bound,
    /// as in the JDK's factories.
    ///
    /// A service needs a bound, such as `WorkQueue::array(100)`: without one the pool never refuses a task,
    /// never grows beyond its core size, and under overload the queue takes all memory.
    pub fn work_queue(mut self, queue: WorkQueue) -> Self {
        self.queue = queue;
        self
    }

    /// Sets what happens to a task that does not fit: one of [`policy`](crate::policy), or a closure
    /// `|task: Task, pool: &ThreadPoolExecutor| -> Result<(), Rejected>`. Default: [`Abort`](crate::policy::Abort).
    pub fn rejected_execution_handler(mut self, handler: impl RejectedExecutionHandler) -> Self {
        self.handler = Handler::new(handler);
        self
    }

    /// Sets what worker threads are called: this prefix, then a number from 1. Default: `pool-N-thread-`.
    ///
    /// A prefix with a NUL is refused by [`build`](Self::build). Linux shows 15 bytes of a thread's name in `top -H` and
    /// the like. There the beginning of a longer name is cut, so that the number stays:
    /// `image-resizer-thread-12` is shown as `image-resize-12`. The name that Rust knows is the whole one.
    pub fn thread_name_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.name_prefix = Some(prefix.into());
        self
    }

    /// Sets how threads are made: for stack sizes, priorities, affinity. Default: a plain named thread.
    ///
    /// The factory gets the body of the worker, starts a thread that calls [`WorkerBody::run`] and returns its
    /// handle. An error, a panic, or a body that is dropped unrun counts as a failed spawn: the task goes to
    /// the queue if another worker lives, and else back to its submitter with
    /// [`SpawnFailed`](crate::RejectReason::SpawnFailed).
    pub fn thread_factory(
        mut self,
        factory: impl Fn(WorkerBody) -> io::Result<JoinHandle<()>> + Send + Sync + 'static,
    ) -> Self {
        self.factory = Factory(Arc::new(factory));
        self
    }

    /// Sets the callbacks. Default: none.
    pub fn hooks(mut self, hooks: impl Hooks) -> Self {
        self.hooks = Some(HooksOption(Arc::new(hooks)));
        self
    }

    /// Chooses what cancelling a waiting task does to the queue. Default: true, its place is free at once. False, as
    /// in the JDK: it stays until a worker reaches it, which then calls the hooks and counts it, or until
    /// [`purge`](ThreadPoolExecutor::purge).
    pub fn remove_on_cancel(mut self, remove: bool) -> Self {
        self.remove_on_cancel = remove;
        self
    }

    /// Uses threads up to the maximum before the queue. Default: the JDK's order, core, queue, maximum.
    ///
    /// A thread is started when a task arrives and no worker is free, also below the core size: there
    /// are never more threads than there were tasks at once.
    pub fn eager(mut self) -> Self {
        self.rule = GrowthRule::Eager;
        self
    }

    /// Limits how long a task waits in the queue. Default: no limit.
    ///
    /// Under overload a long queue makes every task late: each one that starts has waited for most of the time that its
    /// caller is willing to wait. A limit well below that time keeps the pool useful, whatever the length of the queue.
    ///
    /// - A task that has waited for longer when a worker is about to start it does not run. It is dropped, its
    ///   handle resolves as [`JoinError::Expired`](crate::JoinError::Expired), and it counts as
    ///   [`expired`](crate::PoolStats::expired). No hook is called for it. The same holds while a `shutdown` drains the
    ///   queue, and for a task that a worker of the same pool joins.
    /// - While the oldest task in the queue has waited for longer, the queue counts as full: the pool starts threads up to
    ///   its maximum, and then the rejection policy has its say. [`Abort`](crate::policy::Abort) refuses the task as
    ///   [`Saturated`](crate::RejectReason::Saturated) at once, [`CallerRuns`](crate::policy::CallerRuns) runs it,
    ///   [`Discard`](crate::policy::Discard) drops it, [`Block`](crate::policy::Block) and
    ///   [`submit_async`](ThreadPoolExecutor::submit_async) wait until the old tasks have been taken, and
    ///   [`DiscardOldest`](crate::policy::DiscardOldest) makes the old tasks expire and queues the new one. This part is for
    ///   array and linked queues only: the head of any other queue is not its oldest task.
    ///
    /// Time counts from the moment when the pool accepts the task until its thread begins it, in a delay queue from its due
    /// time; waiting for room does not count. Tasks of a [`scope`](ThreadPoolExecutor::scope) and of `spawn_future` are never dropped: the scope, or
    /// the future that has begun, goes on. The limit costs each task two small allocations and a look at the clock; pools
    /// without it pay nothing. Scheduled pools have no such limit.
    ///
    /// [`build`](Self::build) refuses a limit of zero.
    ///
    /// # Examples
    /// ```
    /// use millpond::{JoinError, ManualClock, ThreadPoolExecutor, WorkQueue};
    /// use std::{sync::mpsc, time::Duration};
    ///
    /// let clock = ManualClock::new();
    /// let pool = ThreadPoolExecutor::builder()
    ///     .work_queue(WorkQueue::array(1000))
    ///     .max_queue_time(Duration::from_millis(100))
    ///     .clock(clock.clock()) // for this example: the default is the machine's
    ///     .build()?;
    /// let (begin, begun) = mpsc::channel();
    /// let (go_on, wait) = mpsc::channel::<()>();
    /// let busy = pool.submit(move || begin.send(()).is_ok() && wait.recv().is_ok())?;
    /// begun.recv()?;
    /// let waits = pool.submit(|| "too late")?;
    /// clock.advance(Duration::from_millis(101));
    /// assert!(pool.submit(|| "refused").is_err_and(|rejected| rejected.reason().is_overload()));
    ///
    /// go_on.send(())?;
    /// assert!(busy.join()?);
    /// assert!(matches!(waits.join(), Err(JoinError::Expired)));
    /// assert_eq!(pool.stats().expired, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn max_queue_time(mut self, limit: Duration) -> Self {
        self.max_queue_time = Some(limit);
        self
    }

    /// Sets the clock that [`max_queue_time`](Self::max_queue_time) goes by: a [`ManualClock`](crate::ManualClock) makes
    /// tests of it independent of real time. Default: the machine's. Keep-alive times do not go by it.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Makes the pool. No thread is started yet.
    ///
    /// # Errors
    /// [`ConfigError`] if the options contradict each other; it names the values.
    pub fn build(self) -> Result<ThreadPoolExecutor, ConfigError> {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        let settings = Settings {
            core: self.core,
            maximum: self.maximum.unwrap_or(self.core.max(1)),
            keep_alive: self.keep_alive,
            core_times_out: self.core_times_out,
        };
        settings.check()?;
        if let Some(prefix) = &self.name_prefix {
            ConfigError::check_name("thread_name_prefix", prefix)?;
        }
        if self.max_queue_time.is_some_and(|limit| limit.is_zero()) {
            return Err(ConfigError::ZeroQueueTime);
        }
        let queue = self.queue.into_task_queue()?;
        // Relaxed: only uniqueness matters.
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        Ok(ThreadPoolExecutor::from_core(PoolInner::new(Plan {
            number,
            name_prefix: self.name_prefix.unwrap_or_else(|| format!("pool-{number}-thread-")),
            settings,
            queue,
            rule: self.rule,
            queue_time: self.max_queue_time.map(|limit| QueueTime::new(limit, self.clock)),
            remove_on_cancel: self.remove_on_cancel,
            hooks: self.hooks.map(|HooksOption(hooks)| hooks),
            handler: self.handler,
            factory: self.factory.0,
        })))
    }
}
