//! Pictures of scenes as SVG. All panels of a scene share one time axis.
//!
//! The colour shows how a task was admitted ([`palette`](super::palette)); the legend names each
//! colour. Each picture has two widths, because scaled-down text is not legible.

mod compare;
mod lanes;

pub(crate) use compare::comparison;

use super::super::record::{How, Record};
use super::{palette, picture_end};
use crate::canvas::{Anchor, Canvas, text_width};
use crate::figure::{Layout, Panel, TimeAxis, WIDE};

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

/// One scene without its title, for a page that already shows it.
pub(crate) fn scene(record: &Record, layout: Layout) -> String {
    let mut canvas = Canvas::default();
    let height = draw_scene(&mut canvas, record, layout, 6.0) + 4.0;
    canvas.finish(layout.width, height, &record.title)
}

/// Draws legend, lanes, panels and axis from `top` on. Returns the lower end.
fn draw_scene(canvas: &mut Canvas, record: &Record, layout: Layout, top: f64) -> f64 {
    let plot = layout.width - layout.left - layout.right;
    let axis = TimeAxis::new(layout.left, plot, picture_end(record));
    let top = legend(canvas, record, layout, top);
    // The grid is drawn below the bars, but its height is known only after them.
    let mut above = Canvas::default();
    let mut y = lanes::draw(&mut above, record, axis, top);
    for panel in panels(record) {
        y = panel.draw(&mut above, axis, y + 8.0);
    }
    let height = axis.draw(canvas, top, y + 2.0);
    canvas.append(above);
    y + height
}

/// Returns true if the wide picture of a scene summarises runs by pixel.
pub(crate) fn is_summarised(record: &Record) -> bool {
    lanes::is_summarised(record, WIDE.width - WIDE.left - WIDE.right)
}

fn panels(record: &Record) -> Vec<Panel> {
    let (sizes, depth) = (record.sizes(), record.depth());
    let mut threads = Panel::line("threads", sizes);
    // A bound far above the curve would flatten it.
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

/// A swatch for each admission that occurs, with its count. Returns the lower end.
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
