//! [`single_worker`]: wraps one worker of a scheduler as a scheduler.
//!
//! All work is submitted to one lane of the original scheduler, which gives order and non-overlap.
//! Each piece of work carries a [`WorkToken`]. The token is dropped when the work has run for the
//! last time or was discarded, on whichever thread. Its drop removes the work from the
//! [`Register`].

mod register;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

use self::register::{Register, SCHEDULER, Start};
use super::end::{Ends, Lifecycle, OnLastDrop, Phase};
use super::handle::{Backend, Handle};
use super::work::Submission;
use super::{Disposable, Lane, PeriodicTask, Scheduler, SchedulerStats, Worker};
use crate::executor::{RejectReason, Rejected, SchedulerFacts};
use crate::interrupt::Interrupted;
use crate::sync::{Arc, AtomicBool, Exclusive, Mutex, MutexGuard, Ordering, Weak, deadline_after};
use crate::task::periodic::{Body, OnPanic};
use crate::task::{Help, Outcome, OwnerEntry, Place, Task, TaskId, TaskOwner, WorksForScheduler};

/// Creates a scheduler from one worker of `original`. All its work, and that of its workers, runs
/// one at a time in one lane, by due time and then by submission.
///
/// Its workers share the lane, and each disposes only of its own work. Disposing of the scheduler
/// disposes of the lane and does not affect `original`. A graceful end accepts no more work, runs
/// the remaining work, ends periodic tasks, and then releases the slot of `original`. Dropping the
/// last handle begins a graceful end.
///
/// Its figures are those of the lane: one slot until it has ended, one thread while a task runs.
/// The capacity is that of `original`.
///
/// # Examples
/// ```
/// use millpond::schedulers::{self, Scheduler, SchedulerExt};
/// use std::time::Duration;
///
/// let pool = schedulers::new_parallel(4, "sum")?;
/// let in_order = schedulers::single_worker(&pool);
/// in_order.schedule(|| println!("first"))?;
/// in_order.create_worker().schedule(|| println!("second"))?;
/// assert!(in_order.dispose_gracefully(Duration::MAX)?);
/// assert!(!pool.is_disposed());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn single_worker(original: &dyn Scheduler) -> Arc<dyn Scheduler> {
    let name = format!("singleWorker({original})").into();
    let state = State { worker: Some(original.create_worker()), register: Register::default() };
    let core = Arc::new_cyclic(|core: &Weak<Core>| Core {
        name,
        owner: OwnerEntry::of_scheduler(Weak::clone(core) as Weak<dyn TaskOwner>),
        state: Mutex::new(state),
        lifecycle: Lifecycle::default(),
    });
    Arc::new(Handle::new(core))
}

struct Core {
    name: Arc<str>,
    /// Task handles find this scheduler by this entry.
    owner: OwnerEntry,
    state: Mutex<State>,
    lifecycle: Lifecycle,
}

struct State {
    /// The lane in the original scheduler; `None` after the end. Called and dropped without the
    /// lock.
    worker: Option<Worker>,
    register: Register,
}

/// Belongs to one piece of work. On drop, it removes the work from the register.
struct WorkToken {
    core: Arc<Core>,
    number: u64,
}

impl WorkToken {
    fn begin(&self) -> Start {
        self.core.state.lock().register.begin(self.number)
    }

    fn end(&self, outcome: Outcome, again: bool) {
        let mut state = self.core.state.lock();
        let again = again && self.core.lifecycle.is_live();
        let replaced = state.register.end(self.number, outcome, again);
        drop(state);
        drop(replaced);
    }

    /// Disposes of ended work: removes it from the lane, or marks it as cancelled. Called on the
    /// thread of the work, which is not interrupted by this.
    fn dispose_if_ended(&self) {
        let handle = self.core.state.lock().register.handle_if_ended(self.number);
        handle.into_iter().for_each(|handle| _ = handle.dispose());
    }
}

impl Drop for WorkToken {
    fn drop(&mut self) {
        let mut state = self.core.state.lock();
        let removed = state.register.remove(self.number);
        if removed.is_some() {
            self.core.end_if_done(state); // releases the lock
        }
    }
}

/// Work with its token. The work is dropped before the token.
struct Tokened<W> {
    work: W,
    token: WorkToken,
}

