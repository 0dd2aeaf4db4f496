//! Reactor's schedulers: where reactive code lets its work run, now, later or periodically.
//!
//! | scheduler | threads | for |
//! |---|---|---|
//! | [`immediate`] | the caller's | no hop at all |
//! | [`single`], [`new_single`] | one | work that must not overlap |
//! | [`parallel`], [`new_parallel`] | as many as processors, each with its own line | short computations |
//! | [`bounded_elastic`], [`new_bounded_elastic`], [`BoundedElasticScheduler`] | up to a cap, let go when idle | work that blocks |
//! | [`from_executor`], [`from_executor_service`], [`from_scheduled_executor`] | those of an executor | what you have already |
//! | [`single_worker`] | one lane of another scheduler | order across everything it is given |
//! | [`VirtualTimeScheduler`] | the one that advances its time | tests |
//!
//! A [`Scheduler`] runs tasks without any order among them. Its [`Worker`]s are lanes: what is given to one worker runs in
//! order of due time, then of submission, never two at a time, and is cancelled with the worker.
//!
//! The three shared instances are made on first use and belong to everybody: their `dispose` does nothing. A scheduler
//! from one of the `new_` functions belongs to whoever holds it; when the last clone goes it ends in good order, as by
//! [`dispose_gracefully`](Scheduler::dispose_gracefully), without blocking.
//!
//! A [`Factory`] makes the shared instances and what the `new_` functions give; tests replace it, or install virtual time.
//!
//! Waiting work holds no thread: all schedulers share one timer thread. It runs none of your code: where a due timer needs a
//! new thread, an executor or a decorator, a helper thread of that scheduler (`millpond-courier`) calls it. A panic in a task goes to the hooks of
//! [`on_error`] and hurts nobody; a series goes on after it, unless it is to end [`on_panic`](PeriodicTask::on_panic).
//!
//! # Examples
//! ```
//! use millpond::schedulers::{self, Scheduler, SchedulerExt};
//! use std::time::Duration;
//!
//! let blocking = schedulers::new_bounded_elastic(4, 1000, "db", Duration::from_secs(60))?;
//! let row = blocking.schedule(|| println!("read a row"))?;
//! assert!(row.wait(Duration::MAX)?);
//!
//! let lane = blocking.create_worker();
//! lane.schedule(|| println!("first"))?;
//! lane.schedule_after(Duration::from_millis(5), || println!("second"))?;
//! assert!(blocking.dispose_gracefully(Duration::MAX)?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bounded_elastic;
mod defaults;
mod engine;
mod factory;
mod fixed;
mod hooks;
mod immediate;
mod job;
mod non_blocking;
mod on_executor;
mod shared;
mod single_worker;
mod virtual_time;
mod waiters;

/// Implements [`Scheduler`] for a type that has one inside: in a field, or where an expression says.
macro_rules! forward_scheduler {
    ([$($generics:tt)*] $type:ty, |$it:ident| $inside:expr) => {
        impl<$($generics)*> Scheduler for $type {
            fn schedule_task(&self, task: Task) -> Result<Disposable, Rejected> {
                let $it = self;
                $inside.schedule_task(task)
            }
            fn schedule_task_after(&self, delay: Duration, task: Task) -> Result<Disposable, Rejected> {
                let $it = self;
                $inside.schedule_task_after(delay, task)
            }
            fn schedule_periodically_task(
                &self,
                initial: Duration,
                period: Duration,
                task: PeriodicTask,
            ) -> Result<Disposable, Rejected> {
                let $it = self;
                $inside.schedule_periodically_task(initial, period, task)
            }
            fn create_worker(&self) -> Worker {
                let $it = self;
                $inside.create_worker()
            }
            fn dispose(&self) {
                let $it = self;
                $inside.dispose();
            }
            fn dispose_gracefully(&self, timeout: Duration) -> Result<bool, Interrupted> {
                let $it = self;
                $inside.dispose_gracefully(timeout)
            }
            fn disposal(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
                let $it = self;
                $inside.disposal()
            }
            fn is_disposed(&self) -> bool {
                let $it = self;
                $inside.is_disposed()
            }
            fn stats(&self) -> SchedulerStats {
                let $it = self;
                $inside.stats()
            }
        }
    };
    ($type:ty, $field:ident) => {
        $crate::schedulers::forward_scheduler!([] $type, |it| it.$field);
    };
}
use forward_scheduler;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use crate::executor::Rejected;
use crate::interrupt::Interrupted;
use crate::sync::Arc;
use crate::task::Task;

