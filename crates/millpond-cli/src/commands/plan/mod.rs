//! `millpond plan`: what a pool would do with a load, in virtual time.
//!
//! `words` reads the phrases on the command line, `times` a file of arrivals; the crate `millpond_sim` is the pool in
//! virtual time, `theory` what formulas say about it, `search` looks for the smallest pool; `show` is how all that looks.

mod search;
mod show;
mod theory;
mod times;
mod words;

use std::path::PathBuf;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use millpond::sizing;
use millpond_sim::{self as sim, Arrivals, Figures, Judged, Limit, Mix, Nanos, Stream, Task, World};

use self::search::{Answer, Target};
use self::show::{chart, json, page, text};
use self::theory::{ClosedForm, Overload};
use self::words::{ArrivalWords, MixWords, NamedPool};
use crate::error::{Error, Outcome};
use crate::{files, term, units};

/// Answer "how should I size it?" in virtual time.
///
/// Sends tasks through pools that exist only in a simulation, with the admission rule of the real ones, and tells how long
/// they wait, how many are refused and how many threads it takes. With a target it looks for the smallest pool and queue
/// that meet it, today and at ten times the load.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// How tasks arrive; several of these come together
    #[arg(long, value_name = "HOW", required = true, value_parser = words::arrivals)]
    arrivals: Vec<ArrivalWords>,
    /// How long a task takes; several kinds with their shares
    #[arg(long, value_name = "TIME", value_parser = words::mix)]
    takes: MixWords,
    /// The share of its time that a task computes; the rest it waits
    #[arg(long, value_name = "SHARE", default_value = "0%", value_parser = units::share)]
    cpu: f64,
    /// The cores that computing tasks share; those of this machine if not given
    #[arg(long, value_name = "N", value_parser = cores)]
    cores: Option<usize>,
    /// A pool; give several to compare them
    #[arg(long = "pool", value_name = "POOL", value_parser = words::pool)]
    pools: Vec<NamedPool>,
    /// One caller hands in all tasks: while it is blocked, or runs one, the next are late
    #[arg(long)]
    one_caller: bool,
    /// End the arrivals after this time
    #[arg(long = "for", value_name = "TIME", value_parser = words::some_nanos)]
    during: Option<Nanos>,
    /// End the arrivals after so many tasks [default: 100k, if they do not end by themselves]
    #[arg(long, value_name = "N", value_parser = count, conflicts_with = "during")]
    count: Option<u64>,
    /// So many times the load, one after the other [default: 1, with a target 1,10]
    #[arg(long, value_name = "FACTOR,..", value_delimiter = ',', value_parser = factor)]
    load: Vec<f64>,
    /// Find the smallest pool in which 99 of 100 tasks end within this time
    #[arg(long, value_name = "TIME", value_parser = words::some_nanos)]
    target_p99: Option<Nanos>,
    /// Find the smallest pool in which 99 of 100 tasks begin within this time
    #[arg(long, value_name = "TIME", value_parser = words::nanos, conflicts_with = "target_p99")]
    target_wait_p99: Option<Nanos>,
    /// The share of the tasks that may be refused [default: 0.1%, with a target]
    #[arg(long, value_name = "SHARE", value_parser = units::share)]
    max_rejects: Option<f64>,
    /// For all that is left to chance: the same seed, the same figures
    #[arg(long, value_name = "N", default_value = "1", value_parser = seed)]
    seed: u64,
    /// Write the charts to this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Write a report to this file: charts and figures in one page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print all figures as JSON, and nothing else
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "\
How tasks arrive:
  constant 200/s              at even distances
  poisson 200/s               independently of each other
  ramp 10/s..500/s over 30s   more and more, then at that rate
  burst 100 every 1s          so many at once; without `every` only once
  FILE.csv                    as recorded: a column of dates or of seconds;
                              `FILE.csv column started in ms` names the column
                              and the unit

How long a task takes:
  20ms, 10ms..30ms, exponential 20ms, log-normal 20ms p99 200ms (or sigma 0.8),
  90% 5ms, 10% exponential 200ms cpu 80%

Pools:
  core=4,max=16,queue=100,keep-alive=10s,eager,policy=caller-runs
  fixed 4; cached; NAME: core=4
  queue: a number, 0 (synchronous) or unbounded; if not given, unbounded
  policy: abort, discard, discard-oldest, caller-runs, block, block TIME

