//! Bursts of submits, then all joins.

use std::time::Instant;

use super::{Case, Metric, Outcome, Plan, Workload, nanos_each, pool, task};
use crate::contestants::{Pool, Shape};
use crate::tally::Count;

const BURST: u64 = 1000;

pub(crate) static BURSTS: Workload = Workload {
    key: "burst",
    title: "5. Bursts of 1000 submits, then all joins",
    about: "Time per task, from the first submit until the last join.",
    metrics: &[Metric::new("", "ns")],
    axis: None,
    cases: |plan: &Plan| plan.grid("burst", "", plan.size(100 * BURST, 30 * BURST)),
};

pub(super) fn run<P: Pool>(case: &Case) -> Outcome {
    let pool: P = pool(Shape::Fixed { workers: case.workers, most: 2 * BURST as usize })?;
    let spins = case.body.spins();
    let mut handles = Vec::with_capacity(BURST as usize);
    let count = Count::begin();
    let begin = Instant::now();
    for _ in 0..case.size / BURST {
        handles.extend((0..BURST).map(|number| pool.submit(task(spins, number))));
        handles.drain(..).for_each(P::join);
    }
    let elapsed = begin.elapsed();
    pool.close();
    count.check(case.size)?;
    Ok(vec![nanos_each(elapsed, case.size)])
}
