//! How do I slow a producer down instead of letting work pile up?
//!
//! Two policies do this. `Block` makes the submitter wait for room; `CallerRuns` makes it run the
//! task itself. In both cases the queue never exceeds its bound, and no task is lost.
//!
//! Run it: `cargo run --example backpressure`

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use millpond::{RejectedExecutionHandler, ThreadPoolExecutor, WorkQueue, policy};

const TASKS: usize = 24;
const QUEUE: usize = 4;

fn main() -> Result<(), Box<dyn Error>> {
    produce("Block::forever", policy::Block::forever())?;
    produce("CallerRuns", policy::CallerRuns)?;
    Ok(())
}

fn produce(name: &str, policy: impl RejectedExecutionHandler) -> Result<(), Box<dyn Error>> {
    let pool = ThreadPoolExecutor::builder()
        .core_pool_size(2)
        .maximum_pool_size(2)
        .work_queue(WorkQueue::array(QUEUE))
        .rejected_execution_handler(policy)
        .build()?;
    let by_producer = Arc::new(AtomicUsize::new(0));
    let producer = thread::current().id();

    let (mut deepest, mut slowest) = (0, Duration::ZERO);
    for _ in 0..TASKS {
        let by_producer = Arc::clone(&by_producer);
        let begin = Instant::now();
        pool.execute(move || {
            thread::sleep(Duration::from_millis(20));
            if thread::current().id() == producer {
                by_producer.fetch_add(1, Ordering::Relaxed);
            }
        })?;
        slowest = slowest.max(begin.elapsed());
        deepest = deepest.max(pool.queued_count());
    }
    pool.close();

    let stats = pool.stats();
    let by_producer = by_producer.load(Ordering::Relaxed);
    println!("{name}: {} ran in the pool, {by_producer} on the producer", stats.completed);
    println!("    queue never deeper than {deepest} of {QUEUE}; slowest execute took {slowest:.0?}");
    assert_eq!(stats.completed as usize + by_producer, TASKS);
    Ok(())
}
