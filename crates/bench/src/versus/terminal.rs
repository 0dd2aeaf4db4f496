//! Results for the terminal: tables that fit into 80 columns, or are divided until they do.

use std::fmt::Write as _;

use crate::contestants::field::Contestant;
use crate::measure::Measured;
use crate::table::{self, Column, Peers, number};

const WIDTH: usize = 80;

/// The cases of one workload.
pub(crate) fn workload(all: &[Contestant], measured: &[Measured]) -> String {
    let Some(first) = measured.first() else { return String::new() };
    let mut text = format!("{} ({}, less is better)\n", first.workload.title, first.workload.metrics[0].unit);
    text.push_str(&wrapped(first.workload.about));
    for columns in divided(all, measured, &table::columns(measured)) {
        text.push('\n');
        text.push_str(&aligned(&lines(all, measured, &columns)));
    }
    let columns = table::columns(measured);
    let in_order = table::comparisons(all, &columns).contains(&Peers::InOrder);
    let marks = if in_order { "* best peer, + best peer that keeps order; " } else { "* best peer; " };
    _ = writeln!(text, "\n{marks}{}", table::circumstances(measured));
    for failure in table::failures(all, measured) {
        _ = writeln!(text, "failed: {failure}");
    }
    text
}

/// Columns that fit beside each other. What belongs together stays together if it can.
fn divided<'a>(all: &[Contestant], measured: &[Measured], columns: &[Column<'a>]) -> Vec<Vec<Column<'a>>> {
    let fits = |columns: &[Column]| {
        let text = aligned(&lines(all, measured, columns));
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
    parts.into_iter().flat_map(|part| divided(all, measured, part)).collect()
}

/// The cells of a table, headings first.
fn lines(all: &[Contestant], measured: &[Measured], columns: &[Column]) -> Vec<Vec<String>> {
    let line = |head: String, cell: &dyn Fn(&Column) -> String| {
        std::iter::once(head).chain(columns.iter().map(cell)).collect::<Vec<_>>()
    };
    let comparisons = table::comparisons(all, columns);
    let height = columns.iter().map(|column| column.parts().len()).max().unwrap_or(0);
    let heading =
        |column: &Column, row: usize| column.parts().get(row).map_or("  ".into(), |part| format!("{part}  "));
    let mut lines: Vec<_> =
        (0..height).map(|row| line(String::new(), &|column| heading(column, row))).collect();
    for index in table::rows(all, measured) {
        let cell = |column: &Column| {
            let is_best = |peers| column.best(all, peers).is_some_and(|best| best.index == index);
            let mark = match () {
                () if is_best(Peers::All) => '*',
                () if is_best(Peers::InOrder) => '+',
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

/// All figures of ours beside the best of the others.
pub(crate) fn summary(all: &[Contestant], measured: &[&Measured]) -> String {
    let each = |measured| {
        let of = move |metric| Column { measured, metric };
        (0..measured.workload.metrics.len()).map(of)
    };
    let columns: Vec<Column> = measured.iter().flat_map(|one| each(one)).collect();
    let mut lines = vec![["", "us", "best peer / us", "", "in order", "JDK"].map(str::to_owned).to_vec()];
    for column in &columns {
        let workload = column.measured.workload;
        let ratio = |peers| {
            let ratio = column.best(all, peers).and_then(|best| best.ratio);
            ratio.map_or("-".into(), |ratio| format!("{ratio:.2}"))
        };
        let ours = column.ours(all).map_or("-".into(), |ours| number(ours.median));
        let name = column.best(all, Peers::All).map_or("", |best| all[best.index].name);
        lines.push(vec![
            format!("{} {}", workload.key, column.parts().join(" ")),
            format!("{ours} {}", workload.metrics[column.metric].unit),
            ratio(Peers::All),
            // On the left, where the ratio ends.
            format!("{name:<20}"),
            ratio(Peers::InOrder),
            ratio(Peers::Jdk),
        ]);
    }
    let verdict = table::verdict(all, &columns);
    format!("Summary (above 1: we are ahead)\n\n{}\n{}", aligned(&lines), wrapped(&verdict))
}

/// Words in lines that fit.
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
