//! The cost of a rejection.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;

use super::{Case, Failure, Metric, Outcome, Plan, Workload, nanos_each, task};
use crate::contestants::{Pool, Shape};
use crate::tally::{self, Count};

const CAPACITY: usize = 1024;

pub(crate) static REJECTION: Workload = Workload {
    key: "rejection",
    title: "12a. Rejection by a full pool",
    about: "Time per rejected task, with all workers busy and 1024 tasks queued. *returned*: the pool returns an error to \
            the caller; the JDK's pools throw the exception of AbortPolicy. *dropped*: the pool drops the task and \
            counts it; in the JDK's pools a handler does so.",
    metrics: &[Metric::new("", "ns")],
    axis: None,
    cases: |plan: &Plan| {
        // Exceptions are slow, so there are fewer.
        let sizes = [("returned", plan.size(300_000, 50_000)), ("dropped", plan.size(1_000_000, 200_000))];
        sizes.into_iter().flat_map(|(variant, size)| plan.line("rejection", variant, size)).collect()
    },
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
    let (workers, capacity) = (case.workers, CAPACITY);
    let returns_error = case.variant == "returned";
    let shape = match returns_error {
        true => Shape::Rejecting { workers, capacity },
        false => Shape::Discarding { workers, capacity },
    };
    let pool = P::new(shape).ok_or(Failure::NotOffered)?;
    let gate = Gate::default();
    hold(&pool, case.workers, &gate)?;
    let count = Count::begin();
    let hand_in = |tasks: u64| (0..tasks).filter(|number| pool.try_execute(task(0, *number))).count() as u64;
    // A pool that drops tasks silently does not report how many it accepted.
    let accepted = hand_in(if returns_error { 10 * CAPACITY as u64 } else { CAPACITY as u64 });
    let begin = Instant::now();
    let taken_or_dropped = hand_in(case.size);
    let elapsed = begin.elapsed();
    gate.open();
    count.wait_for(accepted)?;
    pool.close();
    count.check(accepted)?;
    let expected = if returns_error { 0 } else { case.size };
    if taken_or_dropped != expected {
        return Err(Failure::Wrong(format!("{taken_or_dropped} tasks not refused instead of {expected}")));
    }
    Ok(vec![nanos_each(elapsed, case.size)])
}
