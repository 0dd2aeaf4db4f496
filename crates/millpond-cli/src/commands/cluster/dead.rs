//! Dead letters: list, retry, purge.
//!
//! A retry is a new task; the dead letter keeps its outcome. The new id is derived from that of the
//! dead letter, so retrying the same dead letter again submits nothing.

use std::time::Duration;

use millpond_cluster::engine::Submitted;
use millpond_cluster::{State, TaskFilter, TaskId, TaskInfo};
use serde_json::json;

use super::target::Target;
use super::{Common, complain, failed, print_json, read, show};
use crate::error::{Error, Outcome};
use crate::picture::wrapped;
use crate::term::{Colour, Screen};
use crate::{term, units};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List dead letters with reason and error (the default)
    List(ListArgs),
    /// Submit dead letters again, each as a new task (needs --write)
    Retry(RetryArgs),
    /// Remove dead letters of a queue (needs --write)
    Purge(PurgeArgs),
}

#[derive(Debug, clap::Args)]
struct ListArgs {
    /// Only dead letters of this task type
    #[arg(long, value_name = "TYPE")]
    name: Option<String>,
    /// List at most this many
    #[arg(long, value_name = "N", default_value = "50", value_parser = super::limit)]
    limit: u64,
    /// Continue after this place, which an earlier list printed
    #[arg(long, value_name = "PLACE", default_value_t = 0, hide_default_value = true)]
    after: u64,
}

#[derive(Debug, clap::Args)]
struct RetryArgs {
    /// The ids of the dead letters
    #[arg(required_unless_present = "all", value_name = "ID")]
    ids: Vec<TaskId>,
    /// Retry every dead letter, or all of --queue and --name
    #[arg(long, conflicts_with = "ids")]
    all: bool,
    /// With --all: only dead letters of this task type
    #[arg(long, value_name = "TYPE", requires = "all")]
    name: Option<String>,
}

#[derive(Debug, clap::Args)]
struct PurgeArgs {
    /// Only those that ended at least this long ago, such as 7d; 0 removes all
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    older: Duration,
}

pub(super) fn run(common: &Common, args: &Args) -> Result<Outcome, Error> {
    match &args.command {
        None => list(&Target::open(common)?, &ListArgs { name: None, limit: 50, after: 0 }),
        Some(Command::List(args)) => list(&Target::open(common)?, args),
        Some(Command::Retry(args)) => retry(&Target::open_to_write(common, "dead retry")?, args),
        Some(Command::Purge(args)) => purge(&Target::open_to_write(common, "dead purge")?, args),
    }
}

fn filter(target: &Target, name: Option<&String>, after: u64) -> TaskFilter {
    TaskFilter {
        queue: target.queue.clone(),
        state: Some(State::Dead),
        name: name.cloned(),
        after,
        ..TaskFilter::default()
    }
}

fn list(target: &Target, args: &ListArgs) -> Result<Outcome, Error> {
    let page = read::collect(target, filter(target, args.name.as_ref(), args.after), args.limit)?;
    if target.json {
        print_json(&json!(page))?;
        return Ok(Outcome::Yes);
    }
    let screen = term::stdout();
    let text: String = page.tasks.iter().map(|task| letter(task, &screen)).collect();
    term::print(if text.is_empty() { "There are no dead letters.\n" } else { &text })?;
    if let Some(next) = page.next {
        term::print(&format!("\nThere are more: add --after {next}, or a higher --limit.\n"))?;
    }
    Ok(Outcome::Yes)
}

/// Id and reason in one line, the error below: the basis for the decision to retry.
fn letter(task: &TaskInfo, screen: &Screen) -> String {
    let ended = task.finished.map_or_else(String::new, |at| show::relative(at, show::now()));
    let reason = task.reason.map_or_else(String::new, |reason| format!("{reason}, "));
    let attempts = show::counted(u64::from(task.attempt), "attempt");
    let queue = show::one_line(&task.queue);
    let mut text = format!("{}  {}\n", screen.paint(Colour::Bold, task.id), show::one_line(&task.name));
    let what = format!("{reason}{attempts}, {ended}, queue {queue}");
    text.push_str(&wrapped(&what, screen.width.max(40), "  "));
    if let Some(error) = &task.error {
        text.push_str(&wrapped(&show::one_line(error), screen.width.max(40), "  "));
    }
    text
}

