//! Results as text: for the terminal, and as a page of documentation.

use std::fmt::Write as _;

use crate::contestants::{Contestant, Home, Order};
use crate::measure::{Figure, Measured};
use crate::svg::{self, Bar, Curve};
use crate::versions;
use crate::workloads::{Case, Metric};

/// One column of a table: a metric of a case.
struct Column<'a> {
    measured: &'a Measured,
    metric: usize,
}

impl Column<'_> {
    fn heading(&self) -> String {
        let metric = &self.measured.workload.metrics[self.metric];
        let name = if metric.name.is_empty() { String::new() } else { format!(" {}", metric.name) };
        format!("{}{name}", self.measured.workload.heading(&self.measured.case))
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
        let (us, peers): (Vec<_>, Vec<_>) =
            all.iter().enumerate().partition(|(_, one)| one.home() == Home::Us);
        let ours = us.into_iter().find_map(|(index, _)| self.figure(index));
        let peers = peers.into_iter().filter(|(_, one)| counts(&***one));
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

fn columns<'a>(measured: &[&'a Measured]) -> Vec<Column<'a>> {
    let metrics = measured.first().map_or(0, |first| first.workload.metrics.len());
    measured.iter().flat_map(|measured| (0..metrics).map(move |metric| Column { measured, metric })).collect()
}

/// The cells of a table for the cases of one workload, the heading first.
fn table(all: &[Box<dyn Contestant>], measured: &[&Measured]) -> Vec<Vec<String>> {
    let columns = columns(measured);
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
    if all.iter().any(|one| one.home() == Home::Jdk) {
        lines.push(line("best of the JDK / millpond", &|column| {
            column.ratio(all, |one| one.home() == Home::Jdk)
        }));
    }
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

/// Under which circumstances it was measured.
pub(crate) struct Setting {
    /// Of the page.
    pub(crate) title: &'static str,
    pub(crate) command: String,
    pub(crate) machine: String,
    pub(crate) rust: String,
    /// Which JDK, or why there is none.
    pub(crate) jdk: String,
}

/// The page of documentation, and the charts it shows: names and contents.
pub(crate) struct Page {
    pub(crate) text: String,
    pub(crate) charts: Vec<(String, String)>,
}

/// All results as a page. `charts` is the directory of the charts, as seen from the page.
pub(crate) fn page(
    setting: &Setting,
    all: &[Box<dyn Contestant>],
    measured: &[Vec<Measured>],
    charts: &str,
) -> Page {
    let mut page = Page { text: introduction(setting), charts: Vec::new() };
    for measured in measured {
        let measured: Vec<&Measured> = measured.iter().collect();
        let Some(first) = measured.first() else { continue };
        let workload = first.workload;
        _ = write!(page.text, "\n## {}\n\n{}\n\n", workload.title, workload.about);
        page.text.push_str(&markdown(&table(all, &measured)));
        _ = writeln!(page.text, "\n{}.", circumstances(&measured));
        for failure in failures(all, &measured) {
            _ = writeln!(page.text, "Failed: {failure}.");
        }
        let name = format!("{}.svg", workload.key);
        _ = writeln!(page.text, "\n![{}]({charts}/{name})", workload.title);
        page.charts.push((name, chart(all, &measured)));
    }
    page
}

fn introduction(setting: &Setting) -> String {
    let Setting { title, command, machine, rust, jdk } = setting;
    let versions: Vec<String> =
        versions::peers().into_iter().map(|(name, version)| format!("{name} {version}")).collect();
    format!(
        "# {title}\n\n\
         Written by `{command}`, which anyone can repeat. The contestants take turns in every round; a figure is the \
         median of the rounds, after ± is half of their range. Every task is counted: a figure whose tasks did not \
         all run exactly once would be shown as failed. Less is better in all tables. In the last lines, a ratio \
         above 1 means that millpond is ahead. Only ratios within one run count.\n\n\
         - machine: {machine}\n\
         - Rust: {rust}\n\
         - JDK: {jdk}\n\
         - peers: {}\n\
         - left out: qubit-thread-pool, because it needs Rust 1.94\n\n\
         *n* is the number of workers. Pools without handles of their own are joined through a channel of the \
         standard library. rayon, executors and ForkJoinPool do not keep the order of submission; the others are \
         the in-order peers. The JDK runs in a process of its own, and does each case again and again before it is \
         measured.\n",
        versions.join(", ")
    )
}

fn markdown(lines: &[Vec<String>]) -> String {
    let mut text = String::new();
    for (index, line) in lines.iter().enumerate() {
        _ = writeln!(text, "| {} |", line.join(" | "));
        if index == 0 {
            _ = writeln!(text, "|---|{}", "---:|".repeat(line.len() - 1));
        }
    }
    text
}

/// A chart of all columns of a table.
fn chart(all: &[Box<dyn Contestant>], measured: &[&Measured]) -> String {
    let workload = measured[0].workload;
    if let Some(axis) = workload.axis {
        return curves(all, measured, axis);
    }
    let mut groups = Vec::new();
    for column in columns(measured) {
        let bars = all.iter().enumerate().filter_map(|(index, one)| {
            let Figure { median, least, most } = column.figure(index)?;
            Some(Bar { name: one.name().to_owned(), ours: one.home() == Home::Us, median, least, most })
        });
        groups.push((column.heading(), bars.collect()));
    }
    svg::bars(workload.title, workload.metrics[0].unit, &groups)
}

/// One line for each contestant and metric.
fn curves(all: &[Box<dyn Contestant>], measured: &[&Measured], axis: fn(&Case) -> u64) -> String {
    let workload = measured[0].workload;
    let mut curves = Vec::new();
    for (index, one) in all.iter().enumerate() {
        for (metric, Metric { name, .. }) in workload.metrics.iter().enumerate() {
            let point = |measured: &&Measured| {
                let figure = Column { measured, metric }.figure(index)?;
                Some((axis(&measured.case) as f64, figure.median))
            };
            let points: Vec<(f64, f64)> = measured.iter().filter_map(point).collect();
            if !points.is_empty() {
                let name = format!("{} {name}", one.name()).trim().to_owned();
                curves.push(Curve { name, ours: one.home() == Home::Us, points });
            }
        }
    }
    svg::curves(workload.title, workload.metrics[0].unit, &curves)
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
                let (key, label) = (measured.workload.key, measured.workload.heading(&measured.case));
                failures.push(format!("{}, {key}, {label}: {what}", all[row.index].name()));
            }
        }
    }
    failures
}
