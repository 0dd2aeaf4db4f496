//! The commands that modify the database. All need `--write`.

use millpond_cluster::{Admin, CancelAnswer, Cluster, QueueStats, TaskId, WorkerId};
use serde_json::json;

use super::target::{self, Target, require_write};
use super::{Common, complain, failed, no, print_json, show};
use crate::error::{Error, Outcome};
use crate::term;

/// The answer is no if a task has already ended or is unknown.
pub(super) fn cancel(target: &Target, ids: &[TaskId]) -> Result<Outcome, Error> {
    let mut answers = Vec::new();
    for id in ids {
        let answer = target.admin.cancel(*id).map_err(failed)?;
        if !target.json {
            tell_cancel(*id, answer)?;
        }
        answers.push((*id, answer));
    }
    if target.json {
        let tasks: Vec<_> =
            answers.iter().map(|(id, answer)| json!({ "id": id, "answer": answer })).collect();
        print_json(&json!({ "tasks": tasks }))?;
    }
    let is_done = |answer| matches!(answer, CancelAnswer::Cancelled | CancelAnswer::Requested);
    Ok(if answers.iter().all(|(_, answer)| is_done(*answer)) { Outcome::Yes } else { Outcome::No })
}

fn tell_cancel(id: TaskId, answer: CancelAnswer) -> Result<(), Error> {
    match answer {
        CancelAnswer::Cancelled => term::print(&format!("{id} is cancelled\n"))?,
        CancelAnswer::Requested => {
            term::print(&format!("{id} is running; its worker was asked to stop it\n"))?
        }
        CancelAnswer::AlreadyDone => complain(format_args!("task {id} has ended already")),
        CancelAnswer::Unknown => {
            complain(format_args!("there is no task {id}, or its record is no longer kept"))
        }
    }
    Ok(())
}

pub(super) fn pause(target: &Target) -> Result<Outcome, Error> {
    set_mode(target, Cluster::pause, "is paused: it accepts tasks and starts none")
}

pub(super) fn resume(target: &Target) -> Result<Outcome, Error> {
    set_mode(target, Cluster::resume, "is open: it accepts and starts tasks")
}

fn set_mode(
    target: &Target,
    change: fn(&Cluster) -> Result<QueueStats, millpond_cluster::EngineError>,
    what: &str,
) -> Result<Outcome, Error> {
    let stats = change(&target.one_queue()?).map_err(failed)?;
    if target.json {
        print_json(&show::queue_json(&stats))?;
    } else {
        let held =
            if stats.running == 0 { String::new() } else { format!("; {} still running", stats.running) };
        term::print(&format!("queue {} {what}{held}\n", show::one_line(&stats.queue)))?;
    }
    Ok(Outcome::Yes)
}

pub(super) fn drain(target: &Target, worker: &str) -> Result<Outcome, Error> {
    let found = target.admin.drain_worker(&WorkerId::from_name(worker)).map_err(failed)?;
    if target.json {
        print_json(&json!({ "worker": worker, "found": found }))?;
    }
    if !found {
        return Ok(no(format_args!("there is no worker '{worker}'; `workers` lists them")));
    }
    if !target.json {
        term::print(&format!("worker {worker} was asked to drain; `workers` shows when it has ended\n"))?;
    }
    Ok(Outcome::Yes)
}

/// Creates the database. An existing one is not changed.
pub(super) fn init(common: &Common) -> Result<Outcome, Error> {
    require_write(common, "init")?;
    let address = target::address(common)?;
    let is_new = target::file(address).is_some_and(|path| !target::has_content(path));
    let version = Cluster::open(address).map_err(failed)?.admin().schema_version().map_err(failed)?;
    if common.json {
        print_json(&json!({ "on": address, "schema": version, "created": is_new }))?;
    } else {
        let what = if is_new { "is made" } else { "was there already" };
        term::print(&format!("{address} {what}, with schema {version}\n"))?;
    }
    Ok(Outcome::Yes)
}

pub(super) fn migrate(common: &Common) -> Result<Outcome, Error> {
    require_write(common, "migrate")?;
    let address = target::existing(common)?;
    let version = Admin::migrate(address).map_err(failed)?;
    if common.json {
        print_json(&json!({ "on": address, "schema": version }))?;
    } else {
        term::print(&format!("{address} has schema {version}\n"))?;
    }
    Ok(Outcome::Yes)
}

pub(super) fn compact(target: &Target) -> Result<Outcome, Error> {
    let freed = target.admin.compact().map_err(failed)?;
    if target.json {
        print_json(&json!({ "freed_bytes": freed }))?;
    } else {
        term::print(&format!("{} given back to the file system\n", show::size(freed)))?;
    }
    Ok(Outcome::Yes)
}
