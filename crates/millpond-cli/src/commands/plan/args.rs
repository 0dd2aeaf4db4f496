//! The arguments of `millpond plan`.

use std::path::PathBuf;

use millpond_sim::{Arrivals, Judged, Limit, Mix, Nanos, World};

use super::recorded;
use super::target::{Target, TimeLimit};
use super::words::{self, ArrivalWords, MixWords, NamedPool};
use super::workload::{MOST_TASKS, Workload};
use crate::error::Error;
use crate::units;

/// Size a thread pool: how many threads, how long a queue?
///
/// Simulates thread pools under a load that you describe and reports waiting times, refused tasks
/// and threads. With a target, finds the smallest pool that meets it, at the given load and at ten
/// times the load. The simulated pool admits tasks with the code of the real one.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Arrival process. Repeat it to merge several
    #[arg(long, value_name = "HOW", required = true, value_parser = words::arrivals)]
    arrivals: Vec<ArrivalWords>,
    /// Duration of a task, or several kinds with their shares
    #[arg(long, value_name = "TIME", value_parser = words::mix)]
    takes: MixWords,
    /// Share of its duration in which a task computes. It waits in the rest
    #[arg(long, value_name = "SHARE", default_value = "0%", value_parser = units::share)]
    cpu: f64,
    /// Number of cores that computing tasks share [default: those of this machine]
    #[arg(long, value_name = "N", value_parser = cores)]
    cores: Option<usize>,
    /// A pool. Repeat it to compare several
    #[arg(long = "pool", value_name = "POOL", value_parser = words::pool)]
    pub(super) pools: Vec<NamedPool>,
    /// A single caller submits all tasks: while it is blocked or runs one, the next are late
    #[arg(long)]
    one_caller: bool,
    /// End the arrivals after this time
    #[arg(long = "for", value_name = "TIME", value_parser = words::some_nanos)]
    during: Option<Nanos>,
    /// End the arrivals after this many tasks [default: 100k, and more under a large load]
    #[arg(long, value_name = "N", value_parser = count, conflicts_with = "during")]
    count: Option<u64>,
    /// Multiples of the load to plan for [default: 1; with a target 1,10]
    #[arg(long, value_name = "FACTOR,..", value_delimiter = ',', value_parser = factor)]
    pub(super) load: Vec<f64>,
    /// Find the smallest pool in which 95 of 100 tasks end within this time
    #[arg(long, value_name = "TIME", value_parser = words::some_nanos)]
    target_p95: Option<Nanos>,
    /// Find the smallest pool in which 99 of 100 tasks end within this time
    #[arg(long, value_name = "TIME", value_parser = words::some_nanos)]
    target_p99: Option<Nanos>,
    /// Find the smallest pool in which 999 of 1000 tasks end within this time
    #[arg(long = "target-p99.9", value_name = "TIME", value_parser = words::some_nanos)]
    target_p999: Option<Nanos>,
    /// Find the smallest pool in which 95 of 100 tasks start within this time
    #[arg(long, value_name = "TIME", value_parser = words::nanos)]
    target_wait_p95: Option<Nanos>,
    /// Find the smallest pool in which 99 of 100 tasks start within this time
    #[arg(long, value_name = "TIME", value_parser = words::nanos)]
    target_wait_p99: Option<Nanos>,
    /// Find the smallest pool in which 999 of 1000 tasks start within this time
    #[arg(long = "target-wait-p99.9", value_name = "TIME", value_parser = words::nanos)]
    target_wait_p999: Option<Nanos>,
    /// Share of the tasks that may be refused [default: 0.1%, with a target]
    #[arg(long, value_name = "PERCENT", value_parser = percentage)]
    max_rejects: Option<f64>,
    /// How much more load the recommended pool must bear
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = percentage)]
    pub(super) headroom: f64,
    /// Number of runs, each with its own seed [default: 1; with a target 20]
    #[arg(long, visible_alias = "seeds", value_name = "N", value_parser = runs)]
    pub(super) runs: Option<u64>,
    /// Seed of the first run. The same seed gives the same figures
    #[arg(long, value_name = "N", default_value = "1", value_parser = seed)]
    seed: u64,
    /// Write the charts to this file
    #[arg(long, value_name = "FILE")]
    pub(super) svg: Option<PathBuf>,
    /// Write a report with charts and figures to this file
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,
    /// Print all figures as JSON
    #[arg(long)]
    pub(super) json: bool,
}

