//! The traits that all executors share, and [`Rejected`], the error that hands a task back.
//!
//! [`Executor`] takes work, [`ExecutorService`] can also be shut down, and [`ExecutorExt`] adds everything
//! that can be had from `execute_task` alone, for every executor, also one of your own.

use std::error::Error;
use std::fmt;
use std::io;
use std::time::{Duration, Instant};

use crate::completion;
use crate::handle::{Canceller, TaskHandle, TaskState};
use crate::interrupt::{Interrupted, Sleeper, Wake};
use crate::queue::{BlockingQueue, LinkedBlockingQueue};
use crate::sync::{Arc, deadline_after};
use crate::task::{Task, TaskOf};

/// Something that runs tasks.
///
/// # Examples
/// An executor of your own needs one method and gets all of [`ExecutorExt`]:
/// ```
/// use millpond::{Executor, ExecutorExt, Rejected, Task};
///
/// struct SameThread;
/// impl Executor for SameThread {
///     fn execute_task(&self, task: Task) -> Result<(), Rejected> {
///         task.run();
///         Ok(())
///     }
/// }
/// assert_eq!(SameThread.submit(|| 1 + 1)?.join()?, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Executor: Send + Sync {
    /// Takes `task` and runs it at some time: on another thread, or here and now, as the executor is made.
    ///
    /// # Errors
    /// [`Rejected`] gives the task back if it cannot be taken.
    fn execute_task(&self, task: Task) -> Result<(), Rejected>;
}

impl<E: Executor + ?Sized> Executor for &E {
    fn execute_task(&self, task: Task) -> Result<(), Rejected> {
        (**self).execute_task(task)
    }
}

impl<E: Executor + ?Sized> Executor for Arc<E> {
    fn execute_task(&self, task: Task) -> Result<(), Rejected> {
        (**self).execute_task(task)
    }
}

impl<E: Executor + ?Sized> Executor for Box<E> {
    fn execute_task(&self, task: Task) -> Result<(), Rejected> {
        (**self).execute_task(task)
    }
}

/// An executor with a life cycle.
pub trait ExecutorService: Executor {
    /// Takes no more tasks; those already taken run to their end. Does not wait.
    fn shutdown(&self);

    /// Takes no more tasks, interrupts the running ones and returns those that never started, in queue order.
    fn shutdown_now(&self) -> Vec<Task>;

    /// Tells whether a shutdown has begun.
    fn is_shutdown(&self) -> bool;

    /// Tells whether all tasks have ended after a shutdown.
    fn is_terminated(&self) -> bool;

    /// Waits until terminated, at most `timeout`; true if it is. Completion wins over a pending interrupt.
    ///
    /// # Errors
    /// [`Interrupted`] if the calling thread is interrupted while it has to wait.
    fn await_termination(&self, timeout: Duration) -> Result<bool, Interrupted>;

    /// Shuts down and waits for all tasks to end.
    ///
    /// Waits up to a day, then calls [`shutdown_now`](Self::shutdown_now) and waits on. If the calling thread is
    /// interrupted meanwhile it calls `shutdown_now` at once, waits on, and leaves the interrupt flag set.
    fn close(&self) {
        close_and_wait(self);
    }
}

/// What `close` promises, from the other methods.
pub(crate) fn close_and_wait(service: &(impl ExecutorService + ?Sized)) {
    const DAY: Duration = Duration::from_secs(24 * 3600);
    let mut patience = DAY;
    let mut interrupted = false;
    service.shutdown();
    loop {
        match service.await_termination(patience) {
            Ok(true) => break,
            Err(Interrupted) if interrupted => {} // once is enough
            outcome => {
                interrupted |= outcome.is_err();
                patience = Duration::MAX;
                service.shutdown_now().into_iter().for_each(Task::drop_quietly);
            }
        }
    }
    if interrupted {
        Sleeper::with_current(Sleeper::restore_interrupt);
    }
}

macro_rules! forward_service {
    ($($pointer:ty),*) => {$(
        impl<E: ExecutorService + ?Sized> ExecutorService for $pointer {
            fn shutdown(&self) {
                (**self).shutdown();
            }
            fn shutdown_now(&self) -> Vec<Task> {
                (**self).shutdown_now()
            }
            fn is_shutdown(&self) -> bool {
                (**self).is_shutdown()
            }
            fn is_terminated(&self) -> bool {
                (**self).is_terminated()
            }
            fn await_termination(&self, timeout: Duration) -> Result<bool, Interrupted> {
                (**self).await_termination(timeout)
            }
            fn close(&self) {
                (**self).close();
            }
        }
    )*};
}
forward_service!(&E, Arc<E>, Box<E>);

