//! Builds a periodic task: its work inside the decorator, the task for the queue, and the handle.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::Decorate;
use crate::panic::drop_caught;
use crate::sync::{Arc, Mutex};
use crate::task::periodic::{Body, OnPanic, PeriodicTask, Plan, SeriesWork, Timing};
use crate::task::{ResultToken, Task, TaskHandle, TaskInfo, new_cell};
use crate::time::clock::{Clock, Tick};

/// A periodic task that is ready to be queued.
pub(super) struct Periodic {
    pub(super) task: Task,
    pub(super) handle: TaskHandle<()>,
    pub(super) timing: Arc<Timing>,
    /// The decorator panicked, and the task is not decorated.
    pub(super) decorator_panicked: bool,
}

impl Periodic {
    pub(super) fn new(
        task: PeriodicTask,
        plan: Plan,
        clock: &Clock,
        first: Tick,
        decorate: Option<&Decorate>,
    ) -> Periodic {
        let PeriodicTask { mut info, body, on_panic, .. } = task;
        let on_panic = on_panic.unwrap_or(OnPanic::End);
        let token = ResultToken::fresh();
        info.set_id(token.id());
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
        Periodic {
            task: Task::series(info, task, Arc::clone(&timing)),
            handle: TaskHandle::new(core, token),
            timing,
            decorator_panicked,
        }
    }
}

/// Returns the decorated body. If the decorator panics: the body as it was, and true.
fn decorated(info: &TaskInfo, body: Body, decorate: &Decorate) -> (Body, bool) {
    // The decorator receives a body that reads this cell, so a panic of the decorator loses
    // nothing.
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

/// A body that runs the one in the cell, without holding the lock.
fn run_inside(inside: &Arc<Mutex<Option<Body>>>) -> Body {
    let inside = Arc::clone(inside);
    Box::new(move || {
        let body = inside.lock().take();
        let Some(mut body) = body else { return };
        let ran = catch_unwind(AssertUnwindSafe(&mut body));
        *inside.lock() = Some(body); // the next run needs it, even after a panic
        if let Err(payload) = ran {
            resume_unwind(payload);
        }
    })
}
