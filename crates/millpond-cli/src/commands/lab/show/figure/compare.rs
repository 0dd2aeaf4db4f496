//! Pools side by side: a column per pool, with the same panels and scales.

use std::time::Duration;

use super::super::super::record::Record;
use super::super::picture_end;
use crate::canvas::{Anchor, Canvas, TEXT};
use crate::figure::{Layout, Panel, Tail, TimeAxis, side_by_side};

/// The scenes of a comparison as one picture.
pub(crate) fn comparison(scenes: &[&Record], layout: Layout) -> String {
    let common = Common::of(scenes);
    let mut canvas = Canvas::default();
    let y = side_by_side(scenes, layout, common.end, 4.0, |scene, axis, top| {
        draw_pool(&mut canvas, scene, &common, axis, top)
    });
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
    /// Lower end of the axis of shares.
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
    tail(scene, common).draw(canvas, axis, y + 6.0)
}

fn share(part: usize, whole: usize) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

fn tail(scene: &Record, common: &Common) -> Tail {
    let arrived = scene.tasks.len().max(1) as f64;
    let curve = scene.waits().into_iter().enumerate().map(|(before, wait)| {
        let after = (arrived - (before + 1) as f64) / arrived;
        (wait.as_secs_f64(), after)
    });
    Tail {
        title: "share that waits longer than",
        curve: curve.collect(),
        lost: scene.refusals().len() as f64 / arrived,
        limit: None,
        times: common.waits,
        least_share: common.least_share,
    }
}
