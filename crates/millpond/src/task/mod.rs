//! One unit of work: [`Task`], [`TaskOf`] for work with a result, and [`TaskId`].
//!
//! A task is a plain closure, or the executing half of a cell whose other half is a [`TaskHandle`].
//! A task runs at most once. Dropping a task that did not run resolves its handle as abandoned, so
//! a handle never waits for a task that no longer exists.
//!
//! Files, each importing only from those before it: `id`, `error`, `propagated`, `info`, `state`,
//! `decorate`, `work` (work that runs), `closure`, `slab`, `place`, `tracked` (the traits of a
//! cell), `word` (its state), `raw` (the counted cell), `context` (what a thread works for),
//! `work_cell` (the common part of all cells), `owner` (where a task waits), `cell` (the life of a
//! task), `handle`, `inline`, `periodic`; then this file, `run`, `packed` and `timer_task`.

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
mod propagated;
#[expect(unsafe_code, reason = "the counted cell, and a slot that one word passes between threads")]
mod raw;
mod run;
#[cfg(not(loom))]
#[expect(unsafe_code, reason = "hands out slots in memory of its own")]
mod slab;
mod state;
mod timer_task;
mod tracked;
mod word;
mod work;
mod work_cell;

use std::borrow::Cow;
use std::fmt;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use self::periodic::Timing;
use crate::panic::drop_caught;
use crate::queue::Delayed;
use crate::sync::Arc;
use crate::time::clock::Tick;

pub(crate) use cell::{TaskCell, help_to_run, new_cell};
use closure::Closure;
#[cfg(feature = "futures")]
pub(crate) use context::waits_for_this_thread;
pub(crate) use context::{
    WorksForScheduler, current_worker, owners_of_this_thread, work_for, works_for, works_for_any,
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
#[cfg(feature = "futures")]
pub(crate) use owner::is_behind_this_thread;
pub(crate) use owner::{CancelQueue, Help, OwnerEntry, Removed, TaskOwner, announce_sleep};
pub(crate) use packed::{Entry, LONGEST, Pack, PackedTask, Space};
pub use periodic::{MissedTicks, Next, OnPanic, PeriodicTask};
#[cfg(all(test, loom))]
pub(crate) use place::RefCount;
pub(crate) use place::{Memory, Place};
pub use propagated::Captured;
#[cfg(feature = "futures")]
pub(crate) use propagated::Propagated;
pub(crate) use raw::{CellRef, Removal};
pub use state::TaskState;
pub(crate) use state::{Outcome, Shed};
pub(crate) use timer_task::TimerTask;
pub(crate) use tracked::{
    Attached, CancelFound, IsKept, Joinable, PanicIsKept, RemoveCancelled, RunEnd, Tracked, Waiter,
};
pub(crate) use work::{Ran, RunEvent, Work};
pub(crate) use work_cell::WorkCell;

/// One type-erased unit of work. Runs at most once.
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
    /// One run of a periodic task. A scheduled pool queues it again afterwards.
    Series(TrackedTask, Arc<Timing>),
}

/// The result of a run by a worker.
pub(crate) struct Ended {
    /// A panic that no handle keeps.
    pub(crate) panic: Option<Payload>,
    /// True if the task is periodic and waits for its next run.
    pub(crate) again: bool,
}

/// The executing half of a task with a handle. Dropping it resolves the handle as abandoned.
pub(crate) struct TrackedTask(CellRef<dyn Tracked>);

impl TrackedTask {
    #[inline]
    pub(crate) fn id(&self) -> TaskId {
        self.0.id()
    }

    /// Like [`Task::entered`].
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
    /// Creates a task from a closure.
    pub fn new(f: impl FnOnce() + Send + 'static) -> Task {
        Task { info: TaskInfo::fresh(), work: TaskWork::Plain(Closure::new(f)) }
    }

    /// Creates a task with this info.
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

    /// Makes the task due `delay` from now. [`WorkQueue::delay`](crate::WorkQueue::delay) does not
    /// release it to a worker earlier. Other queues ignore the delay.
    pub fn with_delay(mut self, delay: Duration) -> Task {
        self.info.set_delay(delay);
        self
    }

    /// Returns the id of the task, unique in the process.
    pub fn id(&self) -> TaskId {
        self.info.id()
    }

    /// Returns the name of the task, if it has one.
    pub fn name(&self) -> Option<&str> {
        self.info.name()
    }

    /// Returns the priority of the task. Default: 0.
    pub fn priority(&self) -> i32 {
        self.info.priority()
    }

    /// Runs the task on the calling thread, with its own interrupt flag. Returns when the task has
    /// ended.
    ///
    /// # Panics
    /// A panic of the closure unwinds to the caller. If the task has a handle, only the handle
    /// receives the panic.
    pub fn run(self) {
        self.run_reporting_panics(|_, _| {});
    }

    pub(crate) fn info(&self) -> &TaskInfo {
        &self.info
    }

    /// Turns a periodic task into one that runs once; its handle then resolves as abandoned.
    pub(crate) fn once(self) -> Task {
        match self.work {
            TaskWork::Series(cell, _) => Task { info: self.info, work: TaskWork::Tracked(cell) },
            _ => self,
        }
    }

    /// Returns the timing of a periodic task.
    pub(crate) fn timing(&self) -> Option<&Arc<Timing>> {
        match &self.work {
            TaskWork::Series(_, timing) => Some(timing),
            _ => None,
        }
    }

