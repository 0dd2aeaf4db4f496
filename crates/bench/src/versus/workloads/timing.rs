//! The cost of measuring: the same pool with each choice of timing.

use super::fire::fire_into;
use super::{Body, Case, Failure, Metric, Outcome, Plan, Workload};
use crate::contestants::Pool;

pub(crate) static TIMING: Workload = Workload {
    key: "timing",
    title: "15. The cost of measuring",
    about: "Fire and forget with one producer, while the pool measures waiting and run times: not at all, by samples \
            (the default), or of every task.",
    metrics: &[Metric::new("", "ns")],
    axis: None,
    cases: |plan: &Plan| {
        let size = plan.size(600_000, 100_000);
        let case =
            |variant, body, size| Case { key: "timing", variant, workers: 2, producers: 1, body, size };
        let both = |variant| [case(variant, Body::Nothing, size), case(variant, Body::Microsecond, size / 4)];
        ["off", "sampled", "every"].into_iter().flat_map(both).collect()
    },
};

pub(super) fn run<P: Pool>(case: &Case) -> Outcome {
    let pool = P::with_timing(case.workers, case.variant).ok_or(Failure::NotOffered)?;
    fire_into(pool, case)
}
