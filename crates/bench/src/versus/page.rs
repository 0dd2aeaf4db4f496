//! Writes results into a documentation page, between marks, with charts. Other text of the page
//! stays.

use std::fmt::Write as _;

use crate::contestants::Home;
use crate::contestants::field::Contestant;
use crate::measure::{Figure, Measured};
use crate::svg::{self, Bar, Curve, Group};
use crate::table::{self, Column, Peers, number};
use crate::versions;

/// The circumstances of a measurement.
pub(crate) struct Setting {
    pub(crate) command: String,
    pub(crate) machine: String,
    pub(crate) date: String,
    pub(crate) rust: String,
    pub(crate) allocator: &'static str,
    /// The version of the JDK, or why it is missing.
    pub(crate) jdk: String,
}

/// The text between the marks, and the names and contents of its charts.
pub(crate) struct Page {
    pub(crate) text: String,
    pub(crate) charts: Vec<(String, String)>,
}

/// Puts `text` between the marks of that name. Appends the marks to a page without them.
pub(crate) fn between_marks(page: &str, mark: &str, text: &str) -> String {
    let (begin, end) = (format!("<!-- {mark}: begin -->\n"), format!("<!-- {mark}: end -->"));
    let places = page.find(&begin).and_then(|from| Some((from + begin.len(), page.find(&end)?)));
    match places {
        Some((from, to)) if from <= to => format!("{}\n{text}\n{}", &page[..from], &page[to..]),
        _ => format!("{}\n\n{begin}\n{text}\n{end}\n", page.trim_end()),
    }
}

/// The table of all workloads. `charts` is the directory of the charts, as seen from the page.
pub(crate) fn versus(
    setting: &Setting,
    all: &[Contestant],
    measured: &[Vec<Measured>],
    charts: &str,
) -> Page {
    let mut page = Page { text: introduction(setting), charts: Vec::new() };
    _ = write!(page.text, "\n### Summary\n\n{}", summary(all, measured));
    for measured in measured {
        section(&mut page, all, measured, charts);
    }
    page
}

/// The curves.
pub(crate) fn growth(
    setting: &Setting,
    all: &[Contestant],
    measured: &[Vec<Measured>],
    charts: &str,
) -> Page {
    let mut page = Page { text: introduction(setting), charts: Vec::new() };
    for measured in measured {
        section(&mut page, all, measured, charts);
    }
    page
}

fn introduction(setting: &Setting) -> String {
    let Setting { command, machine, date, rust, allocator, jdk } = setting;
    let peers: Vec<String> =
        versions::peers().into_iter().map(|(name, version)| format!("{name} {version}")).collect();
    format!(
        "- command: `{command}`\n\
         - date: {date}\n\
         - machine: {machine}\n\
         - Rust: {rust}, with {allocator}\n\
         - JDK: {jdk}\n\
         - millpond {}; peers: {}\n",
        env!("CARGO_PKG_VERSION"),
        peers.join(", ")
    )
}

/// One workload: description, table, chart.
fn section(page: &mut Page, all: &[Contestant], measured: &[Measured], charts: &str) {
    let Some(first) = measured.first() else { return };
    let workload = first.workload;
    let name = format!("{}.svg", workload.key);
    _ = write!(page.text, "\n### {}\n\n{}\n\n", workload.title, workload.about);
    _ = writeln!(page.text, "![{}: the table below as a chart]({charts}/{name})\n", workload.title);
    if workload.axis.is_some() {
        let tables =
            (0..workload.metrics.len()).map(|metric| markdown(&table::points(all, measured, metric)));
        page.text.push_str(&tables.collect::<Vec<_>>().join("\n"));
    } else {
        page.text.push_str(&markdown(&lines(all, measured)));
    }
    _ = writeln!(page.text, "\n{}.", table::circumstances(measured));
    for failure in table::failures(all, measured) {
        _ = writeln!(page.text, "\nFailed: {failure}.");
    }
    page.charts.push((name, chart(all, measured)));
}

