//! Several processes on one file: workers are killed and stopped, and every task is accounted for.
//! Run by `ci/cluster-kill.sh`.
//!
//! ```sh
//! chaos run FILE TASKS KILLS STOPS     # three workers, a submitter, signals, and the check
//! chaos takeover FILE SECONDS ROUNDS   # how soon the tasks of a killed worker start elsewhere
//! chaos work FILE LOG SECONDS          # a worker; writes each run of a handler to LOG
//! ```
//!
//! SECONDS is the lease.
//!
//! The check: every accepted task has exactly one outcome, the outcome is right, a handler ran for
//! it, and every handle of the submitter resolved. A takeover takes at most 1.2 leases by the
//! engine's clock.

use std::collections::HashMap;
use std::error::Error;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::process::{Child, Command};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use millpond::{executors, interrupt};
use millpond_cluster::{Cluster, RemoteTask, Severity, State, TaskFilter, TaskId, TaskInfo, TaskType};

const DOUBLE: TaskType<u64, u64> = TaskType::new("double");
const LEASE: Duration = Duration::from_secs(1);
const WORKERS: usize = 3;
/// Threads of each worker.
const THREADS: usize = 2;
/// Limit of a takeover: this many leases, counted from the last renewal.
const BAR: f64 = 1.2;
/// Tasks with this number or a greater one hang in their first attempt.
const HANGS: u64 = 1 << 40;

type Done = Result<(), Box<dyn Error>>;

fn main() -> Done {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |n: usize| arguments.get(n).and_then(|text| text.parse::<u64>().ok());
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["work", file, log, _] => work(file, log, number(3).ok_or("SECONDS is a number")?),
        ["takeover", file, _, _] => {
            let (Some(lease), Some(rounds)) = (number(2), number(3)) else {
                return Err("SECONDS and ROUNDS are numbers".into());
            };
            takeover(file, lease, rounds)
        }
        ["run", file, _, _, _] => {
            let (Some(tasks), Some(kills), Some(stops)) = (number(2), number(3), number(4)) else {
                return Err("TASKS, KILLS and STOPS are numbers".into());
            };
            run(file, tasks, kills, stops)
        }
        _ => Err(
            "usage: chaos run FILE TASKS KILLS STOPS | takeover FILE SECONDS ROUNDS | work FILE LOG SECONDS"
                .into(),
        ),
    }
}

fn open(file: &str, lease: Duration) -> Result<Cluster, Box<dyn Error>> {
    let keep = millpond_cluster::Retention { records: 10_000_000, bytes: 4 << 30 };
    Ok(Cluster::builder().lease(lease).retention(keep).open(&format!("sqlite:{file}?durability=relaxed"))?)
}

fn work(file: &str, log: &str, lease: u64) -> Done {
    let log = Mutex::new(OpenOptions::new().create(true).append(true).open(log)?);
    let cluster = open(file, Duration::from_secs(lease))?;
    let _worker = cluster
        .worker()
        .pool(executors::fixed(THREADS)?)
        .handle(&DOUBLE, move |context, n: u64| {
            // Unbuffered: a written line survives the death of the process.
            let line = format!("{n} {}\n", context.attempt());
            log.lock().expect("no handler panics").write_all(line.as_bytes())?;
            if n >= HANGS && context.attempt() == 1 {
                interrupt::sleep(Duration::from_secs(3600))?;
            }
            // Long enough that a signal usually hits a running task.
            interrupt::sleep(Duration::from_micros(fastrand::u64(..4000)))?;
            Ok(n * 2)
        })
        .start()?;
    loop {
        std::thread::sleep(Duration::from_secs(3600));
    }
}

/// A worker process. Dropping this kills it, even if it is stopped.
struct Process(Child);

impl Process {
    fn spawn(file: &str, log: &str, lease: Duration) -> std::io::Result<Process> {
        let lease = lease.as_secs().to_string();
        Command::new(std::env::current_exe()?).args(["work", file, log, &lease]).spawn().map(Process)
    }

