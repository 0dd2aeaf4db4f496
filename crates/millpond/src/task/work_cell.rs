//! [`WorkCell`]: work, its state and its current run. Every kind of task cell contains one.
//!
//! A task with a handle adds its queue position and its joiner (`cell.rs`). The job of a scheduler
//! adds its location and its waiters in front of it ([`Attached`](super::Attached)), and uses the
//! cell through [`Erased`].

use std::any::Any;
use std::panic::resume_unwind;

use super::context::waits_for_this_thread;
use super::error::{Panic, Payload};
use super::id::TaskId;
use super::raw::{Cancelled, Running, Slot};
use super::state::{Outcome, TaskState};
use super::tracked::{CancelFound, Erased, IsKept, PanicIsKept, RunEnd};
use super::word::Word;
use super::work::{CellWork, Ran, RunEvent, Work, report_panic};
use crate::interrupt::RunId;
use crate::panic::drop_caught;
use crate::sync::{AtomicU64, Ordering};

/// Work `W` with a result `T`. The fields are in the order of first use: see `TaskCell`.
#[repr(C)]
pub(crate) struct WorkCell<T, W> {
    /// The work, then the result, and the state of the task.
    slot: Slot<CellWork<T, W>, Result<T, Payload>>,
    runner: Runner,
}

/// Identifies the run for interrupts: a [`RunId`].
///
/// The thread that is about to run the task writes it before the exchange that begins the run
/// (Release). A cancel reads it after the exchange that found the task running (Acquire). Only the
/// thread that has the task runs it, so there is one writer at a time.
struct Runner {
    thread: AtomicU64,
    epoch: AtomicU64,
}

impl Runner {
    fn none() -> Runner {
        Runner { thread: AtomicU64::new(0), epoch: AtomicU64::new(0) }
    }

    #[inline]
    fn set(&self, run: RunId) {
        self.thread.store(run.thread, Ordering::Relaxed);
        self.epoch.store(run.epoch, Ordering::Relaxed);
    }

    fn get(&self) -> RunId {
        RunId { thread: self.thread.load(Ordering::Relaxed), epoch: self.epoch.load(Ordering::Relaxed) }
    }
}

impl<T, W> WorkCell<T, W> {
    #[inline]
    pub(super) fn slot(&self) -> &Slot<CellWork<T, W>, Result<T, Payload>> {
        &self.slot
    }

    /// Returns the current run. It does not change while the task runs, so a thread reads either
    /// its own write or the write of another thread.
    pub(super) fn run_id(&self) -> RunId {
        self.runner.get()
    }
}

impl<T, W> Drop for WorkCell<T, W> {
    #[inline]
    fn drop(&mut self) {
        if !self.slot.load().is_left_empty() {
            self.slot.clear();
        }
    }
}

/// The right to end a task, owned by the thread that runs it.
pub(super) struct RunGuard<'a, T, W> {
    running: Running<'a, CellWork<T, W>, Result<T, Payload>>,
}

impl<T: Send, W: Work<T>> WorkCell<T, W> {
    /// Creates pending work. `detached` means that no handle will take the result.
    #[inline(always)]
    pub(crate) fn new(id: TaskId, work: W, detached: bool) -> Self {
        WorkCell { slot: Slot::new(id, CellWork::Plain(work), detached), runner: Runner::none() }
    }

    /// Takes the work, to run it on the calling thread. Returns `None` if the task has begun or
    /// ended.
    #[inline]
    pub(super) fn begin(&self) -> Option<(CellWork<T, W>, RunGuard<'_, T, W>)> {
        self.runner.set(RunId::current());
        let (work, running) = self.slot.begin()?;
        Some((work, RunGuard { running }))
    }
}

