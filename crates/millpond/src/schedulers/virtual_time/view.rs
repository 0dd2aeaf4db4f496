//! A scheduler over a room, and its workers.

use std::future::Future;
use std::pin::Pin;
use std::thread;
use std::time::Duration;

use super::core::{Core, LaneCell, Whose};
use super::instance::{Phase, VirtualInstance};
use crate::executor::Rejected;
use crate::interrupt::Interrupted;
use crate::schedulers::job::{Disposable, Work};
use crate::schedulers::waiters::{Disposal, Ends};
use crate::schedulers::{Lane, PeriodicTask, Scheduler, SchedulerStats, Worker};
use crate::sync::{Arc, Mutex};
use crate::task::Task;

/// A scheduler over a room. A cheap handle.
#[derive(Clone)]
pub(super) struct View {
    pub(super) handle: Arc<Handle>,
}

impl View {
    pub(super) fn new(name: Arc<str>, core: Arc<Core>, whole: bool) -> View {
        let room = Arc::new(VirtualInstance { name, core, whole, cell: Mutex::default() });
        View { handle: Arc::new(Handle { room }) }
    }
}

/// When it goes nobody can submit to the room any more. That of the whole has the time with it.
pub(super) struct Handle {
    pub(super) room: Arc<VirtualInstance>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.room.whole {
            self.room.dispose(); // nobody can advance the time any more
        } else {
            self.room.begin_drain();
        }
    }
}

impl Scheduler for View {
    fn schedule_task(&self, task: Task) -> Result<Disposable, Rejected> {
        self.schedule_task_after(Duration::ZERO, task)
    }

    fn schedule_task_after(&self, delay: Duration, task: Task) -> Result<Disposable, Rejected> {
        self.handle.room.submit(None, Work::Once(task), delay, None)
    }

    fn schedule_periodically_task(
        &self,
        initial: Duration,
        period: Duration,
        task: PeriodicTask,
    ) -> Result<Disposable, Rejected> {
        let (work, rhythm) = task.into_series(period);
        self.handle.room.submit(None, work, initial, Some(rhythm))
    }

    fn create_worker(&self) -> Worker {
        let room = Arc::clone(&self.handle.room);
        let cell = Arc::new(Mutex::new(LaneCell { closed: room.is_disposed(), queued: 0 }));
        let keeps = if room.whole { None } else { Some(Arc::clone(&self.handle)) };
        Worker::from_lane(Arc::new(VirtualLane { room, cell, _keeps: keeps }))
    }

    fn dispose(&self) {
        self.handle.room.dispose();
    }

    fn dispose_gracefully(&self, timeout: Duration) -> Result<bool, Interrupted> {
        let room = &self.handle.room;
        room.begin_drain();
        if room.core.lock().advancing == Some(thread::current().id()) {
            return Ok(room.has_ended()); // it would wait for itself
        }
        room.core.waiters.wait(timeout, || room.has_ended())
    }

    fn disposal(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(Disposal::new(Arc::clone(&self.handle.room)))
    }

    fn is_disposed(&self) -> bool {
        self.handle.room.is_disposed()
    }

    fn stats(&self) -> SchedulerStats {
        let room = &self.handle.room;
        let state = room.core.lock();
        let figures = state.figures_of(room);
        SchedulerStats {
            name: room.name.to_string(),
            disposed: state.phase_of(room) != Phase::Live,
            max_threads: 1,
            remaining_capacity: u64::MAX,
            queued: figures.queued,
            submitted: figures.submitted,
            completed: figures.completed,
            panicked: figures.panicked,
            cancelled: figures.cancelled,
            rejected: figures.rejected,
            ..SchedulerStats::default()
        }
    }
}

/// What a worker holds.
struct VirtualLane {
    room: Arc<VirtualInstance>,
    cell: Arc<Mutex<LaneCell>>,
    /// A room lives as long as its workers; the whole as long as somebody can advance it.
    _keeps: Option<Arc<Handle>>,
}

impl Lane for VirtualLane {
    fn schedule_task(&self, task: Task) -> Result<Disposable, Rejected> {
        self.schedule_task_after(Duration::ZERO, task)
    }

    fn schedule_task_after(&self, delay: Duration, task: Task) -> Result<Disposable, Rejected> {
        self.room.submit(Some(&self.cell), Work::Once(task), delay, None)
    }

    fn schedule_periodically_task(
        &self,
        initial: Duration,
        period: Duration,
        task: PeriodicTask,
    ) -> Result<Disposable, Rejected> {
        let (work, rhythm) = task.into_series(period);
        self.room.submit(Some(&self.cell), work, initial, Some(rhythm))
    }

    fn dispose(&self) {
        let state = self.room.core.lock();
        self.cell.lock().closed = true;
        self.room.core.throw_out(state, Whose::Lane(&self.cell));
    }

    fn is_disposed(&self) -> bool {
        let state = self.room.core.lock();
        state.refusal(&self.room, Some(&self.cell)).is_some()
    }

    fn queued(&self) -> usize {
        let _state = self.room.core.lock();
        self.cell.lock().queued
    }
}
