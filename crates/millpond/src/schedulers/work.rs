//! What a scheduler is asked to run: an [`Order`], and the [`Work`] inside it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use super::hooks;
use crate::executor::{RejectReason, Rejected};
use crate::interrupt::TaskFrame;
use crate::panic::drop_caught;
use crate::sync::{Arc, AtomicBool, Ordering};
use crate::task::decorate::decorate;
use crate::task::periodic::{Body, OnPanic, PeriodicTask, Schedule};
use crate::task::{Outcome, Payload, Task, TaskInfo};

/// A call of one of the three scheduling methods.
pub(super) enum Order {
    Now(Task),
    After(Duration, Task),
    /// Initial delay, then period.
    Periodic(Duration, Duration, PeriodicTask),
}

/// An order taken apart.
pub(super) struct OrderParts {
    pub(super) work: Work,
    pub(super) delay: Duration,
    /// When a periodic task runs again.
    pub(super) schedule: Option<Schedule>,
}

impl Order {
    /// The task that a refused order hands back. A periodic one runs its body once.
    pub(super) fn into_task(self) -> Task {
        match self {
            Order::Now(task) | Order::After(_, task) => task,
            Order::Periodic(_, _, task) => Task::known_as(task.info, task.body.into_inner()),
        }
    }

    pub(super) fn into_parts(self) -> OrderParts {
        match self {
            Order::Now(task) => OrderParts::once(Duration::ZERO, task),
            Order::After(delay, task) => OrderParts::once(delay, task),
            Order::Periodic(initial, period, task) => {
                let on_panic = task.on_panic.unwrap_or(OnPanic::Continue);
                let work = Work::Series(task.info, task.body.into_inner(), on_panic);
                let schedule = Some(Schedule::Rate(period, task.missed));
                OrderParts { work, delay: initial, schedule }
            }
        }
    }
}

impl OrderParts {
    fn once(delay: Duration, task: Task) -> OrderParts {
        OrderParts { work: Work::Once(task), delay, schedule: None }
    }
}

/// What a job runs.
pub(super) enum Work {
    Once(Task),
    /// A task that went through the schedule hooks. The flag is set when the task panics, because
    /// the hooks may keep the panic for themselves.
    Hooked(TaskInfo, Body, Arc<AtomicBool>),
    /// The body of a periodic task.
    Series(TaskInfo, Body, OnPanic),
}

/// How a run ended.
pub(super) struct Ended {
    panicked: bool,
    /// The work of a periodic task that may run again.
    next: Option<Work>,
}

impl Ended {
    fn new(panicked: bool) -> Ended {
        Ended { panicked, next: None }
    }

    /// Takes the work out that may run again.
    pub(super) fn take_next(&mut self) -> Option<Work> {
        self.next.take()
    }
}

/// The outcome of a run; `None` if the job was cancelled before it began.
pub(super) fn outcome(ended: Option<&Ended>) -> Outcome {
    match ended {
        None => Outcome::Cancelled,
        Some(ended) if ended.panicked => Outcome::Panicked,
        Some(_) => Outcome::Succeeded,
    }
}

impl Work {
    pub(super) fn info(&self) -> &TaskInfo {
        match self {
            Work::Once(task) => task.info(),
            Work::Hooked(info, ..) | Work::Series(info, ..) => info,
        }
    }

    /// Lets the handle of the task, if it has one, find the scheduler `owner` and the lane in it.
    /// `u64::MAX` stands for no lane.
    pub(super) fn entered(&self, owner: u64, lane: u64) {
        if let Work::Once(task) = self {
            task.set_place(lane);
            task.entered(owner);
        }
    }

    /// Runs it. A panic that no handle keeps goes to the error hooks.
    pub(super) fn run(self) -> Ended {
        match self {
            Work::Once(task) => run_task(task),
            Work::Hooked(info, mut body, flag) => {
                let panicked = run_body(&info, &mut body) || flag.load(Ordering::Relaxed);
                drop_caught(body);
                Ended::new(panicked)
            }
            Work::Series(info, mut body, on_panic) => {
                let panicked = run_body(&info, &mut body);
                if panicked && on_panic == OnPanic::End {
                    drop_caught(body);
                    return Ended::new(panicked);
                }
                Ended { panicked, next: Some(Work::Series(info, body, on_panic)) }
            }
        }
    }

    /// The work as a task, for the submitter of refused work.
    pub(super) fn into_task(self) -> Task {
        match self {
            Work::Once(task) => {
                task.left();
                task
            }
            Work::Hooked(info, body, _) | Work::Series(info, body, _) => Task::known_as(info, body),
        }
    }

    /// Passes the work through the schedule hooks.
    ///
    /// While the hooks have it, the work is in a cell that both sides reach, so that it can be
    /// handed back if a hook panics.
    ///
    /// # Errors
    /// [`Rejected`], with the work, if a hook panicked.
    pub(super) fn pass_hooks(self) -> Result<Work, Rejected> {
        let hooks = hooks::schedule_hooks();
        if hooks.is_empty() {
            return Ok(self);
        }
        let on_panic = if let Work::Series(_, _, on_panic) = &self { Some(*on_panic) } else { None };
        let info = self.info().clone();
        let panicked = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&panicked);
        let run = move |work| run_hooked(work, &flag);
        match decorate(self, run, |body| hooks.iter().fold(body, |body, hook| hook(body))) {
            Ok(body) => Ok(match on_panic {
                Some(on_panic) => Work::Series(info, body, on_panic),
                None => Work::Hooked(info, body, panicked),
            }),
            Err(work) => {
                let task = work.map_or_else(|| Task::known_as(info, || {}), Work::into_task);
                Err(Rejected::new(task, RejectReason::CallbackPanicked))
            }
        }
    }
}

fn run_task(task: Task) -> Ended {
    let mut task = task.once();
    let mut outcome = Outcome::Succeeded;
    let payload = task.run_settled(&mut |settled| outcome = settled).panic;
    if let Some(payload) = payload {
        let info = task.info().clone();
        drop(task);
        hooks::report(&info, payload);
    }
    Ended::new(outcome == Outcome::Panicked)
}

/// Returns true if the body panicked.
fn run_body(info: &TaskInfo, body: &mut Body) -> bool {
    let payload = catch_unwind(AssertUnwindSafe(body)).err();
    let panicked = payload.is_some();
    payload.into_iter().for_each(|payload| hooks::report(info, payload));
    panicked
}

/// Runs a task once, or the body of a periodic task, which is kept for the next run.
fn run_hooked(work: Work, panicked: &AtomicBool) -> (Option<Work>, Result<(), Payload>) {
    match work {
        Work::Once(task) => {
            let _frame = TaskFrame::enter();
            let mut settle = |outcome| panicked.store(outcome == Outcome::Panicked, Ordering::Relaxed);
            (None, task.once().run_settled(&mut settle).panic.map_or(Ok(()), Err))
        }
        Work::Hooked(_, mut body, _) => (None, catch_unwind(AssertUnwindSafe(&mut body))),
        Work::Series(info, mut body, on_panic) => {
            let ran = catch_unwind(AssertUnwindSafe(&mut body));
            (Some(Work::Series(info, body, on_panic)), ran)
        }
    }
}
