//! One unit of work: [`Task`], [`TaskOf`] for work with a result, and [`TaskId`].
//!
//! A task is either a plain closure, which nobody waits for, or one half of a pair whose other half is a
//! [`TaskHandle`]. A task runs at most once. Dropping one that did not run resolves its handle as abandoned,
//! so a handle never waits for something that no longer exists.

mod cell;
#[expect(unsafe_code, reason = "keeps closures of any type without a box")]
mod closure;
mod context;
pub(crate) mod decorate;
mod error;
mod handle;
mod id;
mod info;
pub(crate) mod inline;
mod owner;
#[expect(unsafe_code, reason = "moves tasks into the memory of a queue and out of it")]
mod packed;
pub(crate) mod periodic;
mod place;
#[expect(unsafe_code, reason = "the counted cell, and a slot that one word passes between threads")]
mod raw;
#[cfg(not(loom))]
#[expect(unsafe_code, reason = "hands out slots in memory of its own")]
mod slab;
mod state;
mod timer_task;
mod tracked;
mod word;
mod work;

use std::borrow::Cow;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

use self::periodic::Timing;
use crate::interrupt::TaskFrame;
use crate::panic::drop_caught;
use crate::queue::Delayed;
use crate::sync::Arc;
use crate::time::clock::Tick;

use cell::new_timer_cell;
pub(crate) use cell::{TaskCell, help_to_run, new_cell};
use closure::Closure;
pub(crate) use context::{
    WorksForScheduler, current_worker, waits_for_this_thread, work_for, works_for, works_for_any,
};
pub use decorate::Body;
pub(crate) use error::Payload;
pub use error::{JoinError, Panic};
#[cfg(feature = "futures")]
pub(crate) use handle::awaited_in;
pub use handle::{CancelOnDrop, Canceller, TaskHandle};
pub(crate) use id::ResultToken;
pub use id::TaskId;
pub use info::TaskInfo;
pub(crate) use owner::{CancelQueue, Help, OwnerEntry, Removed, TaskOwner, announce_sleep};
pub(crate) use packed::{Bare, Entry, Half, LONGEST, Pack, PackedTask};
pub use periodic::{MissedTicks, Next, OnPanic, PeriodicTask};
pub(crate) use place::Place;
#[cfg(all(test, loom))]
pub(crate) use place::RefCount;
pub(crate) use raw::{CellRef, Removal};
pub use state::TaskState;
pub(crate) use state::{Outcome, Shed};
pub(crate) use timer_task::TimerTask;
pub(crate) use tracked::{Joinable, RemoveCancelled, Tracked, Waiter};
pub(crate) use work::RunEvent;
use work::report_panic;

/// One unit of work, type-erased: runs at most once.
///
/// # Examples
/// ```
/// use millpond::{Task, ThreadPoolExecutor};
///
/// let pool = ThreadPoolExecutor::builder().core_pool_size(1).maximum_pool_size(1).build()?;
/// pool.execute_task(Task::new(|| println!("resized")).named("resize 7"))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a task that is dropped does not run"]
pub struct Task {
    info: TaskInfo,
    work: TaskWork,
}

enum TaskWork {
    Plain(Closure),
    Tracked(TrackedTask),
    /// One run of a series that a scheduled pool will queue again afterwards.
    Series(TrackedTask, Arc<Timing>),
}

/// What became of a task that a worker has run.
pub(crate) struct Ended {
    /// A panic that no handle keeps.
    pub(crate) panic: Option<Payload>,
    /// It is a series, whose next run is to come.
    pub(crate) again: bool,
}

/// The executing half of a tracked task. Dropping it tells the other half that nobody will run it.
pub(crate) struct TrackedTask(CellRef<dyn Tracked>);

impl TrackedTask {
    #[inline]
    pub(crate) fn id(&self) -> TaskId {
        self.0.id()
    }

    /// As [`Task::entered`].
    pub(crate) fn entered(&self, home: u64) {
        self.0.entered(home);
    }

    pub(crate) fn into_task(self) -> Task {
        Task { info: TaskInfo::of(self.id()), work: TaskWork::Tracked(self) }
    }
}

impl Drop for TrackedTask {
    fn drop(&mut self) {
        self.0.abandon(); // does nothing once the task has started or ended
    }
}

