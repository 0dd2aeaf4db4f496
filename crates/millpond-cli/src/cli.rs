//! The command line: the subcommands, and one-line messages for mistakes.

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};

#[cfg(feature = "cluster")]
use crate::commands::cluster;
use crate::commands::{lab, plan, run, shell};
use crate::error::{Error, Outcome};
use crate::term;

/// See what a thread pool does, size one, run commands through one.
///
/// Without a command it prints a short overview.
#[derive(Debug, Parser)]
#[command(name = "millpond", version, max_term_width = 80, disable_help_subcommand = true)]
#[command(
    after_help = "Exit status: 0 on success, 1 if the command ran with a negative result, 2 on\nerror; run has more."
)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    Lab(lab::Args),
    Plan(plan::Args),
    Run(run::Args),
    #[cfg(feature = "cluster")]
    Cluster(cluster::Args),
    Completions(shell::CompletionsArgs),
    Man(shell::ManArgs),
}

/// Parses `arguments` (the first is the program's name) and runs the command.
pub(crate) fn run(arguments: impl IntoIterator<Item = OsString>) -> Result<Outcome, Error> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let cli = match Cli::try_parse_from(&arguments) {
        Ok(cli) => cli,
        Err(error) => {
            return match explain(&arguments, &error) {
                Some(message) => Err(Error::new(message)),
                None => not_parsed(&error),
            };
        }
    };
    match cli.command {
        None => overview(),
        Some(Command::Lab(args)) => lab::run(args),
        Some(Command::Plan(args)) => plan::run(args),
        Some(Command::Run(args)) => run::run(args),
        #[cfg(feature = "cluster")]
        Some(Command::Cluster(args)) => cluster::run(args),
        Some(Command::Completions(args)) => shell::completions(&args, Cli::command()),
        Some(Command::Man(args)) => shell::man(&args, Cli::command()),
    }
}

/// A better message than that of the parser, if the command has one.
fn explain(arguments: &[OsString], error: &clap::Error) -> Option<String> {
    run::explain(arguments, error).or_else(|| plan::explain(arguments, error))
}

/// The output of `millpond` without arguments. The commands write no files.
const OVERVIEW: &str = "\
millpond: see what a thread pool does, size one, run commands through one.

  millpond lab strategies      three pools under the same load, side by side
  millpond lab --list          all built-in workloads
  millpond plan --arrivals 'poisson 50/s' --takes 20ms --target-p99 100ms
                               threads and queue for a load and a target
  ls *.png | millpond run -j 4 optipng {}
                               run a command for each argument
";

#[cfg(feature = "cluster")]
const CLUSTER_OVERVIEW: &str = "  millpond cluster --on sqlite:jobs.db status
                               queues, workers and dead letters of durable tasks
";
#[cfg(not(feature = "cluster"))]
const CLUSTER_OVERVIEW: &str = "";

const MORE: &str = "\n`millpond COMMAND --help` explains each command.\n";

fn overview() -> Result<Outcome, Error> {
    term::print(&[OVERVIEW, CLUSTER_OVERVIEW, MORE].concat())?;
    Ok(Outcome::Yes)
}

/// Parses without running anything, for the fuzzer. Returns whether the arguments are valid.
#[cfg(fuzzing)]
pub(crate) fn is_valid(arguments: &[OsString]) -> bool {
    match Cli::try_parse_from(arguments) {
        Ok(_) => true,
        Err(error) => {
            let message = explain(arguments, &error).unwrap_or_else(|| one_line(&error.render().to_string()));
            assert!(!message.contains('\n'), "{message:?}");
            false
        }
    }
}

/// Prints help and version, which the parser returns as errors.
fn not_parsed(error: &clap::Error) -> Result<Outcome, Error> {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            let text = error.render();
            let text = if term::stdout().colours { text.ansi().to_string() } else { text.to_string() };
            let lines = text.lines().map(str::trim_end);
            term::print(&lines.flat_map(|line| [line, "\n"]).collect::<String>())?;
            Ok(Outcome::Yes)
        }
        _ => Err(Error::new(one_line(&error.render().to_string()))),
    }
}

/// Shortens the parser's message (problem, tips, usage, reference to the help) to one line. Leaves
/// out the usage and the tip to pass a mistyped option as a value.
fn one_line(explanation: &str) -> String {
    let mut paragraphs = explanation.split("\n\n").map(|paragraph| {
        paragraph.split_whitespace().collect::<Vec<_>>().join(" ").trim_end_matches('.').to_owned()
    });
    let first = paragraphs.next().unwrap_or_default();
    let mut line = first.strip_prefix("error: ").unwrap_or(&first).to_owned();
    for paragraph in paragraphs {
        if let Some(tips) = paragraph.strip_prefix("tip: ") {
            for tip in tips.split(" tip: ").filter(|tip| !tip.starts_with("to pass ")) {
                line.push_str("; ");
                line.push_str(tip);
            }
        } else if paragraph.starts_with("For more information") {
            line.push_str("; try --help");
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_of_the_arguments_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_mistake_is_told_in_one_line_with_the_tip_and_without_the_usage() {
        let explanation = "error: unexpected argument '--sped' found\n\n  tip: a similar argument exists: '--speed'\n  \
                           tip: to pass '--sped' as a value, use '-- --sped'\n\nUsage: millpond lab [OPTIONS]\n\nFor more information, try '--help'.\n";
        assert_eq!(
            one_line(explanation),
            "unexpected argument '--sped' found; a similar argument exists: '--speed'; try --help"
        );
    }
}
