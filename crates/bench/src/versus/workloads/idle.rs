//! The processor time of an idle pool.

use std::thread;
use std::time::Duration;

use super::{Case, Failure, Metric, Outcome, Plan, Workload, pool};
use crate::contestants::{Pool, Shape};
use crate::machine;

pub(crate) static IDLE: Workload = Workload {
    key: "idle",
    title: "12b. Processor time of an idle pool",
    about: "Processor time of the pool's threads over two seconds without work, or a fifth of a second in a quick \
            run, after they have worked. Includes what they do before they park. Figures below 10 µs \
            count as equal.",
    metrics: &[Metric::above(10.0, "", "µs")],
    axis: None,
    cases: |plan: &Plan| plan.line("idle", "", plan.size(2_000, 200)).into_iter().take(1).collect(),
};

/// The size of the case is the time in milliseconds.
pub(super) fn run<P: Pool>(case: &Case) -> Outcome {
    let before = machine::threads();
    let pool: P = pool(Shape::Fixed { workers: case.workers, most: 1024 })?;
    let threads: Vec<_> = machine::threads().into_iter().filter(|id| !before.contains(id)).collect();
    let used = || machine::cpu_time(&threads).ok_or(Failure::NotOffered);
    let begin = used()?;
    thread::sleep(Duration::from_millis(case.size));
    let used = used()? - begin;
    pool.close();
    Ok(vec![used as f64 / 1000.0])
}
