//! Charts as SVG: the timeline of a scene, the curves of a comparison.

use std::time::Duration;

use plotters::coord::Shift;
use plotters::prelude::*;

use super::super::record::{Ended, Record};
use super::picture_end;
use crate::error::Error;
use crate::svg::{self, Chart, Curve, DrawResult, FAINT, FONT, GRID, INK, Marks, SERIES};
use crate::units;

const WIDTH: u32 = 900;
/// For the names of lanes.
const LEFT: u32 = 96;
const QUEUE_HEIGHT: u32 = 130;
const TITLE_HEIGHT: u32 = 34;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

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
    let by_caller = |task: &super::super::record::TaskRecord| {
        task.blocked.is_some() || task.runs.iter().any(|run| run.thread == record.caller)
    };
    if record.tasks.iter().any(by_caller) {
        names.insert(0, record.caller);
    }
    names
}

fn scene(area: &Area<'_>, marks: &mut Marks, record: &Record) -> DrawResult {
    let end = picture_end(record).as_secs_f64().max(1e-6);
    let title = (FONT, 16).into_font().style(FontStyle::Bold).color(&INK);
    area.draw(&Text::new(record.title.clone(), (12, 12), title))?;
    let (_, below) = area.split_vertically(TITLE_HEIGHT);
    let (lanes, queue) = below.split_vertically(lanes_height(record));
    draw_lanes(&lanes, marks, record, end)?;
    draw_queue(&queue, record, end)
}

fn draw_lanes(area: &Area<'_>, marks: &mut Marks, record: &Record, end: f64) -> DrawResult {
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
    let lane_height = f64::from(lane_height(names.len()));
    // The first lane is at the top.
    let top = |lane: usize| (names.len() - lane) as f64;
    let gap = if lane_height >= 10.0 { 0.1 } else { 0.0 };
    let every = (14.0 / lane_height).ceil() as usize;
    for (lane, name) in names.iter().enumerate().step_by(every) {
        let (x, y) = chart.backend_coord(&(0.0, top(lane) - 0.5));
        let corner = area.get_base_pixel();
        let style = (FONT, 12).into_font().color(&INK).pos(plotters::style::text_anchor::Pos::new(
            plotters::style::text_anchor::HPos::Right,
            plotters::style::text_anchor::VPos::Center,
        ));
        area.draw(&Text::new((*name).to_owned(), (x - corner.0 - 8, y - corner.1), style))?;
    }
    let lane_of = |thread: &str| names.iter().position(|name| *name == thread);
    let rectangle =
        |marks: &mut Marks, lane: usize, from: Duration, to: Duration, part: f64, colour, tip: &str| {
            let middle = top(lane) - 0.5;
            let half = (0.5 - gap) * part;
            let left_top = chart.backend_coord(&(from.as_secs_f64(), middle + half));
            let right_bottom = chart.backend_coord(&(to.as_secs_f64().min(end), middle - half));
            marks.rectangle(left_top, right_bottom, colour, tip);
            (left_top, right_bottom)
        };
    for thread in &record.threads {
        if let Some(lane) = lane_of(&thread.name) {
            let to = thread.stopped.unwrap_or(Duration::MAX);
            let tip = format!("{}: alive from {} on", thread.name, units::show(thread.started));
            rectangle(marks, lane, thread.started, to, 0.25, GRID, &tip);
        }
    }
    for task in &record.tasks {
        if let (Some(blocked), Some(lane)) = (task.blocked, lane_of(record.caller)) {
            let tip = format!("task {}: waits {} for room", task.label, units::show(blocked));
            rectangle(marks, lane, task.arrived, task.arrived + blocked, 0.6, SERIES[4], &tip);
        }
    }
    for (number, run) in record.runs() {
        if let Some(lane) = lane_of(&run.thread) {
            let colour = match run.ended {
                Ended::Returned => SERIES[[0, 2, 3, 5][number % 4]],
                _ => SERIES[1],
            };
            let (from, to) =
                rectangle(marks, lane, run.begin, run.end, 1.0, colour, &tip(record, number, run));
            let label = &record.tasks[number].label;
            let fits = to.0 - from.0 > 8 * label.chars().count() as i32 + 6;
            if lane_height >= 14.0 && fits {
                marks.word((from.0 + 4, i32::midpoint(from.1, to.1)), label);
            }
        }
    }
    Ok(())
}

fn tip(record: &Record, number: usize, run: &super::super::record::RunRecord) -> String {
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
fn draw_queue(area: &Area<'_>, record: &Record, end: f64) -> DrawResult {
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
    let end = scenes.iter().map(|scene| picture_end(scene)).max().unwrap_or_default().as_secs_f64();
    type Steps = fn(&Record) -> Vec<(Duration, usize)>;
    let chart = |what: &str, of: Steps| {
        let curves: Vec<Curve> = scenes
            .iter()
            .map(|scene| Curve { name: scene.title.clone(), points: curve_points(&of(scene), end) })
            .collect();
        Chart { title: what, x: "seconds", y: "", size: (WIDTH, 260) }.curves(&curves)
    };
    Ok([chart("Threads", Record::sizes)?, chart("Tasks in the queue", Record::depth)?])
}
