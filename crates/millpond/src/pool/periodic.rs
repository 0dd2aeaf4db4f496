//! What only a scheduled pool does: runs that come again, and what a shutdown throws out.
//!
//! The public face is `ScheduledThreadPoolExecutor`, which has a `ThreadPoolExecutor` with a `DelayedQueue` queue
//! inside.

use std::time::Duration;

use super::ThreadPoolExecutor;
use super::admission::Refusal;
use super::control::RunState;
use super::inner::PoolInner;
use super::queue::TaskQueue;
use super::queue::delayed::DelayedQueue;
use super::workers::Limit;
use crate::executor::{RejectReason, Rejected};
use crate::sync::backoff::yield_while;
use crate::sync::{Arc, AtomicBool, Ordering, fence};
use crate::task::{Shared, TaskOwner, TaskState, Tracked};
use crate::task::{Task, TimerTask};
use crate::time::clock::{Clock, Tick, TimeListener};

impl PoolInner {
    fn delayed(&self) -> Option<&DelayedQueue> {
        match &self.queue {
            TaskQueue::Delayed(delayed) => Some(delayed),
            _ => None,
        }
    }

    /// A task that has come to its time may run in the state that the pool is in.
    fn may_run(&self, delayed: &DelayedQueue, periodic: bool) -> bool {
        match self.control.load().state() {
            RunState::Running => true,
            RunState::Shutdown => !periodic || delayed.keep_periodic.load(Ordering::SeqCst),
            _ => false,
        }
    }

    /// Before a run: the pool may have been shut down since the task was taken from the queue. One without a
    /// handle runs all the same, for nobody would learn that it did not.
    #[inline]
    pub(super) fn cancel_if_too_late(&self, task: &Task) {
        if let Some(delayed) = self.delayed() {
            self.cancel_unless_it_may_run(delayed, task);
        }
    }

    #[inline(never)]
    fn cancel_unless_it_may_run(&self, delayed: &DelayedQueue, task: &Task) {
        if !self.may_run(delayed, task.timing().is_some()) {
            task.cancel();
        }
    }

    /// Queues a series for its next run. `comes_back`: the calling worker looks at the queue as soon as we
    /// return, so it need not call another.
    ///
    /// As with a submit (A1 to A3): against `shutdown`, which sets the run state and then throws out what
    /// must not run (B1 to B3), and against a policy that is changed after a shutdown, which does the same.
    /// Either they find the series in the queue, or we see what they wrote.
    pub(super) fn run_again(self: &Arc<Self>, series: Task, comes_back: bool) {
        let (Some(delayed), Some(shared), Some(timing)) = (self.delayed(), series.shared(), series.timing())
        else {
            return; // of another pool: it has run once, and dropping it is its end
        };
        if !self.may_run(delayed, true) {
            return series.cancel();
        }
        let (id, shared) = (series.id(), shared.clone());
        let due = timing.ended();
        delayed.insert(TimerTask::new(series), due); // A1, and A2 is the queue's lock
        // A cancel that came before this found no pool to tell, so it is for us to free the place. One that
        // comes after finds the pool, and reads under the queue's lock the place that `insert` wrote there.
        if !shared.entered_again(self.home.number()) && shared.state() == TaskState::Cancelled {
            self.cancelled(id, shared.place());
        }
        if !self.may_run(delayed, true) {
            // A3. If it is not there any more, others act on it: a worker, or whoever threw it out.
            if let Some(series) = delayed.take_back(id, Some(shared.place())) {
                series.cancel();
                series.drop_caught();
                self.after_removal();
            }
            return;
        }
        if self.control.load().workers() < self.core_size() {
            let _ = self.add_worker(None, Limit::Core); // there is one at least, this one
        }
        if !comes_back {
            delayed.ensure_watched(&self.idle);
        }
    }

    /// In shutdown: cancels and takes out what the policies do not let run, and what is cancelled already.
    pub(super) fn throw_out(&self) {
        let Some(delayed) = self.delayed() else { return };
        if self.control.load().is_running() {
            return;
        }
        let keep_periodic = delayed.keep_periodic.load(Ordering::SeqCst);
        let keep_delayed = delayed.keep_delayed.load(Ordering::SeqCst);
        let now = delayed.clock().tick();
        let thrown_out = delayed.remove_if(|task, due| {
            let keep = if task.timing().is_some() { keep_periodic } else { keep_delayed || due <= now };
            !keep || task.is_cancelled()
        });
        for task in thrown_out {
            task.cancel();
            self.forget_cancelled(task);
        }
    }
}

