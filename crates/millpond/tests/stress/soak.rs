//! A hundred million tasks: no memory of a finished task is kept, and every task is counted.
//!
//! Linux only: the memory of the process is read from `/proc`.

use std::fs;
use std::panic::resume_unwind;

use millpond::schedulers::{BoundedElasticScheduler, Scheduler};
use millpond::{TaskOf, ThreadPoolExecutor, WorkQueue, policy};

use crate::support::{LONG, eventually};

const ROUNDS: u64 = 10;
const TASKS: u64 = 10_000_000;
/// Resident memory of this process in bytes: the second number of `statm`, in pages of 4 KiB.
fn resident() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").expect("Linux has it");
    4096 * statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("a number")
}

/// Tasks with every kind of end. The rare ones occur once in a thousand.
fn submit(pool: &ThreadPoolExecutor, number: u64) {
    match number % 1000 {
        0 => pool.submit_task(TaskOf::new(|| ()).named("named")).unwrap().join().unwrap(),
        1 => pool.execute(|| resume_unwind(Box::new("on purpose"))).unwrap(),
        2 => drop(pool.submit(|| ()).unwrap().cancel_on_drop()),
        3 => drop(pool.submit(|| ()).unwrap()),
        _ => pool.execute(|| ()).unwrap(),
    }
}

#[test]
#[ignore = "takes a minute in a release build; ci/long.sh soak"]
fn a_hundred_million_tasks_leave_nothing() {
    let builder = ThreadPoolExecutor::builder().name("soak").core_pool_size(2).maximum_pool_size(2);
    let queue = WorkQueue::array(1024);
    let pool =
        builder.work_queue(queue).rejected_execution_handler(policy::Block::forever()).build().unwrap();
    let elastic = BoundedElasticScheduler::builder().max_threads(2).build().unwrap();
    let mut level = 0;
    for round in 1..=ROUNDS {
        (0..TASKS).for_each(|number| submit(&pool, number));
        let lane = elastic.create_worker();
        (0..TASKS / 10).for_each(|_| {
            while lane.schedule(|| ()).is_err() {
                std::thread::yield_now(); // its queue is full
            }
        });
        drop(lane);
        assert!(pool.wait_idle(LONG).unwrap());
        eventually(|| elastic.stats().completed == round * TASKS / 10);
        let seen = pool.snapshot();
        let stats = &seen.stats;
        assert_eq!(stats.submitted, round * TASKS);
        assert_eq!(stats.completed + stats.panicked + stats.cancelled, round * TASKS);
        // Some tasks were cancelled too late to leave the queue.
        assert_eq!(seen.run.count(), pool.completed_task_count());
        assert!(seen.run.count() >= stats.completed + stats.panicked);
        if round == 2 {
            level = resident();
        }
        eprintln!("round {round}: {} KiB, {:?} busy", resident() / 1024, seen.busy);
    }
    let grown = resident().saturating_sub(level);
    assert!(grown <= 1 << 20, "{grown} bytes more after {ROUNDS} rounds than after 2");
}
