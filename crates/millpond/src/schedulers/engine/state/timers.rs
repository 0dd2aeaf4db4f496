//! [`Timers`]: delayed jobs without a lane, lanes that wait for a due time, and the time of the
//! next retry of a failed start.

use crate::schedulers::engine::model::{Due, LaneRef};
use crate::schedulers::job::JobRef;
use crate::task::TaskId;
use crate::time::clock::{Clock, Tick};
use crate::time::heap::{Key, TimerQueue};
use crate::time::wheel::{Look, TimerWheel};

#[derive(Debug)]
pub(super) struct Timers {
    clock: Clock,
    /// Delayed jobs without a lane.
    jobs: TimerWheel<JobRef>,
    /// The wheel has a bucket to open before its entries are due, or due work is left. Call
    /// `pop_due` again at this time.
    look_ahead: Option<Tick>,
    /// Lanes that wait for the due time of their next job.
    lanes: TimerQueue<LaneRef>,
    /// When failed thread starts are retried.
    retry: Option<Tick>,
    /// The time to which the alarm is set. If it is earlier than necessary, the alarm rings once
    /// without effect.
    alarm: Option<Tick>,
    /// The last number given to a timer. Timers with equal times are due in order of these numbers.
    last_number: u64,
}

impl Timers {
    pub(super) fn new(clock: Clock) -> Timers {
        Timers {
            clock,
            jobs: TimerWheel::new(u64::MAX),
            look_ahead: None,
            lanes: TimerQueue::new(),
            retry: None,
            alarm: None,
            last_number: 0,
        }
    }

    pub(super) fn clock(&self) -> &Clock {
        &self.clock
    }

    fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    // ---- jobs and lanes

    pub(super) fn add_job(&mut self, job: &JobRef, due: Tick) {
        if self.jobs.is_empty() {
            self.jobs.begin_at(self.clock.tick());
        }
        let number = self.next_number();
        self.jobs.insert(due, number, job.clone());
    }

    pub(super) fn remove_job(&mut self, job: &JobRef, key: Key) -> Option<JobRef> {
        self.jobs.remove(key.to_bits(), |other| job.is(other))
    }

    /// Returns the number of jobs without a lane.
    pub(super) fn jobs(&self) -> usize {
        self.jobs.len()
    }

    pub(super) fn find_task(&self, id: TaskId) -> Option<JobRef> {
        self.jobs.find(|job| job.is_of(id)).cloned()
    }

    /// Iterates over at most `limit` jobs without a lane, with their due times. Jobs that are due
    /// soon come first, the rest is unordered.
    pub(super) fn first_jobs(&self, limit: usize) -> impl Iterator<Item = (Tick, &JobRef)> {
        self.jobs.iter().take(limit)
    }

    /// Iterates over at most `limit` lanes, the one that is due first at the front.
    pub(super) fn first_lanes(&self, limit: usize) -> impl Iterator<Item = LaneRef> {
        self.lanes.iter().take(limit).map(|(_, lane)| *lane)
    }

    pub(super) fn add_lane(&mut self, lane: LaneRef, due: Tick) -> Key {
        let number = self.next_number();
        self.lanes.insert(due, number, lane)
    }

    pub(super) fn remove_lane(&mut self, key: Key) {
        self.lanes.remove(key);
    }

    /// Removes all timers and returns the jobs.
    pub(super) fn take_all(&mut self) -> Vec<JobRef> {
        while self.lanes.pop().is_some() {}
        self.look_ahead = None;
        self.jobs.take_out(|job, _| Ok(job))
    }

    /// Takes the first job or lane that is due by `now`, ordered by time and then by arrival.
    /// Returns at most `left` of them, except with a manual clock.
    pub(super) fn pop_due(&mut self, now: Tick, left: &mut usize) -> Option<Due> {
        if *left == 0 && !self.clock.tells() {
            self.look_ahead = Some(now);
            return None;
        }
        *left = left.saturating_sub(1);
        let mut look = self.jobs.look(now);
        // With a manual clock all work is done at once: its alarm rings on the thread that advances
        // it.
        while look == Look::Again || (look == Look::Ahead && self.clock.tells()) {
            look = self.jobs.look(now);
        }
        self.look_ahead = (look == Look::Ahead).then_some(now);
        let job = if look == Look::Due { self.jobs.first() } else { None };
        let lane = self.lanes.first().filter(|(due, _)| *due <= now);
        if job.is_some() && lane.is_none_or(|lane| job < Some(lane)) {
            return self.jobs.pop().map(|(due, job)| Due::Job(job, due));
        }
        lane?;
        self.lanes.pop().map(|(_, _, lane)| Due::Lane(lane))
    }

    // ---- retries of failed starts

    /// Sets the retry, but does not postpone one that is set.
    pub(super) fn set_retry(&mut self, at: Tick) {
        self.retry = Some(self.retry.map_or(at, |set| set.min(at)));
    }

    pub(super) fn has_retry(&self) -> bool {
        self.retry.is_some()
    }

    /// Clears the retry and returns true if its time has come.
    pub(super) fn take_retry(&mut self, now: Tick) -> bool {
        self.retry.take_if(|retry| *retry <= now).is_some()
    }

    // ---- the alarm

    /// Returns the earliest time at which a timer, the wheel or a retry needs attention.
    pub(super) fn next_time(&self) -> Option<Tick> {
        let timers = self.lanes.first_due().into_iter().chain(self.jobs.look_by());
        timers.chain(self.look_ahead).chain(self.retry).min()
    }

    /// Records that the alarm has rung.
    pub(super) fn alarm_rang(&mut self) {
        self.alarm = None;
    }

    /// Returns true if the alarm must be set to `at`. It is only moved to an earlier time.
    pub(super) fn needs_alarm(&self, at: Tick) -> bool {
        self.alarm.is_none_or(|set| at < set)
    }

    pub(super) fn alarm_set(&mut self, at: Tick) {
        self.alarm = Some(at);
    }
}
