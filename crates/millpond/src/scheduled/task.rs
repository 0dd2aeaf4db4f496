//! The making of a series: its work with the decorator around it, the task for the queue, the handle.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::Decorate;
use crate::panic::drop_caught;
use crate::sync::{Arc, Mutex};
use crate::task::periodic::{Body, OnPanic, PeriodicTask, Plan, SeriesWork, Timing};
use crate::task::{ResultToken, TaskHandle, new_cell};
use crate::task::{Task, TaskInfo};
use crate::time::clock::{Clock, Tick};

pub(super) struct Series {
    pub(super) task: Task,
    pub(super) handle: TaskHandle<()>,
    pub(super) timing: Arc<Timing>,
    /// The series is without it then.
    pub(super) decorator_panicked: bool,
}

pub(super) fn series(
    task: PeriodicTask,
    plan: Plan,
    clock: &Clock,
    first: Tick,
    decorate: Option<&Decorate>,
) -> Series {
    let PeriodicTask { mut info, body, on_panic, .. } = task;
    let on_panic = on_panic.unwrap_or(OnPanic::End);
    let claim = ResultToken::fresh();
    info.set_id(claim.id());
    let mut body = body.into_inner();
    let mut decorator_panicked = false;
    if let Some(decorate) = decorate {
        (body, decorator_panicked) = decorated(&info, body, decorate);
    }
    let answer = match &plan {
        Plan::Answered(answer) => Some(Arc::clone(answer)),
        Plan::Fixed(_) => None,
    };
    let (core, task) = new_cell(info.id(), SeriesWork { body, on_panic, answer });
    let timing = Timing::new(plan, clock.clone(), first);
    Series {
        task: Task::series(info, task, Arc::clone(&timing)),
        handle: TaskHandle::new(core, claim),
        timing,
        decorator_panicked,
    }
}

/// The body with the decorator around it; if that panics, the body as it was, and true.
fn decorated(info: &TaskInfo, body: Body, decorate: &Decorate) -> (Body, bool) {
    // While the decorator has what it is given, the body is here too: if it panics, nothing is lost.
    let inside = Arc::new(Mutex::new(Some(body)));
    let given = run_inside(&inside);
    match catch_unwind(AssertUnwindSafe(|| decorate(info, given))) {
        Ok(body) => (body, false),
        Err(payload) => {
            drop_caught(payload);
            let body = inside.lock().take();
            (body.unwrap_or_else(|| Box::new(|| {})), true)
        }
    }
}

/// Runs the body inside. It is taken out meanwhile, for no lock of ours is held while it runs.
fn run_inside(inside: &Arc<Mutex<Option<Body>>>) -> Body {
    let inside = Arc::clone(inside);
    Box::new(move || {
        let body = inside.lock().take();
        let Some(mut body) = body else { return };
        let ran = catch_unwind(AssertUnwindSafe(&mut body));
        *inside.lock() = Some(body); // the series may go on after a panic
        if let Err(payload) = ran {
            resume_unwind(payload);
        }
    })
}
