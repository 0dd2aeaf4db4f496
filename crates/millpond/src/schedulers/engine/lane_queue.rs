//! The ready jobs of a lane, guarded by a lock of their own.
//!
//! All submitters and all threads share the scheduler's lock. Moving its cache lines between cores
//! takes as long as a small task. Two mechanisms avoid that lock:
//! - The thread that runs a lane continues with the next ready job, for up to 50 µs ([`LaneRun`]).
//! - A lane that runs or is queued accepts a limited number of jobs directly. Their places in the
//!   queue capacity were reserved before.
//!
//! Invariants
//! 1. A thread that needs both locks takes the scheduler's lock first.
//! 2. A job is in this queue until the runner takes it or a thread that holds both locks removes
//!    it.
//! 3. Changes made without the scheduler's lock are recorded in `unsettled` until a thread that
//!    holds both locks adds them to the scheduler's figures. A run is counted before its waiters
//!    are notified.

use std::time::{Duration, Instant};

use super::removal_queue::RemovalQueue;
use crate::monitor::{Meter, Pace, Timing};
use crate::schedulers::job::{JobRef, Location};
use crate::schedulers::stats::Outcomes;
use crate::sync::{Arc, SpinLock};
use crate::task::{Outcome, TaskId};
use crate::time::clock::Tick;

/// The jobs of a lane that were submitted without a delay, and the running job.
#[derive(Debug)]
pub(super) struct LaneQueue(SpinLock<Jobs>);

#[derive(Debug)]
struct Jobs {
    /// Each job with its time of acceptance.
    ready: RemovalQueue<(JobRef, Tick)>,
    stamps: Stamps,
    running: Option<JobRef>,
    /// The number of the last job pushed. Numbers increase by one from job to job.
    last_place: u64,
    /// How many jobs may still be pushed without the scheduler's lock: their capacity is reserved.
    /// Above zero only in a lane that runs or is queued and has no job ordered by time.
    reserved: u64,
    unsettled: Unsettled,
    /// The scheduler is paused: the runner must not continue with the next job.
    is_paused: bool,
}

/// The times of acceptance of jobs pushed without the scheduler's lock. Reading the clock takes as
/// long as the push, so a few jobs of a burst share one reading.
#[derive(Debug)]
struct Stamps {
    /// Holds the last reading.
    pace: Pace,
    /// The reading is too old for the job at this place and all later ones.
    valid_before: u64,
}

impl Stamps {
    /// At most this many jobs share a reading. Few, because a long job may run between two pushes.
    const MOST: u64 = 8;

    /// Returns the time of acceptance for the job at `place`.
    fn stamp(&mut self, place: u64, meter: &Meter) -> Tick {
        if place >= self.valid_before {
            let most = if meter.timing() == Timing::Every { 1 } else { Self::MOST };
            let Some(now) = meter.now() else { return Tick::NEVER };
            self.valid_before = place + self.pace.next(place, now, most);
        }
        self.pace.last_reading()
    }
}

/// Changes in a lane that were made without the scheduler's lock.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Unsettled {
    /// Jobs accepted.
    accepted: u64,
    /// Runs that ended. Each was followed by the start of the next ready job.
    outcomes: Outcomes,
    /// Reserved places that will not be used.
    unused: u64,
}

impl Unsettled {
    pub(super) fn accepted(&self) -> u64 {
        self.accepted
    }

    pub(super) fn outcomes(&self) -> Outcomes {
        self.outcomes
    }

    /// Places to free: each started job frees one, and so does each unused reservation.
    pub(super) fn freed_places(&self) -> u64 {
        self.outcomes.total() + self.unused
    }
}

impl LaneQueue {
    pub(super) fn new() -> Arc<LaneQueue> {
        Arc::new(LaneQueue(SpinLock::new(Jobs {
            ready: RemovalQueue::new(),
            stamps: Stamps { pace: Pace::new(), valid_before: 0 },
            running: None,
            last_place: 0,
            reserved: 0,
            unsettled: Unsettled::default(),
            is_paused: false,
        })))
    }

    /// Pushes a job if the lane accepts one without the scheduler's lock. Returns false if not.
    pub(super) fn try_push(&self, lane: u32, job: &JobRef, meter: &Meter) -> bool {
        let mut jobs = self.0.lock();
        if jobs.reserved == 0 {
            return false;
        }
        jobs.reserved -= 1;
        jobs.unsettled.accepted += 1;
        let place = jobs.last_place + 1;
        let since = jobs.stamps.stamp(place, meter);
        jobs.push(lane, job, since);
        true
    }

    /// Ends the run of the current job and starts the next ready one. Returns `None` and changes
    /// nothing if no job is ready or the scheduler is paused.
    fn run_next(&self, outcome: Outcome) -> Option<JobRef> {
        let mut jobs = self.0.lock();
        if jobs.is_paused {
            return None;
        }
        let (job, _) = jobs.ready.pop()?;
        jobs.unsettled.outcomes.count(outcome);
        jobs.running = Some(job.clone());
        job.set_location(Location::Nowhere);
        Some(job)
    }

    // ---- called with the scheduler's lock held

    pub(super) fn push(&self, lane: u32, job: &JobRef, since: Tick) {
        self.0.lock().push(lane, job, since);
    }

