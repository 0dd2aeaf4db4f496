//! The workloads: one file each, the same work for every contestant.
//!
//! Every figure is a cost: less is better.

mod backlog;
mod bounded;
mod burst;
mod elastic;
mod fire;
pub(crate) mod growth;
mod idle;
mod lanes;
mod memory;
mod nested;
mod queues;
mod rejection;
mod round_trip;
mod sparse;
mod timers;
mod timing;
mod wake;

use std::hint::black_box;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::contestants::{Elastic, Pool, Queue, Shape, Timers};
use crate::tally::{self, Count};

/// A workload, with several cases.
pub(crate) struct Workload {
    /// The name on the command line.
    pub(crate) key: &'static str,
    pub(crate) title: &'static str,
    /// The work, and what is counted.
    pub(crate) about: &'static str,
    pub(crate) metrics: &'static [Metric],
    /// For the points of a curve: the position of each case.
    pub(crate) axis: Option<fn(&Case) -> u64>,
    pub(crate) cases: fn(&Plan) -> Vec<Case>,
}

impl Workload {
    /// The heading of a column.
    pub(crate) fn heading(&self, case: &Case) -> String {
        self.axis.map_or_else(|| case.label(), |axis| axis(case).to_string())
    }

    /// The units of its metrics: one, or several with commas.
    pub(crate) fn units(&self) -> String {
        let mut units: Vec<&str> = self.metrics.iter().map(|metric| metric.unit).collect();
        units.dedup();
        units.join(", ")
    }

    /// The minimum number of rounds, if `usual` is the minimum of the others.
    pub(crate) fn rounds(&self, usual: usize) -> usize {
        // They take long, and vary little.
        let few = self.key == idle::IDLE.key || self.wants_new_process();
        if few { usual.min(3) } else { usual }
    }

    /// True if each measurement needs a fresh process.
    pub(crate) fn wants_new_process(&self) -> bool {
        let cold = [memory::MEMORY.key, timers::COLD.key, timers::HEAP.key];
        cold.contains(&self.key)
    }

    /// A peer to compare with besides the best one.
    pub(crate) fn reference(&self) -> Option<&'static str> {
        [sparse::SPARSE.key, sparse::PULSE.key].contains(&self.key).then_some(LOOP)
    }
}

/// A loop over a crossbeam channel: the minimum work of a pool for a task.
const LOOP: &str = "crossbeam pool";

pub(crate) struct Metric {
    /// Empty if there is only one.
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
    /// Figures below this count as equal to it in comparisons.
    pub(crate) grain: f64,
}

impl Metric {
    const fn new(name: &'static str, unit: &'static str) -> Metric {
        Metric { name, unit, grain: 0.0 }
    }

    const fn above(grain: f64, name: &'static str, unit: &'static str) -> Metric {
        Metric { name, unit, grain }
    }
}

/// The extent of a run.
pub(crate) struct Plan {
    pub(crate) quick: bool,
    pub(crate) workers: Vec<usize>,
}

impl Plan {
    /// The size for a whole run, or for a quick one.
    pub(crate) fn size(&self, whole: u64, quick: u64) -> u64 {
        if self.quick { quick } else { whole }
    }

    /// A case for each number of workers and each body.
    fn grid(&self, key: &'static str, variant: &'static str, size: u64) -> Vec<Case> {
        let bodies = [Body::Nothing, Body::Microsecond];
        let case = |workers, body| Case { key, variant, workers, producers: 1, body, size };
        self.workers.iter().flat_map(|workers| bodies.map(|body| case(*workers, body))).collect()
    }

    /// The same with a quarter of the tasks for bodies that take longer than the pool.
    fn fair_grid(&self, key: &'static str, variant: &'static str, size: u64) -> Vec<Case> {
        let mut cases = self.grid(key, variant, size);
        cases.iter_mut().filter(|case| case.body != Body::Nothing).for_each(|case| case.size /= 4);
        cases
    }

