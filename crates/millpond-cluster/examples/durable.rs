//! A pool whose tasks survive: kill this program at any time and start it again; no task is lost.
//!
//! ```sh
//! cargo run --release -p millpond-cluster --example durable -- jobs.db 2000
//! ```
//!
//! It submits tasks with fixed ids, so a second start submits nothing twice. It runs them on two
//! threads, and ends when each has an outcome; `durable FILE N` then prints `done N`. The test
//! `tests/processes.rs` kills it repeatedly.

use std::error::Error;
use std::time::Duration;

use millpond::{executors, interrupt};
use millpond_cluster::{Cluster, RemoteTask, TaskId, TaskType};

/// Sums the numbers up to `n`, slowly.
const SUM: TaskType<u64, u64> = TaskType::new("sum");

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().unwrap_or_else(|| "jobs.db".to_owned());
    let tasks: u64 = arguments.next().map_or(Ok(2000), |tasks| tasks.parse())?;

    let cluster = Cluster::builder().lease(Duration::from_secs(2)).open(&format!("sqlite:{file}"))?;
    let worker = cluster
        .worker()
        .pool(executors::fixed(2)?)
        .handle(&SUM, |_, n: u64| {
            interrupt::sleep(Duration::from_millis(1))?;
            Ok((0..=n).sum())
        })
        .start()?;

    // The ids are the same at each start: tasks that were already submitted are not added again.
    let task = |n: u64| -> RemoteTask<u64> {
        SUM.task(&n).id(TaskId::from_name(&format!("sum:{n}"))).max_crashes(100)
    };
    let handles = cluster.submit_tasks((0..tasks).map(task)).map_err(|(_, error)| error)?;
    println!("submitted {}", handles.len());

    for (n, handle) in (0..).zip(handles) {
        assert_eq!(handle.join()?, n * (n + 1) / 2);
    }
    let report = worker.drain(Duration::from_secs(10));
    println!("this run finished {}", report.finished);
    println!("done {tasks}");
    Ok(())
}
