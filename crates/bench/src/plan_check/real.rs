//! The tasks of a plan on a real pool, in real time.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use millpond::growth::GrowthRule;
use millpond::{ThreadPoolExecutor, WorkQueue, policy};
use millpond_sim::{Histogram, Nanos, Policy, Pool, Task};

use crate::{MS, Seen};

/// How much this machine computes in a nanosecond, so that computing costs time on a core and not only time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Work {
    steps_per_nano: f64,
}

fn compute(steps: u64) -> u64 {
    (0..steps).fold(1, |value, step| black_box(value).wrapping_mul(6_364_136_223_846_793_005) ^ step)
}

impl Work {
    /// The fastest of many short runs: others can only make one slower.
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

/// When a task began and ended, since the beginning; 0 if it never did.
#[derive(Debug, Default)]
struct Stamp {
    began: AtomicU64,
    ended: AtomicU64,
}

/// Hands the tasks in, each at its time, and waits until all are done.
pub(crate) fn run(pool: &Pool, tasks: &[Task], work: Work) -> Seen {
    let executor = build(pool);
    let stamps: Arc<Vec<Stamp>> = Arc::new(tasks.iter().map(|_| Stamp::default()).collect());
    let begin = Instant::now();
    let since = move || begin.elapsed().as_nanos() as Nanos;
    let mut refused = 0_u64;
    for (at, task) in tasks.iter().copied().enumerate() {
        thread::sleep(Duration::from_nanos(task.arrival.saturating_sub(since())));
        let stamps = stamps.clone();
        let body = move || {
            // Relaxed: read after the pool has ended.
            stamps[at].began.store(since(), Ordering::Relaxed);
            if task.wait > 0 {
                thread::sleep(Duration::from_nanos(task.wait));
            }
            work.do_for(task.compute);
            stamps[at].ended.store(since(), Ordering::Relaxed);
        };
        refused += u64::from(executor.execute(body).is_err());
    }
    executor.shutdown();
    executor.await_termination(Duration::MAX).expect("nobody interrupts");
    summary(tasks, &stamps, refused, executor.largest_pool_size())
}

fn summary(tasks: &[Task], stamps: &[Stamp], refused: u64, peak_threads: usize) -> Seen {
    let (mut waits, mut totals) = (Histogram::default(), Histogram::default());
    let (mut completed, mut last) = (0_u64, 0);
    for (task, stamp) in tasks.iter().zip(stamps) {
        let (began, ended) = (stamp.began.load(Ordering::Relaxed), stamp.ended.load(Ordering::Relaxed));
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
        refused: refused as f64 * 100.0 / tasks.len().max(1) as f64,
        peak_threads: peak_threads as f64,
    }
}
