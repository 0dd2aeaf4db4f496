//! The read-only commands.

use std::fmt::Write;

use millpond_cluster::{Every, PeriodicInfo, QueueStats, Severity, TaskFilter, TaskId, TaskPage, WorkerRow};
use serde_json::{Value, json};

use super::target::Target;
use super::{TasksArgs, failed, no, print_json, show};
use crate::error::{Error, Outcome};
use crate::picture::{Align, Table, wrapped};
use crate::term::{Colour, Screen};
use crate::{term, units};

/// The workers of the queues to show.
pub(super) fn worker_rows(target: &Target) -> Result<Vec<WorkerRow>, Error> {
    let mut rows = target.admin.workers().map_err(failed)?;
    rows.retain(|row| target.queue.as_ref().is_none_or(|queue| *queue == row.queue));
    Ok(rows)
}

pub(super) fn status(target: &Target) -> Result<Outcome, Error> {
    let schema = target.admin.schema_version().map_err(failed)?;
    let (queues, workers) = (target.queues()?, worker_rows(target)?);
    let attention = show::attention(&queues, &workers);
    if target.json {
        print_json(&json!({
            "on": target.address,
            "schema": schema,
            "queues": queues.iter().map(show::queue_json).collect::<Vec<_>>(),
            "workers": workers,
            "attention": attention,
        }))?;
        return Ok(Outcome::Yes);
    }
    let screen = term::stdout();
    term::print(&status_text(target, schema, &queues, &workers, &attention, &screen))?;
    Ok(Outcome::Yes)
}

fn status_text(
    target: &Target,
    schema: u32,
    queues: &[QueueStats],
    workers: &[WorkerRow],
    attention: &[String],
    screen: &Screen,
) -> String {
    let alive = || workers.iter().filter(|row| show::is_alive(row));
    let (count, threads) = (alive().count() as u64, alive().map(|row| row.threads).sum());
    let mut text = format!(
        "{} (schema {schema}): {}, {}, {}\n",
        screen.paint(Colour::Bold, &target.address),
        show::counted(queues.len() as u64, "queue"),
        show::counted(count, "worker"),
        show::counted(threads, "thread"),
    );
    if queues.is_empty() {
        text.push_str("\nNothing was submitted yet.\n");
        return text;
    }
    let _ = write!(text, "\n{}", show::queue_table(queues, None, screen));
    if !attention.is_empty() {
        let _ = writeln!(text, "\n{}", screen.paint(Colour::Yellow, "Needs attention"));
        attention.iter().for_each(|line| text.push_str(&wrapped(line, screen.width, "  ")));
    }
    text
}

pub(super) fn queues(target: &Target) -> Result<Outcome, Error> {
    let mut all = Vec::new();
    for stats in target.queues()? {
        let periodics = target.cluster.queue(&stats.queue).admin().periodics().map_err(failed)?;
        all.push((stats, periodics));
    }
    if target.json {
        let queues: Vec<Value> = all.iter().map(|(stats, periodics)| queue_json(stats, periodics)).collect();
        print_json(&json!({ "queues": queues }))?;
        return Ok(Outcome::Yes);
    }
    let screen = term::stdout();
    let texts: Vec<String> =
        all.iter().map(|(stats, periodics)| queue_text(stats, periodics, &screen)).collect();
    term::print(if texts.is_empty() { "Nothing was submitted yet.\n" } else { "" })?;
    term::print(&texts.join("\n"))?;
    Ok(Outcome::Yes)
}

fn queue_json(stats: &QueueStats, periodics: &[PeriodicInfo]) -> Value {
    let mut value = show::queue_json(stats);
    value["periodic"] = periodics.iter().map(periodic_json).collect();
    value
}

fn periodic_json(periodic: &PeriodicInfo) -> Value {
    let (kind, period) = period(periodic.every);
    json!({
        "name": periodic.name,
        "task": periodic.task,
        "kind": kind,
        "period_ms": period.as_millis() as u64,
        "next": periodic.next,
        "last": periodic.last,
    })
}

fn period(every: Every) -> (&'static str, std::time::Duration) {
    match every {
        Every::Rate(period) => ("rate", period),
        Every::Delay(pause) => ("delay", pause),
    }
}

