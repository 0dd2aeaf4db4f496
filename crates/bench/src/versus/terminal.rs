//! Results for the terminal: tables that fit into 80 columns, or are split until they do.

use std::fmt::Write as _;

use crate::contestants::field::Contestant;
use crate::measure::Measured;
use crate::table::{self, Column, Peers, number};

const WIDTH: usize = 80;

/// The cases of one workload.
pub(crate) fn workload(all: &[Contestant], measured: &[Measured]) -> String {
    let Some(first) = measured.first() else { return String::new() };
    let mut text = format!("{} ({}, less is better)\n", first.workload.title, first.workload.units());
    text.push_str(&wrapped(first.workload.about));
    let marks = if first.workload.axis.is_some() {
        for metric in 0..first.workload.metrics.len() {
            _ = write!(text, "\n{}", aligned(&table::points(all, measured, metric)));
        }
        String::new()
    } else {
        tables(&mut text, all, &table::columns(measured))
    };
    _ = writeln!(text, "\n{marks}{}", table::circumstances(measured));
    for failure in table::failures(all, measured) {
        _ = writeln!(text, "failed: {failure}");
    }
    text
}

/// Returns the legend of the marks in the tables.
fn tables(text: &mut String, all: &[Contestant], columns: &[Column]) -> String {
    for part in divided(all, columns) {
        _ = write!(text, "\n{}", aligned(&lines(all, &part)));
    }
    let alike = table::comparisons(all, columns).contains(&Peers::Alike);
    let marks = if alike { "* best peer, + best of those that promise the same" } else { "* best peer" };
    format!("{marks}\n")
}

/// Groups columns that fit beside each other. Related columns stay together if possible.
fn divided<'a>(all: &[Contestant], columns: &[Column<'a>]) -> Vec<Vec<Column<'a>>> {
    let fits = |columns: &[Column]| {
        let text = aligned(&lines(all, columns));
        text.lines().all(|line| line.chars().count() <= WIDTH)
    };
    if columns.len() == 1 || fits(columns) {
        return vec![columns.to_vec()];
    }
    let variant = |column: &Column<'a>| column.measured.case.variant;
    let mut parts: Vec<&[Column]> = columns.chunk_by(|one, next| variant(one) == variant(next)).collect();
    if parts.len() == 1 {
        let middle = columns.len() / 2;
        parts = vec![&columns[..middle], &columns[middle..]];
    }
    parts.into_iter().flat_map(|part| divided(all, part)).collect()
}

/// The cells of a table, headings first.
fn lines(all: &[Contestant], columns: &[Column]) -> Vec<Vec<String>> {
    let line = |head: String, cell: &dyn Fn(&Column) -> String| {
        std::iter::once(head).chain(columns.iter().map(cell)).collect::<Vec<_>>()
    };
    let comparisons = table::comparisons(all, columns);
    let height = columns.iter().map(|column| column.parts().len()).max().unwrap_or(0);
    let heading =
        |column: &Column, row: usize| column.parts().get(row).map_or("  ".into(), |part| format!("{part}  "));
    let mut lines: Vec<_> =
        (0..height).map(|row| line(String::new(), &|column| heading(column, row))).collect();
    for index in table::rows(all, columns) {
        let cell = |column: &Column| {
            let is_best = |peers| column.best(all, peers).is_some_and(|best| best.index == index);
            let mark = match () {
                () if is_best(Peers::All) => '*',
                () if is_best(Peers::Alike) => '+',
                () => ' ',
            };
            format!("{} {mark}", column.cell(index))
        };
        lines.push(line(all[index].name.to_owned(), &cell));
    }
    for peers in comparisons {
        let cell = |column: &Column| {
            let ratio = column.best(all, peers).and_then(|best| best.ratio);
            ratio.map_or("-  ".into(), |ratio| format!("{ratio:.2}  "))
        };
        lines.push(line(format!("{} / us", peers.name()), &cell));
    }
    for (name, ratios) in table::further_ratios(all, columns) {
        let cell = |ratio: Option<f64>| ratio.map_or("-  ".into(), |ratio| format!("{ratio:.2}  "));
        lines.push(std::iter::once(name).chain(ratios.into_iter().map(cell)).collect());
    }
    lines
}

