//! A room: one scheduler as its user sees it, with its own end and its own figures.

use std::time::Duration;

use super::core::{Core, Item, LaneCell, State, Whose};
use crate::executor::{Rejected, SchedulerFacts};
use crate::schedulers::hooks;
use crate::schedulers::job::{Disposable, Job, JobOwner, Work};
use crate::schedulers::waiters::{Ends, Waiters};
use crate::sync::{Arc, Mutex, Weak};
use crate::task::periodic::Schedule;

/// One scheduler, as its user sees it.
pub(super) struct VirtualInstance {
    pub(super) name: Arc<str>,
    pub(super) core: Arc<Core>,
    /// It stands for all rooms: its end is theirs, and its figures are the sums.
    pub(super) whole: bool,
    /// Locked only under the lock of the core.
    pub(super) cell: Mutex<RoomCell>,
}

#[derive(Default)]
pub(super) struct RoomCell {
    pub(super) phase: Phase,
    pub(super) figures: Figures,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    #[default]
    Live,
    /// Takes nothing more, and works off what it has.
    Draining,
    /// Has thrown away what waited.
    Disposed,
}

#[derive(Default, Clone, Copy)]
pub(super) struct Figures {
    pub(super) submitted: u64,
    pub(super) completed: u64,
    pub(super) panicked: u64,
    pub(super) cancelled: u64,
    pub(super) rejected: u64,
    pub(super) queued: u64,
    pub(super) running: u64,
}

impl VirtualInstance {
    pub(super) fn submit(
        self: &Arc<Self>,
        lane: Option<&Arc<Mutex<LaneCell>>>,
        work: Work,
        delay: Duration,
        rhythm: Option<Schedule>,
    ) -> Result<Disposable, Rejected> {
        let core = &self.core;
        let refusal = core.lock().refusal(self, lane);
        if let Some(reason) = refusal {
            return Err(self.refused(Job::new(work, rhythm).refused(reason)));
        }
        work.entered(core.address.number(), u64::MAX);
        let work = hooks::pass_schedule_hooks(work).map_err(|rejected| self.refused(rejected))?;
        let job = Job::new(work, rhythm);
        let mut state = core.lock();
        if let Some(reason) = state.refusal(self, lane) {
            drop(state);
            return Err(self.refused(job.refused(reason)));
        }
        let item = Item { job: Arc::clone(&job), room: Arc::clone(self), lane: lane.cloned() };
        let due = state.now.plus(delay);
        state.accept(item, Some(due));
        drop(state);
        Ok(Disposable::of(job, Weak::clone(&core.me) as Weak<dyn JobOwner>))
    }

    fn refused(&self, rejected: Rejected) -> Rejected {
        self.core.lock().count(self, |figures| figures.rejected += 1);
        rejected.by_scheduler(SchedulerFacts { name: Arc::clone(&self.name), full: None })
    }

    fn enter_phase(&self, state: &mut State, phase: Phase) {
        let mut cell = self.cell.lock();
        cell.phase = cell.phase.max(phase);
        if self.whole {
            state.phase = state.phase.max(phase);
        }
    }

    pub(super) fn dispose(&self) {
        let mut state = self.core.lock();
        self.enter_phase(&mut state, Phase::Disposed);
        self.core.throw_out(state, Whose::VirtualInstance(self));
    }

    pub(super) fn is_disposed(&self) -> bool {
        self.core.lock().phase_of(self) != Phase::Live
    }
}

impl Ends for VirtualInstance {
    fn begin_drain(&self) {
        let mut state = self.core.lock();
        self.enter_phase(&mut state, Phase::Draining);
        let jobs = state.take_out(Whose::VirtualInstance(self), true);
        let running = state.running_of(Whose::VirtualInstance(self));
        drop(state);
        jobs.iter().for_each(|job| job.cancel_taken_out());
        running.iter().filter(|job| job.is_series()).for_each(|job| job.end_series());
        self.core.waiters.wake_all();
    }

    fn has_ended(&self) -> bool {
        let state = self.core.lock();
        let figures = state.figures_of(self);
        state.phase_of(self) != Phase::Live && figures.queued == 0 && figures.running == 0
    }

    fn waiters(&self) -> &Waiters {
        &self.core.waiters
    }
}
