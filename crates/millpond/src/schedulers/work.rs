//! [`Submission`]: work that is submitted to a scheduler, and its conversion to a job.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use super::hooks;
use super::job::{JobOwner, JobRef, Rare};
use crate::executor::{RejectReason, Rejected};
use crate::interrupt::TaskFrame;
use crate::sync::{Arc, AtomicBool, Exclusive, Ordering, Weak};
use crate::task::decorate::{Body, decorate};
use crate::task::periodic::{OnPanic, PeriodicTask, Schedule};
use crate::task::{Outcome, Panic, PanicIsKept, Ran, RunEvent, Task, TaskId, TaskInfo, Work};

/// Returns the scheduler that will own a job. A function, because few jobs need it.
pub(super) type OwnerOf<'a> = &'a dyn Fn() -> Weak<dyn JobOwner>;

/// Work that is submitted to a scheduler: a task, the job of a closure, or a period with a periodic
/// task.
pub(super) trait Submission: Sized {
    /// Returns when periodic work runs; `None` for other work.
    fn schedule(&self) -> Option<Schedule> {
        None
    }

    /// Lets the handle of the task, if it has one, find the scheduler `owner` and the lane in it.
    /// `u64::MAX` means no lane.
    fn entered(&self, owner: u64, lane: u64) {
        let _ = (owner, lane);
    }

    /// Passes the work through the schedule hooks and creates its job, for `owner`.
    ///
    /// # Errors
    /// Returns [`Rejected`] with the work if a hook panicked.
    fn into_job(self, delay: Duration, owner: OwnerOf<'_>) -> Result<JobRef, Rejected>;

    /// Returns the work as it was submitted. The `Err` variant holds a period and a periodic task.
    fn into_parts(self) -> Result<Task, (Duration, PeriodicTask)>;

    /// Returns the task that goes into a refusal. For periodic work, the task runs the body once.
    fn into_task(self) -> Task {
        self.into_parts().unwrap_or_else(|(_, task)| Task::known_as(task.info, task.body.into_inner()))
    }
}

impl Submission for Task {
    fn entered(&self, owner: u64, lane: u64) {
        self.set_place(lane);
        Task::entered(self, owner);
    }

    fn into_job(self, delay: Duration, owner: OwnerOf<'_>) -> Result<JobRef, Rejected> {
        let info = self.info().without_context(); // the task itself keeps it
        let id = info.id();
        let (task, hooked_panic) = pass_hooks(self, &info, owner)?;
        Ok(JobRef::of(id, task, delay, Rare::new(info, None, hooked_panic)))
    }

    fn into_parts(self) -> Result<Task, (Duration, PeriodicTask)> {
        self.left();
        Ok(self)
    }
}

impl Submission for (Duration, PeriodicTask) {
    fn schedule(&self) -> Option<Schedule> {
        Some(Schedule::Rate(self.0, self.1.missed))
    }

    fn into_job(self, delay: Duration, _: OwnerOf<'_>) -> Result<JobRef, Rejected> {
        let schedule = self.schedule();
        let (_, mut task) = self;
        let hooks = hooks::schedule_hooks();
        if !hooks.is_empty() {
            let wrap = |body| hooks.iter().fold(body, |body, hook| hook(body));
            match decorate(task.body.into_inner(), run_body, wrap) {
                Ok(body) => task.body = Exclusive::new(body),
                Err(body) => {
                    let body = body.unwrap_or_else(|| Box::new(|| {}));
                    let task = Task::known_as(task.info, body);
                    return Err(Rejected::new(task, RejectReason::CallbackPanicked));
                }
            }
        }
        task.on_panic.get_or_insert(OnPanic::Continue);
        let info = task.info.clone();
        Ok(JobRef::of(info.id(), task, delay, Rare::new(info, schedule, None)))
    }

    fn into_parts(self) -> Result<Task, (Duration, PeriodicTask)> {
        Err(self)
    }
}

/// Runs the body of a periodic task and returns it for the next run.
fn run_body(mut body: Body) -> (Option<Body>, std::thread::Result<()>) {
    let ran = catch_unwind(AssertUnwindSafe(&mut body));
    (Some(body), ran)
}

/// The job of a closure. It has no label and no handle, and is never visible to users.
impl Submission for JobRef {
    fn into_job(self, delay: Duration, owner: OwnerOf<'_>) -> Result<JobRef, Rejected> {
        if hooks::schedule_hooks().is_empty() { Ok(self) } else { self.into_task().into_job(delay, owner) }
    }