fn aligned(lines: &[Vec<String>]) -> String {
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..lines[0].len()).map(width).collect();
    let mut text = String::new();
    for line in lines {
        let mut whole = String::new();
        for (column, cell) in line.iter().enumerate() {
            let width = widths[column];
            _ = if column == 0 { write!(whole, "{cell:<width$}") } else { write!(whole, "  {cell:>width$}") };
        }
        _ = writeln!(text, "{}", whole.trim_end());
    }
    text
}

/// Every figure of millpond in this build beside that of another build.
pub(crate) fn against(all: &[Contestant], measured: &[Vec<Measured>]) -> String {
    let heading = ["", "base", "now", "now / base"].map(str::to_owned);
    let mut lines = vec![heading.to_vec()];
    let mut failures = Vec::new();
    for these in measured {
        for column in table::columns(these) {
            let workload = column.measured.workload;
            // Each entry is followed by its counterpart of the other build.
            for index in (0..all.len()).step_by(2) {
                let Some(now) = column.figure(index) else { continue };
                let base = column.figure(index + 1);
                let ratio = base.map(|base| now.median / base.median).filter(|ratio| ratio.is_finite());
                lines.push(vec![
                    format!("{} {} {}", workload.key, column.parts().join(" "), all[index].name),
                    base.map_or("none".into(), |_| column.cell(index + 1)),
                    format!("{} {}", column.cell(index), workload.metrics[column.metric].unit),
                    ratio.map_or("-".into(), |ratio| format!("{ratio:.2}")),
                ]);
            }
        }
        failures.extend(table::failures(all, these).into_iter().map(|what| format!("failed: {what}\n")));
    }
    let disturbance = table::disturbance(measured.iter().flatten());
    let disturbance = disturbance.map_or(String::new(), |what| wrapped(&what));
    let about = "Medians of both builds, measured in turn; below 1 the new one is better. None: the base has no such \
                 workload.";
    format!("{}\n{}\n{}{disturbance}", wrapped(about), aligned(&lines), failures.concat())
}

/// All figures of millpond beside the best of the others.
pub(crate) fn summary(all: &[Contestant], measured: &[&Measured]) -> String {
    let each = |measured| {
        let of = move |metric| Column { measured, metric };
        (0..measured.workload.metrics.len()).map(of)
    };
    let columns: Vec<Column> = measured.iter().flat_map(|one| each(one)).collect();
    let heading = ["", "us", "best / us", "alike / us", "JDK / us"].map(str::to_owned);
    let mut lines = vec![heading.to_vec()];
    for column in &columns {
        let workload = column.measured.workload;
        let ours = column.ours(all).map_or("-".into(), |ours| number(ours.median));
        let mut line = vec![
            format!("{} {}", workload.key, column.parts().join(" ")),
            format!("{ours} {}", workload.metrics[column.metric].unit),
        ];
        line.extend(Peers::EACH.map(|peers| {
            let ratio = column.best(all, peers).and_then(|best| best.ratio);
            ratio.map_or("-".into(), |ratio| format!("{ratio:.2}"))
        }));
        lines.push(line);
    }
    // The names go last, where the longest may be cut.
    let table = aligned(&lines);
    let names =
        columns.iter().map(|column| column.best(all, Peers::All).map_or("", |best| all[best.index].name));
    let names = std::iter::once("best peer").chain(names);
    let table: Vec<String> =
        table.lines().zip(names).map(|(line, name)| format!("{line}  {name}\n")).collect();
    let verdict = table::verdict(all, &columns);
    let disturbance =
        table::disturbance(measured.iter().copied()).map_or(String::new(), |what| wrapped(&what));
    let about = "Above 1 we are ahead. Alike are those that promise the same: tasks begin in the order in which they \
                 came, timers are taken out when they are cancelled.";
    format!("Summary\n{}\n{}\n{}{disturbance}", wrapped(about), table.concat(), wrapped(&verdict))
}

/// Wraps words into lines.
fn wrapped(words: &str) -> String {
    let mut text = String::new();
    let mut width = 0;
    for word in words.split_whitespace() {
        let length = word.chars().count();
        if width > 0 && width + 1 + length > WIDTH {
            text.push('\n');
            width = 0;
        } else if width > 0 {
            text.push(' ');
            width += 1;
        }
        text.push_str(word);
        width += length;
    }
    text + "\n"
}
