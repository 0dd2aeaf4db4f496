//! The parts that only a scheduled pool uses: admission at a due time, periodic runs, and the
//! shutdown policies.
//!
//! `ScheduledThreadPoolExecutor` is a `ThreadPoolExecutor` whose queue is a
//! [`DelayedQueue`](super::queue::delayed::DelayedQueue).

use std::time::Duration;

use super::ThreadPoolExecutor;
use super::admission::Refusal;
use super::inner::PoolInner;
use super::queue::TaskQueue;
use super::queue::delayed::{DelayedQueue, ShutdownPolicy};
use super::spawn::Limit;
use crate::executor::{RejectReason, Rejected};
use crate::monitor::RunState;
use crate::sync::backoff::yield_while;
use crate::sync::{Arc, Ordering, fence};
use crate::task::{CellRef, Task, TaskOwner, TaskState, TimerTask, Tracked};
use crate::time::clock::{Clock, Tick, TimeListener};

impl PoolInner {
    fn delayed_queue(&self) -> Option<&DelayedQueue> {
        match self.queue() {
            TaskQueue::Delayed(delayed) => Some(delayed),
            _ => None,
        }
    }

    /// Returns true if the run state and the policies let a due task run.
    fn may_run(&self, delayed: &DelayedQueue, is_periodic: bool) -> bool {
        match self.control().load().state() {
            RunState::Running => true,
            RunState::Shutdown => !is_periodic || delayed.keeps(ShutdownPolicy::Periodic),
            _ => false,
        }
    }

    /// Cancels a task that the run state no longer permits. Called before a run, because the pool
    /// may have been shut down since the task was dequeued. A task without a handle runs anyway:
    /// its owner could not learn that it did not run.
    #[inline]
    pub(super) fn cancel_if_shut_down(&self, task: &Task) {
        if let Some(delayed) = self.delayed_queue() {
            self.cancel_unless_it_may_run(delayed, task);
        }
    }

    #[inline(never)]
    fn cancel_unless_it_may_run(&self, delayed: &DelayedQueue, task: &Task) {
        if !self.may_run(delayed, task.timing().is_some()) {
            task.cancel();
        }
    }

    /// Queues a periodic task for its next run. If `returns_to_queue`, the calling worker checks
    /// the queue next, so it does not wake another worker.
    ///
    /// Race "requeue / shutdown": insert, then read state and policy again. `shutdown` and the
    /// setters of the policies write the state or policy, and then remove tasks that must not run.
    /// All of them take the queue's lock in between. So either they find the task, or this thread
    /// sees their change.
    pub(super) fn requeue(self: &Arc<Self>, task: Task, returns_to_queue: bool) {
        let (Some(delayed), Some(shared), Some(timing)) = (self.delayed_queue(), task.cell(), task.timing())
        else {
            return; // a task of another pool: it has run once, and dropping it ends it
        };
        if !self.may_run(delayed, true) {
            return task.cancel();
        }
        let (id, shared) = (task.id(), shared.clone());
        let due = timing.ended();
        delayed.insert(TimerTask::new(task), due);
        // Race "requeue / cancel": an earlier cancel found no pool to notify, so the entry is
        // removed here. A later cancel finds the pool, and reads the entry's place under the
        // queue's lock.
        if !shared.entered_again(self.owner_number()) && shared.state() == TaskState::Cancelled {
            self.cancelled(id, shared.place());
        }
        if !self.may_run(delayed, true) {
            // If it is gone, a worker or the thread that removed it acts on it.
            if let Some(task) = delayed.take_back(id, Some(shared.place())) {
                task.cancel();
                task.drop_caught();
                self.after_removal();
            }
            return;
        }
        if self.control().load().workers() < self.settings().core() {
            let _ = self.add_worker(None, Limit::Core); // on failure, this worker is enough
        }
        if !returns_to_queue {
            self.wake_one();
        }
    }

    /// After a shutdown, cancels and removes the tasks that the policies do not let run.
    pub(super) fn cancel_unwanted_after_shutdown(&self) {
        let Some(delayed) = self.delayed_queue() else { return };
        if self.control().load().is_running() {
            return;
        }
        let keeps_periodic = delayed.keeps(ShutdownPolicy::Periodic);
        let keeps_delayed = delayed.keeps(ShutdownPolicy::Delayed);
        let now = delayed.clock().tick();
        let removed = delayed.remove_if(|task, due| {
            let keep = if task.timing().is_some() { keeps_periodic } else { keeps_delayed || due <= now };
            !keep || task.is_cancelled()
        });
        for task in removed {
            task.cancel();
            self.drop_cancelled(task);
        }
    }
}