    /// A case for each number of workers, with empty bodies.
    fn line(&self, key: &'static str, variant: &'static str, size: u64) -> Vec<Case> {
        self.grid(key, variant, size).into_iter().filter(|case| case.body == Body::Nothing).collect()
    }
}

/// One column of a table.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Case {
    /// The key of the workload.
    pub(crate) key: &'static str,
    /// What distinguishes the case besides the numbers. May be empty.
    pub(crate) variant: &'static str,
    pub(crate) workers: usize,
    pub(crate) producers: usize,
    pub(crate) body: Body,
    /// The number of tasks, round trips or waves.
    pub(crate) size: u64,
}

impl Case {
    /// The form that another process reads.
    pub(crate) fn line(&self) -> String {
        let Case { key, variant, workers, producers, body, size } = self;
        let micros = u32::from(*body == Body::Microsecond);
        format!("{key}\t{variant}\t{workers}\t{producers}\t{micros}\t{size}")
    }

    /// Parses such a line.
    pub(crate) fn parse(line: &str) -> Option<Case> {
        let mut fields = line.split('\t');
        // A few words, leaked until the process ends.
        let mut word = || Some(&*fields.next()?.to_owned().leak());
        let (key, variant) = (word()?, word()?);
        let mut number = || fields.next()?.parse::<u64>().ok();
        let (workers, producers) = (number()? as usize, number()? as usize);
        let body = if number()? == 0 { Body::Nothing } else { Body::Microsecond };
        Some(Case { key, variant, workers, producers, body, size: number()? })
    }

    /// The heading of its column.
    pub(crate) fn label(&self) -> String {
        if self.key == queues::QUEUES.key {
            return format!("{} {}:{}", self.variant, self.producers, self.workers);
        }
        let body = if self.body == Body::Nothing { "" } else { ", 1 µs" };
        let variant = if self.variant.is_empty() { String::new() } else { format!("{}, ", self.variant) };
        format!("{variant}n={}{body}", self.workers)
    }
}

/// The body of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Body {
    Nothing,
    Microsecond,
}

/// Steps of [`spin`] that take a microsecond.
static MICROSECOND: OnceLock<u64> = OnceLock::new();

impl Body {
    /// The number of steps of [`spin`] on this machine.
    pub(crate) fn spins(self) -> u64 {
        match self {
            Body::Nothing => 0,
            Body::Microsecond => *MICROSECOND.get_or_init(calibrate),
        }
    }
}

/// Sets the steps per microsecond, before they are measured.
pub(crate) fn calibrated(steps: u64) {
    MICROSECOND.get_or_init(|| steps);
}

/// Steps per microsecond: the fastest of many tries, because the others were disturbed.
fn calibrate() -> u64 {
    const STEPS: u64 = 20_000;
    let fastest = (0..200).map(|_| {
        let begin = Instant::now();
        spin(STEPS);
        begin.elapsed()
    });
    let nanos = fastest.min().expect("there are tries").as_nanos() as u64;
    (STEPS * 1000 / nanos.max(1)).max(1)
}

/// Keeps the processor busy: each step needs the result of the one before.
fn spin(steps: u64) {
    let mut value = steps;
    for _ in 0..steps {
        value = value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    }
    black_box(value);
}

/// The body of a task: two words, like a small closure.
fn task(spins: u64, number: u64) -> impl FnOnce() + Send + 'static {
    move || {
        black_box(number);
        if spins > 0 {
            spin(spins);
        }
        tally::count();
    }
}

/// Why there is no figure.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The contestant does not support the case.
    NotOffered,
    /// The result was wrong.
    Wrong(String),
}

/// One figure for each metric of the workload.
pub(crate) type Outcome = Result<Vec<f64>, Failure>;

