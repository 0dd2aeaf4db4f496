//! Queues alone: as many putting threads as taking threads.

use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use super::{Body, Case, Failure, Metric, Outcome, Plan, Workload, nanos_each};
use crate::contestants::{Line, Queue};

pub(crate) static QUEUES: Workload = Workload {
    key: "queues",
    title: "10. Queues alone",
    about: "Time per item, by the number of putting and taking threads. The capacity is 1024.",
    metrics: &[Metric::new("", "ns")],
    axis: None,
    cases: |plan: &Plan| {
        let (size, slow) = (plan.size(1_000_000, 100_000), plan.size(20_000, 2_000));
        let lines = [("bounded", size), ("unbounded", size), ("rendezvous", slow)];
        let case = |(variant, size), each| {
            let body = Body::Nothing;
            Case { key: "queues", variant, workers: each, producers: each, body, size }
        };
        lines.into_iter().flat_map(|line| [1, 2, 4].map(|each| case(line, each))).collect()
    },
};

pub(super) fn run<Q: Queue>(case: &Case) -> Outcome {
    let line = match case.variant {
        "bounded" => Line::Bounded(1024),
        "unbounded" => Line::Unbounded,
        _ => Line::Rendezvous,
    };
    let (senders, receivers) = Q::ends(line, case.producers).ok_or(Failure::NotOffered)?;
    let each = case.size / case.producers as u64;
    let start = Barrier::new(2 * case.producers);
    // Each thread records its start and end: the thread that starts and joins them might be late.
    let act = |work: &dyn Fn() -> u64| {
        start.wait();
        let begin = Instant::now();
        let sum = work();
        (begin, Instant::now(), sum)
    };
    let ends: Vec<(Instant, Instant, u64)> = thread::scope(|scope| {
        let act = &act;
        let put = |sender: Q::Sender| {
            let work = move || {
                (1..=each).for_each(|item| Q::put(&sender, item));
                0
            };
            scope.spawn(move || act(&work))
        };
        let take = |receiver: Q::Receiver| {
            let work = move || (0..each).map(|_| Q::take(&receiver)).sum();
            scope.spawn(move || act(&work))
        };
        let mut all: Vec<_> = senders.into_iter().map(put).collect();
        all.extend(receivers.into_iter().map(take));
        all.into_iter().map(|one| one.join().expect("nobody panics")).collect()
    });
    let begin = ends.iter().map(|one| one.0).min().expect("there are threads");
    let end = ends.iter().map(|one| one.1).max().expect("there are threads");
    let (elapsed, sum) = (end - begin, ends.iter().map(|one| one.2).sum::<u64>());
    if sum != case.producers as u64 * (each * (each + 1) / 2) {
        return Err(Failure::Wrong("items were lost or came twice".into()));
    }
    Ok(vec![nanos_each(elapsed, case.size)])
}