const AFTER_HELP: &str = "\
Arrivals:
  constant 200/s              at equal intervals
  poisson 200/s               independent of each other
  ramp 10/s..500/s over 30s   at a changing rate, then at the last rate
  burst 100 every 1s          all at once; without `every` only once
  FILE.csv                    recorded: a column of dates or of seconds;
                              `FILE.csv column started in ms` names the column
                              and the unit

Durations:
  20ms, 10ms..30ms, exponential 20ms, log-normal 20ms p99 200ms (or sigma 0.8),
  90% 5ms, 10% exponential 200ms cpu 80%,
  FILE.csv column duration in ms (with arrivals of the same file: row by row)

Pools:
  core=4,max=16,queue=100,keep-alive=10s,eager,policy=caller-runs
  fixed 4; cached; NAME: core=4
  queue: a number, 0 (synchronous) or unbounded; the default is unbounded
  policy: abort, discard, discard-oldest, caller-runs, block, block TIME

Examples:
  millpond plan --arrivals 'poisson 200/s' --takes 'exponential 20ms' \\
    --pool 'fixed 5' --pool 'core=4,max=16,queue=50'
  millpond plan --arrivals 'poisson 200/s' --takes 'log-normal 8ms p99 40ms' \\
    --target-p99 50ms --max-rejects 0.1%

Exit status: 0 on success, 1 if no pool or not every given pool meets the
target, 2 on error.";

/// Default limit on refused tasks.
const USUAL_MAX_REJECTS: f64 = 0.001;
/// Default number of runs that judge a pool by a target.
const USUAL_RUNS: u64 = 20;

fn cores(text: &str) -> Result<usize, String> {
    match units::count(text)? {
        count @ 1..=1_000_000 => Ok(count as usize),
        _ => Err(format!("'{text}' cores are out of range; give 1 to 1000000")),
    }
}

fn count(text: &str) -> Result<u64, String> {
    match units::count(text)? {
        0 => Err("a plan needs tasks; give a number above zero".to_owned()),
        count if count > MOST_TASKS => Err(format!(
            "{} tasks are too many; a plan simulates at most {} in a run",
            units::show_count(count),
            units::show_count(MOST_TASKS)
        )),
        count => Ok(count),
    }
}

fn runs(text: &str) -> Result<u64, String> {
    match units::count(text)? {
        runs @ 1..=1000 => Ok(runs),
        _ => Err(format!("'{text}' runs are out of range; give 1 to 1000")),
    }
}

fn seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("the seed '{text}' is not a whole number such as 7"))
}

fn factor(text: &str) -> Result<f64, String> {
    match units::amount(text)? {
        factor if (0.001..=1e6).contains(&factor) => Ok(factor),
        _ => Err(format!("the load factor '{text}' is out of range; give 0.001 to 1000000")),
    }
}

/// A share with a percent sign. Without the sign, 0.5 could mean 50 % or 0.5 %.
fn percentage(text: &str) -> Result<f64, String> {
    match text.trim() {
        "0" => Ok(0.0),
        trimmed if trimmed.ends_with('%') => units::share(trimmed),
        _ => match units::share(text) {
            Ok(_) => Err(format!("'{text}' has no percent sign; write {text}%")),
            Err(_) => Err(format!("'{text}' is not a percentage such as 0.1%")),
        },
    }
}

