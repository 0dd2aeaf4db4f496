//! Pools side by side: a column per pool, the same panels and the same scales in each.

use std::time::Duration;

use super::super::super::record::Record;
use super::super::picture_end;
use super::panel::Panel;
use super::{Layout, TimeAxis};
use crate::canvas::{Anchor, Canvas, Px, TEXT};
use crate::units;

/// Columns beside each other in a wide picture.
const MOST_COLUMNS: usize = 3;
/// The least width of a column with its margins.
const LEAST_COLUMN: f64 = 260.0;
const TAIL_HEIGHT: f64 = 72.0;

/// The scenes of a comparison as one picture.
pub(crate) fn comparison(scenes: &[&Record], layout: Layout) -> String {
    let columns = ((layout.width / LEAST_COLUMN) as usize).clamp(1, MOST_COLUMNS).min(scenes.len().max(1));
    let common = Common::of(scenes);
    let mut canvas = Canvas::default();
    let width = layout.width / columns as f64;
    let mut y = 4.0;
    for row in scenes.chunks(columns) {
        let ends = row.iter().enumerate().map(|(at, scene)| {
            let axis = TimeAxis::new(at as f64 * width + 44.0, width - 44.0 - 22.0, common.end);
            draw_pool(&mut canvas, scene, &common, axis, y)
        });
        y = ends.fold(y, f64::max) + 16.0;
    }
    let titles: Vec<&str> = scenes.iter().map(|scene| scene.title.as_str()).collect();
    canvas.finish(layout.width, y, &titles.join(" beside "))
}

/// The scales that all columns share.
struct Common {
    end: Duration,
    threads: usize,
    queue: usize,
    refused: usize,
    /// Decades of the waiting times, in seconds.
    waits: (f64, f64),
    /// The least share on the axis of waiting times.
    least_share: f64,
}

impl Common {
    fn of(scenes: &[&Record]) -> Common {
        let most = |of: fn(&Record) -> usize| scenes.iter().map(|scene| of(scene)).max().unwrap_or(0);
        let longest =
            scenes.iter().filter_map(|scene| scene.waits().last().copied()).max().unwrap_or_default();
        let longest = 10f64.powf(longest.as_secs_f64().max(1e-2).log10().ceil());
        Common {
            end: scenes.iter().map(|scene| picture_end(scene)).max().unwrap_or_default(),
            threads: most(|scene| scene.peak_threads),
            queue: most(|scene| scene.depth().iter().map(|(_, value)| *value).max().unwrap_or(0)),
            refused: most(|scene| scene.refusals().len()),
            waits: (longest * 1e-4, longest),
            least_share: if most(|scene| scene.tasks.len()) >= 2000 { 1e-3 } else { 1e-2 },
        }
    }
}

fn draw_pool(canvas: &mut Canvas, scene: &Record, common: &Common, axis: TimeAxis, top: f64) -> f64 {
    let arrived = scene.tasks.len();
    let refused = scene.refusals().len();
    canvas.text("p-bold p-ink", (axis.left, top + 14.0), Anchor::Start, &scene.title);
    let (class, says) = match refused {
        0 => ("p-faint", format!("none of {arrived} tasks refused")),
        n => ("p-refused", format!("{n} of {arrived} tasks refused ({:.0} %)", share(n, arrived))),
    };
    canvas.text(class, (axis.left, top + 32.0), Anchor::Start, &says);
    let panels_top = top + 38.0;
    let mut y =
        Panel::line("threads", scene.sizes()).scaled_to(common.threads).draw(canvas, axis, panels_top);
    if common.queue > 0 {
        let queue = Panel::area("queue", "p-queued", scene.depth()).scaled_to(common.queue);
        y = queue.draw(canvas, axis, y + 6.0);
    }
    if common.refused > 0 {
        let so_far = scene.refusals().iter().zip(1..).map(|((at, _), n)| (*at, n)).collect();
        let refused = Panel::area("refused so far", "p-refused", so_far).scaled_to(common.refused);
        y = refused.draw(canvas, axis, y + 6.0);
    }
    y += axis.draw(canvas, panels_top + TEXT + 6.0, y + 2.0);
    draw_tail(canvas, scene, common, axis, y + 6.0)
}

fn share(part: usize, whole: usize) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

/// The share of all tasks that waited longer than a time, both on a logarithmic scale. A refused
/// task never starts, so the curve ends at the share of the refused.
fn draw_tail(canvas: &mut Canvas, scene: &Record, common: &Common, axis: TimeAxis, top: f64) -> f64 {
    let (upper, lower) = (top + TEXT + 8.0, top + TEXT + 8.0 + TAIL_HEIGHT);
    let decades = |value: f64, (from, to): (f64, f64)| {
        ((value.max(from) / from).log10() / (to / from).log10()).clamp(0.0, 1.0)
    };
    let x = |wait: f64| axis.left + decades(wait, common.waits) * axis.width;
    let y = |share: f64| lower - decades(share, (common.least_share, 1.0)) * TAIL_HEIGHT;
    canvas.text("p-ink", (axis.left, top + TEXT), Anchor::Start, "share that waits longer than");
    let mut mark = 1.0;
    while mark >= common.least_share * 0.999 {
        canvas.line("p-grid", (axis.left, y(mark)), (axis.right(), y(mark)));
        let text = format!("{}%", mark * 100.0);
        canvas.text("p-faint", (axis.left - 4.0, y(mark) + 4.0), Anchor::End, &text);
        mark /= 10.0;
    }
    let mut mark = common.waits.0;
    while mark <= common.waits.1 * 1.001 {
        canvas.line("p-grid", (x(mark), upper), (x(mark), lower));
        let text = short(Duration::from_secs_f64(mark));
        canvas.text("p-faint", (x(mark), lower + TEXT + 3.0), Anchor::Middle, &text);
        mark *= 10.0;
    }
    let waits = scene.waits();
    let arrived = scene.tasks.len().max(1) as f64;
    let mut path = format!("M{} {}", Px(axis.left), Px(y(1.0)));
    let mut last = (f64::MIN, f64::MIN);
    for (before, wait) in waits.iter().enumerate() {
        let after = (arrived - (before + 1) as f64) / arrived;
        let at = (x(wait.as_secs_f64()).round(), y(after).round());
        if at != last {
            path.push_str(&format!("H{}V{}", at.0, at.1));
            last = at;
        }
    }
    canvas.path("p-line", "", &path);
    let refused = scene.refusals().len() as f64 / arrived;
    if refused > 0.0 {
        let from = waits.last().map_or(axis.left, |wait| x(wait.as_secs_f64()));
        let plateau = format!("M{} {}H{}", Px(from), Px(y(refused)), Px(axis.right()));
        canvas.path("p-refused p-path", " style=\"stroke-width:3\"", &plateau);
    }
    lower + TEXT + 8.0
}

/// A power of ten as a duration: `1 ms`, not `1.00 ms`.
fn short(duration: Duration) -> String {
    let text = units::show(duration);
    match text.split_once(' ') {
        Some((value, unit)) if value.contains('.') => {
            format!("{} {unit}", value.trim_end_matches('0').trim_end_matches('.'))
        }
        _ => text,
    }
}
