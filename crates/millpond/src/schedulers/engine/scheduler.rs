//! [`Slots`]: a scheduler on the engine, and its graceful end as a future.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use super::intake::Order;
use super::lane::LaneHandle;
use super::state::EndWaiter;
use super::{Engine, Handle, Plan, thread};
use crate::executor::Rejected;
use crate::interrupt::Interrupted;
use crate::periodic::PeriodicTask;
use crate::schedulers::job::{Disposable, Work};
use crate::schedulers::{Scheduler, SchedulerStats, Worker};
use crate::sync::Arc;
use crate::task::Task;

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
        let (info, body, rhythm) = task.into_series(period);
        let order = Order { info, work: Work::Body(body), delay: initial, rhythm: Some(rhythm) };
        self.engine().submit_series(order)
    }

    fn create_worker(&self) -> Worker {
        let lane = self.engine().create_lane();
        Worker::from_lane(Arc::new(LaneHandle { handle: Arc::clone(&self.handle), lane }))
    }

    fn dispose(&self) {
        self.engine().dispose();
    }

    fn dispose_gracefully(&self, timeout: Duration) -> Result<bool, Interrupted> {
        let engine = self.engine();
        engine.begin_drain();
        if thread::is_current(engine) {
            return Ok(false); // it would wait for itself
        }
        engine.wait_for_end(timeout)
    }

    fn disposal(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(Disposal { engine: Arc::clone(self.engine()) })
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

/// The graceful end as a future.
struct Disposal {
    engine: Arc<Engine>,
}

impl Future for Disposal {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let engine = &self.engine;
        engine.begin_drain();
        let mut state = engine.lock();
        if state.has_ended() {
            drop(state);
            engine.join_threads();
            engine.carrier.retire(false);
            return Poll::Ready(());
        }
        let waker = context.waker();
        let known = |waiter: &EndWaiter| matches!(waiter, EndWaiter::Task(task) if task.will_wake(waker));
        if !state.waiting_for_end.iter().any(known) {
            state.waiting_for_end.push(EndWaiter::Task(waker.clone()));
        }
        Poll::Pending
    }
}
