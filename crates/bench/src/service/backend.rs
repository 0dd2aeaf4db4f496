//! Three ways to run a blocking query for an async handler: millpond, and tokio's `spawn_blocking`
//! in its usual and in a careful form.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use millpond::{JoinError, Rejected, ShutdownReport, ThreadPoolExecutor, WorkQueue, interrupt};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::database::{self, InterruptHandle, Query};

/// Concurrent queries.
const THREADS: usize = 4;
/// A slower request is answered with status 504.
const DEADLINE: Duration = Duration::from_millis(250);
/// The time that the pool's shutdown has to drain, and then to stop the remaining tasks.
const GRACE: Duration = Duration::from_secs(5);
const FORCE: Duration = Duration::from_secs(2);

/// The answer to a request.
pub(crate) enum Answer {
    Found(i64),
    /// Rejected at once, or after the limit on the time in the queue.
    Busy,
    TooLate,
    Failed(String),
}

#[derive(Clone)]
pub(crate) enum Backend {
    /// A bounded pool. Dropping the handle of a query cancels it.
    Millpond(ThreadPoolExecutor),
    /// The usual form: a semaphore around `spawn_blocking`. After the deadline the query goes on.
    Plain { running: Arc<Semaphore> },
    /// The same with a bound on the number of admitted requests, and with explicit cancellation of
    /// queries.
    Careful { running: Arc<Semaphore>, inside: Arc<Semaphore> },
}

impl Backend {
    /// `queue` is the number of requests that may wait, `max_queue_time` the time limit for that,
    /// which only millpond has. `None` if the variant is unknown.
    pub(crate) fn new(variant: &str, queue: usize, max_queue_time: Option<Duration>) -> Option<Backend> {
        let semaphore = |permits| Arc::new(Semaphore::new(permits));
        match variant {
            "millpond" => {
                let pool = ThreadPoolExecutor::builder()
                    .core_pool_size(THREADS)
                    .maximum_pool_size(THREADS)
                    .work_queue(WorkQueue::array(queue));
                let pool = match max_queue_time {
                    Some(limit) => pool.max_queue_time(limit),
                    None => pool,
                };
                Some(Backend::Millpond(pool.build().expect("the sizes are valid")))
            }
            "plain" => Some(Backend::Plain { running: semaphore(THREADS) }),
            "careful" => {
                Some(Backend::Careful { running: semaphore(THREADS), inside: semaphore(THREADS + queue) })
            }
            _ => None,
        }
    }

    /// Answers a request.
    pub(crate) async fn answer(&self, query: Query, id: u32) -> Answer {
        match self {
            Backend::Millpond(pool) => millpond(pool, query, id).await,
            Backend::Plain { running } => plain(running, query, id).await,
            Backend::Careful { running, inside } => careful(running, inside, query, id).await,
        }
    }

    /// Ends the threads and reports the result. Those of tokio end with its runtime.
    pub(crate) fn shut_down(&self) -> String {
        let Backend::Millpond(pool) = self else { return "ended with the runtime".into() };
        let ShutdownReport { outcome, never_run, .. } = pool.shutdown_gracefully(GRACE, FORCE);
        let stats = pool.stats();
        let (completed, cancelled) = (stats.completed, stats.cancelled);
        let (rejected, expired) = (stats.rejected, stats.expired);
        let never_run = never_run.len();
        format!(
            "{outcome}; {completed} completed, {cancelled} cancelled, {rejected} rejected, {expired} expired, \
             {never_run} never run"
        )
    }
}

fn refused(rejected: &Rejected) -> Answer {
    if rejected.reason().is_overload() { Answer::Busy } else { Answer::Failed(rejected.to_string()) }
}

async fn millpond(pool: &ThreadPoolExecutor, query: Query, id: u32) -> Answer {
    let work = move || {
        let interrupted =
            |handle: InterruptHandle| interrupt::current().on_interrupt(move || handle.interrupt());
        found(database::run(query, id, interrupted))
    };
    let handle = match pool.submit(work) {
        Ok(handle) => handle.cancel_on_drop(),
        Err(rejected) => return refused(&rejected),
    };
    match timeout(DEADLINE, handle).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(JoinError::Expired)) => Answer::Busy,
        Ok(Err(error)) => Answer::Failed(error.to_string()),
        Err(_) => Answer::TooLate,
    }
}

async fn plain(running: &Arc<Semaphore>, query: Query, id: u32) -> Answer {
    let running = Arc::clone(running);
    let work = async move {
        let permit = running.acquire_owned().await.expect("nobody closes it");
        let work = move || {
            let _held = permit;
            found(database::run(query, id, drop))
        };
        spawn_blocking(work).await.unwrap_or_else(|error| Answer::Failed(error.to_string()))
    };
    timeout(DEADLINE, work).await.unwrap_or(Answer::TooLate)
}

async fn careful(running: &Arc<Semaphore>, inside: &Arc<Semaphore>, query: Query, id: u32) -> Answer {
    let Ok(_inside) = Arc::clone(inside).try_acquire_owned() else { return Answer::Busy };
    let query_state = Arc::new(Mutex::new(Cancellable::default()));
    let _cancel = CancelOnDrop(Arc::clone(&query_state));
    let running = Arc::clone(running);
    let work = async move {
        let permit = running.acquire_owned().await.expect("nobody closes it");
        let work = move || {
            let _held = permit;
            if query_state.lock().expect("nobody panics with it").is_cancelled {
                return Answer::TooLate;
            }
            found(database::run(query, id, |handle| Armed::new(&query_state, handle)))
        };
        spawn_blocking(work).await.unwrap_or_else(|error| Answer::Failed(error.to_string()))
    };
    timeout(DEADLINE, work).await.unwrap_or(Answer::TooLate)
}

#[derive(Default)]
struct Cancellable {
    is_cancelled: bool,
    /// Present while the query runs.
    handle: Option<InterruptHandle>,
}

/// Held by the handler: interrupts the query, or prevents its start.
struct CancelOnDrop(Arc<Mutex<Cancellable>>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        let mut query = self.0.lock().expect("nobody panics with it");
        query.is_cancelled = true;
        if let Some(handle) = &query.handle {
            handle.interrupt();
        }
    }
}

/// Held by the blocking thread: the query can be interrupted while this value lives.
struct Armed<'a>(&'a Mutex<Cancellable>);

impl<'a> Armed<'a> {
    fn new(query: &'a Mutex<Cancellable>, handle: InterruptHandle) -> Armed<'a> {
        query.lock().expect("nobody panics with it").handle = Some(handle);
        Armed(query)
    }
}

impl Drop for Armed<'_> {
    fn drop(&mut self) {
        self.0.lock().expect("nobody panics with it").handle = None;
    }
}

fn found(outcome: Result<i64, String>) -> Answer {
    outcome.map_or_else(Answer::Failed, Answer::Found)
}
