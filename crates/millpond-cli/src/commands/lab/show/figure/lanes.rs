//! A lane for refusals, one for the caller, and one for each thread.
//!
//! A few runs are drawn individually, with tooltips. Beyond [`MOST_RUNS`], each pixel column of a
//! lane shows its most frequent admission, darker the longer the thread was busy. Beyond
//! [`MOST_LANES`], several threads share a lane. So the size of a picture is bounded.

use std::collections::HashMap;
use std::time::Duration;

use super::super::super::record::{Ended, How, Record, RunRecord, TaskRecord};
use super::super::palette;
use crate::canvas::{Anchor, Canvas, Px, TEXT, text_width};
use crate::figure::TimeAxis;
use crate::units;

/// Runs per pixel of width.
const MOST_RUNS: f64 = 0.2;
const MOST_LANES: usize = 120;
/// Maximum number of refused tasks that a tooltip names.
const MOST_NAMES: usize = 5;

/// Draws all lanes below `top`. Returns the lower end.
pub(super) fn draw(canvas: &mut Canvas, record: &Record, axis: TimeAxis, top: f64) -> f64 {
    let top = refusals(canvas, record, axis, top);
    let lanes = Lanes::of(record, axis, top);
    lanes.draw_names(canvas);
    lanes.draw_blocked(canvas, record);
    if !is_summarised(record, axis.width) {
        lanes.draw_threads(canvas, record);
        lanes.draw_waits(canvas, record);
        lanes.draw_runs(canvas, record);
    } else {
        lanes.draw_columns(canvas, record);
    }
    lanes.end(canvas)
}

/// Returns true if lanes of this width summarise runs by pixel.
pub(super) fn is_summarised(record: &Record, width: f64) -> bool {
    let runs: usize = record.tasks.iter().map(|task| task.runs.len()).sum();
    record.threads.len() > MOST_LANES || runs as f64 > MOST_RUNS * width
}

/// A red bar for each pixel column with refused tasks, higher the more there were.
fn refusals(canvas: &mut Canvas, record: &Record, axis: TimeAxis, top: f64) -> f64 {
    const HEIGHT: f64 = 18.0;
    let refusals = record.refusals();
    if refusals.is_empty() {
        return top;
    }
    let mut columns: Vec<Vec<&TaskRecord>> = vec![Vec::new(); axis.columns()];
    for (at, task) in &refusals {
        columns[axis.column(*at)].push(task);
    }
    let most = columns.iter().map(Vec::len).max().unwrap_or(1) as f64;
    canvas.text("p-ink", (axis.left - 6.0, top + HEIGHT - 4.0), Anchor::End, "refused");
    for (at, tasks) in columns.iter().enumerate().filter(|(_, tasks)| !tasks.is_empty()) {
        let height = (tasks.len() as f64 / most * HEIGHT).max(4.0);
        let at = (axis.left + at as f64, top + HEIGHT - height);
        canvas.rectangle("p-refused", at, (2.0, height), Some(&refusal_tip(tasks)));
    }
    let share = 100.0 * refusals.len() as f64 / record.tasks.len() as f64;
    let text = format!("{} ({share:.0} %)", units::show_count(refusals.len() as u64));
    canvas.text("p-refused", (axis.right() + 5.0, top + HEIGHT - 4.0), Anchor::Start, &text);
    top + HEIGHT + 6.0
}

fn refusal_tip(tasks: &[&TaskRecord]) -> String {
    let at = tasks[0].refused_at().map(units::show).unwrap_or_default();
    if tasks.len() > MOST_NAMES {
        return format!("{} tasks refused at about {at}", units::show_count(tasks.len() as u64));
    }
    let tell = |task: &&TaskRecord| format!("task {} {}", task.label, outcome(task));
    format!("{} at {at}", tasks.iter().map(tell).collect::<Vec<_>>().join(", "))
}

fn outcome(task: &TaskRecord) -> &'static str {
    if task.was_discarded() { "discarded" } else { "refused" }
}

struct Lanes<'a> {
    axis: TimeAxis,
    top: f64,
    /// Height of a lane in pixels.
    height: f64,
    /// From top to bottom; the caller is first if it has a lane.
    names: Vec<String>,
    /// The lane of each thread, by name, and of the caller.
    lane_of: HashMap<&'a str, usize>,
    /// Number of threads per lane.
    per_lane: usize,
}

