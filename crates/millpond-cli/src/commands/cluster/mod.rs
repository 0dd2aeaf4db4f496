//! `millpond cluster`: shows durable tasks and, with `--write`, changes them.
//!
//! `target` opens the database that `--on` names. `read` has the read-only commands, `change` those
//! that modify, `dead` the dead letters, `watch` the repeating view, `bench` the measurements, and
//! `show` the shared texts.
//!
//! Only `bench` starts a worker, on its own queue. No command runs a task of another queue or
//! expires its lease.

mod bench;
mod change;
mod dead;
mod details;
mod read;
mod show;
mod target;
mod watch;

use std::io::Write;
use std::time::Duration;

use millpond_cluster::{State, TaskId};
use serde_json::Value;

use self::target::Target;
use crate::error::{Error, Outcome};
use crate::{term, units};

/// Inspect and manage durable tasks.
///
/// Reads a database of the crate millpond-cluster while its workers run. Without a command it shows
/// the status. Commands that change something need --write.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Option<Command>,
}

/// Options of every command.
#[derive(Debug, clap::Args)]
struct Common {
    /// The database, such as sqlite:jobs.db
    #[arg(long, value_name = "URL", global = true)]
    on: Option<String>,
    /// The queue [default: all]. Required to change one of several queues
    #[arg(long, value_name = "NAME", global = true)]
    queue: Option<String>,
    /// Allow the command to change something
    #[arg(long, global = true)]
    write: bool,
    /// Print JSON, and nothing else
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Show queues, workers and what needs attention (the default)
    Status,
    /// Show limits, counters and periodic tasks of each queue
    Queues,
    /// List tasks in submission order
    Tasks(TasksArgs),
    /// Show one task: its times, arguments, result and earlier attempts
    Task {
        /// The id of the task
        id: TaskId,
    },
    /// List the workers that were seen in the last hour
    Workers,
    /// List, retry or purge dead letters
    Dead(dead::Args),
    /// Cancel tasks; a running one stops when it checks for it (needs --write)
    Cancel {
        /// The ids of the tasks
        #[arg(required = true, value_name = "ID")]
        ids: Vec<TaskId>,
    },
    /// Start no more tasks of a queue, but accept them (needs --write)
    Pause,
    /// Accept and start tasks of a queue again (needs --write)
    Resume,
    /// Ask a worker to finish its tasks and take no more (needs --write)
    Drain {
        /// The name of the worker, as `workers` lists it
        worker: String,
    },
    /// Show the queues and their rates repeatedly
    Watch(watch::Args),
    /// Check the database; the exit status is 1 if something is wrong
    Doctor {
        /// Warnings count as problems
        #[arg(long)]
        strict: bool,
    },
    /// Measure the engine with tasks of its own, which are removed (needs --write)
    ///
    /// Measures the throughput with many tasks in flight, the round trip with one, submits and
    /// claims in batches, and the disk that a waiting task takes. It works in a queue of its own,
    /// millpond-bench, and removes it at the end, also after Ctrl-C or an error. A missing
    /// file is created and removed. --on memory: measures the memory engine, without --write.
    Bench(bench::Args),
    /// Create the database (needs --write)
    Init,
    /// Upgrade the schema to the version of this program (needs --write)
    Migrate,
    /// Return the space of deleted records to the system (needs --write)
    Compact,
}

#[derive(Debug, clap::Args)]
struct TasksArgs {
    /// Only tasks in this state: ready, delayed, running, succeeded, dead or cancelled
    #[arg(long)]
    state: Option<State>,
    /// Only tasks of this task type
    #[arg(long, value_name = "TYPE")]
    name: Option<String>,
    /// Only tasks that were accepted at least this long ago, such as 10m
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    older: Option<Duration>,
    /// List at most this many
    #[arg(long, value_name = "N", default_value = "50", value_parser = limit)]
    limit: u64,
    /// Continue after this place, which an earlier list printed
    #[arg(long, value_name = "PLACE", default_value_t = 0, hide_default_value = true)]
    after: u64,
}

const AFTER_HELP: &str = "\
Examples:
  millpond cluster --on sqlite:jobs.db status
  millpond cluster --on sqlite:jobs.db tasks --state running --older 10m
  millpond cluster --on sqlite:jobs.db --write dead retry --all

Exit status: 0 on success, 1 if the answer is no (no such task, doctor found a
problem), 2 on error.";

fn limit(text: &str) -> Result<u64, String> {
    match units::count(text)? {
        0 => Err("use at least 1".to_owned()),
        limit => Ok(limit),
    }
}

pub(crate) fn run(args: Args) -> Result<Outcome, Error> {
    let Args { common, command } = args;
    match command.unwrap_or(Command::Status) {
        Command::Status => read::status(&Target::open(&common)?),
        Command::Queues => read::queues(&Target::open(&common)?),
        Command::Tasks(args) => read::tasks(&Target::open(&common)?, &args),
        Command::Task { id } => read::task(&Target::open(&common)?, id),
        Command::Workers => read::workers(&Target::open(&common)?),
        Command::Dead(args) => dead::run(&common, &args),
        Command::Cancel { ids } => change::cancel(&Target::open_to_write(&common, "cancel")?, &ids),
        Command::Pause => change::pause(&Target::open_to_write(&common, "pause")?),
        Command::Resume => change::resume(&Target::open_to_write(&common, "resume")?),
        Command::Drain { worker } => change::drain(&Target::open_to_write(&common, "drain")?, &worker),
        Command::Watch(args) => watch::run(&Target::open(&common)?, &args),
        Command::Doctor { strict } => read::doctor(&Target::open(&common)?, strict),
        Command::Bench(args) => bench::run(&common, &args),
        Command::Init => change::init(&common),
        Command::Migrate => change::migrate(&common),
        Command::Compact => change::compact(&Target::open_to_write(&common, "compact")?),
    }
}

/// An engine error ends the command. Its text names the cause.
fn failed(error: impl std::fmt::Display) -> Error {
    Error::new(error)
}

fn print_json(value: &Value) -> Result<(), Error> {
    term::print(&format!("{value:#}\n"))
}

/// The command ran, and the answer is no. Prints the reason to stderr, so that stdout remains empty
/// or valid JSON.
fn no(reason: impl std::fmt::Display) -> Outcome {
    complain(reason);
    Outcome::No
}

/// Prints one line to stderr. Ignores errors: the exit status is still correct.
fn complain(reason: impl std::fmt::Display) {
    let _ = writeln!(std::io::stderr(), "millpond: {reason}");
}
