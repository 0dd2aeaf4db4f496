//! Charts as SVG: the timeline of a scene, the curves of a comparison.

use std::time::Duration;

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::super::record::{Ended, Record, RunRecord, TaskRecord};
use super::picture_end;
use crate::error::Error;
use crate::svg::{self, Chart, Curve, DrawResult, FAINT, FONT, GRID, INK, Marks, Paper, SERIES};
use crate::units;

const WIDTH: u32 = 900;
/// For the names of lanes.
const LEFT: u32 = 96;
const QUEUE_HEIGHT: u32 = 130;
const TITLE_HEIGHT: u32 = 34;

/// One picture with all scenes, one below the other.
pub(crate) fn scenes(records: &[&Record]) -> Result<String, Error> {
    let heights: Vec<u32> = records.iter().map(|record| height(record)).collect();
    svg::draw((WIDTH, heights.iter().sum::<u32>().max(1)), |paper, marks| {
        let mut rest = paper.clone();
        for (record, height) in records.iter().zip(heights) {
            let (mine, below) = rest.split_vertically(height);
            scene(&mine, marks, record)?;
            rest = below;
        }
        Ok(())
    })
}

/// Lanes are thin if there are many.
fn lane_height(lanes: usize) -> u32 {
    match lanes {
        0..=20 => 20,
        21..=60 => 10,
        61..=150 => 5,
        _ => 3,
    }
}

fn lanes_height(record: &Record) -> u32 {
    let lanes = lane_names(record).len();
    lanes as u32 * lane_height(lanes) + 34
}

fn height(record: &Record) -> u32 {
    TITLE_HEIGHT + lanes_height(record) + QUEUE_HEIGHT
}

/// The caller, if it had something to do, and the threads by their numbers.
fn lane_names(record: &Record) -> Vec<&str> {
    let mut names: Vec<&str> = record.threads.iter().map(|thread| thread.name.as_str()).collect();
    names.sort_by_key(|name| (name.len(), *name));
    names.dedup();
    let by_caller =
        |task: &TaskRecord| task.blocked.is_some() || task.runs.iter().any(|run| run.thread == record.caller);
    if record.tasks.iter().any(by_caller) {
        names.insert(0, record.caller);
    }
    names
}

fn scene(area: &Paper<'_>, marks: &mut Marks, record: &Record) -> DrawResult {
    let end = picture_end(record).as_secs_f64().max(1e-6);
    let title = (FONT, 16).into_font().style(FontStyle::Bold).color(&INK);
    area.draw(&Text::new(record.title.clone(), (12, 12), title))?;
    let (_, below) = area.split_vertically(TITLE_HEIGHT);
    let (lanes, queue) = below.split_vertically(lanes_height(record));
    draw_lanes(&lanes, marks, record, end)?;
    draw_queue(&queue, record, end)
}

fn draw_lanes(area: &Paper<'_>, marks: &mut Marks, record: &Record, end: f64) -> DrawResult {
    let names = lane_names(record);
    let mut chart = ChartBuilder::on(area)
        .margin_right(16)
        .x_label_area_size(30)
        .set_label_area_size(LabelAreaPosition::Left, LEFT)
        .build_cartesian_2d(0.0..end, 0.0..names.len().max(1) as f64)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .y_labels(0)
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .axis_style(GRID)
        .label_style((FONT, 12).into_font().color(&FAINT))
        .x_label_formatter(&|at| seconds(*at))
        .draw()?;
    let lanes = Lanes { height: lane_height(names.len()), names, end, place: &|at| chart.backend_coord(&at) };
    lanes.draw_names(area)?;
    lanes.mark_threads(marks, record);
    lanes.mark_waits(marks, record);
    lanes.mark_runs(marks, record);
    Ok(())
}

/// Where the lanes are on the paper.
struct Lanes<'a> {
    /// From top to bottom.
    names: Vec<&'a str>,
    /// Of each, in pixels.
    height: u32,
    /// The last moment, in seconds.
    end: f64,
    /// The pixel of a moment and a height; a lane is 1 high, and the lowest begins at 0.
    place: &'a dyn Fn((f64, f64)) -> (i32, i32),
}

