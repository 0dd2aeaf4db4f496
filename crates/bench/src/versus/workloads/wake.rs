//! How long a task waits for a pool whose threads are all parked.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use super::{Case, Failure, Metric, Outcome, Plan, Workload, percentile, pool};
use crate::contestants::{Pool, Shape};

/// Longer than any of the pools spins before it parks.
const PAUSE: Duration = Duration::from_millis(1);

pub(crate) static WAKE: Workload = Workload {
    key: "wake-up",
    title: "6. Wake-up from a fully parked pool",
    about: "Time from execute until the task begins, after a millisecond without work.",
    metrics: &[Metric::new("p50", "µs"), Metric::new("p99", "µs")],
    axis: None,
    cases: |plan: &Plan| plan.line("wake-up", "", plan.size(150, 50)),
};

pub(super) fn run<P: Pool>(case: &Case) -> Outcome {
    let pool: P = pool(Shape::Fixed { workers: case.workers, most: 1024 })?;
    let mut waits = Vec::new();
    for _ in 0..case.size {
        let (sender, begun) = mpsc::sync_channel(1);
        thread::sleep(PAUSE);
        let begin = Instant::now();
        pool.execute(move || _ = sender.send(Instant::now()));
        let begun = begun.recv().map_err(|_| Failure::Wrong("a task was dropped".into()))?;
        waits.push(begun - begin);
    }
    pool.close();
    Ok(vec![percentile(&mut waits, 0.5), percentile(&mut waits, 0.99)])
}
