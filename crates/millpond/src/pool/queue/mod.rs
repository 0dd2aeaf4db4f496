//! The work queue of a pool: [`WorkQueue`] is the user's choice, [`TaskQueue`] is the queue in use.
//!
//! With four kinds (first-in-first-out, handoff, priority, and the delayed queue of a scheduled
//! pool) an idle worker parks in `idle`, and submitters wake it. With the fifth kind, a delay queue
//! or a custom queue, only the queue knows when a task is available. Workers block inside it, and
//! are interrupted when they must check settings or run state.

mod dates;
#[expect(unsafe_code, reason = "leaks the reference to a cancelled timer")]
pub(super) mod delayed;
pub(super) mod fifo;
#[expect(unsafe_code, reason = "shares memory between submitters and workers")]
mod segments;
pub(super) mod time_limit;
mod watch;

use std::cmp::Ordering;
use std::fmt;
use std::time::Instant;

pub(super) use self::dates::{QueuedTask, with_time};
use self::delayed::DelayedQueue;
use self::fifo::Fifo;
use super::idle::{Dequeued, IdleWorkers};
use crate::monitor::{Meter, QueueKind};
use crate::panic::catch_value;
use crate::queue;
use crate::queue::{BlockingQueue, DelayQueue, Delayed, PriorityBlockingQueue};
use crate::sync::{Arc, AtomicU64, Ordering as Order, fence};
use crate::task::{Help, Place};
use crate::task::{Task, TaskId, TimerTask};
use crate::time::clock::Clock;

/// The kind of queue that holds tasks until a thread takes them.
///
/// The queue decides how the pool grows: a pool exceeds its core size only when its queue refuses a
/// task. An unbounded queue never refuses a task. A bounded queue refuses when it is full, a
/// synchronous queue when no worker is idle.
///
/// # Examples
/// ```
/// use millpond::{ThreadPoolExecutor, WorkQueue};
///
/// let pool = |queue| ThreadPoolExecutor::builder().maximum_pool_size(4).work_queue(queue).build();
/// assert_eq!(pool(WorkQueue::array(100))?.remaining_queue_capacity(), 100);
/// assert_eq!(pool(WorkQueue::linked())?.remaining_queue_capacity(), usize::MAX);
/// assert_eq!(pool(WorkQueue::synchronous())?.remaining_queue_capacity(), 0);
/// assert!(pool(WorkQueue::array(0)).is_err());
/// # Ok::<(), millpond::ConfigError>(())
/// ```
#[derive(Debug)]
pub struct WorkQueue {
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Array(usize),
    Linked(usize),
    Synchronous,
    Priority,
    Delay,
    Custom(CustomQueue),
    Delayed(Clock),
}

struct CustomQueue(Arc<dyn BlockingQueue<Task>>);

impl fmt::Debug for CustomQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CustomQueue").field("len", &self.0.len()).finish_non_exhaustive()
    }
}

impl WorkQueue {
    /// Creates a first-in-first-out queue for at most `capacity` tasks. Building a pool with a
    /// capacity of 0 fails.
    pub fn array(capacity: usize) -> Self {
        WorkQueue { kind: Kind::Array(capacity) }
    }

    /// Creates an unbounded first-in-first-out queue. The pool never exceeds its core size and
    /// never rejects a task while it runs.
    pub fn linked() -> Self {
        WorkQueue { kind: Kind::Linked(usize::MAX) }
    }

    /// Creates a first-in-first-out queue for at most `capacity` tasks. Building a pool with a
    /// capacity of 0 fails.
    pub fn linked_bounded(capacity: usize) -> Self {
        WorkQueue { kind: Kind::Linked(capacity) }
    }

    /// Creates a queue without capacity: a task is handed to a waiting worker, starts a new thread,
    /// or is rejected.
    pub fn synchronous() -> Self {
        WorkQueue { kind: Kind::Synchronous }
    }

    /// Creates an unbounded priority queue: largest priority first, equal priorities in order of
    /// arrival.
    ///
    /// A task for which a thread is started runs at once, even if queued tasks have a higher
    /// priority.
    pub fn priority() -> Self {
        WorkQueue { kind: Kind::Priority }
    }

    /// Creates an unbounded delay queue, which releases tasks when they are due (see
    /// [`Task::with_delay`]), the earliest first.
    ///
    /// Every task passes through the queue, so no task starts before it is due. A submission starts
    /// a thread if the pool has fewer threads than its core size, or none.
    pub fn delay() -> Self {
        WorkQueue { kind: Kind::Delay }
    }

