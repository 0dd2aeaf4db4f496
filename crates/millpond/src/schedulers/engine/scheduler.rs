//! [`Slots`]: a scheduler on the engine.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use super::lane::LaneHandle;
use super::submit::Order;
use super::{Engine, Handle, Plan, threads};
use crate::executor::Rejected;
use crate::interrupt::Interrupted;
use crate::schedulers::job::Disposable;
use crate::schedulers::waiters::Disposal;
use crate::schedulers::{Scheduler, SchedulerStats, Worker};
use crate::sync::Arc;
use crate::task::Task;
use crate::task::periodic::PeriodicTask;

/// A scheduler on the engine. A cheap handle.
#[derive(Clone)]
pub(in crate::schedulers) struct Slots {
    handle: Arc<Handle>,
}

impl Slots {
    pub(in crate::schedulers) fn new(plan: Plan) -> Slots {
        Slots { handle: Arc::new(Handle { engine: Engine::new(plan) }) }
    }

    fn engine(&self) -> &Arc<Engine> {
        &self.handle.engine
    }
}

impl Scheduler for Slots {
    fn schedule_task(&self, task: Task) -> Result<Disposable, Rejected> {
        self.engine().submit(task, Duration::ZERO)
    }

    fn schedule_task_after(&self, delay: Duration, task: Task) -> Result<Disposable, Rejected> {
        self.engine().submit(task, delay)
    }

    fn schedule_periodically_task(
        &self,
        initial: Duration,
        period: Duration,
        task: PeriodicTask,
    ) -> Result<Disposable, Rejected> {
        let (work, rhythm) = task.into_series(period);
        let order = Order { work, delay: initial, rhythm: Some(rhythm), lane: None };
        self.engine().submit_series(order)
    }

    fn create_worker(&self) -> Worker {
        let (lane, ready) = self.engine().create_lane();
        Worker::from_lane(Arc::new(LaneHandle { handle: Arc::clone(&self.handle), lane, ready }))
    }

    fn dispose(&self) {
        self.engine().dispose();
    }

    fn dispose_gracefully(&self, timeout: Duration) -> Result<bool, Interrupted> {
        let engine = self.engine();
        engine.begin_drain();
        if threads::is_current(engine) {
            return Ok(false); // it would wait for itself
        }
        engine.wait_for_end(timeout)
    }

    fn disposal(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(Disposal::new(Arc::clone(self.engine())))
    }

    fn is_disposed(&self) -> bool {
        self.engine().is_disposed()
    }

    fn stats(&self) -> SchedulerStats {
        self.engine().stats()
    }
}

impl fmt::Debug for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stats().fmt(f)
    }
}

impl fmt::Display for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.engine().name)
    }
}
