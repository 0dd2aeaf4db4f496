//! Where workers get their tasks from: one face for the kinds of work queue.
//!
//! Four kinds are ours through and through (first-in-first-out, hand-over, priority, and that of a scheduled pool): a
//! worker that finds nothing sleeps in `idle`, where waking is accounted for. In the fifth, which has the delay queue and
//! queues of the user's own, only the queue knows when a task may be had, so workers block inside it and are
//! interrupted when they should look around.

#[expect(unsafe_code, reason = "leaks the reference to a cancelled timer")]
pub(super) mod delayed;
pub(super) mod fifo;
#[expect(unsafe_code, reason = "shares memory between submitters and workers")]
mod segments;

use std::cmp::Ordering;
use std::fmt;
use std::time::Instant;

use self::delayed::DelayedQueue;
use self::fifo::Fifo;
use super::idle::IdleWorkers;
use crate::panic::catch_value;
use crate::queue::{BlockingQueue, DelayQueue, Delayed, PriorityBlockingQueue};
use crate::sync::{Arc, AtomicU64, Ordering as Order, fence};
use crate::task::{Help, Place};
use crate::task::{Task, TaskId, TimerTask};
use crate::time::clock::Clock;
use crate::{ConfigError, queue};

/// The kind of queue in which a pool keeps the tasks that no thread can take yet.
///
/// It decides how the pool grows: a pool exceeds its core size only when its queue refuses a task. So with
/// an unbounded queue it never does, with a bounded one it does when the queue is full, and with a synchronous
/// one as soon as no worker is idle.
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
    /// First in first out, at most `capacity` tasks. A capacity of 0 is refused when the pool is built.
    pub fn array(capacity: usize) -> Self {
        WorkQueue { kind: Kind::Array(capacity) }
    }

    /// First in first out, without a bound: the pool never exceeds its core size and never rejects while it runs.
    pub fn linked() -> Self {
        WorkQueue { kind: Kind::Linked(usize::MAX) }
    }

    /// First in first out, at most `capacity` tasks. A capacity of 0 is refused when the pool is built.
    pub fn linked_bounded(capacity: usize) -> Self {
        WorkQueue { kind: Kind::Linked(capacity) }
    }

    /// Keeps no task: one is handed to a worker that waits for it, or gets a new thread, or is rejected.
    pub fn synchronous() -> Self {
        WorkQueue { kind: Kind::Synchronous }
    }

    /// The largest priority first, equal ones in order of arrival. Without a bound.
    ///
    /// A task that gets a new thread starts at once, whatever its priority.
    pub fn priority() -> Self {
        WorkQueue { kind: Kind::Priority }
    }

    /// Gives out tasks when they are due (see [`Task::with_delay`]), the earliest first. Without a bound.
    ///
    /// Every task passes through the queue, so that none starts before it is due; threads are started
    /// for it up to the core size, and at least one.
    pub fn delay() -> Self {
        WorkQueue { kind: Kind::Delay }
    }

    /// A queue of your own. Keep a clone of an `Arc` to look into it.
    ///
    /// Workers block in its `take` and `poll_timeout`, and the pool interrupts them to make them leave or look
    /// at changed settings: those two must return [`Interrupted`](crate::interrupt::Interrupted) then, as
    /// they do if they wait by calling one of the queues of this crate. A task that is put into the queue
    /// behind the pool's back starts no thread: it waits until there is a worker.
    ///
    /// A worker survives a panic of the queue. As long as `len` panics the queue counts as not empty: after a `shutdown`
    /// workers then look into it again and again, for tasks that may be there, until it tells or until `shutdown_now`.
    pub fn custom(queue: impl BlockingQueue<Task> + 'static) -> Self {
        WorkQueue { kind: Kind::Custom(CustomQueue(Arc::new(queue))) }
    }

    /// The queue of a scheduled pool.
    pub(crate) fn delayed(clock: Clock) -> Self {
        WorkQueue { kind: Kind::Delayed(clock) }
    }

    pub(super) fn into_task_queue(self) -> Result<TaskQueue, ConfigError> {
        let zero = |queue| Err(ConfigError::ZeroCapacity { queue });
        Ok(match self.kind {
            Kind::Array(0) => return zero("array work queue"),
            Kind::Linked(0) => return zero("linked work queue"),
            Kind::Array(capacity) | Kind::Linked(capacity) => TaskQueue::Fifo(Fifo::new(capacity)),
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
        })
    }
}

