//! [`LaneHandle`]: the engine's side of a [`Worker`].

use super::Engine;
use super::lane_queue::LaneQueue;
use super::model::LaneRef;
use crate::schedulers::end::OnLastDrop;
use crate::schedulers::handle::Backend;
use crate::schedulers::worker::{Lane, Worker};
use crate::sync::Arc;

/// Keeps its scheduler alive. On drop, the lane accepts no more jobs and finishes those it has.
pub(super) struct LaneHandle {
    engine: Arc<OnLastDrop<Engine>>,
    lane: LaneRef,
    queue: Arc<LaneQueue>,
}

impl LaneHandle {
    /// Creates a worker. If the scheduler has ended, the worker refuses every submission.
    pub(super) fn create(engine: &Arc<OnLastDrop<Engine>>) -> Worker {
        engine.prepare_alarm();
        let created = engine.locked(|state, _| state.create_lane());
        let (lane, queue) = created.unwrap_or_else(|| (LaneRef::CLOSED, LaneQueue::new()));
        Worker::from_lane(Arc::new(LaneHandle { engine: Arc::clone(engine), lane, queue }))
    }
}

impl Lane for LaneHandle {
    scheduling_methods!(
        jobs | it,
        delay,
        work | {
            let job = it.engine.make_job(delay, work, Some(it.lane.index));
            job.and_then(|job| it.engine.submit_to_lane(it.lane, &it.queue, delay, job))
        }
    );

    fn dispose(&self) {
        self.engine.locked(|state, deferred| {
            state.close_lane(self.lane, deferred);
            state.end_if_done(deferred);
        });
    }

    fn is_disposed(&self) -> bool {
        self.engine.is_disposed() || self.engine.lock().is_lane_closed(self.lane)
    }

    fn queued(&self) -> usize {
        self.engine.lock().lane_len(self.lane)
    }
}

impl Drop for LaneHandle {
    fn drop(&mut self) {
        self.engine.locked(|state, deferred| state.finish_lane(self.lane, deferred));
    }
}
