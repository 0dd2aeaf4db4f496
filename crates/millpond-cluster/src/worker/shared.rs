//! State that the threads of one worker share.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use millpond::ThreadPoolExecutor;

use super::WorkerStats;
use super::ledger::{Interrupts, Ledger};
use crate::context::{TaskContext, TaskError};
use crate::engine::{Engine, Fence, Report, Verdict, WorkerRow};
use crate::hub::Hub;
use crate::id::{SubmitterId, TaskId, WorkerId};

/// A registered function: encoded arguments to encoded result.
pub(crate) type Handler = Arc<dyn Fn(&TaskContext, &[u8]) -> Result<Vec<u8>, TaskError> + Send + Sync>;

/// Transforms error texts before they are stored.
pub(crate) type Redact = Arc<dyn Fn(&str) -> String + Send + Sync>;

/// See the [module](self). Locks are taken in the order `feeding`, `ledger`, `reports`. None is
/// held during a handler or an interrupt, and only `feeding` during an engine call.
pub(crate) struct Shared {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) submitter: SubmitterId,
    pub(crate) id: WorkerId,
    pub(crate) queue: Arc<str>,
    pub(crate) lease: Duration,
    pub(crate) handlers: HashMap<String, Handler>,
    pub(crate) redact: Option<Redact>,
    pub(crate) pool: ThreadPoolExecutor,
    started: Instant,
    pub(super) ledger: Mutex<Ledger>,
    /// Notified when a task has finished or the worker drains: the feeder checks again. Guarded by
    /// `ledger`.
    pub(super) room: Condvar,
    /// Wakes the renewer early. Guarded by `ledger`.
    pub(super) attention: Condvar,
    /// Held from deciding how much to claim until the ledger has the answer. So no two claims
    /// use the same capacity, and the end of a worker does not overtake a claim.
    pub(super) feeding: Mutex<()>,
    pub(super) reports: Mutex<Reports>,
    pub(super) reported: Condvar,
    pub(super) stop: Mutex<bool>,
    pub(super) stopped: Condvar,
    pub(super) counts: Counts,
}

/// Reports that the engine has not answered yet.
#[derive(Debug, Default)]
pub(super) struct Reports {
    pub(super) list: Vec<Report>,
    /// Whether a thread is settling.
    pub(super) is_settling: bool,
}

/// Statistics. All relaxed.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) claimed: AtomicU64,
    pub(super) finished: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) given_back: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) no_handler: AtomicU64,
    pub(super) safety_poll: AtomicU64,
    pub(super) engine_errors: AtomicU64,
    /// When an engine call of the feeder or the renewer last succeeded, in milliseconds since the
    /// start.
    pub(super) last_success: AtomicU64,
}

impl Counts {
    pub(super) fn add(counter: &AtomicU64, n: usize) {
        counter.fetch_add(n as u64, Ordering::Relaxed);
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The components of a worker.
pub(super) struct Parts {
    pub(super) engine: Arc<dyn Engine>,
    pub(super) hub: Arc<Hub>,
    pub(super) submitter: SubmitterId,
    pub(super) queue: Arc<str>,
    pub(super) lease: Duration,
    pub(super) handlers: HashMap<String, Handler>,
    pub(super) redact: Option<Redact>,
    pub(super) pool: ThreadPoolExecutor,
}

/// Maximum number of tasks held for a pool without a useful maximum size.
const MOST_THREADS: usize = 512;

impl Shared {
    pub(super) fn new(parts: Parts) -> Shared {
        let id = WorkerId::fresh();
        let threads = parts.pool.maximum_pool_size().clamp(1, MOST_THREADS);
        Shared {
            ledger: Mutex::new(Ledger::new(id.clone(), &parts.queue, parts.lease, threads)),
            engine: parts.engine,
            hub: parts.hub,
            submitter: parts.submitter,
            id,
            queue: parts.queue,
            lease: parts.lease,
            handlers: parts.handlers,
            redact: parts.redact,
            pool: parts.pool,
            started: Instant::now(),
            room: Condvar::new(),
            attention: Condvar::new(),
            feeding: Mutex::default(),
            reports: Mutex::default(),
            reported: Condvar::new(),
            stop: Mutex::new(false),
            stopped: Condvar::new(),
            counts: Counts::default(),
        }
    }

    /// The worker's monotonic clock.
    pub(super) fn now(&self) -> Duration {
        self.started.elapsed()
    }

    pub(super) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        lock(&self.ledger)
    }

    /// Returns true if the worker's threads should end.
    pub(super) fn is_stopped(&self) -> bool {
        *lock(&self.stop)
    }

    /// Sleeps until the time is over or the worker is stopped. Returns true if it is stopped.
    pub(super) fn pause(&self, time: Duration) -> bool {
        let stop = lock(&self.stop);
        let running = |stop: &mut bool| !*stop;
        *self.stopped.wait_timeout_while(stop, time, running).unwrap_or_else(PoisonError::into_inner).0
    }

    pub(super) fn succeeded(&self) {
        let now = u64::try_from(self.now().as_millis()).unwrap_or(u64::MAX);
        self.counts.last_success.store(now, Ordering::Relaxed);
    }

    pub(super) fn failed(&self) {
        Counts::add(&self.counts.engine_errors, 1);
    }

    pub(crate) fn can_run(&self, queue: &str, name: &str) -> bool {
        *self.queue == *queue && self.handlers.contains_key(name) && !self.ledger().is_draining()
    }

    /// Cancels a task for a canceller in this process, without waiting for the next renewal.
    pub(crate) fn cancel(&self, id: TaskId) {
        let interrupter = {
            let mut ledger = self.ledger();
            ledger.fence_of(id).and_then(|fence| ledger.cancel(fence))
        };
        interrupt_all(interrupter.into_iter().collect());
    }

    /// Reports a task whose handler never ran, if it is still held.
    pub(super) fn return_task(&self, fence: Fence, verdict: Verdict) {
        if self.ledger().skip(fence) {
            self.report(Report { fence, verdict }, false);
        }
    }

    pub(crate) fn stats(&self) -> WorkerStats {
        let counts = &self.counts;
        let ledger = self.ledger();
        WorkerStats {
            held: ledger.held(),
            claimed: counts.claimed.load(Ordering::Relaxed),
            finished: counts.finished.load(Ordering::Relaxed),
            failed: counts.failed.load(Ordering::Relaxed),
            given_back: counts.given_back.load(Ordering::Relaxed),
            fence_refused: counts.refused.load(Ordering::Relaxed),
            lease_lost: ledger.lease_lost,
            no_handler: counts.no_handler.load(Ordering::Relaxed),
            safety_poll_found_work: counts.safety_poll.load(Ordering::Relaxed),
            engine_errors: counts.engine_errors.load(Ordering::Relaxed),
        }
    }

    pub(super) fn row(&self) -> WorkerRow {
        let ledger = self.ledger();
        WorkerRow {
            worker: self.id.clone(),
            queue: self.queue.to_string(),
            started: 0,
            seen: 0,
            threads: self.pool.maximum_pool_size().min(MOST_THREADS) as u64,
            held: ledger.held() as u64,
            finished: self.counts.finished.load(Ordering::Relaxed),
            draining: ledger.is_draining(),
        }
    }
}

/// Interrupts tasks, holding no lock of the worker, because this runs user callbacks.
pub(super) fn interrupt_all(interrupts: Interrupts) {
    interrupts.iter().for_each(millpond::interrupt::Interrupter::interrupt);
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("id", &self.id).field("queue", &self.queue).finish_non_exhaustive()
    }
}