Examples:
  millpond plan --arrivals 'poisson 200/s' --takes 'exponential 20ms' \\
    --pool 'fixed 5' --pool 'core=4,max=16,queue=50'
  millpond plan --arrivals 'poisson 200/s' --takes 'log-normal 8ms p99 40ms' \\
    --target-p99 50ms --max-rejects 0.1%

Exit status: 0; 1 if no pool meets the target, or one that was given does not;
2 if it could not run.";

/// Tasks, where they would not end by themselves.
const USUAL_COUNT: u64 = 100_000;
/// The most that a search can hold in memory: a few gigabytes.
const MOST_TO_SEARCH: usize = 100_000_000;
const USUAL_MAX_REJECTS: f64 = 0.001;

fn cores(text: &str) -> Result<usize, String> {
    match units::count(text)? {
        count @ 1..=1_000_000 => Ok(count as usize),
        _ => Err(format!("'{text}' is no number of cores; it is from 1 to 1000000")),
    }
}

fn count(text: &str) -> Result<u64, String> {
    match units::count(text)? {
        0 => Err("no tasks, no plan; give a number above zero".to_owned()),
        count => Ok(count),
    }
}

fn seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("'{text}' is no seed; it is a whole number such as 7"))
}

fn factor(text: &str) -> Result<f64, String> {
    match units::amount(text)? {
        factor if (0.001..=1e6).contains(&factor) => Ok(factor),
        _ => Err(format!("'{text}' is no factor to plan with; it is from 0.001 to 1000000")),
    }
}

/// Tasks, and what they run on.
#[derive(Debug, Clone)]
struct Workload {
    arrivals: Vec<Arrivals>,
    limit: Limit,
    mix: Mix,
    world: World,
    seed: u64,
}

impl Workload {
    fn scaled(&self, factor: f64) -> Workload {
        Workload { arrivals: self.arrivals.iter().map(|one| one.scaled(factor)).collect(), ..self.clone() }
    }

    fn tasks(&self) -> Stream<'_> {
        Stream::new(&self.arrivals, self.limit, &self.mix, self.seed)
    }

    /// Tasks per second, if they come for longer than a moment. Of a ramp, those at its end.
    fn rate(&self) -> Option<f64> {
        let rates = self.arrivals.iter().filter_map(|one| match one {
            Arrivals::Constant(rate) | Arrivals::Poisson(rate) | Arrivals::Ramp { to: rate, .. } => {
                Some(*rate)
            }
            Arrivals::Burst { count, every } => every.map(|every| *count as f64 * 1e9 / every as f64),
            Arrivals::Times(times) => {
                let last = times.last().copied().filter(|last| *last > 0)?;
                Some((times.len() - 1) as f64 * 1e9 / last as f64)
            }
        });
        Some(rates.sum()).filter(|rate| *rate > 0.0)
    }
}

/// What three formulas say about a load, before anything is simulated.
#[derive(Debug, Clone, Copy)]
struct Offered {
    rate: Option<f64>,
    /// Mean times of a task, in nanoseconds.
    wait: f64,
    compute: f64,
    cores: usize,
}

impl Offered {
    fn of(workload: &Workload) -> Offered {
        let compute = workload.mix.mean_compute();
        let wait = workload.mix.mean() - compute;
        Offered { rate: workload.rate(), wait, compute, cores: workload.world.cores }
    }

    /// Threads that are busy on average, by Little's law.
    fn busy_threads(&self) -> Option<f64> {
        self.rate.map(|rate| rate * (self.wait + self.compute) / 1e9)
    }

    /// The same as a number of threads: fewer cannot carry it.
    fn threads(&self) -> Option<usize> {
        self.rate.map(|rate| sizing::for_rate(rate, nanos(self.wait + self.compute)))
    }

    fn busy_cores(&self) -> Option<f64> {
        self.rate.map(|rate| rate * self.compute / 1e9).filter(|cores| *cores > 0.0)
    }

    /// Threads that keep the cores busy: the waiting/computing formula.
    fn threads_for_cores(&self) -> Option<usize> {
        (self.compute > 0.0).then(|| sizing::io_bound_on(self.cores, nanos(self.wait), nanos(self.compute)))
    }
}

