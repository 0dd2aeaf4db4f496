//! [`View`]: implements the scheduler interface for one instance and its workers.

use std::time::Duration;

use super::core::{Core, LaneRef};
use super::instance::Instance;
use crate::executor::{Rejected, SchedulerFacts};
use crate::schedulers::disposable::Disposable;
use crate::schedulers::end::{Ends, Lifecycle, OnLastDrop, Phase};
use crate::schedulers::handle::{Backend, Handle};
use crate::schedulers::stats::SchedulerStats;
use crate::schedulers::work::Submission;
use crate::schedulers::worker::{Lane, Worker};
use crate::sync::Arc;

/// One instance, with the core that it shares.
pub(super) struct View {
    core: Arc<Core>,
    instance: Arc<Instance>,
}

impl View {
    /// Creates the instance that owns the time.
    pub(super) fn root(name: Arc<str>) -> Handle<View> {
        let instance = Instance::new(name, true);
        View::handle(Core::new(Arc::clone(&instance)), instance)
    }

    /// Creates another instance that shares queue and time with this one.
    pub(super) fn sibling(&self, name: Arc<str>) -> Handle<View> {
        View::handle(Arc::clone(&self.core), Instance::new(name, false))
    }

    fn handle(core: Arc<Core>, instance: Arc<Instance>) -> Handle<View> {
        Handle::new(Arc::new(View { core, instance }))
    }

    pub(super) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    fn submit_to(
        &self,
        lane: Option<&LaneRef>,
        delay: Duration,
        work: impl Submission,
    ) -> Result<Disposable, Rejected> {
        if let Some(reason) = self.core.refusal(&self.instance, lane) {
            return Err(self.refused(Rejected::new(work.into_task(), reason)));
        }
        work.entered(self.core.owner_number(), u64::MAX);
        let job =
            work.into_job(delay, &|| self.core.job_owner()).map_err(|rejected| self.refused(rejected))?;
        match self.core.submit(&job, &self.instance, lane, delay) {
            Ok(()) => Ok(Disposable::of(job, self.core.job_owner())),
            Err(reason) => Err(self.refused(job.refused(reason))),
        }
    }

    fn refused(&self, rejected: Rejected) -> Rejected {
        self.core.count_rejected(&self.instance, rejected.reason());
        rejected.by_scheduler(SchedulerFacts { name: Arc::clone(self.instance.name()), full: None })
    }
}

impl Ends for View {
    fn lifecycle(&self) -> &Lifecycle {
        self.instance.lifecycle()
    }

    fn begin_drain(&self) {
        self.core.end(&self.instance, Phase::Draining);
    }

    fn has_ended(&self) -> bool {
        let counters = self.core.counters_of(&self.instance);
        self.is_disposed() && counters.queued() == 0 && counters.running() == 0
    }

    fn runs_on_this_thread(&self) -> bool {
        self.core.is_advanced_by_this_thread()
    }

    /// The last handle of the root disposes of it, because nothing can advance the time any more.
    fn abandoned(&self) {
        let is_root = self.instance.is_root();
        self.core.end(&self.instance, if is_root { Phase::Disposed } else { Phase::Draining });
    }
}

impl Backend for View {
    fn submit(self: &Arc<Self>, delay: Duration, work: impl Submission) -> Result<Disposable, Rejected> {
        self.submit_to(None, delay, work)
    }

    fn create_worker(handle: &Arc<OnLastDrop<Self>>) -> Worker {
        let view = Arc::clone(&**handle);
        let lane = LaneRef::default();
        if view.is_disposed() {
            view.core.close_lane(&lane);
        }
        let keeps = if view.instance.is_root() { None } else { Some(Arc::clone(handle)) };
        Worker::from_lane(Arc::new(VirtualLane { view, lane, _keeps: keeps }))
    }

    fn dispose(self: &Arc<Self>) {
        self.core.end(&self.instance, Phase::Disposed);
    }

    fn is_disposed(&self) -> bool {
        self.core.phase_of(&self.instance) != Phase::Live
    }

    fn stats(&self) -> SchedulerStats {
        let counters = self.core.counters_of(&self.instance);
        SchedulerStats { max_threads: 1, ..counters.stats(self.instance.name(), self.is_disposed()) }
    }
}

/// A worker of an instance.
struct VirtualLane {
    view: Arc<View>,
    lane: LaneRef,
    /// Workers keep an instance alive, but not the root, which is only useful while a handle can
    /// advance the time.
    _keeps: Option<Arc<OnLastDrop<View>>>,
}

impl Lane for VirtualLane {
    scheduling_methods!(jobs | it, delay, work | it.view.submit_to(Some(&it.lane), delay, work));

    fn dispose(&self) {
        self.view.core.close_lane(&self.lane);
    }

    fn is_disposed(&self) -> bool {
        self.view.core.refusal(&self.view.instance, Some(&self.lane)).is_some()
    }

    fn queued(&self) -> usize {
        self.view.core.queued_in(&self.lane)
    }
}
