//! What happens in the demonstration: a real pool is given more work than it can take, does it, shrinks and ends.
//!
//! Nothing here is written down beforehand. How a task was admitted is told from the pool before and after
//! `execute`; who ran what and which threads left is told by the tasks and by the pool's hooks.

use std::error::Error;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use millpond::{Hooks, ShutdownOutcome, ThreadPoolExecutor, WorkQueue, WorkerInfo};

use super::gate::Gate;

pub(crate) const CORE: usize = 2;
pub(crate) const MAXIMUM: usize = 4;
pub(crate) const QUEUE: usize = 4;
pub(crate) const TASKS: usize = 9;

/// What a task does once the gate is open.
const WORK: Duration = Duration::from_millis(120);
/// How long an extra thread stays without work.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_millis(150);
/// How long the core threads are then watched, to see that they stay.
const WATCH: Duration = Duration::from_millis(80);
/// More than everything here takes on a busy machine; only a fault outlasts it.
const PATIENCE: Duration = Duration::from_secs(20);

/// All that was seen.
pub(crate) struct Seen {
    pub(crate) admissions: Vec<Admission>,
    /// The error that the caller got for a task that was rejected.
    pub(crate) rejection: Option<String>,
    /// In the order in which they began. Times are from the opening of the gate on.
    pub(crate) runs: Vec<Run>,
    /// In the order in which they left: the worker, and when.
    pub(crate) departures: Vec<(String, Duration)>,
    /// How many of them left before the shutdown.
    pub(crate) left_idle: usize,
    /// The pool's own words at the turning points.
    pub(crate) lines: Vec<(&'static str, String)>,
    pub(crate) ending: Ending,
}

/// How the pool took one task, and what it looked like afterwards.
pub(crate) struct Admission {
    pub(crate) task: usize,
    pub(crate) how: How,
    pub(crate) threads: usize,
    pub(crate) queued: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    CoreThread,
    Queued,
    ExtraThread,
    Rejected,
}

#[derive(Clone)]
pub(crate) struct Run {
    pub(crate) task: usize,
    pub(crate) thread: String,
    pub(crate) begin: Duration,
    pub(crate) end: Duration,
}

pub(crate) struct Ending {
    pub(crate) outcome: ShutdownOutcome,
    pub(crate) elapsed: Duration,
    pub(crate) never_run: usize,
}

/// Plays it; takes less than a second when the machine is not busy.
pub(crate) fn play() -> Result<Seen, Box<dyn Error>> {
    let log = Arc::new(Log::default());
    let gate = Arc::new(Gate::default());
    let pool = ThreadPoolExecutor::builder()
        .core_pool_size(CORE)
        .maximum_pool_size(MAXIMUM)
        .keep_alive_time(KEEP_ALIVE)
        .work_queue(WorkQueue::array(QUEUE))
        .thread_name_prefix("pond-")
        .hooks(Watch(Arc::clone(&log)))
        .build()?;
    let mut lines = Vec::new();

    // 1. All tasks come while nothing can finish.
    let mut admissions = Vec::new();
    let mut rejection = None;
    for task in 1..=TASKS {
        let (admission, error) = admit(&pool, task, &gate, &log);
        admissions.push(admission);
        rejection = rejection.or(error);
    }
    let at_gate = pool.pool_size();
    let accepted = admissions.iter().filter(|admission| admission.how != How::Rejected).count();
    if !gate.await_arrivals(at_gate, PATIENCE) {
        gate.open();
        return Err(format!("not all of {at_gate} threads began their first task: {pool}").into());
    }
    lines.push(("all tasks handed in", pool.to_string()));

    // 2. The gate opens, and they run.
    let opened = gate.open();
    log.wait("the work to end", &pool, |events| events.runs.len() == accepted)?;
    // 3. The extra threads find nothing to do and leave.
    log.wait("the extra threads to leave", &pool, |events| events.departures.len() == at_gate - CORE)?;
    thread::sleep(WATCH);
    await_rest(&pool)?;
    let left_idle = log.events().departures.len();
    lines.push(("work done, extra threads gone", pool.to_string()));

    // 4. The rest ends with the pool.
    let report = pool.shutdown_gracefully(PATIENCE, PATIENCE);
    lines.push(("after the shutdown", pool.to_string()));

    let since = |at: Instant| at.saturating_duration_since(opened);
    let events = log.events();
    let mut runs: Vec<Run> = events
        .runs
        .iter()
        .map(|run| Run {
            task: run.task,
            thread: run.thread.clone(),
            begin: since(run.begin),
            end: since(run.end),
        })
        .collect();
    runs.sort_by_key(|run| (run.begin, run.task));
    let departures = events.departures.iter().map(|(name, at)| (name.clone(), since(*at))).collect();
    let ending =
        Ending { outcome: report.outcome, elapsed: report.elapsed, never_run: report.never_run.len() };
    Ok(Seen { admissions, rejection, runs, departures, left_idle, lines, ending })
}

/// Waits until no worker is busy: a task has told the log before its worker is through with it.
fn await_rest(pool: &ThreadPoolExecutor) -> Result<(), Box<dyn Error>> {
    let begin = Instant::now();
    while pool.active_count() > 0 {
        if begin.elapsed() > PATIENCE {
            return Err(format!("waited {PATIENCE:?} in vain for the workers to rest: {pool}").into());
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Hands in one task, and tells from the pool's figures what became of it.
fn admit(
    pool: &ThreadPoolExecutor,
    task: usize,
    gate: &Arc<Gate>,
    log: &Arc<Log>,
) -> (Admission, Option<String>) {
    let (gate, log) = (Arc::clone(gate), Arc::clone(log));
    let (threads_before, queued_before) = (pool.pool_size(), pool.queued_count());
    let taken = pool.execute(move || {
        gate.pass();
        let begin = Instant::now();
        thread::sleep(WORK);
        log.ran(task, begin);
    });
    let (threads, queued) = (pool.pool_size(), pool.queued_count());
    let how = if taken.is_err() {
        How::Rejected
    } else if threads > threads_before {
        if threads_before < pool.core_pool_size() { How::CoreThread } else { How::ExtraThread }
    } else {
        debug_assert_eq!(queued, queued_before + 1);
        How::Queued
    };
    (Admission { task, how, threads, queued }, taken.err().map(|rejected| rejected.to_string()))
}

/// What tasks and hooks have reported.
#[derive(Default)]
struct Log {
    events: Mutex<Events>,
    changed: Condvar,
}

#[derive(Default)]
struct Events {
    runs: Vec<TimedRun>,
    departures: Vec<(String, Instant)>,
}

struct TimedRun {
    task: usize,
    thread: String,
    begin: Instant,
    end: Instant,
}

impl Log {
    fn ran(&self, task: usize, begin: Instant) {
        let thread = thread::current().name().unwrap_or("a thread without a name").to_owned();
        self.events().runs.push(TimedRun { task, thread, begin, end: Instant::now() });
        self.changed.notify_all();
    }

    fn left(&self, worker: &str) {
        self.events().departures.push((worker.to_owned(), Instant::now()));
        self.changed.notify_all();
    }

    fn wait(
        &self,
        what: &str,
        pool: &ThreadPoolExecutor,
        done: impl Fn(&Events) -> bool,
    ) -> Result<(), Box<dyn Error>> {
        let waiting = self.changed.wait_timeout_while(self.events(), PATIENCE, |events| !done(events));
        let (events, timeout) = waiting.unwrap_or_else(PoisonError::into_inner);
        drop(events);
        if timeout.timed_out() {
            return Err(format!("waited {PATIENCE:?} in vain for {what}: {pool}").into());
        }
        Ok(())
    }

    fn events(&self) -> MutexGuard<'_, Events> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells the log when a thread leaves the pool.
struct Watch(Arc<Log>);

impl Hooks for Watch {
    fn worker_stopped(&self, worker: &WorkerInfo) {
        self.0.left(worker.name());
    }
}
