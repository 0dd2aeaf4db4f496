//! The memory per queued closure. Each measurement has a new process, because a used one has free
//! memory that is invisible from outside.

use std::thread;
use std::time::Duration;

use super::rejection::{Gate, hold};
use super::{Body, Case, Failure, Metric, Outcome, Plan, Workload, pool, task};
use crate::contestants::{Pool, Shape};
use crate::machine;
use crate::tally::Count;

pub(crate) static MEMORY: Workload = Workload {
    key: "memory",
    title: "9. Memory per queued closure",
    about: "Resident memory per closure of 16 bytes with a million queued, and what remains a tenth \
            of a second after all have run. For the JDK: the heap in use after a collection.",
    metrics: &[Metric::new("queued", "bytes"), Metric::above(1.0, "kept", "bytes")],
    axis: None,
    cases: |plan: &Plan| {
        let size = plan.size(1_000_000, 1_000_000);
        vec![Case { key: "memory", variant: "", workers: 2, producers: 1, body: Body::Nothing, size }]
    },
};

const A_MOMENT: Duration = Duration::from_millis(100);

pub(super) fn run<P: Pool>(case: &Case) -> Outcome {
    let resident = || machine::resident().ok_or(Failure::NotOffered);
    let before = resident()?;
    let pool: P = pool(Shape::Fixed { workers: case.workers, most: case.size as usize })?;
    let gate = Gate::default();
    hold(&pool, case.workers, &gate)?;
    let count = Count::begin();
    (0..case.size).for_each(|number| pool.execute(task(0, number)));
    let full = resident()?;
    gate.open();
    count.wait_for(case.size)?;
    // Idle threads free memory after a short time.
    thread::sleep(A_MOMENT);
    let drained = resident()?;
    pool.close();
    count.check(case.size)?;
    let each = |bytes: u64| bytes.saturating_sub(before) as f64 / case.size as f64;
    Ok(vec![each(full), each(drained)])
}
