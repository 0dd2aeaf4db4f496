//! Tasks that spawn tasks: a binary tree whose leaves are the work.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Instant;

use super::{Case, Failure, Metric, Outcome, Plan, Workload, nanos_each, pool, spin};
use crate::contestants::{Pool, Shape};
use crate::tally::{self, Count};

pub(crate) static NESTED: Workload = Workload {
    key: "nested",
    title: "8. Tasks that spawn tasks",
    about: "A binary tree of 2^17 leaves, 2^14 in a quick run. Time per task, including inner ones.",
    metrics: &[Metric::new("", "ns")],
    axis: None,
    cases: |plan: &Plan| plan.grid("nested", "", plan.size(1 << 17, 1 << 14)),
};

pub(super) fn run<P: Pool>(case: &Case) -> Outcome {
    let tasks = 2 * case.size - 1;
    let pool: &'static P = lasting(Shape::Fixed { workers: case.workers, most: tasks as usize })?;
    let depth = case.size.trailing_zeros();
    let spins = case.body.spins();
    let count = Count::begin();
    let begin = Instant::now();
    pool.execute(move || grow(pool, depth, spins));
    count.wait_for(tasks)?;
    let elapsed = begin.elapsed();
    count.check(tasks)?;
    Ok(vec![nanos_each(elapsed, tasks)])
}

fn grow<P: Pool>(pool: &'static P, depth: u32, spins: u64) {
    if depth > 0 {
        pool.execute(move || grow(pool, depth - 1, spins));
        pool.execute(move || grow(pool, depth - 1, spins));
    } else if spins > 0 {
        spin(spins);
    }
    tally::count();
}

/// A pool that lives until the process ends, so that tasks can refer to it without counting
/// references, which would cost as much as the measured work. The rounds share it.
fn lasting<P: Pool>(shape: Shape) -> Result<&'static P, Failure> {
    type Kept = HashMap<(TypeId, Shape), &'static (dyn Any + Send + Sync)>;
    static POOLS: Mutex<Option<Kept>> = Mutex::new(None);
    let mut pools = POOLS.lock().expect("nobody panics with it");
    let pools = pools.get_or_insert_default();
    let key = (TypeId::of::<P>(), shape);
    if let Some(found) = pools.get(&key) {
        return Ok(found.downcast_ref().expect("it is listed under its type"));
    }
    let made: &'static P = Box::leak(Box::new(pool(shape)?));
    pools.insert(key, made);
    Ok(made)
}
