//! Runs the tasks of a plan on a real pool, in real time.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use millpond::growth::GrowthRule;
use millpond::{ThreadPoolExecutor, WorkQueue, policy};
use millpond_sim::{Histogram, Nanos, Policy, Pool, Task};

use crate::{MS, Seen};

/// How much this machine computes per nanosecond, so that a computing task uses processor time and
/// not only wall time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Work {
    steps_per_nano: f64,
}

fn compute(steps: u64) -> u64 {
    (0..steps).fold(1, |value, step| black_box(value).wrapping_mul(6_364_136_223_846_793_005) ^ step)
}

impl Work {
    /// Calibrates with the fastest of many short runs: other work can only slow a run down.
    pub(crate) fn calibrated() -> Work {
        const STEPS: u64 = 200_000;
        let fastest = (0..200)
            .map(|_| {
                let begin = Instant::now();
                black_box(compute(STEPS));
                begin.elapsed()
            })
            .min()
            .expect("there are some");
        Work { steps_per_nano: STEPS as f64 / fastest.as_nanos() as f64 }
    }

    fn do_for(self, nanos: Nanos) {
        black_box(compute((nanos as f64 * self.steps_per_nano) as u64));
    }
}

fn build(pool: &Pool) -> ThreadPoolExecutor {
    let builder = ThreadPoolExecutor::builder()
        .core_pool_size(pool.core)
        .maximum_pool_size(pool.maximum)
        .keep_alive_time(Duration::from_nanos(pool.keep_alive))
        .allow_core_thread_time_out(pool.core_time_out)
        .work_queue(match pool.queue {
            None => WorkQueue::linked(),
            Some(0) => WorkQueue::synchronous(),
            Some(capacity) => WorkQueue::array(capacity),
        });
    let builder = if pool.rule == GrowthRule::Eager { builder.eager() } else { builder };
    let builder = match pool.policy {
        Policy::Abort => builder.rejected_execution_handler(policy::Abort),
        Policy::Discard => builder.rejected_execution_handler(policy::Discard),
        Policy::DiscardOldest => builder.rejected_execution_handler(policy::DiscardOldest),
        Policy::CallerRuns => builder.rejected_execution_handler(policy::CallerRuns),
        Policy::Block(None) => builder.rejected_execution_handler(policy::Block::forever()),
        Policy::Block(Some(most)) => {
            builder.rejected_execution_handler(policy::Block::timeout(Duration::from_nanos(most)))
        }
    };
    builder.build().expect("a sound pool")
}

/// When a task began and ended, since the start of the run; 0 if it never did.
#[derive(Debug, Default)]
struct Stamp {
    began: AtomicU64,
    ended: AtomicU64,
}

/// Relaxed: read after the pool has ended.
fn put(stamp: &AtomicU64, now: Nanos) {
    stamp.store(now, Ordering::Relaxed);
}

fn get(stamp: &AtomicU64) -> Nanos {
    stamp.load(Ordering::Relaxed)
}

/// The result of a run.
#[derive(Debug)]
pub(crate) struct Ran {
    /// Times since a task was due.
    pub(crate) seen: Seen,
    /// Times since the arrival in `tasks`.
    pub(crate) seen_by_pool: Seen,
    /// The tasks as they were on this machine: their actual lengths, and their actual arrivals if
    /// the system woke the caller late. If the pool held up the caller, the arrival is the planned
    /// one: the simulator has to reproduce that delay. A rejected task keeps its planned length.
    pub(crate) tasks: Vec<Task>,
}

/// Submits each task at its time, and waits until all are done.
pub(crate) fn run(pool: &Pool, tasks: &[Task], work: Work) -> Ran {
    let executor = build(pool);
    let stamps: Arc<Vec<Stamp>> = Arc::new(tasks.iter().map(|_| Stamp::default()).collect());
    let begin = Instant::now();
    let since = move || begin.elapsed().as_nanos() as Nanos;
    let mut refused = 0_u64;
    let mut arrivals: Vec<Nanos> = Vec::with_capacity(tasks.len());
    for (at, task) in tasks.iter().copied().enumerate() {
        let early = task.arrival.saturating_sub(since());
        thread::sleep(Duration::from_nanos(early));
        let arrival = if early > 0 { since() } else { task.arrival };
        arrivals.push(arrival.max(arrivals.last().copied().unwrap_or(0)));
        let stamps = stamps.clone();
        let body = move || {
            put(&stamps[at].began, since());
            if task.wait > 0 {
                thread::sleep(Duration::from_nanos(task.wait));
            }
            work.do_for(task.compute);
            put(&stamps[at].ended, since());
        };
        refused += u64::from(executor.execute(body).is_err());
    }
    executor.shutdown();
    executor.await_termination(Duration::MAX).expect("nobody interrupts");
    let lost = refused as f64 * 100.0 / tasks.len().max(1) as f64;
    let as_seen = tasks.iter().zip(stamps.iter()).zip(arrivals);
    let as_seen: Vec<Task> =
        as_seen.map(|((task, stamp), arrival)| as_seen_by_pool(task, stamp, arrival)).collect();
    let summary = |tasks: &[Task]| summary(tasks, &stamps, lost, executor.largest_pool_size());
    Ran { seen: summary(tasks), seen_by_pool: summary(&as_seen), tasks: as_seen }
}

fn as_seen_by_pool(task: &Task, stamp: &Stamp, arrival: Nanos) -> Task {
    match get(&stamp.ended) {
        0 => Task { arrival, ..*task },
        ended => Task { arrival, wait: ended - get(&stamp.began), compute: 0 },
    }
}

fn summary(tasks: &[Task], stamps: &[Stamp], refused: f64, peak_threads: usize) -> Seen {
    let (mut waits, mut totals) = (Histogram::default(), Histogram::default());
    let (mut completed, mut last) = (0_u64, 0);
    for (task, stamp) in tasks.iter().zip(stamps) {
        let (began, ended) = (get(&stamp.began), get(&stamp.ended));
        if ended > 0 {
            waits.add(began.saturating_sub(task.arrival));
            totals.add(ended.saturating_sub(task.arrival));
            completed += 1;
            last = last.max(ended);
        }
    }
    let ms = |nanos: f64| nanos / MS as f64;
    Seen {
        throughput: completed as f64 * 1e9 / last.max(1) as f64,
        wait_mean: ms(waits.mean()),
        wait_p99: ms(waits.percentile(0.99) as f64),
        total_mean: ms(totals.mean()),
        total_p99: ms(totals.percentile(0.99) as f64),
        refused,
        peak_threads: peak_threads as f64,
    }
}