pub use self::bounded_elastic::{Affinity, BoundedElasticBuilder, BoundedElasticScheduler};
pub use self::defaults::{Defaults, config_problems, defaults};
pub use self::factory::{
    DefaultFactory, Factory, Snapshot, new_bounded_elastic, new_parallel, new_single, reset_factory,
    reset_from, set_factory, set_factory_with_snapshot,
};
pub use self::hooks::{
    Decorator, SlotInfo, add_decorator, on_error, on_schedule, remove_decorator, reset_all_on_error,
    reset_all_on_schedule, reset_on_error, reset_on_schedule, set_decorator,
};
pub use self::job::Disposable;
pub use self::non_blocking::{
    is_in_non_blocking_thread, register_non_blocking_predicate, reset_non_blocking_predicates,
};
pub use self::on_executor::{from_executor, from_executor_service, from_scheduled_executor};
pub use self::shared::{Shared, bounded_elastic, immediate, parallel, shutdown_now, single};
pub use self::single_worker::single_worker;
pub use self::virtual_time::VirtualTimeScheduler;
pub use crate::task::periodic::{MissedTicks, OnPanic, PeriodicTask};

/// Runs work now, later or periodically, on threads of its own or of others.
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
    /// Runs `task` as soon as there is a thread for it.
    ///
    /// # Errors
    /// [`Rejected`] hands the task back and says why: ended, full, or a hook panicked.
    fn schedule_task(&self, task: Task) -> Result<Disposable, Rejected>;

    /// Runs `task` when `delay` is over; at once if it is zero.
    ///
    /// # Errors
    /// As [`schedule_task`](Self::schedule_task), and if the scheduler has no timing.
    fn schedule_task_after(&self, delay: Duration, task: Task) -> Result<Disposable, Rejected>;

    /// Runs `task` when `initial` is over, and then with a fixed rate: each run is due one `period` after the one before was
    /// due. Runs never overlap. A period of zero means again at once, with others in between.
    ///
    /// A run that panics goes to the error hooks, and the series goes on, unless the task is one that ends
    /// [`on_panic`](PeriodicTask::on_panic).
    ///
    /// # Errors
    /// As [`schedule_task_after`](Self::schedule_task_after); the task that comes back runs the body once.
    fn schedule_periodically_task(
        &self,
        initial: Duration,
        period: Duration,
        task: PeriodicTask,
    ) -> Result<Disposable, Rejected>;

    /// Makes a lane: its work is run one at a time, by due time and then by submission. Born disposed if the scheduler is.
    fn create_worker(&self) -> Worker;

    /// Ends the scheduler: interrupts what runs, cancels what waits, disposes its workers. Does not wait. Also ends a
    /// graceful end that is under way.
    fn dispose(&self);

    /// Ends the scheduler in good order and waits for that, at most `timeout`: takes nothing more, runs what waits
    /// for a thread or for its time, ends series. True: all is done and the threads are gone.
    ///
    /// Begins at once, also with a timeout of zero. If the time is over the end goes on: call it again to wait on.
    ///
    /// # Errors
    /// [`Interrupted`] if the calling thread is interrupted while it has to wait.
    fn dispose_gracefully(&self, timeout: Duration) -> Result<bool, Interrupted>;

    /// The same as a future: the end begins when it is first polled.
    fn disposal(&self) -> Pin<Box<dyn Future<Output = ()> + Send>>;

    /// Tells whether an end has begun, of either kind.
    fn is_disposed(&self) -> bool;

    /// One look at all figures.
    fn stats(&self) -> SchedulerStats;
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

/// The three ways to schedule, for closures; for every scheduler.
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
    /// Runs `f` as soon as there is a thread for it.
    ///
    /// # Errors
    /// As [`Scheduler::schedule_task`].
    fn schedule(&self, f: impl FnOnce() + Send + 'static) -> Result<Disposable, Rejected> {
        self.schedule_task(Task::new(f))
    }

    /// Runs `f` when `delay` is over.
    ///
    /// # Errors
    /// As [`Scheduler::schedule_task_after`].
    fn schedule_after(
        &self,
        delay: Duration,
        f: impl FnOnce() + Send + 'static,
    ) -> Result<Disposable, Rejected> {
        self.schedule_task_after(delay, Task::new(f))
    }

    /// Runs `f` when `initial` is over, and then once in every `period`.
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

/// What a scheduler is and does now.
///
/// A slot is the place of one thread. It is busy while it is held by a worker, a series, or a task that is ready or running;
/// otherwise it is idle. At any moment `submitted = completed + panicked + cancelled + queued +` those that run. Each run
/// of a series counts as one submitted.
///
/// # Examples
/// ```
/// use millpond::schedulers::{self, Scheduler};
///
/// let files = schedulers::new_bounded_elastic(4, 100, "files", std::time::Duration::from_secs(60))?;
/// let lane = files.create_worker();
/// let stats = files.stats();
/// assert_eq!((stats.max_threads, stats.slots, stats.busy, stats.live_threads), (4, 1, 1, 0));
/// # Ok::<(), millpond::ConfigError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SchedulerStats {
    /// What `Display` writes.
    pub name: String,
    /// An end has begun.
    pub disposed: bool,
    /// How many threads there may be; `usize::MAX` if that is not ours to say.
    pub max_threads: usize,
    /// How many threads there are.
    pub live_threads: usize,
    /// Places of threads, with or without one: busy and idle.
    pub slots: usize,
    /// Slots that somebody holds.
    pub busy: usize,
    /// Slots that nobody holds.
    pub idle: usize,
    /// Tasks that were accepted and do not run: they wait for a thread or for their time.
    pub queued: u64,
    /// How many more tasks may wait; `u64::MAX` if there is no bound.
    pub remaining_capacity: u64,
    /// Tasks accepted.
    pub submitted: u64,
    /// Runs that returned.
    pub completed: u64,
    /// Runs that panicked.
    pub panicked: u64,
    /// Tasks cancelled before they ran.
    pub cancelled: u64,
    /// Tasks refused.
    pub rejected: u64,
}

