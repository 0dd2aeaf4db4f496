//! How a worker runs one task: hooks, counters, panics, periodic tasks, and tasks run inline.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::counters::Counter;
use super::hooks::Hooks;
use super::inner::PoolInner;
use super::queue::TaskQueue;
use super::workers::Worker;
use crate::interrupt::TaskFrame;
use crate::panic::{catch, drop_caught};
use crate::sync::Arc;
use crate::task::inline;
use crate::task::periodic::OnPanic;
use crate::task::{
    CancelQueue, Help, Outcome, Panic, Payload, Place, Removal, Removed, RunEvent, Task, TaskId, TaskOwner,
    current_worker,
};

/// Identifies a worker to the tasks on its thread, or on a temporary thread that runs a task for
/// it.
pub(super) struct WorkerIdentity {
    pub(super) pool: Arc<PoolInner>,
    pub(super) worker: Arc<Worker>,
}

/// Runs a task between its hooks and counts it. Leaves `task` empty. Returns false after a panic
/// that no handle keeps.
#[inline]
pub(super) fn run_task(
    pool: &Arc<PoolInner>,
    worker: &Worker,
    task: &mut Option<Task>,
    is_inline: bool,
) -> bool {
    if pool.expire(task) {
        return true;
    }
    let ok = match pool.hooks() {
        None => match run_counted(pool, worker, task, !is_inline) {
            None => true,
            Some(payload) => {
                drop_payload(payload);
                false
            }
        },
        Some(hooks) => run_between_hooks(&**hooks, pool, worker, task),
    };
    pool.count_finished(worker, is_inline);
    ok
}

#[inline(never)]
fn run_between_hooks(
    hooks: &dyn Hooks,
    pool: &Arc<PoolInner>,
    worker: &Worker,
    task: &mut Option<Task>,
) -> bool {
    let Some(info) = task.as_ref().map(|task| task.info().clone()) else { return true };
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| hooks.before_execute(&info))) {
        run_prevented(pool, worker, task, payload);
        return false;
    }
    let panic = run_counted(pool, worker, task, false).map(Panic::new);
    let hook_panicked = !catch(|| hooks.after_execute(&info, panic.as_ref()));
    let ok = panic.is_none() && !hook_panicked;
    drop_caught(panic); // the payload's destructor is user code
    ok
}

/// Settles a task whose run was prevented by a panic of `before_execute`.
///
/// No handle keeps the panic. A series would end unnoticed, so the panic counts as one of the
/// series: it is reported, and the series continues if its `OnPanic` says so.
#[cold]
fn run_prevented(pool: &Arc<PoolInner>, worker: &Worker, task: &mut Option<Task>, payload: Payload) {
    let panic = Panic::new(payload);
    let series = task.as_ref().filter(|task| task.is_pending_series());
    let continues =
        series.and_then(Task::timing).is_some_and(|timing| timing.on_panic() == OnPanic::Continue);
    if let Some(series) = series {
        pool.report_panic(series.info(), &panic);
        if !continues {
            pool.counters().add(Counter::PeriodicEndedByPanic);
        }
    }
    drop_caught(panic); // the payload's destructor is user code
    settled(pool, worker, Outcome::Panicked);
    if continues {
        requeue(pool, task, false);
    } else {
        task.take().into_iter().for_each(Task::drop_caught);
    }
}

/// Runs a task and counts its outcome. Returns a panic that no handle keeps. If `returns_to_queue`,
/// the worker checks the queue as soon as this returns.
#[inline(always)]
fn run_counted(
    pool: &Arc<PoolInner>,
    worker: &Worker,
    task: &mut Option<Task>,
    returns_to_queue: bool,
) -> Option<Payload> {
    let running = task.as_mut()?;
    pool.cancel_if_shut_down(running);
    let ended = running.run_reporting(|info, event| match event {
        RunEvent::Settled(outcome) => settled(pool, worker, outcome),
        RunEvent::SeriesEnded => pool.counters().add(Counter::PeriodicEndedByPanic),
        RunEvent::Panicked(panic) => pool.report_panic(info, panic),
    });
    if ended.again {
        requeue(pool, task, returns_to_queue);
    } else {
        Task::clear(task); // in place: moving the task costs as much as running a small one
    }
    ended.panic
}

#[inline(never)]
fn requeue(pool: &Arc<PoolInner>, task: &mut Option<Task>, returns_to_queue: bool) {
    task.take().into_iter().for_each(|task| pool.requeue(task, returns_to_queue));
}

fn settled(pool: &PoolInner, worker: &Worker, outcome: Outcome) {
    worker.counters().settled(outcome);
    pool.remove_outstanding();
}

#[cold]
fn drop_payload(payload: Payload) {
    drop_caught(Panic::new(payload));
}

/// Runs a task inside the task that joins it, with its own interrupt flag.
///
/// Runs on the worker's thread, or on a temporary thread while the worker waits for it. In both
/// cases no other thread writes the worker's counters.
fn run_inline(me: &WorkerIdentity, task: Task) {
    let _frame = TaskFrame::enter();
    me.pool.interrupt_new_epoch_if_stopped();
    me.worker.counters().begin_inline();
    run_task(&me.pool, &me.worker, &mut Some(task), true);
    me.worker.counters().end_inline();
}

/// The operations of a pool that handles of queued tasks call.
impl TaskOwner for PoolInner {
    fn cancelled(&self, id: TaskId, place: &Place) {
        if let TaskQueue::Delayed(delayed) = self.queue() {
            if delayed.remove_cancelled(Removal::new(id, place)) == Removed::First {
                self.first_removed();
            }
        } else if self.removes_on_cancel()
            && let Some(task) = self.queue().remove(id, Some(place))
        {
            self.drop_cancelled(task);
            self.after_removal();
        }
    }

    fn cancel_queue(&self) -> Option<Arc<dyn CancelQueue>> {
        match self.queue() {
            TaskQueue::Delayed(delayed) => Some(Arc::clone(delayed) as Arc<dyn CancelQueue>),
            _ => None,
        }
    }

    /// Not called for other removals from a delayed queue. They change nothing that another thread
    /// waits for: the queue is unbounded, its pool is not eager, and a task that is not due does
    /// not keep the pool from being idle.
    fn first_removed(&self) {
        self.after_removal();
    }

    /// Wakes one more worker. The calling thread is about to block, so its core becomes free. A
    /// worker that was woken earlier may be scheduled behind its waker for a millisecond.
    fn is_waited_for(self: Arc<Self>) -> bool {
        let needs_worker = self.queue().try_len().is_some_and(|len| len > self.idle().waking_count());
        if needs_worker && !self.is_paused() {
            self.hand_head_to_idle();
        }
        self.retry_stranded()
    }

    /// Runs the queued task `id` on the calling thread, if this thread is a worker of this pool.
    fn run_inline(&self, id: TaskId, place: &Place) -> Help {
        let me = current_worker().and_then(|worker| worker.downcast::<WorkerIdentity>().ok());
        let Some(me) = me.filter(|me| std::ptr::eq(&*me.pool, self)) else {
            return Help::Done;
        };
        if let Some(later) = self.queue().not_due(id, place) {
            return later;
        }
        let since = self.queue().since(place);
        if let Some(task) = self.queue().remove(id, Some(place)) {
            me.worker.laps().inside(self.meter(), since.or_else(|| task.queued_at()));
            self.submitters().notify_first();
            inline::run_inline(|| run_inline(&me, task));
        }
        Help::Done
    }
}
