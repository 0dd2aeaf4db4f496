//! Writes results into a documentation page, between marks, with links to charts of its tables.
//! Other text of the page stays.

use std::fmt::Write as _;

use bench::charts;

use crate::contestants::Home;
use crate::contestants::field::Contestant;
use crate::measure::Measured;
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

/// Puts `text` between the marks of that name. Appends the marks to a page without them.
pub(crate) fn between_marks(page: &str, mark: &str, text: &str) -> String {
    let (begin, end) = (format!("<!-- {mark}: begin -->\n"), format!("<!-- {mark}: end -->"));
    let places = page.find(&begin).and_then(|from| Some((from + begin.len(), page.find(&end)?)));
    match places {
        Some((from, to)) if from <= to => format!("{}\n{text}\n{}", &page[..from], &page[to..]),
        _ => format!("{}\n\n{begin}\n{text}\n{end}\n", page.trim_end()),
    }
}

/// The table of all workloads. `directory` is that of the charts, as seen from the page.
pub(crate) fn versus(
    setting: &Setting,
    all: &[Contestant],
    measured: &[Vec<Measured>],
    directory: &str,
) -> String {
    let mut page = introduction(setting);
    _ = write!(page, "\n### Summary\n\n{}", summary(all, measured));
    for measured in measured {
        section(&mut page, all, measured, directory);
    }
    page
}

/// The curves.
pub(crate) fn growth(
    setting: &Setting,
    all: &[Contestant],
    measured: &[Vec<Measured>],
    directory: &str,
) -> String {
    let mut page = introduction(setting);
    for measured in measured {
        section(&mut page, all, measured, directory);
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

/// One workload: description, chart, table.
fn section(page: &mut String, all: &[Contestant], measured: &[Measured], directory: &str) {
    let Some(first) = measured.first() else { return };
    let workload = first.workload;
    _ = write!(page, "\n### {}\n\n{}\n\n", workload.title, workload.about);
    _ = writeln!(page, "{}\n", charts::link(directory, workload.key, workload.title));
    if workload.axis.is_some() {
        let tables =
            (0..workload.metrics.len()).map(|metric| markdown(&table::points(all, measured, metric)));
        page.push_str(&tables.collect::<Vec<_>>().join("\n"));
    } else {
        page.push_str(&markdown(&lines(all, measured)));
    }
    _ = writeln!(page, "\n{}.", table::circumstances(measured));
    for failure in table::failures(all, measured) {
        _ = writeln!(page, "\nFailed: {failure}.");
    }
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