    fn into_parts(self) -> Result<Task, (Duration, PeriodicTask)> {
        Ok(self.take_task().expect("a job that was not accepted has its work"))
    }
}

/// Creates the job of a closure directly, for schedulers of this crate, which then need no
/// [`Task`].
pub struct NewJob<'a> {
    delay: Duration,
    make: &'a mut dyn FnMut() -> JobRef,
}

impl std::fmt::Debug for NewJob<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewJob").field("delay", &self.delay).finish_non_exhaustive()
    }
}

impl NewJob<'_> {
    pub(super) fn delay(&self) -> Duration {
        self.delay
    }

    pub(super) fn make(self) -> JobRef {
        (self.make)()
    }

    /// Calls `submit` for a scheduler that accepts jobs, and `submit_task` if `submit` returns
    /// `None`.
    #[inline]
    pub(super) fn submit<R>(
        delay: Duration,
        f: impl FnOnce() + Send + 'static,
        submit: impl FnOnce(NewJob<'_>) -> Option<R>,
        submit_task: impl FnOnce(Task) -> R,
    ) -> R {
        let mut f = Some(f);
        let mut make = || {
            let f = f.take().expect("a job is made once");
            JobRef::of(TaskId::fresh(), f, delay, None)
        };
        if let Some(submitted) = submit(NewJob { delay, make: &mut make }) {
            return submitted;
        }
        submit_task(Task::new(f.expect("a scheduler that does not accept jobs makes none")))
    }
}

/// A task inside a job. It runs once.
impl Work<()> for Task {
    fn run(self) -> Ran<(), Task> {
        self.run_reporting(&|_| {})
    }

    fn run_reporting(self, kept: &dyn Fn(&Panic)) -> Ran<(), Task> {
        let has_handle = self.cell().is_some();
        let mut outcome = Outcome::Succeeded;
        let ended = Task::run_reporting(&mut self.once(), |_, event| match event {
            RunEvent::Settled(settled) => outcome = settled,
            RunEvent::Panicked(panic) if has_handle => kept(panic),
            RunEvent::Panicked(_) | RunEvent::SeriesEnded => {}
        });
        let payload = ended.panic;
        match payload {
            Some(payload) => Ran::Over(Err(payload), None),
            None if outcome == Outcome::Panicked => Ran::Over(Err(Box::new(PanicIsKept)), None),
            None => Ran::Over(Ok(()), None),
        }
    }
}

/// Passes a task through the schedule hooks. Also returns a flag that is set when the task panics,
/// because a hook may catch the panic. In that case `owner` has been notified of the panic as well.
///
/// While the hooks run, the task is kept outside the body that they receive. So it can be handed
/// back if a hook panics.
fn pass_hooks(
    task: Task,
    info: &TaskInfo,
    owner: OwnerOf<'_>,
) -> Result<(Task, Option<Arc<AtomicBool>>), Rejected> {
    let hooks = hooks::schedule_hooks();
    if hooks.is_empty() {
        return Ok((task, None));
    }
    let panicked = Arc::new(AtomicBool::new(false));
    let (flag, owner) = (Arc::clone(&panicked), owner());
    let run = move |task: Task| {
        let _frame = TaskFrame::enter();
        let ended = Task::run_reporting(&mut task.once(), |info, event| match event {
            RunEvent::Settled(outcome) => flag.store(outcome == Outcome::Panicked, Ordering::Relaxed),
            RunEvent::Panicked(panic) => {
                owner.upgrade().into_iter().for_each(|owner| owner.panicked(info, panic));
            }
            RunEvent::SeriesEnded => {}
        });
        (None, ended.panic.map_or(Ok(()), Err))
    };
    match decorate(task, run, |body| hooks.iter().fold(body, |body, hook| hook(body))) {
        Ok(body) => Ok((Task::known_as(info.clone(), body), Some(panicked))),
        Err(task) => {
            let task = task.unwrap_or_else(|| Task::known_as(info.clone(), || {}));
            task.left();
            Err(Rejected::new(task, RejectReason::CallbackPanicked))
        }
    }
}