    /// Returns true for a periodic task that waits for its next run and was not cancelled.
    pub(crate) fn is_pending_series(&self) -> bool {
        matches!(&self.work, TaskWork::Series(cell, _) if cell.0.state() == TaskState::Pending)
    }

    /// Replaces the work by the result of `wrap`. Returns the unchanged task as an error if `wrap`
    /// panics.
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
            TaskWork::Tracked(ref cell) => {
                if cell.0.decorate(wrap) {
                    Ok(self)
                } else {
                    Err(self)
                }
            }
            TaskWork::Series(..) => Ok(self),
        }
    }

    /// Returns the cell that the task shares with its handle, if it has one.
    pub(crate) fn cell(&self) -> Option<&CellRef<dyn Tracked>> {
        match &self.work {
            TaskWork::Plain(_) => None,
            TaskWork::Tracked(cell) | TaskWork::Series(cell, _) => Some(&cell.0),
        }
    }

    /// Takes the work out of a task with a handle that has not begun, if the work is an `F`. The
    /// handle then resolves as abandoned.
    pub(crate) fn take_work<F: 'static>(&self) -> Option<F> {
        let mut work = None::<F>;
        self.cell()?.take_work(&mut work);
        work
    }

    /// Cancels a task that has a handle.
    pub(crate) fn cancel(&self) {
        if let Some(cell) = self.cell() {
            cell.cancel(false);
        }
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cell().is_some_and(|cell| cell.state() == TaskState::Cancelled)
    }

    /// Records which pool has the task, so that a cancel or a join through the handle finds it
    /// there.
    pub(crate) fn entered(&self, home: u64) {
        if let Some(cell) = self.cell() {
            cell.entered(home);
        }
    }

    /// Records that no pool has the task any more.
    pub(crate) fn left(&self) {
        if let Some(cell) = self.cell() {
            cell.left();
        }
    }

    /// Stores the place of the task in its queue. The queue calls this under its lock.
    pub(crate) fn set_place(&self, place: u64) {
        if let Some(cell) = self.cell() {
            cell.place().set(place);
        }
    }

    pub(crate) fn set_queued_at(&mut self, now: Tick) {
        self.info.set_queued_at(now);
    }

    pub(crate) fn queued_at(&self) -> Option<Tick> {
        self.info.queued_at()
    }

    /// Expires a task that has waited for too long: calls `settle`, then resolves the handle, if
    /// there is one. Returns false if the task was cancelled, or is of a kind that never expires.
    /// The caller drops the task.
    pub(crate) fn expire(&self, settle: &mut dyn FnMut(Shed)) -> bool {
        match &self.work {
            TaskWork::Plain(_) => {
                settle(Shed::Expired);
                true
            }
            TaskWork::Tracked(cell) => cell.0.expire(settle),
            TaskWork::Series(..) => false,
        }
    }

    /// Drops the task and catches a panic of the destructors of its captures.
    pub(crate) fn drop_caught(self) {
        drop_caught(self);
    }
}

impl Delayed for Task {
    /// Returns when the task is due: now, unless it was created [`with_delay`](Task::with_delay).
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
        if let Some(cell) = self.cell() {
            s.field("state", &cell.state());
        }
        s.finish_non_exhaustive()
    }
}

/// A task with a result, for [`submit_task`](crate::ThreadPoolExecutor::submit_task).
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
    task: Task,
    handle: TaskHandle<T>,
}

impl<T: Send + 'static> TaskOf<T> {
    /// Creates a task from a closure that returns a value.
    pub fn new(f: impl FnOnce() -> T + Send + 'static) -> TaskOf<T> {
        let token = ResultToken::fresh();
        let (cell, task) = new_cell(token.id(), f);
        TaskOf { task: Task::tracked(token.id(), task), handle: TaskHandle::new(cell, token) }
    }

    /// Creates the two halves of a task without attributes. A [`Task`] and a `TaskOf` are longer,
    /// and moving one costs as much as queueing it.
    #[inline(always)]
    pub(crate) fn bare(f: impl FnOnce() -> T + Send + 'static) -> (ManuallyDrop<TrackedTask>, TaskHandle<T>) {
        let token = ResultToken::fresh();
        let (cell, task) = new_cell(token.id(), f);
        (ManuallyDrop::new(TrackedTask(task)), TaskHandle::new(cell, token))
    }

    /// Gives the task a name, for hooks and error messages.
    pub fn named(self, name: impl Into<Cow<'static, str>>) -> Self {
        TaskOf { task: self.task.named(name), ..self }
    }

    /// Sets the priority: in a priority queue, larger runs first. Default: 0.
    pub fn with_priority(self, priority: i32) -> Self {
        TaskOf { task: self.task.with_priority(priority), ..self }
    }

    /// Makes the task due `delay` from now; see [`Task::with_delay`].
    pub fn with_delay(self, delay: Duration) -> Self {
        TaskOf { task: self.task.with_delay(delay), ..self }
    }

    /// Returns the id of the task, unique in the process. The handle has the same id.
    pub fn id(&self) -> TaskId {
        self.task.id()
    }

    /// Returns the two halves: the task for an executor, and the handle to its result.
    ///
    /// Use it for custom executors, and for a task that may be refused and submitted again:
    /// `submit_task` drops the handle of a refused task, but this handle stays valid.
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
        (self.task, self.handle)
    }
}

impl<T> fmt::Debug for TaskOf<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskOf").field("info", &self.task.info).finish_non_exhaustive()
    }
}
