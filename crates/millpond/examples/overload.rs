//! What happens when the pool is overloaded, and what can I do about it?
//!
//! The error contains the rejected task: run it here, retry later, or submit it elsewhere.
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

    // Fill the pool: one task occupies the thread, one occupies the queue.
    let (open, gate) = mpsc::channel::<()>();
    small.execute(move || gate.recv().unwrap())?;
    small.execute(|| println!("waited its turn on {}", thread_name()))?;

    // 1. The error describes the pool and contains the task.
    let rejected = small.execute_task(work("first")).unwrap_err();
    println!("{rejected}");
    rejected.into_task().run();

    // 2. Another pool may have room.
    if let Err(rejected) = small.execute_task(work("second")) {
        overflow.execute_task(rejected.into_task())?;
    }

    // 3. A custom policy does the same for every task, so that callers need not.
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