    fn signal(&self, name: &str) -> Done {
        let status = Command::new("kill").args([&format!("-{name}"), &self.0.id().to_string()]).status()?;
        if status.success() { Ok(()) } else { Err(format!("kill -{name} failed").into()) }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Fails only if the process has already ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn task(n: u64) -> RemoteTask<u64> {
    // This program kills the workers, not the tasks: tasks must not become dead letters for that.
    DOUBLE
        .task(&n)
        .id(TaskId::from(u128::from(n) + 1))
        .max_crashes(1000)
        .keep_result(Duration::from_secs(7200))
}

fn run(file: &str, tasks: u64, kills: u64, stops: u64) -> Done {
    let log = format!("{file}.log");
    let workers = (0..WORKERS).map(|_| Process::spawn(file, &log, LEASE)).collect::<Result<Vec<_>, _>>()?;
    play(file, tasks, kills, stops, &log, workers)?;
    check(file, tasks, &log)
}

/// Repeatedly kills a worker that holds tasks, while two others are idle.
fn takeover(file: &str, lease: u64, rounds: u64) -> Done {
    let (log, lease) = (format!("{file}.log"), Duration::from_secs(lease));
    let cluster = open(file, lease)?;
    let mut leases = Vec::new();
    for round in 0..rounds {
        let victim = Process::spawn(file, &log, lease)?;
        let tasks = (0..THREADS as u64).map(|n| task(HANGS + round * THREADS as u64 + n));
        let handles = cluster.submit_tasks(tasks).map_err(|(_, error)| error)?;
        let ids: Vec<TaskId> = handles.iter().map(|handle| handle.id()).collect();
        while ids.iter().any(|id| state(&cluster, *id) != Some(State::Running)) {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _others = [Process::spawn(file, &log, lease)?, Process::spawn(file, &log, lease)?];
        // A random time between two renewals.
        std::thread::sleep(lease.mul_f64(0.5 + fastrand::f64() / 2.0));
        drop(victim);
        // The dead worker no longer renews, so the end of its lease tells when it renewed last.
        let ends = ids.iter().map(|id| info(&cluster, *id)?.lease).collect::<Option<Vec<_>>>();
        let ends = ends.ok_or("the tasks were taken over before the worker was dead")?;
        for handle in handles {
            handle.join()?;
        }
        for (id, end) in ids.iter().zip(ends) {
            let started = info(&cluster, *id).and_then(|task| task.started).ok_or("it has started")?;
            let late = (started - end) as f64 / lease.as_millis() as f64;
            leases.push(1.0 + late);
        }
    }
    leases.sort_unstable_by(f64::total_cmp);
    let (median, worst) = (leases[leases.len() / 2], leases[leases.len() - 1]);
    println!(
        "lease {lease:?}: {} tasks started elsewhere after {median:.2} leases, worst {worst:.2}",
        leases.len()
    );
    if worst <= BAR { Ok(()) } else { Err(format!("a takeover took more than {BAR} leases").into()) }
}

fn info(cluster: &Cluster, id: TaskId) -> Option<TaskInfo> {
    cluster.admin().task(id).ok().flatten().map(|details| details.task)
}

fn state(cluster: &Cluster, id: TaskId) -> Option<State> {
    info(cluster, id).map(|task| task.state)
}

fn play(file: &str, tasks: u64, kills: u64, stops: u64, log: &str, mut workers: Vec<Process>) -> Done {
    let cluster = open(file, LEASE)?;
    let begin = Instant::now();
    let submitter = {
        let cluster = cluster.clone();
        std::thread::spawn(move || -> Result<u64, String> {
            let mut joined = 0;
            let numbers: Vec<u64> = (0..tasks).collect();
            for chunk in numbers.chunks(1000) {
                // Submitted twice on purpose: the second call must change nothing.
                let again = cluster.submit_tasks(chunk.iter().map(|n| task(*n)));
                let again = again.map_err(|(_, error)| error.to_string())?;
                let handles = cluster.submit_tasks(chunk.iter().map(|n| task(*n)));
                for (n, handle) in chunk.iter().zip(handles.map_err(|(_, error)| error.to_string())?) {
                    let result = handle.join().map_err(|error| error.to_string())?;
                    assert_eq!(result, n * 2);
                    joined += 1;
                }
                drop(again);
            }
            Ok(joined)
        })
    };
    let (mut killed, mut stopped) = (0, 0);
    while !submitter.is_finished() || killed < kills || stopped < stops {
        std::thread::sleep(Duration::from_millis(fastrand::u64(50..250)));
        let victim = fastrand::usize(..workers.len());
        if stopped < stops && fastrand::u64(..kills + stops) < stops {
            workers[victim].signal("STOP")?;
            std::thread::sleep(LEASE * 2);
            workers[victim].signal("CONT")?;
            stopped += 1;
        } else if killed < kills {
            drop(workers.swap_remove(victim));
            workers.push(Process::spawn(file, log, LEASE)?);
            killed += 1;
        }
    }
    let joined = submitter.join().map_err(|_| "the submitter panicked")??;
    println!(
        "{killed} kills, {stopped} stops, {joined} handles resolved in {:.1} s",
        begin.elapsed().as_secs_f64()
    );
    Ok(())
}

fn check(file: &str, tasks: u64, log: &str) -> Done {
    let cluster = open(file, LEASE)?;
    let stats = cluster.stats()?;
    println!("{stats:?}");
    if (stats.submitted, stats.succeeded, stats.dead, stats.running) != (tasks, tasks, 0, 0) {
        return Err(format!("{tasks} tasks were accepted, but that is not what the queue counts").into());
    }
    let mut runs: HashMap<u64, u64> = HashMap::new();
    for line in std::io::read_to_string(File::open(log)?)?.lines() {
        let n = line.split(' ').next().and_then(|n| n.parse().ok()).ok_or("a line of the log is torn")?;
        *runs.entry(n).or_default() += 1;
    }
    let mut after = 0;
    let mut seen = 0;
    loop {
        let page = cluster.admin().tasks(&TaskFilter { after, limit: 500, ..TaskFilter::default() })?;
        for task in &page.tasks {
            if task.state != State::Succeeded {
                return Err(format!("task {} is {}", task.id, task.state).into());
            }
            seen += 1;
        }
        match page.next {
            Some(next) => after = next,
            None => break,
        }
    }
    let again = runs.values().filter(|runs| **runs > 1).count();
    println!("{seen} outcomes, {} tasks ran, {again} of them more than once", runs.len());
    if seen != tasks || runs.len() as u64 != tasks {
        return Err("tasks are missing".into());
    }
    let wrong: Vec<_> =
        cluster.admin().doctor()?.into_iter().filter(|finding| finding.severity == Severity::Error).collect();
    if wrong.is_empty() { Ok(()) } else { Err(format!("{wrong:?}").into()) }
}
