//! A plan on the terminal.

use std::time::Duration;

use millpond_sim::Bin;

use super::super::words::Told;
use super::super::{Case, Plan, Target};
use super::figures::{Column, Grid, grid};
use super::{answers, arrivals, formulas, load_name, note, target_words, tasks, warnings};
use crate::picture::{Align, Scale, Table, area, columns, wrapped};
use crate::term::{Colour, Screen};

const INDENT: &str = "   ";

fn width(screen: &Screen) -> usize {
    screen.width.clamp(60, 120)
}

/// All of it.
pub(crate) fn draw(plans: &[Plan], target: Option<Target>, screen: &Screen) -> String {
    let mut text = String::new();
    let first = &plans[0];
    if plans.len() == 1 {
        text.push_str(&labelled("Arrivals", &arrivals(&first.workload), screen));
    }
    text.push_str(&labelled("Tasks", &tasks(&first.workload), screen));
    if let Some(target) = target {
        text.push_str(&labelled("Target", &target_words(target), screen));
        text.push('\n');
        text.push_str(&smallest(plans, target, screen));
    }
    for plan in plans {
        text.push('\n');
        if plans.len() > 1 {
            let heading = format!("At {}: {}", load_name(plan.factor), arrivals(&plan.workload));
            text.push_str(&painted(&wrapped(&heading, width(screen), ""), Colour::Bold, screen));
        }
        text.push_str(&one(plan, screen));
    }
    text
}

fn painted(text: &str, colour: Colour, screen: &Screen) -> String {
    text.lines().map(|line| format!("{}\n", screen.paint(colour, line))).collect()
}

/// A word, and a text beside it that may take several lines.
fn labelled(label: &str, text: &str, screen: &Screen) -> String {
    let indent = " ".repeat(10);
    let text = wrapped(text, width(screen), &indent);
    format!("{:<10}{}", screen.paint(Colour::Bold, label), text.trim_start())
}

/// The smallest pool at each load, and why not a smaller one.
fn smallest(plans: &[Plan], target: Target, screen: &Screen) -> String {
    let (headers, rows) = answers(plans, target);
    let align = |at| if at == 0 { Align::Left } else { Align::Right };
    let mut table = Table::new(headers.into_iter().enumerate().map(|(at, header)| (header, align(at))));
    rows.into_iter().for_each(|row| table.row(row));
    let mut text = table.draw(INDENT);
    text.push('\n');
    for note in plans.iter().filter_map(|plan| note(plan, target)) {
        text.push_str(&wrapped(&note, width(screen), INDENT));
    }
    text
}

/// One load: formulas, pools, figures, curves, warnings.
fn one(plan: &Plan, screen: &Screen) -> String {
    let mut parts = Vec::new();
    let sentences = formulas(&plan.offered);
    parts.push(sentences.iter().map(|sentence| wrapped(sentence, width(screen), INDENT)).collect());
    let longest = plan.cases.iter().map(|case| columns(&case.pool.name)).max().unwrap_or(0);
    let legend = plan.cases.iter().map(|case| {
        let pad = " ".repeat(longest - columns(&case.pool.name));
        let pool = Told(&case.pool.pool).to_string();
        let indent = " ".repeat(INDENT.len() + longest + 2);
        let pool = wrapped(&pool, width(screen), &indent);
        format!("{INDENT}{}{pad}  {}", case.pool.name, painted(pool.trim_start(), Colour::Faint, screen))
    });
    parts.push(legend.collect());
    parts.extend(tables(&grid(plan), width(screen), screen));
    parts.push(curves(plan, screen));
    let warnings = warnings(plan);
    parts.push(
        warnings
            .iter()
            .map(|warning| painted(&wrapped(warning, width(screen), INDENT), Colour::Yellow, screen))
            .collect(),
    );
    parts.retain(|part: &String| !part.is_empty());
    parts.join("\n")
}

