//! Schedulers over executors that are there already.

use super::Scheduler;
use super::engine::{Plan, Shape, Slots, ThreadSource};
use crate::executor::{Executor, ExecutorService};
use crate::scheduled::ScheduledThreadPoolExecutor;
use crate::sync::Arc;
use crate::time::clock::Clock;

fn plan(name: &str, executor: Arc<dyn Executor>, owned: Option<Arc<dyn ExecutorService>>) -> Plan {
    Plan {
        name: name.to_owned(),
        shape: Shape::Bursts,
        soft: false,
        max: usize::MAX,
        cap: usize::MAX,
        carrier: ThreadSource::Executor { executor, owned },
        clock: Clock::system(),
        timing: false,
    }
}

/// A scheduler that runs its work on `executor`, which stays yours: it is never shut down.
///
/// It has no timing: a delay or a period above zero is refused with
/// [`NotTimeCapable`](crate::RejectReason::NotTimeCapable). What a worker is given while it has work is one
/// submission to the executor. If the executor refuses, its reason passes through; if it has been shut down, the scheduler is
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
    Arc::new(Slots::new(plan("fromExecutor", Arc::new(executor), None)))
}

/// A scheduler that runs its work on `service` and owns it: disposing of the one shuts the other down.
///
/// However the scheduler ends, also if it is only dropped, the service is shut down when the scheduler's last work is done; by
/// [`dispose`](Scheduler::dispose) at once. [`dispose_gracefully`](Scheduler::dispose_gracefully) then waits until the service has terminated. The future of
/// [`disposal`](Scheduler::disposal) does not: a service cannot be asked to tell of that, only be waited for, so what others gave it may
/// still run when the future is ready; [`await_termination`](ExecutorService::await_termination) waits for that too. Otherwise as [`from_executor`].
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
    Arc::new(Slots::new(plan("fromExecutorService", Arc::clone(&service) as _, Some(service))))
}

/// A scheduler that runs its work on `pool` and owns it: disposing of the one shuts the other down.
///
/// It has timing, by the clock of the pool. Otherwise as [`from_executor_service`].
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
    Arc::new(Slots::new(Plan { clock, timing: true, ..on_executor }))
}
