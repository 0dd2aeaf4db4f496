//! Compares the cost of one job with `millpond run`, `xargs -P` and GNU parallel, which each run
//! `true` some thousand times.
//!
//! `cargo build --release -p millpond-cli && cargo run --release -p bench --bin run-overhead`, with
//! `-- JOBS ROUNDS` to change the defaults.
//!
//! The contestants take turns, round by round, and each figure is the median of the rounds. CPU
//! time includes the jobs, and is comparable even on a busy machine. Exit status 1: `millpond run`
//! needs more than [`LIMIT`] times the CPU time of xargs. docs/run.md has the figures.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// The largest CPU time of `millpond run`, in multiples of that of xargs.
const LIMIT: f64 = 1.05;

/// Concurrent jobs, for every contestant.
const AT_A_TIME: &str = "2";

struct Contestant {
    name: &'static str,
    program: PathBuf,
    arguments: &'static [&'static str],
}

/// Time per job in one round.
#[derive(Clone, Copy)]
struct Cost {
    wall: Duration,
    cpu: Duration,
}

fn main() -> ExitCode {
    match compare() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            let _ = writeln!(io::stderr(), "run-overhead: {message}");
            ExitCode::from(2)
        }
    }
}

/// Returns whether every variant of `millpond run` is within the limit.
fn compare() -> Result<bool, String> {
    let mut numbers = std::env::args().skip(1).map(|text| {
        text.parse::<u32>()
            .ok()
            .filter(|n| *n > 0)
            .ok_or(format!("'{text}' is not a number of jobs or rounds"))
    });
    let jobs = numbers.next().transpose()?.unwrap_or(2000);
    let rounds = numbers.next().transpose()?.unwrap_or(7);
    let contestants = contestants()?;
    let input: String = (1..=jobs).map(|number| format!("{number}\n")).collect();
    let list = std::env::temp_dir().join(format!("run-overhead-{}", std::process::id()));
    fs::write(&list, input).map_err(|error| format!("cannot write {}: {error}", list.display()))?;
    let costs = measure(&contestants, &list, jobs, rounds);
    let _ = fs::remove_file(&list);
    Ok(report(&contestants, &costs?, jobs, rounds))
}

fn contestants() -> Result<Vec<Contestant>, String> {
    let here = std::env::current_exe().map_err(|error| format!("where am I? {error}"))?;
    let millpond = here.with_file_name("millpond");
    if !millpond.exists() {
        return Err(format!("no {}; run `cargo build --release -p millpond-cli` first", millpond.display()));
    }
    let xargs = PathBuf::from("xargs");
    let mut contestants = vec![
        Contestant { name: "xargs -P", program: xargs, arguments: &["-P", AT_A_TIME, "-n", "1", "true"] },
        Contestant {
            name: "millpond run",
            program: millpond.clone(),
            arguments: &["run", "-j", AT_A_TIME, "true"],
        },
        Contestant {
            name: "millpond run -k",
            program: millpond.clone(),
            arguments: &["run", "-j", AT_A_TIME, "-k", "true"],
        },
        Contestant {
            name: "millpond run -u",
            program: millpond,
            arguments: &["run", "-j", AT_A_TIME, "-u", "true"],
        },
    ];
    if is_gnu_parallel() {
        let arguments = &["-j", AT_A_TIME, "true"];
        contestants.push(Contestant { name: "GNU parallel", program: PathBuf::from("parallel"), arguments });
    } else {
        println!("GNU parallel is not installed and is left out.");
    }
    Ok(contestants)
}

/// moreutils has another program of that name.
fn is_gnu_parallel() -> bool {
    let version = Command::new("parallel").arg("--version").stdin(Stdio::null()).output();
    version.is_ok_and(|output| output.stdout.starts_with(b"GNU parallel"))
}

/// The costs of each contestant, round by round. An extra first round warms up.
fn measure(
    contestants: &[Contestant],
    list: &Path,
    jobs: u32,
    rounds: u32,
) -> Result<Vec<Vec<Cost>>, String> {
    let mut costs = vec![Vec::new(); contestants.len()];
    for round in 0..=rounds {
        for (contestant, costs) in contestants.iter().zip(&mut costs) {
            let cost = contestant.play(list, jobs)?;
            if round > 0 {
                costs.push(cost);
            }
        }
    }
    Ok(costs)
}

impl Contestant {
    fn play(&self, list: &Path, jobs: u32) -> Result<Cost, String> {
        let cannot = |error: io::Error| format!("cannot run {}: {error}", self.name);
        let input = fs::File::open(list).map_err(cannot)?;
        let mut command = Command::new(&self.program);
        command.args(self.arguments).stdin(input).stdout(Stdio::null()).stderr(Stdio::null());
        let (cpu, begin) = (cpu_of_children(), Instant::now());
        let status = command.status().map_err(cannot)?;
        let (wall, cpu) = (begin.elapsed(), cpu_of_children().saturating_sub(cpu));
        if !status.success() {
            return Err(format!("{} ended with {status}", self.name));
        }
        Ok(Cost { wall: wall / jobs, cpu: cpu / jobs })
    }
}

/// The CPU time of all children that have ended, or zero without /proc.
fn cpu_of_children() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The program name may contain anything; the figures follow its closing parenthesis.
    let figures = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks: u64 =
        figures.split_whitespace().skip(13).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

fn report(contestants: &[Contestant], costs: &[Vec<Cost>], jobs: u32, rounds: u32) -> bool {
    println!("{jobs} times `true`, {AT_A_TIME} at a time, median of {rounds} rounds\n");
    println!("{:<16} {:>12} {:>8} {:>12} {:>8}", "for each job", "wall time", "ratio", "CPU time", "ratio");
    let medians: Vec<Cost> = costs
        .iter()
        .map(|costs| Cost {
            wall: median(costs.iter().map(|cost| cost.wall).collect()),
            cpu: median(costs.iter().map(|cost| cost.cpu).collect()),
        })
        .collect();
    for (contestant, cost) in contestants.iter().zip(&medians) {
        println!(
            "{:<16} {:>9.0} us {:>8.2} {:>9.0} us {:>8.2}",
            contestant.name,
            cost.wall.as_secs_f64() * 1e6,
            cost.wall.as_secs_f64() / medians[0].wall.as_secs_f64(),
            cost.cpu.as_secs_f64() * 1e6,
            cost.cpu.as_secs_f64() / medians[0].cpu.as_secs_f64(),
        );
    }
    let is_within = |cost: &Cost| cost.cpu.as_secs_f64() <= LIMIT * medians[0].cpu.as_secs_f64();
    let ours =
        contestants.iter().zip(&medians).filter(|(contestant, _)| contestant.name.starts_with("millpond"));
    let over: Vec<&str> =
        ours.filter(|(_, cost)| !is_within(cost)).map(|(contestant, _)| contestant.name).collect();
    match over.is_empty() {
        true => println!("\nmillpond run is within {LIMIT} times the CPU time of xargs"),
        false => println!("\nabove {LIMIT} times the CPU time of xargs: {}", over.join(", ")),
    }
    over.is_empty()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
