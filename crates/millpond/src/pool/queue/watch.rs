//! The workers that wait for due times of a delayed queue: the leader and the standby.

use std::time::Duration;

use super::super::idle::ParkSlot;
use crate::sync::Arc;
use crate::time::clock::Tick;

/// A worker that is parked, or about to park, and checks the queue at `until` at the latest.
pub(super) struct WatchingWorker {
    slot: Arc<ParkSlot>,
    until: Tick,
}

impl WatchingWorker {
    pub(super) fn new(slot: &Arc<ParkSlot>, until: Tick) -> Self {
        WatchingWorker { slot: Arc::clone(slot), until }
    }

    pub(super) fn slot(&self) -> Arc<ParkSlot> {
        Arc::clone(&self.slot)
    }

    pub(super) fn is_in_time(&self, due: Tick) -> bool {
        self.until <= due
    }

    fn is(&self, slot: &Arc<ParkSlot>) -> bool {
        Arc::ptr_eq(&self.slot, slot)
    }
}

/// The leader and the standby. Guarded by the queue's lock.
#[derive(Default)]
pub(super) struct Watchers {
    leader: Option<WatchingWorker>,
    standby: Option<WatchingWorker>,
}

impl Watchers {
    pub(super) fn leader(&self) -> Option<&WatchingWorker> {
        self.leader.as_ref()
    }

    /// Returns true if the leader or the standby checks the queue at `due` or before.
    pub(super) fn are_in_time(&self, due: Tick) -> bool {
        [&self.leader, &self.standby].into_iter().flatten().any(|watcher| watcher.is_in_time(due))
    }

    /// Adds a worker as leader if there is none, or if the leader wakes later than the new worker.
    /// Otherwise adds it as standby if there is none. Returns whether it leads, or `None` if it is
    /// not needed.
    pub(super) fn join(&mut self, new: WatchingWorker) -> Option<bool> {
        let leads = !self.leader.as_ref().is_some_and(|leader| leader.is_in_time(new.until));
        if !leads && self.standby.is_some() {
            return None;
        }
        let place = if leads { &mut self.leader } else { &mut self.standby };
        *place = Some(new);
        Some(leads)
    }

    /// Removes a worker. Returns false if it was neither leader nor standby.
    pub(super) fn leave(&mut self, slot: &Arc<ParkSlot>) -> bool {
        let led = self.leader.take_if(|leader| leader.is(slot));
        let stood_by = self.standby.take_if(|standby| standby.is(slot));
        led.or(stood_by).is_some()
    }
}

/// The due time that a leader or standby waits for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Watch {
    /// When the worker must wake.
    pub(super) until: Tick,
    /// The time from the due time of the previous entry to the due time of the awaited entry.
    pub(super) after: Duration,
}

impl Watch {
    /// Entries further apart than this need a wake-up each, even if the wake-up is late.
    const APART: Duration = Duration::from_micros(100);
    const TIGHT: Duration = Duration::from_micros(1);
    /// The default timer slack of Linux.
    const DEFAULT: Duration = Duration::from_micros(50);
    const SMALLEST: Duration = Duration::from_micros(20);

    /// Returns how late the worker may wake. Waking for each of many close timers costs more than
    /// running them, so it is better to wake late and find several. Idle workers reduce the slack.
    pub(super) fn slack(self, parked: usize) -> Duration {
        if self.after > Self::APART {
            return Self::TIGHT;
        }
        let pairs = u32::try_from(parked / 2).unwrap_or(u32::MAX);
        (Self::DEFAULT / pairs.saturating_add(1)).max(Self::SMALLEST)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn slack(after: Duration, parked: usize) -> Duration {
        Watch { until: Tick::NEVER, after }.slack(parked)
    }

    #[test]
    fn a_worker_that_watches_for_a_lone_timer_is_punctual() {
        for parked in [0, 1, 3, 9] {
            assert_eq!(slack(Duration::from_millis(1), parked), Watch::TIGHT);
        }
    }

    #[test]
    fn a_worker_that_watches_for_close_timers_has_slack_unless_others_are_idle() {
        let close = Duration::from_micros(5);
        assert_eq!([0, 1].map(|parked| slack(close, parked)), [Watch::DEFAULT; 2]);
        assert_eq!([2, 3].map(|parked| slack(close, parked)), [Watch::DEFAULT / 2; 2]);
        assert_eq!([4, 100].map(|parked| slack(close, parked)), [Watch::SMALLEST; 2]);
    }
}
