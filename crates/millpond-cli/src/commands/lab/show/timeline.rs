//! The timeline on the terminal: a lane per thread, with the queue length below.

use std::time::Duration;

use super::super::record::{Ended, Record, RunRecord, TaskRecord};
use super::{palette, picture_end};
use crate::picture::{Lane, Look, Scale, Span, area, columns};
use crate::term::{Colour, Screen};

/// With more threads than this, several share a lane.
const MOST_LANES: usize = 12;
/// Height of the queue's curve in lines.
const QUEUE_ROWS: usize = 2;

/// The timeline. Each line is indented by three columns.
pub(super) fn draw(record: &Record, screen: &Screen, width: usize) -> String {
    let end = picture_end(record);
    if record.tasks.is_empty() || end.is_zero() {
        return String::new();
    }
    let (names, lanes): (Vec<String>, Lanes) = if record.threads.len() <= MOST_LANES {
        let lanes = lanes(record, end);
        (lanes.iter().map(|lane| lane.name.clone()).collect(), Lanes::Single(lanes))
    } else {
        let groups = groups(record);
        (groups.iter().map(|group| group.name.clone()).collect(), Lanes::Groups(groups))
    };
    let depth = record.depth();
    let deepest = depth.iter().map(|(_, tasks)| *tasks).max().unwrap_or(0);
    let refusals = record.refusals();
    let queue = queue_labels(record, deepest);
    let refused = "refused".to_owned();
    let labels = names.iter().chain(&queue).chain((!refusals.is_empty()).then_some(&refused));
    let margin = labels.map(|name| columns(name)).max().unwrap_or(0) + 5;
    let scale = Scale::new(end, width.saturating_sub(margin).max(20));
    let line = |name: &str, picture: &str| {
        let pad = " ".repeat(margin - 3 - columns(name));
        format!("   {name}{pad}{picture}").trim_end().to_owned() + "\n"
    };
    let mut text = String::new();
    if !refusals.is_empty() {
        let mut row = vec![' '; scale.width()];
        refusals.iter().for_each(|(at, _)| row[scale.column(*at)] = '×');
        let row: String = row.into_iter().collect();
        text.push_str(&line(&refused, &screen.paint(Colour::Red, row.trim_end()).to_string()));
    }
    match &lanes {
        Lanes::Single(lanes) => {
            lanes.iter().for_each(|lane| text.push_str(&line(&lane.name, &lane.draw(scale, screen))));
        }
        Lanes::Groups(groups) => {
            groups.iter().for_each(|group| text.push_str(&line(&group.name, &group.draw(scale, screen))));
        }
    }
    if deepest > 0 {
        let rows = area(&scale.largest(&depth), deepest, if deepest > 1 { QUEUE_ROWS } else { 1 });
        for (at, row) in rows.iter().enumerate() {
            let label = &queue[if rows.len() == 1 { 0 } else { at }];
            text.push_str(&line(label, &screen.paint(Colour::Blue, row.trim_end()).to_string()));
        }
    }
    text.push_str(&scale.axis(margin));
    text
}

/// Labels of the queue's two rows: the maximum and, if there is one, the bound; then zero.
fn queue_labels(record: &Record, deepest: usize) -> [String; 2] {
    if deepest == 0 {
        return [String::new(), String::new()];
    }
    let upper = match record.queue_capacity {
        Some(bound) if bound < 1_000_000 => format!("queue {deepest} of {bound}"),
        _ => format!("queue {deepest}"),
    };
    [upper, "0".to_owned()]
}

enum Lanes {
    Single(Vec<Lane>),
    Groups(Vec<Group>),
}

/// A lane for the caller if it ran a task or was blocked, and one for each thread.
fn lanes(record: &Record, end: Duration) -> Vec<Lane> {
    let mut lanes = vec![Lane { name: record.caller.to_owned(), ..Lane::default() }];
    for thread in &record.threads {
        let stopped = thread.stopped.filter(|at| *at < record.end);
        let alive = (thread.started.min(end), stopped);
        match lanes.iter_mut().find(|lane| lane.name == thread.name) {
            Some(lane) => lane.alive.push(alive), // the name is reused
            None => lanes.push(Lane { name: thread.name.clone(), alive: vec![alive], spans: Vec::new() }),
        }
    }
    // Sort by number. The caller remains first.
    lanes[1..].sort_by(|one, other| (one.name.len(), &one.name).cmp(&(other.name.len(), &other.name)));
    for task in &record.tasks {
        if let Some(blocked) = task.blocked {
            let (from, to) = (task.arrived, task.arrived + blocked);
            let label = String::new();
            lanes[0].spans.push(Span { from, to, label, look: Look::Waits, tail: None });
        }
    }
    for (number, run) in record.runs() {
        if let Some(lane) = lanes.iter_mut().find(|lane| lane.name == run.thread) {
            lane.spans.push(span(run, &record.tasks[number]));
        }
    }
    lanes.retain(|lane| !lane.alive.is_empty() || !lane.spans.is_empty());
    lanes
}

fn span(run: &RunRecord, task: &TaskRecord) -> Span {
    Span {
        from: run.begin,
        to: run.end,
        label: task.label.clone(),
        look: Look::Run(palette::terminal(task.how)),
        tail: match run.ended {
            Ended::Returned => None,
            Ended::Interrupted => Some('!'),
            Ended::Panicked => Some('×'),
            Ended::StillRunning => Some('▶'),
        },
    }
}

/// Several threads in one lane, darker the more of them are busy.
struct Group {
    name: String,
    threads: usize,
    alive: Vec<(Duration, Option<Duration>)>,
    busy: Vec<(Duration, Duration)>,
}

fn groups(record: &Record) -> Vec<Group> {
    let each = record.threads.len().div_ceil(10).div_ceil(10) * 10;
    let chunks = record.threads.chunks(each).enumerate();
    let groups = chunks.map(|(at, threads)| {
        let runs = record.tasks.iter().flat_map(|task| &task.runs);
        let ours = runs.filter(|run| threads.iter().any(|thread| thread.name == run.thread));
        let first = at * each + 1;
        Group {
            name: format!("{first}-{}", first + threads.len() - 1),
            threads: threads.len(),
            alive: threads.iter().map(|thread| (thread.started, thread.stopped)).collect(),
            busy: ours.map(|run| (run.begin, run.end)).collect(),
        }
    });
    groups.collect()
}

impl Group {
    fn draw(&self, scale: Scale, screen: &Screen) -> String {
        let mut busy = vec![0usize; scale.width()];
        for (from, to) in &self.busy {
            busy[scale.columns(*from, *to)].iter_mut().for_each(|count| *count += 1);
        }
        let mut alive = vec![false; scale.width()];
        for (from, to) in &self.alive {
            let last = to.map_or(scale.width() - 1, |to| scale.column(to));
            alive[scale.column(*from)..=last.max(scale.column(*from))].fill(true);
        }
        let line: String = busy.iter().zip(&alive).map(|(busy, alive)| self.shade(*busy, *alive)).collect();
        screen.paint(Colour::Blue, line.trim_end()).to_string()
    }

    fn shade(&self, busy: usize, alive: bool) -> char {
        match busy as f64 / self.threads as f64 {
            _ if !alive => ' ',
            0.0 => '·',
            share if share < 0.3 => '░',
            share if share < 0.6 => '▒',
            share if share < 0.9 => '▓',
            _ => '█',
        }
    }
}
