//! Pictures of scenes as SVG. All panels of a scene share one time axis.
//!
//! Colour means how a task was admitted ([`palette`](super::palette)); the legend above the lanes
//! names each colour. Each picture comes in two widths, because text that is scaled down is not
//! legible.

mod compare;
mod lanes;
mod panel;

use std::time::Duration;

pub(crate) use compare::comparison;

use self::panel::Panel;
use super::super::record::{How, Record};
use super::{palette, picture_end};
use crate::canvas::{Anchor, Canvas, TEXT, nice_step, text_width};
use crate::units;

/// Sizes of a picture in pixels.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    pub(crate) width: f64,
    /// Space for the names of lanes and the numbers of axes.
    left: f64,
    /// Space for labels at the right end of a line.
    right: f64,
}

/// For a page on a desk.
pub(crate) const WIDE: Layout = Layout { width: 900.0, left: 84.0, right: 70.0 };
/// For a phone.
pub(crate) const NARROW: Layout = Layout { width: 344.0, left: 66.0, right: 76.0 };

/// Turns moments into x coordinates.
#[derive(Debug, Clone, Copy)]
struct TimeAxis {
    left: f64,
    width: f64,
    end: f64,
}

impl TimeAxis {
    fn new(left: f64, width: f64, end: Duration) -> TimeAxis {
        TimeAxis { left, width, end: end.as_secs_f64().max(1e-6) }
    }

    fn right(&self) -> f64 {
        self.left + self.width
    }

    fn x(&self, at: Duration) -> f64 {
        self.left + (at.as_secs_f64() / self.end).min(1.0) * self.width
    }

    /// The pixel column of a moment, from 0 on.
    fn column(&self, at: Duration) -> usize {
        ((self.x(at) - self.left) as usize).min(self.columns() - 1)
    }

    fn columns(&self) -> usize {
        (self.width as usize).max(1)
    }

    /// Marks and their labels below `y`, vertical grid lines up to `top`. Returns the height used.
    fn draw(&self, canvas: &mut Canvas, top: f64, y: f64) -> f64 {
        let step = nice_step(self.end, (self.width / 90.0) as usize);
        let mut label_end = f64::MIN;
        for mark in (0_u32..).map(|n| f64::from(n) * step).take_while(|mark| *mark <= self.end) {
            let x = self.left + mark / self.end * self.width;
            canvas.line("p-grid", (x, top), (x, y));
            let label = if mark == 0.0 { "0".to_owned() } else { units::show(Duration::from_secs_f64(mark)) };
            let half = text_width(&label) / 2.0;
            if x - half > label_end && x + half < self.right() + 40.0 {
                canvas.text("p-faint", (x, y + TEXT + 3.0), Anchor::Middle, &label);
                label_end = x + half + 6.0;
            }
        }
        TEXT + 10.0
    }
}

/// One document with all scenes, one below the other, each under its title.
pub(crate) fn scenes(records: &[&Record], layout: Layout) -> String {
    let mut canvas = Canvas::default();
    let mut y = 8.0;
    for record in records {
        canvas.text("p-bold p-ink", (12.0, y + 14.0), Anchor::Start, &record.title);
        y += 26.0;
        y = draw_scene(&mut canvas, record, layout, y) + 18.0;
    }
    let titles: Vec<&str> = records.iter().map(|record| record.title.as_str()).collect();
    canvas.finish(layout.width, y, &titles.join("; "))
}

/// One scene without its title, for a page that has the title already.
pub(crate) fn scene(record: &Record, layout: Layout) -> String {
    let mut canvas = Canvas::default();
    let height = draw_scene(&mut canvas, record, layout, 6.0) + 4.0;
    canvas.finish(layout.width, height, &record.title)
}

/// Draws legend, lanes, panels and axis from `top` on. Returns where they end.
fn draw_scene(canvas: &mut Canvas, record: &Record, layout: Layout, top: f64) -> f64 {
    let plot = layout.width - layout.left - layout.right;
    let axis = TimeAxis::new(layout.left, plot, picture_end(record));
    let top = legend(canvas, record, layout, top);
    // The grid lies below the bars, but only the bars tell how high it is.
    let mut above = Canvas::default();
    let mut y = lanes::draw(&mut above, record, axis, top);
    for panel in panels(record) {
        y = panel.draw(&mut above, axis, y + 8.0);
    }
    let height = axis.draw(canvas, top, y + 2.0);
    canvas.append(above);
    y + height
}

/// Tells whether the wide picture of a scene summarises runs by pixel.
pub(crate) fn is_summarised(record: &Record) -> bool {
    lanes::is_summarised(record, WIDE.width - WIDE.left - WIDE.right)
}

fn panels(record: &Record) -> Vec<Panel> {
    let (sizes, depth) = (record.sizes(), record.depth());
    let mut threads = Panel::line("threads", sizes);
    // Bounds far above the curve would flatten it.
    let near = |bound: &usize| *bound <= 3 * record.peak_threads.max(1);
    match (record.core_threads, record.max_threads) {
        (Some(core), Some(max)) if core == max => threads.bound("size", max),
        (core, max) => {
            core.into_iter().for_each(|core| threads.bound("core", core));
            max.filter(near).into_iter().for_each(|max| threads.bound("max", max));
        }
    }
    let mut queue = Panel::area("queue", "p-queued", depth);
    record.queue_capacity.filter(|bound| *bound <= 3 * queue.peak().max(1)).into_iter().for_each(|bound| {
        queue.bound("bound", bound);
    });
    [threads, queue].into_iter().filter(|panel| panel.peak() > 0).collect()
}

/// A swatch for each admission that occurs, with its count. Returns where the legend ends.
fn legend(canvas: &mut Canvas, record: &Record, layout: Layout, top: f64) -> f64 {
    let (mut x, mut y) = (12.0, top);
    let kinds = palette::ORDER.into_iter().filter(|how| record.count(*how) > 0);
    let mut entries: Vec<(&str, String)> = kinds
        .map(|how: How| (palette::class(how), format!("{} {}", how.name(), record.count(how))))
        .collect();
    let blocked = record.tasks.iter().filter(|task| task.blocked.is_some()).count();
    if blocked > 0 {
        entries.push(("p-blocked", format!("{} waits for room {blocked}", record.caller)));
    }
    for (class, text) in entries {
        let width = 16.0 + text_width(&text) + 14.0;
        if x + width > layout.width && x > 12.0 {
            (x, y) = (12.0, y + 18.0);
        }
        canvas.rectangle(class, (x, y + 1.0), (11.0, 11.0), None);
        canvas.text("p-ink", (x + 16.0, y + 11.0), Anchor::Start, &text);
        x += width;
    }
    y + 24.0
}
