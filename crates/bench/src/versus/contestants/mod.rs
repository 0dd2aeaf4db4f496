//! The contestants: one file each, behind a small trait for each of pools, queues, timers and
//! elastic schedulers.

mod bounded_elastic;
mod crossbeam;
mod crossfire;
mod executors;
pub(crate) mod field;
mod flume;
mod jdk;
mod jtp;
mod kanal;
mod millpond;
mod process;
mod qubit;
mod rayon;
mod rusty_pool;
mod scheduled_thread_pool;
mod std_channel;
mod threadfin;
mod threadpool;
mod threadpool_executor;
mod tokio;
mod tokio_time;
mod tokio_util;

use std::sync::mpsc;
use std::time::Duration;

use self::millpond::Millpond;
use crate::workloads::{self, Case, Failure, Outcome};

/// The kind of pool that a workload needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Shape {
    /// `workers` threads and an unbounded queue. At most `most` tasks wait at a time, for pools
    /// that need to know.
    Fixed { workers: usize, most: usize },
    /// `execute` waits while the queue is full.
    Blocking { workers: usize, capacity: usize },
    /// `execute` runs the task on the caller's thread while the queue is full.
    CallerRuns { workers: usize, capacity: usize },
    /// A task is rejected while the queue is full.
    Rejecting { workers: usize, capacity: usize },
    /// A task is dropped silently while the queue is full.
    Discarding { workers: usize, capacity: usize },
    /// As many threads as there are tasks, up to `most`.
    Elastic { most: usize },
}

impl Shape {
    pub(crate) fn workers(self) -> usize {
        match self {
            Shape::Fixed { workers, .. }
            | Shape::Blocking { workers, .. }
            | Shape::CallerRuns { workers, .. }
            | Shape::Rejecting { workers, .. }
            | Shape::Discarding { workers, .. } => workers,
            Shape::Elastic { most } => most,
        }
    }
}

/// A thread pool, as the workloads use it. Every method calls the API that users would call.
pub(crate) trait Pool: Send + Sync + Sized + 'static {
    const NAME: &'static str;
    const PROMISE: Promise = Promise::Same;
    type Handle: Send + 'static;

    /// `None` if it does not support the shape.
    fn new(shape: Shape) -> Option<Self>;
    /// A pool with an unbounded queue that measures its tasks as `timing` says: `off`, `sampled`
    /// or `every`. `None` if it has no such choice.
    fn with_timing(_workers: usize, _timing: &str) -> Option<Self> {
        None
    }
    fn execute(&self, f: impl FnOnce() + Send + 'static);
    fn submit(&self, f: impl FnOnce() + Send + 'static) -> Self::Handle;
    fn join(handle: Self::Handle);
    /// Returns true if the task was accepted or dropped. Only for the shapes that reject and drop.
    fn try_execute(&self, f: impl FnOnce() + Send + 'static) -> bool {
        self.execute(f);
        true
    }
    /// Ends its threads, after all tasks have run.
    fn close(self);
}

/// The guarantees that users rely on. Weaker guarantees can be faster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Promise {
    /// The same guarantees as millpond: tasks begin in order of submission; a cancelled timer is
    /// removed; timers are accurate to the microsecond.
    Same,
    /// A cancelled timer stays until it is due.
    LazyCancel,
    /// Timers are accurate to the millisecond.
    Coarse,
    Other,
}

impl Promise {
    /// True if the guarantees are the same as millpond's, as far as they matter for a workload.
    pub(crate) fn is_ours(self, workload: &str) -> bool {
        match self {
            Promise::Same => true,
            Promise::LazyCancel => workload != "timers",
            Promise::Coarse => workload != "lateness",
            Promise::Other => false,
        }
    }
}

/// The origin of a contestant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Home {
    Us,
    Rust,
    Jdk,
}

/// A kind of queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Line {
    /// A putter waits while it is full.
    Bounded(usize),
    Unbounded,
    /// A putter waits for a taker.
    Rendezvous,
}

/// The senders and the receivers.
type Ends<S, R> = (Vec<S>, Vec<R>);

/// A blocking queue, as the workloads use it.
pub(crate) trait Queue: 'static {
    const NAME: &'static str;
    type Sender: Send + 'static;
    type Receiver: Send + 'static;

    /// `each` senders and receivers. `None` if it does not support the kind, or that many.
    fn ends(line: Line, each: usize) -> Option<Ends<Self::Sender, Self::Receiver>>;
    fn put(sender: &Self::Sender, item: u64);
    fn take(receiver: &Self::Receiver) -> u64;
}

