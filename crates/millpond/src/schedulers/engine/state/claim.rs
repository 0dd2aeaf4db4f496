//! Taking work for a thread that waits for it, so that the thread runs it in place.

use super::State;
use super::lanes::LanePhase;
use crate::schedulers::engine::deferred::Deferred;
use crate::schedulers::engine::model::Assigned;
use crate::schedulers::job::{JobRef, Location};
use crate::task::TaskId;

impl State {
    /// Takes the work that must run next for `job` to be done: the job itself, or the first job of
    /// its lane. Returns `None` if it cannot run now.
    pub(crate) fn claim(&mut self, job: &JobRef, deferred: &mut Deferred) -> Option<Assigned> {
        let claimed = self.claim_startable(job, deferred)?;
        match claimed.lane {
            Some(lane) => self.lanes.begin_in_place(lane),
            None => self.in_place.push(claimed.job.clone()),
        }
        Some(claimed)
    }

    fn claim_startable(&mut self, job: &JobRef, deferred: &mut Deferred) -> Option<Assigned> {
        match job.location() {
            Location::Queued(index, place) => {
                let (permit, since) = self.remove_queued(index as usize, place)?;
                job.set_location(Location::Nowhere);
                self.counters.start();
                Some(Assigned::job(job.clone(), permit, since))
            }
            Location::Ready(lane, _) | Location::Later(lane, _) => {
                let lane = self.lanes.at(lane)?;
                let cell = self.lanes.get_mut(lane)?;
                // First: if the lane is queued again, this notifies the waiter.
                cell.add_awaited(job);
                if cell.phase() == LanePhase::Running {
                    return self.claim_assigned(|assigned| assigned.lane == Some(lane));
                }
                self.leave_queue(lane);
                self.lanes.get_mut(lane)?.set_phase(LanePhase::Queued); // it is started below
                self.start_lane_job(lane, deferred)
            }
            Location::Nowhere => self.claim_assigned(|assigned| assigned.job.is(job)),
            Location::Timers(_) => None,
        }
    }

    /// Takes work that is assigned to a thread which has not arrived and may never arrive. An
    /// executor whose only thread is the caller would never run it, nor would a paused scheduler.
    fn claim_assigned(&mut self, selected: impl Fn(&Assigned) -> bool) -> Option<Assigned> {
        let is_paused = self.is_paused;
        let mut slots = self.slots.iter_mut().filter(|slot| is_paused || slot.thread().is_absent());
        slots.find(|slot| slot.assigned().is_some_and(&selected))?.take_assigned()
    }

    /// Finds the waiting job of a task. `lane` is the index of its lane; any other number means no
    /// lane. Searches each queue from both ends, because most tasks are joined either soon after
    /// their submission or in its order.
    pub(crate) fn find_task(&self, id: TaskId, lane: u64) -> Option<JobRef> {
        let mut assigned = self.slots.iter().filter_map(|(_, slot)| Some(&slot.assigned()?.job));
        if let Some(job) = assigned.find(|job| job.is_of(id)) {
            return Some(job.clone());
        }
        if let Ok(lane) = u32::try_from(lane) {
            return self.lanes.get(self.lanes.at(lane)?)?.find_task(id);
        }
        self.queues.find_task(&self.slots, id).or_else(|| self.timers.find_task(id))
    }
}
