//! [`Builder`]: the options of a pool and their defaults. `build` validates them.

use std::fmt;
use std::io;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::ThreadPoolExecutor;
use super::growth::GrowthRule;
use super::hooks::Hooks;
use super::inner::{Config, PoolOptions};
use super::policy::{self, Handler, RejectedExecutionHandler};
use super::queue::time_limit::QueueTimeLimit;
use super::queue::{TaskQueue, WorkQueue};
use super::settings;
use crate::ConfigError;
use crate::executor::PoolName;
use crate::monitor::{Propagate, Settings, Timing};
use crate::sync::{Arc, IN_MODEL};
use crate::threads::{ThreadFactory, WorkerBody, plain_threads};
use crate::time::clock::Clock;

/// The options of a new [`ThreadPoolExecutor`].
///
/// By default a pool has one thread, an unbounded queue and the policy
/// [`Abort`](crate::policy::Abort).
#[derive(Debug)]
#[must_use = "a builder does nothing until `build`"]
pub struct Builder {
    core: usize,
    maximum: Option<usize>,
    keep_alive: Duration,
    core_times_out: bool,
    queue: WorkQueue,
    handler: Handler,
    name: Option<String>,
    is_listed: bool,
    name_prefix: Option<String>,
    factory: Factory,
    hooks: Option<HooksOption>,
    propagate: Option<PropagateOption>,
    remove_on_cancel: bool,
    rule: GrowthRule,
    max_queue_time: Option<Duration>,
    timing: Timing,
    clock: Clock,
}

struct Factory(Arc<ThreadFactory>);
struct HooksOption(Arc<dyn Hooks>);
struct PropagateOption(Arc<dyn Propagate>);

impl fmt::Debug for Factory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Factory")
    }
}

