//! Measures an engine: the figures of docs/cluster.md.
//!
//! `cargo run --release -p millpond-cluster --example bench -- COMMAND ADDRESS [NUMBER]`:
//!
//! ```sh
//! bench rate memory:
//! bench trip 'sqlite:/tmp/bench.db?durability=relaxed'
//! bench backlog sqlite:/tmp/bench.db 1000000
//! bench idle sqlite:/tmp/bench.db
//! ```

use std::error::Error;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use millpond::executors;
use millpond_cluster::engine::{Claim, Report, Settle, Verdict};
use millpond_cluster::{Cluster, TaskType, Worker, WorkerId};

/// With the quotes 128 bytes of arguments.
const ECHO: TaskType<String, u32> = TaskType::new("echo");
const IN_FLIGHT: usize = 256;

type Done = Result<(), Box<dyn Error>>;

fn main() -> Done {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (command, address) = match arguments.as_slice() {
        [command, address, ..] => (command.as_str(), address.as_str()),
        _ => return Err("usage: bench rate|window|trip|backlog|idle ADDRESS [NUMBER]".into()),
    };
    let number = arguments.get(2).map(|number| number.parse::<u64>()).transpose()?;
    let cluster = Cluster::open(address)?;
    match command {
        "rate" => rate(&cluster, number.unwrap_or(10)),
        "window" => window(&cluster, number.unwrap_or(10)),
        "trip" => trip(&cluster, number.unwrap_or(2000)),
        "backlog" => backlog(&cluster, address, number.unwrap_or(1_000_000)),
        "idle" => idle(&cluster, number.unwrap_or(20)),
        _ => Err(format!("'{command}' is not rate, window, trip, backlog or idle").into()),
    }
}

fn arguments() -> String {
    "x".repeat(126)
}

fn worker(cluster: &Cluster) -> Result<Worker, Box<dyn Error>> {
    let pool = executors::fixed(2)?;
    Ok(cluster.worker().pool(pool).handle(&ECHO, |_, text: String| Ok(text.len() as u32)).start()?)
}

/// 256 threads, each of which submits a task and joins it, again and again.
fn rate(cluster: &Cluster, seconds: u64) -> Done {
    let worker = worker(cluster)?;
    let (done, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let begin = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..IN_FLIGHT {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let result = cluster.submit(&ECHO, &arguments()).expect("it is accepted").join();
                    assert_eq!(result.expect("it succeeds"), 126);
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        std::thread::sleep(Duration::from_secs(seconds));
        stop.store(true, Ordering::Relaxed);
    });
    let rate = done.load(Ordering::Relaxed) as f64 / begin.elapsed().as_secs_f64();
    println!("{rate:.0} tasks/s, submitted and joined by {IN_FLIGHT} threads; {:?}", worker.stats());
    Ok(())
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

/// One task in flight.
fn trip(cluster: &Cluster, rounds: u64) -> Done {
    let _worker = worker(cluster)?;
    let mut times: Vec<Duration> = (0..rounds)
        .map(|_| {
            let begin = Instant::now();
            cluster.submit(&ECHO, &arguments()).expect("it is accepted").join().expect("it succeeds");
            begin.elapsed()
        })
        .collect();
    times.sort_unstable();
    let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize];
    println!("round trip: p50 {:?}, p99 {:?}, worst {:?}", at(0.5), at(0.99), at(1.0));
    Ok(())
}

/// Many waiting tasks: what each takes on disk, and how long a claim of 100 takes.
fn backlog(cluster: &Cluster, address: &str, tasks: u64) -> Done {
    let begin = Instant::now();
    for _ in 0..tasks.div_ceil(500) {
        for handle in
            cluster.submit_all(&ECHO, std::iter::repeat_n(arguments(), 500)).map_err(|(_, error)| error)?
        {
            handle.detach();
        }
    }
    println!("submitted {tasks} in {:.1} s", begin.elapsed().as_secs_f64());
    let path = address.trim_start_matches("sqlite:").split('?').next().unwrap_or_default();
    if let Ok(file) = std::fs::metadata(path) {
        let log = std::fs::metadata(format!("{path}-wal")).map_or(0, |log| log.len());
        println!("{:.0} bytes per task, and a log of {log} bytes", file.len() as f64 / tasks as f64);
    }
    let engine = cluster.engine();
    let worker = WorkerId::from_name("bench");
    let ask = Claim {
        queue: "default".to_owned(),
        worker: worker.clone(),
        max: 100,
        max_suspects: 1,
        lease: Duration::from_secs(600),
        ids: Vec::new(),
    };
    let (mut claims, mut settles) = (Vec::new(), Vec::new());
    for _ in 0..200 {
        let begin = Instant::now();
        let claimed = engine.claim(&ask)?;
        claims.push(begin.elapsed());
        let report = |fence| Report { fence, verdict: Verdict::Succeeded(b"126".to_vec()) };
        let reports: Vec<Report> = claimed.iter().map(|one| report(one.fence)).collect();
        let begin = Instant::now();
        engine.settle(&Settle { worker: &worker, local: None, reports: &reports })?;
        settles.push(begin.elapsed());
    }
    claims.sort_unstable();
    settles.sort_unstable();
    println!("claim of 100: p50 {:?}, worst {:?}", claims[100], claims[199]);
    println!("settle of 100: p50 {:?}, worst {:?}", settles[100], settles[199]);
    Ok(())
}

/// What a worker without work costs.
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
