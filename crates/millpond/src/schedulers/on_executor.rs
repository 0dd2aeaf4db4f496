//! Schedulers over existing executors.

use super::engine::{Plan, Shape, ThreadSource, new_scheduler};
use super::scheduler::Scheduler;
use crate::executor::{Executor, ExecutorService};
use crate::scheduled::ScheduledThreadPoolExecutor;
use crate::sync::Arc;
use crate::time::clock::Clock;

fn plan(name: &str, executor: Arc<dyn Executor>, owned: Option<Arc<dyn ExecutorService>>) -> Plan {
    Plan {
        name: name.to_owned(),
        registered_as: name.to_owned(),
        shape: Shape::Bursts,
        is_work_movable: false,
        max_slots: usize::MAX,
        queue_capacity: usize::MAX,
        source: ThreadSource::Executor { executor, owned },
        clock: Clock::system(),
        has_timing: false,
    }
}

/// Creates a scheduler that runs its work on `executor`. The scheduler never shuts the executor
/// down.
///
/// It has no timing: a delay or a period above zero is refused with
/// [`NotTimeCapable`](crate::RejectReason::NotTimeCapable). A worker with work occupies the
/// executor with one submission, even if it gets more tasks meanwhile. If the executor refuses, the
/// submission is refused with the same reason. If the executor has been shut down, the scheduler is
/// disposed too. A task that the executor drops counts as cancelled.
///
/// # Examples
/// ```
/// use millpond::executors;
/// use millpond::schedulers::{self, Scheduler, SchedulerExt};
///
/// let pool = executors::fixed(2)?;
/// let scheduler = schedulers::from_executor(pool.clone());
/// let lane = scheduler.create_worker();
/// lane.schedule(|| println!("one after"))?;
/// lane.schedule(|| println!("the other"))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn from_executor(executor: impl Executor + 'static) -> Arc<dyn Scheduler> {
    Arc::new(new_scheduler(plan("fromExecutor", Arc::new(executor), None)))
}

/// Creates a scheduler that runs its work on `service` and owns it: the end of the scheduler shuts
/// the service down.
///
/// When the last work is done, the scheduler shuts the service down, also if it ends by being
/// dropped. [`dispose`](Scheduler::dispose) shuts it down at once.
/// [`dispose_gracefully`](Scheduler::dispose_gracefully) then waits until the service has
/// terminated. The future of [`disposal`](Scheduler::disposal) does not, because waiting for a
/// service blocks a thread. So tasks that were submitted to the service directly may still run when
/// the future is ready; [`await_termination`](ExecutorService::await_termination) waits for those
/// too. In all other respects this is as [`from_executor`].
///
/// # Examples
/// ```
/// use millpond::executors;
/// use millpond::schedulers::{self, Scheduler, SchedulerExt};
/// use std::time::Duration;
///
/// let pool = executors::fixed(2)?;
/// let scheduler = schedulers::from_executor_service(pool.clone());
/// scheduler.schedule(|| println!("on a thread of the pool"))?;
/// assert!(scheduler.dispose_gracefully(Duration::MAX)?);
/// assert!(pool.is_terminated());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn from_executor_service(service: impl ExecutorService + 'static) -> Arc<dyn Scheduler> {
    let service = Arc::new(service);
    Arc::new(new_scheduler(plan("fromExecutorService", Arc::clone(&service) as _, Some(service))))
}

/// Creates a scheduler that runs its work on `pool` and owns it: the end of the scheduler shuts the
/// pool down.
///
/// It has timing, by the clock of the pool. In all other respects this is as
/// [`from_executor_service`].
///
/// # Examples
/// ```
/// use millpond::executors;
/// use millpond::schedulers::{self, Scheduler, SchedulerExt};
/// use std::time::Duration;
///
/// let scheduler = schedulers::from_scheduled_executor(executors::scheduled(1));
/// let later = scheduler.schedule_after(Duration::from_millis(5), || println!("later"))?;
/// assert!(later.wait(Duration::MAX)?);
/// assert!(scheduler.dispose_gracefully(Duration::MAX)?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn from_scheduled_executor(pool: ScheduledThreadPoolExecutor) -> Arc<dyn Scheduler> {
    let clock = pool.clock().clone();
    let pool = Arc::new(pool);
    let on_executor = plan("fromScheduledExecutor", Arc::clone(&pool) as _, Some(pool));
    Arc::new(new_scheduler(Plan { clock, has_timing: true, ..on_executor }))
}
