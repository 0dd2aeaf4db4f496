//! Queues by themselves: as many threads that put as threads that take.

use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use super::{Body, Case, Failure, Metric, Outcome, Plan, Workload, nanos_each};
use crate::contestants::{Line, Queue};

pub(crate) static QUEUES: Workload = Workload {
    key: "queues",
    title: "10. Queues alone",
    about: "Time per item, for so many threads that put and so many that take. The bound is 1024.",
    metrics: &[Metric { name: "", unit: "ns" }],
    axis: None,
    cases: |plan: &Plan| {
        let (size, slow) = (plan.size(400_000, 80_000), plan.size(10_000, 2_000));
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
    let start = Barrier::new(2 * case.producers + 1);
    let (elapsed, sum) = thread::scope(|scope| {
        for sender in senders {
            let start = &start;
            scope.spawn(move || {
                start.wait();
                (1..=each).for_each(|item| Q::put(&sender, item));
            });
        }
        let take = |receiver| {
            let start = &start;
            scope.spawn(move || {
                start.wait();
                (0..each).map(|_| Q::take(&receiver)).sum::<u64>()
            })
        };
        let takers: Vec<_> = receivers.into_iter().map(take).collect();
        start.wait();
        let begin = Instant::now();
        let sum = takers.into_iter().map(|taker| taker.join().expect("nobody panics")).sum::<u64>();
        (begin.elapsed(), sum)
    });
    if sum != case.producers as u64 * (each * (each + 1) / 2) {
        return Err(Failure::Wrong("items were lost or came twice".into()));
    }
    Ok(vec![nanos_each(elapsed, case.size)])
}