pub(crate) fn all() -> [&'static Workload; 20] {
    [
        &fire::ONE,
        &fire::FOUR,
        &bounded::BOUNDED,
        &round_trip::ROUND_TRIP,
        &burst::BURSTS,
        &wake::WAKE,
        &elastic::ELASTIC,
        &nested::NESTED,
        &memory::MEMORY,
        &queues::QUEUES,
        &timers::HOLD,
        &timers::FIRE,
        &timers::COLD,
        &timers::HEAP,
        &rejection::REJECTION,
        &idle::IDLE,
        &lanes::LANES,
        &sparse::SPARSE,
        &sparse::PULSE,
        &timing::TIMING,
    ]
}

/// Parses the answer of another process: "ok" and the figures, "none", or "wrong" and the reason.
pub(crate) fn answer(line: &str) -> Outcome {
    let wrong = || Failure::Wrong(line.trim_start_matches("wrong ").to_owned());
    match line.split_once(' ').unwrap_or((line, "")) {
        ("none", _) => Err(Failure::NotOffered),
        ("ok", figures) => figures.split(' ').map(|figure| figure.parse().map_err(|_| wrong())).collect(),
        _ => Err(wrong()),
    }
}

/// Formats such an answer.
pub(crate) fn to_line(outcome: &Outcome) -> String {
    match outcome {
        Ok(figures) => figures.iter().fold("ok".into(), |line, figure| format!("{line} {figure}")),
        Err(Failure::NotOffered) => "none".into(),
        Err(Failure::Wrong(what)) => format!("wrong {what}"),
    }
}

/// Measures a pool once.
pub(crate) fn run<P: Pool>(case: &Case) -> Outcome {
    match case.key {
        "one-producer" | "four-producers" => fire::run::<P>(case),
        "bounded" => bounded::run::<P>(case),
        "round-trip" => round_trip::run::<P>(case),
        "burst" => burst::run::<P>(case),
        "wake-up" => wake::run::<P>(case),
        "elastic" => elastic::run::<P>(case),
        "nested" => nested::run::<P>(case),
        "growth-queued" => backlog::run::<P>(case),
        "memory" => memory::run::<P>(case),
        "rejection" => rejection::run::<P>(case),
        "idle" => idle::run::<P>(case),
        "sparse" => sparse::sparse::<P>(case),
        "pulse" => sparse::pulse::<P>(case),
        "timing" => timing::run::<P>(case),
        _ => Err(Failure::NotOffered),
    }
}

/// Measures a queue once.
pub(crate) fn run_queue<Q: Queue>(case: &Case) -> Outcome {
    if case.key == queues::QUEUES.key { queues::run::<Q>(case) } else { Err(Failure::NotOffered) }
}

/// Measures timers once.
pub(crate) fn run_timers<T: Timers>(case: &Case) -> Outcome {
    match case.key {
        "timers" => timers::hold::<T>(case),
        "lateness" => timers::fire::<T>(case),
        "timers-cold" => timers::cold::<T>(case),
        "timers-heap" => timers::heap::<T>(case),
        _ => Err(Failure::NotOffered),
    }
}

/// Measures an elastic scheduler once.
pub(crate) fn run_elastic<E: Elastic>(case: &Case) -> Outcome {
    if case.key == lanes::LANES.key { lanes::run::<E>(case) } else { Err(Failure::NotOffered) }
}

/// A pool with all threads started.
fn pool<P: Pool>(shape: Shape) -> Result<P, Failure> {
    let pool = P::new(shape).ok_or(Failure::NotOffered)?;
    start_threads(&pool, shape.workers())?;
    Ok(pool)
}

fn start_threads<P: Pool>(pool: &P, threads: usize) -> Result<(), Failure> {
    let tasks = 4 * threads as u64;
    let count = Count::begin();
    (0..tasks).for_each(|number| pool.execute(task(20_000, number)));
    count.wait_for(tasks)
}

fn nanos_each(elapsed: Duration, size: u64) -> f64 {
    elapsed.as_nanos() as f64 / size as f64
}

/// The percentile of the samples, in microseconds.
fn percentile(samples: &mut [Duration], share: f64) -> f64 {
    samples.sort_unstable();
    let index = (samples.len() as f64 * share) as usize;
    samples[index.min(samples.len() - 1)].as_nanos() as f64 / 1000.0
}
