//! The contestants: one file each, behind one small trait.

mod bounded_elastic;
mod crossbeam;
mod executors;
mod flume;
mod jdk;
mod jtp;
mod kanal;
mod millpond;
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

use std::marker::PhantomData;
use std::sync::mpsc;
use std::time::Duration;

use self::millpond::Millpond;
use crate::workloads::{self, Case, Failure, Outcome, memory};

/// What a workload asks of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Shape {
    /// So many threads, and a queue without a bound. No more than `most` tasks wait at a time, for those that need
    /// to know.
    Fixed { workers: usize, most: usize },
    /// Whoever executes waits while the queue is full.
    Blocking { workers: usize, capacity: usize },
    /// Whoever executes runs the task while the queue is full.
    CallerRuns { workers: usize, capacity: usize },
    /// A task is refused while the queue is full.
    Rejecting { workers: usize, capacity: usize },
    /// As many threads as there are tasks, up to `most`.
    Elastic { most: usize },
}

impl Shape {
    pub(crate) fn workers(self) -> usize {
        match self {
            Shape::Fixed { workers, .. }
            | Shape::Blocking { workers, .. }
            | Shape::CallerRuns { workers, .. }
            | Shape::Rejecting { workers, .. } => workers,
            Shape::Elastic { most } => most,
        }
    }
}

/// A pool of threads, as the workloads use it. All calls are to what its users would call.
pub(crate) trait Pool: Send + Sync + Sized + 'static {
    const NAME: &'static str;
    const ORDER: Order = Order::Fifo;
    type Handle: Send + 'static;

    /// None: it has no such shape.
    fn new(shape: Shape) -> Option<Self>;
    fn execute(&self, f: impl FnOnce() + Send + 'static);
    fn submit(&self, f: impl FnOnce() + Send + 'static) -> Self::Handle;
    fn join(handle: Self::Handle);
    /// True: accepted. Only for the shape that refuses.
    fn try_execute(&self, f: impl FnOnce() + Send + 'static) -> bool {
        self.execute(f);
        true
    }
    /// Ends its threads. All tasks have run.
    fn close(self);
}

/// In which order tasks begin. What need not keep an order can be faster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    Fifo,
    Any,
}

/// Where a contestant comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Home {
    Us,
    Rust,
    Jdk,
}

/// One row of a table.
pub(crate) trait Contestant {
    fn name(&self) -> &str;
    fn home(&self) -> Home;
    fn order(&self) -> Order;
    /// The process that works for it, if that is another one.
    fn process(&self) -> Option<u32> {
        None
    }
    /// Does the work of a case once.
    fn run(&self, case: &Case) -> Outcome;
}

/// A kind of queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Line {
    /// Whoever puts waits while it is full.
    Bounded(usize),
    Unbounded,
    /// Whoever puts waits for one who takes.
    Rendezvous,
}

/// Those who put, and those who take.
type Ends<S, R> = (Vec<S>, Vec<R>);

/// A blocking queue, as the workloads use it.
pub(crate) trait Queue: 'static {
    const NAME: &'static str;
    type Sender: Send + 'static;
    type Receiver: Send + 'static;

    /// So many of both ends. None: it has no such kind, or cannot have so many.
    fn ends(line: Line, each: usize) -> Option<Ends<Self::Sender, Self::Receiver>>;
    fn put(sender: &Self::Sender, item: u64);
    fn take(receiver: &Self::Receiver) -> u64;
}

/// A queue that runs in this process.
struct HereQueue<Q>(PhantomData<Q>);

impl<Q: Queue> Contestant for HereQueue<Q> {
    fn name(&self) -> &str {
        Q::NAME
    }

    fn home(&self) -> Home {
        if Q::NAME == Millpond::NAME { Home::Us } else { Home::Rust }
    }

    fn order(&self) -> Order {
        Order::Fifo
    }

    fn run(&self, case: &Case) -> Outcome {
        workloads::run_queue::<Q>(case)
    }
}

fn queue<Q: Queue>() -> Box<dyn Contestant> {
    Box::new(HereQueue::<Q>(PhantomData))
}

/// What runs tasks later, as the workloads use it.
pub(crate) trait Timers: Sized + 'static {
    const NAME: &'static str;
    type Key;

    fn new(workers: usize) -> Self;
    fn schedule(&self, delay: Duration, f: impl FnOnce() + Send + 'static) -> Self::Key;
    fn cancel(&self, key: Self::Key);
    /// Ends its threads. Nothing waits any more.
    fn close(self);
}

/// Timers that run in this process.
struct HereTimers<T>(PhantomData<T>);

impl<T: Timers> Contestant for HereTimers<T> {
    fn name(&self) -> &str {
        T::NAME
    }

