//! What happens when more comes than the pool can take, and what can I do about it?
//!
//! A refused task comes back inside the error, whole: run it here, try again later, or give it to somebody else.
//!
//! Run it: `cargo run --example overload`

use std::error::Error;
use std::sync::mpsc;

use millpond::{Rejected, Task, ThreadPoolExecutor, WorkQueue, executors};

fn main() -> Result<(), Box<dyn Error>> {
    let small = ThreadPoolExecutor::builder()
        .core_pool_size(1)
        .maximum_pool_size(1)
        .work_queue(WorkQueue::array(1))
        .thread_name_prefix("small-")
        .build()?;
    let overflow = executors::fixed(1)?;

    // Fill it: one task holds the thread, one holds the place in the queue.
    let (open, gate) = mpsc::channel::<()>();
    small.execute(move || gate.recv().unwrap())?;
    small.execute(|| println!("waited its turn on {}", thread_name()))?;

    // 1. The error says what the pool looked like, and owns the task.
    let rejected = small.execute_task(work("first")).unwrap_err();
    println!("{rejected}");
    rejected.into_task().run();

    // 2. Somebody else may have room.
    if let Err(rejected) = small.execute_task(work("second")) {
        overflow.execute_task(rejected.into_task())?;
    }

    // 3. A policy of our own does the same for every task, so that callers need not know.
    let elsewhere = overflow.clone();
    small.set_rejected_execution_handler(move |task: Task, _: &ThreadPoolExecutor| -> Result<(), Rejected> {
        elsewhere.execute_task(task)
    });
    let third = small.submit(|| format!("third ran on {}", thread_name()))?;
    println!("{}", third.join()?);

    open.send(())?;
    small.close();
    overflow.close();
    println!("rejected by the small pool: {}", small.stats().rejected);
    Ok(())
}

fn work(name: &'static str) -> Task {
    Task::new(move || println!("{name} ran on {}", thread_name())).named(name)
}

fn thread_name() -> String {
    std::thread::current().name().unwrap_or("an unnamed thread").to_owned()
}
