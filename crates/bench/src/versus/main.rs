//! Us and the peers, side by side in one run: `cargo run --release -p bench --bin versus`.
//!
//! Results go to stdout, progress to stderr. Only ratios within one run count: the figures are those of a machine.

mod args;
mod contestants;
mod machine;
mod measure;
mod report;
mod svg;
mod tally;
mod versions;
mod workloads;

use std::fs;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

use args::{Args, Run};
use contestants::{Contestant, Field};
use measure::{Budget, Measured};
use report::Setting;
use workloads::{Case, Workload, growth};

fn main() -> ExitCode {
    let known: Vec<&Workload> = workloads::all().into_iter().chain(growth::all()).collect();
    match args::parse(std::env::args().skip(1), &known) {
        Ok(Args::Help) => print(args::USAGE),
        Ok(Args::List) => print(&list()),
        Ok(Args::Memory(name, size)) => print(&workloads::to_line(&contestants::memory(&name, size))),
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
    text += "curves, with --growth:\n";
    for workload in growth::all() {
        text += &format!("  {:<16} {}\n", workload.key, workload.title);
    }
    text += "contestants:\n";
    let field = contestants::field(true);
    for contestant in field.contestants {
        text += &format!("  {}\n", contestant.name());
    }
    text + &format!("JDK: {}\n", field.jdk.unwrap_or_else(|why| why))
}

fn run(options: &Run) -> ExitCode {
    let plan = options.plan();
    let known = if options.growth { growth::all() } else { workloads::all().to_vec() };
    let chosen =
        |workload: &&Workload| options.only.is_empty() || options.only.iter().any(|key| key == workload.key);
    let work: Vec<(&Workload, Vec<Case>)> =
        known.into_iter().filter(chosen).map(|workload| (workload, (workload.cases)(&plan))).collect();
    let cases = work.iter().map(|(_, cases)| cases.len()).sum::<usize>();
    let budget = budget(options.quick, cases);
    let Field { mut contestants, jdk } = contestants::field(options.quick);
    if options.growth {
        contestants.retain(|one| growth::CONTESTANTS.contains(&one.name()));
    }
    let title = if options.growth { "Growth" } else { "Performance" };
    let setting = setting(title, jdk.unwrap_or_else(|why| why));
    print(&format!("machine: {}\nJDK: {}\n\n", setting.machine, setting.jdk));
    let mut measured: Vec<Vec<Measured>> = Vec::new();
    for (workload, cases) in work {
        let these: Vec<Measured> =
            cases.into_iter().map(|case| one(workload, case, &contestants, &budget)).collect();
        print(&format!("{}\n", report::terminal(&contestants, &these.iter().collect::<Vec<_>>())));
        measured.push(these);
    }
    if let Some(out) = options.out()
        && let Err(error) = write(&out, &setting, &contestants, &measured)
    {
        eprintln!("versus: {}: {error}", out.display());
        return ExitCode::FAILURE;
    }
    let all: Vec<&Measured> = measured.iter().flatten().collect();
    if report::failures(&contestants, &all).is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn setting(title: &'static str, jdk: String) -> Setting {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    // Where somebody put the page is nobody else's concern.
    if let Some(out) = arguments.iter().position(|argument| argument == "--out") {
        arguments.drain(out..arguments.len().min(out + 2));
    }
    let separator = if arguments.is_empty() { "" } else { " -- " };
    let command = format!("cargo run --release -p bench --bin versus{separator}{}", arguments.join(" "));
    let rustc = Command::new("rustc").arg("--version").output().ok();
    let rust =
        rustc.map_or("unknown".into(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    Setting { title, command, machine: machine::description(), rust, jdk }
}

/// Writes the page to `out` and its charts to a directory beside it, with the name of the page.
fn write(
    out: &Path,
    setting: &Setting,
    contestants: &[Box<dyn Contestant>],
    measured: &[Vec<Measured>],
) -> std::io::Result<()> {
    let directory = out.with_extension("");
    let name = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let page = report::page(setting, contestants, measured, &name);
    fs::create_dir_all(&directory)?;
    for (name, chart) in page.charts {
        fs::write(directory.join(name), chart)?;
    }
    fs::write(out, page.text)
}

/// A quick run is to end within three minutes, a whole one within fifteen; some of it is for what rounds take beyond
/// their time.
fn budget(quick: bool, cases: usize) -> Budget {
    let (seconds, least, most) = if quick { (90.0, 3, 5) } else { (420.0, 5, 15) };
    Budget { least, most, time: Duration::from_secs_f64(seconds / cases.max(1) as f64) }
}

fn one(
    workload: &'static Workload,
    case: Case,
    contestants: &[Box<dyn Contestant>],
    budget: &Budget,
) -> Measured {
    let label = format!("{}, {}", workload.key, workload.heading(&case));
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