fn nanos(nanos: f64) -> Duration {
    Duration::from_nanos(nanos.round() as u64)
}

/// One pool under one load.
#[derive(Debug)]
struct Case {
    pool: NamedPool,
    figures: Figures,
    formula: Option<Result<ClosedForm, Overload>>,
    meets: Option<bool>,
}

impl Case {
    fn new(pool: NamedPool, figures: Figures, meets: Option<bool>, workload: &Workload) -> Case {
        let formula = theory::closed_form(&workload.arrivals, &workload.mix, &pool.pool, workload.world);
        Case { pool, figures, formula, meets }
    }
}

/// All pools under one load.
#[derive(Debug)]
struct Plan {
    factor: f64,
    workload: Workload,
    offered: Offered,
    cases: Vec<Case>,
    answer: Option<Answer>,
}

impl Plan {
    fn is_met(&self) -> bool {
        self.answer.as_ref().is_none_or(|answer| answer.found.is_some())
            && self.cases.iter().all(|case| case.meets != Some(false))
    }
}

pub(crate) fn run(args: Args) -> Result<Outcome, Error> {
    // A search may take minutes: a mistake should not cost them.
    [&args.svg, &args.html].into_iter().flatten().try_for_each(|path| files::check_place(path))?;
    let workload = workload(&args)?;
    let target = target(&args)?;
    let factors = match (args.load.as_slice(), target) {
        ([], None) => vec![1.0],
        ([], Some(_)) => vec![1.0, 10.0],
        (factors, _) => factors.to_vec(),
    };
    let progress = Progress::begin();
    let plans = factors
        .into_iter()
        .map(|factor| plan(&args.pools, &workload, factor, target, &progress))
        .collect::<Result<Vec<Plan>, Error>>()?;
    drop(progress);
    if args.json {
        term::print(&json::write(&plans, target))?;
    } else {
        term::print(&text::draw(&plans, target, &term::stdout()))?;
    }
    write_files(&args, &plans, target)?;
    Ok(if plans.iter().all(Plan::is_met) { Outcome::Yes } else { Outcome::No })
}

fn workload(args: &Args) -> Result<Workload, Error> {
    let arrivals = args.arrivals.iter().map(|words| arrivals(words, args.during));
    let arrivals = arrivals.collect::<Result<Vec<Arrivals>, Error>>()?;
    let limit = match (args.during, args.count) {
        (Some(end), _) => Limit::Until(end),
        (None, Some(count)) => Limit::Count(count),
        (None, None) if arrivals.iter().all(Arrivals::end) => Limit::None,
        (None, None) => Limit::Count(USUAL_COUNT),
    };
    let mix = Mix::new(args.takes.0.iter().map(|kind| kind.kind(args.cpu)).collect());
    let cores = args.cores.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let world = World { cores, one_caller: args.one_caller };
    Ok(Workload { arrivals, limit, mix, world, seed: args.seed })
}

fn arrivals(words: &ArrivalWords, during: Option<Nanos>) -> Result<Arrivals, Error> {
    match words {
        ArrivalWords::Ready(arrivals) => Ok(arrivals.clone()),
        ArrivalWords::Ramp(from, to) => match during {
            Some(over) => Ok(Arrivals::Ramp { from: *from, to: *to, over }),
            None => Err(Error::new(
                "a ramp needs a time; write 'ramp 10/s..500/s over 30s', or give --for as well",
            )),
        },
        ArrivalWords::File { path, column, unit } => {
            times::read(path, column.as_deref(), *unit).map(Arrivals::Times)
        }
    }
}

fn target(args: &Args) -> Result<Option<Target>, Error> {
    let lost = args.max_rejects.unwrap_or(USUAL_MAX_REJECTS);
    match (args.target_p99, args.target_wait_p99) {
        (Some(p99), _) => Ok(Some(Target { of: Judged::Total, p99, lost })),
        (None, Some(p99)) => Ok(Some(Target { of: Judged::Wait, p99, lost })),
        (None, None) if args.max_rejects.is_some() => {
            Err(Error::new("--max-rejects alone is no target; give --target-p99 TIME as well"))
        }
        (None, None) => Ok(None),
    }
}