fn lines(all: &[Contestant], measured: &[Measured]) -> Vec<Vec<String>> {
    let columns = table::columns(measured);
    let line = |head: String, cell: &dyn Fn(&Column) -> String| {
        std::iter::once(head).chain(columns.iter().map(cell)).collect::<Vec<_>>()
    };
    let units = measured.first().map_or(String::new(), |first| first.workload.units());
    let mut lines = vec![line(units, &|column| column.heading())];
    for index in table::rows(all, &columns) {
        let ours = all[index].home == Home::Us;
        let strong = |text: String| if ours { format!("**{text}**") } else { text };
        lines.push(line(strong(all[index].name.to_owned()), &|column| strong(column.cell(index))));
    }
    for peers in table::comparisons(all, &columns) {
        lines.push(line(format!("*{} / millpond*", peers.name()), &|column| comparison(all, column, peers)));
    }
    for (name, ratios) in table::further_ratios(all, &columns) {
        let cell = |ratio: Option<f64>| ratio.map_or("-".into(), |ratio| format!("*{ratio:.2}*"));
        let name = format!("*{}*", name.replace("/ us", "/ millpond"));
        lines.push(std::iter::once(name).chain(ratios.into_iter().map(cell)).collect());
    }
    lines
}

/// The ratio, and the peer that it refers to.
fn comparison(all: &[Contestant], column: &Column, peers: Peers) -> String {
    let Some(best) = column.best(all, peers) else { return "-".into() };
    let ratio = best.ratio.map_or("-".into(), |ratio| format!("{ratio:.2}"));
    format!("*{ratio}* ({})", all[best.index].name)
}

fn summary(all: &[Contestant], measured: &[Vec<Measured>]) -> String {
    let columns: Vec<Column> = measured.iter().flat_map(|one| table::columns(one)).collect();
    let heading = ["workload", "case", "millpond"].into_iter().map(str::to_owned);
    let heading = heading.chain(Peers::EACH.map(|peers| format!("{} / millpond", peers.name())));
    let mut lines: Vec<Vec<String>> = vec![heading.collect()];
    for column in &columns {
        let workload = column.measured.workload;
        let ours = column.ours(all).map_or("-".into(), |ours| number(ours.median));
        let mut line = vec![
            workload.title.to_owned(),
            column.heading(),
            format!("{ours} {}", workload.metrics[column.metric].unit),
        ];
        line.extend(Peers::EACH.map(|peers| summed_up(all, column, peers)));
        lines.push(line);
    }
    let disturbance = table::disturbance(measured.iter().flatten());
    let disturbance = disturbance.map_or(String::new(), |what| format!(" {what}"));
    format!("{}.{disturbance}\n\n{}", table::verdict(all, &columns), markdown(&lines))
}

/// The ratio, bold if millpond is level or ahead, with the peer and its figure.
fn summed_up(all: &[Contestant], column: &Column, peers: Peers) -> String {
    let Some(best) = column.best(all, peers) else { return "-".into() };
    let ratio = match best.ratio {
        None => "-".into(),
        Some(ratio) if ratio >= 1.0 => format!("**{ratio:.2}**"),
        Some(ratio) => format!("{ratio:.2}"),
    };
    format!("{ratio} ({} {})", all[best.index].name, number(best.median))
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
fn chart(all: &[Contestant], measured: &[Measured]) -> String {
    let workload = measured[0].workload;
    if workload.axis.is_some() {
        return svg::curves(workload.title, workload.metrics[0].unit, &curves(all, measured));
    }
    let mut groups = Vec::new();
    for column in table::columns(measured) {
        let bars = all.iter().enumerate().filter_map(|(index, one)| {
            let Figure { median, low, high } = column.figure(index)?;
            Some(Bar { name: one.name, home: one.home, median, low, high })
        });
        let (heading, unit) = (column.heading(), workload.metrics[column.metric].unit);
        groups.push(Group { heading, unit, bars: bars.collect() });
    }
    svg::bars(workload.title, groups)
}

/// One line for each contestant and metric.
fn curves(all: &[Contestant], measured: &[Measured]) -> Vec<Curve> {
    let workload = measured[0].workload;
    let mut curves = Vec::new();
    for (index, one) in all.iter().enumerate() {
        for (metric, named) in workload.metrics.iter().enumerate() {
            let point = |measured: &Measured| {
                let figure = Column { measured, metric }.figure(index)?;
                Some(((workload.axis?)(&measured.case) as f64, figure.median))
            };
            let points: Vec<(f64, f64)> = measured.iter().filter_map(point).collect();
            if !points.is_empty() {
                let name = format!("{} {}", one.name, named.name).trim().to_owned();
                curves.push(Curve { name, who: index, ours: one.home == Home::Us, metric, points });
            }
        }
    }
    curves
}