impl<'a, T: Send, W: Work<T>> RunGuard<'a, T, W> {
    pub(super) fn into_running(self) -> Running<'a, CellWork<T, W>, Result<T, Payload>> {
        self.running
    }

    /// Records the result of the run. If this was the last run, calls `ended` with the previous
    /// word. Returns true if the task is periodic and waits for its next run.
    pub(super) fn finish(
        self,
        ran: Ran<T, W>,
        report: &mut dyn FnMut(RunEvent<'_>),
        ended: impl FnOnce(Word),
    ) -> bool {
        let Some(finishing) = self.running.finish() else {
            report(RunEvent::Settled(Outcome::Cancelled));
            drop_caught(ran);
            return false;
        };
        let outcome = if ran.has_panicked() { Outcome::Panicked } else { Outcome::Succeeded };
        if let Ran::Over(Err(_), Some(_)) = &ran {
            report(RunEvent::SeriesEnded);
        }
        report(RunEvent::Settled(outcome));
        match ran {
            Ran::Again(work) => finishing.put_back(CellWork::Plain(work)),
            Ran::AgainAfterPanic(work, payload) => {
                finishing.put_back(CellWork::Plain(work));
                drop_caught(payload);
            }
            Ran::Over(result, left) => {
                let (unwanted, seen) = finishing.end(result.is_ok(), result);
                drop_caught(unwanted);
                ended(seen);
                drop_caught(left);
                return false;
            }
        }
        true
    }
}

impl<W: Work<()> + 'static> Erased for WorkCell<(), W> {
    fn id(&self) -> TaskId {
        self.slot.id()
    }

    fn state(&self) -> TaskState {
        self.slot.load().state()
    }

    fn run(
        &self,
        around: &mut dyn FnMut(&mut dyn FnMut()),
        report: &dyn Fn(&Panic, IsKept),
    ) -> Option<RunEnd> {
        let (work, guard) = self.begin()?;
        let (mut work, mut ran) = (Some(work), None);
        around(&mut || {
            let Some(work) = work.take() else { return };
            let mut this_run = work.run_reporting(&|panic| report(panic, IsKept::Yes));
            if this_run.has_panicked() {
                this_run = this_run.map_payload(|payload| reported(payload, report));
            }
            ran = Some(this_run);
        });
        let ran = ran.unwrap_or(Ran::Over(Ok(()), None));
        let outcome = if ran.has_panicked() { Outcome::Panicked } else { Outcome::Succeeded };
        let again = guard.finish(ran, &mut |_| {}, |_| {});
        Some(RunEnd { outcome, again })
    }

    fn cancel(&self) -> CancelFound {
        match self.slot.cancel() {
            Cancelled::No => CancelFound::Ended,
            Cancelled::Unstarted(work, _) => {
                work.drop_caught(); // drops the captures at once
                CancelFound::Waiting
            }
            Cancelled::Started(_) => CancelFound::Running,
        }
    }

    fn interrupt_run(&self) {
        let run = self.runner.get();
        if !run.is_of_this_thread() {
            run.interrupt();
        }
    }

    fn take_work(&self, work: &mut dyn Any) {
        let Some(into) = work.downcast_mut::<Option<W>>() else { return };
        if let Some((CellWork::Plain(work), _)) = self.slot.abandon() {
            *into = Some(work);
        }
    }

    fn take_closure(&self) -> Option<Box<dyn FnOnce() + Send>> {
        let (work, _) = self.slot.abandon()?;
        Some(Box::new(move || {
            if let Ran::Over(Err(payload), _) | Ran::AgainAfterPanic(_, payload) = work.run() {
                resume_unwind(payload);
            }
        }))
    }

    fn last_run_waits_for_this_thread(&self) -> bool {
        waits_for_this_thread(self.runner.get())
    }
}

/// Reports a panic, unless it has an owner and was already reported.
#[cold]
fn reported(payload: Payload, report: &dyn Fn(&Panic, IsKept)) -> Payload {
    if payload.is::<PanicIsKept>() {
        return payload;
    }
    report_panic(payload, &mut |event| {
        if let RunEvent::Panicked(panic) = event {
            report(panic, IsKept::No);
        }
    })
}