/// Sends one load through all pools, and searches if there is a target.
fn plan(
    pools: &[NamedPool],
    workload: &Workload,
    factor: f64,
    target: Option<Target>,
    progress: &Progress,
) -> Result<Plan, Error> {
    let workload = workload.scaled(factor);
    if workload.tasks().next().is_none() {
        return Err(Error::new("no task arrives in that time; give a longer --for"));
    }
    let offered = Offered::of(&workload);
    let tasks = tasks(&workload, target.is_some())?;
    let pools = match (pools, target) {
        ([], None) => usual_pools(&offered),
        (pools, _) => pools.to_vec(),
    };
    let mut cases = Vec::new();
    for pool in pools {
        progress.tell(factor, &pool.name);
        let goal = target.map(|target| target.goal());
        let figures = match &tasks {
            Some(tasks) => sim::simulate(&pool.pool, workload.world, tasks.iter().copied(), goal, &mut ()),
            None => sim::simulate(&pool.pool, workload.world, workload.tasks(), goal, &mut ()),
        };
        let meets = target.map(|target| target.is_met(&figures));
        cases.push(Case::new(pool, figures, meets, &workload));
    }
    let answer = target.zip(tasks.as_deref()).map(|(target, tasks)| {
        let tell = |threads: usize| progress.tell(factor, &format!("{threads} threads"));
        search::smallest(tasks, workload.world, target, &tell)
    });
    if let Some((pool, figures)) = answer.as_ref().and_then(|answer| answer.found.as_ref()) {
        let pool = NamedPool { name: "smallest".to_owned(), pool: pool.clone() };
        cases.push(Case::new(pool, figures.clone(), Some(true), &workload));
    }
    Ok(Plan { factor, workload, offered, cases, answer })
}

/// The tasks, if they are to be sent through many pools: drawn once, they need not be drawn again.
fn tasks(workload: &Workload, to_search: bool) -> Result<Option<Vec<Task>>, Error> {
    if !to_search {
        return Ok(None);
    }
    let tasks: Vec<Task> = workload.tasks().take(MOST_TO_SEARCH + 1).collect();
    if tasks.len() > MOST_TO_SEARCH {
        return Err(Error::new("too many tasks to search with; give --count 1M, or a shorter --for"));
    }
    Ok(Some(tasks))
}

/// Where nobody names a pool: three kinds, with a quarter more threads than are busy on average. There is a most: a load that
/// needs more is not for a pool.
fn usual_pools(offered: &Offered) -> Vec<NamedPool> {
    let busy = offered.busy_threads().unwrap_or(offered.cores as f64);
    let threads = ((busy * 1.25).ceil() as usize).clamp(1, 1_000_000);
    let (most, queue) = (2 * threads, 10 * threads);
    [
        format!("fixed {threads}"),
        "cached".to_owned(),
        format!("custom: core={threads},max={most},queue={queue}"),
    ]
    .iter()
    .map(|words| words::pool(words).expect("these are sound"))
    .collect()
}

fn write_files(args: &Args, plans: &[Plan], target: Option<Target>) -> Result<(), Error> {
    let mut written = Vec::new();
    if let Some(path) = &args.svg {
        files::write(path, &chart::all(plans, target)?)?;
        written.push(path.display().to_string());
    }
    if let Some(path) = &args.html {
        files::write(path, &page::write(plans, target)?)?;
        written.push(path.display().to_string());
    }
    if !written.is_empty() && !args.json {
        term::print(&format!("\nWritten: {}\n", written.join(", ")))?;
    }
    Ok(())
}

/// A line on stderr, if that is a terminal, that tells what is being tried.
#[derive(Debug)]
struct Progress(Option<ProgressBar>);

impl Progress {
    fn begin() -> Progress {
        if !term::stderr().is_terminal {
            return Progress(None);
        }
        let line = ProgressBar::new_spinner();
        let style = ProgressStyle::with_template("{spinner} {wide_msg}");
        line.set_style(style.expect("the template is sound"));
        line.enable_steady_tick(Duration::from_millis(100));
        Progress(Some(line))
    }

    fn tell(&self, factor: f64, what: &str) {
        if let Some(line) = &self.0 {
            line.set_message(format!("{}: {what}", show::load_name(factor)));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(line) = &self.0 {
            line.finish_and_clear();
        }
    }
}