impl Task {
    /// Makes a task from a closure.
    pub fn new(f: impl FnOnce() + Send + 'static) -> Task {
        Task { info: TaskInfo::fresh(), work: TaskWork::Plain(Closure::new(f)) }
    }

    /// A task that is known as `info` says.
    pub(crate) fn known_as(info: TaskInfo, f: impl FnOnce() + Send + 'static) -> Task {
        Task { info, work: TaskWork::Plain(Closure::new(f)) }
    }

    pub(crate) fn series(info: TaskInfo, cell: CellRef<dyn Tracked>, timing: Arc<Timing>) -> Task {
        Task { info, work: TaskWork::Series(TrackedTask(cell), timing) }
    }

    pub(crate) fn tracked(id: TaskId, cell: CellRef<dyn Tracked>) -> Task {
        Task { info: TaskInfo::of(id), work: TaskWork::Tracked(TrackedTask(cell)) }
    }

    /// Gives the task a name, for hooks and error messages.
    pub fn named(mut self, name: impl Into<Cow<'static, str>>) -> Task {
        self.info.set_name(name.into());
        self
    }

    /// Sets the priority: in a priority queue, larger runs first. Default: 0.
    pub fn with_priority(mut self, priority: i32) -> Task {
        self.info.set_priority(priority);
        self
    }

    /// Makes the task due `delay` from this call on: for [`WorkQueue::delay`](crate::WorkQueue::delay), which does
    /// not give it to a worker before. Other queues ignore it.
    pub fn with_delay(mut self, delay: Duration) -> Task {
        self.info.set_delay(delay);
        self
    }

    /// The task's number, unique in the process.
    pub fn id(&self) -> TaskId {
        self.info.id()
    }

    /// The task's name, if it was given one.
    pub fn name(&self) -> Option<&str> {
        self.info.name()
    }

    /// The task's priority; 0 unless it was given one.
    pub fn priority(&self) -> i32 {
        self.info.priority()
    }

    /// Runs the task here and now, on the calling thread, with an interrupt flag of its own.
    ///
    /// # Panics
    /// A panic of the closure unwinds to the caller, unless the task has a handle: then only the handle gets it.
    pub fn run(self) {
        self.run_reporting_panics(|_, _| {});
    }