impl Args {
    /// The load for the factor 1.
    pub(super) fn workload(&self) -> Result<Workload, Error> {
        let (arrivals, mix) = self.tasks()?;
        let limit = match (self.during, self.count) {
            (Some(end), _) => Some(Limit::Until(end)),
            (None, count) => count.map(Limit::Count),
        };
        let machine = || std::thread::available_parallelism().map_or(1, usize::from);
        let world = World { cores: self.cores.unwrap_or_else(machine), one_caller: self.one_caller };
        Ok(Workload::new(arrivals, mix, world, self.seed, limit))
    }

    fn tasks(&self) -> Result<(Vec<Arrivals>, Mix), Error> {
        match (self.arrivals.as_slice(), &self.takes) {
            // Arrivals and durations in the same file belong together row by row.
            ([ArrivalWords::File(times)], MixWords::File(durations)) if times.path == durations.path => {
                let (times, durations) = recorded::requests(times, durations)?;
                Ok((vec![Arrivals::Times(times)], Mix::recorded_in_order(durations, self.cpu)))
            }
            (arrivals, takes) => {
                let arrivals = arrivals.iter().map(|words| self.arrivals(words));
                Ok((arrivals.collect::<Result<_, Error>>()?, self.mix(takes)?))
            }
        }
    }

    fn arrivals(&self, words: &ArrivalWords) -> Result<Arrivals, Error> {
        match words {
            ArrivalWords::Ready(arrivals) => Ok(arrivals.clone()),
            ArrivalWords::Ramp(from, to) => match self.during {
                Some(over) => Ok(Arrivals::Ramp { from: *from, to: *to, over }),
                None => {
                    Err(Error::new("a ramp needs a length; write 'ramp 10/s..500/s over 30s' or add --for"))
                }
            },
            ArrivalWords::File(file) => recorded::times(file).map(Arrivals::Times),
        }
    }

    fn mix(&self, words: &MixWords) -> Result<Mix, Error> {
        match words {
            MixWords::Kinds(kinds) => Ok(Mix::new(kinds.iter().map(|kind| kind.kind(self.cpu)).collect())),
            MixWords::File(file) => Ok(Mix::recorded(recorded::durations(file)?, self.cpu)),
        }
    }

    pub(super) fn target(&self) -> Result<Option<Target>, Error> {
        let times: Vec<TimeLimit> = [
            (Judged::Total, 0.99, self.target_p99),
            (Judged::Total, 0.95, self.target_p95),
            (Judged::Total, 0.999, self.target_p999),
            (Judged::Wait, 0.99, self.target_wait_p99),
            (Judged::Wait, 0.95, self.target_wait_p95),
            (Judged::Wait, 0.999, self.target_wait_p999),
        ]
        .into_iter()
        .filter_map(|(of, share, limit)| Some(TimeLimit { of, share, limit: limit? }))
        .collect();
        match (times.is_empty(), self.max_rejects) {
            (true, None) => Ok(None),
            (true, Some(_)) => Err(Error::new("--max-rejects needs a time limit; add --target-p99 TIME")),
            (false, lost) => Ok(Some(Target { times, lost: lost.unwrap_or(USUAL_MAX_REJECTS) })),
        }
    }

    /// The multiples of the load, and the number of runs.
    pub(super) fn loads(&self, has_target: bool) -> Vec<f64> {
        match self.load.as_slice() {
            [] if has_target => vec![1.0, 10.0],
            [] => vec![1.0],
            factors => factors.to_vec(),
        }
    }

    pub(super) fn runs(&self, has_target: bool) -> u64 {
        self.runs.unwrap_or(if has_target { USUAL_RUNS } else { 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_needs_its_sign() {
        assert_eq!(percentage("50%"), Ok(0.5));
        assert_eq!(percentage("0"), Ok(0.0));
        assert_eq!(percentage("0.5"), Err("'0.5' has no percent sign; write 0.5%".to_owned()));
        assert!(percentage("many").unwrap_err().contains("not a percentage such as 0.1%"));
    }
}
