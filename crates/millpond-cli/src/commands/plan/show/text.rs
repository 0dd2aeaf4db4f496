//! A plan on the terminal.

use std::time::Duration;

use millpond_sim::Bin;

use super::super::target::Target;
use super::super::words::Phrase;
use super::super::{Case, Plan};
use super::answer::{self, Said};
use super::figures::{Column, Grid, grid};
use super::{arrivals, formulas, load_name, target_words, tasks, warnings};
use crate::picture::{Align, Scale, Table, area, columns, wrapped};
use crate::term::{Colour, Screen};

const INDENT: &str = "   ";

fn width(screen: &Screen) -> usize {
    screen.width.clamp(36, 120)
}

/// The whole plan. With a target, the answer comes first.
pub(crate) fn draw(plans: &[Plan], target: Option<&Target>, screen: &Screen) -> String {
    let mut text = String::new();
    if let Some(target) = target {
        for said in plans.iter().filter_map(|plan| answer::say(plan, target)) {
            text.push_str(&said_as_text(&said, screen));
        }
        text.push('\n');
        text.push_str(&labelled("Target", &target_words(target), screen));
    }
    let first = &plans[0];
    text.push_str(&labelled("Tasks", &tasks(&first.workload), screen));
    if plans.len() == 1 {
        text.push_str(&labelled("Arrivals", &arrivals(&first.workload), screen));
    }
    for plan in plans {
        text.push('\n');
        if plans.len() > 1 {
            let heading = format!("At {}: {}", load_name(plan.factor), arrivals(&plan.workload));
            text.push_str(&painted(&wrapped(&heading, width(screen), ""), Colour::Bold, screen));
        }
        text.push_str(&one(plan, target, screen));
    }
    text
}

/// The pool and the line of code, then the reasons.
fn said_as_text(said: &Said, screen: &Screen) -> String {
    let pool = screen.paint(Colour::Bold, &said.pool);
    let mut text = match &said.paste {
        Some(paste) if columns(&said.pool) + 2 + columns(paste) <= width(screen) => {
            format!("{pool}: {}\n", screen.paint(Colour::Green, paste))
        }
        paste => {
            let pool = wrapped(&format!("{}:", said.pool), width(screen), "");
            let paste = paste.iter().map(|paste| format!("{INDENT}{}\n", screen.paint(Colour::Green, paste)));
            painted(&pool, Colour::Bold, screen) + &paste.collect::<String>()
        }
    };
    said.reasons.iter().for_each(|reason| text.push_str(&wrapped(reason, width(screen), INDENT)));
    text
}

fn painted(text: &str, colour: Colour, screen: &Screen) -> String {
    text.lines().map(|line| format!("{}\n", screen.paint(colour, line))).collect()
}

/// A label, and beside it a text of one or more lines.
fn labelled(label: &str, text: &str, screen: &Screen) -> String {
    let indent = " ".repeat(10);
    let text = wrapped(text, width(screen), &indent);
    format!("{:<10}{}", screen.paint(Colour::Bold, label), text.trim_start())
}

/// One load: formulas, pools, figures, curves, warnings.
fn one(plan: &Plan, target: Option<&Target>, screen: &Screen) -> String {
    let mut parts = Vec::new();
    let sentences = formulas(&plan.offered);
    parts.push(sentences.iter().map(|sentence| wrapped(sentence, width(screen), INDENT)).collect());
    let longest = plan.cases.iter().map(|case| columns(&case.pool.name)).max().unwrap_or(0);
    let legend = plan.cases.iter().map(|case| {
        let pad = " ".repeat(longest - columns(&case.pool.name));
        let pool = Phrase(&case.pool.pool).to_string();
        let indent = " ".repeat(INDENT.len() + longest + 2);
        let pool = wrapped(&pool, width(screen), &indent);
        format!("{INDENT}{}{pad}  {}", case.pool.name, painted(pool.trim_start(), Colour::Faint, screen))
    });
    parts.push(legend.collect());
    parts.extend(tables(&grid(plan), width(screen), screen));
    parts.push(curves(plan, screen));
    let warnings = warnings(plan, target);
    parts.push(
        warnings
            .iter()
            .map(|warning| painted(&wrapped(warning, width(screen), INDENT), Colour::Yellow, screen))
            .collect(),
    );
    parts.retain(|part: &String| !part.is_empty());
    parts.join("\n")
}

