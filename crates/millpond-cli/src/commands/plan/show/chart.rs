//! Charts of a plan as SVG: the pools side by side with the same scales, and the search's attempts.

use std::time::Duration;

use super::super::search::Try;
use super::super::target::Target;
use super::super::{Case, Plan};
use super::{judged, load_name, percent};
use crate::canvas::{Anchor, Canvas, TEXT};
use crate::figure::{Column, Layout, NARROW, Panel, Tail, TimeAxis, WIDE, side_by_side};
use crate::units;

/// A picture in two widths, with its caption.
#[derive(Debug)]
pub(super) struct Picture {
    pub(super) wide: String,
    pub(super) narrow: String,
    pub(super) caption: &'static str,
}

/// All charts in one document, one below the other.
pub(crate) fn all(plans: &[Plan], target: Option<&Target>) -> String {
    let mut canvas = Canvas::default();
    let mut y = 8.0;
    for plan in plans {
        if plans.len() > 1 {
            let title = format!("At {}", load_name(plan.factor));
            canvas.text("p-bold p-ink", (12.0, y + 14.0), Anchor::Start, &title);
            y += 26.0;
        }
        y = draw_tries(&mut canvas, plan, target, WIDE, y);
        y = draw_cases(&mut canvas, plan, target, WIDE, y);
    }
    canvas.finish(WIDE.width, y.max(1.0), "millpond plan")
}

/// The pictures of one load.
pub(super) fn pictures(plan: &Plan, target: Option<&Target>) -> Vec<Picture> {
    let picture = |draw: fn(&mut Canvas, &Plan, Option<&Target>, Layout, f64) -> f64, caption| {
        let [wide, narrow] = [WIDE, NARROW].map(|layout| {
            let mut canvas = Canvas::default();
            let height = draw(&mut canvas, plan, target, layout, 4.0);
            canvas.finish(layout.width, height, caption)
        });
        Picture { wide, narrow, caption }
    };
    let mut pictures = Vec::new();
    if tries(plan, target).is_some() {
        let caption = "The numbers of threads that the search tried, each with its best queue. \
                       A hollow dot misses the target; an arrow is a value above the picture.";
        pictures.push(picture(draw_tries, caption));
    }
    if !plan.cases.is_empty() {
        let caption = "All pools have the same scales. The queue is a mean with a band from least to \
                       most. The tail counts refused tasks as never done (red).";
        pictures.push(picture(draw_cases, caption));
    }
    pictures
}

/// The scales that all pools share.
struct Common {
    end: Duration,
    threads: usize,
    /// Whether the number of threads changes in any pool.
    threads_change: bool,
    queue: usize,
    /// Range of the time axis in seconds, both powers of ten.
    times: (f64, f64),
    least_share: f64,
    limit: Option<(f64, String)>,
}

impl Common {
    fn of(plan: &Plan, target: Option<&Target>) -> Common {
        let levels = || plan.cases.iter().map(|case| &case.trials.figures.levels);
        let ends = levels().filter_map(|levels| levels.curve().map(|(at, _)| at).last());
        let longest = plan.cases.iter().map(|case| case.trials.figures.totals.most()).max().unwrap_or(0);
        let longest = 10f64.powf((longest as f64 / 1e9).max(1e-3).log10().ceil());
        let limit = target.map(|target| {
            let first = target.first();
            (first.limit as f64 / 1e9, units::show(Duration::from_nanos(first.limit)))
        });
        Common {
            end: Duration::from_nanos(ends.max().unwrap_or(1)),
            threads: levels().map(|levels| levels.peak_threads).max().unwrap_or(1),
            threads_change: plan.cases.iter().any(|case| constant_threads(case).is_none()),
            queue: levels().map(|levels| levels.peak_queue).max().unwrap_or(0),
            times: (longest * 1e-4, longest),
            least_share: 1e-3,
            limit,
        }
    }
}

fn draw_cases(canvas: &mut Canvas, plan: &Plan, target: Option<&Target>, layout: Layout, top: f64) -> f64 {
    let common = Common::of(plan, target);
    side_by_side(&plan.cases, layout, common.end, top, |case, axis, top| {
        draw_case(canvas, case, &common, axis, top)
    })
}

fn draw_case(canvas: &mut Canvas, case: &Case, common: &Common, axis: TimeAxis, top: f64) -> f64 {
    let figures = &case.trials.figures;
    canvas.text("p-bold p-ink", (axis.left, top + 14.0), Anchor::Start, &case.pool.name);
    let lost = figures.lost_share();
    let (class, says) = match lost {
        0.0 => ("p-faint", "no task refused".to_owned()),
        lost => ("p-refused", format!("{} refused", percent(lost))),
    };
    canvas.text(class, (axis.left, top + 32.0), Anchor::Start, &says);
    let panels_top = top + 38.0;
    let mut y = draw_threads(canvas, case, common, axis, panels_top);
    // The grid begins with the first panel. A constant number of threads is text, not a panel.
    let grid_top = if common.threads_change { panels_top } else { y + 6.0 } + TEXT + 6.0;
    if common.queue > 0 {
        let columns = figures.levels.curve().map(|(at, bin)| {
            let column = Column { least: bin.least_queue, most: bin.queue, mean: bin.mean_queue() };
            (Duration::from_nanos(at), column)
        });
        let queue = Panel::band("queue", "p-queued", columns.collect()).scaled_to(common.queue);
        y = queue.draw(canvas, axis, y + 6.0);
    }
    y += axis.draw(canvas, grid_top, y + 2.0);
    tail(case, common, lost).draw(canvas, axis, y + 6.0)
}

