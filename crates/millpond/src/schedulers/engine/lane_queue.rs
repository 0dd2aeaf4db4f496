//! What a lane has ready: jobs come in here, and its runner takes the next one, without the scheduler's lock.
//!
//! The scheduler's lock is shared by all who submit and all who run, and with it goes from core to core all that is under it:
//! that takes as long as a small task. So a thread that runs a lane goes on with what is ready for a short time
//! ([`LaneRun`]), and tells the scheduler of all these runs at once. And a lane that runs, or is in line, lets some jobs in whose
//! places in the queue have been taken beforehand.
//!
//! Nobody can tell the difference. What is ready can be taken out as before, by whoever has the scheduler's lock and this one
//! (in this order), until the runner takes it; and whoever wants exact counts has them settled first (`State::settle`).
//! A run is counted here before those who wait for it are told.

use std::time::{Duration, Instant};

use super::lane::LaneRef;
use super::line::SlotQueue;
use super::slot::Assigned;
use crate::schedulers::job::{Job, Location};
use crate::sync::Arc;
use crate::sync::{SpinLock, SpinLockGuard};
use crate::task::Outcome;

/// What came to a lane without a delay, and what the lane runs.
#[derive(Debug)]
pub(super) struct LaneQueue(SpinLock<Jobs>);

#[derive(Debug)]
pub(super) struct Jobs {
    pub(super) line: SlotQueue<Arc<Job>>,
    pub(super) running: Option<Arc<Job>>,
    /// The last place in line that was given out.
    last: u64,
    /// So many jobs may still come in without the scheduler's lock: places in the queue that are taken already. Only a lane that
    /// runs, or will, and has nothing that is ordered by time, lets anybody in.
    reserved: u64,
    /// What the scheduler has not counted.
    uncounted: Uncounted,
}

/// What went on without the scheduler's lock.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Uncounted {
    /// Jobs that came in.
    pub(super) came: u64,
    /// Runs that ended, and after each of which the next job was taken from the line.
    pub(super) runs: Runs,
    /// Places that were taken for jobs which have not come, and will not.
    pub(super) unused: u64,
}

/// How runs ended.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Runs {
    pub(super) succeeded: u64,
    pub(super) panicked: u64,
    pub(super) cancelled: u64,
}

impl Runs {
    pub(super) fn count(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Succeeded => self.succeeded += 1,
            Outcome::Panicked => self.panicked += 1,
            Outcome::Cancelled => self.cancelled += 1,
        }
    }

    pub(super) fn all(self) -> u64 {
        self.succeeded + self.panicked + self.cancelled
    }
}

impl LaneQueue {
    pub(super) fn new() -> Arc<LaneQueue> {
        let line = SlotQueue::new();
        let uncounted = Uncounted::default();
        Arc::new(LaneQueue(SpinLock::new(Jobs { line, running: None, last: 0, reserved: 0, uncounted })))
    }

    pub(super) fn lock(&self) -> SpinLockGuard<'_, Jobs> {
        self.0.lock()
    }

    /// Puts a job in, if the lane lets it in without the scheduler's lock.
    pub(super) fn try_push(&self, lane: LaneRef, job: &Arc<Job>) -> bool {
        let mut jobs = self.lock();
        if jobs.reserved == 0 {
            return false;
        }
        jobs.reserved -= 1;
        jobs.uncounted.came += 1;
        jobs.push(lane, job);
        true
    }

    /// The runner's last job has ended: takes the next. `None`: there is none, and nothing has been counted.
    fn next(&self, outcome: Outcome) -> Option<Arc<Job>> {
        let mut jobs = self.lock();
        let job = jobs.line.pop()?;
        jobs.uncounted.runs.count(outcome);
        jobs.running = Some(Arc::clone(&job));
        job.set_spot(Location::Nowhere);
        Some(job)
    }
}

impl Jobs {
    pub(super) fn push(&mut self, lane: LaneRef, job: &Arc<Job>) {
        self.last += 1;
        self.line.push(self.last, Arc::clone(job));
        job.set_spot(Location::Ready(lane.index(), self.last));
    }

    /// Lets so many in.
    pub(super) fn open(&mut self, reserved: u64) {
        self.reserved += reserved;
    }

    /// Lets nobody in any more.
    pub(super) fn shut(&mut self) {
        self.uncounted.unused += std::mem::take(&mut self.reserved);
    }

    pub(super) fn is_open(&self) -> bool {
        self.reserved > 0
    }

    pub(super) fn take_uncounted(&mut self) -> Uncounted {
        std::mem::take(&mut self.uncounted)
    }
}

/// A lane's turn on a thread. It may run on until the time is over, if more was ready when it began.
#[derive(Debug)]
pub(super) struct LaneRun {
    lane: Option<Arc<LaneQueue>>,
    /// When it began. `None`: it has no end.
    begin: Option<Instant>,
}

/// As long as a wake-up takes: work that waits for the lane's thread does not notice.
const TIME: Duration = Duration::from_micros(50);

impl LaneRun {
    pub(super) fn of(handed: &mut Assigned) -> LaneRun {
        let lane = handed.more.take();
        // In a model time is not to be relied on.
        let begin = lane.as_ref().filter(|_| !cfg!(loom)).map(|_| Instant::now());
        LaneRun { lane, begin }
    }

    /// The lane's next job, if the turn is not over.
    pub(super) fn next(&self, outcome: Outcome) -> Option<Arc<Job>> {
        let lane = self.lane.as_ref()?;
        if self.begin.is_some_and(|begin| begin.elapsed() > TIME) {
            return None;
        }
        lane.next(outcome)
    }
}
