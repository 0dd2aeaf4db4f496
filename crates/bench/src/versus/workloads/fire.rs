//! Fire and forget into an unbounded queue.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use super::{Case, Failure, Metric, Outcome, Plan, Workload, nanos_each, start_threads, task};
use crate::contestants::{Pool, Shape};
use crate::tally::Count;

pub(crate) static ONE: Workload = Workload {
    key: "one-producer",
    title: "1. Fire and forget, one producer",
    about: "Time per task, from the first execute until the last task has run.",
    metrics: &[Metric::new("", "ns")],
    axis: None,
    cases: |plan: &Plan| plan.fair_grid("one-producer", "", plan.size(600_000, 100_000)),
};

pub(crate) static FOUR: Workload = Workload {
    key: "four-producers",
    title: "2. Fire and forget, four producers",
    about: "The same with four threads that call execute.",
    metrics: &[Metric::new("", "ns")],
    axis: None,
    cases: |plan: &Plan| {
        let mut cases = plan.fair_grid("four-producers", "", plan.size(600_000, 100_000));
        cases.iter_mut().for_each(|case| case.producers = 4);
        cases
    },
};

const ENOUGH: u64 = 20_000;

pub(super) fn run<P: Pool>(case: &Case) -> Outcome {
    fire::<P>(case, Shape::Fixed { workers: case.workers, most: case.size as usize })
}

/// Runs all tasks of a case on a pool of that shape.
pub(super) fn fire<P: Pool>(case: &Case, shape: Shape) -> Outcome {
    fire_into(P::new(shape).ok_or(Failure::NotOffered)?, case)
}

pub(super) fn fire_into<P: Pool>(pool: P, case: &Case) -> Outcome {
    start_threads(&pool, case.workers)?;
    // A small number of tasks is repeated, until the time is long enough to be measured.
    let times = (ENOUGH / case.size).max(1);
    let count = Count::begin();
    let mut elapsed = Duration::ZERO;
    for time in 1..=times {
        let begin = produce(&pool, case);
        count.wait_for(time * case.size)?;
        elapsed += begin.elapsed();
    }
    pool.close();
    count.check(times * case.size)?;
    Ok(vec![nanos_each(elapsed, times * case.size)])
}

/// Submits all tasks. Returns the start time.
fn produce<P: Pool>(pool: &P, case: &Case) -> Instant {
    let spins = case.body.spins();
    if case.producers == 1 {
        let begin = Instant::now();
        (0..case.size).for_each(|number| pool.execute(task(spins, number)));
        return begin;
    }
    let start = Barrier::new(case.producers);
    let produce = |producer: u64| {
        start.wait();
        let begin = Instant::now();
        let mine = (producer..case.size).step_by(case.producers);
        mine.for_each(|number| pool.execute(task(spins, number)));
        begin
    };
    thread::scope(|scope| {
        let produce = &produce;
        let all: Vec<_> = (0..case.producers as u64).map(|one| scope.spawn(move || produce(one))).collect();
        // The first producer to start counts: this thread may be woken late.
        let begins = all.into_iter().map(|one| one.join().expect("nobody panics"));
        begins.min().expect("there are producers")
    })
}
