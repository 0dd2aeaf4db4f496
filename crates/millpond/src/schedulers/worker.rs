//! [`Worker`]: a serial lane of a scheduler, and the trait [`Lane`] behind it.

use std::fmt;
use std::time::Duration;

use super::disposable::Disposable;
use super::work::NewJob;
use crate::executor::Rejected;
use crate::sync::Arc;
use crate::task::Task;
use crate::task::periodic::PeriodicTask;

/// The implementation behind a [`Worker`]. Custom schedulers implement it.
///
/// # Examples
/// ```
/// use millpond::schedulers::{self, Disposable, Lane, PeriodicTask, Scheduler, Worker};
/// use millpond::{Rejected, Task};
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// /// Prints what it is given, and passes it on.
/// struct Chatty(Worker);
/// impl Lane for Chatty {
///     fn schedule_task(&self, task: Task) -> Result<Disposable, Rejected> {
///         println!("{}", task.id());
///         self.0.schedule_task(task)
///     }
///     fn schedule_task_after(&self, delay: Duration, task: Task) -> Result<Disposable, Rejected> {
///         println!("{} in {delay:?}", task.id());
///         self.0.schedule_task_after(delay, task)
///     }
///     fn schedule_periodically_task(
///         &self,
///         initial: Duration,
///         period: Duration,
///         task: PeriodicTask,
///     ) -> Result<Disposable, Rejected> {
///         self.0.schedule_periodically_task(initial, period, task)
///     }
///     fn dispose(&self) {
///         self.0.dispose();
///     }
///     fn is_disposed(&self) -> bool {
///         self.0.is_disposed()
///     }
///     fn queued(&self) -> usize {
///         self.0.queued()
///     }
/// }
/// let worker = Worker::from_lane(Arc::new(Chatty(schedulers::single().create_worker())));
/// worker.schedule(|| println!("work"))?;
/// # Ok::<(), Rejected>(())
/// ```
pub trait Lane: Send + Sync {
    /// As [`Worker::schedule_task`].
    ///
    /// # Errors
    /// Returns [`Rejected`] with the task.
    fn schedule_task(&self, task: Task) -> Result<Disposable, Rejected>;
    /// As [`Worker::schedule_task_after`].
    ///
    /// # Errors
    /// Returns [`Rejected`] with the task.
    fn schedule_task_after(&self, delay: Duration, task: Task) -> Result<Disposable, Rejected>;
    /// As [`Worker::schedule_periodically_task`].
    ///
    /// # Errors
    /// Returns [`Rejected`] with the body as a task.
    fn schedule_periodically_task(
        &self,
        initial: Duration,
        period: Duration,
        task: PeriodicTask,
    ) -> Result<Disposable, Rejected>;
    /// As [`Scheduler::schedule_job`](super::Scheduler::schedule_job).
    #[doc(hidden)]
    fn schedule_job(&self, job: NewJob<'_>) -> Option<Result<Disposable, Rejected>> {
        let _ = job;
        None
    }
    /// As [`Worker::dispose`].
    fn dispose(&self);
    /// As [`Worker::is_disposed`].
    fn is_disposed(&self) -> bool;
    /// As [`Worker::queued`].
    fn queued(&self) -> usize;
}

/// A serial lane of a scheduler: its tasks run one at a time, by due time and then by submission.
///
/// This is a cheap handle. When the last clone is dropped, the lane accepts no more tasks, finishes
/// the remaining ones, and then releases its slot. Periodic tasks continue until they are disposed.
///
/// # Examples
/// ```
/// use millpond::schedulers::{self, Scheduler};
/// use std::time::Duration;
///
/// let lane = schedulers::parallel().create_worker();
/// lane.schedule(|| println!("first"))?;
/// let second = lane.schedule(|| println!("second, never beside the first"))?;
/// assert!(second.wait(Duration::MAX)?);
/// lane.dispose();
/// assert!(lane.schedule(|| ()).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Worker {
    lane: Arc<dyn Lane>,
}

impl Worker {
    /// Creates a worker over a custom lane. Dropping the last clone drops the lane.
    pub fn from_lane(lane: Arc<dyn Lane>) -> Worker {
        Worker { lane }
    }

    /// Runs `f` after all work of this worker that is due before it. Does not block.
    ///
    /// # Errors
    /// Returns [`Rejected`] with the task if the worker or its scheduler is disposed, if the queue
    /// is full, if a hook or decorator panicked, or if no thread could be started.
    pub fn schedule(&self, f: impl FnOnce() + Send + 'static) -> Result<Disposable, Rejected> {
        let by_task = |task| self.schedule_task(task);
        NewJob::submit(Duration::ZERO, f, |job| self.lane.schedule_job(job), by_task)
    }

    /// Runs `f` after `delay`, and after all work of this worker that is due before it.
    ///
    /// # Errors
    /// As [`schedule`](Self::schedule), and if the scheduler has no timing.
    pub fn schedule_after(
        &self,
        delay: Duration,
        f: impl FnOnce() + Send + 'static,
    ) -> Result<Disposable, Rejected> {
        let by_task = |task| self.schedule_task_after(delay, task);
        NewJob::submit(delay, f, |job| self.lane.schedule_job(job), by_task)
    }

    /// Runs `f` after `initial`, and then once every `period`.
    ///
    /// # Errors
    /// As [`schedule_after`](Self::schedule_after).
    pub fn schedule_periodically(
        &self,
        initial: Duration,
        period: Duration,
        f: impl FnMut() + Send + 'static,
    ) -> Result<Disposable, Rejected> {
        self.schedule_periodically_task(initial, period, PeriodicTask::new(f))
    }

    /// Runs `task` after all work of this worker that is due before it.
    ///
    /// # Errors
    /// As [`schedule`](Self::schedule).
    pub fn schedule_task(&self, task: Task) -> Result<Disposable, Rejected> {
        self.lane.schedule_task(task)
    }

    /// Runs `task` after `delay`, and after all work of this worker that is due before it.
    ///
    /// # Errors
    /// As [`schedule_after`](Self::schedule_after).
    pub fn schedule_task_after(&self, delay: Duration, task: Task) -> Result<Disposable, Rejected> {
        self.lane.schedule_task_after(delay, task)
    }

    /// Runs `task` after `initial`, and then once every `period`.
    ///
    /// # Errors
    /// As [`schedule_after`](Self::schedule_after). The returned task runs the body once.
    pub fn schedule_periodically_task(
        &self,
        initial: Duration,
        period: Duration,
        task: PeriodicTask,
    ) -> Result<Disposable, Rejected> {
        self.lane.schedule_periodically_task(initial, period, task)
    }

    /// Cancels all waiting work of this worker, interrupts its running task, and accepts no more
    /// work. Does not block. The worker releases its slot when the running body has returned. A
    /// task that disposes of its own worker is not interrupted.
    pub fn dispose(&self) {
        self.lane.dispose();
    }

    /// Returns true if the worker accepts no more work.
    pub fn is_disposed(&self) -> bool {
        self.lane.is_disposed()
    }

    /// Returns the number of tasks in this lane that wait for their turn or their due time.
    pub fn queued(&self) -> usize {
        self.lane.queued()
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("disposed", &self.is_disposed())
            .field("queued", &self.queued())
            .finish_non_exhaustive()
    }
}
