//! A queue of 1024 and a producer that is faster than the workers.

use super::{Case, Metric, Outcome, Plan, Workload, fire};
use crate::contestants::{Pool, Shape};

pub(crate) static BOUNDED: Workload = Workload {
    key: "bounded",
    title: "3. Bounded queue of 1024",
    about: "Time per task with one producer that waits while the queue is full, or runs the task itself.",
    metrics: &[Metric::new("", "ns")],
    axis: None,
    cases: |plan: &Plan| {
        let size = plan.size(400_000, 50_000);
        let variants = ["block", "caller-runs"].into_iter();
        variants.flat_map(|variant| plan.fair_grid("bounded", variant, size)).collect()
    },
};

pub(super) fn run<P: Pool>(case: &Case) -> Outcome {
    let (workers, capacity) = (case.workers, 1024);
    let shape = match case.variant {
        "block" => Shape::Blocking { workers, capacity },
        _ => Shape::CallerRuns { workers, capacity },
    };
    fire::fire::<P>(case, shape)
}