/// The result of one retry.
enum Retried {
    As(TaskId),
    Before(TaskId),
    NotDead,
}

/// Retries in batches, each in one transaction.
fn retry(target: &Target, args: &RetryArgs) -> Result<Outcome, Error> {
    let mut told = Told { rows: Vec::new(), done: 0, before: 0, missing: 0 };
    let mut filter = TaskFilter { limit: BATCH, ..filter(target, args.name.as_ref(), 0) };
    let mut next = args.all.then_some(0);
    while let Some(after) = next {
        filter.after = after;
        let page = target.admin.tasks(&filter).map_err(failed)?;
        let ids: Vec<TaskId> = page.tasks.iter().map(|task| task.id).collect();
        told.batch(target, &ids, false)?;
        next = page.next;
    }
    args.ids.chunks(BATCH).try_for_each(|ids| told.batch(target, ids, true))?;
    if target.json {
        print_json(&json!({ "retried": told.done, "tasks": told.rows }))?;
    } else if args.all {
        let before = told.before;
        let skipped = if before == 0 { String::new() } else { format!("; {before} had been retried before") };
        term::print(&format!("{} retried{skipped}\n", show::counted(told.done, "dead letter")))?;
    }
    Ok(if told.missing > 0 && !args.all { Outcome::No } else { Outcome::Yes })
}

/// Maximum batch of an engine.
const BATCH: usize = millpond_cluster::engine::BATCH_LIMIT;

/// The final summary of the retries.
struct Told {
    rows: Vec<serde_json::Value>,
    done: u64,
    before: u64,
    missing: u64,
}

impl Told {
    fn batch(&mut self, target: &Target, ids: &[TaskId], one_by_one: bool) -> Result<(), Error> {
        for (id, answer) in ids.iter().zip(retry_batch(target, ids)?) {
            match answer {
                Retried::As(_) => self.done += 1,
                Retried::Before(_) => self.before += 1,
                Retried::NotDead => self.missing += 1,
            }
            if target.json {
                self.rows.push(answer_json(*id, &answer));
            } else if one_by_one {
                tell(*id, &answer)?;
            }
        }
        Ok(())
    }
}

fn retry_batch(target: &Target, ids: &[TaskId]) -> Result<Vec<Retried>, Error> {
    let new = |id: &TaskId| TaskId::from_name(&format!("millpond:retry:{id}"));
    let letters: Vec<(TaskId, TaskId)> = ids.iter().map(|id| (*id, new(id))).collect();
    let answers = target.cluster.engine().retry_dead(&letters).map_err(failed)?;
    let retried = |(answer, (id, new)): (Option<Submitted>, &(TaskId, TaskId))| match answer {
        None => Ok(Retried::NotDead),
        Some(Submitted::Closed) => Err(Error::new(format_args!(
            "dead letter {id} cannot be retried: its queue is closed; `resume` opens it"
        ))),
        Some(Submitted::New) => Ok(Retried::As(*new)),
        Some(_) => Ok(Retried::Before(*new)),
    };
    answers.into_iter().zip(&letters).map(retried).collect()
}

fn answer_json(id: TaskId, answer: &Retried) -> serde_json::Value {
    let (new, what) = match answer {
        Retried::As(new) => (Some(new), "retried"),
        Retried::Before(new) => (Some(new), "retried_before"),
        Retried::NotDead => (None, "not_dead"),
    };
    json!({ "id": id, "answer": what, "new_id": new })
}

fn tell(id: TaskId, answer: &Retried) -> Result<(), Error> {
    match answer {
        Retried::As(new) => term::print(&format!("{id}\n  is retried as {new}\n"))?,
        Retried::Before(new) => term::print(&format!("{id}\n  was retried before, as {new}\n"))?,
        Retried::NotDead => complain(format_args!("there is no dead letter {id}")),
    }
    Ok(())
}

fn purge(target: &Target, args: &PurgeArgs) -> Result<Outcome, Error> {
    let purged = target.one_queue()?.dead().purge(args.older).map_err(failed)? as u64;
    if target.json {
        print_json(&json!({ "purged": purged }))?;
    } else {
        term::print(&format!("{} removed\n", show::counted(purged, "dead letter")))?;
    }
    Ok(Outcome::Yes)
}
