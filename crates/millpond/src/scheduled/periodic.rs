//! Construction of a periodic task: its decorated work, the task for the queue, and the handle.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::Decorate;
use crate::sync::{Arc, Exclusive};
use crate::task::decorate::decorate;
use crate::task::periodic::{Body, OnPanic, PeriodicTask, Plan, Timing};
use crate::task::{ResultToken, Task, TaskHandle, TaskInfo, new_cell};
use crate::time::clock::{Clock, Tick};

/// A periodic task that is ready to be queued.
pub(super) struct Periodic {
    pub(super) task: Task,
    pub(super) handle: TaskHandle<()>,
    pub(super) timing: Arc<Timing>,
    /// True if the decorator panicked. The task is then not decorated.
    pub(super) decorator_panicked: bool,
}

impl Periodic {
    pub(super) fn new(
        task: PeriodicTask,
        plan: Plan,
        clock: &Clock,
        first: Tick,
        decorator: Option<&Decorate>,
    ) -> Periodic {
        let PeriodicTask { mut info, body, missed, on_panic, .. } = task;
        let on_panic = on_panic.unwrap_or(OnPanic::End);
        let token = ResultToken::fresh();
        info.set_id(token.id());
        let mut body = body.into_inner();
        let mut decorator_panicked = false;
        if let Some(decorator) = decorator {
            (body, decorator_panicked) = decorated(&info, body, decorator);
        }
        let answer = match &plan {
            Plan::Answered(answer) => Some(Arc::clone(answer)),
            Plan::Fixed(_) => None,
        };
        let body = Exclusive::new(body);
        let work = PeriodicTask { info: info.clone(), body, missed, on_panic: Some(on_panic), answer };
        let (core, task) = new_cell(info.id(), work);
        let timing = Timing::new(plan, on_panic, clock.clone(), first);
        Periodic {
            task: Task::series(info, task, Arc::clone(&timing)),
            handle: TaskHandle::new(core, token),
            timing,
            decorator_panicked,
        }
    }
}

/// Returns the decorated body. If the decorator panics, returns the original body and true.
fn decorated(info: &TaskInfo, body: Body, decorator: &Decorate) -> (Body, bool) {
    // The body is kept for the next run, even after a panic.
    let run = |mut body: Body| {
        let ran = catch_unwind(AssertUnwindSafe(&mut body));
        (Some(body), ran)
    };
    match decorate(body, run, |body| decorator(info, body)) {
        Ok(body) => (body, false),
        Err(body) => (body.unwrap_or_else(|| Box::new(|| {})), true),
    }
}
