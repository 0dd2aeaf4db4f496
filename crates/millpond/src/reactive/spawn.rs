//! Runs futures on executors and schedulers: the two extension traits.

use std::future::Future;
use std::time::Duration;

use super::core::Losing;
use super::task::{self, Rests};
use crate::executor::{Executor, RejectReason, Rejected};
use crate::panic::{catch_value, drop_caught};
use crate::schedulers::{Disposable, PeriodicTask, Scheduler, Worker};
use crate::sync::{Arc, AtomicBool, Mutex, MutexGuard, Ordering, Weak, fence};
use crate::task::{Task, TaskHandle};

/// Runs futures on executors. Implemented for every executor that can be cloned. These include
/// every pool, which is a cheap handle, and every executor in an `Arc`.
pub trait ExecutorFutureExt: Executor + Clone + Send + Sync + 'static {
    /// Runs `future` on this executor and returns a handle to its output.
    ///
    /// Every wake-up is one submission: a task with the id of the handle that polls the future
    /// once. Two threads never poll it at the same time. Several wake-ups before or during a poll
    /// count as one. Between turns the future occupies no thread and no queue slot. It holds a
    /// clone of the executor, which therefore lives until the future has ended.
    ///
    /// The handle behaves as every [`TaskHandle`]. Cancelling drops the future: at once, or after
    /// the current poll, which is interrupted if requested. The handle receives a panic of the
    /// future. If no further poll is possible, the future is dropped and the handle resolves as
    /// abandoned. That is the case when the executor rejects or drops a turn, or when all wakers
    /// are dropped. A pool that shuts down while the future waits for an outside event rejects the
    /// next wake-up; cancel the handle to end it earlier.
    ///
    /// This call submits the first turn. The threads that wake the future submit the others; its
    /// own poll may be one of them. So a rejection policy that blocks, or that runs the task on the
    /// caller's thread, affects these threads. For futures, prefer a policy that rejects.
    ///
    /// A worker that joins such a handle runs those turns in its own pool that no other worker
    /// takes.
    ///
    /// # Errors
    /// Returns [`Rejected`] if the executor refuses the first turn. The task in it polls the
    /// future.
    ///
    /// # Examples
    /// ```
    /// use millpond::executors;
    /// use millpond::reactive::ExecutorFutureExt;
    ///
    /// let pool = executors::fixed(2)?;
    /// let blocking = pool.clone();
    /// let sum = pool.spawn_future(async move {
    ///     let six = blocking.submit(|| 6).unwrap(); // a handle is a future
    ///     let seven = blocking.submit(|| 7).unwrap();
    ///     six.await.unwrap() * seven.await.unwrap()
    /// })?;
    /// assert_eq!(sum.join()?, 42);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn spawn_future<F>(&self, future: F) -> Result<TaskHandle<F::Output>, Rejected>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        task::spawn(Arc::new(self.clone()), None, future, |_| {})
    }
}

impl<E: Executor + Clone + 'static> ExecutorFutureExt for E {}

/// Runs futures on schedulers. Implemented for every scheduler.
pub trait SchedulerFutureExt: Scheduler {
    /// Runs `future` on one worker of this scheduler and returns a handle to its output.
    ///
    /// As [`ExecutorFutureExt::spawn_future`], with a worker instead of the executor. The future
    /// holds the worker, and so the scheduler, from this call until it has ended.
    ///
    /// When the scheduler ends, by force or gracefully, the future ends too. After a graceful end
    /// has begun, a turn that is queued or running may still finish the future. Otherwise the
    /// future is dropped and its handle is abandoned. To be notified of the end while it is idle,
    /// the future keeps a periodic task in its worker that never runs and counts as one waiting
    /// task. If a scheduler rejects that task, an idle future detects the end only at its next
    /// wake-up. A scheduler without timers always does, and a full one does if other work takes
    /// the place that each turn of the future frees.
    ///
    /// A task of the same scheduler that joins such a handle runs the turns that no other thread
    /// takes.
    ///
    /// # Errors
    /// Returns [`Rejected`] if the scheduler has ended or is full. The task in it polls the future.
    ///
    /// # Examples
    /// ```
    /// use millpond::reactive::SchedulerFutureExt;
    /// use millpond::schedulers;
    ///
    /// let cpu = schedulers::new_parallel(2, "cpu")?;
    /// let answer = cpu.spawn_future(async { 6 * 7 })?;
    /// assert_eq!(answer.join()?, 42);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn spawn_future<F>(&self, future: F) -> Result<TaskHandle<F::Output>, Rejected>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        spawn_on_worker(self.create_worker(), future)
    }
}

impl<S: Scheduler + ?Sized> SchedulerFutureExt for S {}

/// Runs `future` on `worker`.
pub(super) fn spawn_on_worker<F>(worker: Worker, future: F) -> Result<TaskHandle<F::Output>, Rejected>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let lane = Arc::new(OnWorker { worker, watch: Mutex::new(Watch::Not) });
    let executor = Arc::clone(&lane) as Arc<dyn Executor>;
    let rests = Arc::downgrade(&lane) as Weak<dyn Rests>;
    task::spawn(executor, Some(rests), future, move |losing| {
        *lane.watch.lock() = Watch::Wanted(losing);
        lane.keep_watch();
    })
}

/// A worker as an executor for one future, which is notified when the worker ends.
///
/// The watch is a periodic task in the worker that never runs. The scheduler drops it when the
/// scheduler or the worker ends.
struct OnWorker {
    worker: Worker,
    watch: Mutex<Watch>,
}

enum Watch {
    /// The watch is not started, or not possible.
    Not,
    Wanted(Weak<dyn Losing>),
    /// A thread is submitting the watch and will set the next state.
    Coming(Meanwhile),
    On(Weak<dyn Losing>, Arc<AtomicBool>, Disposable),
}

