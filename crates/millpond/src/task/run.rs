//! Running a task, with or without the context that it carries.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::error::{Panic, Payload};
use super::info::TaskInfo;
use super::propagated::{Captured, Propagated};
use super::state::Outcome;
use super::work::{RunEvent, report_panic};
use super::{Ended, Task, TaskWork};
use crate::interrupt::TaskFrame;
use crate::panic::drop_caught;

impl Task {
    /// Attaches the context returned by `capture`, unless the task carries a context from an
    /// earlier submission. A future keeps one context for all its polls.
    pub(crate) fn carry(&mut self, capture: impl FnOnce() -> Option<Box<dyn Captured>>) {
        if self.info.context().is_some() {
            return;
        }
        let kept = self.cell().and_then(|cell| cell.context());
        let context = match kept {
            Some(kept) => kept.get_or_init(|| capture().map(Propagated::new)).clone(),
            None => capture().map(Propagated::new),
        };
        if let Some(context) = context {
            self.info.set_context(context);
        }
    }

    /// Like [`run`](Self::run), and reports a panic.
    pub(crate) fn run_reporting_panics(self, panicked: impl Fn(&TaskInfo, &Panic)) {
        let Some(context) = self.info.context().cloned() else {
            return self.run_and_unwind(panicked);
        };
        let (mut task, mut unwound) = (Some(self), Ok(()));
        let entered = context.enter(&mut || {
            if let Some(task) = task.take() {
                unwound = catch_unwind(AssertUnwindSafe(|| task.run_and_unwind(&panicked)));
            }
        });
        drop_caught(task); // if the context did not call the closure
        unwound.and(entered).unwrap_or_else(|payload| resume_unwind(payload));
    }

    fn run_and_unwind(self, panicked: impl Fn(&TaskInfo, &Panic)) {
        let _frame = TaskFrame::enter();
        let Task { info, work } = self;
        let mut report = |event: RunEvent<'_>| {
            if let RunEvent::Panicked(panic) = event {
                panicked(&info, panic);
            }
        };
        match work {
            TaskWork::Plain(mut f) => {
                if let Err(payload) = catch_unwind(AssertUnwindSafe(|| f.call())) {
                    resume_unwind(report_panic(payload, &mut report));
                }
            }
            TaskWork::Tracked(cell) | TaskWork::Series(cell, _) => {
                cell.0.run(&mut report); // dropping a periodic task here ends it after one run
            }
        }
    }

    /// Like [`run_reporting`](Self::run_reporting), for a caller that needs only the outcome.
    pub(crate) fn run_settled(&mut self, mut settle: impl FnMut(Outcome)) -> Ended {
        self.run_reporting(|_, event| {
            if let RunEvent::Settled(outcome) = event {
                settle(outcome);
            }
        })
    }

    /// Runs the task for a worker, in place: moving it would cost as much as running it. Afterwards
    /// the caller drops the task or queues it again.
    #[inline]
    pub(crate) fn run_reporting(&mut self, mut report: impl FnMut(&TaskInfo, RunEvent<'_>)) -> Ended {
        match self.info.context() {
            None => self.run_in_place(report),
            Some(context) => self.run_in(&context.clone(), &mut report),
        }
    }

    #[inline(always)]
    fn run_in_place(&mut self, mut report: impl FnMut(&TaskInfo, RunEvent<'_>)) -> Ended {
        let Task { info, work } = self;
        let mut report = |event: RunEvent<'_>| report(info, event);
        match work {
            TaskWork::Plain(f) => {
                let panic = catch_unwind(AssertUnwindSafe(|| f.call())).err();
                let panic = panic.map(|payload| report_panic(payload, &mut report));
                let outcome = if panic.is_some() { Outcome::Panicked } else { Outcome::Succeeded };
                report(RunEvent::Settled(outcome));
                Ended { panic, again: false }
            }
            TaskWork::Tracked(cell) => {
                cell.0.run(&mut report);
                Ended { panic: None, again: false }
            }
            TaskWork::Series(cell, _) => Ended { panic: None, again: cell.0.run(&mut report) },
        }
    }

    /// Runs the task inside its context. The outcome is reported once: by the run, or here if the
    /// context did not call it.
    #[inline(never)]
    fn run_in(&mut self, context: &Propagated, report: &mut dyn FnMut(&TaskInfo, RunEvent<'_>)) -> Ended {
        let mut ended = None;
        let entered = context.enter(&mut || {
            if ended.is_none() {
                ended = Some(self.run_in_place(&mut *report));
            }
        });
        match (ended, entered) {
            (Some(ended), entered) => {
                drop_caught(entered);
                ended
            }
            (None, entered) => {
                let refused = || Box::new("the propagated context did not run the task") as Payload;
                let payload = entered.err().unwrap_or_else(refused);
                let payload = report_panic(payload, &mut |event| report(&self.info, event));
                report(&self.info, RunEvent::Settled(Outcome::Panicked));
                Ended { panic: Some(payload), again: false }
            }
        }
    }
}