    /// Uses a custom queue. To inspect it later, pass an `Arc` and keep a clone.
    ///
    /// Workers block in its `take` and `poll_timeout`. The pool interrupts them so that they exit
    /// or read changed settings. Both methods must then return
    /// [`Interrupted`](crate::interrupt::Interrupted), as the queues of this crate do. A task that
    /// is added to the queue directly starts no thread. It waits until the pool has a worker, or
    /// starts threads for queued tasks: at the end of a pause, or when its size is raised. An eager
    /// pool does not count such a task, so it may queue another one although all workers are busy.
    ///
    /// A worker survives a panic of the queue. While `len` panics, the queue counts as not empty:
    /// after a `shutdown`, workers poll it every 10 ms until `len` returns or `shutdown_now` is
    /// called.
    pub fn custom(queue: impl BlockingQueue<Task> + 'static) -> Self {
        WorkQueue { kind: Kind::Custom(CustomQueue(Arc::new(queue))) }
    }

    /// Creates the queue of a scheduled pool.
    pub(crate) fn delayed(clock: Clock) -> Self {
        WorkQueue { kind: Kind::Delayed(clock) }
    }

    pub(super) fn kind(&self) -> QueueKind {
        match self.kind {
            Kind::Array(_) => QueueKind::Array,
            Kind::Linked(_) => QueueKind::Linked,
            Kind::Synchronous => QueueKind::Synchronous,
            Kind::Priority => QueueKind::Priority,
            Kind::Delay | Kind::Delayed(_) => QueueKind::Delay,
            Kind::Custom(_) => QueueKind::Custom,
        }
    }

    /// Returns the bound of an array or linked queue. `None` for an unbounded queue and other
    /// kinds.
    pub(super) fn capacity(&self) -> Option<usize> {
        match self.kind {
            Kind::Array(capacity) | Kind::Linked(capacity) if capacity != usize::MAX => Some(capacity),
            _ => None,
        }
    }

    /// Builds the queue in use. `clock` measures how long tasks wait. The caller has checked the
    /// capacity.
    pub(super) fn into_task_queue(self, clock: &Clock) -> TaskQueue {
        match self.kind {
            Kind::Array(capacity) | Kind::Linked(capacity) => {
                TaskQueue::Fifo(Fifo::new(capacity, clock.clone()))
            }
            Kind::Synchronous => TaskQueue::Handoff,
            Kind::Priority => {
                TaskQueue::Priority(PriorityBlockingQueue::by(most_urgent_first), AtomicU64::new(0))
            }
            Kind::Delay => TaskQueue::Blocking {
                queue: Arc::new(DelayQueue::new()),
                always: true,
                pushed: AtomicU64::new(0),
            },
            Kind::Custom(CustomQueue(queue)) => {
                TaskQueue::Blocking { queue, always: false, pushed: AtomicU64::new(0) }
            }
            Kind::Delayed(clock) => TaskQueue::Delayed(Arc::new(DelayedQueue::new(clock))),
        }
    }
}

fn most_urgent_first(a: &Task, b: &Task) -> Ordering {
    b.priority().cmp(&a.priority())
}

/// A work queue in use.
#[allow(
    clippy::large_enum_variant,
    reason = "there is one per pool, and a box would cost every submit an indirection"
)]
pub(super) enum TaskQueue {
    Fifo(Fifo),
    /// No queue: submitters hand tasks to parked workers, see `idle`.
    Handoff,
    /// With the number of tasks accepted so far.
    Priority(PriorityBlockingQueue<Task>, AtomicU64),
    /// A queue inside which workers block. If `always`, every task passes through it, even if a
    /// thread is started for the task.
    Blocking {
        queue: Arc<dyn queue::BlockingQueue<Task>>,
        always: bool,
        pushed: AtomicU64,
    },
    /// The queue of a scheduled pool.
    Delayed(Arc<DelayedQueue>),
}

impl fmt::Debug for TaskQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self {
            TaskQueue::Fifo(_) => "Fifo",
            TaskQueue::Handoff => "Handoff",
            TaskQueue::Priority(..) => "Priority",
            TaskQueue::Blocking { .. } => "Blocking",
            TaskQueue::Delayed(_) => "DelayedQueue",
        };
        f.debug_struct(kind).field("len", &self.len()).finish_non_exhaustive()
    }
}

/// Counts a task before the queue receives it, so the task is counted before it is settled. Undoes
/// the count if the queue refuses the task or panics.
struct CountedPush<'a>(&'a AtomicU64);

impl<'a> CountedPush<'a> {
    fn new(pushed: &'a AtomicU64) -> Self {
        pushed.fetch_add(1, Order::Relaxed); // published with the task by the queue's own lock
        CountedPush(pushed)
    }

    fn done(self, offered: Result<(), Task>) -> Result<(), Task> {
        if offered.is_ok() {
            std::mem::forget(self);
        }
        offered
    }
}

