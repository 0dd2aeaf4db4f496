//! Taking work for a thread that waits for it, to be run in place.

use super::State;
use super::lanes::LanePhase;
use crate::schedulers::engine::deferred::Deferred;
use crate::schedulers::engine::model::Assigned;
use crate::schedulers::job::{JobRef, Location};
use crate::task::TaskId;

impl State {
    /// Takes what has to run for `job` to be done: the job, or the first job of its lane. Returns
    /// `None` if it cannot run now.
    pub(crate) fn claim(&mut self, job: &JobRef, deferred: &mut Deferred) -> Option<Assigned> {
        let claimed = self.claim_startable(job, deferred)?;
        claimed.lane.into_iter().for_each(|lane| self.lanes.begin_in_place(lane));
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
                cell.add_awaited(job); // first: if the lane is queued again, the waiter is notified
                if cell.phase() == LanePhase::Running {
                    return self.claim_assigned(|assigned| assigned.lane == Some(lane));
                }
                self.leave_queue(lane);
                self.lanes.get_mut(lane)?.set_phase(LanePhase::Queued); // and its turn comes at once
                self.start_lane_job(lane, deferred)
            }
            Location::Nowhere => self.claim_assigned(|assigned| assigned.job.is(job)),
            Location::Timers(_) => None,
        }
    }

    /// Takes work that is assigned to a thread which has not come and may never come. An executor
    /// whose only thread is the caller would never run it, nor would a paused scheduler.
    fn claim_assigned(&mut self, selected: impl Fn(&Assigned) -> bool) -> Option<Assigned> {
        let is_paused = self.is_paused;
        let mut slots = self.slots.iter_mut().filter(|slot| is_paused || slot.thread().is_absent());
        slots.find(|slot| slot.assigned().is_some_and(&selected))?.take_assigned()
    }

    /// The waiting job of a task: in the lane with this index, or without one for any other number.
    /// Looks at the newest jobs first, because a task is mostly joined soon after its submission.
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