/// What stands behind a [`Worker`]: implemented by schedulers.
///
/// # Examples
/// ```
/// use millpond::schedulers::{self, Disposable, Lane, PeriodicTask, Scheduler, Worker};
/// use millpond::{Rejected, Task};
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// /// Says what it is given, and passes it on.
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
    /// [`Rejected`] hands the task back.
    fn schedule_task(&self, task: Task) -> Result<Disposable, Rejected>;
    /// As [`Worker::schedule_task_after`].
    ///
    /// # Errors
    /// [`Rejected`] hands the task back.
    fn schedule_task_after(&self, delay: Duration, task: Task) -> Result<Disposable, Rejected>;
    /// As [`Worker::schedule_periodically_task`].
    ///
    /// # Errors
    /// [`Rejected`] hands the body back, as a task.
    fn schedule_periodically_task(
        &self,
        initial: Duration,
        period: Duration,
        task: PeriodicTask,
    ) -> Result<Disposable, Rejected>;
    /// As [`Worker::dispose`].
    fn dispose(&self);
    /// As [`Worker::is_disposed`].
    fn is_disposed(&self) -> bool;
    /// As [`Worker::queued`].
    fn queued(&self) -> usize;
}

/// A lane of a scheduler: what is given to it runs one at a time, by due time and then by submission.
///
/// The name is Reactor's. It is not a thread: the worker threads of a pool are described by
/// [`WorkerInfo`](crate::WorkerInfo).
///
/// A cheap handle. When the last clone is dropped the lane takes nothing more, finishes what it has, and then gives its
/// slot free; series that are not disposed go on.
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
    /// A worker over a lane of your own scheduler. The lane is dropped with the last clone.
    pub fn from_lane(lane: Arc<dyn Lane>) -> Worker {
        Worker { lane }
    }

    /// Runs `f` after all that is due before.
    ///
    /// # Errors
    /// [`Rejected`] if the worker or its scheduler is disposed, or there is no room.
    pub fn schedule(&self, f: impl FnOnce() + Send + 'static) -> Result<Disposable, Rejected> {
        self.schedule_task(Task::new(f))
    }

    /// Runs `f` when `delay` is over, after all that is due before.
    ///
    /// # Errors
    /// As [`schedule`](Self::schedule), and if the scheduler has no timing.
    pub fn schedule_after(
        &self,
        delay: Duration,
        f: impl FnOnce() + Send + 'static,
    ) -> Result<Disposable, Rejected> {
        self.schedule_task_after(delay, Task::new(f))
    }

    /// Runs `f` when `initial` is over, and then once in every `period`.
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

    /// Runs `task` after all that is due before.
    ///
    /// # Errors
    /// As [`schedule`](Self::schedule).
    pub fn schedule_task(&self, task: Task) -> Result<Disposable, Rejected> {
        self.lane.schedule_task(task)
    }

    /// Runs `task` when `delay` is over, after all that is due before.
    ///
    /// # Errors
    /// As [`schedule_after`](Self::schedule_after).
    pub fn schedule_task_after(&self, delay: Duration, task: Task) -> Result<Disposable, Rejected> {
        self.lane.schedule_task_after(delay, task)
    }

    /// Runs `task` when `initial` is over, and then once in every `period`.
    ///
    /// # Errors
    /// As [`schedule_after`](Self::schedule_after); the task that comes back runs the body once.
    pub fn schedule_periodically_task(
        &self,
        initial: Duration,
        period: Duration,
        task: PeriodicTask,
    ) -> Result<Disposable, Rejected> {
        self.lane.schedule_periodically_task(initial, period, task)
    }

    /// Cancels all that was given to this worker, interrupts what runs, and takes nothing more. Its slot is free once the
    /// body that runs has returned.
    ///
    /// A body that disposes its own worker is not interrupted: it knows, and runs to its end.
    pub fn dispose(&self) {
        self.lane.dispose();
    }

    /// Tells whether the worker takes nothing more.
    pub fn is_disposed(&self) -> bool {
        self.lane.is_disposed()
    }

    /// The number of tasks that wait in this lane, for their turn or their time.
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