    fn home(&self) -> Home {
        if T::NAME == Millpond::NAME { Home::Us } else { Home::Rust }
    }

    fn order(&self) -> Order {
        Order::Fifo
    }

    fn run(&self, case: &Case) -> Outcome {
        workloads::run_timers::<T>(case)
    }
}

fn timers<T: Timers>() -> Box<dyn Contestant> {
    Box::new(HereTimers::<T>(PhantomData))
}

/// Threads that come when they are needed, and lanes whose tasks run one after the other.
pub(crate) trait Elastic: Sized + 'static {
    const NAME: &'static str;
    type Lane;

    /// At most so many threads.
    fn new(threads: usize) -> Self;
    fn execute(&self, f: impl FnOnce() + Send + 'static);
    fn lane(&self) -> Self::Lane;
    fn on(&self, lane: &Self::Lane, f: impl FnOnce() + Send + 'static);
    /// Ends its threads. All tasks have run.
    fn close(self);
}

/// An elastic scheduler that runs in this process.
struct HereElastic<E>(PhantomData<E>);

impl<E: Elastic> Contestant for HereElastic<E> {
    fn name(&self) -> &str {
        E::NAME
    }

    fn home(&self) -> Home {
        if E::NAME == Millpond::NAME { Home::Us } else { Home::Rust }
    }

    fn order(&self) -> Order {
        Order::Fifo
    }

    fn run(&self, case: &Case) -> Outcome {
        workloads::run_elastic::<E>(case)
    }
}

fn elastic<E: Elastic>() -> Box<dyn Contestant> {
    Box::new(HereElastic::<E>(PhantomData))
}

/// A pool that runs in this process.
struct Here<P>(PhantomData<P>);

impl<P: Pool> Contestant for Here<P> {
    fn name(&self) -> &str {
        P::NAME
    }

    fn home(&self) -> Home {
        if P::NAME == Millpond::NAME { Home::Us } else { Home::Rust }
    }

    fn order(&self) -> Order {
        P::ORDER
    }

    fn run(&self, case: &Case) -> Outcome {
        workloads::run::<P>(case)
    }
}

fn here<P: Pool>() -> Box<dyn Contestant> {
    Box::new(Here::<P>(PhantomData))
}

/// Who takes part. What one home has of each kind is a contestant of its own.
pub(crate) struct Field {
    /// We first.
    pub(crate) contestants: Vec<Box<dyn Contestant>>,
    /// Which JDK, or why there is none.
    pub(crate) jdk: Result<String, String>,
}

/// Starts the JDK too, if there is one.
pub(crate) fn field(quick: bool) -> Field {
    let mut contestants = in_rust();
    let jdk = jdk::all(quick).map(|(jdk, version)| {
        contestants.extend(jdk);
        version
    });
    Field { contestants, jdk }
}

fn in_rust() -> Vec<Box<dyn Contestant>> {
    vec![
        here::<Millpond>(),
        here::<crossbeam::Crossbeam>(),
        here::<kanal::Kanal>(),
        here::<threadpool::Threadpool>(),
        here::<rusty_pool::RustyPool>(),
        here::<threadfin::Threadfin>(),
        here::<threadpool_executor::ThreadpoolExecutor>(),
        here::<jtp::Jtp>(),
        here::<executors::Executors>(),
        here::<rayon::Rayon>(),
        here::<tokio::Tokio>(),
        queue::<millpond::Queues>(),
        queue::<crossbeam::Channel>(),
        queue::<kanal::Channel>(),
        queue::<flume::Channel>(),
        queue::<std_channel::Channel>(),
        timers::<millpond::Scheduled>(),
        timers::<scheduled_thread_pool::Scheduled>(),
        timers::<tokio_time::Time>(),
        timers::<tokio_util::Delays>(),
        elastic::<bounded_elastic::Moving>(),
        elastic::<bounded_elastic::Pinned>(),
        elastic::<tokio::Tokio>(),
    ]
}

/// Measures the memory of one pool, in a process that does nothing else.
pub(crate) fn memory(name: &str, size: u64) -> Outcome {
    let pool = in_rust().into_iter().find(|one| one.name() == name);
    pool.map_or(Err(Failure::NotOffered), |pool| pool.run(&memory::here(size)))
}

/// For pools without handles: what their users do, a channel for the result. Gives the closure to execute.
fn with_channel(f: impl FnOnce() + Send + 'static) -> (impl FnOnce() + Send + 'static, Done) {
    let (sender, done) = mpsc::sync_channel(1);
    let f = move || {
        f();
        // Nobody listens if the handle has been dropped.
        _ = sender.send(());
    };
    (f, done)
}

type Done = mpsc::Receiver<()>;

fn wait(done: Done) {
    done.recv().expect("a task ends by sending");
}