fn queue_text(stats: &QueueStats, periodics: &[PeriodicInfo], screen: &Screen) -> String {
    let name = screen.paint(Colour::Bold, show::one_line(&stats.queue));
    let mut rows = vec![
        ("now", now_text(stats)),
        ("kept", kept_text(stats)),
        ("limits", limits_text(stats)),
        ("so far", so_far_text(stats)),
    ];
    rows.extend(periodics.iter().map(|periodic| ("periodic", periodic_text(periodic))));
    let rows = rows.iter().map(|(label, value)| show::labelled(label, value, screen));
    format!("{name} ({})\n{}", show::mode_name(stats.mode), rows.collect::<String>())
}

/// Counts with their names: `1 ready, 2 delayed`.
fn counts<const N: usize>(counts: [(u64, &str); N]) -> String {
    counts.map(|(count, name)| format!("{} {name}", units::show_count(count))).join(", ")
}

fn now_text(stats: &QueueStats) -> String {
    let oldest = stats.oldest_ready.map(|age| format!("; oldest ready {}", show::span(age)));
    let now = [(stats.ready, "ready"), (stats.delayed, "delayed"), (stats.running, "running")];
    counts(now) + oldest.as_deref().unwrap_or_default()
}

fn kept_text(stats: &QueueStats) -> String {
    counts([(stats.succeeded, "succeeded"), (stats.dead, "dead"), (stats.cancelled, "cancelled")])
}

fn limits_text(stats: &QueueStats) -> String {
    let capacity = stats.capacity.map(|capacity| show::counted(capacity, "waiting task"));
    format!(
        "capacity: {}; records kept: {} of {}, {} of {}",
        capacity.as_deref().unwrap_or("no limit"),
        units::show_count(stats.succeeded + stats.dead + stats.cancelled),
        units::show_count(stats.retention.records),
        show::size(stats.finished_bytes),
        show::size(stats.retention.bytes)
    )
}

fn so_far_text(stats: &QueueStats) -> String {
    counts([
        (stats.submitted, "accepted"),
        (stats.started, "started"),
        (stats.failed, "failed attempts"),
        (stats.crashed, "lost workers"),
        (stats.given_back, "given back"),
        (stats.fence_refused, "late reports refused"),
        (stats.purged, "purged"),
    ])
}

fn periodic_text(periodic: &PeriodicInfo) -> String {
    let next = show::relative(periodic.next, show::now());
    let (kind, period) = period(periodic.every);
    let when = match kind {
        "rate" => format!("every {}", show::span(period)),
        _ => format!("{} after each run", show::span(period)),
    };
    show::one_line(&format!("{} runs {} {when}; next {next}", periodic.name, periodic.task))
}

pub(super) fn tasks(target: &Target, args: &TasksArgs) -> Result<Outcome, Error> {
    let filter = TaskFilter {
        queue: target.queue.clone(),
        state: args.state,
        name: args.name.clone(),
        older_than: args.older,
        after: args.after,
        limit: 0,
    };
    let page = collect(target, filter, args.limit)?;
    if target.json {
        print_json(&json!(page))?;
        return Ok(Outcome::Yes);
    }
    let screen = term::stdout();
    if page.tasks.is_empty() {
        term::print("No such task.\n")?;
        return Ok(Outcome::Yes);
    }
    term::print(&task_table(&page, &screen))?;
    if let Some(next) = page.next {
        term::print(&format!("\nThere are more: add --after {next}, or a higher --limit.\n"))?;
    }
    Ok(Outcome::Yes)
}

/// Up to `limit` tasks, page by page.
pub(super) fn collect(target: &Target, mut filter: TaskFilter, limit: u64) -> Result<TaskPage, Error> {
    let mut all = TaskPage { tasks: Vec::new(), next: Some(filter.after) };
    while let Some(after) = all.next {
        let missing = limit.saturating_sub(all.tasks.len() as u64);
        if missing == 0 {
            break;
        }
        filter.after = after;
        filter.limit = missing.min(500) as usize;
        let page = target.admin.tasks(&filter).map_err(failed)?;
        all.tasks.extend(page.tasks);
        all.next = page.next;
    }
    Ok(all)
}