/// A timer service, as the workloads use it.
pub(crate) trait Timers: Sized + 'static {
    const NAME: &'static str;
    const PROMISE: Promise = Promise::Same;
    type Key;

    fn new(workers: usize) -> Self;
    fn schedule(&self, delay: Duration, f: impl FnOnce() + Send + 'static) -> Self::Key;
    fn cancel(&self, key: Self::Key);
    /// Ends its threads, after all timers have fired or are cancelled.
    fn close(self);
}

/// Threads that are started on demand, and lanes whose tasks run one after the other.
pub(crate) trait Elastic: Sized + 'static {
    const NAME: &'static str;
    type Lane;

    /// At most `threads` threads.
    fn new(threads: usize) -> Self;
    fn execute(&self, f: impl FnOnce() + Send + 'static);
    fn lane(&self) -> Self::Lane;
    fn on(&self, lane: &Self::Lane, f: impl FnOnce() + Send + 'static);
    /// Ends its threads, after all tasks have run.
    fn close(self);
}

/// What this process can measure under a name.
struct Entry {
    name: &'static str,
    promise: Promise,
    run: fn(&Case) -> Outcome,
}

fn pool<P: Pool>() -> Entry {
    Entry { name: P::NAME, promise: P::PROMISE, run: workloads::run::<P> }
}

fn queue<Q: Queue>() -> Entry {
    Entry { name: Q::NAME, promise: Promise::Same, run: workloads::run_queue::<Q> }
}

fn timers<T: Timers>() -> Entry {
    Entry { name: T::NAME, promise: T::PROMISE, run: workloads::run_timers::<T> }
}

fn elastic<E: Elastic>() -> Entry {
    Entry { name: E::NAME, promise: Promise::Same, run: workloads::run_elastic::<E> }
}

/// The prefix of all names of millpond.
const US: &str = Millpond::NAME;

/// Millpond is first. A name may have several entries of different kinds.
fn entries() -> Vec<Entry> {
    vec![
        pool::<Millpond>(),
        pool::<crossbeam::Crossbeam>(),
        pool::<crossfire::Crossfire>(),
        pool::<kanal::Kanal>(),
        pool::<threadpool::Threadpool>(),
        pool::<rusty_pool::RustyPool>(),
        pool::<threadfin::Threadfin>(),
        pool::<threadpool_executor::ThreadpoolExecutor>(),
        pool::<jtp::Jtp>(),
        pool::<tokio::Tokio>(),
        pool::<qubit::Qubit>(),
        pool::<executors::Executors>(),
        pool::<rayon::Rayon>(),
        queue::<millpond::Queues>(),
        queue::<crossbeam::Channel>(),
        queue::<crossfire::Channel>(),
        queue::<kanal::Channel>(),
        queue::<flume::Channel>(),
        queue::<std_channel::Channel>(),
        timers::<millpond::Scheduled>(),
        timers::<millpond::Parallel>(),
        timers::<scheduled_thread_pool::Scheduled>(),
        timers::<tokio_time::Time>(),
        timers::<tokio_util::Delays>(),
        elastic::<bounded_elastic::Moving>(),
        elastic::<bounded_elastic::Pinned>(),
        elastic::<tokio::Tokio>(),
    ]
}

/// Does the work of a case once, in this process.
pub(crate) fn run_here(name: &str, case: &Case) -> Outcome {
    let known = entries().into_iter().filter(|entry| entry.name == name).map(|entry| (entry.run)(case));
    known
        .into_iter()
        .find(|outcome| !matches!(outcome, Err(Failure::NotOffered)))
        .unwrap_or(Err(Failure::NotOffered))
}

/// For pools without handles: uses a channel for the result, as their users do. Returns the closure
/// to execute.
fn with_channel(f: impl FnOnce() + Send + 'static) -> (impl FnOnce() + Send + 'static, Done) {
    let (sender, done) = mpsc::sync_channel(1);
    let f = move || {
        f();
        // The receiver is gone if the handle was dropped.
        _ = sender.send(());
    };
    (f, done)
}

type Done = mpsc::Receiver<()>;

fn wait(done: Done) {
    done.recv().expect("a task ends by sending");
}