impl Drop for CountedPush<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Order::Relaxed);
    }
}

impl TaskQueue {
    /// Pushes `task` and then calls `observe`, in the order that the races with a submitter
    /// require. Returns the task if there is no room.
    pub(super) fn offer<L>(
        &self,
        mut task: Task,
        idle: &IdleWorkers,
        meter: &Meter,
        observe: impl FnOnce() -> L,
    ) -> Result<L, Task> {
        if matches!(self, TaskQueue::Priority(..) | TaskQueue::Blocking { .. })
            && let Some(now) = meter.now()
        {
            task.set_queued_at(now.plus(self.held_back(&task)));
        }
        match self {
            TaskQueue::Fifo(fifo) => return fifo.push(task.id(), task, observe),
            TaskQueue::Handoff => idle.hand_off(task, || meter.now())?,
            TaskQueue::Priority(queue, pushed) => CountedPush::new(pushed).done(queue.offer(task))?,
            TaskQueue::Blocking { queue, pushed, .. } => CountedPush::new(pushed).done(queue.offer(task))?,
            TaskQueue::Delayed(delayed) => {
                delayed.insert(TimerTask::new(task), delayed.clock().tick());
                return Ok(observe()); // ordered by the queue's lock
            }
        }
        fence(Order::SeqCst);
        Ok(observe())
    }

    /// Orders a change that submitters observe before the caller's next read of the queue. Either
    /// the caller sees a task, or the submitter of the task sees the change.
    ///
    /// The submitter's counterpart is in [`offer`](Self::offer): a fence, or the lock of the
    /// queue's tail for the two kinds where a fence (about 5 ns) would be noticeable.
    pub(super) fn order(&self) {
        match self {
            TaskQueue::Fifo(fifo) => fifo.order(),
            TaskQueue::Delayed(delayed) => delayed.order(),
            _ => fence(Order::SeqCst),
        }
    }

    /// Like [`order`](Self::order), against threads that dequeue. First-in-first-out queues only.
    pub(super) fn order_takes(&self) {
        if let TaskQueue::Fifo(fifo) = self {
            fifo.order_takes();
        }
    }

    /// Returns true if every task must pass through the queue, even if a thread is started for it.
    pub(super) fn takes_all(&self) -> bool {
        matches!(self, TaskQueue::Blocking { always: true, .. } | TaskQueue::Delayed(_))
    }

    /// Returns true if the queue may hold tasks back although a worker waits for one.
    pub(super) fn holds_back(&self) -> bool {
        matches!(self, TaskQueue::Blocking { .. } | TaskQueue::Delayed(_))
    }

    /// Returns true for a custom queue. Its owner may add and remove tasks without the pool.
    pub(super) fn is_custom(&self) -> bool {
        matches!(self, TaskQueue::Blocking { always: false, .. })
    }

    /// Returns true if the queue seems to have room: a hint for the growth rule. `offer` decides.
    pub(super) fn has_room(&self, idle: &IdleWorkers) -> bool {
        match self {
            TaskQueue::Fifo(fifo) => !fifo.is_full(),
            TaskQueue::Handoff => idle.has_parked(),
            TaskQueue::Priority(..) | TaskQueue::Blocking { .. } | TaskQueue::Delayed(_) => true,
        }
    }

    /// Dequeues the next task, if one is available.
    pub(super) fn poll(&self) -> Option<Dequeued> {
        match self {
            TaskQueue::Fifo(fifo) => {
                let since = fifo.head_since();
                fifo.pop().map(|task| (task, since))
            }
            TaskQueue::Handoff => None,
            TaskQueue::Priority(queue, _) => queue.poll().map(with_time),
            TaskQueue::Blocking { queue, .. } => queue.poll().map(with_time),
            TaskQueue::Delayed(delayed) => delayed.poll(),
        }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        match self {
            TaskQueue::Fifo(fifo) => fifo.len(),
            TaskQueue::Handoff => 0,
            TaskQueue::Priority(queue, _) => queue.len(),
            TaskQueue::Blocking { queue, .. } => queue.len(),
            TaskQueue::Delayed(delayed) => delayed.len(),
        }
    }

    /// Returns true if the queue is empty. Does not panic, because workers rely on it. A custom
    /// queue whose `len` panics counts as not empty.
    pub(super) fn is_empty(&self) -> bool {
        match self {
            TaskQueue::Fifo(fifo) => fifo.is_empty(),
            TaskQueue::Blocking { .. } => self.try_len() == Some(0),
            _ => self.len() == 0,
        }
    }

    /// Returns the length, or `None` if the `len` of a custom queue panics.
    #[inline]
    pub(super) fn try_len(&self) -> Option<usize> {
        catch_value(|| self.len())
    }

