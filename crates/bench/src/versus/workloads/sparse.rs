//! Sparse load: tasks that come one at a time, so that workers park and wake for each of them.
//!
//! The figure is processor time. The producer sleeps between tasks, and its own time is subtracted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bench::processor::{CpuTime, FineTimers, cpu_time};

use super::{Body, Case, Failure, Metric, Outcome, Plan, Workload, percentile, pool, spin};
use crate::contestants::{Pool, Shape};
use crate::tally::{self, Count};

/// The contestants. A case takes a second for each, regardless of speed.
const CONTESTANTS: [&str; 5] = ["millpond", super::LOOP, "tokio blocking", "rayon", "threadpool"];

const TASK: Duration = Duration::from_micros(20);
const RATES: [(&str, u64); 4] = [("200/s", 200), ("1000/s", 1_000), ("5000/s", 5_000), ("20000/s", 20_000)];
const WOKEN: u64 = 5_000;

pub(crate) static SPARSE: Workload = Workload {
    key: "sparse",
    title: "14a. Sparse load: tasks of 20 µs at a fixed rate",
    about: "*CPU*: processor time of the pool's threads per task, the task's own 20 µs included and the producer's time \
            subtracted. *wait*: median time from execute until the task begins. One producer sleeps between tasks, for \
            a second per measurement, or a quarter of a second in a quick run.",
    metrics: &[Metric::new("CPU", "µs"), Metric::new("wait", "µs")],
    axis: None,
    cases: |plan: &Plan| {
        let case = |(variant, rate)| case(plan, "sparse", variant, rate);
        RATES.map(case).into()
    },
};

pub(crate) static PULSE: Workload = Workload {
    key: "pulse",
    title: "14b. A pool woken every 200 µs",
    about: "Share of one processor used by a pool that runs an empty task every 200 µs. *pool*: without the \
            producer, which sleeps between tasks. *all*: with it, because waking a thread is part of its work.",
    metrics: &[Metric::new("pool", "%"), Metric::new("all", "%")],
    axis: None,
    cases: |plan: &Plan| vec![case(plan, "pulse", "", WOKEN)],
};

fn case(plan: &Plan, key: &'static str, variant: &'static str, rate: u64) -> Case {
    // The first number of workers: others change little, because one is enough for the load.
    let workers = plan.workers.first().copied().unwrap_or(2);
    Case { key, variant, workers, producers: 1, body: Body::Nothing, size: plan.size(rate, rate / 4) }
}

pub(super) fn sparse<P: Pool>(case: &Case) -> Outcome {
    let rate = RATES.into_iter().find(|(variant, _)| *variant == case.variant).ok_or(Failure::NotOffered)?.1;
    let steps = TASK.as_micros() as u64 * Body::Microsecond.spins();
    let waits: Arc<[AtomicU64]> = (0..case.size).map(|_| AtomicU64::new(0)).collect();
    let task = |number: u64| {
        let waits = Arc::clone(&waits);
        let submitted = Instant::now();
        move || {
            // Relaxed: the count orders it.
            waits[number as usize].store(submitted.elapsed().as_nanos() as u64, Ordering::Relaxed);
            spin(steps);
            tally::count();
        }
    };
    let (used, _) = paced::<P, _>(case, rate, task)?;
    let nanos = waits.iter().map(|wait| Duration::from_nanos(wait.load(Ordering::Relaxed)));
    let mut waits: Vec<Duration> = nanos.collect();
    let each = used.of_others().as_nanos() as f64 / 1000.0 / case.size as f64;
    Ok(vec![each, percentile(&mut waits, 0.5)])
}

pub(super) fn pulse<P: Pool>(case: &Case) -> Outcome {
    let (used, elapsed) = paced::<P, _>(case, WOKEN, |_| tally::count)?;
    let share = |used: Duration| 100.0 * used.as_secs_f64() / elapsed.as_secs_f64();
    Ok(vec![share(used.of_others()), share(used.process)])
}

/// Executes the tasks of a case at a fixed rate. Returns the processor time and the wall time.
fn paced<P: Pool, F: FnOnce() + Send + 'static>(
    case: &Case,
    rate: u64,
    task: impl Fn(u64) -> F,
) -> Result<(CpuTime, Duration), Failure> {
    if !CONTESTANTS.contains(&P::NAME) {
        return Err(Failure::NotOffered);
    }
    let pool: P = pool(Shape::Fixed { workers: case.workers, most: case.size as usize })?;
    // Only for this thread: the threads of the pool have been started.
    let fine = FineTimers::set();
    let period = Duration::from_secs(1) / rate as u32;
    let count = Count::begin();
    let before = cpu_time().ok_or(Failure::NotOffered)?;
    let begin = Instant::now();
    for number in 0..case.size {
        // Due times do not depend on earlier delays, so the rate holds.
        let due = begin + period * number as u32;
        thread::sleep(due.saturating_duration_since(Instant::now()));
        pool.execute(task(number));
    }
    count.wait_for(case.size)?;
    // The last task counts like the others, including what its worker does before it parks.
    thread::sleep(period);
    let used = cpu_time().ok_or(Failure::NotOffered)?.since(before);
    let elapsed = begin.elapsed();
    drop(fine);
    pool.close();
    count.check(case.size)?;
    Ok((used, elapsed))
}