impl TimeListener for PoolInner {
    fn time_moved(&self) {
        let Some(delayed) = self.delayed_queue() else { return };
        delayed.notify_joiners(); // a worker runs the task that it joins even during a pause
        if !self.is_paused() {
            delayed.time_moved(self.idle());
            self.wait_for_busy_workers(delayed);
        }
    }
}

impl PoolInner {
    /// Parked workers have been woken for the due tasks. A worker that is awake without a task
    /// takes due tasks by itself, and the caller of a manual clock may rely on that. Only tests use
    /// manual clocks, so yielding for at most one second is acceptable.
    fn wait_for_busy_workers(&self, delayed: &DelayedQueue) {
        const LIMIT: Duration = Duration::from_secs(1);
        if !cfg!(loom) {
            yield_while(LIMIT, || delayed.first_is_due() && self.has_searching_worker());
        }
    }

    /// Like [`carry_context`](Self::carry_context), for a task of a scheduled pool. Returns the
    /// task and whether the capture succeeded.
    #[inline(never)]
    fn with_context(&self, task: TimerTask) -> (TimerTask, bool) {
        let mut task = task.into_task();
        let captured = self.carry_context(&mut task);
        (TimerTask::new(task), captured)
    }

    /// Returns true if some worker neither runs a task nor is parked.
    fn has_searching_worker(&self) -> bool {
        let active = self.workers().active_count();
        self.control().load().workers() > active + self.idle().parked_workers().all
    }
}

/// Methods for the scheduled pool that wraps this one.
impl ThreadPoolExecutor {
    fn delayed_queue(&self) -> &DelayedQueue {
        self.inner().delayed_queue().expect("a scheduled pool has a delayed queue")
    }

    pub(crate) fn clock(&self) -> &Clock {
        self.delayed_queue().clock()
    }

    /// Admits `task`, to run at `due`. A refused periodic task becomes a task that runs once.
    #[inline]
    pub(crate) fn execute_at(&self, mut task: TimerTask, due: Tick) -> Result<(), Rejected> {
        let pool = self.inner();
        let seen = pool.control().load();
        if !seen.is_running() {
            return self.refuse_task(Refusal::new(task.into_task(), RejectReason::Shutdown));
        }
        if pool.propagates() {
            let captured;
            (task, captured) = pool.with_context(task);
            if !captured {
                let refusal = Refusal::new(task.into_task().once(), RejectReason::CallbackPanicked);
                return Err(self.reject(refusal));
            }
        }
        let (id, delayed) = (task.id(), self.delayed_queue());
        task.entered(pool.owner_number());
        delayed.insert(task, due);
        let observed = pool.observe_delayed(delayed);
        if seen.workers() >= pool.settings().core() && observed.needs_nothing() {
            return Ok(());
        }
        let confirmed = pool.confirm_admitted(id, pool.grow_to_core(seen, observed));
        confirmed.or_else(|refusal| self.refuse_task(*refusal))
    }

    /// Called after `execute_at` for a task whose handle existed before: an earlier cancel found no
    /// queue entry to remove. The cancel writes the state, fences, and searches pool and queue.
    /// This thread has entered the task; it fences and reads the state. So at least one of them
    /// sees the other.
    pub(crate) fn remove_if_cancelled_early(&self, shared: &CellRef<dyn Tracked>) {
        fence(Ordering::SeqCst);
        if shared.state() == TaskState::Cancelled {
            self.inner().cancelled(shared.id(), shared.place());
        }
    }

    pub(crate) fn removes_on_cancel(&self) -> bool {
        self.delayed_queue().removes_on_cancel()
    }

    pub(crate) fn set_removes_on_cancel(&self, remove: bool) {
        self.delayed_queue().set_remove_on_cancel(remove);
    }

    pub(crate) fn keeps_after_shutdown(&self, policy: ShutdownPolicy) -> bool {
        self.delayed_queue().keeps(policy)
    }

    pub(crate) fn set_keeps_after_shutdown(&self, policy: ShutdownPolicy, keep: bool) {
        self.delayed_queue().set_keeps(policy, keep);
        self.inner().queue().order(); // race "requeue / shutdown"
        if !keep {
            self.inner().cancel_unwanted_after_shutdown();
            self.inner().after_removal();
        }
    }
}
