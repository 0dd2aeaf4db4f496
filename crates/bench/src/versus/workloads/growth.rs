//! Curves: the cost per task as something grows. They use the work of other workloads.

use super::{Body, Case, Metric, Workload};

/// The contestants: one of each kind, because the largest points take long.
pub(crate) const CONTESTANTS: [&str; 6] =
    ["millpond", "crossbeam pool", "rayon", "JDK linked", "JDK scheduled", "tokio-util DelayQueue"];

const NS: &[Metric] = &[Metric::new("", "ns")];

fn case(key: &'static str, workers: usize, producers: usize, size: u64) -> Case {
    Case { key, variant: "", workers, producers, body: Body::Nothing, size }
}

/// Powers of ten from 10^`from` to 10^`to`; a quick run ends at 10^5.
fn powers(quick: bool, from: u32, to: u32) -> impl Iterator<Item = u64> {
    (from..=if quick { to.min(5) } else { to }).map(|power| 10_u64.pow(power))
}

static TASKS: Workload = Workload {
    key: "growth-tasks",
    title: "Number of tasks",
    about: "Nanoseconds per task by the number of tasks, with one producer and two workers. With 1,000 tasks, waking \
            the threads and noticing the end takes a part of the time.",
    metrics: NS,
    axis: Some(|case| case.size),
    cases: |plan| powers(plan.quick, 3, 7).map(|size| case("one-producer", 2, 1, size)).collect(),
};

static PRODUCERS: Workload = Workload {
    key: "growth-producers",
    title: "Number of producers",
    about: "Nanoseconds per task with two workers, by the number of threads that call execute.",
    metrics: NS,
    axis: Some(|case| case.producers as u64),
    cases: |plan| {
        let size = plan.size(400_000, 50_000);
        [1, 2, 4, 8, 16].map(|producers| case("four-producers", 2, producers, size)).into()
    },
};

static WORKERS: Workload = Workload {
    key: "growth-workers",
    title: "Number of workers",
    about: "Nanoseconds per task with one producer, by the number of workers.",
    metrics: NS,
    axis: Some(|case| case.workers as u64),
    cases: |plan| {
        let size = plan.size(400_000, 50_000);
        [1, 2, 4, 8, 16, 32, 64].map(|workers| case("one-producer", workers, 1, size)).into()
    },
};

static QUEUED: Workload = Workload {
    key: "growth-queued",
    title: "Number of queued tasks",
    about: "Nanoseconds per execute while both workers are blocked, by the number of queued tasks.",
    metrics: NS,
    axis: Some(|case| case.size),
    cases: |plan| powers(plan.quick, 1, 6).map(|size| case("growth-queued", 2, 1, size)).collect(),
};

static TIMERS: Workload = Workload {
    key: "growth-timers",
    title: "Number of timers",
    about: "Nanoseconds per timer to insert and to cancel, by the number of timers. The \
            time of a heap grows with the logarithm of its size, and with cache misses.",
    metrics: &[Metric::new("insert", "ns"), Metric::new("cancel", "ns")],
    axis: Some(|case| case.size),
    cases: |plan| powers(plan.quick, 1, 6).map(|size| case("timers", 2, 1, size)).collect(),
};

pub(crate) fn all() -> Vec<&'static Workload> {
    vec![&TASKS, &PRODUCERS, &WORKERS, &QUEUED, &TIMERS]
}
