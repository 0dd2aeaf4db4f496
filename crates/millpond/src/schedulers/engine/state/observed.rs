//! The figures that observers read from the state of a scheduler.

use std::time::Duration;

use super::State;
use super::slot::Slot;
use crate::monitor::{PoolStats, RejectedBy, RunState, Settings, nanos_between};
use crate::schedulers::end::Phase;
use crate::schedulers::engine::model::Item;
use crate::time::clock::Tick;

/// How long the current work has waited and run.
pub(crate) struct Ages {
    now: Option<Tick>,
    /// Since when the oldest job that could start has been waiting.
    waiting: Option<Tick>,
    /// When the lap of the longest run began: not later than that run.
    running: Option<Tick>,
    busy: u64,
}

impl Ages {
    pub(crate) fn oldest_wait(&self) -> Option<Duration> {
        self.age(self.waiting)
    }

    pub(crate) fn longest_running(&self) -> Option<Duration> {
        self.age(self.running)
    }

    pub(crate) fn busy(&self) -> Duration {
        Duration::from_nanos(self.busy)
    }

    fn age(&self, since: Option<Tick>) -> Option<Duration> {
        self.now.zip(since).map(|(now, since)| now.since(since))
    }
}

impl State {
    /// Reads the head of each queue, each slot, and the lanes that run.
    pub(crate) fn ages(&self) -> Ages {
        let now = self.meter.now();
        let mut ages = Ages { now, waiting: None, running: None, busy: self.meter.busy() };
        let Some(now) = now else { return ages };
        let mut wait = |since: Option<Tick>| {
            let since = since.filter(|since| *since != Tick::NEVER);
            ages.waiting = ages.waiting.into_iter().chain(since).min();
        };
        let first_since = |lane| self.lanes.get(lane).and_then(|cell| cell.first_since(now));
        let pinned = self.slots.iter().map(|(_, slot)| slot.pinned().first());
        for item in pinned.chain([self.queues.first_shared()]).flatten() {
            wait(match item {
                Item::Job(.., since) => Some(*since),
                Item::Lane(lane, _) => first_since(*lane),
            });
        }
        for (_, slot) in self.slots.iter() {
            wait(slot.assigned().map(|assigned| assigned.since));
            wait(slot.lane().and_then(first_since));
        }
        self.lanes.in_place().for_each(|lane| wait(first_since(lane)));
        for began in self.slots.iter().filter_map(|(_, slot)| slot.lap().opened()) {
            ages.running = ages.running.into_iter().chain([began]).min();
            ages.busy += nanos_between(began, now);
        }
        ages
    }

    /// Returns the number of tasks that wait for a thread or for their due time.
    pub(super) fn queued_count(&mut self) -> usize {
        self.settle_all();
        self.counters.queued() as usize + self.slots_with_work().1
    }

    /// Returns the figures of the scheduler as a pool; see `SchedulerStats`.
    pub(crate) fn pool_stats(&mut self, settings: &Settings) -> PoolStats {
        let stats = self.stats();
        let (active, stuck) = self.slots_with_work();
        let running = self.counters.running() as usize;
        PoolStats {
            state: self.run_state(),
            core_pool_size: settings.core_pool_size,
            maximum_pool_size: settings.maximum_pool_size,
            keep_alive_time: settings.keep_alive_time,
            pool_size: stats.live_threads,
            active_count: active,
            in_place_count: running.saturating_sub(active + stuck),
            largest_pool_size: self.end.largest(),
            queued_count: stats.queued as usize + stuck,
            remaining_queue_capacity: usize::try_from(stats.remaining_capacity).unwrap_or(usize::MAX),
            submitted: stats.submitted,
            completed: stats.completed,
            panicked: stats.panicked,
            cancelled: stats.cancelled,
            rejected: stats.rejected,
            handed_back: 0,
            expired: 0,
            periodic_ended_by_panic: self.series_ended,
        }
    }

    fn run_state(&self) -> RunState {
        match self.phase() {
            _ if self.has_ended() => RunState::Terminated,
            Phase::Live => RunState::Running,
            Phase::Draining => RunState::Shutdown,
            Phase::Disposed => RunState::Stop,
        }
    }

    /// Counts the slots that have work: those whose thread runs it or will run it, and those whose
    /// assigned task waits because of a failed start or a pause.
    fn slots_with_work(&self) -> (usize, usize) {
        let has_work = |slot: &&Slot| slot.assigned().is_some() || slot.running().is_some();
        let with_work = self.slots.iter().map(|(_, slot)| slot).filter(has_work);
        with_work.fold((0, 0), |(active, stuck), slot| {
            let is_active = slot.running().is_some() || !self.is_assigned_waiting(slot);
            if is_active { (active + 1, stuck) } else { (active, stuck + 1) }
        })
    }

    /// Returns the number of tasks in timers and in `later` queues of lanes.
    pub(crate) fn delayed(&self) -> usize {
        self.timers.jobs() + self.lanes.later()
    }

    pub(crate) fn rejected(&self) -> RejectedBy {
        RejectedBy::default().by_reason(self.counters.rejected())
    }

    /// Returns how many own threads have arrived, and how many could not be started.
    pub(crate) fn starts(&self) -> (u64, u64) {
        self.end.starts()
    }

    /// Counts an own thread that has arrived or could not be started.
    pub(crate) fn count_start(&mut self, has_arrived: bool) {
        self.end.count_start(has_arrived);
    }
}
