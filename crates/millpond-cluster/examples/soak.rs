//! Long runs, and runs on a full disk. Part of `ci/long.sh`.
//!
//! ```sh
//! soak run FILE SECONDS   # steady load; memory and files must not grow
//! soak fill FOLDER        # fills the disk of FOLDER, makes room again, and accounts for every task
//! ```

use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};

use millpond::executors;
use millpond_cluster::{
    Backoff, Certainty, Cluster, RemoteHandle, RemoteTask, Retention, Severity, SubmitReason, TaskError,
    TaskType,
};

const ECHO: TaskType<String, String> = TaskType::new("echo");

type Done = Result<(), Box<dyn Error>>;

fn main() -> Done {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["run", file, seconds] => run(file, Duration::from_secs(seconds.parse()?)),
        ["fill", folder] => fill(Path::new(folder)),
        _ => Err("usage: soak run FILE SECONDS | soak fill FOLDER".into()),
    }
}

/// The quantities that must not grow.
#[derive(Debug, Clone, Copy, Default)]
struct Use {
    memory: u64,
    files: u64,
}

impl Use {
    fn now(file: &str) -> Result<Use, Box<dyn Error>> {
        let status = std::fs::read_to_string("/proc/self/status")?;
        let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let memory = memory.and_then(|text| text.split_whitespace().next()).ok_or("there is no VmRSS")?;
        let size = |path: String| std::fs::metadata(path).map_or(0, |file| file.len());
        let files = size(file.to_owned()) + size(format!("{file}-wal"));
        Ok(Use { memory: memory.parse::<u64>()? << 10, files })
    }

    fn most(self, other: Use) -> Use {
        Use { memory: self.memory.max(other.memory), files: self.files.max(other.files) }
    }
}

/// Memory and files in the last quarter may exceed those in the second by at most 10 %.
fn run(file: &str, time: Duration) -> Done {
    let keep = Retention { records: 2000, bytes: 4 << 20 };
    let cluster = Cluster::builder().retention(keep).open(&format!("sqlite:{file}"))?;
    let worker = cluster.worker().pool(executors::fixed(2)?).handle(&ECHO, sometimes_fails).start()?;
    let (begin, mut quarters, mut ended) = (Instant::now(), [Use::default(); 4], 0u64);
    while begin.elapsed() < time {
        let tasks = (0..200).map(|n| ECHO.task(&"x".repeat(n)).retry(Backoff::constant(Duration::ZERO)));
        let handles = cluster.submit_tasks(tasks).map_err(|(_, error)| error)?;
        for handle in handles {
            ended += u64::from(handle.join().is_ok());
        }
        let quarter = (4.0 * begin.elapsed().as_secs_f64() / time.as_secs_f64()) as usize;
        let quarter = &mut quarters[quarter.min(3)];
        *quarter = quarter.most(Use::now(file)?);
        // A steady load below the machine's limit.
        std::thread::sleep(Duration::from_millis(20));
    }
    println!("{ended} tasks; most in each quarter: {quarters:?}; {:?}", worker.stats());
    let is_flat = |level: u64, last: u64| last <= level + level / 10;
    if !is_flat(quarters[1].memory, quarters[3].memory) || !is_flat(quarters[1].files, quarters[3].files) {
        return Err("it grows".into());
    }
    let stats = worker.stats();
    if (stats.lease_lost, stats.fence_refused) != (0, 0) {
        return Err("nothing failed, but a worker says so".into());
    }
    sound(&cluster)
}

fn sometimes_fails(context: &millpond_cluster::TaskContext, text: String) -> Result<String, TaskError> {
    if text.len().is_multiple_of(7) && context.attempt() == 1 {
        Err(TaskError::new("not yet"))
    } else {
        Ok(text)
    }
}

fn fill(folder: &Path) -> Done {
    let ballast = folder.join("ballast");
    std::fs::write(&ballast, vec![0; 1 << 20])?;
    let file = folder.join("jobs.db");
    let cluster = Cluster::open(&format!("sqlite:{}", file.display()))?;
    let (accepted, refused) = submit_until_full(&cluster)?;
    println!("{} accepted, then: {}", accepted.len(), refused.0);
    if cluster.stats()?.submitted != accepted.len() as u64 {
        return Err("what was accepted is not what is there".into());
    }
    let worker = cluster.worker().handle(&ECHO, |_, text| Ok(text)).start()?;
    // Let the worker fail to settle several times.
    std::thread::sleep(Duration::from_secs(2));
    println!("without room: {:?}", worker.stats());
    std::fs::remove_file(ballast)?;
    let count = accepted.len();
    for handle in accepted {
        handle.join()?;
    }
    cluster.submit_task(refused.1)?.join()?;
    let stats = cluster.stats()?;
    println!("with room: {count} and the refused one have ended; {stats:?}");
    if (stats.submitted, stats.succeeded) != (count as u64 + 1, count as u64 + 1) {
        return Err("tasks are missing".into());
    }
    sound(&cluster)
}

/// The accepted tasks, and the error and the task of the first rejection.
type Filled = (Vec<RemoteHandle<String>>, (String, RemoteTask<String>));

fn submit_until_full(cluster: &Cluster) -> Result<Filled, Box<dyn Error>> {
    let mut accepted = Vec::new();
    loop {
        match cluster.submit(&ECHO, &"x".repeat(2000)) {
            Ok(handle) => accepted.push(handle),
            Err(error) => {
                let text = error.to_string();
                let SubmitReason::Engine(reason) = error.reason() else { return Err(text.into()) };
                if reason.certainty() != Certainty::NotDone || !text.contains("the disk is full") {
                    return Err(format!("the error of a full disk does not say so: {text}").into());
                }
                return Ok((accepted, (text, *error.into_task())));
            }
        }
        if accepted.len() > 100_000 {
            return Err("the disk is too large: use one of a few megabytes".into());
        }
    }
}

fn sound(cluster: &Cluster) -> Done {
    let findings = cluster.admin().doctor()?;
    let wrong: Vec<_> = findings.into_iter().filter(|one| one.severity == Severity::Error).collect();
    if wrong.is_empty() { Ok(()) } else { Err(format!("{wrong:?}").into()) }
}
