//! Scenes side by side: a table per group, with curves of threads and queue below.

use std::time::Duration;

use super::super::record::{Record, percentile};
use super::text::{not_as_expected, width};
use super::{Played, Significant, picture_end};
use crate::picture::{Align, Scale, Table, area, columns, wrapped};
use crate::term::{Colour, Screen};
use crate::units;

/// Scenes that share a heading.
pub(super) fn groups(scenes: &[Record]) -> Vec<(&str, Vec<&Record>)> {
    let mut groups: Vec<(&str, Vec<&Record>)> = Vec::new();
    for scene in scenes {
        let heading = scene.group.as_deref().unwrap_or("");
        match groups.iter_mut().find(|(known, _)| *known == heading) {
            Some((_, scenes)) => scenes.push(scene),
            None => groups.push((heading, vec![scene])),
        }
    }
    groups
}

pub(super) const HEADERS: [&str; 7] =
    ["pool", "ran", "per second", "most threads", "refused", "wait p50", "wait p99"];

/// The figures of a scene, in the order of [`HEADERS`].
pub(super) fn figures(record: &Record) -> Vec<String> {
    use super::super::workload::Figure;
    let waits = record.waits();
    vec![
        record.title.clone(),
        record.figure(Figure::Ran).to_string(),
        format!("{:.3}", Significant(record.throughput())),
        record.peak_threads.to_string(),
        refused(record),
        units::show(percentile(&waits, 0.5)),
        units::show(percentile(&waits, 0.99)),
    ]
}

/// The share of refused or discarded tasks. It comes before the waits of the others.
fn refused(record: &Record) -> String {
    match record.refusals().len() {
        0 => "0".to_owned(),
        n => format!("{n} ({:.0} %)", 100.0 * n as f64 / record.tasks.len() as f64),
    }
}

/// Title and description of each pool, without duplicates.
pub(super) fn legend(scenes: &[Record]) -> Vec<(&str, &str)> {
    let mut legend: Vec<(&str, &str)> = Vec::new();
    for scene in scenes {
        if !legend.contains(&(&scene.title, &scene.pool)) {
            legend.push((&scene.title, &scene.pool));
        }
    }
    legend
}

/// The comparison on the terminal.
pub(crate) fn draw(played: &Played, screen: &Screen) -> String {
    let mut text = String::from("\n");
    let legend = legend(&played.scenes);
    let longest = legend.iter().map(|(title, _)| columns(title)).max().unwrap_or(0);
    for (title, pool) in legend {
        let indent = " ".repeat(longest + 5);
        let pool = wrapped(pool, width(screen), &indent);
        let pool = screen.paint(Colour::Faint, pool.trim());
        text.push_str(&format!("   {title:<longest$}  {pool}\n"));
    }
    for (heading, scenes) in groups(&played.scenes) {
        text.push('\n');
        for line in wrapped(heading, width(screen), "").lines() {
            text.push_str(&format!("{}\n", screen.paint(Colour::Bold, line)));
        }
        text.push('\n');
        text.push_str(&table(&scenes).draw_within("   ", width(screen)));
        text.push('\n');
        text.push_str(&curves(&scenes, screen));
    }
    for record in &played.scenes {
        for unmet in &record.unmet {
            text.push_str(&not_as_expected(&format!("{}: {unmet}", record.title), "", screen));
        }
    }
    text
}

fn table(scenes: &[&Record]) -> Table {
    let mut table = Table::new(
        HEADERS
            .iter()
            .enumerate()
            .map(|(at, name)| (*name, if at == 0 { Align::Left } else { Align::Right })),
    );
    for scene in scenes {
        table.row(figures(scene));
    }
    table
}

/// Refusals in each hundredth of the time, as a step function.
fn per_column(scene: &Record, end: Duration) -> Vec<(Duration, usize)> {
    const PARTS: u32 = 100;
    let mut counts = [0usize; PARTS as usize];
    for (at, _) in scene.refusals() {
        let part = at.as_secs_f64() / end.as_secs_f64().max(1e-9) * f64::from(PARTS);
        counts[(part as usize).min(counts.len() - 1)] += 1;
    }
    (0..PARTS).zip(counts).map(|(part, count)| (end * part / PARTS, count)).collect()
}

/// Threads, queue and refusals of each scene over a common time. Each curve has its own scale,
/// which its label names.
fn curves(scenes: &[&Record], screen: &Screen) -> String {
    let end = scenes.iter().map(|scene| picture_end(scene)).max().unwrap_or_default();
    let title_width = scenes.iter().map(|scene| columns(&scene.title)).max().unwrap_or(0);
    struct Line {
        label: String,
        steps: Vec<(Duration, usize)>,
        most: usize,
        colour: Colour,
    }
    let mut lines: Vec<Line> = Vec::new();
    for scene in scenes {
        let refused = per_column(scene, end);
        for (name, steps, colour) in [
            ("threads", scene.sizes(), Colour::Green),
            ("queue", scene.depth(), Colour::Blue),
            ("refused", refused, Colour::Red),
        ] {
            let most = steps.iter().map(|(_, value)| *value).max().unwrap_or(0);
            if most > 0 {
                let title = if name == "threads" { scene.title.as_str() } else { "" };
                let most_text = if name == "refused" { scene.refusals().len() } else { most };
                let label = format!("{title:<title_width$}  {name} {most_text}");
                lines.push(Line { label, steps, most, colour });
            }
        }
    }
    let margin = lines.iter().map(|line| columns(&line.label)).max().unwrap_or(0) + 5;
    let scale = Scale::new(end, width(screen).saturating_sub(margin).max(20));
    let mut text = String::new();
    for Line { label, steps, most, colour } in lines {
        let row = area(&scale.largest(&steps), most, 1).remove(0);
        let pad = " ".repeat(margin - 3 - columns(&label));
        text.push_str(&format!("   {label}{pad}{}\n", screen.paint(colour, row.trim_end())));
    }
    text.push_str(&scale.axis(margin));
    text
}