impl Tokened<Task> {
    fn run(self) {
        let Tokened { work: task, token } = self;
        match token.begin() {
            Start::Skip => {
                token.dispose_if_ended(); // before the disposer reaches it
                return task.drop_caught();
            }
            Start::Foreign => return task.run(),
            Start::Run => {}
        }
        let _works = WorksForScheduler::new(token.core.owner.number());
        let mut outcome = Outcome::Succeeded;
        let payload = task.once().run_settled(&mut |settled| outcome = settled).panic;
        token.end(outcome, false);
        if let Some(payload) = payload {
            resume_unwind(payload); // the original scheduler calls the error hooks
        }
    }
}

impl Tokened<Body> {
    fn run(&mut self, on_panic: OnPanic) {
        match self.token.begin() {
            Start::Skip => return self.token.dispose_if_ended(),
            Start::Foreign => return (self.work)(),
            Start::Run => {}
        }
        let _works = WorksForScheduler::new(self.token.core.owner.number());
        let ran = catch_unwind(AssertUnwindSafe(&mut self.work));
        let again = ran.is_ok() || on_panic == OnPanic::Continue;
        self.token.end(if ran.is_ok() { Outcome::Succeeded } else { Outcome::Panicked }, again);
        if again {
            self.token.dispose_if_ended(); // otherwise the original scheduler ends the task
        }
        if let Err(payload) = ran {
            resume_unwind(payload);
        }
    }
}

impl Core {
    /// Registers work. Returns its number and the lane for it, or the reason for a refusal.
    fn enter(&self, child: Option<&Child>, is_periodic: bool) -> Result<(u64, Worker), RejectReason> {
        let mut state = self.state.lock();
        let reason = match &state.worker {
            Some(worker) if self.lifecycle.is_live() => {
                if child.is_none_or(|child| !child.closed.load(Ordering::Relaxed)) {
                    let worker = worker.clone();
                    let owner = child.map_or(SCHEDULER, |child| child.number);
                    return Ok((state.register.add(owner, is_periodic), worker));
                }
                RejectReason::WorkerDisposed
            }
            _ => RejectReason::Shutdown,
        };
        state.register.counters().reject(reason);
        Err(reason)
    }

    fn submit_as(
        self: &Arc<Self>,
        child: Option<&Child>,
        delay: Duration,
        work: impl Submission,
    ) -> Result<Disposable, Rejected> {
        let (number, worker) = match self.enter(child, work.schedule().is_some()) {
            Ok(entered) => entered,
            Err(reason) => return Err(self.refused(work.into_task(), reason)),
        };
        let given = match work.into_parts() {
            Ok(task) if delay.is_zero() => worker.schedule_task(self.tokened_task(number, task)),
            Ok(task) => worker.schedule_task_after(delay, self.tokened_task(number, task)),
            Err((period, task)) => {
                worker.schedule_periodically_task(delay, period, self.tokened_body(number, task))
            }
        };
        match given {
            Ok(handle) => {
                if self.state.lock().register.accepted(number, &handle) {
                    handle.dispose();
                }
                Ok(handle)
            }
            Err(rejected) => Err(self.withdraw(number, rejected)),
        }
    }

    fn tokened_task(self: &Arc<Self>, number: u64, task: Task) -> Task {
        task.set_place(number);
        task.entered(self.owner.number());
        let info = task.info().clone();
        let tokened = Tokened { work: task, token: WorkToken { core: Arc::clone(self), number } };
        Task::known_as(info, move || tokened.run())
    }

    fn tokened_body(self: &Arc<Self>, number: u64, task: PeriodicTask) -> PeriodicTask {
        let PeriodicTask { info, body, missed, on_panic, answer } = task;
        let token = WorkToken { core: Arc::clone(self), number };
        let mut tokened = Tokened { work: body.into_inner(), token };
        let after_panic = on_panic.unwrap_or(OnPanic::Continue);
        let body = Exclusive::new(Box::new(move || tokened.run(after_panic)) as Body);
        PeriodicTask { info, body, missed, on_panic, answer }
    }

    fn refused(&self, task: Task, reason: RejectReason) -> Rejected {
        Rejected::new(task, reason).by_scheduler(SchedulerFacts { name: Arc::clone(&self.name), full: None })
    }

    /// Unregisters work that the lane has refused, and returns the error for the caller.
    fn withdraw(&self, number: u64, rejected: Rejected) -> Rejected {
        let mut state = self.state.lock();
        state.register.refused(number, rejected.reason());
        let has_ended = !self.lifecycle.is_live();
        self.end_if_done(state);
        if has_ended && rejected.reason() == RejectReason::WorkerDisposed {
            // The lane was disposed by the end of this scheduler, so report that instead.
            return self.refused(rejected.into_task(), RejectReason::Shutdown);
        }
        rejected
    }