fn most_urgent_first(a: &Task, b: &Task) -> Ordering {
    b.priority().cmp(&a.priority())
}

/// A work queue in use.
#[allow(
    clippy::large_enum_variant,
    reason = "there is one per pool, and a box would cost every submit a hop"
)]
pub(super) enum TaskQueue {
    Fifo(Fifo),
    /// No queue: tasks go from hand to hand, through `idle`.
    Handoff,
    /// With the number of tasks accepted so far.
    Priority(PriorityBlockingQueue<Task>, AtomicU64),
    /// Workers block in it. `always`: every task must go through it, also one that gets a new thread.
    Blocking {
        queue: Arc<dyn queue::BlockingQueue<Task>>,
        always: bool,
        pushed: AtomicU64,
    },
    /// That of a scheduled pool.
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

/// Counts a task before the queue has it, so that it is not settled before it is counted. Counts it
/// out again if the queue does not take it, or panics.
struct CountedPush<'a>(&'a AtomicU64);

impl<'a> CountedPush<'a> {
    fn new(pushed: &'a AtomicU64) -> Self {
        pushed.fetch_add(1, Order::Relaxed); // published with the task, by the queue's own lock
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
    /// Puts `task` where a worker will find it (A1, S1), and then looks around by `look` (A3, S3); or gives it back when
    /// there is no room.
    pub(super) fn offer<L>(
        &self,
        task: Task,
        idle: &IdleWorkers,
        look: impl FnOnce() -> L,
    ) -> Result<L, Task> {
        match self {
            TaskQueue::Fifo(fifo) => return fifo.push(task, look),
            TaskQueue::Handoff => idle.hand_over(task)?,
            TaskQueue::Priority(queue, pushed) => CountedPush::new(pushed).done(queue.offer(task))?,
            TaskQueue::Blocking { queue, pushed, .. } => CountedPush::new(pushed).done(queue.offer(task))?,
            TaskQueue::Delayed(delayed) => {
                delayed.insert(TimerTask::new(task), delayed.clock().tick());
                return Ok(look()); // its lock orders them
            }
        }
        fence(Order::SeqCst); // A2, S2
        Ok(look())
    }

    /// Between a change that a submitter must see (`offer` looks for it) and a look at the queue: B2, C2, W2, W5. Either we
    /// see the task, or its submitter sees the change. The submitter's part is a fence, and for the plain queue and the
    /// one in time, where that would be felt, the queue's lock.
    pub(super) fn order(&self) {
        match self {
            TaskQueue::Fifo(fifo) => fifo.order(),
            TaskQueue::Delayed(delayed) => delayed.order(),
            _ => fence(Order::SeqCst),
        }
    }

    /// The same, for a change that those must see who take tasks. Of use for the plain queue only; see `room.rs` and
    /// `interrupt_if_stopped`.
    pub(super) fn order_takes(&self) {
        if let TaskQueue::Fifo(fifo) = self {
            fifo.order_takes();
        }
    }

    /// Every task must go through the queue, also one for which a thread is started.
    pub(super) fn takes_all(&self) -> bool {
        matches!(self, TaskQueue::Blocking { always: true, .. } | TaskQueue::Delayed(_))
    }

    /// A queue of the user's own, which the user may fill and empty without the pool.
    pub(super) fn is_custom(&self) -> bool {
        matches!(self, TaskQueue::Blocking { always: false, .. })
    }

    /// A guess, for the growth rule; `offer` knows.
    pub(super) fn has_room(&self, idle: &IdleWorkers) -> bool {
        match self {
            TaskQueue::Fifo(fifo) => !fifo.is_full(),
            TaskQueue::Handoff => idle.someone_sleeps(),
            TaskQueue::Priority(..) | TaskQueue::Blocking { .. } | TaskQueue::Delayed(_) => true,
        }
    }

    /// Takes the next task, if there is one to be had.
    pub(super) fn poll(&self) -> Option<Task> {
        match self {
            TaskQueue::Fifo(fifo) => fifo.pop(),
            TaskQueue::Handoff => None,
            TaskQueue::Priority(queue, _) => queue.poll(),
            TaskQueue::Blocking { queue, .. } => queue.poll(),
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

    /// Does not panic, for workers depend on it: a queue of the user's own that cannot tell may have tasks.
    pub(super) fn is_empty(&self) -> bool {
        match self {
            TaskQueue::Fifo(fifo) => fifo.is_empty(),
            TaskQueue::Blocking { .. } => self.len_if_it_tells() == Some(0),
            _ => self.len() == 0,
        }
    }

    /// Its length, for what the pool does by itself; `None` if it is a queue of the user's own that panics instead. Who asks for the
    /// length has the panic.
    #[inline]
    pub(super) fn len_if_it_tells(&self) -> Option<usize> {
        catch_value(|| self.len())
    }

    pub(super) fn remaining_capacity(&self) -> usize {
        match self {
            TaskQueue::Fifo(fifo) if fifo.capacity() == usize::MAX => usize::MAX,
            TaskQueue::Fifo(fifo) => fifo.capacity() - fifo.len().min(fifo.capacity()),
            TaskQueue::Handoff => 0,
            TaskQueue::Priority(..) | TaskQueue::Delayed(_) => usize::MAX,
            TaskQueue::Blocking { queue, .. } => queue.remaining_capacity(),
        }
    }

    /// If the task `id` waits for its time: when somebody who wants to run it should come back.
    pub(super) fn not_yet(&self, id: TaskId, place: &Place) -> Option<Help> {
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
            TaskQueue::Delayed(delayed) => delayed.not_yet(id, place),
            _ => None,
        }
    }

    /// Takes the task `id` out of the queue.
    pub(super) fn remove(&self, id: TaskId, place: Option<&Place>) -> Option<Task> {
        match self {
            TaskQueue::Fifo(fifo) => fifo.remove(id, place.map(Place::get)),
            TaskQueue::Delayed(delayed) => delayed.remove(id, place),
            _ => self.remove_if(|task| task.id() == id).pop(),
        }
    }

    /// As `remove`, for a task that turned out not to be accepted.
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

    /// Takes out all tasks that `unwanted` accepts, in queue order.
    pub(super) fn remove_if(&self, unwanted: impl Fn(&Task) -> bool) -> Vec<Task> {
        match self {
            TaskQueue::Fifo(fifo) => fifo.remove_if(unwanted),
            TaskQueue::Handoff => Vec::new(),
            TaskQueue::Priority(queue, _) => queue.remove_if(&mut |task| unwanted(task)),
            TaskQueue::Blocking { queue, .. } => queue.remove_if(&mut |task| unwanted(task)),
            TaskQueue::Delayed(delayed) => delayed.remove_if(|task, _| unwanted(task)),
        }
    }

    /// Takes out all tasks, in queue order.
    pub(super) fn drain(&self) -> Vec<Task> {
        if let TaskQueue::Priority(queue, _) = self {
            let mut drained = Vec::new();
            queue.drain_to(&mut drained, usize::MAX);
            return drained;
        }
        self.remove_if(|_| true)
    }

    /// The ids of the waiting tasks, in queue order.
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

    /// Tasks accepted by the queue so far.
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

    /// Tasks that were struck off because they were cancelled. With other queues the pool counts them.
    pub(super) fn struck(&self) -> u64 {
        if let TaskQueue::Delayed(delayed) = self { delayed.struck() } else { 0 }
    }
}
