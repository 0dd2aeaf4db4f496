//! Measures millpond and its peers side by side: `cargo run --release -p bench --bin versus`.
//!
//! Results go to stdout, progress to stderr. Only ratios within one run are meaningful: absolute
//! figures depend on the machine.
//!
//! This process measures nothing itself. For each workload every contestant has its own process,
//! which is this program or a JVM and runs one case per line of input.

mod args;
mod contestants;
mod measure;
mod page;
mod progress;
mod table;
mod tally;
mod terminal;
mod versions;
mod workloads;

use std::fs;
use std::io::{BufRead, Write};
use std::path::Path;
use std::process::{Command, ExitCode};

use bench::{MIMALLOC, charts, machine, processor};

use args::{Args, Run};
use contestants::field::{Contestant, Field};
use contestants::{Home, run_here};
use measure::{Measured, Schedule};
use page::Setting;
use progress::Teller;
use workloads::{Case, Workload, growth};

fn main() -> ExitCode {
    let known: Vec<&Workload> = workloads::all().into_iter().chain(growth::all()).collect();
    match args::parse(std::env::args().skip(1), &known) {
        Ok(Args::Help) => print(args::USAGE),
        Ok(Args::List) => print(&list()),
        Ok(Args::Serve(steps)) => serve(steps),
        Ok(Args::Redraw(page)) => written(&page, redraw(&page)),
        Ok(Args::Run(options)) => run(&options),
        Err(problem) => {
            eprintln!("versus: {problem}");
            ExitCode::from(2)
        }
    }
}

fn print(text: &str) -> ExitCode {
    // A closed pipe is not an error.
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
    let field = Field::new(true);
    for contestant in field.contestants {
        text += &format!("  {}\n", contestant.name);
    }
    text + &format!("JDK: {}\n", field.jdk.unwrap_or_else(|why| why))
}

/// Runs the cases that it reads: a contestant's name and a case per line. Ends with its input.
fn serve(steps: u64) -> ExitCode {
    workloads::calibrated(steps);
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let case = line.split_once('\t').and_then(|(name, case)| Some((name, Case::parse(case)?)));
        let Some((name, case)) = case else { return ExitCode::from(2) };
        print(&format!("{}\n", workloads::to_line(&run_here(name, &case))));
    }
    ExitCode::SUCCESS
}

fn run(options: &Run) -> ExitCode {
    // Before any thread or process is started: all of them inherit it.
    if let Some(Err(problem)) = options.cores.map(processor::restrict_to) {
        eprintln!("versus: {problem}");
        return ExitCode::from(2);
    }
    // 1. Choose the workloads and the contestants.
    let plan = options.plan();
    let known = if options.growth { growth::all() } else { workloads::all().to_vec() };
    let chosen =
        |workload: &&Workload| options.only.is_empty() || options.only.iter().any(|key| key == workload.key);
    let work: Vec<(&Workload, Vec<Case>)> =
        known.into_iter().filter(chosen).map(|workload| (workload, (workload.cases)(&plan))).collect();
    let cases = work.iter().map(|(_, cases)| cases.len()).sum::<usize>();
    let Field { mut contestants, jdk } = match &options.against {
        Some(program) => Field::against(program),
        None => Field::new(options.quick),
    };
    if options.growth {
        contestants.retain(|one| growth::CONTESTANTS.contains(&one.name));
    }
    let setting = setting(jdk.unwrap_or_else(|why| why));
    print(&format!(
        "machine: {}\nRust: {}, with {}\nJDK: {}\n\n",
        setting.machine, setting.rust, setting.allocator, setting.jdk
    ));
    // 2. Measure one workload after the other.
    let mut schedule = Schedule::new(options.quick, cases);
    let mut teller = Teller::new(cases, options.rounds);
    let mut measured: Vec<Vec<Measured>> = Vec::new();
    for (workload, cases) in work {
        let mut these = Vec::new();
        for case in cases {
            teller.next(workload, &case, schedule.left());
            these.push(measure::measure(workload, case, &contestants, &schedule.budget(), &mut teller));
        }
        contestants.iter().for_each(Contestant::rest);
        teller.clear();
        if options.against.is_none() {
            print(&format!("{}\n", terminal::workload(&contestants, &these)));
        }
        measured.push(these);
    }
    // 3. Report.
    let all: Vec<&Measured> = measured.iter().flatten().collect();
    if options.against.is_some() {
        print(&terminal::against(&contestants, &measured));
    } else if measured.len() > 1 && !options.growth {
        print(&terminal::summary(&contestants, &all));
    }
    if let Some(out) = options.out() {
        let status = written(&out, write(&out, options.growth, &setting, &contestants, &measured));
        if status != ExitCode::SUCCESS {
            return status;
        }
    }
    // The tables show failures of peers. A failure of millpond also sets the exit status.
    let us = |row: &measure::Row| row.figures.is_err() && contestants[row.index].home == Home::Us;
    if all.iter().any(|one| one.rows.iter().any(us)) { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn setting(jdk: String) -> Setting {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    // The path of the page is not part of the command that the page shows.
    if let Some(out) = arguments.iter().position(|argument| argument == "--out") {
        arguments.drain(out..arguments.len().min(out + 2));
    }
    let separator = if arguments.is_empty() { "" } else { " -- " };
    let features = if MIMALLOC { " --features mimalloc" } else { "" };
    let command =
        format!("cargo run --release -p bench{features} --bin versus{separator}{}", arguments.join(" "));
    let allocator = if MIMALLOC { "mimalloc" } else { "the system's allocator" };
    let rustc = Command::new("rustc").arg("--version").output().ok();
    let rust =
        rustc.map_or("unknown".into(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    Setting { command, machine: machine::description(), date: machine::date(), rust, allocator, jdk }
}

/// Writes the results into the page `out`, and its charts. Returns the number of charts.
fn write(
    out: &Path,
    growth: bool,
    setting: &Setting,
    contestants: &[Contestant],
    measured: &[Vec<Measured>],
) -> std::io::Result<usize> {
    let name = out.file_stem().unwrap_or_default().to_string_lossy();
    let (mark, text) = if growth {
        ("growth", page::growth(setting, contestants, measured, &name))
    } else {
        ("versus", page::versus(setting, contestants, measured, &name))
    };
    // A page that does not exist yet starts empty.
    let before = if out.exists() { fs::read_to_string(out)? } else { "# Performance\n".into() };
    fs::write(out, page::between_marks(&before, mark, &text))?;
    redraw(out)
}

/// Draws the tables of a page into a directory beside it with the same name. Returns the number of
/// charts.
fn redraw(page: &Path) -> std::io::Result<usize> {
    let directory = page.with_extension("");
    let charts = charts::of_page(&fs::read_to_string(page)?);
    fs::create_dir_all(&directory)?;
    for (name, chart) in &charts {
        fs::write(directory.join(name), chart)?;
    }
    Ok(charts.len())
}

/// Reports what [`write()`] or [`redraw`] did.
fn written(page: &Path, charts: std::io::Result<usize>) -> ExitCode {
    match charts {
        Ok(charts) => {
            eprintln!("written: {} and {charts} charts beside it", page.display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("versus: {}: {error}", page.display());
            ExitCode::FAILURE
        }
    }
}