impl TimeListener for PoolInner {
    fn time_moved(&self) {
        if let Some(delayed) = self.delayed() {
            delayed.time_moved(&self.idle);
            self.wait_for_workers_on_their_way(delayed);
        }
    }
}

impl PoolInner {
    /// Those who slept have what is due. A worker that is awake and has no task is about to look, and takes what is due
    /// by itself; whoever moved the time may rely on that it has. Only for manual clocks, so for tests: a few yields
    /// are enough, and a thread that does not come at all is not waited for long.
    fn wait_for_workers_on_their_way(&self, delayed: &DelayedQueue) {
        const SEARCH_BUDGET: Duration = Duration::from_secs(1);
        if !cfg!(loom) {
            yield_while(SEARCH_BUDGET, || delayed.first_is_due() && self.has_worker_on_its_way());
        }
    }

    /// Some worker neither runs a task nor sleeps.
    fn has_worker_on_its_way(&self) -> bool {
        let active = self.workers.lock().active_count();
        self.control.load().workers() > active + self.idle.parked().all
    }
}

/// For the scheduled pool that has this one inside.
impl ThreadPoolExecutor {
    fn delayed(&self) -> &DelayedQueue {
        self.core().delayed().expect("made with a delayed queue")
    }

    /// The clock of a scheduled pool.
    pub(crate) fn clock(&self) -> &Clock {
        self.delayed().clock()
    }

    /// Takes `task` to be run when it is `due`. A refused series comes back as a task that runs once.
    #[inline]
    pub(crate) fn execute_at(&self, task: TimerTask, due: Tick) -> Result<(), Rejected> {
        self.core().admit_at(task, due).or_else(|refusal| self.refuse_at(*refusal))
    }

    /// After `execute_at` of a task whose handle was out before: a cancel that came too early found nothing in the queue to take out.
    /// It wrote the state, fenced and looked for the pool, and then in the queue; we have named the pool, put the task into the queue,
    /// and look at the state after a fence. So either it finds the task, or we find it cancelled.
    pub(crate) fn see_to_early_cancel(&self, shared: &Shared<dyn Tracked>) {
        fence(Ordering::SeqCst);
        if shared.state() == TaskState::Cancelled {
            self.core().cancelled(shared.id(), shared.place());
        }
    }

    #[cold]
    fn refuse_at(&self, refusal: Refusal) -> Result<(), Rejected> {
        let Refusal { task, reason, source } = refusal;
        self.refuse(Refusal { task: task.once(), reason, source })
    }

    /// The error for a task that is refused for a reason of its own.
    pub(crate) fn reject(&self, task: Task, reason: RejectReason) -> Rejected {
        let task = task.once();
        self.count_rejected(&task, reason);
        self.core().rejected(Refusal::new(task, reason))
    }

    pub(crate) fn removes_on_cancel(&self) -> bool {
        self.delayed().remove_on_cancel.load(Ordering::Relaxed)
    }

    pub(crate) fn set_removes_on_cancel(&self, remove: bool) {
        self.delayed().remove_on_cancel.store(remove, Ordering::Relaxed);
    }

    pub(crate) fn keeps_periodic(&self) -> bool {
        self.delayed().keep_periodic.load(Ordering::SeqCst)
    }

    pub(crate) fn set_keeps_periodic(&self, keep: bool) {
        self.set_policy(&self.delayed().keep_periodic, keep);
    }

    pub(crate) fn keeps_delayed(&self) -> bool {
        self.delayed().keep_delayed.load(Ordering::SeqCst)
    }

    pub(crate) fn set_keeps_delayed(&self, keep: bool) {
        self.set_policy(&self.delayed().keep_delayed, keep);
    }

    fn set_policy(&self, policy: &AtomicBool, keep: bool) {
        policy.store(keep, Ordering::SeqCst);
        self.core().queue.order(); // as B2: then the look at the run state and the queue
        if !keep {
            self.core().throw_out();
            self.core().after_removal();
        }
    }
}