/// The traits of an executor whose field `pool` has methods of the same names, and its text form.
macro_rules! service_by_its_pool {
    ($type:ident) => {
        impl $crate::Executor for $type {
            fn execute_task(&self, task: $crate::Task) -> Result<(), $crate::Rejected> {
                $type::execute_task(self, task)
            }
        }

        impl $crate::ExecutorService for $type {
            fn shutdown(&self) {
                self.pool.shutdown();
            }
            fn shutdown_now(&self) -> Vec<$crate::Task> {
                self.pool.shutdown_now()
            }
            fn is_shutdown(&self) -> bool {
                self.pool.is_shutdown()
            }
            fn is_terminated(&self) -> bool {
                self.pool.is_terminated()
            }
            fn await_termination(&self, timeout: std::time::Duration) -> Result<bool, $crate::Interrupted> {
                self.pool.await_termination(timeout)
            }
            fn close(&self) {
                self.pool.close();
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.pool.fmt(f)
            }
        }

        impl std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_tuple(stringify!($type)).field(&format_args!("{self}")).finish()
            }
        }
    };
}
pub(crate) use service_by_its_pool;

/// Methods that are those of the field `pool`.
macro_rules! methods_of_its_pool {
    ($($(#[$meta:meta])* pub fn $name:ident(&self $(, $arg:ident: $type:ty)*) $(-> $result:ty)?;)*) => {$(
        $(#[$meta])*
        pub fn $name(&self $(, $arg: $type)*) $(-> $result)? {
            self.pool.$name($($arg),*)
        }
    )*};
}
pub(crate) use methods_of_its_pool;

/// The methods of [`ExecutorExt`] as inherent ones, for a pool that has `execute_task`: everyday use needs no trait then.
macro_rules! inherent_executor_methods {
    () => {
        /// Runs `f` without a handle.
        ///
        /// # Errors
        /// [`Rejected`](crate::Rejected) if the pool is shut down or full; [`Rejected::into_task`](crate::Rejected::into_task) gives the work back.
        ///
        /// # Examples
        /// ```
        /// let pool = millpond::executors::fixed(2)?;
        /// pool.execute(|| println!("on {:?}", std::thread::current().name()))?;
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        pub fn execute(&self, f: impl FnOnce() + Send + 'static) -> Result<(), $crate::Rejected> {
            self.execute_task($crate::Task::new(f))
        }

        /// Submits `f` and returns a handle to its result.
        ///
        /// Does not block unless the rejection policy does. Dropping the handle detaches the task, it does not cancel it.
        ///
        /// # Errors
        /// [`Rejected`](crate::Rejected) if the pool is shut down or full; [`Rejected::into_task`](crate::Rejected::into_task) gives the work back.
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
        ) -> Result<$crate::TaskHandle<T>, $crate::Rejected> {
            $crate::ExecutorExt::submit(self, f)
        }

        /// Submits a task with a name, priority or delay, and returns a handle to its result.
        ///
        /// # Errors
        /// As [`submit`](Self::submit).
        pub fn submit_task<T: Send + 'static>(
            &self,
            task: $crate::TaskOf<T>,
        ) -> Result<$crate::TaskHandle<T>, $crate::Rejected> {
            $crate::ExecutorExt::submit_task(self, task)
        }

        /// Runs all of `tasks` and returns their handles, in the order given, when all are done; see
        /// [`ExecutorExt::invoke_all`](crate::ExecutorExt::invoke_all).
        ///
        /// # Errors
        /// [`InvokeError`](crate::InvokeError) if a task is rejected or the calling thread is interrupted; the rest is then cancelled.
        ///
        /// # Examples
        /// ```
        /// let pool = millpond::executors::fixed(2)?;
        /// let squares = pool.invoke_all((1..=3).map(|n| move || n * n))?;
        /// let squares: Result<Vec<i32>, _> = squares.into_iter().map(|handle| handle.join()).collect();
        /// assert_eq!(squares?, [1, 4, 9]);
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        pub fn invoke_all<T, F>(
            &self,
            tasks: impl IntoIterator<Item = F>,
        ) -> Result<Vec<$crate::TaskHandle<T>>, $crate::InvokeError>
        where
            T: Send + 'static,
            F: FnOnce() -> T + Send + 'static,
        {
            $crate::ExecutorExt::invoke_all(self, tasks)
        }

        /// As [`invoke_all`](Self::invoke_all), for at most `timeout`: what is not done by then is cancelled.
        ///
        /// # Errors
        /// As [`invoke_all`](Self::invoke_all).
        pub fn invoke_all_timeout<T, F>(
            &self,
            tasks: impl IntoIterator<Item = F>,
            timeout: ::std::time::Duration,
        ) -> Result<Vec<$crate::TaskHandle<T>>, $crate::InvokeError>
        where
            T: Send + 'static,
            F: FnOnce() -> T + Send + 'static,
        {
            $crate::ExecutorExt::invoke_all_timeout(self, tasks, timeout)
        }

        /// Returns the value of the first task to succeed, and cancels the rest; see [`ExecutorExt::invoke_any`](crate::ExecutorExt::invoke_any).
        ///
        /// # Errors
        /// [`InvokeError`](crate::InvokeError) if there is no task, none succeeds, one is rejected, or the calling thread is interrupted.
        ///
        /// # Examples
        /// ```
        /// let pool = millpond::executors::fixed(2)?;
        /// let answer = pool.invoke_any([|| Err("no route"), || Ok(42)])?;
        /// assert_eq!(answer, 42);
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        pub fn invoke_any<T, E, F>(
            &self,
            tasks: impl IntoIterator<Item = F>,
        ) -> Result<T, $crate::InvokeError>
        where
            T: Send + 'static,
            E: Into<Box<dyn ::std::error::Error + Send + Sync>> + Send + 'static,
            F: FnOnce() -> Result<T, E> + Send + 'static,
        {
            $crate::ExecutorExt::invoke_any(self, tasks)
        }

        /// As [`invoke_any`](Self::invoke_any), for at most `timeout`.
        ///
        /// # Errors
        /// As [`invoke_any`](Self::invoke_any), and [`InvokeError::TimedOut`](crate::InvokeError::TimedOut).
        pub fn invoke_any_timeout<T, E, F>(
            &self,
            tasks: impl IntoIterator<Item = F>,
            timeout: ::std::time::Duration,
        ) -> Result<T, $crate::InvokeError>
        where
            T: Send + 'static,
            E: Into<Box<dyn ::std::error::Error + Send + Sync>> + Send + 'static,
            F: FnOnce() -> Result<T, E> + Send + 'static,
        {
            $crate::ExecutorExt::invoke_any_timeout(self, tasks, timeout)
        }
    };
}
pub(crate) use inherent_executor_methods;