    /// Changes the bound of a first-in-first-out queue.
    pub(super) fn set_capacity(&self, capacity: usize) {
        if let TaskQueue::Fifo(fifo) = self {
            fifo.set_capacity(capacity);
        }
    }

    pub(super) fn remaining_capacity(&self) -> usize {
        match self {
            TaskQueue::Fifo(fifo) if fifo.capacity() == usize::MAX => usize::MAX,
            TaskQueue::Fifo(fifo) => fifo.capacity().saturating_sub(fifo.len()),
            TaskQueue::Handoff => 0,
            TaskQueue::Priority(..) | TaskQueue::Delayed(_) => usize::MAX,
            TaskQueue::Blocking { queue, .. } => queue.remaining_capacity(),
        }
    }

    /// Returns when a thread that wants to run the task `id` should try again. `None` if the task
    /// is due or not queued.
    pub(super) fn not_due(&self, id: TaskId, place: &Place) -> Option<Help> {
        match self {
            TaskQueue::Blocking { queue, always: true, .. } => {
                let mut due = None;
                queue.for_each(&mut |task| {
                    if task.id() == id {
                        due = Some(task.due());
                    }
                });
                due.filter(|due| *due > Instant::now()).map(Help::NotBefore)
            }
            TaskQueue::Delayed(delayed) => delayed.not_due(id, place),
            _ => None,
        }
    }

    /// Removes the task `id`.
    pub(super) fn remove(&self, id: TaskId, place: Option<&Place>) -> Option<Task> {
        match self {
            TaskQueue::Fifo(fifo) => fifo.remove(id, place.map(Place::get)),
            TaskQueue::Delayed(delayed) => delayed.remove(id, place),
            _ => self.remove_if(|task| task.id() == id).pop(),
        }
    }

    /// Like `remove`, for a task that was not admitted: it does not count as accepted.
    pub(super) fn take_back(&self, id: TaskId) -> Option<Task> {
        match self {
            TaskQueue::Fifo(fifo) => fifo.unpush(id),
            TaskQueue::Handoff => None,
            TaskQueue::Delayed(delayed) => delayed.take_back(id, None),
            TaskQueue::Priority(_, pushed) | TaskQueue::Blocking { pushed, .. } => {
                self.remove(id, None).inspect(|_| {
                    pushed.fetch_sub(1, Order::Relaxed);
                })
            }
        }
    }

    /// Removes all tasks for which `unwanted` returns true, in queue order.
    pub(super) fn remove_if(&self, unwanted: impl Fn(&Task) -> bool) -> Vec<Task> {
        match self {
            TaskQueue::Fifo(fifo) => fifo.remove_if(unwanted),
            TaskQueue::Handoff => Vec::new(),
            TaskQueue::Priority(queue, _) => queue.remove_if(&mut |task| unwanted(task)),
            TaskQueue::Blocking { queue, .. } => queue.remove_if(&mut |task| unwanted(task)),
            TaskQueue::Delayed(delayed) => delayed.remove_if(|task, _| unwanted(task)),
        }
    }

    /// Removes all tasks, in queue order.
    pub(super) fn drain(&self) -> Vec<Task> {
        if let TaskQueue::Priority(queue, _) = self {
            let mut drained = Vec::new();
            queue.drain_to(&mut drained, usize::MAX);
            return drained;
        }
        self.remove_if(|_| true)
    }

    /// Returns the ids of the queued tasks, in queue order.
    pub(super) fn ids(&self) -> Vec<TaskId> {
        let mut ids = Vec::new();
        match self {
            TaskQueue::Fifo(fifo) => return fifo.ids(),
            TaskQueue::Handoff => {}
            TaskQueue::Priority(queue, _) => queue.for_each(&mut |task| ids.push(task.id())),
            TaskQueue::Blocking { queue, .. } => queue.for_each(&mut |task| ids.push(task.id())),
            TaskQueue::Delayed(delayed) => return delayed.ids(),
        }
        ids
    }

    /// Returns the number of tasks accepted by the queue so far.
    pub(super) fn pushed(&self) -> u64 {
        match self {
            TaskQueue::Fifo(fifo) => fifo.pushed(),
            TaskQueue::Handoff => 0,
            TaskQueue::Priority(_, pushed) | TaskQueue::Blocking { pushed, .. } => {
                pushed.load(Order::Relaxed)
            }
            TaskQueue::Delayed(delayed) => delayed.pushed(),
        }
    }

    /// Returns the number of cancelled tasks that the queue itself has removed. Delayed queues
    /// only.
    pub(super) fn removed_on_cancel(&self) -> u64 {
        if let TaskQueue::Delayed(delayed) = self { delayed.removed_on_cancel() } else { 0 }
    }
}
