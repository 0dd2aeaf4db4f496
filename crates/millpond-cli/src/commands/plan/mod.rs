//! `millpond plan`: how a pool behaves under a load, in virtual time, and the smallest pool for a
//! target.
//!
//! `words` parses the phrases of the command line and `recorded` CSV files; `workload` is the load
//! and `target` the aim. The crate `millpond_sim` simulates one run, `trials` many of them,
//! `theory` has the exact formulas, `search` finds the smallest pool, `show` presents the result.

mod args;
mod progress;
mod recorded;
mod search;
mod show;
mod target;
mod theory;
mod trials;
mod words;
mod workload;

use std::ffi::OsString;

use clap::error::ErrorKind;
use millpond_sim::Pool;

pub(crate) use self::args::Args;
use self::progress::Progress;
use self::search::{Answer, Headroom, Settings};
use self::show::{chart, json, load_name, page, text};
use self::target::Target;
use self::theory::{ClosedForm, Overload};
use self::trials::{Runner, Trials};
use self::words::NamedPool;
use self::workload::{Offered, Workload};
use crate::error::{Error, Outcome};
use crate::{files, term};

/// One pool under one load.
#[derive(Debug)]
struct Case {
    pool: NamedPool,
    trials: Trials,
    formula: Option<Result<ClosedForm, Overload>>,
    /// Whether every run met the target, if there is one.
    meets: Option<bool>,
    /// How much more load the pool tolerates, if it meets the target.
    breaks: Option<Headroom>,
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

/// Answers a missing argument with an example.
pub(crate) fn explain(arguments: &[OsString], error: &clap::Error) -> Option<String> {
    let is_missing = error.kind() == ErrorKind::MissingRequiredArgument;
    (is_missing && arguments.get(1).is_some_and(|command| command == "plan")).then(|| {
        "plan needs --arrivals and --takes: `millpond plan --arrivals 'poisson 50/s' --takes 20ms`; try --help"
            .to_owned()
    })
}

pub(crate) fn run(args: Args) -> Result<Outcome, Error> {
    // A search may take minutes, so mistakes are reported before it begins.
    [&args.svg, &args.html].into_iter().flatten().try_for_each(|path| files::check_place(path))?;
    let workload = args.workload()?;
    let target = args.target()?;
    let settings = Settings { runs: args.runs(target.is_some()), headroom: args.headroom };
    let loads: Vec<(f64, Workload)> =
        args.loads(target.is_some()).into_iter().map(|factor| (factor, workload.scaled(factor))).collect();
    loads.iter().try_for_each(|(factor, load)| check(load, *factor, target.is_some()))?;
    let runner = Runner::new(Progress::begin())?;
    let mut plans = Vec::new();
    for (factor, load) in loads {
        let planner = Planner { runner: &runner, target: target.as_ref(), settings };
        plans.push(planner.plan(&args.pools, factor, load)?);
    }
    drop(runner);
    if args.json {
        term::print(&json::write(&plans, target.as_ref()))?;
    } else {
        term::print(&text::draw(&plans, target.as_ref(), &term::stdout()))?;
    }
    write_files(&args, &plans, target.as_ref())?;
    Ok(if plans.iter().all(Plan::is_met) { Outcome::Yes } else { Outcome::No })
}

fn check(workload: &Workload, factor: f64, is_searched: bool) -> Result<(), Error> {
    workload.check_size(is_searched).map_err(|error| match factor {
        1.0 => Error::new(error),
        _ => Error::new(format_args!("at {}, {error}", load_name(factor))),
    })?;
    match workload.tasks(workload.seed).next() {
        Some(_) => Ok(()),
        None => Err(Error::new("no task arrives in that time; give a longer --for")),
    }
}

/// State that all loads share.
struct Planner<'a> {
    runner: &'a Runner,
    target: Option<&'a Target>,
    settings: Settings,
}

impl Planner<'_> {
    fn plan(&self, pools: &[NamedPool], factor: f64, workload: Workload) -> Result<Plan, Error> {
        let offered = Offered::of(&workload);
        let pools = match (pools, self.target) {
            ([], None) => usual_pools(&offered),
            (pools, _) => pools.to_vec(),
        };
        let mut cases: Vec<Case> = pools.into_iter().map(|pool| self.case(pool, factor, &workload)).collect();
        let answer = match self.target {
            Some(target) => Some(search::smallest(self.runner, &workload, target, self.settings)?),
            None => None,
        };
        if let Some(found) = answer.as_ref().and_then(|answer| answer.found.as_ref()) {
            let pool = NamedPool { name: "smallest".to_owned(), pool: found.pool.clone() };
            let formula = theory::of(&workload, &pool.pool);
            let (trials, breaks) = (found.trials.clone(), Some(found.breaks));
            cases.push(Case { pool, trials, formula, meets: Some(true), breaks });
        }
        Ok(Plan { factor, workload, offered, cases, answer })
    }

    /// A pool from the command line.
    fn case(&self, pool: NamedPool, factor: f64, workload: &Workload) -> Case {
        self.runner.progress.tell(format!("{}: {}", load_name(factor), pool.name));
        let seeds = search::judged_seeds(workload, self.settings.runs);
        let trials = self.runner.trials(workload, &pool.pool, self.target, seeds);
        let meets = self.target.map(|_| trials.all_held());
        let breaks = self
            .target
            .filter(|_| meets == Some(true))
            .map(|target| self.breaks(&pool.pool, workload, target));
        Case { formula: theory::of(workload, &pool.pool), pool, trials, meets, breaks }
    }

    fn breaks(&self, pool: &Pool, workload: &Workload, target: &Target) -> Headroom {
        search::headroom(self.runner, workload, pool, target, 0.0)
    }
}

/// The pools of a plan without `--pool` and target: three kinds, with 25 % more threads than are
/// busy on average, but at most a million threads.
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

fn write_files(args: &Args, plans: &[Plan], target: Option<&Target>) -> Result<(), Error> {
    let mut written = Vec::new();
    if let Some(path) = &args.svg {
        files::write(path, &chart::all(plans, target))?;
        written.push(path.display().to_string());
    }
    if let Some(path) = &args.html {
        files::write(path, &page::write(plans, target))?;
        written.push(path.display().to_string());
    }
    if !written.is_empty() && !args.json {
        term::print(&format!("\nWritten: {}\n", written.join(", ")))?;
    }
    Ok(())
}
