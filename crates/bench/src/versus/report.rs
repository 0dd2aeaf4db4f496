//! Results as text: for the terminal, and as a page of documentation.

use std::fmt::Write as _;

use crate::contestants::{Contestant, Home, Order};
use crate::measure::{Figure, Measured};

/// One column of a table: a metric of a case.
struct Column<'a> {
    measured: &'a Measured,
    metric: usize,
}

impl Column<'_> {
    fn heading(&self) -> String {
        let metric = &self.measured.workload.metrics[self.metric];
        let name = if metric.name.is_empty() { String::new() } else { format!(" {}", metric.name) };
        format!("{}{name}", self.measured.case.label())
    }

    fn figure(&self, contestant: usize) -> Option<Figure> {
        self.measured.rows.iter().find(|row| row.index == contestant)?.figure(self.metric)
    }

    fn cell(&self, contestant: usize) -> String {
        let Some(row) = self.measured.rows.iter().find(|row| row.index == contestant) else {
            return "-".into();
        };
        match row.figure(self.metric) {
            Some(figure) => format!("{} ±{:.0}%", number(figure.median), 100.0 * figure.spread()),
            None => "failed".into(),
        }
    }

    /// The best of those that count, and how many times our figure that is.
    fn ratio(&self, all: &[Box<dyn Contestant>], counts: impl Fn(&dyn Contestant) -> bool) -> String {
        let ours = all.iter().position(|one| one.home() == Home::Us).and_then(|us| self.figure(us));
        let peers = all.iter().enumerate().filter(|(_, one)| one.home() != Home::Us && counts(&***one));
        let best = peers
            .filter_map(|(index, one)| Some((self.figure(index)?.median, one.name())))
            .min_by(|one, other| one.0.total_cmp(&other.0));
        match (ours, best) {
            (Some(ours), Some((best, name))) if ours.median > 0.0 => {
                format!("{:.2} ({name})", best / ours.median)
            }
            _ => "-".into(),
        }
    }
}

/// Three digits that matter.
pub(crate) fn number(value: f64) -> String {
    match value {
        value if value < 10.0 => format!("{value:.2}"),
        value if value < 100.0 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    }
}

/// The cells of a table for the cases of one workload, the heading first.
fn table(all: &[Box<dyn Contestant>], measured: &[&Measured]) -> Vec<Vec<String>> {
    let metrics = measured.first().map_or(0, |first| first.workload.metrics.len());
    let columns: Vec<Column> =
        measured.iter().flat_map(|measured| (0..metrics).map(|metric| Column { measured, metric })).collect();
    let unit = measured.first().map_or("", |first| first.workload.metrics[0].unit);
    let line = |head: &str, cell: &dyn Fn(&Column) -> String| {
        std::iter::once(head.to_owned()).chain(columns.iter().map(cell)).collect::<Vec<_>>()
    };
    let mut lines = vec![line(unit, &|column: &Column| column.heading())];
    for (index, contestant) in all.iter().enumerate() {
        if measured.iter().any(|measured| measured.rows.iter().any(|row| row.index == index)) {
            lines.push(line(contestant.name(), &|column| column.cell(index)));
        }
    }
    lines.push(line("best peer / millpond", &|column| column.ratio(all, |_| true)));
    lines.push(line("best in-order peer / millpond", &|column| {
        column.ratio(all, |one| one.order() == Order::Fifo)
    }));
    lines
}

fn aligned(lines: &[Vec<String>]) -> String {
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..lines[0].len()).map(width).collect();
    let mut text = String::new();
    for line in lines {
        for (column, cell) in line.iter().enumerate() {
            let width = widths[column];
            _ = if column == 0 { write!(text, "{cell:<width$}") } else { write!(text, "  {cell:>width$}") };
        }
        text.push('\n');
    }
    text
}

/// The cases of one workload for the terminal.
pub(crate) fn terminal(all: &[Box<dyn Contestant>], measured: &[&Measured]) -> String {
    let Some(first) = measured.first() else { return String::new() };
    let mut text = format!("{}\n{}\n\n", first.workload.title, first.workload.about);
    text.push_str(&aligned(&table(all, measured)));
    _ = writeln!(text, "\n{}", circumstances(measured));
    for failure in failures(all, measured) {
        _ = writeln!(text, "failed: {failure}");
    }
    text
}

/// How often, and how busy the machine was.
fn circumstances(measured: &[&Measured]) -> String {
    let rounds = measured.iter().map(|measured| measured.rounds);
    let others = measured
        .iter()
        .filter_map(|measured| measured.others)
        .fold(None, |most, others| Some(others.max(most.unwrap_or(0.0))));
    let others = others.map_or("unknown".into(), |others| format!("up to {:.0} %", 100.0 * others));
    let (least, most) = (rounds.clone().min().unwrap_or(0), rounds.max().unwrap_or(0));
    let rounds = if least == most { least.to_string() } else { format!("{least} to {most}") };
    format!("{rounds} rounds; share of the machine that others used: {others}")
}

/// What went wrong, by contestant and case.
pub(crate) fn failures(all: &[Box<dyn Contestant>], measured: &[&Measured]) -> Vec<String> {
    let mut failures = Vec::new();
    for measured in measured {
        for row in &measured.rows {
            if let Err(what) = &row.figures {
                let (key, label) = (measured.case.key, measured.case.label());
                failures.push(format!("{}, {key}, {label}: {what}", all[row.index].name()));
            }
        }
    }
    failures
}
