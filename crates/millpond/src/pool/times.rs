//! Measured times of a pool: how long tasks wait, how long they run, and since when.
//!
//! Each worker measures its tasks in laps, see `monitor/laps.rs`. The first task of a lap
//! represents all of them: its wait time is the age of the queue's head when the lap began. A task
//! that a worker takes after a pause has its own acceptance time.

use std::time::Duration;

use super::inner::PoolInner;
use super::queue::TaskQueue;
use super::workers::Worker;
use crate::monitor::{FirstTask, PoolSnapshot, Timing};
use crate::time::clock::Tick;

/// Called by workers.
impl PoolInner {
    /// Counts a task that `worker` has finished. `inside` means that it ran inline inside another
    /// task.
    #[inline]
    pub(super) fn count_finished(&self, worker: &Worker, inside: bool) {
        if worker.laps().is_over(worker.counters().finish()) {
            self.next_lap(worker, inside);
        }
    }

    #[inline(never)]
    fn next_lap(&self, worker: &Worker, inside: bool) {
        let (laps, progress) = (worker.laps(), worker.progress());
        let Some(now) = self.meter().now() else {
            return laps.stop(self.meter(), progress);
        };
        let first = match inside {
            true => FirstTask::Outer,
            false => FirstTask::AcceptedAt(self.queue().head_since(now)),
        };
        let length = laps.next(self.meter(), progress, now, first);
        if let TaskQueue::Fifo(fifo) = self.queue() {
            fifo.space_marks(length);
        }
    }

    /// Pauses the lap of a worker that waits for work, and asks the queue to record the time of the
    /// next push.
    pub(super) fn pause_lap(&self, worker: &Worker) {
        if worker.laps().pause(self.meter(), worker.progress())
            && let TaskQueue::Fifo(fifo) = self.queue()
        {
            fifo.ask_for_mark();
        }
    }

    /// Resumes the lap of a worker that has taken a task, which was accepted at `since`.
    pub(super) fn resume_lap(&self, worker: &Worker, since: Option<Tick>) {
        worker.laps().resume(self.meter(), worker.progress(), since);
    }
}

/// Settings.
impl PoolInner {
    /// Starts or stops measuring. Called when the pool is built and when its settings change.
    pub(super) fn set_timing(&self, timing: Timing) {
        self.meter().set_timing(timing);
        if let TaskQueue::Fifo(fifo) = self.queue() {
            fifo.set_marks(timing != Timing::Off);
        }
        self.workers().iter().for_each(|worker| worker.laps().recheck());
    }
}

/// Called for snapshots.
impl PoolInner {
    /// Fills in all times. Closes the laps of workers that have no task, which counts their tasks.
    pub(super) fn read_times(&self, snapshot: &mut PoolSnapshot) {
        let now = self.meter().now();
        let head = now.and_then(|now| self.queue().head_since(now));
        let workers = self.workers();
        let (mut busy, mut oldest) = (workers.retired_busy(), None);
        for worker in workers.iter() {
            if worker.is_active() {
                oldest = [oldest, worker.laps().since()].into_iter().flatten().min();
                busy += worker.laps().busy(now);
            } else {
                if let Some(now) = now {
                    worker.laps().settle(self.meter(), now, worker.progress(), head);
                }
                busy += worker.laps().busy(None);
            }
        }
        drop(workers);
        let age = |since: Option<Tick>| now.zip(since).map(|(now, since)| now.since(since));
        (snapshot.oldest_wait, snapshot.longest_running) = (age(head), age(oldest));
        (snapshot.wait, snapshot.run) = (self.meter().wait(), self.meter().run());
        snapshot.busy = Duration::from_nanos(self.meter().report_busy(busy));
    }
}
