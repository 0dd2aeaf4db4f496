//! `millpond lab`: plays a workload on real pools and shows what happened.
//!
//! `workload` describes what to play, `play` plays it, `record` has the results, and `show`
//! presents them. `catalogue` has the built-in workloads.

mod catalogue;
mod expect;
mod play;
mod producer_consumer;
mod progress;
mod record;
mod show;
mod workload;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, Command};

use self::catalogue::{BUILT_IN, Piece};
use self::play::{Glance, Pace};
use self::progress::Progress;
use self::record::Record;
use self::show::{Played, compare, figure, page, text, trace};
use self::workload::{Origin, Scene, Workload};
use crate::error::{Error, Outcome};
use crate::picture::wrapped;
use crate::term::{Colour, Screen};
use crate::{files, term, units};

/// Play workloads on real pools and show what happened.
///
/// Shows how the pool admitted each task, a timeline with a lane for each thread and the depth of
/// the queue, and the state of the pool after each step. `millpond lab --list` describes the
/// built-in workloads; `millpond lab --show NAME` prints one as a file to start from.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit status: 0 on success, 1 if an expectation of the workload failed, 2 on error.")]
pub(crate) struct Args {
    /// Built-in workloads, or files of your own
    #[arg(value_name = "NAME|FILE.toml", value_parser = WorkloadName, hide_possible_values = true)]
    workloads: Vec<String>,
    /// List the built-in workloads
    #[arg(long)]
    list: bool,
    /// Print a built-in workload as a file
    #[arg(long, value_name = "NAME", conflicts_with_all = ["list", "workloads"])]
    #[arg(value_parser = WorkloadName, hide_possible_values = true)]
    show: Option<String>,
    /// Speed-up factor. Reported times are scaled back to real time
    #[arg(long, default_value = "1", value_name = "FACTOR", value_parser = speed)]
    speed: f64,
    /// Write the timelines to this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Write a report to this file: timelines, charts and figures in one page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write a trace to this file, for ui.perfetto.dev or chrome://tracing
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Print all records as JSON, and nothing else
    #[arg(long)]
    json: bool,
}

/// Any text. A type of its own, so that shells can complete the names.
#[derive(Debug, Clone)]
struct WorkloadName;

impl TypedValueParser for WorkloadName {
    type Value = String;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(BUILT_IN.iter().map(|built_in| PossibleValue::new(built_in.name))))
    }
}

fn speed(text: &str) -> Result<f64, String> {
    match units::amount(text)? {
        factor if (0.001..=1e6).contains(&factor) => Ok(factor),
        _ => Err("give a factor from 0.001 to 1000000".to_owned()),
    }
}

pub(crate) fn run(args: Args) -> Result<Outcome, Error> {
    let screen = term::stdout();
    if let Some(name) = &args.show {
        return show_source(name);
    }
    if args.list || args.workloads.is_empty() {
        return list(&screen);
    }
    // Check everything before playing, so that a mistake is reported at once.
    let pieces = args.workloads.iter().map(|name| find(name)).collect::<Result<Vec<Piece>, Error>>()?;
    check_files(&args)?;
    let mut all_well = true;
    let mut played: Vec<Played> = Vec::new();
    for piece in pieces {
        let tell = |part: &str| if args.json { Ok(()) } else { term::print(part) };
        if !played.is_empty() {
            tell("\n")?;
        }
        tell(&text::heading(piece.name(), piece.about(), args.speed, &screen))?;
        tell(&text::advice(piece.verdict(), &screen))?;
        let workload = play_piece(&piece, Pace(args.speed), |number, record, compared| {
            if compared { Ok(()) } else { tell(&text::scene(number, record, &screen)) }
        })?;
        if workload.compare {
            tell(&compare::draw(&workload, &screen))?;
        }
        all_well &= workload.scenes.iter().all(|record| record.unmet.is_empty());
        played.push(workload);
    }
    write_files(&args, &played)?;
    Ok(if all_well { Outcome::Yes } else { Outcome::No })
}

/// Refuses a file that cannot be written, or that two options name.
fn check_files(args: &Args) -> Result<(), Error> {
    let named: Vec<(&str, &PathBuf)> =
        [("--svg", &args.svg), ("--html", &args.html), ("--trace", &args.trace)]
            .into_iter()
            .filter_map(|(option, path)| Some((option, path.as_ref()?)))
            .collect();
    for (at, (option, path)) in named.iter().enumerate() {
        files::check_place(path)?;
        if let Some((other, _)) = named[..at].iter().find(|(_, earlier)| earlier == path) {
            return Err(Error::new(format_args!(
                "{other} and {option} both name {}; give each a file of its own",
                path.display()
            )));
        }
    }
    Ok(())
}