/// Everything that can be had from [`Executor::execute_task`], for every executor.
pub trait ExecutorExt: Executor {
    /// Runs `f` without a handle.
    ///
    /// # Errors
    /// [`Rejected`] gives the work back if the executor cannot take it.
    fn execute(&self, f: impl FnOnce() + Send + 'static) -> Result<(), Rejected> {
        self.execute_task(Task::new(f))
    }

    /// Submits `f` and returns a handle to its result.
    ///
    /// # Errors
    /// [`Rejected`] gives the work back if the executor cannot take it.
    fn submit<T: Send + 'static>(
        &self,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> Result<TaskHandle<T>, Rejected> {
        self.submit_task(TaskOf::new(f))
    }

    /// Submits a task with a name, priority or delay, and returns a handle to its result.
    ///
    /// # Errors
    /// [`Rejected`] gives the work back if the executor cannot take it.
    fn submit_task<T: Send + 'static>(&self, task: TaskOf<T>) -> Result<TaskHandle<T>, Rejected> {
        let (task, handle) = task.into_parts();
        self.execute_task(task)?;
        Ok(handle)
    }

    /// Runs all of `tasks` and returns their handles, in the order given, when all are done.
    ///
    /// A task that panics fails only its own handle.
    ///
    /// # Errors
    /// [`InvokeError::Rejected`] or [`InvokeError::Interrupted`]; the tasks not yet done are then cancelled.
    fn invoke_all<T, F>(&self, tasks: impl IntoIterator<Item = F>) -> Result<Vec<TaskHandle<T>>, InvokeError>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        invoke_all_until(self, tasks, None)
    }

    /// As [`invoke_all`](Self::invoke_all), for at most `timeout`: what is not done by then is cancelled, and its
    /// handle says so.
    ///
    /// # Errors
    /// As [`invoke_all`](Self::invoke_all).
    fn invoke_all_timeout<T, F>(
        &self,
        tasks: impl IntoIterator<Item = F>,
        timeout: Duration,
    ) -> Result<Vec<TaskHandle<T>>, InvokeError>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        invoke_all_until(self, tasks, deadline_after(timeout))
    }

    /// Returns the value of the first task to succeed, and cancels the rest.
    ///
    /// Tasks are handed in one after the other, and no more once one has succeeded.
    ///
    /// # Errors
    /// [`InvokeError::Empty`] without tasks, [`InvokeError::AllFailed`] with the last failure if none succeeded,
    /// [`InvokeError::Rejected`] or [`InvokeError::Interrupted`].
    fn invoke_any<T, E, F>(&self, tasks: impl IntoIterator<Item = F>) -> Result<T, InvokeError>
    where
        T: Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>> + Send + 'static,
        F: FnOnce() -> Result<T, E> + Send + 'static,
    {
        invoke_any_until(self, tasks, None)
    }

    /// As [`invoke_any`](Self::invoke_any), for at most `timeout`.
    ///
    /// # Errors
    /// As [`invoke_any`](Self::invoke_any), and [`InvokeError::TimedOut`].
    fn invoke_any_timeout<T, E, F>(
        &self,
        tasks: impl IntoIterator<Item = F>,
        timeout: Duration,
    ) -> Result<T, InvokeError>
    where
        T: Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>> + Send + 'static,
        F: FnOnce() -> Result<T, E> + Send + 'static,
    {
        invoke_any_until(self, tasks, deadline_after(timeout))
    }
}

