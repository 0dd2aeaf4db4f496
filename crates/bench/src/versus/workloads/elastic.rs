//! Waves of sleeping tasks on a pool that has a thread for each.

use std::thread;
use std::time::{Duration, Instant};

use super::{Body, Case, Failure, Metric, Outcome, Plan, Workload};
use crate::contestants::{Pool, Shape};
use crate::tally::{self, Count};

const WAVE: usize = 64;

pub(crate) static ELASTIC: Workload = Workload {
    key: "elastic",
    title: "7. Elastic pool, waves of 64 tasks that sleep a millisecond",
    about: "Time per wave, from the first submit until the last join, once the threads are there. The \
            minimum is a millisecond.",
    metrics: &[Metric::new("", "µs")],
    axis: None,
    cases: |plan: &Plan| {
        let size = plan.size(30, 10);
        let (variant, body) = ("", Body::Nothing);
        vec![Case { key: "elastic", variant, workers: WAVE, producers: 1, body, size }]
    },
};

pub(super) fn run<P: Pool>(case: &Case) -> Outcome {
    let pool = P::new(Shape::Elastic { most: WAVE }).ok_or(Failure::NotOffered)?;
    let count = Count::begin();
    let wave = || {
        let handles: Vec<_> = (0..WAVE).map(|_| pool.submit(sleeper)).collect();
        handles.into_iter().for_each(P::join);
    };
    let warm = 3;
    (0..warm).for_each(|_| wave());
    let begin = Instant::now();
    (0..case.size).for_each(|_| wave());
    let elapsed = begin.elapsed();
    pool.close();
    count.check((warm + case.size) * WAVE as u64)?;
    Ok(vec![elapsed.as_nanos() as f64 / 1000.0 / case.size as f64])
}

fn sleeper() {
    thread::sleep(Duration::from_millis(1));
    tally::count();
}
