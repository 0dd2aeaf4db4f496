//! [`ThreadSource`]: where the threads of a scheduler come from.

use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicU64;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::executor::{Executor, ExecutorService, RejectReason};
use crate::interrupt::Interrupted;
use crate::schedulers::hooks::report_payload;
use crate::sync::Arc;
use crate::task::{Payload, Task, TaskInfo};
use crate::threads::{ThreadBody, ThreadFactory, WorkerBody, WorkerInfo, body_dropped, call_factory};

/// Where the threads of a scheduler come from.
pub(in crate::schedulers) enum ThreadSource {
    /// Threads that the scheduler starts itself.
    Own(OwnThreads),
    /// Tasks of an executor. `owned` is set if the scheduler shuts the executor down.
    Executor { executor: Arc<dyn Executor>, owned: Option<Arc<dyn ExecutorService>> },
}

pub(in crate::schedulers) struct OwnThreads {
    factory: Arc<ThreadFactory>,
    prefix: String,
    /// The counter for thread numbers, shared by all schedulers of a kind.
    numbers: &'static AtomicU64,
    is_non_blocking: bool,
}

/// The reason why a source did not accept a thread body.
pub(super) struct Refusal {
    reason: RejectReason,
    cause: Option<io::Error>,
    /// The payload if an executor panicked, for the error hooks.
    panic: Option<Payload>,
}

impl Refusal {
    fn new(reason: RejectReason, cause: Option<io::Error>) -> Refusal {
        Refusal { reason, cause, panic: None }
    }

    /// The factory dropped the body without running it.
    pub(super) fn body_dropped() -> Refusal {
        Refusal::new(RejectReason::SpawnFailed, Some(body_dropped()))
    }

    pub(super) fn cause(&self) -> Option<&io::Error> {
        self.cause.as_ref()
    }

    pub(super) fn take_panic(&mut self) -> Option<Payload> {
        self.panic.take()
    }

    pub(super) fn into_parts(self) -> (RejectReason, Option<io::Error>) {
        (self.reason, self.cause)
    }
}

impl ThreadSource {
    /// Returns a source of threads named `prefix-N`.
    pub(in crate::schedulers) fn threads(
        factory: Arc<ThreadFactory>,
        prefix: &str,
        numbers: &'static AtomicU64,
        is_non_blocking: bool,
    ) -> ThreadSource {
        let prefix = prefix.to_owned();
        ThreadSource::Own(OwnThreads { factory, prefix, numbers, is_non_blocking })
    }

    pub(super) fn is_own(&self) -> bool {
        matches!(self, ThreadSource::Own(_))
    }

    /// Returns true if the threads are for short work and should not block.
    pub(super) fn is_non_blocking(&self) -> bool {
        matches!(self, ThreadSource::Own(threads) if threads.is_non_blocking)
    }

    /// Starts a thread that runs `body`. Returns its handle if the scheduler can join it. `worker`
    /// must be the result of [`worker`](Self::worker).
    pub(super) fn start(
        &self,
        body: impl ThreadBody + 'static,
        worker: Option<WorkerInfo>,
    ) -> Result<Option<JoinHandle<()>>, Refusal> {
        match (self, worker) {
            (ThreadSource::Own(threads), Some(worker)) => threads.start(body, worker).map(Some),
            (ThreadSource::Own(_), None) => Err(Refusal::body_dropped()),
            (ThreadSource::Executor { executor, .. }, _) => execute(&**executor, body).map(|()| None),
        }
    }

    /// Returns the counter for the numbers of own threads.
    pub(super) fn numbers(&self) -> Option<&'static AtomicU64> {
        let ThreadSource::Own(threads) = self else { return None };
        Some(threads.numbers)
    }

    /// Returns the name and number of an own thread.
    pub(super) fn worker(&self, number: u64) -> Option<WorkerInfo> {
        let ThreadSource::Own(threads) = self else { return None };
        let name = format!("{}-{number}", threads.prefix).into();
        Some(WorkerInfo::new(name, usize::try_from(number).unwrap_or(usize::MAX)))
    }

    /// Shuts an owned executor down after the scheduler `name` has ended, at once if `by_force`.
    /// May be called repeatedly and on any thread. A panic of the executor is passed to the error
    /// hooks.
    pub(super) fn shut_down(&self, by_force: bool, name: &Arc<str>) {
        let ThreadSource::Executor { owned: Some(service), .. } = self else { return };
        let called = catch_unwind(AssertUnwindSafe(|| match by_force {
            true => service.shutdown_now().into_iter().for_each(Task::drop_caught),
            false => service.shutdown(),
        }));
        if let Err(payload) = called {
            let mut info = TaskInfo::fresh();
            info.set_name(name.to_string().into());
            report_payload(&info, payload);
        }
    }

    /// Waits until an owned executor has terminated, for at most `timeout`.
    pub(super) fn await_termination(&self, timeout: Duration) -> Result<bool, Interrupted> {
        match self {
            ThreadSource::Executor { owned: Some(service), .. } => service.await_termination(timeout),
            _ => Ok(true),
        }
    }
}

impl OwnThreads {
    fn start(&self, body: impl ThreadBody + 'static, worker: WorkerInfo) -> Result<JoinHandle<()>, Refusal> {
        call_factory(&*self.factory, WorkerBody::new(worker, body))
            .map_err(|cause| Refusal::new(RejectReason::SpawnFailed, Some(cause)))
    }
}

fn execute(executor: &dyn Executor, body: impl ThreadBody + 'static) -> Result<(), Refusal> {
    let task = Task::new(move || Box::new(body).live());
    match catch_unwind(AssertUnwindSafe(|| executor.execute_task(task))) {
        Ok(Ok(())) => Ok(()),
        Ok(Err(rejected)) => {
            let reason = rejected.reason();
            let (task, cause) = rejected.into_parts();
            task.drop_caught();
            Err(Refusal::new(reason, cause))
        }
        Err(payload) => {
            Err(Refusal { reason: RejectReason::CallbackPanicked, cause: None, panic: Some(payload) })
        }
    }
}

impl fmt::Debug for ThreadSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ThreadSource::Own(threads) => write!(f, "Own({})", threads.prefix),
            ThreadSource::Executor { owned, .. } => write!(f, "Executor(owned: {})", owned.is_some()),
        }
    }
}
