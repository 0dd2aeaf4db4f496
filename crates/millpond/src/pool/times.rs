//! What a pool measures: how long tasks wait, how long they run, and since when.
//!
//! Each worker measures its tasks by laps, see `monitor/laps.rs`. The first task of a lap stands
//! for the others: it waited since the task at the head of the queue was accepted when the lap
//! began. A task that a worker gets after a pause comes with its own time.

use std::time::Duration;

use super::inner::PoolInner;
use super::queue::TaskQueue;
use super::workers::Worker;
use crate::monitor::{FirstTask, PoolSnapshot, Timing};
use crate::time::clock::Tick;

/// For workers.
impl PoolInner {
    /// Counts a task that `worker` has finished. `inside`: it ran inside another one.
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
            return laps.stop(progress.finished);
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

    /// The worker waits for work. The next push should say when it was.
    pub(super) fn pause_lap(&self, worker: &Worker) {
        if worker.laps().pause(self.meter(), worker.progress())
            && let TaskQueue::Fifo(fifo) = self.queue()
        {
            fifo.ask_for_mark();
        }
    }

    /// The worker has got a task that was accepted at `since`.
    pub(super) fn resume_lap(&self, worker: &Worker, since: Option<Tick>) {
        worker.laps().resume(self.meter(), worker.progress(), since);
    }
}

/// Settings.
impl PoolInner {
    /// Begins or ends measuring, when the pool is made and later.
    pub(super) fn set_timing(&self, timing: Timing) {
        self.meter().set_timing(timing);
        if let TaskQueue::Fifo(fifo) = self.queue() {
            fifo.set_marks(timing != Timing::Off);
        }
        self.workers().iter().for_each(|worker| worker.laps().recheck());
    }
}

/// For snapshots.
impl PoolInner {
    /// Fills in all times. Counts the tasks of workers that run none now.
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
