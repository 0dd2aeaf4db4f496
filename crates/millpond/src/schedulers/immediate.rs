//! The scheduler that runs each task on the calling thread, before the call returns.

use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::time::Duration;

use super::disposable::Disposable;
use super::scheduler::Scheduler;
use super::stats::SchedulerStats;
use super::work::Submission;
use super::worker::{Lane, Worker};
use crate::executor::{RejectReason, Rejected, SchedulerFacts};
use crate::interrupt::Interrupted;
use crate::sync::{Arc, AtomicBool, AtomicU64, Ordering};
use crate::task::Task;

const NAME: &str = "immediate";

/// Runs work on the calling thread. SeqCst on its flags is for simplicity: no other data depends on
/// them.
#[derive(Debug, Default, Clone)]
pub(super) struct Immediate {
    shared: Arc<Counts>,
}

/// State shared with the workers.
#[derive(Debug, Default)]
struct Counts {
    disposed: AtomicBool,
    // Relaxed: statistics.
    submitted: AtomicU64,
    completed: AtomicU64,
    panicked: AtomicU64,
    rejected: AtomicU64,
}

impl Immediate {
    fn refuse(&self, task: Task, reason: RejectReason) -> Rejected {
        self.shared.rejected.fetch_add(1, Ordering::Relaxed);
        Rejected::new(task, reason).by_scheduler(SchedulerFacts { name: NAME.into(), full: None })
    }

    fn submit(&self, delay: Duration, work: impl Submission) -> Result<Disposable, Rejected> {
        if delay.is_zero() && work.schedule().is_none() {
            return self.run(work.into_task());
        }
        Err(self.refuse(work.into_task(), RejectReason::NotTimeCapable))
    }

    fn run(&self, task: Task) -> Result<Disposable, Rejected> {
        if self.is_disposed() {
            return Err(self.refuse(task, RejectReason::Shutdown));
        }
        self.shared.submitted.fetch_add(1, Ordering::Relaxed);
        match catch_unwind(AssertUnwindSafe(|| task.run())) {
            Ok(()) => {
                self.shared.completed.fetch_add(1, Ordering::Relaxed);
                Ok(Disposable::over())
            }
            Err(payload) => {
                self.shared.panicked.fetch_add(1, Ordering::Relaxed);
                resume_unwind(payload)
            }
        }
    }
}

impl Scheduler for Immediate {
    scheduling_methods!(|it, delay, work| it.submit(delay, work));

    fn create_worker(&self) -> Worker {
        let closed = AtomicBool::new(self.is_disposed());
        Worker::from_lane(Arc::new(ImmediateLane { immediate: self.clone(), closed }))
    }

    fn dispose(&self) {
        self.shared.disposed.store(true, Ordering::SeqCst);
    }

    fn dispose_gracefully(&self, _timeout: Duration) -> Result<bool, Interrupted> {
        self.dispose();
        Ok(true)
    }

    fn disposal(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(std::future::ready(()))
    }

    fn is_disposed(&self) -> bool {
        self.shared.disposed.load(Ordering::SeqCst)
    }

    fn stats(&self) -> SchedulerStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        SchedulerStats {
            name: NAME.to_owned(),
            disposed: self.is_disposed(),
            remaining_capacity: u64::MAX,
            submitted: read(&self.shared.submitted),
            completed: read(&self.shared.completed),
            panicked: read(&self.shared.panicked),
            rejected: read(&self.shared.rejected),
            ..SchedulerStats::default()
        }
    }
}

impl fmt::Display for Immediate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(NAME)
    }
}

/// A worker, which submits to the scheduler and can be disposed separately.
struct ImmediateLane {
    immediate: Immediate,
    closed: AtomicBool,
}

impl ImmediateLane {
    fn submit(&self, delay: Duration, work: impl Submission) -> Result<Disposable, Rejected> {
        if self.is_disposed() {
            return Err(self.immediate.refuse(work.into_task(), RejectReason::WorkerDisposed));
        }
        self.immediate.submit(delay, work)
    }
}

impl Lane for ImmediateLane {
    scheduling_methods!(|it, delay, work| it.submit(delay, work));

    fn dispose(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    fn is_disposed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    fn queued(&self) -> usize {
        0
    }
}