/// Splits the grid into tables that fit the width. A formula remains beside its pool.
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
                missed if missed.starts_with("MISSED") => screen.paint(Colour::Red, cell).to_string(),
                _ if column.is_formula => screen.paint(Colour::Faint, cell).to_string(),
                _ => cell.clone(),
            }
        });
        table.row([(*row).to_owned()].into_iter().chain(cells));
    }
    table.draw(INDENT)
}

/// One row of the picture: a label and a value for each column.
struct Curve {
    label: String,
    values: Vec<f64>,
    colour: Colour,
}

/// A quantity of a case over time; `None` if it is constant.
fn curve(
    case: &Case,
    scale: Scale,
    label: String,
    colour: Colour,
    of: impl Fn(&Bin) -> f64,
) -> Option<Curve> {
    let bins = || case.trials.figures.levels.curve().map(|(at, bin)| (Duration::from_nanos(at), of(bin)));
    let first = bins().next()?.1;
    // The first points only show how the pool starts.
    let changes =
        bins().skip(2).any(|(_, value)| (value - first).abs() > 1e-9) && bins().any(|(_, v)| v > 0.0);
    changes.then(|| Curve { label, values: averages(scale, bins()), colour })
}

/// The mean of the points in each column. A column without points repeats the previous value.
fn averages(scale: Scale, points: impl Iterator<Item = (Duration, f64)>) -> Vec<f64> {
    let mut sums = vec![(0.0, 0.0); scale.width()];
    for (at, value) in points {
        let (sum, count) = &mut sums[scale.column(at)];
        *sum += value;
        *count += 1.0;
    }
    let mut last = 0.0;
    let filled = sums.into_iter().map(|(sum, count)| {
        last = if count > 0.0 { sum / count } else { last };
        last
    });
    filled.collect()
}

/// Threads and mean queue length of each pool over a common time, in the first run. Each curve has
/// its own scale, which its label names.
fn curves(plan: &Plan, screen: &Screen) -> String {
    let end = plan.cases.iter().map(|case| case.trials.figures.end).max().unwrap_or(0);
    let names = widest(plan.cases.iter().map(|case| case.pool.name.as_str()));
    let margin = INDENT.len() + names + 2 + "mean queue, peak 100 000".len().min(width(screen) / 3) + 2;
    let room = width(screen).saturating_sub(margin);
    if room < 10 {
        return String::new();
    }
    let scale = Scale::new(Duration::from_nanos(end), room);
    let mut lines = Vec::new();
    for case in &plan.cases {
        let levels = &case.trials.figures.levels;
        let name = &case.pool.name;
        let fits = margin - INDENT.len() - 2;
        let label = |what: &str, peak: usize| {
            let whole = format!("{name:<names$}  {what}, peak {peak}");
            if columns(&whole) <= fits { whole } else { format!("{name:<names$}  {what}") }
        };
        let threads = label("threads", levels.peak_threads);
        lines.extend(curve(case, scale, threads, Colour::Green, |bin| bin.threads as f64));
        lines.extend(curve(
            case,
            scale,
            label("mean queue", levels.peak_queue),
            Colour::Blue,
            Bin::mean_queue,
        ));
    }
    if lines.is_empty() {
        return String::new();
    }
    let mut text = String::new();
    for Curve { label, values, colour } in lines {
        let most = values.iter().copied().fold(0.0, f64::max);
        let heights: Vec<usize> =
            values.iter().map(|value| (value / most * 1000.0).round() as usize).collect();
        let row = area(&heights, 1000, 1).remove(0);
        let pad = " ".repeat((margin - INDENT.len()).saturating_sub(columns(&label)));
        text.push_str(&format!("{INDENT}{label}{pad}{}\n", screen.paint(colour, row.trim_end())));
    }
    text.push_str(&scale.axis(margin));
    text
}
