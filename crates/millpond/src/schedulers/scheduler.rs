//! The trait [`Scheduler`], and [`SchedulerExt`] for closures.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use super::disposable::Disposable;
use super::stats::SchedulerStats;
use super::work::NewJob;
use super::worker::Worker;
use crate::executor::Rejected;
use crate::interrupt::Interrupted;
use crate::monitor::PoolRef;
use crate::sync::Arc;
use crate::task::Task;
use crate::task::periodic::PeriodicTask;

/// Runs work now, later or periodically.
///
/// A submission does not wait for capacity: a scheduler that is full or has ended refuses it. It
/// may call user code, such as hooks, decorators, a thread factory or an executor.
///
/// # Examples
/// ```
/// use millpond::schedulers::{self, Scheduler, SchedulerExt};
///
/// fn twice(on: &dyn Scheduler) -> Result<(), millpond::Rejected> {
///     on.schedule(|| println!("once"))?;
///     on.schedule(|| println!("and again"))?;
///     Ok(())
/// }
/// twice(&schedulers::parallel())?;
/// twice(&schedulers::immediate())?;
/// # Ok::<(), millpond::Rejected>(())
/// ```
pub trait Scheduler: Send + Sync {
    /// Runs `task` as soon as a thread is available.
    ///
    /// # Errors
    /// Returns [`Rejected`], with the task and the reason, if the scheduler has ended or is full,
    /// if a hook or decorator panicked, or if no thread could be started.
    fn schedule_task(&self, task: Task) -> Result<Disposable, Rejected>;

    /// Runs `task` after `delay`. A delay of zero means as soon as a thread is available.
    ///
    /// # Errors
    /// As [`schedule_task`](Self::schedule_task), and if the scheduler has no timing.
    fn schedule_task_after(&self, delay: Duration, task: Task) -> Result<Disposable, Rejected>;

    /// Runs `task` after `initial` and then at a fixed rate: each run is due one `period` after the
    /// due time of the previous run. Runs never overlap. With a period of zero, the task runs again
    /// immediately, after all other due work.
    ///
    /// A panic of a run is passed to the error hooks, and the task runs again, unless
    /// [`on_panic`](PeriodicTask::on_panic) says otherwise.
    ///
    /// # Errors
    /// As [`schedule_task_after`](Self::schedule_task_after). The returned task runs the body once.
    fn schedule_periodically_task(
        &self,
        initial: Duration,
        period: Duration,
        task: PeriodicTask,
    ) -> Result<Disposable, Rejected>;

    /// Runs a closure without making a task of it. Only schedulers of this crate support this. All
    /// others return `None`, and the closure is submitted as a task.
    #[doc(hidden)]
    fn schedule_job(&self, job: NewJob<'_>) -> Option<Result<Disposable, Rejected>> {
        let _ = job;
        None
    }

    /// Identifies the scheduler behind this handle, while it is alive. `None` for schedulers that
    /// are not of this crate.
    #[doc(hidden)]
    fn scheduler_id(&self) -> Option<SchedulerId> {
        None
    }

    /// Creates a worker. Its tasks run one at a time, by due time and then by submission. The
    /// worker of a disposed scheduler is disposed.
    fn create_worker(&self) -> Worker;

    /// Ends the scheduler at once: interrupts running tasks, cancels waiting tasks and disposes of
    /// the workers. Returns without waiting. Also cuts a graceful end short.
    fn dispose(&self);

    /// Ends the scheduler gracefully and blocks until it has ended, for at most `timeout`. The
    /// scheduler accepts no more work, runs all waiting and delayed tasks, and ends periodic tasks.
    /// Returns true if all work is done and the threads have exited.
    ///
    /// The end begins at once, even with a timeout of zero, and continues after a timeout. Another
    /// call waits again. On a thread of the scheduler itself this does not block.
    ///
    /// # Errors
    /// Returns [`Interrupted`] if the calling thread is interrupted while it waits.
    fn dispose_gracefully(&self, timeout: Duration) -> Result<bool, Interrupted>;

    /// Returns the graceful end as a future. The end begins with the first poll.
    fn disposal(&self) -> Pin<Box<dyn Future<Output = ()> + Send>>;

    /// Returns true once an end has begun, graceful or not.
    fn is_disposed(&self) -> bool;

    /// Returns a consistent snapshot of all figures.
    fn stats(&self) -> SchedulerStats;

    /// Returns the scheduler's entry in [`registry::pools`](crate::registry::pools), with its
    /// snapshots, times and settings. Returns `None` if there are no threads to observe: for the
    /// immediate scheduler, a single worker, virtual time, and schedulers of other crates.
    ///
    /// # Examples
    /// ```
    /// use millpond::monitor::Kind;
    /// use millpond::schedulers::{self, Scheduler, SchedulerExt};
    ///
    /// let mail = schedulers::new_single("mail")?;
    /// mail.schedule(|| println!("sent"))?;
    /// let snapshot = mail.pool_ref().and_then(|mail| mail.snapshot()).unwrap();
    /// assert_eq!((&*snapshot.name, snapshot.kind), ("mail", Kind::Scheduler));
    /// assert_eq!(snapshot.stats.submitted, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn pool_ref(&self) -> Option<PoolRef> {
        None
    }
}

/// Equal for all handles to one scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SchedulerId(usize);

impl SchedulerId {
    pub(super) fn of<T>(backend: &T) -> SchedulerId {
        SchedulerId(std::ptr::from_ref(backend).addr())
    }
}

forward_scheduler!([S: Scheduler + ?Sized] Arc<S>, |it| **it);

impl fmt::Display for dyn Scheduler + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.stats().name)
    }
}

impl fmt::Debug for dyn Scheduler + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stats().fmt(f)
    }
}

/// The scheduling methods for closures, available on every scheduler.
///
/// # Examples
/// ```
/// use millpond::schedulers::{self, SchedulerExt};
/// use std::time::Duration;
///
/// let second = Duration::from_secs(1);
/// let parallel = schedulers::parallel();
/// parallel.schedule(|| println!("now"))?;
/// parallel.schedule_after(second, || println!("later"))?;
/// let ticks = parallel.schedule_periodically(second, second, || println!("again and again"))?;
/// ticks.dispose();
/// # Ok::<(), millpond::Rejected>(())
/// ```
pub trait SchedulerExt: Scheduler {
    /// Runs `f` as soon as a thread is available.
    ///
    /// # Errors
    /// As [`Scheduler::schedule_task`].
    fn schedule(&self, f: impl FnOnce() + Send + 'static) -> Result<Disposable, Rejected> {
        let by_task = |task| self.schedule_task(task);
        NewJob::submit(Duration::ZERO, f, |job| self.schedule_job(job), by_task)
    }

    /// Runs `f` after `delay`.
    ///
    /// # Errors
    /// As [`Scheduler::schedule_task_after`].
    fn schedule_after(
        &self,
        delay: Duration,
        f: impl FnOnce() + Send + 'static,
    ) -> Result<Disposable, Rejected> {
        let by_task = |task| self.schedule_task_after(delay, task);
        NewJob::submit(delay, f, |job| self.schedule_job(job), by_task)
    }

    /// Runs `f` after `initial`, and then once every `period`.
    ///
    /// # Errors
    /// As [`Scheduler::schedule_periodically_task`].
    fn schedule_periodically(
        &self,
        initial: Duration,
        period: Duration,
        f: impl FnMut() + Send + 'static,
    ) -> Result<Disposable, Rejected> {
        self.schedule_periodically_task(initial, period, PeriodicTask::new(f))
    }
}

impl<S: Scheduler + ?Sized> SchedulerExt for S {}
