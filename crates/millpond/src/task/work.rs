//! [`Work`]: the work of a task cell, and the events that a run reports.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::decorate::{Body, decorate};
use super::error::{Panic, Payload};
use super::state::Outcome;
use crate::panic::drop_caught;
use crate::sync::{Arc, Mutex};

/// An event that a run reports to the executor. No lock of the task is held, and no cancel waits.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RunEvent<'a> {
    /// The work panicked. Reported before the outcome, while the task still counts as running.
    Panicked(&'a Panic),
    /// A periodic task will not run again, because this run panicked. Reported before the outcome.
    SeriesEnded,
    /// The outcome, once per run, before any other thread can see it.
    Settled(Outcome),
}

/// Reports a panic and returns its payload.
#[cold]
pub(crate) fn report_panic(payload: Payload, report: &mut dyn FnMut(RunEvent<'_>)) -> Payload {
    let panic = Panic::new(payload);
    report(RunEvent::Panicked(&panic));
    panic.into_payload()
}

/// Work that a cell can run: a closure once, or a periodic body repeatedly.
pub(crate) trait Work<T>: Send + Sized {
    fn run(self) -> Ran<T, Self>;

    /// Like `run`. If an owner such as a handle keeps a panic, calls `kept` before the owner
    /// receives it.
    fn run_reporting(self, kept: &dyn Fn(&Panic)) -> Ran<T, Self> {
        let _ = kept;
        self.run()
    }
}

/// The result of one run.
pub(crate) enum Ran<T, W> {
    /// This was the last run. Contains the rest of the work, if any.
    Over(Result<T, Payload>, Option<W>),
    /// The work runs again.
    Again(W),
    /// The work runs again, although this run panicked.
    AgainAfterPanic(W, Payload),
}

impl<T, W> Ran<T, W> {
    pub(super) fn has_panicked(&self) -> bool {
        matches!(self, Ran::Over(Err(_), _) | Ran::AgainAfterPanic(..))
    }

    /// Passes the payload of a panic, if there is one, through `change`.
    #[cold]
    pub(super) fn map_payload(self, change: impl FnOnce(Payload) -> Payload) -> Ran<T, W> {
        match self {
            Ran::Over(Err(payload), left) => Ran::Over(Err(change(payload)), left),
            Ran::AgainAfterPanic(work, payload) => Ran::AgainAfterPanic(work, change(payload)),
            ok => ok,
        }
    }
}

impl<T, F: FnOnce() -> T + Send> Work<T> for F {
    fn run(self) -> Ran<T, F> {
        Ran::Over(catch_unwind(AssertUnwindSafe(self)), None)
    }
}

/// The work of a cell.
pub(super) enum CellWork<T, W> {
    Plain(W),
    /// Wrapped in a decorator.
    Decorated(Box<dyn FnOnce() -> Ran<T, W> + Send>),
}

impl<T, W> CellWork<T, W> {
    /// Like [`drop_caught`]. Costs nothing for work without a destructor.
    #[inline]
    pub(super) fn drop_caught(self) {
        match self {
            CellWork::Plain(work) => drop_caught(work),
            CellWork::Decorated(work) => drop_caught(work),
        }
    }
}

impl<T, W: Work<T>> CellWork<T, W> {
    pub(super) fn run(self) -> Ran<T, W> {
        match self {
            CellWork::Plain(work) => work.run(),
            CellWork::Decorated(work) => work(),
        }
    }

    /// Like [`Work::run_reporting`].
    pub(super) fn run_reporting(self, kept: &dyn Fn(&Panic)) -> Ran<T, W> {
        match self {
            CellWork::Plain(work) => work.run_reporting(kept),
            CellWork::Decorated(work) => work(),
        }
    }
}

impl<T: Send + 'static, W: Work<T> + 'static> CellWork<T, W> {
    /// Passes plain work through `wrap`. The second value is false if `wrap` panicked.
    pub(super) fn decorated(work: W, wrap: &mut dyn FnMut(Body) -> Body) -> (CellWork<T, W>, bool) {
        let ran: Arc<Mutex<Option<Ran<T, W>>>> = Arc::new(Mutex::new(None));
        let run = {
            let ran = Arc::clone(&ran);
            move |work: W| match work.run() {
                Ran::Over(Err(payload), left) => {
                    drop_caught(left);
                    (None, Err(payload))
                }
                other => {
                    *ran.lock() = Some(other);
                    (None, Ok(()))
                }
            }
        };
        match decorate(work, run, wrap) {
            Ok(body) => (CellWork::around(body, ran), true),
            Err(Some(work)) => (CellWork::Plain(work), false),
            // The decorator has already run the work. The thread that runs the task reports its
            // outcome.
            Err(None) => (CellWork::around(Box::new(|| {}), ran), false),
        }
    }

    /// Creates work that calls `body` and returns the result that the inner work has stored in
    /// `ran`.
    fn around(mut body: Body, ran: Arc<Mutex<Option<Ran<T, W>>>>) -> CellWork<T, W> {
        CellWork::Decorated(Box::new(move || {
            let called = catch_unwind(AssertUnwindSafe(&mut body));
            drop_caught(body);
            let ran = ran.lock().take();
            match (called, ran) {
                (Err(payload), left) => {
                    drop_caught(left);
                    Ran::Over(Err(payload), None)
                }
                (Ok(()), Some(ran)) => ran,
                (Ok(()), None) => Ran::Over(Err(Box::new("the decorator did not run the task")), None),
            }
        }))
    }
}
