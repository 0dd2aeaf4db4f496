//! A panel for each column of a table, a dot for each row. Less is better, so the least is on top.

use super::Width;
use super::axis::{Axis, short};
use super::svg::{Anchor, Svg};
use super::table::{Figure, Table};

/// Heights of a row, of the space above the rows of a panel, and of the space below them.
const ROW: f64 = 19.0;
const ABOVE: f64 = 22.0;
const BELOW: f64 = 50.0;
/// Space for the names on the left, and for a figure on the right.
const NAMES: f64 = 152.0;
const FIGURE: f64 = 46.0;

/// The origin of a row, by its name.
fn origin(name: &str) -> usize {
    match name {
        name if name.starts_with("millpond") => 0,
        name if name.starts_with("JDK") => 2,
        _ => 1,
    }
}

const ORIGINS: [&str; 3] = ["millpond", "Rust", "JDK"];

pub(super) fn draw(title: &str, table: &Table, width: Width) -> String {
    let mut svg = Svg::default();
    let top = heading(&mut svg, title, table, width);
    let columns = if width == Width::Wide && table.columns.len() > 1 { 2 } else { 1 };
    let panel = if columns == 1 { width.pixels().min(480.0) } else { width.pixels() / 2.0 };
    let axis = Axis::around(table.figures().map(|figure| figure.median), NAMES, panel - FIGURE);
    let indexes: Vec<usize> = (0..table.columns.len()).collect();
    let mut y = top;
    for pair in indexes.chunks(columns) {
        let ends = pair.iter().zip(0..).map(|(column, at): (&usize, u8)| {
            let left = f64::from(at) * panel;
            let axis = axis.at(axis.from + left, axis.to + left);
            draw_panel(&mut svg, table, *column, &axis, (left, y))
        });
        y = ends.fold(y, f64::max);
    }
    svg.finish(panel * columns as f64, y)
}

/// Title, legend, and how to read the chart. Returns where they end.
fn heading(svg: &mut Svg, title: &str, table: &Table, width: Width) -> f64 {
    let mut y = 24.0;
    for line in wrap(title, if width == Width::Wide { 100 } else { 40 }) {
        svg.text("t", (8.0, y), Anchor::Start, &line);
        y += 20.0;
    }
    let mut x = 14.0;
    let used = |index: &usize| table.rows.iter().any(|row| origin(&row.name) == *index);
    for index in (0..ORIGINS.len()).filter(used) {
        mark(svg, index, (x, y - 4.0));
        svg.text("a", (x + 10.0, y), Anchor::Start, ORIGINS[index]);
        x += 38.0 + 7.0 * ORIGINS[index].len() as f64;
    }
    let says = "dot: median; line: quartiles; less is better";
    match width {
        Width::Wide => svg.text("a", (x + 6.0, y), Anchor::Start, says),
        Width::Narrow => {
            y += 20.0;
            svg.text("a", (8.0, y), Anchor::Start, says);
        }
    }
    y + 14.0
}

/// Breaks between words, so that no line has more than `most` letters unless a word has.
fn wrap(text: &str, most: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is a line from the start");
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= most {
            *line = format!("{line} {word}");
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

/// One column of the table. Returns where the panel ends.
fn draw_panel(svg: &mut Svg, table: &Table, column: usize, axis: &Axis, (left, top): (f64, f64)) -> f64 {
    let mut rows: Vec<(&str, Figure)> =
        table.rows.iter().filter_map(|row| Some((row.name.as_str(), (*row.figures.get(column)?)?))).collect();
    rows.sort_by(|one, other| one.1.median.total_cmp(&other.1.median));
    let (top, bottom) = (top + ABOVE, top + ABOVE + ROW * rows.len() as f64);
    svg.text("h", (left + 8.0, top - 6.0), Anchor::Start, &table.columns[column]);
    for tick in axis.ticks(34.0) {
        let x = axis.place(tick);
        svg.line("grid", (x, top), (x, bottom));
        svg.text("a", (x, bottom + 15.0), Anchor::Middle, &short(tick));
    }
    let caption = format!("{}, logarithmic scale", table.corner);
    svg.text("a", ((axis.from + axis.to) / 2.0, bottom + 32.0), Anchor::Middle, &caption);
    for ((name, figure), index) in rows.into_iter().zip(0_u32..) {
        draw_row(svg, name, figure, axis, (left, top + ROW * (f64::from(index) + 0.5)));
    }
    bottom + BELOW
}

fn draw_row(svg: &mut Svg, name: &str, figure: Figure, axis: &Axis, (left, y): (f64, f64)) {
    let origin = origin(name);
    let class = if origin == 0 { "us" } else { "" };
    svg.text(class, (left + NAMES - 10.0, y + 4.5), Anchor::End, name);
    svg.line("row", (axis.from, y), (axis.to, y));
    let Figure { median, spread } = figure;
    let (x, high) = (axis.place(median), axis.place(median + spread));
    if median > 0.0 {
        svg.line(&format!("r{origin}"), (axis.place(median - spread), y), (high, y));
        mark(svg, origin, (x, y));
    } else {
        // A logarithmic axis has no zero: an arrow points beyond its edge.
        let (tip, from, to) = (x - 5.0, y - 5.0, y + 5.0);
        svg.path(&format!("zero m{origin}"), "", &format!("M{tip:.1} {y:.1}L{x:.1} {from:.1}V{to:.1}z"));
    }
    svg.text(class, (x.max(high) + 9.0, y + 4.5), Anchor::Start, &number(median));
}

/// A circle, larger for millpond, or a diamond, so that colour is not the only difference.
fn mark(svg: &mut Svg, origin: usize, (x, y): (f64, f64)) {
    let class = format!("m{origin}");
    match origin {
        0 => svg.circle(&class, (x, y), 5.5),
        1 => svg.circle(&class, (x, y), 3.5),
        _ => svg.diamond(&class, (x, y), 5.0),
    }
}

/// Three significant digits.
fn number(value: f64) -> String {
    match value {
        0.0 => "0".into(),
        value if value < 10.0 => format!("{value:.2}"),
        value if value < 100.0 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    }
}
