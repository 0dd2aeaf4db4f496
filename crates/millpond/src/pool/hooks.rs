//! What users may watch and replace: [`Hooks`], and the thread factory with its [`WorkerBody`].

use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::{self, JoinHandle};

use super::core::PoolCore;
use super::roster::Worker;
use super::worker;
use crate::executor::RejectReason;
use crate::handle::Panic;
use crate::sync::Arc;
use crate::task::TaskInfo;

/// Callbacks at the turning points of a pool's life. All do nothing unless overridden.
///
/// None of the pool's locks is held while a hook runs, so hooks may call the pool. A hook that panics does not
/// hurt the pool: the worker goes on as if it had been replaced.
pub trait Hooks: Send + Sync + 'static {
    /// Before a task runs, on its worker thread. If it panics, the task does not run, its handle resolves as
    /// abandoned, and `after_execute` is not called.
    fn before_execute(&self, task: &TaskInfo) {
        let _ = task;
    }

    /// After a task ran, on its worker thread. `panic` is what it panicked with; always `None` for a task that
    /// has a handle, because the handle keeps the panic.
    fn after_execute(&self, task: &TaskInfo, panic: Option<&Panic>) {
        let _ = (task, panic);
    }

    /// Once, when all workers are gone after a shutdown, on the thread that noticed.
    fn terminated(&self) {}

    /// When a task is refused, on the submitting thread, before the rejection policy gets it.
    fn rejected(&self, task: &TaskInfo, reason: RejectReason) {
        let _ = (task, reason);
    }

    /// When a worker starts, on its thread.
    fn worker_started(&self, worker: &WorkerInfo) {
        let _ = worker;
    }

    /// When a worker leaves, on its thread. All of these come before `terminated`.
    fn worker_stopped(&self, worker: &WorkerInfo) {
        let _ = worker;
    }
}

/// Hooks that are shared, so that their owner can look at what they gathered.
impl<H: Hooks + ?Sized> Hooks for Arc<H> {
    fn before_execute(&self, task: &TaskInfo) {
        (**self).before_execute(task);
    }

    fn after_execute(&self, task: &TaskInfo, panic: Option<&Panic>) {
        (**self).after_execute(task, panic);
    }

    fn terminated(&self) {
        (**self).terminated();
    }

    fn rejected(&self, task: &TaskInfo, reason: RejectReason) {
        (**self).rejected(task, reason);
    }

    fn worker_started(&self, worker: &WorkerInfo) {
        (**self).worker_started(worker);
    }

    fn worker_stopped(&self, worker: &WorkerInfo) {
        (**self).worker_stopped(worker);
    }
}

/// Calls a hook; its panic goes no further. True: it panicked.
pub(super) fn call_quietly(hook: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(hook)).is_err()
}

/// Which worker: what hooks are told about it.
#[derive(Debug, Clone)]
pub struct WorkerInfo {
    pub(super) name: Arc<str>,
    pub(super) number: usize,
}

impl WorkerInfo {
    /// The thread's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The worker's number in its pool, from 1.
    pub fn number(&self) -> usize {
        self.number
    }
}

/// Makes the threads of a pool.
pub(super) type ThreadFactory = dyn Fn(WorkerBody) -> io::Result<JoinHandle<()>> + Send + Sync;

/// The factory of a pool that was given none.
pub(super) fn plain_threads() -> Arc<ThreadFactory> {
    #[cfg(loom)]
    return Arc::new(|body: WorkerBody| {
        loom::thread::spawn(move || body.run());
        Ok(thread::spawn(|| {}))
    });
    #[cfg(not(loom))]
    Arc::new(|body: WorkerBody| thread::Builder::new().name(body.name().to_owned()).spawn(move || body.run()))
}

/// What a new thread of the pool has to do: the thread factory passes it to the thread and calls [`run`] there.
///
/// Dropping it without running it counts as a failed spawn.
///
/// [`run`]: WorkerBody::run
#[must_use = "a worker body that is dropped counts as a failed spawn"]
pub struct WorkerBody {
    pub(super) pool: Arc<PoolCore>,
    pub(super) worker: Arc<Worker>,
}

impl WorkerBody {
    /// The name that the thread should have.
    pub fn name(&self) -> &str {
        self.worker.info.name()
    }

    /// The worker's number in its pool, from 1.
    pub fn number(&self) -> usize {
        self.worker.info.number()
    }

    /// Works for the pool until it has no more use for this thread.
    pub fn run(self) {
        if self.worker.start() {
            worker::work(&self.pool, &self.worker);
        }
    }
}

impl Drop for WorkerBody {
    fn drop(&mut self) {
        if self.worker.dropped_unrun() {
            self.pool.spawn_failed_late(&self.worker);
        }
    }
}

impl fmt::Debug for WorkerBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerBody").field("worker", &self.worker.info).finish_non_exhaustive()
    }
}
