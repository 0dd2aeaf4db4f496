//! How do I see what a pool is doing?
//!
//! `Display` is one line for a log, `stats` a snapshot of all figures, and `Hooks` report events.
//!
//! Run it: `cargo run --example watch`

use std::error::Error;
use std::thread;
use std::time::Duration;

use millpond::{Hooks, Panic, Task, TaskInfo, ThreadPoolExecutor, WorkQueue, WorkerInfo};

/// Prints unusual events.
struct Print;

impl Hooks for Print {
    fn after_execute(&self, task: &TaskInfo, panic: Option<&Panic>) {
        if let Some(panic) = panic {
            println!("    hook: {} panicked: {panic}", task.name().unwrap_or("a task"));
        }
    }

    fn worker_started(&self, worker: &WorkerInfo) {
        println!("    hook: {} started", worker.name());
    }

    fn worker_stopped(&self, worker: &WorkerInfo) {
        println!("    hook: {} stopped", worker.name());
    }

    fn terminated(&self) {
        println!("    hook: terminated");
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    // The default panic message would appear between the lines of the output.
    std::panic::set_hook(Box::new(|_| {}));
    let pool = ThreadPoolExecutor::builder()
        .core_pool_size(2)
        .maximum_pool_size(3)
        .keep_alive_time(Duration::from_millis(100))
        .work_queue(WorkQueue::array(8))
        .thread_name_prefix("watched-")
        .hooks(Print)
        .build()?;

    for n in 1..=11 {
        let task = Task::new(move || {
            thread::sleep(Duration::from_millis(60));
            assert!(n != 5, "task {n} is out of luck");
        });
        pool.execute_task(task.named(format!("task {n}")))?;
    }
    for _ in 0..5 {
        println!("{pool}");
        thread::sleep(Duration::from_millis(80));
    }
    pool.close();
    println!("{pool}");

    let stats = pool.stats();
    println!(
        "submitted {} = completed {} + panicked {} + cancelled {} + handed back {}; rejected {}; at most {} threads",
        stats.submitted,
        stats.completed,
        stats.panicked,
        stats.cancelled,
        stats.handed_back,
        stats.rejected,
        stats.largest_pool_size
    );
    Ok(())
}
