//! Workers: threads that claim tasks for an ordinary pool and report their outcomes.
//!
//! The feeder claims tasks for which the pool has room, the reporter settles, the renewer extends
//! leases, and a fourth thread ticks. Their decisions are in the [`ledger`], which has no threads.

mod feeder;
pub(crate) mod ledger;
mod renewer;
mod reporter;
mod run;
mod shared;

use std::collections::HashMap;
use std::fmt;
use std::ops::AddAssign;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use millpond::{ThreadPoolExecutor, executors, sizing};
use serde::Serialize;
use serde::de::DeserializeOwned;

use self::ledger::Ledger;
pub(crate) use self::run::run_in_place;
pub(crate) use self::shared::Shared;
use self::shared::{Handler, Parts, Redact, interrupt_all, lock};
use crate::cluster::Cluster;
use crate::context::{TaskContext, TaskError};
use crate::engine::{Report, Verdict};
use crate::error::OpenError;
use crate::id::WorkerId;
use crate::task_type::TaskType;

/// Settings of a worker. Made by [`Cluster::worker`].
pub struct WorkerBuilder {
    cluster: Cluster,
    handlers: HashMap<String, Handler>,
    last: Option<String>,
    pool: Option<ThreadPoolExecutor>,
    grace: Duration,
    redact: Option<Redact>,
}

impl WorkerBuilder {
    pub(crate) fn new(cluster: Cluster) -> WorkerBuilder {
        let grace = Duration::from_secs(30);
        WorkerBuilder { cluster, handlers: HashMap::new(), last: None, pool: None, grace, redact: None }
    }

    /// Registers the function for a task type. It runs on the pool, and may block:
    /// `interrupt::check` and the blocking calls of millpond end early when the task is cancelled,
    /// times out or loses its lease.
    pub fn handle<A, R, F>(mut self, task_type: &TaskType<A, R>, handler: F) -> Self
    where
        A: DeserializeOwned,
        R: Serialize,
        F: Fn(&TaskContext, A) -> Result<R, TaskError> + Send + Sync + 'static,
    {
        let handler: Handler = Arc::new(move |context, args| {
            let args = serde_json::from_slice(args).map_err(TaskError::undecodable)?;
            let result = handler(context, args)?;
            serde_json::to_vec(&result).map_err(TaskError::permanent)
        });
        self.handlers.insert(task_type.name().to_owned(), handler);
        self.last = Some(task_type.name().to_owned());
        self
    }

    /// Lets the handler that was registered last serve another name too: the old name of a renamed
    /// task type.
    pub fn also(mut self, name: &str) -> Self {
        if let Some(handler) = self.last.as_ref().and_then(|last| self.handlers.get(last)).cloned() {
            self.handlers.insert(name.to_owned(), handler);
        }
        self
    }

    /// Sets the pool, which may have other tasks too; by default one with a thread per core.
    pub fn pool(mut self, pool: ThreadPoolExecutor) -> Self {
        self.pool = Some(pool);
        self
    }

    /// Sets how long dropping the worker waits for running tasks; default 30 seconds.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Transforms error texts before they are stored, because they may contain secrets. To store
    /// none, return an empty text.
    pub fn redact_errors(mut self, redact: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        self.redact = Some(Arc::new(redact));
        self
    }

    /// Starts the worker.
    ///
    /// # Errors
    /// An [`OpenError`] if there is no handler, or a thread cannot be started.
    pub fn start(self) -> Result<Worker, OpenError> {
        if self.handlers.is_empty() {
            return Err(OpenError::Setting(
                "a worker without a handler could only give tasks back".to_owned(),
            ));
        }
        let make = || executors::fixed(sizing::cpu_bound().max(1));
        let pool = self.pool.map_or_else(make, Ok).map_err(|error| OpenError::Setting(error.to_string()))?;
        let core = &self.cluster.core;
        let shared = Arc::new(Shared::new(Parts {
            engine: Arc::clone(&core.engine),
            hub: Arc::clone(&core.hub),
            submitter: core.submitter,
            queue: Arc::clone(&self.cluster.queue),
            lease: core.lease,
            handlers: self.handlers,
            redact: self.redact,
            pool,
        }));
        {
            let mut workers = lock(&core.workers);
            workers.live.retain(|worker| worker.strong_count() > 0);
            workers.live.push(Arc::downgrade(&shared));
        }
        let mut worker = Worker { cluster: self.cluster, shared, threads: Vec::new(), grace: self.grace };
        type Body = fn(&Arc<Shared>);
        let bodies: [(&str, Body); 4] = [
            ("reporter", reporter::report),
            ("renewer", renewer::renew),
            ("ticker", renewer::tick),
            ("feeder", feeder::feed),
        ];
        for (name, body) in bodies {
            let shared = Arc::clone(&worker.shared);
            let builder = std::thread::Builder::new().name(format!("cluster-{name}"));
            // On failure, dropping the worker ends the threads that have started.
            worker.threads.push(builder.spawn(move || body(&shared)).map_err(OpenError::Thread)?);
        }
        Ok(worker)
    }
}

impl fmt::Debug for WorkerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names: Vec<&String> = self.handlers.keys().collect();
        names.sort();
        f.debug_struct("WorkerBuilder").field("handlers", &names).finish_non_exhaustive()
    }
}

/// The result of a drain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DrainReport {
    /// Tasks that this worker finished since its start.
    pub finished: u64,
    /// Tasks that this worker gave back since its start.
    pub given_back: u64,
    /// Reports that were refused since its start, because the lease had been lost.
    pub refused: u64,
    /// Handlers that ignored the interrupt. Their tasks were given back; what the handlers still do
    /// is ignored.
    pub still_running: usize,
}

