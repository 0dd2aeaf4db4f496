//! Measures how fast `millpond plan` simulates, and how well it agrees with real pools. Figures:
//! docs/plan.md.
//!
//! `cargo run --release -p bench --bin plan-check [-- --quick]`. The same tasks, with the same
//! arrivals and lengths, go through the simulator and through a real pool. A round of real runs
//! takes half a minute. There are three, and a figure is their median.
//!
//! On a busy machine a task takes longer than planned and is submitted late. So the simulator also
//! gets the tasks as they were in the real run. The remaining difference is due to the pool, not
//! the machine.

mod real;

use std::iter;
use std::process::ExitCode;
use std::time::Instant;

use bench::machine;
use millpond::growth::GrowthRule;
use millpond_sim::{
    self as sim, Arrivals, Figures, Kind, Length, Limit, Mix, Nanos, Observe, Policy, Pool, Stream, Task,
    World,
};

const MS: Nanos = 1_000_000;
const SECOND: Nanos = 1_000_000_000;

/// A load and a pool for it.
struct Workload {
    name: &'static str,
    arrivals: Arrivals,
    length: Length,
    cpu: f64,
    pool: Pool,
}

fn pool(core: usize, maximum: usize, queue: Option<usize>) -> Pool {
    Pool { maximum, ..Pool::fixed(core, queue) }
}

