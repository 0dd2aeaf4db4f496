//! Charts of a plan as SVG.

use millpond_sim::Bin;

use super::super::target::Target;
use super::super::{Case, Plan};
use super::{judged, load_name};
use crate::error::Error;
use crate::svg::{self, Chart, Curve};

const SIZE: (u32, u32) = (900, 280);

/// A chart that is not drawn yet.
#[derive(Debug)]
pub(super) struct Panel {
    pub(super) title: String,
    pub(super) caption: &'static str,
    x: String,
    y: &'static str,
    curves: Vec<Curve>,
}

impl Panel {
    fn chart(&self) -> Chart<'_> {
        Chart { title: &self.title, x: &self.x, y: self.y, size: SIZE }
    }

    /// The chart by itself.
    pub(super) fn svg(&self) -> Result<String, Error> {
        self.chart().curves(&self.curves)
    }
}

/// All charts in one picture, one below the other.
pub(crate) fn all(plans: &[Plan], target: Option<&Target>) -> Result<String, Error> {
    let panels: Vec<Panel> = plans.iter().flat_map(|plan| panels(plan, target, plans.len() > 1)).collect();
    let (width, height) = SIZE;
    svg::draw((width, height * panels.len().max(1) as u32), |paper| {
        let mut rest = paper.clone();
        for panel in &panels {
            let (mine, below) = rest.split_vertically(height);
            panel.chart().draw_on(&mine, &panel.curves)?;
            rest = below;
        }
        Ok(())
    })
}

/// The charts of one load.
pub(super) fn panels(plan: &Plan, target: Option<&Target>, several: bool) -> Vec<Panel> {
    let title = |what: &str| {
        if several { format!("{what}, at {}", load_name(plan.factor)) } else { what.to_owned() }
    };
    let over_time = |what: &str, y, caption, of: fn(&Bin) -> f64| Panel {
        title: title(what),
        caption,
        x: "seconds".to_owned(),
        y,
        curves: plan.cases.iter().map(|case| curve(case, of)).collect(),
    };
    let mut panels = Vec::new();
    panels.extend(tried(plan, target, &title));
    if plan.cases.is_empty() {
        return panels;
    }
    panels.push(over_time("Threads", "threads", "How many threads each pool has.", |bin| bin.threads as f64));
    panels.push(over_time(
        "Tasks that wait for a thread",
        "tasks",
        "How many tasks wait for a thread.",
        |bin| bin.queue as f64,
    ));
    panels.push(shares(plan, title("Total time")));
    panels
}

fn curve(case: &Case, of: fn(&Bin) -> f64) -> Curve {
    let points = case.trials.figures.levels.curve().map(|(at, bin)| (at as f64 / 1e9, of(bin)));
    Curve { name: case.pool.name.clone(), points: points.collect() }
}

/// How many tasks have ended after how long. One slow pool should not make all others a line at the
/// left: the picture ends where the best has long been done.
fn shares(plan: &Plan, title: String) -> Panel {
    let long = |case: &Case| case.trials.figures.totals.percentile(0.999) as f64;
    let fastest = plan.cases.iter().map(long).fold(f64::INFINITY, f64::min);
    let end = plan.cases.iter().map(long).fold(0.0, f64::max).min(fastest * 10.0);
    let (unit, length) = if end >= 5e9 { ("seconds", 1e9) } else { ("milliseconds", 1e6) };
    let curves = plan.cases.iter().map(|case| {
        let shares = case.trials.figures.totals.shares().filter(|(at, _)| *at as f64 <= end);
        let mut points = vec![(0.0, 0.0)];
        let mut last = 0.0;
        for (at, share) in shares {
            let share = share * 100.0;
            // A few hundred points are a curve; more only make the file large.
            if share - last >= 0.2 || points.len() < 2 {
                points.push((at as f64 / length, share));
                last = share;
            }
        }
        Curve { name: case.pool.name.clone(), points }
    });
    Panel {
        title,
        caption: "The share of the tasks that have ended after so long.",
        x: unit.to_owned(),
        y: "% ended",
        curves: curves.collect(),
    }
}

/// What the search saw.
fn tried(plan: &Plan, target: Option<&Target>, title: &dyn Fn(&str) -> String) -> Option<Panel> {
    let (answer, target) = plan.answer.as_ref().zip(target)?;
    // Far too few threads have waits without end; they would hide the rest.
    let limit = target.first().limit as f64 * 10.0;
    let points: Vec<(f64, f64)> = answer
        .tries
        .iter()
        .filter(|tried| tried.time as f64 <= limit)
        .map(|tried| (tried.threads as f64, tried.time as f64 / 1e6))
        .collect();
    let (first, last) = (points.first()?.0, points.last()?.0);
    let p99 = target.first().limit as f64 / 1e6;
    let wanted = Curve { name: "target".to_owned(), points: vec![(first, p99), (last, p99)] };
    let name = judged(target.first());
    (last > first).then(|| Panel {
        title: title("Threads and p99"),
        caption: "The numbers of threads that were tried, each with its best queue.",
        x: "threads".to_owned(),
        y: "milliseconds",
        curves: vec![Curve { name, points }, wanted],
    })
}
