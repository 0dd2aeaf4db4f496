//! The ready jobs of a lane, behind a lock of their own.
//!
//! The scheduler's lock is shared by all submitters and all threads, and its cache lines move
//! between cores with it, which takes as long as a small task. Two things avoid it:
//! - The thread that runs a lane goes on with the next ready job, for up to 50 µs ([`LaneRun`]).
//! - A lane that runs or is queued accepts some jobs, whose places in the queue were reserved
//!   before.
//!
//! Invariants
//! 1. A thread that needs both locks takes the scheduler's lock first.
//! 2. A job is here until the runner takes it or a thread with both locks removes it.
//! 3. What happened without the scheduler's lock is in `unsettled` until a thread with both locks
//!    adds it to the scheduler's figures. A run is counted before its waiters are notified.

use std::time::{Duration, Instant};

use super::removal_queue::RemovalQueue;
use crate::monitor::{Meter, Pace, Timing};
use crate::schedulers::job::{JobRef, Location};
use crate::schedulers::stats::Outcomes;
use crate::sync::{Arc, SpinLock};
use crate::task::{Outcome, TaskId};
use crate::time::clock::Tick;

/// The jobs of a lane that came without a delay, and the job that runs.
#[derive(Debug)]
pub(super) struct LaneQueue(SpinLock<Jobs>);

#[derive(Debug)]
struct Jobs {
    /// With the time of acceptance.
    ready: RemovalQueue<(JobRef, Tick)>,
    stamps: Stamps,
    running: Option<JobRef>,
    /// The last place given out.
    last_place: u64,
    /// How many jobs may still come without the scheduler's lock: their places are taken. Above
    /// zero only in a lane that runs or is queued and has nothing ordered by time.
    reserved: u64,
    unsettled: Unsettled,
    /// No thread goes on with the next job.
    is_paused: bool,
}

/// The times of acceptance without the scheduler's lock. In a burst a few jobs share a reading of
/// the clock, which takes as long as the push.
#[derive(Debug)]
struct Stamps {
    /// With the last reading.
    pace: Pace,
    /// The place from which on that reading is too old.
    valid_before: u64,
}

impl Stamps {
    /// The jobs that share a reading at most. They are few, because a long job may run meanwhile.
    const MOST: u64 = 8;

    /// The time of acceptance of the job at `place`.
    fn stamp(&mut self, place: u64, meter: &Meter) -> Tick {
        if place >= self.valid_before {
            let most = if meter.timing() == Timing::Every { 1 } else { Self::MOST };
            let Some(now) = meter.now() else { return Tick::NEVER };
            self.valid_before = place + self.pace.next(place, now, most);
        }
        self.pace.last_reading()
    }
}

/// What happened in a lane without the scheduler's lock.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Unsettled {
    /// Jobs accepted.
    accepted: u64,
    /// Runs that ended, each followed by the start of the next ready job.
    outcomes: Outcomes,
    /// Reserved places that are not used any more.
    unused: u64,
}

impl Unsettled {
    pub(super) fn accepted(&self) -> u64 {
        self.accepted
    }

    pub(super) fn outcomes(&self) -> Outcomes {
        self.outcomes
    }

    /// Places to give back: each started job leaves one, and so does each unused reservation.
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

    /// Adds a job, if the lane accepts one without the scheduler's lock.
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

    /// Ends the run of the current job and starts the next one. Returns `None`, and changes
    /// nothing, if no job is ready or the scheduler is paused.
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

    // ---- with the scheduler's lock

    pub(super) fn push(&self, lane: u32, job: &JobRef, since: Tick) {
        self.0.lock().push(lane, job, since);
    }

    /// Starts the first ready job, or else what `later` returns: a job and since when it waits.
    /// Also returns whether more is ready. The next job that comes reads the clock.
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

    /// When the first ready job was accepted.
    pub(super) fn first_since(&self) -> Option<Tick> {
        self.0.lock().ready.first().map(|(_, since)| *since)
    }

    pub(super) fn set_paused(&self, is_paused: bool) {
        self.0.lock().is_paused = is_paused;
    }

    /// The current run has ended.
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

    /// Describes the running job, which may end as soon as this returns.
    pub(super) fn describe_running<R>(&self, describe: impl FnOnce(&JobRef) -> R) -> Option<R> {
        self.0.lock().running.as_ref().map(describe)
    }

    /// The ready job of a task, the newest first.
    pub(super) fn find_task(&self, id: TaskId) -> Option<JobRef> {
        let jobs = self.0.lock();
        jobs.ready.iter().rev().map(|(job, _)| job).find(|job| job.is_of(id)).cloned()
    }

    /// Describes the first ready jobs, with the time of acceptance. Looks at `limit` entries.
    pub(super) fn describe_ready(&self, limit: usize, mut describe: impl FnMut(&JobRef, Tick)) {
        let jobs = self.0.lock();
        let ready = jobs.ready.entries().take(limit).filter_map(|(_, entry)| entry);
        ready.for_each(|(job, since)| describe(job, *since));
    }

    /// Accepts jobs without the scheduler's lock: as many as `reserve` returns, unless it does so
    /// already.
    pub(super) fn open(&self, reserve: impl FnOnce() -> u64) {
        let mut jobs = self.0.lock();
        if jobs.reserved == 0 {
            jobs.reserved = reserve();
        }
    }

    /// Accepts nothing more without the scheduler's lock.
    pub(super) fn shut(&self) {
        self.0.lock().shut();
    }

    /// Shuts the lane and takes what is not settled.
    pub(super) fn settle(&self) -> Unsettled {
        let mut jobs = self.0.lock();
        jobs.shut();
        std::mem::take(&mut jobs.unsettled)
    }

    /// Takes what is not settled. Shuts the lane if no job is ready, and returns that too.
    ///
    /// One critical section: a job is seen here, or finds the lane shut and starts it again.
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

/// One run of a lane on a thread: several jobs, if more was ready when it began and its time is not
/// over.
#[derive(Debug)]
pub(super) struct LaneRun {
    queue: Option<Arc<LaneQueue>>,
    /// `None` if the run has no limit.
    began: Option<Instant>,
    is_late: bool,
}

/// The limit of a run: about as long as waking another thread takes, so that waiting work does not
/// notice.
const LIMIT: Duration = Duration::from_micros(50);

impl LaneRun {
    /// `queue` is that of the lane, if the run may have several jobs.
    pub(super) fn new(queue: Option<Arc<LaneQueue>>) -> LaneRun {
        // A model has no time.
        let began = queue.as_ref().filter(|_| !cfg!(loom)).map(|_| Instant::now());
        LaneRun { queue, began, is_late: false }
    }

    /// The next job of the lane, if the run goes on after one that ended with `outcome`.
    pub(super) fn next(&mut self, outcome: Outcome) -> Option<JobRef> {
        let queue = self.queue.as_ref()?;
        self.is_late = self.began.is_some_and(|began| began.elapsed() > LIMIT);
        if self.is_late { None } else { queue.run_next(outcome) }
    }

    /// Returns true if its time is over.
    pub(super) fn is_late(&self) -> bool {
        self.is_late
    }
}