/// The grid in as many tables as it takes; a formula stays beside its pool.
fn tables(grid: &Grid, width: usize, screen: &Screen) -> Vec<String> {
    let room = width.saturating_sub(INDENT.len() + widest(grid.rows.iter().copied()));
    let size =
        |column: &Column| 2 + widest(column.cells.iter().map(String::as_str).chain([column.head.as_str()]));
    let mut tables: Vec<Vec<&Column>> = Vec::new();
    let mut left = 0;
    for pair in pairs(&grid.columns) {
        let needed: usize = pair.iter().map(size).sum();
        if needed > left || tables.is_empty() {
            tables.push(Vec::new());
            left = room;
        }
        left = left.saturating_sub(needed);
        tables.last_mut().expect("there is one").extend(pair);
    }
    tables.iter().map(|columns| table(&grid.rows, columns, screen)).collect()
}

fn widest<'a>(texts: impl Iterator<Item = &'a str>) -> usize {
    texts.map(columns).max().unwrap_or(0)
}

/// Each pool with its formula, if it has one.
fn pairs(columns: &[Column]) -> impl Iterator<Item = &[Column]> {
    columns.chunk_by(|_, next| next.is_formula)
}

fn table(rows: &[&str], columns: &[&Column], screen: &Screen) -> String {
    let heads: Vec<(String, Align)> = columns
        .iter()
        .map(|column| {
            let head =
                screen.paint(if column.is_formula { Colour::Faint } else { Colour::Bold }, &column.head);
            (head.to_string(), Align::Right)
        })
        .collect();
    let heads = heads.iter().map(|(head, align)| (head.as_str(), *align));
    let mut table = Table::new([("", Align::Left)].into_iter().chain(heads));
    for (at, row) in rows.iter().enumerate() {
        let cells = columns.iter().map(|column| {
            let cell = &column.cells[at];
            match cell.as_str() {
                "MISSED" => screen.paint(Colour::Red, cell).to_string(),
                _ if column.is_formula => screen.paint(Colour::Faint, cell).to_string(),
                _ => cell.clone(),
            }
        });
        table.row([(*row).to_owned()].into_iter().chain(cells));
    }
    table.draw(INDENT)
}

/// What is drawn as one row: how a number changed.
struct Curve {
    label: String,
    steps: Vec<(Duration, usize)>,
    most: usize,
    colour: Colour,
}

/// One number of a case over time; `None` if it was always zero.
fn curve(case: &Case, kind: &str, colour: Colour, of: impl Fn(&Bin) -> usize) -> Option<Curve> {
    let mut steps: Vec<_> =
        case.figures.levels.curve().map(|(at, bin)| (Duration::from_nanos(at), of(bin))).collect();
    steps.push((Duration::from_nanos(case.figures.end), 0));
    let most = steps.iter().map(|(_, value)| *value).max().unwrap_or(0);
    (most > 0).then(|| Curve { label: format!("{kind} ≤{most}"), steps, most, colour })
}

/// Threads and queue of each pool over a common time; each curve has its own height, which its label tells.
fn curves(plan: &Plan, screen: &Screen) -> String {
    let end = plan.cases.iter().map(|case| case.figures.end).max().unwrap_or(0);
    let names = widest(plan.cases.iter().map(|case| case.pool.name.as_str()));
    let mut lines = Vec::new();
    for case in &plan.cases {
        let threads = curve(case, "threads", Colour::Green, |bin| bin.threads);
        let queue = curve(case, "queue", Colour::Blue, |bin| bin.queue);
        for (name, curve) in [(case.pool.name.as_str(), threads), ("", queue)] {
            lines.extend(
                curve.map(|curve| Curve { label: format!("{name:<names$}  {}", curve.label), ..curve }),
            );
        }
    }
    if lines.is_empty() {
        return String::new();
    }
    let margin = lines.iter().map(|line| columns(&line.label)).max().unwrap_or(0) + 5;
    let scale = Scale::new(Duration::from_nanos(end), width(screen).saturating_sub(margin).max(20));
    let mut text = String::new();
    for Curve { label, steps, most, colour } in lines {
        let row = area(&scale.largest(&steps), most, 1).remove(0);
        let pad = " ".repeat(margin - INDENT.len() - columns(&label));
        text.push_str(&format!("{INDENT}{label}{pad}{}\n", screen.paint(colour, row.trim_end())));
    }
    text.push_str(&scale.axis(margin));
    text
}
