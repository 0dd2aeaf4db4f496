//! Shared helpers for schedulers: schedulers with a manual clock, tasks that occupy a thread, and
//! the law of accounting.
#![allow(dead_code, reason = "every test file uses some of it")]

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

use millpond::schedulers::{
    self, Affinity, BoundedElasticBuilder, BoundedElasticScheduler, Disposable, Scheduler, SchedulerExt,
    Worker,
};
use millpond::{Interrupted, ManualClock, WorkerBody, executors};

use crate::support::{Gate, LONG};

pub(crate) const MINUTE: Duration = Duration::from_secs(60);

/// A bounded-elastic scheduler with a manual clock and a time to live of one minute.
pub(crate) fn builder(threads: usize, capacity: usize, time: &ManualClock) -> BoundedElasticBuilder {
    BoundedElasticScheduler::builder()
        .max_threads(threads)
        .queue_capacity_per_thread(capacity)
        .name("elastic")
        .ttl(MINUTE)
        .clock(time.clock())
}

pub(crate) fn elastic(threads: usize, capacity: usize) -> BoundedElasticScheduler {
    builder(threads, capacity, &ManualClock::new()).build().unwrap()
}

pub(crate) fn strict(threads: usize, capacity: usize) -> BoundedElasticScheduler {
    builder(threads, capacity, &ManualClock::new()).affinity(Affinity::Strict).build().unwrap()
}

pub(crate) fn per_task(threads: usize, capacity: usize) -> BoundedElasticScheduler {
    builder(threads, capacity, &ManualClock::new()).thread_per_task(true).build().unwrap()
}

/// A task that occupies a thread until it is released.
pub(crate) struct Held {
    gate: Gate,
    pub(crate) handle: Disposable,
}

impl Held {
    /// Releases the task and waits for its end.
    #[track_caller]
    pub(crate) fn let_go(self) {
        self.gate.open();
        ended(&self.handle);
    }
}

/// Keeps one thread of the scheduler busy. Returns when it is busy.
#[track_caller]
pub(crate) fn hold(scheduler: &(impl Scheduler + ?Sized)) -> Held {
    hold_by(|f| scheduler.schedule(f).unwrap())
}

/// The same, through a worker.
#[track_caller]
pub(crate) fn hold_lane(worker: &Worker) -> Held {
    hold_by(|f| worker.schedule(f).unwrap())
}

fn hold_by(schedule: impl FnOnce(Box<dyn FnOnce() + Send>) -> Disposable) -> Held {
    let (gate, running) = (Gate::new(), Gate::new());
    let (pass, knock) = (gate.clone(), running.clone());
    let handle = schedule(Box::new(move || {
        knock.open();
        pass.pass();
    }));
    running.pass();
    Held { gate, handle }
}

/// Waits for the end of work that nothing prevents from ending.
#[track_caller]
pub(crate) fn ended(handle: &Disposable) {
    assert_eq!(handle.wait(LONG), Ok(true), "the work does not end, and nothing keeps it from ending");
}

/// Shuts the scheduler down gracefully.
#[track_caller]
pub(crate) fn end(scheduler: &(impl Scheduler + ?Sized)) {
    assert_eq!(scheduler.dispose_gracefully(LONG), Ok(true), "{:?}", scheduler.stats());
}

/// The thread on which a worker currently runs its work.
#[track_caller]
pub(crate) fn thread_of(worker: &Worker) -> thread::ThreadId {
    let (tell, told) = std::sync::mpsc::channel();
    let task = worker.schedule(move || tell.send(thread::current().id()).unwrap()).unwrap();
    ended(&task);
    told.recv().unwrap()
}

/// The law of accounting for an idle scheduler: every accepted task ended exactly once, and none is
/// still stored.
#[track_caller]
pub(crate) fn assert_settled(scheduler: &(impl Scheduler + ?Sized), accepted: usize, whole: u64) {
    let stats = scheduler.stats();
    let ended = stats.completed + stats.panicked + stats.cancelled;
    assert_eq!((stats.submitted, ended), (accepted as u64, accepted as u64), "{stats:?}");
    assert_eq!((stats.queued, stats.busy, stats.remaining_capacity), (0, 0, whole), "{stats:?}");
}

pub(crate) fn start(body: WorkerBody) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name(body.name().to_owned()).spawn(move || body.run())
}

/// A factory that starts threads, except for the calls (numbered from 0) for which `fails` is true.
pub(crate) fn failing(
    fails: impl Fn(usize) -> bool + Send + Sync + 'static,
) -> (Arc<AtomicUsize>, impl Fn(WorkerBody) -> io::Result<JoinHandle<()>> + Send + Sync + 'static) {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let factory = move |body| {
        if fails(counted.fetch_add(1, Ordering::SeqCst)) {
            return Err(io::Error::other("out of threads"));
        }
        start(body)
    };
    (calls, factory)
}

/// Wakes a thread that waits for a future.
struct Unparks(Thread);

impl Wake for Unparks {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for a future that nothing prevents from completing; fails after `LONG`.
#[track_caller]
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Arc::new(Unparks(thread::current())).into();
    let begin = Instant::now();
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        let left = LONG.checked_sub(begin.elapsed()).expect("the future is not ready in time");
        thread::park_timeout(left);
    }
}

/// Polls a future once. Returns true if it is ready.
pub(crate) fn poll_once<F: Future + Unpin>(future: &mut F) -> bool {
    let waker = Arc::new(Unparks(thread::current())).into();
    Pin::new(future).poll(&mut Context::from_waker(&waker)).is_ready()
}

pub(crate) type Kind = (&'static str, Arc<dyn Scheduler>);

/// One scheduler of each kind that has threads.
pub(crate) fn kinds() -> Vec<Kind> {
    let per_task = BoundedElasticScheduler::builder().max_threads(2).thread_per_task(true).build().unwrap();
    let elastic = BoundedElasticScheduler::builder().max_threads(2).thread_per_task(false).build().unwrap();
    vec![
        ("single worker", schedulers::single_worker(&schedulers::new_single("below").unwrap())),
        ("single", schedulers::new_single("single").unwrap()),
        ("parallel", schedulers::new_parallel(2, "parallel").unwrap()),
        ("bounded elastic", Arc::new(elastic)),
        ("thread per task", Arc::new(per_task)),
        ("executor", schedulers::from_executor(executors::fixed(2).unwrap())),
        ("executor service", schedulers::from_executor_service(executors::fixed(2).unwrap())),
    ]
}

#[track_caller]
pub(crate) fn run(scheduler: &dyn Scheduler, f: impl FnOnce() + Send + 'static) {
    assert_eq!(scheduler.schedule(f).unwrap().wait(LONG), Ok(true));
}

#[track_caller]
pub(crate) fn run_in(worker: &Worker, f: impl FnOnce() + Send + 'static) {
    assert_eq!(worker.schedule(f).unwrap().wait(LONG), Ok(true));
}

/// Waits for the end of its scheduler when it is dropped, and sends the result.
pub(crate) struct EndsOnDrop(
    pub(crate) Arc<dyn Scheduler>,
    pub(crate) Duration,
    pub(crate) mpsc::Sender<Result<bool, Interrupted>>,
);

impl Drop for EndsOnDrop {
    fn drop(&mut self) {
        self.2.send(self.0.dispose_gracefully(self.1)).unwrap();
    }
}