impl fmt::Debug for PropagateOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Propagate")
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
            name: None,
            is_listed: true,
            name_prefix: None,
            factory: Factory(plain_threads()),
            hooks: None,
            propagate: None,
            remove_on_cancel: true,
            rule: GrowthRule::QueueFirst,
            max_queue_time: None,
            // Models measure no times unless they are about times, to stay small.
            timing: if IN_MODEL { Timing::Off } else { Timing::default() },
            clock: Clock::system(),
        }
    }

    /// Sets the core size: the number of threads that start before the queue is used and stay when
    /// idle. Default: 1.
    pub fn core_pool_size(mut self, threads: usize) -> Self {
        self.core = threads;
        self
    }

    /// Sets the maximum number of threads, used when the queue is full. Default: the core size, at
    /// least 1.
    ///
    /// With the default queue, which is unbounded, the pool never exceeds its core size: see
    /// [`work_queue`](Self::work_queue).
    pub fn maximum_pool_size(mut self, threads: usize) -> Self {
        self.maximum = Some(threads);
        self
    }

    /// Sets how long an idle thread above the core size waits for work before it exits. Default: 60
    /// seconds. With `Duration::MAX` it never exits, with zero it exits at once.
    pub fn keep_alive_time(mut self, time: Duration) -> Self {
        self.keep_alive = time;
        self
    }

    /// Sets whether idle core threads exit too, so an idle pool shrinks to no threads. This needs a
    /// keep-alive time above zero. Default: false.
    pub fn allow_core_thread_time_out(mut self, allow: bool) -> Self {
        self.core_times_out = allow;
        self
    }

    /// Sets the queue for tasks that no thread can take yet. Default: [`WorkQueue::linked`],
    /// unbounded, as in the JDK's factories.
    ///
    /// A service needs a bound, such as `WorkQueue::array(100)`. Without a bound the pool never
    /// refuses a task and never exceeds its core size, and under overload the queue grows until
    /// memory runs out.
    pub fn work_queue(mut self, queue: WorkQueue) -> Self {
        self.queue = queue;
        self
    }

    /// Sets the rejection policy: one from [`policy`](crate::policy), or a closure `|task: Task,
    /// pool: &ThreadPoolExecutor| -> Result<(), Rejected>`. Default:
    /// [`Abort`](crate::policy::Abort).
    pub fn rejected_execution_handler(mut self, handler: impl RejectedExecutionHandler) -> Self {
        self.handler = Handler::new(handler);
        self
    }

    /// Names the pool, for messages, metrics and [`registry`](crate::registry). Default: `pool-N`.
    ///
    /// The threads are called `db-1`, `db-2` and so on, unless
    /// [`thread_name_prefix`](Self::thread_name_prefix) sets other names. Several pools may have
    /// the same name; their [`label`](ThreadPoolExecutor::label)s differ.
    ///
    /// [`build`](Self::build) refuses an empty name, a name of more than 64 characters, and a name
    /// with control characters.
    ///
    /// # Examples
    /// ```
    /// use millpond::ThreadPoolExecutor;
    ///
    /// let pool = ThreadPoolExecutor::builder().name("db").build()?;
    /// let thread = pool.submit(|| std::thread::current().name().map(str::to_owned))?;
    /// assert_eq!(thread.join()?.as_deref(), Some("db-1"));
    /// assert!(pool.to_string().starts_with("db[Running, "));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Keeps the pool out of [`registry`](crate::registry): it is not listed and not exported.
    pub fn unregistered(mut self) -> Self {
        self.is_listed = false;
        self
    }

    /// Sets the names of worker threads: this prefix and a number from 1. Default: the name and a
    /// hyphen (`db-`) if the pool has a [`name`](Self::name), otherwise `pool-N-thread-`.
    ///
    /// [`build`](Self::build) refuses a prefix with a NUL byte. Tools on Linux such as `top -H`
    /// show 15 bytes of a thread's name. The name for these tools is shortened before the number:
    /// `image-resizer-thread-12` becomes `image-resize-12`. Rust's name of the thread is complete.
    pub fn thread_name_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.name_prefix = Some(prefix.into());
        self
    }

    /// Sets how threads are created, for example to set stack size, priority or affinity. Default:
    /// a plain named thread.
    ///
    /// The factory receives the body of the worker, starts a thread that calls [`WorkerBody::run`]
    /// and returns its handle. An error, a panic, or a body that is dropped without running counts
    /// as a failed spawn. The task is then queued if the pool has another worker, and otherwise
    /// returned to its submitter with [`SpawnFailed`](crate::RejectReason::SpawnFailed).
    ///
    /// Use stacks of about 2 MiB, the default of the standard library. Nested joins run up to 256
    /// tasks inside each other on one stack. A much smaller stack, such as 256 KiB, overflows.
    pub fn thread_factory(
        mut self,
        factory: impl Fn(WorkerBody) -> io::Result<JoinHandle<()>> + Send + Sync + 'static,
    ) -> Self {
        self.factory = Factory(Arc::new(factory));
        self
    }

    /// Sets the callbacks for events of the pool. Default: none.
    pub fn hooks(mut self, hooks: impl Hooks) -> Self {
        self.hooks = Some(HooksOption(Arc::new(hooks)));
        self
    }

    /// Carries a context from the submitting thread to the thread that runs the task. Default:
    /// none.
    ///
    /// Calls `capture` on the submitting thread once per task. The task runs inside the returned
    /// context, on any thread. This applies to all submitting methods, scopes and futures. A task
    /// that is submitted again keeps its context.
    ///
    /// # Examples
    /// ```
    /// use millpond::ThreadPoolExecutor;
    /// use millpond::monitor::Captured;
    /// use std::cell::RefCell;
    ///
    /// thread_local!(static REQUEST: RefCell<String> = RefCell::default());
    ///
    /// struct Request(String);
    /// impl Captured for Request {
    ///     fn enter(&mut self, run: &mut dyn FnMut()) {
    ///         let before = REQUEST.replace(self.0.clone());
    ///         run();
    ///         REQUEST.set(before);
    ///     }
    /// }
    ///
    /// let request = || Request(REQUEST.with_borrow(String::clone));
    /// let capture = move || Some(Box::new(request()) as Box<dyn Captured>);
    /// let pool = ThreadPoolExecutor::builder().propagate(capture).build()?;
    /// REQUEST.set("GET /pond".to_owned());
    /// let seen = pool.submit(|| REQUEST.with_borrow(String::clone))?;
    /// assert_eq!(seen.join()?, "GET /pond");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn propagate(mut self, propagate: impl Propagate) -> Self {
        self.propagate = Some(PropagateOption(Arc::new(propagate)));
        self
    }

    /// Sets whether cancelling a queued task removes it from the queue at once. Default: true.
    ///
    /// With false, as in the JDK, the task stays until a worker dequeues it or until
    /// [`purge`](ThreadPoolExecutor::purge) removes it. The worker then calls the hooks and counts
    /// the task.
    pub fn remove_on_cancel(mut self, remove: bool) -> Self {
        self.remove_on_cancel = remove;
        self
    }

    /// Starts threads up to the maximum before using the queue. Default: the JDK's order (core,
    /// queue, maximum).
    ///
    /// A task starts a thread only if no worker is free, even below the core size. So the pool
    /// never has more threads than the largest number of tasks it held at one time.
    pub fn eager(mut self) -> Self {
        self.rule = GrowthRule::Eager;
        self
    }

    /// Limits how long a task waits in the queue. Default: no limit.
    ///
    /// Under overload a long queue makes every task late: when a task starts, most of its caller's
    /// timeout has passed. A limit well below the caller's timeout keeps the pool useful with a
    /// queue of any length.
    ///
    /// - A task expires if it has waited longer than the limit when a worker is about to start it.
    ///   It is dropped without running, its handle resolves as
    ///   [`JoinError::Expired`](crate::JoinError::Expired), and it counts as
    ///   [`expired`](crate::PoolStats::expired). No hook is called. The same applies while
    ///   `shutdown` drains the queue, and to a task that a worker of the same pool joins.
    /// - While the oldest queued task has waited longer than the limit, the queue counts as full.
    ///   The pool starts threads up to its maximum, and then the rejection policy decides.
    ///   [`Abort`](crate::policy::Abort) refuses the task as
    ///   [`Saturated`](crate::RejectReason::Saturated), [`CallerRuns`](crate::policy::CallerRuns)
    ///   runs it, and [`Discard`](crate::policy::Discard) drops it. [`Block`](crate::policy::Block)
    ///   and [`submit_async`](ThreadPoolExecutor::submit_async) wait until the old tasks are gone.
    ///   [`DiscardOldest`](crate::policy::DiscardOldest) expires the old tasks and queues the new
    ///   one. This rule applies to array and linked queues only: the head of another queue is not
    ///   its oldest task.
    ///
    /// The time runs from the acceptance of the task until its thread starts it. In a delay queue
    /// it runs from the due time. Waiting for room does not count. Tasks of a
    /// [`scope`](ThreadPoolExecutor::scope) and of `spawn_future` never expire. The limit costs
    /// each task two small allocations and a reading of the clock. Scheduled pools have no such
    /// limit.
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
    ///     .clock(clock.clock()) // for this example: the default is the system clock
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

    /// Sets how the pool measures the wait and run times of tasks. Default: [`Timing::Sampled`].
    ///
    /// # Examples
    /// ```
    /// use millpond::{ManualClock, ThreadPoolExecutor, monitor::Timing};
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new();
    /// let builder = ThreadPoolExecutor::builder().timing(Timing::Every);
    /// let pool = builder.clock(clock.clock()).build()?;
    /// let time = clock.clone();
    /// pool.submit(move || time.advance(Duration::from_millis(20)))?.join()?;
    /// pool.wait_idle(Duration::MAX)?;
    /// let times = pool.snapshot();
    /// assert_eq!((times.run.count(), times.run.sum()), (1, Duration::from_millis(20)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn timing(mut self, timing: Timing) -> Self {
        self.timing = timing;
        self
    }

    /// Sets the clock for measured times and [`max_queue_time`](Self::max_queue_time). Default: the
    /// system clock.
    ///
    /// A [`ManualClock`](crate::ManualClock) makes tests independent of real time. Keep-alive times
    /// always use the system clock.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    fn settings(&self) -> Settings {
        Settings {
            version: 1,
            core_pool_size: self.core,
            maximum_pool_size: self.maximum.unwrap_or(self.core.max(1)),
            keep_alive_time: self.keep_alive,
            core_threads_time_out: self.core_times_out,
            queue: self.queue.kind(),
            queue_capacity: self.queue.capacity(),
            policy: self.handler.kind(),
            timing: self.timing,
        }
    }

    /// Checks the options that do not depend on each other.
    fn check(&self) -> Result<(), ConfigError> {
        if let Some(name) = &self.name {
            ConfigError::check_pool_name("name", name)?;
        }
        if let Some(prefix) = &self.name_prefix {
            ConfigError::check_name("thread_name_prefix", prefix)?;
        }
        if self.max_queue_time.is_some_and(|limit| limit.is_zero()) {
            return Err(ConfigError::ZeroQueueTime);
        }
        Ok(())
    }

    /// Builds the pool. Does not start a thread.
    ///
    /// # Errors
    /// [`ConfigError`] with the offending values, if an option is invalid or options contradict
    /// each other.
    pub fn build(self) -> Result<ThreadPoolExecutor, ConfigError> {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        self.check()?;
        let settings = self.settings();
        settings::check(&settings)?;
        let queue = self.queue.into_task_queue(&self.clock);
        let clock = match &queue {
            TaskQueue::Delayed(delayed) => delayed.clock().clone(),
            _ => self.clock,
        };
        // Relaxed: only uniqueness matters.
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let thread_names = match &self.name {
            Some(name) => format!("{name}-"),
            None => format!("pool-{number}-thread-"),
        };
        let number = u32::try_from(number).ok().and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MAX);
        let config = Config {
            name: PoolName::new(number, self.name),
            name_prefix: self.name_prefix.unwrap_or(thread_names),
            rule: self.rule,
            time_limit: self.max_queue_time.map(|limit| QueueTimeLimit::new(limit, clock.clone())),
            remove_on_cancel: self.remove_on_cancel,
            hooks: self.hooks.map(|HooksOption(hooks)| hooks),
            propagate: self.propagate.map(|PropagateOption(propagate)| propagate),
        };
        let factory = self.factory.0;
        let (is_listed, handler) = (self.is_listed, self.handler);
        Ok(ThreadPoolExecutor::new(PoolOptions {
            config,
            is_listed,
            settings,
            queue,
            handler,
            factory,
            clock,
        }))
    }
}
