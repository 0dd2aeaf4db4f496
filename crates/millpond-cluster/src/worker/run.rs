//! Runs one task: decode, call the handler, encode, report. On a pool thread or the caller's.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use millpond::{Task, interrupt};

use super::ledger::{Begin, Finished};
use super::shared::{Counts, Shared, interrupt_all, lock};
use crate::cluster::Core;
use crate::context::{Flags, RetryWish, TaskContext, TaskError};
use crate::engine::{Claimed, Fence, PAYLOAD_LIMIT, Report, Retry, Verdict};
use crate::id::TaskId;
use crate::state::{DeadReason, State};

thread_local! {
    /// The workers whose handlers run on this thread, innermost last.
    static CURRENT: RefCell<Vec<Arc<Shared>>> = const { RefCell::new(Vec::new()) };
}

/// Restores `CURRENT`, also when a handler panics.
struct Entered;

impl Entered {
    fn new(shared: &Arc<Shared>) -> Entered {
        CURRENT.with_borrow_mut(|current| current.push(Arc::clone(shared)));
        Entered
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let left = CURRENT.with_borrow_mut(Vec::pop);
        drop(left);
    }
}

pub(super) fn run(shared: &Arc<Shared>, task: &Claimed, flags: Arc<Flags>) {
    let fence = task.fence;
    let timeout = task.options.attempt_timeout_ms.map(Duration::from_millis);
    let deadline = {
        let mut ledger = shared.ledger();
        match ledger.begin(fence, timeout, Some(interrupt::current()), shared.now()) {
            Begin::Run => {}
            Begin::Lost => return,
            Begin::Cancelled => {
                drop(ledger);
                return shared.report(Report { fence, verdict: Verdict::Cancelled }, false);
            }
        }
        ledger.timeout(fence)
    };
    if deadline.is_some() {
        shared.attention.notify_one();
    }
    let context = context(shared, task, flags, deadline);
    let handler = Arc::clone(&shared.handlers[&task.name]);
    let result = {
        let _entered = Entered::new(shared);
        catch_unwind(AssertUnwindSafe(|| handler(&context, &task.args)))
    };
    let finished = {
        let mut ledger = shared.ledger();
        ledger.finish(fence, shared.now())
    };
    let Some(finished) = finished else { return };
    let verdict = verdict(shared, task, finished, result);
    shared.report(Report { fence, verdict }, finished.is_last);
}

fn context(
    shared: &Arc<Shared>,
    task: &Claimed,
    flags: Arc<Flags>,
    deadline: Option<Duration>,
) -> TaskContext {
    let reporter = Arc::clone(shared);
    let fence = task.fence;
    TaskContext {
        id: fence.id,
        attempt: fence.attempt,
        failures: task.failures,
        deadline: deadline.and_then(|at| Instant::now().checked_add(at.saturating_sub(shared.now()))),
        flags,
        report: Box::new(move |progress| reporter.progress(fence, progress)),
    }
}

/// Converts the handler's return value. The reason of an interrupt decides how an interrupted
/// attempt ends.
fn verdict(
    shared: &Shared,
    task: &Claimed,
    finished: Finished,
    result: Result<Result<Vec<u8>, TaskError>, Box<dyn Any + Send>>,
) -> Verdict {
    let error = match result {
        Ok(Ok(bytes)) if bytes.len() <= PAYLOAD_LIMIT => {
            Counts::add(&shared.counts.finished, 1);
            return Verdict::Succeeded(bytes);
        }
        Ok(Ok(bytes)) => TaskError::permanent(format!(
            "the result takes {} bytes but the limit is {PAYLOAD_LIMIT}: store it elsewhere",
            bytes.len()
        )),
        Ok(Err(error)) => error,
        Err(panic) => TaskError::new(format!("panicked: {}", panic_message(&*panic))),
    };
    if finished.is_cancelled {
        return Verdict::Cancelled;
    }
    if finished.is_stopping && !error.is_permanent() {
        Counts::add(&shared.counts.given_back, 1);
        return Verdict::GivenBack;
    }
    Counts::add(&shared.counts.failed, 1);
    let retry = match error.retry {
        RetryWish::Never => Retry::Never(DeadReason::Permanent),
        RetryWish::Undecodable => Retry::Never(DeadReason::Decode),
        RetryWish::After(wait) => Retry::After(wait),
        RetryWish::Policy => Retry::After(task.options.backoff.unwrap_or_default().draw(task.failures + 1)),
    };
    let text = if finished.timed_out { format!("timed out: {error}") } else { error.to_string() };
    Verdict::Failed {
        error: shared.redact.as_ref().map_or_else(|| text.clone(), |redact| redact(&text)),
        retry,
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a value that is no text")
}

impl Shared {
    fn progress(&self, fence: Fence, progress: Vec<u8>) {
        self.ledger().report_progress(fence, progress);
        self.attention.notify_one();
    }

    /// Claims one task by its id and runs it in the calling thread, if no worker has begun it.
    pub(crate) fn run_here(self: &Arc<Shared>, id: TaskId) {
        let turn = lock(&self.feeding);
        if self.ledger().is_draining() {
            return;
        }
        let asked = self.now();
        let ask = self.ledger().ask_for(id);
        let Ok(tasks) = self.engine.claim(&ask) else { return };
        let Some(task) = tasks.into_iter().next() else { return };
        Counts::add(&self.counts.claimed, 1);
        let (mut flags, lost) = self.ledger().claimed(std::slice::from_ref(&task), asked, self.now());
        drop(turn);
        interrupt_all(lost);
        let flags = flags.pop().expect("one task, one set of flags");
        let shared = Arc::clone(self);
        // As a separate task, so that it has its own interrupt flag.
        Task::new(move || run(&shared, &task, flags)).run();
    }
}

/// Runs the task if a handler joins it and no worker has begun it: nested submit-and-join cannot
/// starve a queue.
pub(crate) fn run_in_place(core: &Core, id: TaskId) {
    let worker = CURRENT.with_borrow(|current| current.last().cloned());
    let Some(worker) = worker.filter(|worker| Arc::ptr_eq(&worker.hub, &core.hub)) else { return };
    let record = worker.engine.fetch(&[id]).ok().and_then(|mut records| records.pop().flatten());
    let is_ours = |record: &crate::state::Record| {
        record.state == State::Ready && worker.can_run(&record.queue, &record.name) && record.codec == 0
    };
    if record.is_some_and(|record| is_ours(&record)) {
        worker.run_here(id);
    }
}
