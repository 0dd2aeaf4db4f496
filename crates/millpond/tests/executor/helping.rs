//! Workers that wait in a completion service for tasks of their own pool or scheduler.

use std::sync::mpsc;
use std::time::Duration;

use crate::support::{LONG, SHORT, interrupt_myself};
use millpond::schedulers::{self, Scheduler, SchedulerExt, Worker};
use millpond::{
    Executor, ExecutorCompletionService, ExecutorExt, Interrupted, InvokeError, Rejected, Task, interrupt,
};

/// Submits each task to a lane, due far in the future.
struct Later(Worker);

impl Executor for Later {
    fn execute_task(&self, task: Task) -> Result<(), Rejected> {
        self.0.schedule_task_after(LONG * 60, task).map(drop)
    }
}

/// Calls `wait` on the only thread of a scheduler. The tasks of the executor are behind a series
/// that is always due.
fn behind_a_series_without_a_pause<R: Send + 'static>(wait: impl FnOnce(Later) -> R + Send + 'static) -> R {
    let scheduler = schedulers::new_single("busy-lane").unwrap();
    let lane = scheduler.create_worker();
    let (tell, told) = mpsc::channel();
    let waits = scheduler.schedule(move || {
        lane.schedule_periodically(Duration::ZERO, Duration::ZERO, || {}).unwrap();
        tell.send(wait(Later(lane))).unwrap();
    });
    let result = told.recv_timeout(LONG / 4);
    scheduler.dispose(); // so that a failure does not hang
    assert_eq!(waits.unwrap().wait(LONG), Ok(true));
    result.expect("the wait does not end")
}

/// Regression: the worker ran the series again and again, without a look at its limit.
#[test]
fn a_poll_behind_a_series_without_a_pause_ends_at_its_limit() {
    let polled = behind_a_series_without_a_pause(|later| {
        let service = ExecutorCompletionService::new(later);
        service.submit(|| ()).unwrap();
        service.poll_timeout(SHORT).map(|handle| handle.is_some())
    });
    assert_eq!(polled, Ok(false));
}

/// Regression: as above, with an interrupt.
#[test]
fn a_take_behind_a_series_without_a_pause_can_be_interrupted() {
    let (taken, is_interrupted) = behind_a_series_without_a_pause(|later| {
        let service = ExecutorCompletionService::new(later);
        service.submit(|| ()).unwrap();
        interrupt_myself();
        (service.take().map(drop), interrupt::is_interrupted())
    });
    assert_eq!((taken, is_interrupted), (Err(Interrupted), false));
}

/// Regression: as above.
#[test]
fn invoke_any_behind_a_series_without_a_pause_ends_at_its_limit_and_with_an_interrupt() {
    let (late, interrupted) = behind_a_series_without_a_pause(|later| {
        let tasks = || [|| Ok::<(), InvokeError>(())];
        let late = later.invoke_any_timeout(tasks(), SHORT);
        interrupt_myself();
        (late, later.invoke_any(tasks()))
    });
    assert!(matches!(late, Err(InvokeError::TimedOut)), "{late:?}");
    assert!(matches!(interrupted, Err(InvokeError::Interrupted)), "{interrupted:?}");
}
