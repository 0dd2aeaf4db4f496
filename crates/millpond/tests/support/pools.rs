//! Pools of the usual sizes, idle, busy and full, and tasks for them.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

use millpond::queue::LinkedBlockingQueue;
use millpond::{
    Builder, Executor, Rejected, RejectedExecutionHandler, Task, TaskHandle, ThreadPoolExecutor, WorkQueue,
    WorkerBody, executors,
};

use super::{Gate, Wrapped, occupied};

/// A fixed number of threads and an unbounded queue.
pub(crate) fn fixed(threads: usize) -> ThreadPoolExecutor {
    executors::fixed(threads).unwrap()
}

pub(crate) fn sized(core: usize, maximum: usize) -> Builder {
    ThreadPoolExecutor::builder().core_pool_size(core).maximum_pool_size(maximum)
}

/// A task that counts how often it has run.
pub(crate) fn counting(runs: &Arc<AtomicUsize>) -> impl FnOnce() + Send + 'static {
    let runs = Arc::clone(runs);
    move || {
        runs.fetch_add(1, Ordering::Relaxed);
    }
}

/// A pool with one thread that is busy until the gate is opened: submitted tasks wait.
pub(crate) fn busy() -> (ThreadPoolExecutor, Gate) {
    busy_pool(fixed(1))
}

pub(crate) fn busy_pool(pool: ThreadPoolExecutor) -> (ThreadPoolExecutor, Gate) {
    let gate = occupied(&pool);
    (pool, gate)
}

/// A task that runs until its gate is opened, and then calls `f`.
pub(crate) struct Running<T> {
    pub(crate) pool: ThreadPoolExecutor,
    pub(crate) gate: Gate,
    pub(crate) handle: TaskHandle<T>,
}

pub(crate) fn running<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> Running<T> {
    let pool = fixed(1);
    let (begun, gate) = (Gate::new(), Gate::new());
    let (tell, wait) = (begun.clone(), gate.clone());
    let handle = pool
        .submit(move || {
            tell.open();
            wait.pass();
            f()
        })
        .unwrap();
    begun.pass();
    Running { pool, gate, handle }
}

/// A pool whose only thread is busy and whose queue has no room: every further task goes to
/// `policy`.
pub(crate) fn saturated(policy: impl RejectedExecutionHandler) -> (ThreadPoolExecutor, Gate) {
    let pool = ThreadPoolExecutor::builder()
        .work_queue(WorkQueue::synchronous())
        .rejected_execution_handler(policy)
        .build()
        .unwrap();
    let gate = occupied(&pool);
    (pool, gate)
}

/// Runs tasks on the submitting thread.
pub(crate) struct SameThread;

impl Executor for SameThread {
    fn execute_task(&self, task: Task) -> Result<(), Rejected> {
        task.run();
        Ok(())
    }
}

pub(crate) fn bounded_custom(capacity: usize) -> WorkQueue {
    WorkQueue::custom(Wrapped { capacity, ..Wrapped::new(LinkedBlockingQueue::unbounded()) })
}

/// Starts the default thread for a worker.
pub(crate) fn thread_for(body: WorkerBody) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name(body.name().to_owned()).spawn(move || body.run())
}

/// A factory that starts a thread only if `works` returns true for the number of the call, from 1.
pub(crate) fn factory(
    works: impl Fn(usize) -> bool + Send + Sync + 'static,
) -> impl Fn(WorkerBody) -> io::Result<JoinHandle<()>> + Send + Sync + 'static {
    let calls = AtomicUsize::new(0);
    move |body| {
        if works(calls.fetch_add(1, Ordering::Relaxed) + 1) {
            thread_for(body)
        } else {
            Err(io::Error::new(io::ErrorKind::WouldBlock, "no thread today"))
        }
    }
}
