//! A bounded number of threads for blocking work: waves of sleeping tasks, and lanes of which one
//! is blocked.

use std::thread;
use std::time::{Duration, Instant};

use super::{Body, Case, Metric, Outcome, Plan, Workload, task};
use crate::contestants::Elastic;
use crate::tally::{self, Count};

pub(crate) static LANES: Workload = Workload {
    key: "bounded-elastic",
    title: "13. Bounded-elastic",
    about: "*waves*: time per wave of 64 tasks that sleep a millisecond, with as many threads. *lanes*: four threads \
            and 16 lanes; the first lane sleeps 20 ms, the others have 50 tasks of a microsecond each: time until \
            these are done. Pinned lanes stay on a thread, as in Reactor, and wait for the long task. Tokio \
            has no lanes, so they are built on top.",
    metrics: &[Metric::new("", "µs")],
    axis: None,
    cases: |plan: &Plan| {
        let case = |variant, workers, body, size| Case {
            key: "bounded-elastic",
            variant,
            workers,
            producers: 1,
            body,
            size,
        };
        vec![
            case("waves", WAVE as usize, Body::Nothing, plan.size(30, 10)),
            case("lanes", 4, Body::Microsecond, plan.size(20, 5)),
        ]
    },
};

const WAVE: u64 = 64;
const OTHERS: u64 = 15;
const TASKS: u64 = 50;

pub(super) fn run<E: Elastic>(case: &Case) -> Outcome {
    let scheduler = E::new(case.workers);
    let once =
        || if case.variant == "waves" { wave(&scheduler) } else { lanes(&scheduler, case.body.spins()) };
    once()?;
    let mut elapsed = Duration::ZERO;
    for _ in 0..case.size {
        elapsed += once()?;
    }
    scheduler.close();
    Ok(vec![elapsed.as_nanos() as f64 / 1000.0 / case.size as f64])
}

fn wave<E: Elastic>(scheduler: &E) -> Result<Duration, super::Failure> {
    let count = Count::begin();
    let begin = Instant::now();
    for _ in 0..WAVE {
        scheduler.execute(|| {
            thread::sleep(Duration::from_millis(1));
            tally::count();
        });
    }
    count.wait_for(WAVE)?;
    Ok(begin.elapsed())
}

fn lanes<E: Elastic>(scheduler: &E, spins: u64) -> Result<Duration, super::Failure> {
    let count = Count::begin();
    let held = scheduler.lane();
    let lanes: Vec<E::Lane> = (0..OTHERS).map(|_| scheduler.lane()).collect();
    let begin = Instant::now();
    // Not counted, so that the end does not wait for it.
    scheduler.on(&held, || thread::sleep(Duration::from_millis(20)));
    for number in 0..TASKS {
        lanes.iter().for_each(|lane| scheduler.on(lane, task(spins, number)));
    }
    count.wait_for(OTHERS * TASKS)?;
    let elapsed = begin.elapsed();
    // The next repetition begins with all threads free.
    let count = Count::begin();
    scheduler.on(&held, tally::count);
    count.wait_for(1)?;
    Ok(elapsed)
}