/// Plays all scenes. Passes each record to `after_each`, with the number of the scene if there are
/// several.
fn play_piece(
    piece: &Piece,
    pace: Pace,
    after_each: impl Fn(Option<usize>, &Record, bool) -> Result<(), Error>,
) -> Result<Played, Error> {
    let mut played = Played {
        name: piece.name().to_owned(),
        about: piece.about().to_owned(),
        compare: false,
        verdict: None,
        scenes: Vec::new(),
    };
    match piece {
        Piece::Program { name, about, play } => {
            let progress = Progress::begin(name, (1, 1), about);
            let record = play(pace)?;
            drop(progress);
            after_each(None, &record, false)?;
            played.scenes.push(record);
        }
        Piece::Workload(workload) => {
            played.compare = workload.compare;
            played.verdict.clone_from(&workload.verdict);
            let of = workload.scenes.len();
            for (number, scene) in (1..).zip(&workload.scenes) {
                let progress = Progress::begin(&workload.name, (number, of), &scene.title);
                let record = play_scene(scene, pace, &progress)?;
                drop(progress);
                after_each((of > 1).then_some(number), &record, workload.compare)?;
                played.scenes.push(record);
            }
        }
    }
    Ok(played)
}

fn play_scene(scene: &Scene, pace: Pace, progress: &Progress) -> Result<Record, Error> {
    let onlooker = progress.onlooker();
    play::play(scene, pace, onlooker.as_ref().map(|tell| tell as &(dyn Fn(Glance) + Sync)))
}

fn find(name: &str) -> Result<Piece, Error> {
    if let Some(built_in) = catalogue::find(name) {
        return built_in.piece();
    }
    let path = Path::new(name);
    if path.extension().is_some_and(|extension| extension == "toml") {
        let short = path.file_stem().map_or(name.into(), |stem| stem.to_string_lossy());
        let workload: Workload = workload::read(&short, Origin::File(name), &files::read(path)?)?;
        return Ok(Piece::Workload(workload));
    }
    Err(unknown(name))
}

fn unknown(name: &str) -> Error {
    Error::new(format_args!(
        "no workload is called '{name}'; see millpond lab --list, or give a file that ends in .toml"
    ))
}

fn show_source(name: &str) -> Result<Outcome, Error> {
    let built_in = catalogue::find(name).ok_or_else(|| unknown(name))?;
    let Some(source) = built_in.source() else {
        return Err(Error::new(format_args!("{name} is a program and not a workload file; show another")));
    };
    term::print(source)?;
    Ok(Outcome::Yes)
}

fn list(screen: &Screen) -> Result<Outcome, Error> {
    let longest = BUILT_IN.iter().map(|built_in| built_in.name.len()).max().unwrap_or(0);
    let mut out = String::new();
    for built_in in BUILT_IN {
        let piece = built_in.piece()?;
        let indent = " ".repeat(longest + 2);
        let about = wrapped(piece.about(), screen.width.clamp(40, 120), &indent);
        let name = screen.paint(Colour::Bold, built_in.name);
        let pad = " ".repeat(longest - built_in.name.len() + 2);
        out.push_str(&format!("{name}{pad}{}", about.trim_start()));
    }
    out.push_str("\nPlay one with: millpond lab growth --speed 10\n");
    term::print(&out)?;
    Ok(Outcome::Yes)
}

fn write_files(args: &Args, played: &[Played]) -> Result<(), Error> {
    let mut written = Vec::new();
    if let Some(path) = &args.svg {
        let records: Vec<&Record> = played.iter().flat_map(|workload| &workload.scenes).collect();
        files::write(path, &figure::scenes(&records, crate::figure::WIDE))?;
        written.push(path.clone());
    }
    if let Some(path) = &args.html {
        files::write(path, &page::write(played))?;
        written.push(path.clone());
    }
    if let Some(path) = &args.trace {
        files::write(path, &trace::write(played))?;
        written.push(path.clone());
    }
    if args.json {
        let json = serde_json::json!({ "millpond": env!("CARGO_PKG_VERSION"), "workloads": played });
        return term::print(&format!("{json:#}\n"));
    }
    if !written.is_empty() {
        let names: Vec<String> = written.iter().map(|path| path.display().to_string()).collect();
        term::print(&format!("\nWritten: {}\n", names.join(", ")))?;
    }
    Ok(())
}

/// Reads a workload file, for the fuzzer.
#[cfg(fuzzing)]
pub(crate) fn read_workload(file: &str, text: &str) -> Result<(), Error> {
    workload::read("fuzz", Origin::File(file), text).map(drop)
}