    /// As [`run`](Self::run), and tells of a panic.
    pub(crate) fn run_reporting_panics(self, panicked: impl Fn(&TaskInfo, &Panic)) {
        let _frame = TaskFrame::enter();
        let Task { info, work } = self;
        let mut report = |event: RunEvent<'_>| {
            if let RunEvent::Panicked(panic) = event {
                panicked(&info, panic);
            }
        };
        match work {
            TaskWork::Plain(mut f) => {
                if let Err(payload) = catch_unwind(AssertUnwindSafe(|| f.call())) {
                    resume_unwind(report_panic(payload, &mut report));
                }
            }
            TaskWork::Tracked(core) | TaskWork::Series(core, _) => {
                core.0.run(&mut report); // a series has run once; dropping it here is its end
            }
        }
    }

    pub(crate) fn info(&self) -> &TaskInfo {
        &self.info
    }

    /// As [`run_reporting`](Self::run_reporting), for a caller that only wants the outcome.
    pub(crate) fn run_settled(&mut self, mut settle: impl FnMut(Outcome)) -> Ended {
        self.run_reporting(|event| {
            if let RunEvent::Settled(outcome) = event {
                settle(outcome);
            }
        })
    }

    /// Runs the task for a worker, where it lies: moving it would cost as much as running it. What is left
    /// is to be dropped, or queued again.
    #[inline]
    pub(crate) fn run_reporting(&mut self, mut report: impl FnMut(RunEvent<'_>)) -> Ended {
        match &mut self.work {
            TaskWork::Plain(f) => {
                let panic = catch_unwind(AssertUnwindSafe(|| f.call())).err();
                let panic = panic.map(|payload| report_panic(payload, &mut report));
                let outcome = if panic.is_some() { Outcome::Panicked } else { Outcome::Succeeded };
                report(RunEvent::Settled(outcome));
                Ended { panic, again: false }
            }
            TaskWork::Tracked(core) => {
                core.0.run(&mut report);
                Ended { panic: None, again: false }
            }
            TaskWork::Series(core, _) => Ended { panic: None, again: core.0.run(&mut report) },
        }
    }

    /// The task as one that is nobody's series any more: it runs once, and then its handle resolves as abandoned.
    pub(crate) fn once(self) -> Task {
        match self.work {
            TaskWork::Series(core, _) => Task { info: self.info, work: TaskWork::Tracked(core) },
            _ => self,
        }
    }

    /// When the runs of a series are due.
    pub(crate) fn timing(&self) -> Option<&Arc<Timing>> {
        match &self.work {
            TaskWork::Series(_, timing) => Some(timing),
            _ => None,
        }
    }

    /// Puts what `wrap` makes of the work into its place. The error: `wrap` panicked, and the task is as it was.
    pub(crate) fn decorate(self, wrap: &mut dyn FnMut(Body) -> Body) -> Result<Task, Task> {
        match self.work {
            TaskWork::Plain(f) => {
                let run = |mut f: Closure| (None, catch_unwind(AssertUnwindSafe(|| f.call())));
                let plain = |f| Task { info: self.info, work: TaskWork::Plain(f) };
                match decorate::decorate(f, run, wrap) {
                    Ok(body) => Ok(plain(Closure::new(body))),
                    Err(f) => Err(plain(f.unwrap_or_else(|| Closure::new(|| {})))),
                }
            }
            TaskWork::Tracked(ref core) => {
                if core.0.decorate(wrap) {
                    Ok(self)
                } else {
                    Err(self)
                }
            }
            TaskWork::Series(..) => Ok(self),
        }
    }

    fn core(&self) -> Option<&dyn Tracked> {
        self.cell().map(|core| &**core)
    }

    /// The state that the task shares with its handle, if it has one.
    pub(crate) fn cell(&self) -> Option<&CellRef<dyn Tracked>> {
        match &self.work {
            TaskWork::Plain(_) => None,
            TaskWork::Tracked(core) | TaskWork::Series(core, _) => Some(&core.0),
        }
    }

    /// Takes the work out of a task that has a handle and has not begun, if the work is an `F`. The handle resolves as
    /// abandoned.
    pub(crate) fn take_work<F: 'static>(&self) -> Option<F> {
        let mut work = None::<F>;
        self.core()?.take_work(&mut work);
        work
    }

    /// Cancels a task that has a handle.
    pub(crate) fn cancel(&self) {
        if let Some(core) = self.cell() {
            core.cancel(false);
        }
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.core().is_some_and(|core| core.state() == TaskState::Cancelled)
    }

    /// Tells the task's handle which pool has it, so that a cancel or a join can find it there.
    pub(crate) fn entered(&self, home: u64) {
        if let Some(core) = self.core() {
            core.entered(home);
        }
    }

    /// Tells the task that no pool has it any more: it goes to whoever asked for it.
    pub(crate) fn left(&self) {
        if let Some(core) = self.core() {
            core.left();
        }
    }

    /// Remembers where in its queue the task is. The queue calls it under its lock.
    pub(crate) fn set_place(&self, place: u64) {
        if let Some(core) = self.core() {
            core.place().set(place);
        }
    }

    pub(crate) fn set_queued_at(&mut self, now: Tick) {
        self.info.set_queued_at(now);
    }

    pub(crate) fn queued_at(&self) -> Option<Tick> {
        self.info.queued_at()
    }

    /// The task has waited for too long and will not run: tells `settle`, and then the handle, if there is one. False: it is
    /// not to be shed, because it has been cancelled or is of a kind that always runs. Whoever has it drops it.
    pub(crate) fn expire(&self, settle: &mut dyn FnMut(Shed)) -> bool {
        match &self.work {
            TaskWork::Plain(_) => {
                settle(Shed::Expired);
                true
            }
            TaskWork::Tracked(core) => core.0.expire(settle),
            TaskWork::Series(..) => false,
        }
    }

    /// Drops the task; a panic in the destructor of what it captured stays here.
    pub(crate) fn drop_caught(self) {
        drop_caught(self);
    }
}