fn task_table(page: &TaskPage, screen: &Screen) -> String {
    let now = show::now();
    let several = page.tasks.iter().any(|task| task.queue != page.tasks[0].queue);
    // The id is the last column: columns of text may be cut, and a cut id cannot be pasted.
    let id = format!("{:<36}", "task");
    let mut headers = vec![(id.as_str(), Align::Right), ("state", Align::Left), ("name", Align::Left)];
    headers.extend([("attempt", Align::Right), ("age", Align::Right)]);
    headers.extend(several.then_some(("queue", Align::Left)));
    let mut table = Table::new(headers);
    for task in &page.tasks {
        let mut row = vec![task.id.to_string(), show::state(task.state, screen), show::one_line(&task.name)];
        row.extend([task.attempt.to_string(), show::span(show::between(task.created, now))]);
        row.extend(several.then(|| show::one_line(&task.queue)));
        table.row(row);
    }
    table.draw_within("", screen.width)
}

pub(super) fn task(target: &Target, id: TaskId) -> Result<Outcome, Error> {
    let Some(details) = target.admin.task(id).map_err(failed)? else {
        return Ok(no(format_args!("there is no task {id}, or its record is no longer kept")));
    };
    if target.json {
        print_json(&json!(details))?;
        return Ok(Outcome::Yes);
    }
    term::print(&super::details::text(&details, &term::stdout()))?;
    Ok(Outcome::Yes)
}

pub(super) fn workers(target: &Target) -> Result<Outcome, Error> {
    let rows = worker_rows(target)?;
    if target.json {
        print_json(&json!({ "workers": rows }))?;
        return Ok(Outcome::Yes);
    }
    if rows.is_empty() {
        term::print("No worker was seen in the last hour.\n")?;
        return Ok(Outcome::Yes);
    }
    term::print(&worker_table(&rows, &term::stdout()))?;
    Ok(Outcome::Yes)
}

fn worker_table(rows: &[WorkerRow], screen: &Screen) -> String {
    let now = show::now();
    let mut headers = vec![("worker", Align::Left), ("queue", Align::Left), ("state", Align::Left)];
    headers.extend(["threads", "held", "finished", "up", "seen"].map(|name| (name, Align::Right)));
    let mut table = Table::new(headers);
    for row in rows {
        let state = match row.draining {
            _ if !show::is_alive(row) => screen.paint(Colour::Red, "silent"),
            true => screen.paint(Colour::Yellow, "draining"),
            false => screen.paint(Colour::Green, "alive"),
        };
        let mut cells =
            vec![show::one_line(row.worker.as_str()), show::one_line(&row.queue), state.to_string()];
        cells.extend([row.threads, row.held, row.finished].map(units::show_count));
        cells.extend([row.started, row.seen].map(|at| show::span(show::between(at, now))));
        table.row(cells);
    }
    table.draw_within("", screen.width)
}

pub(super) fn doctor(target: &Target, strict: bool) -> Result<Outcome, Error> {
    let findings = target.admin.doctor().map_err(failed)?;
    let is_problem =
        |severity: Severity| severity == Severity::Error || strict && severity == Severity::Warning;
    let problems = findings.iter().filter(|finding| is_problem(finding.severity)).count() as u64;
    if target.json {
        print_json(&json!({ "healthy": problems == 0, "findings": findings }))?;
    } else {
        let screen = term::stdout();
        let mut text = String::new();
        for finding in &findings {
            let (label, colour) = match finding.severity {
                Severity::Ok => ("ok", Colour::Green),
                Severity::Warning => ("warning", Colour::Yellow),
                Severity::Error => ("error", Colour::Red),
            };
            let what = format!("{}: {}", finding.check, show::one_line(&finding.detail));
            let lines = wrapped(&what, screen.width.max(40), "         ");
            let _ = write!(text, "{:<7}  {}", screen.paint(colour, label), lines.trim_start());
        }
        let verdict = match problems {
            0 => "No problem found.".to_owned(),
            _ => format!("{} found.", show::counted(problems, "problem")),
        };
        term::print(&format!("{text}\n{verdict}\n"))?;
    }
    Ok(if problems == 0 { Outcome::Yes } else { Outcome::No })
}
