//! Schedule hooks and error hooks: user callbacks for everything that any scheduler runs.
//!
//! A panic of a schedule hook refuses the submission. A panic of an error hook goes no further.

use std::any::Any;

use super::registry::{InUse, Registry};
use crate::panic::{catch, drop_caught};
use crate::sync::Arc;
use crate::task::periodic::Body;
use crate::task::{Panic, TaskInfo};

type ScheduleHook = dyn Fn(Body) -> Body + Send + Sync;
type ErrorHook = dyn Fn(&TaskInfo, &Panic) + Send + Sync;

static ON_SCHEDULE: Registry<ScheduleHook> = Registry::new();
static ON_ERROR: Registry<ErrorHook> = Registry::new();

/// Calls `hook` for everything that is scheduled, on the submitting thread. The scheduler runs what
/// the hook returns.
///
/// Hooks are called in the order in which their keys were first set, so the last one is the
/// outermost when the work runs. A periodic task passes the hooks once, not for each run. A key
/// that is set again keeps its place. A hook that panics refuses the submission with
/// [`CallbackPanicked`](crate::RejectReason::CallbackPanicked). The [`immediate`](super::immediate)
/// scheduler calls no hooks.
///
/// # Examples
/// ```
/// use millpond::schedulers;
///
/// schedulers::on_schedule("trace", |mut body| {
///     Box::new(move || {
///         println!("begins");
///         body();
///         println!("has ended");
///     })
/// });
/// assert!(schedulers::reset_on_schedule("trace"));
/// ```
pub fn on_schedule(key: &str, hook: impl Fn(Body) -> Body + Send + Sync + 'static) {
    let replaced = ON_SCHEDULE.set(key, Arc::new(hook));
    drop(replaced);
}

/// Removes the schedule hook of `key`. Returns false if there is none.
pub fn reset_on_schedule(key: &str) -> bool {
    ON_SCHEDULE.remove(key).is_some()
}

/// Removes all schedule hooks.
pub fn reset_all_on_schedule() {
    ON_SCHEDULE.clear();
}

/// Calls `hook` when a scheduled task panics and no handle keeps the panic, on the thread that ran
/// the task.
///
/// Hooks are called in the order in which their keys were first set. A hook that panics does not
/// stop the next one.
///
/// # Examples
/// ```
/// use millpond::schedulers;
///
/// schedulers::on_error("log", |task, panic| eprintln!("{}: {:?}", task.id(), panic.message()));
/// assert!(schedulers::reset_on_error("log"));
/// ```
pub fn on_error(key: &str, hook: impl Fn(&TaskInfo, &Panic) + Send + Sync + 'static) {
    let replaced = ON_ERROR.set(key, Arc::new(hook));
    drop(replaced);
}

/// Removes the error hook of `key`. Returns false if there is none.
pub fn reset_on_error(key: &str) -> bool {
    ON_ERROR.remove(key).is_some()
}

/// Removes all error hooks.
pub fn reset_all_on_error() {
    ON_ERROR.clear();
}

/// The schedule hooks of the moment.
pub(super) fn schedule_hooks() -> Vec<InUse<ScheduleHook>> {
    ON_SCHEDULE.all()
}

/// Calls the error hooks for a panic.
pub(crate) fn report(info: &TaskInfo, panic: &Panic) {
    for hook in ON_ERROR.all() {
        catch(|| hook(info, panic));
    }
}

/// As [`report`], for a panic that nothing else needs.
pub(crate) fn report_payload(info: &TaskInfo, payload: Box<dyn Any + Send>) {
    let panic = Panic::new(payload);
    report(info, &panic);
    drop_caught(panic); // the destructor of the payload is user code
}