    /// Starts the first ready job, or else the job that `later` returns, with the time since which
    /// it waits. Also returns whether more jobs are ready. The next push reads the clock.
    pub(super) fn start(
        &self,
        later: impl FnOnce() -> Option<(JobRef, Tick)>,
    ) -> Option<(JobRef, Tick, bool)> {
        let mut jobs = self.0.lock();
        jobs.stamps.valid_before = 0;
        let (job, since) = jobs.ready.pop().or_else(later)?;
        jobs.running = Some(job.clone());
        Some((job, since, !jobs.ready.is_empty()))
    }

    /// Returns when the first ready job was accepted.
    pub(super) fn first_since(&self) -> Option<Tick> {
        self.0.lock().ready.first().map(|(_, since)| *since)
    }

    pub(super) fn set_paused(&self, is_paused: bool) {
        self.0.lock().is_paused = is_paused;
    }

    /// Marks the current run as ended.
    pub(super) fn stop(&self) {
        self.0.lock().running = None;
    }

    pub(super) fn remove(&self, place: u64) -> Option<JobRef> {
        self.0.lock().ready.remove(place).map(|(job, _)| job)
    }

    pub(super) fn take_all(&self) -> impl Iterator<Item = JobRef> {
        self.0.lock().ready.take_all().map(|(job, _)| job)
    }

    pub(super) fn len(&self) -> usize {
        self.0.lock().ready.len()
    }

    pub(super) fn has_ready(&self) -> bool {
        !self.0.lock().ready.is_empty()
    }

    pub(super) fn running(&self) -> Option<JobRef> {
        self.0.lock().running.clone()
    }

    /// Calls `describe` with the running job, which may end as soon as this returns.
    pub(super) fn describe_running<R>(&self, describe: impl FnOnce(&JobRef) -> R) -> Option<R> {
        self.0.lock().running.as_ref().map(describe)
    }

    /// Finds the ready job of a task.
    pub(super) fn find_task(&self, id: TaskId) -> Option<JobRef> {
        let jobs = self.0.lock();
        jobs.ready.find(|(job, _)| job.is_of(id)).map(|(job, _)| job.clone())
    }

    /// Describes the first ready jobs with their times of acceptance. Reads at most `limit`
    /// entries.
    pub(super) fn describe_ready(&self, limit: usize, mut describe: impl FnMut(&JobRef, Tick)) {
        let jobs = self.0.lock();
        let ready = jobs.ready.entries().take(limit).filter_map(|(_, entry)| entry);
        ready.for_each(|(job, since)| describe(job, *since));
    }

    /// Reserves `reserve()` places for jobs pushed without the scheduler's lock, unless some are
    /// left.
    pub(super) fn open(&self, reserve: impl FnOnce() -> u64) {
        let mut jobs = self.0.lock();
        if jobs.reserved == 0 {
            jobs.reserved = reserve();
        }
    }

    /// Accepts no more jobs without the scheduler's lock.
    pub(super) fn shut(&self) {
        self.0.lock().shut();
    }

    /// Shuts the lane and takes the unsettled changes.
    pub(super) fn settle(&self) -> Unsettled {
        let mut jobs = self.0.lock();
        jobs.shut();
        std::mem::take(&mut jobs.unsettled)
    }

    /// Takes the unsettled changes. Also shuts the lane if no job is ready, and returns whether it
    /// did.
    ///
    /// This is one critical section. So a concurrent push is either seen here, or fails and its
    /// submitter restarts the lane under the scheduler's lock.
    pub(super) fn settle_and_shut_if_empty(&self) -> (Unsettled, bool) {
        let mut jobs = self.0.lock();
        let is_empty = jobs.ready.is_empty();
        if is_empty {
            jobs.shut();
        }
        (std::mem::take(&mut jobs.unsettled), is_empty)
    }
}

impl Jobs {
    fn push(&mut self, lane: u32, job: &JobRef, since: Tick) {
        self.last_place += 1;
        self.ready.push(self.last_place, (job.clone(), since));
        job.set_location(Location::Ready(lane, self.last_place));
    }

    fn shut(&mut self) {
        self.unsettled.unused += std::mem::take(&mut self.reserved);
    }
}

/// One run of a lane on a thread. It covers several jobs if more were ready when it began and its
/// time limit has not passed.
#[derive(Debug)]
pub(super) struct LaneRun {
    queue: Option<Arc<LaneQueue>>,
    /// When the run began. `None` if the run has one job only, and in models.
    began: Option<Instant>,
    is_late: bool,
}

/// The time limit of a run: about as long as waking another thread takes, so other waiting work is
/// hardly delayed.
const LIMIT: Duration = Duration::from_micros(50);

impl LaneRun {
    /// `queue` is the queue of the lane, or `None` if the run is limited to one job.
    pub(super) fn new(queue: Option<Arc<LaneQueue>>) -> LaneRun {
        // Models have no clock.
        let began = queue.as_ref().filter(|_| !cfg!(loom)).map(|_| Instant::now());
        LaneRun { queue, began, is_late: false }
    }

    /// Returns the next job of the lane if the run continues. `outcome` is that of the previous
    /// job.
    pub(super) fn next(&mut self, outcome: Outcome) -> Option<JobRef> {
        let queue = self.queue.as_ref()?;
        self.is_late = self.began.is_some_and(|began| began.elapsed() > LIMIT);
        if self.is_late { None } else { queue.run_next(outcome) }
    }

    /// Returns true if the run ended because of its time limit.
    pub(super) fn is_late(&self) -> bool {
        self.is_late
    }
}