/// The number of threads, if it is constant after the first interval.
fn constant_threads(case: &Case) -> Option<usize> {
    let mut threads = case.trials.figures.levels.curve().skip(1).map(|(_, bin)| bin.threads);
    let first = threads.next()?;
    threads.all(|threads| threads == first).then_some(first)
}

/// Threads over time, or one number if it is constant. Adjacent pools stay aligned.
fn draw_threads(canvas: &mut Canvas, case: &Case, common: &Common, axis: TimeAxis, top: f64) -> f64 {
    if let Some(threads) = constant_threads(case) {
        let text = format!("threads: {threads} all the time");
        canvas.text("p-ink", (axis.left, top + TEXT), Anchor::Start, &text);
        return if common.threads_change { top + Panel::FULL_HEIGHT } else { top + TEXT + 2.0 };
    }
    let steps = case.trials.figures.levels.curve();
    let steps = steps.map(|(at, bin)| (Duration::from_nanos(at), bin.threads)).collect();
    Panel::line("threads", steps).scaled_to(common.threads).draw(canvas, axis, top)
}

fn tail(case: &Case, common: &Common, lost: f64) -> Tail {
    let curve = case.trials.figures.totals.shares().map(|(at, done)| {
        let longer = lost + (1.0 - lost) * (1.0 - done);
        (at as f64 / 1e9, longer)
    });
    Tail {
        title: "share that takes longer than",
        curve: curve.collect(),
        lost,
        limit: common.limit.clone(),
        times: common.times,
        least_share: common.least_share,
    }
}

/// The attempts of the search, from one thread below the answer; `None` if there are too few.
fn tries<'a>(plan: &'a Plan, target: Option<&Target>) -> Option<Vec<&'a Try>> {
    let answer = plan.answer.as_ref()?;
    target?;
    let mut tries: Vec<&Try> = answer.tries.iter().collect();
    tries.sort_by_key(|tried| tried.threads);
    tries.dedup_by_key(|tried| tried.threads);
    let first = tries.iter().position(|tried| tried.meets).unwrap_or(tries.len().saturating_sub(1));
    let shown: Vec<&Try> = tries.split_off(first.saturating_sub(1)).into_iter().take(12).collect();
    (shown.len() > 1).then_some(shown)
}

/// A dot for each number of threads: the percentile above, the share of refused tasks below.
fn draw_tries(canvas: &mut Canvas, plan: &Plan, target: Option<&Target>, layout: Layout, top: f64) -> f64 {
    const HEIGHT: f64 = 110.0;
    /// Leaves room for a share of refused tasks, and for the word "target" on the right.
    const LEAST_WIDTH: f64 = 54.0;
    let Some((mut tries, target)) = tries(plan, target).zip(target) else { return top };
    let (left, right) = (layout.left, layout.width - LEAST_WIDTH);
    tries.truncate(((right - left) / LEAST_WIDTH) as usize);
    let limit = target.first().limit;
    let most = tries.iter().map(|tried| tried.time).max().unwrap_or(limit).max(limit).min(2 * limit) as f64;
    let (upper, lower) = (top + TEXT + 22.0, top + TEXT + 22.0 + HEIGHT);
    let y = |nanos: f64| lower - (nanos / (most * 1.1)).min(1.0) * HEIGHT;
    let x = |at: usize| left + (at as f64 + 0.5) / tries.len() as f64 * (right - left);
    let title = format!("{} by number of threads", judged(target.first()));
    canvas.text("p-ink", (left, top + TEXT), Anchor::Start, &title);
    for (value, base) in [(0.0, lower), (limit as f64, y(limit as f64))] {
        canvas.line(if value == 0.0 { "p-grid" } else { "p-bound" }, (left, base), (right, base));
        let text = if value == 0.0 { "0".to_owned() } else { show(limit) };
        canvas.text("p-faint", (left - 5.0, base + 4.0), Anchor::End, &text);
    }
    canvas.text("p-faint", (right + 5.0, y(limit as f64) + 4.0), Anchor::Start, "target");
    for (at, tried) in tries.iter().enumerate() {
        let (cx, cy) = (x(at), y(tried.time as f64));
        let tip = format!("{} threads: {}, {} refused", tried.threads, show(tried.time), percent(tried.lost));
        if tried.time as f64 > most * 1.1 {
            let arrow = format!("M{cx:.1} {upper:.1}l-5 9h10Z");
            canvas.path("p-refused", "", &arrow);
            canvas.text("p-faint", (cx + 8.0, upper + 8.0), Anchor::Start, &show(tried.time));
        } else {
            canvas.dot(if tried.meets { "p-core" } else { "p-refused" }, (cx, cy), tried.meets, &tip);
        }
        canvas.text("p-ink", (cx, lower + TEXT + 4.0), Anchor::Middle, &tried.threads.to_string());
        let class = if tried.lost > 0.0 { "p-refused" } else { "p-faint" };
        canvas.text(class, (cx, lower + 2.0 * TEXT + 8.0), Anchor::Middle, &percent(tried.lost));
    }
    canvas.text("p-faint", (left - 5.0, lower + TEXT + 4.0), Anchor::End, "threads");
    canvas.text("p-faint", (left - 5.0, lower + 2.0 * TEXT + 8.0), Anchor::End, "refused");
    lower + 2.0 * TEXT + 24.0
}

fn show(nanos: u64) -> String {
    units::show(Duration::from_nanos(nanos))
}
