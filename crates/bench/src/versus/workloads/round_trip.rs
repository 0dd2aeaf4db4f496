//! Submit and join on an idle pool.

use std::time::Instant;

use super::{Case, Metric, Outcome, Plan, Workload, percentile, pool, task};
use crate::contestants::{Pool, Shape};
use crate::tally::Count;

pub(crate) static ROUND_TRIP: Workload = Workload {
    key: "round-trip",
    title: "4. Round trip on an idle pool",
    about: "Time from submit until join returns, one task at a time.",
    metrics: &[Metric::new("p50", "µs"), Metric::new("p99", "µs")],
    axis: None,
    cases: |plan: &Plan| plan.grid("round-trip", "", plan.size(4_000, 1_000)),
};

pub(super) fn run<P: Pool>(case: &Case) -> Outcome {
    let pool: P = pool(Shape::Fixed { workers: case.workers, most: 1024 })?;
    let spins = case.body.spins();
    let count = Count::begin();
    let trip = |number| {
        let begin = Instant::now();
        P::join(pool.submit(task(spins, number)));
        begin.elapsed()
    };
    let mut trips: Vec<_> = (0..case.size).map(trip).collect();
    pool.close();
    count.check(case.size)?;
    Ok(vec![percentile(&mut trips, 0.5), percentile(&mut trips, 0.99)])
}
