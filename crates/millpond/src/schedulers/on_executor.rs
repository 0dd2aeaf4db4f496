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

#[cfg(all(test, not(loom)))]
mod tests {
    use std::panic::panic_any;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;
    use crate::executor::Rejected;
    use crate::schedulers::{SchedulerExt, on_error, reset_on_error};
    use crate::task::Task;

    const LONG: Duration = Duration::from_secs(60);

    /// Runs the task of its first call in place. Panics in every later call.
    #[derive(Default)]
    struct RunsOne(AtomicUsize);

    impl Executor for RunsOne {
        fn execute_task(&self, task: Task) -> Result<(), Rejected> {
            if self.0.fetch_add(1, Ordering::Relaxed) > 0 {
                panic_any("the executor");
            }
            task.run();
            Ok(())
        }
    }

    /// The submitter of delayed work has returned, and the timer thread passes it to the courier.
    #[test]
    fn a_panic_of_an_executor_at_due_work_is_told_to_the_error_hooks_and_cancels_the_work() {
        let (tell, told) = mpsc::channel();
        on_error("due work", move |task, panic| {
            if task.name() == Some("due") {
                let thread = std::thread::current().name().map(str::to_owned);
                tell.send((panic.message().map(str::to_owned), thread)).expect("the test waits");
            }
        });
        let with_timing = Plan { has_timing: true, ..plan("panics", Arc::new(RunsOne::default()), None) };
        let scheduler = new_scheduler(with_timing);
        let first = scheduler.schedule(|| ()).expect("the executor accepts one");
        assert!(first.is_disposed() && !first.is_cancelled());
        for delay in [1, 2] {
            let due = Task::new(|| ()).named("due");
            let due =
                scheduler.schedule_task_after(Duration::from_millis(delay), due).expect("it is not due");
            let heard = told.recv_timeout(LONG).expect("the hook hears each panic");
            assert_eq!(heard, (Some("the executor".to_owned()), Some("millpond-courier".to_owned())));
            assert_eq!(due.wait(LONG), Ok(true));
            assert!(due.is_cancelled());
        }
        assert!(reset_on_error("due work"));
        assert_eq!(scheduler.dispose_gracefully(LONG), Ok(true));
        let stats = scheduler.stats();
        assert_eq!((stats.submitted, stats.completed, stats.cancelled, stats.queued), (3, 1, 2, 0));
    }
}
