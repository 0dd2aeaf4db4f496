//! What it costs to say no.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;

use super::{Case, Failure, Metric, Outcome, Plan, Workload, nanos_each, task};
use crate::contestants::{Pool, Shape};
use crate::tally::{self, Count};

const CAPACITY: usize = 1024;

pub(crate) static REJECTION: Workload = Workload {
    key: "rejection",
    title: "12a. Rejection by a full pool",
    about: "Time per task that is refused, with all workers busy and 1024 tasks queued. The JDK's pools have a \
            handler that counts, because making an exception would be all that is measured.",
    metrics: &[Metric::new("", "ns")],
    axis: None,
    cases: |plan: &Plan| plan.line("rejection", "", plan.size(1_000_000, 200_000)),
};

/// Holds tasks until it is opened.
#[derive(Clone, Default)]
pub(super) struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    pub(super) fn wait(&self) {
        let open = self.0.0.lock().expect("nobody panics with it");
        drop(self.0.1.wait_while(open, |open| !*open).expect("nobody panics with it"));
    }

    pub(super) fn open(&self) {
        *self.0.0.lock().expect("nobody panics with it") = true;
        self.0.1.notify_all();
    }
}

/// Gives every worker a task that waits for the gate.
pub(super) fn hold<P: Pool>(pool: &P, workers: usize, gate: &Gate) -> Result<(), Failure> {
    let count = Count::begin();
    for _ in 0..workers {
        let gate = gate.clone();
        pool.execute(move || {
            tally::count();
            gate.wait();
        });
    }
    count.wait_for(workers as u64)
}

pub(super) fn run<P: Pool>(case: &Case) -> Outcome {
    let shape = Shape::Rejecting { workers: case.workers, capacity: CAPACITY };
    let pool = P::new(shape).ok_or(Failure::NotOffered)?;
    let gate = Gate::default();
    hold(&pool, case.workers, &gate)?;
    let count = Count::begin();
    let accepted =
        (0..10 * CAPACITY as u64).filter(|number| pool.try_execute(task(0, *number))).count() as u64;
    let begin = Instant::now();
    let refused = (0..case.size).filter(|number| !pool.try_execute(task(0, *number))).count() as u64;
    let elapsed = begin.elapsed();
    gate.open();
    count.wait_for(accepted)?;
    pool.close();
    count.check(accepted)?;
    if refused != case.size {
        return Err(Failure::Wrong(format!("{refused} tasks refused of {}", case.size)));
    }
    Ok(vec![nanos_each(elapsed, case.size)])
}
