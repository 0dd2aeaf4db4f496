//! A scene on the terminal.

use std::fmt::Write;

use super::super::record::Record;
use super::{admissions, count, summary, timeline};
use crate::picture::{Align, Table, wrapped};
use crate::term::{Colour, Screen};
use crate::units;

/// Minimum and maximum width: narrower output and longer lines are hard to read.
const WIDTHS: (usize, usize) = (36, 120);
const INDENT: &str = "   ";
/// Maximum number of notes to print.
const MOST_NOTES: usize = 6;

pub(super) fn width(screen: &Screen) -> usize {
    screen.width.clamp(WIDTHS.0, WIDTHS.1)
}

/// The heading of a workload.
pub(crate) fn heading(name: &str, about: &str, speed: f64, screen: &Screen) -> String {
    let mut text = format!("{}: {about}", screen.paint(Colour::Bold, name));
    if speed != 1.0 {
        write!(text, " (played {speed} times as fast; times are scaled back)")
            .expect("a String takes everything");
    }
    wrapped(&text, width(screen), "")
}

/// A complete scene, with an empty line before it.
pub(crate) fn scene(number: Option<usize>, record: &Record, screen: &Screen) -> String {
    let width = width(screen);
    let title = number.map_or_else(String::new, |number| format!("{number}. ")) + &record.title;
    let mut parts = vec![
        format!("{}\n", screen.paint(Colour::Bold, title))
            + &faint(&wrapped(&record.pool, width, INDENT), screen)
            + &record.says.as_ref().map_or_else(String::new, |says| wrapped(says, width, INDENT)),
    ];
    if let Some(table) = admissions::table(record, screen) {
        parts.push(table.draw_within(INDENT, width));
    }
    if !record.tasks.is_empty() {
        parts
            .push(wrapped(&format!("{}.", admissions::totals(record)), width, INDENT) + &told(record, width));
    }
    parts.push(timeline::draw(record, screen, width));
    parts.push(steps(record, width));
    parts.push(endings(record, screen, width));
    parts.retain(|part| !part.is_empty());
    format!("\n{}", parts.join("\n"))
}

fn faint(text: &str, screen: &Screen) -> String {
    text.lines().map(|line| format!("{}\n", screen.paint(Colour::Faint, line))).collect()
}

/// Errors that the caller got, and notes of policies.
fn told(record: &Record, width: usize) -> String {
    let mut text = String::new();
    if let Some(error) = record.tasks.iter().find_map(|task| task.error.as_ref()) {
        text.push_str(&wrapped(&format!("The caller was told: {error}"), width, INDENT));
    }
    for note in record.notes.iter().take(MOST_NOTES) {
        text.push_str(&wrapped(note, width, INDENT));
    }
    if record.notes.len() > MOST_NOTES {
        text.push_str(&format!("{INDENT}... and {} more\n", record.notes.len() - MOST_NOTES));
    }
    text
}

/// The pool after each step.
fn steps(record: &Record, width: usize) -> String {
    let mut table = Table::new([
        ("at", Align::Right),
        ("after this step", Align::Left),
        ("threads", Align::Right),
        ("active", Align::Right),
        ("queued", Align::Right),
        ("done", Align::Right),
    ]);
    for step in &record.steps {
        let figures = [step.threads, step.active, step.queued].map(|figure| figure.to_string());
        let [threads, active, queued] = figures;
        table.row([
            units::show(step.at),
            step.says.clone(),
            threads,
            active,
            queued,
            step.completed.to_string(),
        ]);
    }
    table.draw_within(INDENT, width)
}

/// How the pool ended, and whether the expectations were met.
fn endings(record: &Record, screen: &Screen, width: usize) -> String {
    let mut text = String::new();
    if !record.tasks.is_empty() {
        text.push_str(&wrapped(&summary(record), width, INDENT));
    }
    if record.ending.asked_for {
        text.push_str(&wrapped(&ending(record), width, INDENT));
    }
    if record.unmet.is_empty() && record.expected > 0 {
        let line = format!("as expected ({} of {} checks)", record.expected, record.expected);
        writeln!(text, "{INDENT}{}", screen.paint(Colour::Green, line)).expect("a String takes everything");
    }
    for unmet in &record.unmet {
        text.push_str(&not_as_expected(unmet, INDENT, screen));
    }
    text
}

/// A highlighted line for an unmet expectation.
pub(super) fn not_as_expected(what: &str, indent: &str, screen: &Screen) -> String {
    let lines = wrapped(&format!("NOT as expected: {what}"), width(screen), indent);
    lines.lines().map(|line| format!("{}\n", screen.paint(Colour::Red, line))).collect()
}

pub(super) fn ending(record: &Record) -> String {
    let ending = &record.ending;
    let mut text = format!("Shutdown: {}, after {}", ending.outcome, units::show(ending.elapsed));
    match ending.never_run.as_slice() {
        [] => text.push_str("; nothing came back unrun."),
        tasks => {
            let names: Vec<&str> = tasks.iter().take(8).map(String::as_str).collect();
            let and_more = if tasks.len() > 8 { ", ..." } else { "" };
            let tasks = count(tasks.len(), "task");
            text.push_str(&format!("; {tasks} came back unrun: {}{and_more}.", names.join(", ")));
        }
    }
    text
}

/// The workload's advice, printed before its scenes.
pub(crate) fn advice(advice: Option<&str>, screen: &Screen) -> String {
    advice.map_or_else(String::new, |advice| format!("\n{}", wrapped(advice, width(screen), "")))
}