/// What happens while a thread submits the watch.
#[derive(Default)]
struct Meanwhile {
    /// A turn that found the queue full. The watch may occupy the place that the turn needs, and
    /// only the thread that submits the watch can free it.
    turn: Option<Task>,
    /// A turn has come to rest, so a watch that finds no place now must be submitted again.
    has_rested: bool,
}

/// Captured by the body of the periodic task. If dropped while on duty, it notifies the future.
struct Sentry {
    losing: Weak<dyn Losing>,
    /// `settle` sets this flag, fences, and then checks whether the watch is disposed. The
    /// scheduler first disposes of the watch (a SeqCst exchange) and then drops it, which reads
    /// this flag. So at least one of them notifies the future.
    on_duty: Arc<AtomicBool>,
}

impl Drop for Sentry {
    fn drop(&mut self) {
        if self.on_duty.load(Ordering::SeqCst)
            && let Some(future) = self.losing.upgrade()
        {
            future.no_more_turns();
        }
    }
}

impl OnWorker {
    /// Starts the watch if it is wanted and not started.
    fn keep_watch(&self) {
        self.start_watch(self.watch.lock());
    }

    fn start_watch(&self, mut watch: MutexGuard<'_, Watch>) {
        let losing = match &*watch {
            Watch::Wanted(losing) => Weak::clone(losing),
            Watch::Not | Watch::Coming(_) | Watch::On(..) => return,
        };
        // One thread at a time: hooks run below, without the lock.
        *watch = Watch::Coming(Meanwhile::default());
        drop(watch);
        let on_duty = Arc::new(AtomicBool::new(false));
        let sentry = Sentry { losing: Weak::clone(&losing), on_duty: Arc::clone(&on_duty) };
        let series = PeriodicTask::new(move || {
            let _ = &sentry;
        });
        // The worker may be user code. If it panics, there is no watch, and the waking thread
        // continues.
        let asked =
            catch_value(|| self.worker.schedule_periodically_task(Duration::MAX, Duration::MAX, series));
        let refusal = asked.as_ref().and_then(|asked| asked.as_ref().err()).map(Rejected::reason);
        let ended = refusal.filter(|reason| reason.is_shutdown()).and_then(|_| losing.upgrade());
        self.settle(match asked {
            Some(Ok(series)) => Watch::On(losing, on_duty, series),
            Some(Err(_)) if refusal == Some(RejectReason::Saturated) => Watch::Wanted(losing),
            _ => Watch::Not,
        });
        if let Some(future) = ended {
            future.no_more_turns(); // it may be idle already
        }
    }

    /// Sets the state after the worker has accepted or refused the watch. A turn that arrived
    /// meanwhile takes precedence: the watch frees its place and is started again with the turn.
    fn settle(&self, answer: Watch) {
        let mut watch = self.watch.lock();
        let before = std::mem::replace(&mut *watch, answer);
        let Meanwhile { turn, has_rested } = match before {
            Watch::Coming(meanwhile) => meanwhile,
            _ => Meanwhile::default(),
        };
        let on = match &*watch {
            Watch::On(losing, on_duty, series) if turn.is_none() => {
                on_duty.store(true, Ordering::SeqCst);
                // Pairs with the SeqCst exchange by which the scheduler disposes of the watch. If
                // `is_disposed` below misses that exchange, `Sentry::drop` sees the flag.
                fence(Ordering::SeqCst);
                Some((Weak::clone(losing), series.clone()))
            }
            _ => None,
        };
        drop(watch);
        if let Some(turn) = turn {
            self.end_watch();
            return drop_caught(self.execute_task(turn)); // a rejection ends the future
        }
        if has_rested {
            self.keep_watch();
        }
        // The watch may have been dropped before it was on duty. A second notification is harmless.
        if let Some((losing, series)) = on
            && series.is_disposed()
            && let Some(future) = losing.upgrade()
        {
            future.no_more_turns();
        }
    }

    /// Ends the watch, which frees its place in the queue. Returns false if there was no watch.
    fn end_watch(&self) -> bool {
        let mut watch = self.watch.lock();
        let (losing, series) = match &*watch {
            Watch::On(losing, on_duty, series) => {
                on_duty.store(false, Ordering::SeqCst);
                (Weak::clone(losing), series.clone())
            }
            Watch::Not | Watch::Wanted(_) | Watch::Coming(_) => return false,
        };
        *watch = Watch::Wanted(losing);
        drop(watch);
        series.dispose();
        true
    }
}

impl Executor for OnWorker {
    /// In a full scheduler, the watch frees its place for the turn and is started again with a
    /// later turn.
    fn execute_task(&self, task: Task) -> Result<(), Rejected> {
        let rejected = match self.worker.schedule_task(task) {
            Err(rejected) if rejected.reason() == RejectReason::Saturated => rejected,
            taken => {
                self.keep_watch();
                return taken.map(drop);
            }
        };
        if let Watch::Coming(Meanwhile { turn: turn @ None, .. }) = &mut *self.watch.lock() {
            *turn = Some(rejected.into_task());
            return Ok(());
        }
        if self.end_watch() {
            self.worker.schedule_task(rejected.into_task()).map(drop)
        } else {
            Err(rejected)
        }
    }
}

impl Rests for OnWorker {
    /// The place of a turn has been free since the turn began. So unless other work has taken it,
    /// this call finds a place for a watch that found none when the turn was submitted.
    fn came_to_rest(&self) {
        let mut watch = self.watch.lock();
        if let Watch::Coming(meanwhile) = &mut *watch {
            meanwhile.has_rested = true;
        }
        self.start_watch(watch);
    }
}

impl Drop for OnWorker {
    fn drop(&mut self) {
        self.end_watch();
    }
}
