//! How do I let urgent work overtake?
//!
//! With a priority queue, the waiting task with the highest priority runs next; equal ones run in
//! order of arrival. Only waiting tasks are reordered: with an idle thread a task starts at once.
//!
//! Run it: `cargo run --example priorities`

use std::error::Error;
use std::sync::mpsc;

use millpond::{TaskOf, ThreadPoolExecutor, WorkQueue};

fn main() -> Result<(), Box<dyn Error>> {
    let pool = ThreadPoolExecutor::builder()
        .core_pool_size(1)
        .maximum_pool_size(1)
        .work_queue(WorkQueue::priority())
        .build()?;

    // Occupies the only thread until all the others wait.
    let (open, gate) = mpsc::channel::<()>();
    pool.execute(move || gate.recv().unwrap())?;

    let (done, order) = mpsc::channel();
    let mut handles = Vec::new();
    for (name, priority) in
        [("newsletter", -5), ("order 1", 0), ("order 2", 0), ("fire alarm", 100), ("password reset", 10)]
    {
        let done = done.clone();
        let task = TaskOf::new(move || done.send((name, priority)).unwrap());
        println!("submitted {name}, priority {priority}");
        handles.push(pool.submit_task(task.named(name).with_priority(priority))?);
    }
    drop(done);
    open.send(())?;
    for handle in handles {
        handle.join()?;
    }

    println!();
    let order: Vec<(&str, i32)> = order.iter().collect();
    for (name, priority) in &order {
        println!("ran {name}, priority {priority}");
    }
    assert!(order.windows(2).all(|pair| pair[0].1 >= pair[1].1));
    Ok(())
}
