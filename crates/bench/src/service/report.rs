//! Tables in Markdown: medians over the rounds, with the range where it matters.

use std::fmt::Write as _;

use crate::load::{Figures, Load};
use crate::plan::Table;
use crate::run::{Cell, Measured};

/// A column: heading, figure of a run, decimals, whether the range is shown.
type Column = (&'static str, fn(&Figures, &Load) -> f64, usize, bool);

const COLUMNS: [Column; 11] = [
    ("goodput /s", |run, load| run.found / load.seconds, 0, true),
    ("200 %", |run, _| percent(run.found, run), 1, false),
    ("503 %", |run, _| percent(run.busy, run), 1, false),
    ("504 %", |run, _| percent(run.too_late, run), 1, false),
    ("p50 ms", |run, _| run.p50, 1, false),
    ("p99 ms", |run, _| run.p99, 1, true),
    ("503 p50 ms", |run, _| run.busy_p50, 1, false),
    ("CPU µs / request", |run, _| run.cpu_micros / run.requests, 0, true),
    ("CPU µs / 200", |run, _| run.cpu_micros / run.found, 0, false),
    ("switches / request", |run, _| run.switches / run.requests, 1, false),
    ("RSS MiB", |run, _| run.resident / f64::from(1 << 20), 0, false),
];

fn percent(part: f64, run: &Figures) -> f64 {
    100.0 * part / run.requests
}

pub(crate) fn table(table: &Table, measured: &Measured) -> String {
    let heading = ["load", "variant"].into_iter().chain(COLUMNS.map(|(name, ..)| name)).chain(["end ms"]);
    let mut lines: Vec<Vec<String>> = vec![heading.map(str::to_owned).collect()];
    let mut notes = String::new();
    for ((label, load), cells) in table.loads.iter().zip(&measured.cells) {
        for (variant, cell) in table.variants.iter().zip(cells) {
            let figures = COLUMNS.iter().map(|column| figure(column, cell, load));
            let names = [(*label).to_owned(), variant.label.to_owned()];
            let end =
                median(cell.shutdowns.clone()).map_or("-".into(), |(middle, ..)| format!("{middle:.0}"));
            lines.push(names.into_iter().chain(figures).chain([end]).collect());
            notes += &note(label, variant.label, cell);
        }
    }
    let seconds = table.loads.first().map_or(0.0, |(_, load)| load.seconds);
    let others = measured.others.map_or("unknown".into(), |others| format!("{:.0} %", 100.0 * others));
    format!(
        "## {}\n\n{}\n{} rounds of {seconds} s, medians (range); share of the machine that others used: {others}\n{notes}",
        table.title,
        markdown(&lines),
        table.rounds
    )
}

/// Unexpected results, and the server's last report.
fn note(load: &str, variant: &str, cell: &Cell) -> String {
    let sum = |of: fn(&Figures) -> f64| cell.runs.iter().map(of).sum::<f64>();
    let mut text = String::new();
    for (count, what) in [(sum(|run| run.unsent), "found no connection"), (sum(|run| run.failed), "failed")] {
        if count > 0.0 {
            _ = writeln!(text, "- {load}, {variant}: {count} requests {what}");
        }
    }
    if variant.starts_with("millpond") {
        _ = writeln!(text, "- {load}, {variant}: at its end: {}", cell.report);
    }
    text
}

fn figure(column: &Column, cell: &Cell, load: &Load) -> String {
    let (_, of, decimals, with_range) = column;
    let Some((middle, least, most)) = median(cell.runs.iter().map(|run| of(run, load)).collect()) else {
        return "-".into();
    };
    let one = |value: f64| format!("{value:.decimals$}");
    let (least, most) = (one(least), one(most));
    let range = if *with_range && least != most { format!(" ({least}-{most})") } else { String::new() };
    one(middle) + &range
}

/// The median, the minimum and the maximum. `None` without figures.
fn median(mut all: Vec<f64>) -> Option<(f64, f64, f64)> {
    all.retain(|figure| figure.is_finite());
    all.sort_by(f64::total_cmp);
    let middle = *all.get(all.len() / 2)?;
    Some((middle, all[0], all[all.len() - 1]))
}

/// A Markdown table with aligned columns.
fn markdown(lines: &[Vec<String>]) -> String {
    let widths: Vec<usize> = (0..lines[0].len())
        .map(|column| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0))
        .collect();
    let mut text = String::new();
    for (index, line) in lines.iter().enumerate() {
        let cells = line.iter().zip(&widths).enumerate().map(|(column, (cell, width))| match column {
            0 | 1 => format!(" {cell:<width$} |"),
            _ => format!(" {cell:>width$} |"),
        });
        _ = writeln!(text, "|{}", cells.collect::<String>());
        if index == 0 {
            let rules = widths.iter().enumerate().map(|(column, width)| match column {
                0 | 1 => format!("{}|", "-".repeat(width + 2)),
                _ => format!("{}:|", "-".repeat(width + 1)),
            });
            _ = writeln!(text, "|{}", rules.collect::<String>());
        }
    }
    text
}
