//! Running work in place: a thread that waits for a job of its own scheduler runs the job itself.

use std::time::{Duration, Instant};

use super::Engine;
use super::model::{Assigned, Done};
use super::threads::{is_in_non_blocking_thread, mark_non_blocking};
use crate::interrupt::wait::WaitCell;
use crate::interrupt::{TaskFrame, ThreadContext};
use crate::monitor::nanos_between;
use crate::schedulers::job::{JobOwner, JobRef};
use crate::sync::Arc;
use crate::task::inline::run_inline;
use crate::task::{Help, Place, TaskId};
use crate::time::clock::Tick;

/// A thread that joins a task runs other jobs for this long before it checks its deadline.
const SLICE: Duration = Duration::from_millis(1);

impl Engine {
    /// Runs `job` inside the current task, after the jobs before it in its lane. Does nothing if
    /// the calling thread does not belong to this scheduler or the job cannot start now. Returns
    /// false if `stop` returned true before the job ran. It is checked before each run but the
    /// first: the lane of the job may always have one more job that is due earlier.
    pub(super) fn help_with(self: &Arc<Self>, job: &JobRef, stop: &dyn Fn() -> bool) -> bool {
        if !self.is_current() {
            return true;
        }
        while let Some(assigned) = self.locked(|state, deferred| state.claim(job, deferred)) {
            let is_done = assigned.job.is(job);
            self.run_in_place(assigned);
            if is_done {
                break;
            }
            if stop() {
                return false;
            }
        }
        true
    }

    /// As `help_with`, for a task that the calling thread joins. If the task cannot start now, the
    /// returned cell is notified when it can.
    pub(super) fn help_to_join(self: &Arc<Self>, id: TaskId, place: &Place) -> Help {
        let found = self.lock().find_task(id, place.get());
        let Some(job) = found else { return Help::Done };
        let cell = WaitCell::among_other_conditions();
        job.add_waiter(&cell); // before the check whether it can start, as in `Job::wait`
        let (me, began) = (ThreadContext::current(), Instant::now());
        if self.help_with(&job, &|| me.is_interrupted() || began.elapsed() > SLICE) {
            Help::WhenNotified(cell)
        } else {
            Help::NotBefore(Instant::now()) // the joiner checks its deadline and for an interrupt
        }
    }

    fn run_in_place(self: &Arc<Self>, assigned: Assigned) {
        let is_non_blocking = is_in_non_blocking_thread();
        run_inline(|| {
            mark_non_blocking(is_non_blocking); // `run_inline` may run this on another thread
            self.run_nested(assigned);
        });
    }

    /// Counts one run, but not as busy time: the thread is already busy with the task that waits.
    fn count_in_place(&self, since: Tick, began: Option<Tick>) {
        if let Some((began, now)) = began.zip(self.meter.now()) {
            self.meter.count_waits(nanos_between(since, began), 1);
            self.meter.count_runs(nanos_between(began, now), 1);
        }
    }

    fn run_nested(self: &Arc<Self>, assigned: Assigned) {
        let Assigned { job, lane, permit, since, .. } = assigned;
        let frame = TaskFrame::enter();
        let began = self.meter.now();
        let end = job.run(&mut |run| run(), &|task, panic| self.panicked(task, panic));
        drop(frame);
        if end.is_some() {
            self.count_in_place(since, began);
        }
        self.locked(|state, deferred| {
            state.finish(&Done::new(&job, lane, None, end), permit, deferred);
            state.end_if_done(deferred);
        });
        if end.is_some_and(|end| !end.again) {
            job.finish();
        }
    }
}
