//! The cost of `execute` when many tasks are queued already.

use std::time::Instant;

use super::rejection::{Gate, hold};
use super::{Case, Outcome, nanos_each, pool, task};
use crate::contestants::{Pool, Shape};
use crate::tally::Count;

/// The number of tasks executed beyond the backlog.
const MORE: u64 = 10_000;

pub(super) fn run<P: Pool>(case: &Case) -> Outcome {
    let tasks = case.size + MORE;
    let pool: P = pool(Shape::Fixed { workers: case.workers, most: tasks as usize })?;
    let gate = Gate::default();
    hold(&pool, case.workers, &gate)?;
    let count = Count::begin();
    (0..case.size).for_each(|number| pool.execute(task(0, number)));
    let begin = Instant::now();
    (0..MORE).for_each(|number| pool.execute(task(0, number)));
    let elapsed = begin.elapsed();
    gate.open();
    count.wait_for(tasks)?;
    pool.close();
    count.check(tasks)?;
    Ok(vec![nanos_each(elapsed, MORE)])
}