impl Lanes<'_> {
    fn find(&self, thread: &str) -> Option<usize> {
        self.names.iter().position(|name| *name == thread)
    }

    fn middle(&self, lane: usize) -> f64 {
        (self.names.len() - lane) as f64 - 0.5
    }

    /// As many as there is room for.
    fn draw_names(&self, area: &Paper<'_>) -> DrawResult {
        let anchor = Pos::new(HPos::Right, VPos::Center);
        let style = (FONT, 12).into_font().color(&INK).pos(anchor);
        let corner = area.get_base_pixel();
        for (lane, name) in self.names.iter().enumerate().step_by(14_u32.div_ceil(self.height) as usize) {
            let (x, y) = (self.place)((0.0, self.middle(lane)));
            area.draw(&Text::new((*name).to_owned(), (x - corner.0 - 8, y - corner.1), style.clone()))?;
        }
        Ok(())
    }

    /// A rectangle in a lane that takes `part` of its height. Gives its corners.
    fn mark(
        &self,
        marks: &mut Marks,
        (lane, part): (usize, f64),
        (from, to): (Duration, Duration),
        colour: RGBColor,
        tip: &str,
    ) -> [(i32, i32); 2] {
        let gap = if self.height >= 10 { 0.1 } else { 0.0 };
        let (middle, half) = (self.middle(lane), (0.5 - gap) * part);
        let left_top = (self.place)((from.as_secs_f64(), middle + half));
        let right_bottom = (self.place)((to.as_secs_f64().min(self.end), middle - half));
        marks.rectangle(left_top, right_bottom, colour, tip);
        [left_top, right_bottom]
    }

    /// A thin line for as long as a thread lives.
    fn mark_threads(&self, marks: &mut Marks, record: &Record) {
        for thread in &record.threads {
            if let Some(lane) = self.find(&thread.name) {
                let to = thread.stopped.unwrap_or(Duration::MAX);
                let tip = format!("{}: alive from {} on", thread.name, units::show(thread.started));
                self.mark(marks, (lane, 0.25), (thread.started, to), GRID, &tip);
            }
        }
    }

    /// A bar for as long as a submitter waits for room.
    fn mark_waits(&self, marks: &mut Marks, record: &Record) {
        for task in &record.tasks {
            if let (Some(blocked), Some(lane)) = (task.blocked, self.find(record.caller)) {
                let tip = format!("task {}: waits {} for room", task.label, units::show(blocked));
                let span = (task.arrived, task.arrived + blocked);
                self.mark(marks, (lane, 0.6), span, SERIES[4], &tip);
            }
        }
    }

    /// A bar for each run, with the name of its task if there is room.
    fn mark_runs(&self, marks: &mut Marks, record: &Record) {
        for (number, run) in record.runs() {
            let Some(lane) = self.find(&run.thread) else { continue };
            let colour = match run.ended {
                Ended::Returned => SERIES[[0, 2, 3, 5][number % 4]],
                _ => SERIES[1],
            };
            let tip = tip(record, number, run);
            let [from, to] = self.mark(marks, (lane, 1.0), (run.begin, run.end), colour, &tip);
            let label = &record.tasks[number].label;
            let fits = to.0 - from.0 > 8 * label.chars().count() as i32 + 6;
            if self.height >= 14 && fits {
                marks.word((from.0 + 4, i32::midpoint(from.1, to.1)), label);
            }
        }
    }
}

fn tip(record: &Record, number: usize, run: &RunRecord) -> String {
    let task = &record.tasks[number];
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

/// Queue depth as an area, threads as a line.
fn draw_queue(area: &Paper<'_>, record: &Record, end: f64) -> DrawResult {
    let (depth, sizes) = (curve_points(&record.depth(), end), curve_points(&record.sizes(), end));
    let most = depth.iter().chain(&sizes).map(|(_, value)| *value).fold(1.0, f64::max);
    let mut chart = ChartBuilder::on(area)
        .margin_right(16)
        .margin_bottom(4)
        .x_label_area_size(30)
        .set_label_area_size(LabelAreaPosition::Left, LEFT)
        .build_cartesian_2d(0.0..end, 0.0..most * 1.1)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .axis_style(GRID)
        .y_labels(4)
        .label_style((FONT, 12).into_font().color(&FAINT))
        .x_label_formatter(&|at| seconds(*at))
        .y_label_formatter(&|value| if value.fract() == 0.0 { svg::short(*value) } else { String::new() })
        .draw()?;
    chart.draw_series(AreaSeries::new(depth, 0.0, SERIES[0].mix(0.35)).border_style(SERIES[0]))?;
    chart.draw_series(LineSeries::new(sizes, SERIES[1].stroke_width(2)))?;
    // Beside the axis, where they cover nothing.
    for (y, name, colour) in [(20, "queue", SERIES[0]), (38, "threads", SERIES[1])] {
        area.draw(&Text::new(name, (12, y), (FONT, 13).into_font().color(&colour)))?;
    }
    Ok(())
}

fn seconds(at: f64) -> String {
    if at == 0.0 { "0".to_owned() } else { format!("{} s", svg::short(at)) }
}

/// Corners of a curve that goes in steps.
fn curve_points(steps: &[(Duration, usize)], end: f64) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> = Vec::new();
    for (at, value) in steps {
        let at = at.as_secs_f64();
        if at > end {
            break;
        }
        let before = points.last().map_or(0.0, |(_, value)| *value);
        points.push((at, before));
        points.push((at, *value as f64));
    }
    let last = points.last().map_or(0.0, |(_, value)| *value);
    points.push((end, last));
    points
}

/// For each group of a comparison: threads over time, and queue over time.
pub(crate) fn comparison(scenes: &[&Record]) -> Result<[String; 2], Error> {
    type Steps = fn(&Record) -> Vec<(Duration, usize)>;
    let chart = |what: &str, of: Steps| {
        let curves: Vec<Curve> = scenes
            .iter()
            .map(|scene| {
                // No further than its own end: that the pool is then taken away says nothing about it.
                let end = picture_end(scene).as_secs_f64();
                Curve { name: scene.title.clone(), points: curve_points(&of(scene), end) }
            })
            .collect();
        Chart { title: what, x: "seconds", y: "", size: (WIDTH, 260) }.curves(&curves)
    };
    Ok([chart("Threads", Record::sizes)?, chart("Tasks in the queue", Record::depth)?])
}
