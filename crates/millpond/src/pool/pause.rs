//! Pausing a pool: its workers take no tasks until it is resumed or shut down.
//!
//! The pause is a bit of the control word, which the worker loop reads anyway. A worker checks it
//! twice:
//!
//! - Before it takes a task. So tasks stay in the queue, where they can be cancelled, removed, or
//!   run inline by a worker that joins them.
//! - After it has taken a task, before it runs it. A worker that took a task while the pool was
//!   being paused holds it until the pool is resumed.
//!
//! So after `pause` has returned no task starts, except tasks whose worker has passed both checks.
//!
//! Race "pause / start": `pause` sets the bit. A worker takes a task and then reads the control
//! word (`run_one` in `worker`). Model: `no_task_starts_after_a_pause`.
//!
//! Race "resume / hold": a worker lists itself and then reads the bit. `resume` and `shutdown`
//! clear the bit, and then take the lock of the list. If the worker took the lock first, it is
//! notified. Otherwise it sees the bit cleared. Models:
//! `a_worker_that_holds_a_task_against_resume`, `pause_and_resume_against_submit`,
//! `pause_against_shutdown`.
//!
//! Submitters wake no worker of a paused pool. `resume` wakes all of them after it has cleared the
//! bit, and each calls `TaskQueue::order` before it reads the queue. A submitter that saw the bit
//! under the tail lock held that lock earlier, so the workers find its task.

use super::ThreadPoolExecutor;
use super::inner::PoolInner;
use crate::monitor::{Actor, Event};
use crate::sync::Arc;

impl PoolInner {
    pub(super) fn is_paused(&self) -> bool {
        self.control().load().is_paused()
    }

    /// Pauses the pool. Does nothing if the pool is paused or shut down.
    pub(super) fn pause(&self, by: &Actor) {
        if self.control().set_paused(true) {
            self.recheck_all(); // for workers that wait inside a queue or for a due time
            self.me().tell(&Event::Paused { by });
        }
    }

    /// Resumes the pool. Does nothing if the pool is not paused.
    pub(super) fn resume(self: &Arc<Self>, by: &Actor) {
        if self.control().set_paused(false) {
            self.recheck_all();
            self.held().notify_all();
            self.start_for_queued(usize::MAX); // submitters have started none
            self.me().tell(&Event::Resumed { by });
        }
    }

    /// Releases the held workers after the run state has advanced, which has ended the pause.
    pub(super) fn resumed_by_shutdown(&self) {
        self.held().notify_all();
        self.me().tell(&Event::Resumed { by: &Actor::new("the program", "shutdown") });
    }

    /// Blocks a worker that holds a task until the pool is resumed. The interrupt flag stays set.
    #[cold]
    pub(super) fn hold_while_paused(&self) {
        while self.is_paused() {
            self.held().wait_through_interrupts(|| !self.is_paused());
        }
    }
}

/// Pausing.
impl ThreadPoolExecutor {
    /// Pauses the pool: workers finish their current tasks and take no more until
    /// [`resume`](Self::resume). Does not block.
    ///
    /// After the call has returned no task starts, except one that a worker has already taken.
    /// Submissions follow the usual rules, but prefer the queue to a new thread. When the queue is
    /// full, idle workers and new threads up to the maximum take a task each and hold it. Then the
    /// rejection policy decides. A task that joins another task of this pool still runs it inline.
    /// Delayed tasks that become due wait too.
    ///
    /// A shutdown resumes the pool, so [`close`](Self::close) does not hang. A pool that is shut
    /// down cannot be paused.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    ///
    /// let pool = millpond::executors::fixed(1)?;
    /// pool.pause();
    /// let mut task = pool.submit(|| "ran")?;
    /// assert!(task.join_timeout(Duration::from_millis(5)).is_none());
    /// assert!(pool.is_paused() && pool.queued_count() == 1);
    /// pool.resume();
    /// assert_eq!(task.join()?, "ran");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn pause(&self) {
        self.pause_by(&Actor::default());
    }

    /// Like [`pause`](Self::pause), with an author and a reason for observers.
    pub fn pause_by(&self, by: &Actor) {
        self.inner().pause(by);
    }

    /// Ends a [`pause`](Self::pause): workers take tasks again. Does not block.
    pub fn resume(&self) {
        self.resume_by(&Actor::default());
    }

    /// Like [`resume`](Self::resume), with an author and a reason for observers.
    pub fn resume_by(&self, by: &Actor) {
        self.inner().resume(by);
    }

    /// Returns true while the pool is paused.
    pub fn is_paused(&self) -> bool {
        self.inner().is_paused()
    }
}
