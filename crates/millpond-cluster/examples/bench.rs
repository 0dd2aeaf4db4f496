//! Two measurements that `millpond cluster bench` leaves out: one thread that submits in batches,
//! and a worker without work.
//!
//! ```sh
//! cargo run --release -p millpond-cluster --example bench -- window memory: [SECONDS]
//! cargo run --release -p millpond-cluster --example bench -- idle sqlite:/tmp/bench.db [SECONDS]
//! ```

use std::error::Error;
use std::time::{Duration, Instant};

use millpond::executors;
use millpond_cluster::{Cluster, TaskType, Worker};

/// 128 bytes of arguments, with the quotes.
const ECHO: TaskType<String, u32> = TaskType::new("echo");
const IN_FLIGHT: usize = 256;

type Done = Result<(), Box<dyn Error>>;

fn main() -> Done {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (command, address) = match arguments.as_slice() {
        [command, address, ..] => (command.as_str(), address.as_str()),
        _ => return Err("usage: bench window|idle ADDRESS [SECONDS]".into()),
    };
    let seconds = arguments.get(2).map(|seconds| seconds.parse::<u64>()).transpose()?;
    let cluster = Cluster::open(address)?;
    match command {
        "window" => window(&cluster, seconds.unwrap_or(10)),
        "idle" => idle(&cluster, seconds.unwrap_or(20)),
        _ => Err(format!("'{command}' is not window or idle").into()),
    }
}

fn arguments() -> String {
    "x".repeat(126)
}

fn worker(cluster: &Cluster) -> Result<Worker, Box<dyn Error>> {
    let pool = executors::fixed(2)?;
    Ok(cluster.worker().pool(pool).handle(&ECHO, |_, text: String| Ok(text.len() as u32)).start()?)
}

/// One thread that keeps 256 tasks in flight: it joins 64 and submits 64 more in one call.
fn window(cluster: &Cluster, seconds: u64) -> Done {
    let _worker = worker(cluster)?;
    let begin = Instant::now();
    let mut done = 0;
    let submit =
        |n: usize| cluster.submit_all(&ECHO, std::iter::repeat_n(arguments(), n)).map_err(|(_, error)| error);
    let mut handles = std::collections::VecDeque::from(submit(IN_FLIGHT)?);
    while begin.elapsed() < Duration::from_secs(seconds) {
        for handle in handles.drain(..64) {
            assert_eq!(handle.join()?, 126);
            done += 1;
        }
        handles.extend(submit(64)?);
    }
    let rate = f64::from(done) / begin.elapsed().as_secs_f64();
    println!("{rate:.0} tasks/s, submitted 64 at a time and joined by one thread, {IN_FLIGHT} in flight");
    Ok(())
}

/// Measures the cost of a worker without work.
fn idle(cluster: &Cluster, seconds: u64) -> Done {
    let _worker = worker(cluster)?;
    std::thread::sleep(Duration::from_secs(1));
    let before = processor_time()?;
    std::thread::sleep(Duration::from_secs(seconds));
    let used = processor_time()? - before;
    println!("idle worker: {:.2} % of one processor", used.as_secs_f64() / seconds as f64 * 100.0);
    Ok(())
}

/// Processor time of this process, from `/proc/self/schedstat` of each thread, in nanoseconds.
fn processor_time() -> std::io::Result<Duration> {
    let mut nanos = 0;
    for thread in std::fs::read_dir("/proc/self/task")? {
        let stat = std::fs::read_to_string(thread?.path().join("schedstat")).unwrap_or_default();
        nanos += stat.split(' ').next().and_then(|time| time.parse::<u64>().ok()).unwrap_or(0);
    }
    Ok(Duration::from_nanos(nanos))
}