impl<E: Executor + ?Sized> ExecutorExt for E {}

/// The tasks of a batch; what is not done when it goes out of scope is cancelled.
struct Batch(Vec<Canceller>);

impl Drop for Batch {
    /// First those that wait: cancelling one that runs frees its worker, which would begin another.
    fn drop(&mut self) {
        let waiting = self.0.iter().filter(|task| task.state() == TaskState::Pending);
        for canceller in waiting.chain(&self.0) {
            canceller.cancel(true);
        }
    }
}

fn past(deadline: Option<Instant>) -> bool {
    deadline.is_some_and(|deadline| Instant::now() >= deadline)
}

fn invoke_all_until<X, T, F>(
    executor: &X,
    tasks: impl IntoIterator<Item = F>,
    deadline: Option<Instant>,
) -> Result<Vec<TaskHandle<T>>, InvokeError>
where
    X: Executor + ?Sized,
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    let mut batch = Batch(Vec::new());
    let mut handles = Vec::new();
    let mut late = false;
    for f in tasks {
        let (task, handle) = TaskOf::new(f).into_parts();
        late = late || past(deadline);
        if late {
            handle.cancel(false); // never handed in; its handle says cancelled
        } else {
            executor.execute_task(task).map_err(InvokeError::Rejected)?;
        }
        batch.0.push(handle.canceller());
        handles.push(handle);
    }
    for handle in &handles {
        match handle.wait_done(deadline) {
            Wake::Ready => {}
            Wake::Interrupted => return Err(InvokeError::Interrupted),
            Wake::TimedOut => break,
        }
    }
    drop(batch);
    Ok(handles)
}

fn invoke_any_until<X, T, E, F>(
    executor: &X,
    tasks: impl IntoIterator<Item = F>,
    deadline: Option<Instant>,
) -> Result<T, InvokeError>
where
    X: Executor + ?Sized,
    T: Send + 'static,
    E: Into<Box<dyn Error + Send + Sync>> + Send + 'static,
    F: FnOnce() -> Result<T, E> + Send + 'static,
{
    let finish = Arc::new(LinkedBlockingQueue::unbounded());
    let mut tasks = tasks.into_iter();
    let mut started = Batch(Vec::new());
    let mut open = 0_usize;
    let mut last_failure: Option<Box<dyn Error + Send + Sync>> = None;
    loop {
        // 1. One more runner, as long as there are any.
        let next = tasks.next();
        let all_started = next.is_none();
        if let Some(f) = next {
            started.0.push(completion::start(executor, f, &finish).map_err(InvokeError::Rejected)?);
            open += 1;
        }
        if open == 0 {
            return Err(last_failure.map_or(InvokeError::Empty, InvokeError::AllFailed));
        }
        // 2. Somebody at the finish? Only when all have started is there reason to wait for one.
        let finished =
            if all_started { Some(first_finished(&finish, &started.0, deadline)?) } else { finish.poll() };
        let Some(mut handle) = finished else { continue };
        // 3. The first success wins.
        open -= 1;
        match handle.try_join().expect("only finished tasks arrive") {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(error)) => last_failure = Some(error.into()),
            Err(error) => last_failure = Some(Box::new(error)),
        }
    }
}

