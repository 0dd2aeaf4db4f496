//! Several processes on one file, killed and stopped on purpose, with exact accounting. Run by
//! `ci/cluster-kill.sh`.
//!
//! ```sh
//! chaos run FILE TASKS KILLS STOPS   # three workers, a submitter, signals, and the check
//! chaos work FILE LOG                # a worker; writes each run of a handler to LOG
//! ```
//!
//! The check: every task that was accepted has exactly one outcome, it is the right one, and a
//! handler ran for it. Every handle of the submitter resolved.

use std::collections::HashMap;
use std::error::Error;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::process::{Child, Command};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use millpond::{executors, interrupt};
use millpond_cluster::{Cluster, RemoteTask, Severity, State, TaskFilter, TaskId, TaskType};

const DOUBLE: TaskType<u64, u64> = TaskType::new("double");
const LEASE: Duration = Duration::from_secs(1);
const WORKERS: usize = 3;

type Done = Result<(), Box<dyn Error>>;

fn main() -> Done {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |n: usize| arguments.get(n).and_then(|text| text.parse::<u64>().ok());
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["work", file, log] => work(file, log),
        ["run", file, _, _, _] => {
            let (Some(tasks), Some(kills), Some(stops)) = (number(2), number(3), number(4)) else {
                return Err("TASKS, KILLS and STOPS are numbers".into());
            };
            run(file, tasks, kills, stops)
        }
        _ => Err("usage: chaos run FILE TASKS KILLS STOPS | chaos work FILE LOG".into()),
    }
}

fn open(file: &str) -> Result<Cluster, Box<dyn Error>> {
    let keep = millpond_cluster::Retention { records: 10_000_000, bytes: 4 << 30 };
    Ok(Cluster::builder().lease(LEASE).retention(keep).open(&format!("sqlite:{file}?durability=relaxed"))?)
}

fn work(file: &str, log: &str) -> Done {
    let log = Mutex::new(OpenOptions::new().create(true).append(true).open(log)?);
    let cluster = open(file)?;
    let _worker = cluster
        .worker()
        .pool(executors::fixed(2)?)
        .handle(&DOUBLE, move |context, n: u64| {
            // Unbuffered: a line that was written survives the process.
            let line = format!("{n} {}\n", context.attempt());
            log.lock().expect("no handler panics").write_all(line.as_bytes())?;
            // Long enough that a signal mostly hits a running task.
            interrupt::sleep(Duration::from_micros(fastrand::u64(..4000)))?;
            Ok(n * 2)
        })
        .start()?;
    loop {
        std::thread::sleep(Duration::from_secs(3600));
    }
}

fn spawn(file: &str, log: &str) -> std::io::Result<Child> {
    Command::new(std::env::current_exe()?).args(["work", file, log]).spawn()
}

fn signal(child: &Child, name: &str) -> Done {
    let status = Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status()?;
    if status.success() { Ok(()) } else { Err(format!("kill -{name} failed").into()) }
}

fn task(n: u64) -> RemoteTask<u64> {
    // Workers die by our hand, not by the task's: that must not make it a dead letter.
    DOUBLE
        .task(&n)
        .id(TaskId::from(u128::from(n) + 1))
        .max_crashes(1000)
        .keep_result(Duration::from_secs(7200))
}

fn run(file: &str, tasks: u64, kills: u64, stops: u64) -> Done {
    let log = format!("{file}.log");
    let mut workers = (0..WORKERS).map(|_| spawn(file, &log)).collect::<Result<Vec<Child>, _>>()?;
    let result = play(file, tasks, kills, stops, &log, &mut workers);
    for mut worker in workers {
        // One that is stopped cannot be killed otherwise.
        worker.kill()?;
        worker.wait()?;
    }
    result?;
    check(file, tasks, &log)
}

fn play(file: &str, tasks: u64, kills: u64, stops: u64, log: &str, workers: &mut [Child]) -> Done {
    let cluster = open(file)?;
    let begin = Instant::now();
    let submitter = {
        let cluster = cluster.clone();
        std::thread::spawn(move || -> Result<u64, String> {
            let mut joined = 0;
            let numbers: Vec<u64> = (0..tasks).collect();
            for chunk in numbers.chunks(1000) {
                // Twice on purpose: the second submit changes nothing.
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
            signal(&workers[victim], "STOP")?;
            std::thread::sleep(LEASE * 2);
            signal(&workers[victim], "CONT")?;
            stopped += 1;
        } else if killed < kills {
            workers[victim].kill()?;
            workers[victim].wait()?;
            workers[victim] = spawn(file, log)?;
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
    let cluster = open(file)?;
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
