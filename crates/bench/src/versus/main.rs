//! Us and the peers, side by side in one run: `cargo run --release -p bench --bin versus`.
//!
//! Results go to stdout, progress to stderr. Only ratios within one run count: the figures are those of a machine.

mod args;
mod contestants;
mod machine;
mod measure;
mod report;
mod tally;
mod workloads;

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use args::{Args, Run};
use contestants::Contestant;
use measure::{Budget, Measured};
use workloads::{Case, Workload};

fn main() -> ExitCode {
    match args::parse(std::env::args().skip(1), &workloads::all()) {
        Ok(Args::Help) => print(args::USAGE),
        Ok(Args::List) => print(&list()),
        Ok(Args::Run(options)) => run(&options),
        Err(problem) => {
            eprintln!("versus: {problem}");
            ExitCode::from(2)
        }
    }
}

fn print(text: &str) -> ExitCode {
    // A closed pipe: whoever read has seen enough.
    _ = std::io::stdout().write_all(text.as_bytes());
    ExitCode::SUCCESS
}

fn list() -> String {
    let mut text = String::from("workloads:\n");
    for workload in workloads::all() {
        text += &format!("  {:<16} {}\n", workload.key, workload.title);
    }
    text += "contestants:\n";
    for contestant in contestants::all() {
        text += &format!("  {}\n", contestant.name());
    }
    text
}

fn run(options: &Run) -> ExitCode {
    let plan = options.plan();
    let chosen =
        |workload: &&Workload| options.only.is_empty() || options.only.iter().any(|key| key == workload.key);
    let work: Vec<(&Workload, Vec<Case>)> = workloads::all()
        .into_iter()
        .filter(chosen)
        .map(|workload| (workload, (workload.cases)(&plan)))
        .collect();
    let cases = work.iter().map(|(_, cases)| cases.len()).sum::<usize>();
    let budget = budget(options.quick, cases);
    let contestants = contestants::all();
    print(&format!("machine: {}\n\n", machine::description()));
    let mut measured: Vec<Measured> = Vec::new();
    for (workload, cases) in work {
        let first = measured.len();
        for case in cases {
            measured.push(one(workload, case, &contestants, &budget));
        }
        let these: Vec<&Measured> = measured[first..].iter().collect();
        print(&format!("{}\n", report::terminal(&contestants, &these)));
    }
    let failed = !report::failures(&contestants, &measured.iter().collect::<Vec<_>>()).is_empty();
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// A quick run is to end within three minutes, a whole one within fifteen; some of it is for what rounds take beyond
/// their time.
fn budget(quick: bool, cases: usize) -> Budget {
    let (seconds, least, most) = if quick { (90.0, 3, 5) } else { (600.0, 5, 15) };
    Budget { least, most, time: Duration::from_secs_f64(seconds / cases.max(1) as f64) }
}

fn one(
    workload: &'static Workload,
    case: Case,
    contestants: &[Box<dyn Contestant>],
    budget: &Budget,
) -> Measured {
    let label = format!("{}, {}", workload.key, case.label());
    let terminal = std::io::stderr().is_terminal();
    let mut last = 0;
    let measured = measure::measure(workload, case, contestants, budget, |round, name| {
        if terminal {
            eprint!("\r\x1b[K{label}: round {round}, {name}");
        } else if round != last {
            eprintln!("{label}: round {round}");
        }
        last = round;
    });
    if terminal {
        eprint!("\r\x1b[K");
    }
    measured
}