/// Waits for the next task at the finish. A worker runs the waiting ones of its own pool meanwhile, so that a
/// full pool cannot wait for itself.
fn first_finished<T: Send>(
    finish: &LinkedBlockingQueue<TaskHandle<T>>,
    started: &[Canceller],
    deadline: Option<Instant>,
) -> Result<TaskHandle<T>, InvokeError> {
    for canceller in started {
        if let Some(handle) = finish.poll() {
            return Ok(handle);
        }
        canceller.help();
    }
    let left = deadline.map_or(Duration::MAX, |at| at.saturating_duration_since(Instant::now()));
    match finish.poll_timeout(left) {
        Ok(Some(handle)) => Ok(handle),
        Ok(None) => Err(InvokeError::TimedOut),
        Err(Interrupted) => Err(InvokeError::Interrupted),
    }
}

/// Why `invoke_all` or `invoke_any` gave up.
#[derive(Debug)]
#[non_exhaustive]
pub enum InvokeError {
    /// `invoke_any` was given no task, so there is no first one.
    Empty,
    /// The executor refused one of the tasks; the others were cancelled.
    Rejected(Rejected),
    /// No task had succeeded in time.
    TimedOut,
    /// The calling thread was interrupted.
    Interrupted,
    /// No task succeeded; this is the last failure.
    AllFailed(Box<dyn Error + Send + Sync>),
}

impl fmt::Display for InvokeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("invoke_any needs at least one task"),
            Self::Rejected(rejected) => write!(f, "a task of the batch was rejected: {rejected}"),
            Self::TimedOut => f.write_str("no task succeeded in time"),
            Self::Interrupted => f.write_str("interrupted while waiting for the tasks"),
            Self::AllFailed(last) => write!(f, "no task succeeded, the last failure was: {last}"),
        }
    }
}

impl Error for InvokeError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Rejected(rejected) => Some(rejected),
            Self::AllFailed(last) => Some(&**last),
            _ => None,
        }
    }
}

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

impl fmt::Display for RejectReason {
    /// What is the matter with the executor, as in "the pool …".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Saturated => "is saturated",
            Self::Shutdown => "has been shut down",
            Self::SpawnFailed => "could not start a thread",
            Self::Interrupted => "had no room before the waiting thread was interrupted",
            Self::WorkerDisposed => "has a worker that was disposed",
            Self::NotTimeCapable => "cannot run tasks later or periodically",
            Self::ZeroPeriod => "needs a period above zero",
            Self::CallbackPanicked => "called a hook, decorator, factory or executor that panicked",
        })
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
    source: Option<io::Error>,
    /// Who refused it: for the message.
    by: Option<By>,
}

/// Who refused a task.
#[derive(Debug, Clone)]
enum By {
    Pool(PoolFacts),
    Scheduler(SchedulerFacts),
}

/// What a rejection remembers of the scheduler.
#[derive(Debug, Clone)]
pub(crate) struct SchedulerFacts {
    pub(crate) name: Arc<str>,
    /// If it is full: how many tasks would wait, and how many may.
    pub(crate) full: Option<(u64, u64)>,
}

/// What a rejection remembers of the pool: enough for a useful message, cheap enough to take every time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PoolFacts {
    pub(crate) number: u64,
    pub(crate) pool_size: usize,
    /// `None`: there is no bound.
    pub(crate) maximum: Option<usize>,
    pub(crate) queued: usize,
}

impl Rejected {
    /// Makes the error: for executors and policies of your own.
    pub fn new(task: Task, reason: RejectReason) -> Rejected {
        Rejected { task, reason, source: None, by: None }
    }

    pub(crate) fn by(mut self, facts: PoolFacts) -> Rejected {
        self.by = Some(By::Pool(facts));
        self
    }

    pub(crate) fn by_scheduler(mut self, facts: SchedulerFacts) -> Rejected {
        self.by = Some(By::Scheduler(facts));
        self
    }

    pub(crate) fn because(mut self, source: io::Error) -> Rejected {
        self.source = Some(source);
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
        write!(f, "{}", self.reason)?;
        if let Some(source) = &self.source {
            write!(f, ": {source}")?;
        }
        match &self.by {
            Some(By::Pool(pool)) => {
                write!(f, " (pool size = {}, ", pool.pool_size)?;
                if let Some(maximum) = pool.maximum {
                    write!(f, "maximum = {maximum}, ")?;
                }
                write!(f, "queued tasks = {})", pool.queued)
            }
            Some(By::Scheduler(SchedulerFacts { full: Some((would_be, cap)), .. })) => {
                write!(f, ": {would_be} tasks would wait, but at most {cap} may")
            }
            _ => Ok(()),
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
        self.source.as_ref().map(|source| source as &(dyn Error + 'static))
    }
}