/// Statistics of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct WorkerStats {
    /// Tasks that it holds now.
    pub held: usize,
    /// Tasks that it has claimed.
    pub claimed: u64,
    /// Attempts that ended with a result.
    pub finished: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// Tasks that it gave back.
    pub given_back: u64,
    /// Reports that were refused because the lease had been lost. Growth is a sign of a problem.
    pub fence_refused: u64,
    /// Leases that were lost. Growth is a sign of a problem.
    pub lease_lost: u64,
    /// Claimed tasks for which it had no handler.
    pub no_handler: u64,
    /// Work that was found without a hint. Growth is a sign of a problem.
    pub safety_poll_found_work: u64,
    /// Engine calls that failed.
    pub engine_errors: u64,
}

impl AddAssign for WorkerStats {
    fn add_assign(&mut self, other: WorkerStats) {
        self.held += other.held;
        self.claimed += other.claimed;
        self.finished += other.finished;
        self.failed += other.failed;
        self.given_back += other.given_back;
        self.fence_refused += other.fence_refused;
        self.lease_lost += other.lease_lost;
        self.no_handler += other.no_handler;
        self.safety_poll_found_work += other.safety_poll_found_work;
        self.engine_errors += other.engine_errors;
    }
}

/// Serves the tasks of one queue on a local pool. Dropping it drains it.
#[must_use = "dropping the worker drains it"]
pub struct Worker {
    cluster: Cluster,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    grace: Duration,
}

impl Worker {
    /// Its identity, fresh at each start.
    pub fn id(&self) -> &WorkerId {
        &self.shared.id
    }

    /// Its statistics.
    pub fn stats(&self) -> WorkerStats {
        self.shared.stats()
    }

    /// Returns true if it claims tasks: it is not draining, and the engine has answered within two
    /// thirds of a lease.
    pub fn is_healthy(&self) -> bool {
        let now = self.shared.now();
        let since = Duration::from_millis(self.shared.counts.last_success.load(Ordering::Relaxed));
        let ledger = self.shared.ledger();
        let is_busy = ledger.unfinished() > 0;
        !ledger.is_draining()
            && !ledger.is_cut_off(now)
            && (is_busy || now.saturating_sub(since) < self.shared.lease * 2 / 3)
    }

    /// Returns true if it drains, because of [`drain`](Self::drain) or at an administrator's
    /// request.
    pub fn is_draining(&self) -> bool {
        self.shared.ledger().is_draining()
    }

    /// Claims nothing more, gives back tasks that have not begun, and waits `grace` for the running
    /// ones. Then it interrupts these and gives them back too. None of this uses up an attempt.
    pub fn drain(mut self, grace: Duration) -> DrainReport {
        self.end(grace)
    }

    fn end(&mut self, grace: Duration) -> DrainReport {
        if self.threads.is_empty() {
            return DrainReport::default();
        }
        let shared = Arc::clone(&self.shared);
        shared.begin_drain();
        // A claim that is on its way enters the ledger first. No later one is sent.
        drop(lock(&shared.feeding));
        let mut still_running = 0;
        if !wait_for(&shared, grace, Ledger::unfinished) {
            let interrupts = shared.ledger().stop();
            interrupt_all(interrupts);
            // Time to return from a blocking call, not to finish the work.
            let time = grace.clamp(Duration::from_millis(100), Duration::from_secs(2));
            if !wait_for(&shared, time, Ledger::unfinished) {
                let fences = shared.ledger().abandon();
                still_running = fences.len();
                shared::Counts::add(&shared.counts.given_back, fences.len());
                for fence in fences {
                    shared.report(Report { fence, verdict: Verdict::GivenBack }, false);
                }
            }
        }
        // A task is held until its report is answered. If the engine does not answer, the leases
        // expire.
        wait_for(&shared, shared.lease, Ledger::held);
        self.stop_threads();
        let _ = shared.engine.remove_worker(&shared.id);
        let stats = self.stats();
        DrainReport {
            finished: stats.finished,
            given_back: stats.given_back,
            refused: stats.fence_refused,
            still_running,
        }
    }

    fn stop_threads(&mut self) {
        *lock(&self.shared.stop) = true;
        self.shared.stopped.notify_all();
        drop(lock(&self.shared.reports));
        self.shared.reported.notify_all();
        drop(self.shared.ledger());
        self.shared.room.notify_all();
        self.shared.attention.notify_all();
        self.shared.engine.wake();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        let mut workers = lock(&self.cluster.core.workers);
        workers.live.retain(|worker| !Weak::ptr_eq(worker, &Arc::downgrade(&self.shared)));
        *workers.ended.entry(self.shared.queue.to_string()).or_default() += self.stats();
    }
}

/// Waits until the count is zero. Returns false on timeout.
fn wait_for(shared: &Shared, time: Duration, count: fn(&Ledger) -> usize) -> bool {
    let deadline = Instant::now().checked_add(time);
    let mut ledger = shared.ledger();
    while count(&ledger) > 0 {
        let left = deadline
            .map_or(Duration::from_secs(1), |deadline| deadline.saturating_duration_since(Instant::now()));
        if left.is_zero() {
            return false;
        }
        // Settling notifies, but a lost lease does not, so check every 100 ms.
        let wait = left.min(Duration::from_millis(100));
        ledger = shared.room.wait_timeout(ledger, wait).unwrap_or_else(PoisonError::into_inner).0;
    }
    true
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.end(self.grace);
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shared.fmt(f)
    }
}