fn workloads() -> Vec<Workload> {
    let exponential = |millis: f64| Length::Exponential(millis * MS as f64);
    vec![
        Workload {
            name: "fixed 4, Poisson",
            arrivals: Arrivals::Poisson(300.0),
            length: exponential(10.0),
            cpu: 0.0,
            pool: pool(4, 4, None),
        },
        Workload {
            name: "core 2, max 6, queue 10, log-normal",
            arrivals: Arrivals::Poisson(400.0),
            length: Length::LogNormal(8.0 * MS as f64, 0.8),
            cpu: 0.0,
            pool: Pool { keep_alive: SECOND / 5, ..pool(2, 6, Some(10)) },
        },
        Workload {
            name: "core 4, max 16, queue 20, bursts",
            arrivals: Arrivals::Burst { count: 60, every: Some(SECOND / 4) },
            length: Length::Fixed(20.0 * MS as f64),
            cpu: 0.0,
            pool: Pool { keep_alive: SECOND / 10, ..pool(4, 16, Some(20)) },
        },
        Workload {
            name: "eager, max 8, queue 10, ramp",
            arrivals: Arrivals::Ramp { from: 50.0, to: 900.0, over: 4 * SECOND },
            length: exponential(10.0),
            cpu: 0.0,
            pool: Pool { rule: GrowthRule::Eager, keep_alive: SECOND / 5, ..pool(1, 8, Some(10)) },
        },
        Workload {
            name: "fixed 4, queue 8, caller runs",
            arrivals: Arrivals::Poisson(420.0),
            length: exponential(10.0),
            cpu: 0.0,
            pool: Pool { policy: Policy::CallerRuns, ..pool(4, 4, Some(8)) },
        },
        Workload {
            name: "fixed 4, queue 8, block",
            arrivals: Arrivals::Poisson(350.0),
            length: exponential(10.0),
            cpu: 0.0,
            pool: Pool { policy: Policy::Block(None), ..pool(4, 4, Some(8)) },
        },
        Workload {
            name: "fixed 6, half of it computing",
            arrivals: Arrivals::Poisson(50.0 * cores() as f64),
            length: exponential(20.0),
            cpu: 0.5,
            pool: pool(3 * cores(), 3 * cores(), None),
        },
    ]
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn main() -> ExitCode {
    let quick = match std::env::args().skip(1).collect::<Vec<_>>().as_slice() {
        [] => false,
        [flag] if flag == "--quick" => true,
        _ => {
            eprintln!("plan-check: no such arguments; usage: plan-check [--quick]");
            return ExitCode::from(2);
        }
    };
    println!("{}", machine::description());
    speed(if quick { 1_000_000 } else { 5_000_000 });
    let before = machine::Load::now(iter::empty());
    agreement(if quick { 1 } else { 3 }, if quick { 2 * SECOND } else { 5 * SECOND });
    if let Some(others) = before.zip(machine::Load::now(iter::empty())).and_then(|(a, b)| b.others_since(a)) {
        println!("\nOthers used {:.0} % of the machine meanwhile.", others * 100.0);
    }
    ExitCode::SUCCESS
}

/// Simulated arrivals per second, including the generation of random numbers.
fn speed(tasks: u64) {
    println!("\nArrivals simulated per second:\n");
    let exponential = |cpu| Mix::new(vec![Kind { weight: 1.0, length: Length::Exponential(20e6), cpu }]);
    for (name, rate, cpu, pool) in [
        ("5 threads, unbounded queue", 200.0, 0.0, pool(5, 5, None)),
        ("core 4, max 16, queue 50", 400.0, 0.0, pool(4, 16, Some(50))),
        ("1000 threads, 93 % busy", 46_500.0, 0.0, pool(1000, 1000, None)),
        ("8 threads, half computing, 4 cores", 250.0, 0.5, pool(8, 8, None)),
        ("overloaded, 90 % rejected", 2500.0, 0.0, pool(5, 5, Some(10))),
    ] {
        let mix = exponential(cpu);
        let world = World { cores: 4, one_caller: false };
        let begin = Instant::now();
        let stream = Stream::new(&[Arrivals::Poisson(rate)], Limit::Count(tasks), &mix, 1);
        let figures = sim::simulate_stream(&pool, world, stream, &Observe::default());
        let elapsed = begin.elapsed().as_secs_f64();
        println!("  {name:<36} {:>5.1} million", figures.arrived as f64 / elapsed / 1e6);
    }
}

/// The compared figures.
#[derive(Debug, Clone, Copy)]
struct Seen {
    throughput: f64,
    /// Milliseconds.
    wait_mean: f64,
    wait_p99: f64,
    total_mean: f64,
    total_p99: f64,
    refused: f64,
    peak_threads: f64,
}

impl Seen {
    fn simulated(figures: &Figures) -> Seen {
        let ms = |nanos: f64| nanos / MS as f64;
        Seen {
            throughput: figures.throughput(),
            wait_mean: ms(figures.waits.mean()),
            wait_p99: ms(figures.waits.percentile(0.99) as f64),
            total_mean: ms(figures.totals.mean()),
            total_p99: ms(figures.totals.percentile(0.99) as f64),
            refused: figures.lost_share() * 100.0,
            peak_threads: figures.levels.peak_threads as f64,
        }
    }

    /// Prints a row of the table.
    fn print(&self, name: &str, kind: &str) {
        println!(
            "| {name} | {kind} | {:.1} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} % | {} |",
            self.throughput,
            self.wait_mean,
            self.wait_p99,
            self.total_mean,
            self.total_p99,
            self.refused,
            self.peak_threads,
        );
    }

    /// The median of each figure.
    fn median(rounds: impl Iterator<Item = Seen>) -> Seen {
        let rounds: Vec<Seen> = rounds.collect();
        let of = |of: fn(&Seen) -> f64| {
            let mut values: Vec<f64> = rounds.iter().map(of).collect();
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        Seen {
            throughput: of(|seen| seen.throughput),
            wait_mean: of(|seen| seen.wait_mean),
            wait_p99: of(|seen| seen.wait_p99),
            total_mean: of(|seen| seen.total_mean),
            total_p99: of(|seen| seen.total_p99),
            refused: of(|seen| seen.refused),
            peak_threads: of(|seen| seen.peak_threads),
        }
    }
}

/// The largest differences: of the mean and the p99 of the total time in percent, of the rejected
/// tasks in percentage points.
#[derive(Debug, Default)]
struct Largest {
    mean: f64,
    p99: f64,
    refused: f64,
}

impl Largest {
    fn print(&self, what: &str) {
        println!(
            "\n{what}, the largest differences are: mean of the total time {:.1} %, p99 {:.1} %, refused {:.2} percentage \
             points.",
            self.mean, self.p99, self.refused
        );
    }

    /// Prints the difference between `real` and `simulated`.
    fn compare(&mut self, simulated: &Seen, real: &Seen) {
        let off = |real: f64, simulated: f64| (real / simulated - 1.0) * 100.0;
        let mean = off(real.total_mean, simulated.total_mean);
        let p99 = off(real.total_p99, simulated.total_p99);
        let refused = real.refused - simulated.refused;
        println!("| | difference | | | | {mean:+.1} % | {p99:+.1} % | {refused:+.2} | |");
        self.mean = self.mean.max(mean.abs());
        self.p99 = self.p99.max(p99.abs());
        self.refused = self.refused.max(refused.abs());
    }
}

fn agreement(rounds: usize, length: Nanos) {
    println!("\nThe same tasks, simulated and real (times in ms):\n");
    println!(
        "| workload | | per second | wait mean | wait p99 | total mean | total p99 | refused | peak threads |"
    );
    println!("|---|---|---:|---:|---:|---:|---:|---:|---:|");
    let work = real::Work::calibrated();
    let (mut as_planned, mut as_seen) = (Largest::default(), Largest::default());
    for workload in workloads() {
        let mix = Mix::new(vec![Kind { weight: 1.0, length: workload.length, cpu: workload.cpu }]);
        let arrivals = std::slice::from_ref(&workload.arrivals);
        let tasks: Vec<Task> = Stream::new(arrivals, Limit::Until(length), &mix, 1).collect();
        let world = World { cores: cores(), one_caller: true };
        let simulate = |tasks: &[Task]| {
            let figures =
                sim::simulate(&workload.pool, world, tasks.iter().copied(), &Observe::default(), &mut ());
            Seen::simulated(&figures)
        };
        let rounds: Vec<real::Ran> = (0..rounds).map(|_| real::run(&workload.pool, &tasks, work)).collect();
        let simulated = simulate(&tasks);
        let real = Seen::median(rounds.iter().map(|round| round.seen));
        simulated.print(workload.name, "simulated");
        real.print("", "real");
        as_planned.compare(&simulated, &real);
        let simulated = Seen::median(rounds.iter().map(|round| simulate(&round.tasks)));
        let real = Seen::median(rounds.iter().map(|round| round.seen_by_pool));
        simulated.print("", "simulated, with the real lengths");
        real.print("", "real, from then on");
        as_seen.compare(&simulated, &real);
    }
    as_planned.print("With the lengths that tasks should have");
    as_seen.print("With the lengths that they had on this machine");
}