impl Delayed for Task {
    /// When the task is due: at once, unless [`with_delay`](Task::with_delay) said later.
    fn due(&self) -> Instant {
        self.info.due().unwrap_or_else(Instant::now)
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut s = f.debug_struct("Task");
        s.field("id", &self.info.id());
        if self.info.has_label() {
            s.field("name", &self.name()).field("priority", &self.priority());
        }
        if let Some(core) = self.core() {
            s.field("state", &core.state());
        }
        s.finish_non_exhaustive()
    }
}

/// The builder of a task that has a result; handed to
/// [`submit_task`](crate::ThreadPoolExecutor::submit_task).
///
/// # Examples
/// ```
/// use millpond::{TaskOf, ThreadPoolExecutor, WorkQueue};
///
/// let pool = ThreadPoolExecutor::builder()
///     .core_pool_size(1)
///     .maximum_pool_size(1)
///     .work_queue(WorkQueue::priority())
///     .build()?;
/// let urgent = pool.submit_task(TaskOf::new(|| 6 * 7).named("answer").with_priority(10))?;
/// assert_eq!(urgent.join()?, 42);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a task that is dropped does not run"]
pub struct TaskOf<T> {
    info: TaskInfo,
    task: TrackedTask,
    cell: CellRef<dyn Joinable<T>>,
    token: ResultToken,
}

impl<T: Send + 'static> TaskOf<T> {
    /// Makes a task from a closure that returns a value.
    pub fn new(f: impl FnOnce() -> T + Send + 'static) -> TaskOf<T> {
        let token = ResultToken::fresh();
        let cells = new_cell(token.id(), f);
        TaskOf::of(token, cells)
    }

    /// As `new`, for a task that waits for its time.
    #[inline]
    pub(crate) fn new_timer(f: impl FnOnce() -> T + Send + 'static) -> TaskOf<T> {
        let token = ResultToken::fresh();
        let cells = new_timer_cell(token.id(), f);
        TaskOf::of(token, cells)
    }

    /// The two halves of a task without a label. A [`Task`] is longer, and so is a `TaskOf`: moving
    /// one costs as much as queueing it.
    #[inline(always)]
    pub(crate) fn bare(f: impl FnOnce() -> T + Send + 'static) -> (Half, TaskHandle<T>) {
        let token = ResultToken::fresh();
        let id = token.id();
        let (cell, task) = new_cell(id, f);
        (Half::new(id, TrackedTask(task)), TaskHandle::new(cell, token))
    }

    #[inline]
    fn of(token: ResultToken, (cell, task): cell::Pair<T>) -> TaskOf<T> {
        TaskOf { info: TaskInfo::of(token.id()), task: TrackedTask(task), cell, token }
    }

    /// Gives the task a name, for hooks and error messages.
    pub fn named(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.info.set_name(name.into());
        self
    }

    /// Sets the priority: in a priority queue, larger runs first. Default: 0.
    pub fn with_priority(mut self, priority: i32) -> Self {
        self.info.set_priority(priority);
        self
    }

    /// Makes the task due `delay` from this call on; see [`Task::with_delay`].
    pub fn with_delay(mut self, delay: Duration) -> Self {
        self.info.set_delay(delay);
        self
    }

    /// The task's number, unique in the process; its handle has the same.
    pub fn id(&self) -> TaskId {
        self.info.id()
    }

    /// The two halves: the task for an executor, and the handle for whoever wants its result.
    ///
    /// For executors of your own, and for a task that may be refused and is to be tried again: `submit_task` makes the
    /// handle and drops it if the task is refused, this one stays.
    ///
    /// # Examples
    /// ```
    /// use millpond::{TaskOf, executors};
    ///
    /// let pool = executors::bounded(1, 1, 1)?;
    /// let (task, answer) = TaskOf::new(|| 6 * 7).into_parts();
    /// if let Err(rejected) = pool.execute_task(task) {
    ///     rejected.into_task().run(); // here, or later, or on another pool
    /// }
    /// assert_eq!(answer.join()?, 42);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "retry")]
    #[doc(alias = "FutureTask")]
    pub fn into_parts(self) -> (Task, TaskHandle<T>) {
        (Task { info: self.info, work: TaskWork::Tracked(self.task) }, TaskHandle::new(self.cell, self.token))
    }
}

impl<T> fmt::Debug for TaskOf<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskOf").field("info", &self.info).finish_non_exhaustive()
    }
}
