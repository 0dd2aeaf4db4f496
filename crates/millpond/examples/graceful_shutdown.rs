//! How do I shut a service down without losing work, and without waiting for ever?
//!
//! `shutdown_gracefully` waits for the work to end, then interrupts running tasks and returns those
//! that never started. A task cooperates by using the blocking calls of `millpond`, or
//! `interrupt::check`.
//!
//! Run it: `cargo run --example graceful_shutdown`

use std::error::Error;
use std::thread;
use std::time::Duration;

use millpond::{ShutdownReport, Task, executors, interrupt};

fn main() -> Result<(), Box<dyn Error>> {
    // 1. Short tasks: all end within the grace period.
    let pool = executors::fixed(2)?;
    for _ in 0..6 {
        pool.execute(|| thread::sleep(Duration::from_millis(10)))?;
    }
    tell("short tasks", &pool.shutdown_gracefully(Duration::from_secs(5), Duration::from_secs(5)));

    // 2. A task that would take an hour occupies the only thread, and two wait behind it.
    let pool = executors::fixed(1)?;
    pool.execute(|| match interrupt::sleep(Duration::from_secs(3600)) {
        Ok(()) => println!("  an hour later"),
        Err(interrupted) => println!("  the long task cleans up: {interrupted}"),
    })?;
    pool.execute_task(Task::new(|| println!("  the letter goes out")).named("letter"))?;
    pool.execute_task(Task::new(|| println!("  the invoice goes out")).named("invoice"))?;
    let report = pool.shutdown_gracefully(Duration::from_millis(100), Duration::from_secs(5));
    tell("a long task", &report);

    // The tasks that never ran are returned: run them here, store them, or submit them elsewhere.
    for task in report.never_run {
        println!("  running {} by hand", task.name().unwrap_or("a task"));
        task.run();
    }
    Ok(())
}

fn tell(what: &str, report: &ShutdownReport) {
    println!(
        "{what}: {:?} after {:.0?}, {} tasks never ran",
        report.outcome,
        report.elapsed,
        report.never_run.len()
    );
}
