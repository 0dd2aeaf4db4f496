//! Schedule hooks and error hooks: user callbacks for all work of all schedulers.
//!
//! A panic of a schedule hook refuses the submission. A panic of an error hook is caught and
//! ignored.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::registry::{InUse, Registry};
use crate::monitor::{Captured, Propagate};
use crate::panic::{catch, drop_caught};
use crate::sync::Arc;
use crate::task::periodic::Body;
use crate::task::{Panic, Payload, TaskInfo};

type ScheduleHook = dyn Fn(Body) -> Body + Send + Sync;
type ErrorHook = dyn Fn(&TaskInfo, &Panic) + Send + Sync;

static ON_SCHEDULE: Registry<ScheduleHook> = Registry::new();
static ON_ERROR: Registry<ErrorHook> = Registry::new();

/// Calls `hook` for all scheduled work, on the submitting thread. The scheduler runs the body that
/// the hook returns.
///
/// Hooks are called in the order in which their keys were first set, so the last one is the
/// outermost when the work runs. A key that is set again keeps its position. A periodic task passes
/// the hooks once, not for each run. A hook that panics refuses the submission with
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

/// Runs all scheduled work inside the context of the submitting thread, for example a tracing span,
/// a request id or a locale.
///
/// This is an [`on_schedule`] hook, so [`reset_on_schedule`] removes it. It covers direct tasks,
/// workers, delays and tasks that run in place, on all schedulers except
/// [`immediate`](super::immediate). The context of a periodic task is captured once, when it is
/// scheduled, and entered for each run.
///
/// # Examples
/// ```
/// use millpond::monitor::Captured;
/// use millpond::schedulers::{self, SchedulerExt};
/// use std::cell::Cell;
/// use std::time::Duration;
///
/// thread_local! { static REQUEST: Cell<u64> = const { Cell::new(0) } }
/// struct Request(u64);
/// impl Captured for Request {
///     fn enter(&mut self, run: &mut dyn FnMut()) {
///         let before = REQUEST.replace(self.0);
///         run();
///         REQUEST.set(before);
///     }
/// }
///
/// let capture = || Some(Box::new(Request(REQUEST.get())) as Box<dyn Captured>);
/// schedulers::propagate("request", capture);
/// REQUEST.set(17);
/// let single = schedulers::new_single("mail")?;
/// let sent = single.schedule(|| assert_eq!(REQUEST.get(), 17))?;
/// assert!(sent.wait(Duration::MAX)?);
/// assert_eq!(single.stats().completed, 1);
/// assert!(schedulers::reset_on_schedule("request"));
/// # use millpond::schedulers::Scheduler;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn propagate(key: &str, propagate: impl Propagate) {
    on_schedule(key, move |body| match propagate.capture() {
        Some(captured) => run_inside(captured, body),
        None => body,
    });
}

/// Runs `body` inside the context. The context does not see a panic of the body. A context that
/// does not run the body causes a panic.
fn run_inside(mut captured: Box<dyn Captured>, mut body: Body) -> Body {
    Box::new(move || {
        let mut ran = None;
        captured.enter(&mut || {
            if ran.is_none() {
                ran = Some(catch_unwind(AssertUnwindSafe(&mut body)));
            }
        });
        let not_run = || Err(Box::new("the context did not run the task") as Payload);
        ran.unwrap_or_else(not_run).unwrap_or_else(|payload| resume_unwind(payload));
    })
}

/// Removes the schedule hook of `key`. Returns false if there is none.
pub fn reset_on_schedule(key: &str) -> bool {
    ON_SCHEDULE.remove(key).is_some()
}

/// Removes all schedule hooks.
pub fn reset_all_on_schedule() {
    ON_SCHEDULE.clear();
}

/// Calls `hook` when a scheduled task panics and no handle receives the panic. The hook runs on the
/// thread that ran the task.
///
/// Hooks are called in the order in which their keys were first set. A panic in one hook does not
/// prevent the next one.
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

/// Returns the current schedule hooks.
pub(super) fn schedule_hooks() -> Vec<InUse<ScheduleHook>> {
    ON_SCHEDULE.all()
}

/// Calls the error hooks for a panic.
pub(crate) fn report(info: &TaskInfo, panic: &Panic) {
    for hook in ON_ERROR.all() {
        catch(|| hook(info, panic));
    }
}

/// As [`report`], for a panic payload that has no other use.
pub(crate) fn report_payload(info: &TaskInfo, payload: Box<dyn Any + Send>) {
    let panic = Panic::new(payload);
    report(info, &panic);
    drop_caught(panic); // the destructor of the payload is user code
}