    /// Releases the slot in the original scheduler if no work is left.
    fn end_if_done(&self, mut state: MutexGuard<'_, State>) {
        if self.lifecycle.is_live() || !state.register.is_empty() {
            return;
        }
        let worker = state.worker.take();
        drop(state);
        drop(worker);
        self.lifecycle.waiters().wake_all();
    }
}

impl Ends for Core {
    fn lifecycle(&self) -> &Lifecycle {
        &self.lifecycle
    }

    fn begin_drain(&self) {
        let mut state = self.state.lock();
        self.lifecycle.advance(Phase::Draining);
        let waiting = state.register.end_periodic();
        self.end_if_done(state);
        waiting.iter().for_each(|handle| _ = handle.dispose());
    }

    fn has_ended(&self) -> bool {
        let state = self.state.lock();
        !self.lifecycle.is_live() && state.register.is_empty()
    }

    fn runs_on_this_thread(&self) -> bool {
        self.state.lock().register.runs_on_this_thread()
    }

    fn wait_for_end(&self, timeout: Duration) -> Result<bool, Interrupted> {
        let deadline = deadline_after(timeout);
        if !self.lifecycle.waiters().wait(timeout, || self.has_ended())? {
            return Ok(false);
        }
        let last_run = self.state.lock().register.last_run();
        let left = deadline.map_or(Duration::MAX, |at| at.saturating_duration_since(Instant::now()));
        last_run.map_or(Ok(true), |run| run.wait_for_last_run(left))
    }
}

impl Backend for Core {
    fn submit(self: &Arc<Self>, delay: Duration, work: impl Submission) -> Result<Disposable, Rejected> {
        self.submit_as(None, delay, work)
    }

    fn create_worker(handle: &Arc<OnLastDrop<Self>>) -> Worker {
        let closed = AtomicBool::new(handle.is_disposed());
        let number = handle.state.lock().register.next_number();
        Worker::from_lane(Arc::new(Child { scheduler: Arc::clone(handle), number, closed }))
    }

    fn dispose(self: &Arc<Self>) {
        let state = self.state.lock();
        self.lifecycle.advance(Phase::Disposed);
        let worker = state.worker.clone();
        drop(state);
        if let Some(worker) = worker {
            worker.dispose();
        }
        self.end_if_done(self.state.lock());
    }

    fn is_disposed(&self) -> bool {
        let worker = self.state.lock().worker.clone();
        !self.lifecycle.is_live() || worker.is_none_or(|worker| worker.is_disposed())
    }

    fn stats(&self) -> SchedulerStats {
        let disposed = self.is_disposed();
        let mut state = self.state.lock();
        let slots = usize::from(state.worker.is_some());
        let counters = state.register.counters();
        SchedulerStats {
            max_threads: 1,
            live_threads: usize::from(counters.running() > 0),
            slots,
            busy: slots,
            ..counters.stats(&self.name, disposed)
        }
    }
}

/// A thread works for this scheduler exactly while it runs one of its tasks. So every waiting task
/// is behind that thread, and none can run in place.
impl TaskOwner for Core {
    fn is_behind_this_thread(&self, _: TaskId, place: &Place) -> bool {
        self.state.lock().register.is_waiting(place.get())
    }

    fn run_inline(&self, _: TaskId, _: &Place) -> Help {
        Help::Done
    }
}

/// A worker of a single worker: it uses the same lane but can be disposed separately.
struct Child {
    scheduler: Arc<OnLastDrop<Core>>,
    number: u64,
    /// Relaxed: changed and read under the lock of the scheduler.
    closed: AtomicBool,
}

impl Lane for Child {
    scheduling_methods!(jobs | it, delay, work | it.scheduler.submit_as(Some(it), delay, work));

    fn dispose(&self) {
        let mut state = self.scheduler.state.lock();
        self.closed.store(true, Ordering::Relaxed);
        let handles = state.register.dispose_of(self.number);
        drop(state);
        handles.iter().for_each(|handle| _ = handle.dispose());
    }

    fn is_disposed(&self) -> bool {
        let state = self.scheduler.state.lock();
        let closed = self.closed.load(Ordering::Relaxed);
        drop(state);
        closed || self.scheduler.is_disposed()
    }

    fn queued(&self) -> usize {
        self.scheduler.state.lock().register.queued_of(self.number)
    }
}
