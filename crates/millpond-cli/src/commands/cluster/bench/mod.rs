//! `bench`: measures an engine on the user's own machine and disk.
//!
//! `scratch` creates the bench's queue and removes it; `measure` has the measurements. Success,
//! errors and signals all end with [`Scratch::remove`].

mod measure;
mod scratch;

use std::fmt::Write;

use serde_json::{Value, json};

use self::measure::{Figures, Load, Meter, Results};
use self::scratch::{QUEUE, Scratch, Signals};
use super::target::{self, Target};
use super::{Common, complain, print_json, show};
use crate::error::{Error, Outcome};
use crate::picture::{Align, Table, wrapped};
use crate::term::{self, Colour, Screen};
use crate::units;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Tasks in each measurement
    #[arg(long, value_name = "N", default_value = "50k", value_parser = tasks)]
    tasks: u64,
    /// Tasks that are submitted and not yet finished, each by a thread of its own
    #[arg(long, value_name = "N", default_value = "256", value_parser = in_flight)]
    in_flight: u64,
    /// Bytes of arguments of each task
    #[arg(long, value_name = "N", default_value = "128", value_parser = bytes)]
    bytes: u64,
    /// Only remove the queue that a killed bench has left
    #[arg(long)]
    clean: bool,
}

fn tasks(text: &str) -> Result<u64, String> {
    within(text, 1, 100_000_000)
}

fn in_flight(text: &str) -> Result<u64, String> {
    within(text, 1, 4096)
}

fn bytes(text: &str) -> Result<u64, String> {
    // The arguments are a JSON string, whose quotes count as two bytes.
    within(text, 2, millpond_cluster::engine::PAYLOAD_LIMIT as u64)
}

fn within(text: &str, least: u64, most: u64) -> Result<u64, String> {
    match units::count(text)? {
        count if (least..=most).contains(&count) => Ok(count),
        _ => Err(format!("'{text}' is not between {least} and {most}")),
    }
}

pub(super) fn run(common: &Common, args: &Args) -> Result<Outcome, Error> {
    let Some(address) = common.on.as_deref() else {
        return Err(Error::new(
            "name what to measure with --on, such as --on sqlite:jobs.db or --on memory:",
        ));
    };
    if common.queue.is_some() {
        return Err(Error::new(format_args!("bench uses the queue '{QUEUE}' only; leave out --queue")));
    }
    if args.clean {
        return clean(&Target::open_to_write(common, "bench --clean")?);
    }
    let plan = announcement(address, args);
    if let Some(plan) = &plan {
        if !common.write {
            return Err(Error::new(format_args!("{plan}; add --write to allow it")));
        }
        if !common.json {
            complain(plan);
        }
    }
    let signals =
        Signals::listen().map_err(|error| Error::new(format_args!("no signal handler: {error}")))?;
    let scratch = Scratch::open(address)?;
    let load = Load { tasks: args.tasks, in_flight: args.in_flight, bytes: args.bytes };
    let measured = Meter::new(scratch.cluster(), load, &signals).measure();
    let removed = scratch.remove();
    if let Some(signal) = signals.received() {
        removed?;
        complain("interrupted; what the bench made is removed");
        return Ok(Outcome::Status(128 + signal));
    }
    if let (Err(_), Err(Error::Message(error))) = (&measured, &removed) {
        // The command ends with the first error, but both must be reported.
        complain(error);
    }
    let (results, growth) = (measured?, removed?);
    if common.json {
        print_json(&as_json(address, load, &results))?;
    } else {
        term::print(&as_text(address, load, &results, growth, &term::stdout()))?;
    }
    Ok(Outcome::Yes)
}

/// What the bench will change in a database. `None`: nothing, because the engine is in memory.
fn announcement(address: &str, args: &Args) -> Option<String> {
    let path = target::file(address)?;
    let size = show::size(args.tasks * (args.bytes + 500));
    Some(if path.exists() {
        format!(
            "bench writes {} tasks, about {size}, to the queue '{QUEUE}' of {address} and removes them; \
             it leaves other queues alone, but shares the disk with their workers",
            units::show_count(2 * args.tasks)
        )
    } else {
        format!("bench makes '{}', about {size}, and removes it", path.display())
    })
}

fn clean(target: &Target) -> Result<Outcome, Error> {
    let removed = scratch::clean(&target.cluster)?;
    if target.json {
        print_json(&json!({ "removed": removed }))?;
    } else {
        term::print(&format!("{} of a bench removed\n", show::counted(removed, "task")))?;
    }
    Ok(Outcome::Yes)
}

fn as_json(address: &str, load: Load, results: &Results) -> Value {
    let millis = |figures: &Figures, share| figures.time(share).as_secs_f64() * 1e3;
    let figures = |figures: &Figures| {
        json!({
            "tasks": figures.tasks,
            "tasks_per_second": figures.rate(),
            "tasks_per_call": figures.per_call,
            "p50_ms": millis(figures, 0.5),
            "p99_ms": millis(figures, 0.99),
            "worst_ms": millis(figures, 1.0),
        })
    };
    json!({
        "on": address,
        "tasks": load.tasks,
        "in_flight": load.in_flight,
        "argument_bytes": load.bytes,
        "many_in_flight": figures(&results.many),
        "one_in_flight": figures(&results.one),
        "submit": figures(&results.submit),
        "claim": figures(&results.claim),
        "bytes_per_waiting_task": results.bytes_per_task,
    })
}

fn as_text(address: &str, load: Load, results: &Results, growth: u64, screen: &Screen) -> String {
    let mut text = format!(
        "{}\n{} with {} of arguments\n\n",
        screen.paint(Colour::Bold, address),
        show::counted(load.tasks, "task"),
        show::counted(load.bytes, "byte")
    );
    let mut headers = vec![("", Align::Left)];
    headers.extend(["tasks/s", "p50", "p99", "worst"].map(|name| (name, Align::Right)));
    let mut table = Table::new(headers);
    let mut row = |name: String, figures: &Figures| {
        let mut cells = vec![name, units::show_count(figures.rate().round() as u64)];
        cells.extend([0.5, 0.99, 1.0].map(|share| units::show(figures.time(share))));
        table.row(cells);
    };
    row(format!("submit to result, {} in flight", units::show_count(load.in_flight)), &results.many);
    row("submit to result, 1 in flight".to_owned(), &results.one);
    row(format!("submit, {} a call", results.submit.per_call), &results.submit);
    let waiting = units::show_count(load.tasks);
    row(format!("claim, {} a call, {waiting} waiting", results.claim.per_call), &results.claim);
    text.push_str(&table.draw_within("", screen.width));
    if let Some(bytes) = results.bytes_per_task {
        let _ = writeln!(text, "\nA waiting task takes {bytes:.0} bytes of disk.");
    }
    if growth > 0 {
        let grown = format!(
            "The file is {} larger now. SQLite uses that space again; `compact` gives it back.",
            show::size(growth)
        );
        text.push_str(&wrapped(&grown, screen.width, ""));
    }
    text
}