impl<'a> Lanes<'a> {
    fn of(record: &'a Record, axis: TimeAxis, top: f64) -> Lanes<'a> {
        let mut threads: Vec<&str> = record.threads.iter().map(|thread| thread.name.as_str()).collect();
        threads.sort_by_key(|name| (name.len(), *name));
        threads.dedup();
        let by_caller = |task: &TaskRecord| {
            task.blocked.is_some() || task.runs.iter().any(|run| run.thread == record.caller)
        };
        let has_caller = record.tasks.iter().any(by_caller);
        let per_lane = threads.len().div_ceil(MOST_LANES).max(1);
        let mut names: Vec<String> = if per_lane == 1 {
            threads.iter().map(|name| (*name).to_owned()).collect()
        } else {
            let of = |(at, group): (usize, &[&str])| {
                format!("{}-{}", at * per_lane + 1, at * per_lane + group.len())
            };
            threads.chunks(per_lane).enumerate().map(of).collect()
        };
        let shift = usize::from(has_caller);
        let mut lane_of: HashMap<&str, usize> =
            threads.iter().enumerate().map(|(at, name)| (*name, at / per_lane + shift)).collect();
        if has_caller {
            names.insert(0, record.caller.to_owned());
            lane_of.insert(record.caller, 0);
        }
        let height = match names.len() {
            0..=20 => 20.0,
            21..=60 => 10.0,
            _ => 5.0,
        };
        Lanes { axis, top, height, names, lane_of, per_lane }
    }

    fn end(&self, canvas: &mut Canvas) -> f64 {
        let end = self.top + self.names.len() as f64 * self.height;
        if self.per_lane > 1 {
            let text = format!("{} threads per lane; darker: more of them busy", self.per_lane);
            canvas.text("p-faint", (self.axis.left, end + TEXT + 3.0), Anchor::Start, &text);
            return end + TEXT + 6.0;
        }
        end
    }

    fn find(&self, thread: &str) -> Option<usize> {
        self.lane_of.get(thread).copied()
    }

    /// Names of lanes, as many as fit.
    fn draw_names(&self, canvas: &mut Canvas) {
        let every = (16.0 / self.height).ceil() as usize;
        for (lane, name) in self.names.iter().enumerate().step_by(every) {
            let base = self.top + (lane as f64 + 0.5) * self.height + 4.0;
            canvas.text("p-ink", (self.axis.left - 6.0, base), Anchor::End, name);
        }
    }

    /// A bar with `part` of the lane's height. Returns its left edge and its width.
    fn bar(
        &self,
        canvas: &mut Canvas,
        class: &str,
        (lane, part): (usize, f64),
        (from, to): (Duration, Duration),
        tooltip: Option<&str>,
    ) -> (f64, f64) {
        let gap = if self.height >= 10.0 { 2.0 } else { 0.0 };
        let height = (self.height - gap) * part;
        let y = self.top + lane as f64 * self.height + (self.height - height) / 2.0;
        let (x, width) = (self.axis.x(from), self.axis.x(to) - self.axis.x(from));
        canvas.rectangle(class, (x, y), (width, height), tooltip);
        (x, width)
    }

    /// A thin line for the lifetime of each thread.
    fn draw_threads(&self, canvas: &mut Canvas, record: &Record) {
        for thread in &record.threads {
            if let Some(lane) = self.find(&thread.name) {
                let to = thread.stopped.unwrap_or(Duration::MAX);
                let tip = format!("{}: alive from {} on", thread.name, units::show(thread.started));
                self.bar(canvas, "p-alive", (lane, 0.25), (thread.started, to), Some(&tip));
            }
        }
    }

    /// A bar for the time in which the caller is blocked.
    fn draw_blocked(&self, canvas: &mut Canvas, record: &Record) {
        let Some(lane) = self.find(record.caller) else { return };
        let most = self.axis.columns();
        for task in record.tasks.iter().filter(|task| task.blocked.is_some()).take(most) {
            if let Some(blocked) = task.blocked {
                let tip = format!("task {}: waits {} for room", task.label, units::show(blocked));
                let span = (task.arrived, task.arrived + blocked);
                self.bar(canvas, "p-blocked", (lane, 0.6), span, Some(&tip));
            }
        }
    }

    /// A thin line from the arrival of a queued task to its run.
    fn draw_waits(&self, canvas: &mut Canvas, record: &Record) {
        for task in record.tasks.iter().filter(|task| task.how == How::Queued && !task.series) {
            let Some(run) = task.runs.first() else { continue };
            if let Some(lane) = self.find(&run.thread) {
                self.bar(canvas, "p-queued p-wait", (lane, 0.12), (task.entered, run.begin), None);
            }
        }
    }

    /// A bar for each run, with the name of its task if there is room.
    fn draw_runs(&self, canvas: &mut Canvas, record: &Record) {
        for (number, run) in record.runs() {
            let Some(lane) = self.find(&run.thread) else { continue };
            let task = &record.tasks[number];
            let span = (run.begin, run.end);
            let (x, width) =
                self.bar(canvas, palette::class(task.how), (lane, 1.0), span, Some(&tip(task, run)));
            let middle = self.top + (lane as f64 + 0.5) * self.height;
            if run.ended != Ended::Returned {
                canvas.rectangle("p-refused", (x + width - 3.0, middle - 8.0), (4.0, 16.0), None);
            }
            if self.height >= 14.0 && width > text_width(&task.label) + 8.0 {
                canvas.text("p-on", (x + 4.0, middle + 4.0), Anchor::Start, &task.label);
            }
        }
    }

    /// Lanes in pixel columns: the most frequent admission, darker the longer its threads are busy.
    fn draw_columns(&self, canvas: &mut Canvas, record: &Record) {
        const LEVELS: usize = 4;
        let (classes, busy) = self.busy(record);
        let full = self.axis.end / self.axis.columns() as f64 * self.per_lane as f64;
        for (lane, columns) in busy.iter().enumerate() {
            let mut paths: Vec<String> = vec![String::new(); classes.len() * LEVELS];
            let middle = self.top + (lane as f64 + 0.5) * self.height;
            let kind = |column: &Vec<f64>| -> Option<usize> {
                let sum: f64 = column.iter().sum();
                let most = (0..column.len()).max_by(|one, other| column[*one].total_cmp(&column[*other]))?;
                let level = (sum / full * LEVELS as f64).ceil().clamp(1.0, LEVELS as f64) as usize - 1;
                (sum > 0.0).then_some(most * LEVELS + level)
            };
            let kinds: Vec<Option<usize>> = columns.iter().map(kind).collect();
            let mut at = 0;
            for run in kinds.chunk_by(|one, next| one == next) {
                if let Some(kind) = run[0] {
                    let x = Px(self.axis.left + at as f64);
                    paths[kind].push_str(&format!("M{x} {}h{}", Px(middle), run.len()));
                }
                at += run.len();
            }
            for (kind, path) in paths.iter().enumerate() {
                let opacity = (kind % LEVELS + 1) as f64 / LEVELS as f64;
                let attributes =
                    format!(" stroke-opacity=\"{opacity}\" style=\"stroke-width:{}\"", Px(self.height - 1.0));
                canvas.path(classes[kind / LEVELS], &attributes, path);
            }
        }
    }

    /// Busy seconds by lane, pixel column and class.
    fn busy(&self, record: &Record) -> (Vec<&'static str>, Vec<Vec<Vec<f64>>>) {
        let mut classes: Vec<&'static str> = palette::ORDER.into_iter().map(palette::class).collect();
        classes.dedup();
        let empty = vec![vec![0.0; classes.len()]; self.axis.columns()];
        let mut busy = vec![empty; self.names.len()];
        let per_column = self.axis.end / self.axis.columns() as f64;
        for task in &record.tasks {
            let class = classes.iter().position(|class| *class == palette::class(task.how)).unwrap_or(0);
            for run in &task.runs {
                let Some(lane) = self.find(&run.thread) else { continue };
                let (from, to) = (run.begin.as_secs_f64(), run.end.as_secs_f64());
                let columns = self.axis.column(run.begin)..=self.axis.column(run.end);
                for (column, busy) in columns.clone().zip(&mut busy[lane][columns]) {
                    let start = (column as f64 * per_column).max(from);
                    let end = ((column + 1) as f64 * per_column).min(to);
                    busy[class] += (end - start).max(1e-9);
                }
            }
        }
        (classes, busy)
    }
}

fn tip(task: &TaskRecord, run: &RunRecord) -> String {
    let ended = match run.ended {
        Ended::Returned => "",
        Ended::Interrupted => ", interrupted",
        Ended::Panicked => ", panicked",
        Ended::StillRunning => ", still runs",
    };
    format!(
        "task {} ({}) on {}: from {} for {}, waited {}{ended}",
        task.label,
        task.how.name(),
        run.thread,
        units::show(run.begin),
        units::show(run.end.saturating_sub(run.begin)),
        units::show(task.wait().unwrap_or_default()),
    )
}
