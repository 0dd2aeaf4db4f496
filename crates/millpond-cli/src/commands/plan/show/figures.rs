//! The figures of all pools under one load: a row for each figure, a column for each pool and
//! formula.

use std::time::Duration;

use millpond_sim::{Figures, Histogram};

use super::super::theory::{ClosedForm, PERCENTILES};
use super::super::words::PerSecond;
use super::super::{Case, Plan};
use super::answer::{headroom, verdict};
use super::{percent, three};
use crate::units;

/// A column: heading and cells.
#[derive(Debug)]
pub(super) struct Column {
    pub(super) head: String,
    pub(super) cells: Vec<String>,
    /// Whether it is a formula. It then belongs to the pool before it.
    pub(super) is_formula: bool,
}

/// The names of the rows, and the columns.
#[derive(Debug)]
pub(super) struct Grid {
    pub(super) rows: Vec<&'static str>,
    pub(super) columns: Vec<Column>,
}

type Cell = Box<dyn Fn(&Case) -> String>;
type FormulaCell = Box<dyn Fn(&ClosedForm) -> Option<String>>;

/// One row: its name, the cell of a pool, and the cell of a formula.
struct Row(&'static str, Cell, FormulaCell);

impl Row {
    fn new(name: &'static str, cell: impl Fn(&Figures) -> String + 'static) -> Row {
        Row(name, Box::new(move |case| cell(&case.trials.figures)), Box::new(|_| None))
    }

    fn beside(self, formula: impl Fn(&ClosedForm) -> Option<String> + 'static) -> Row {
        Row(self.0, self.1, Box::new(formula))
    }
}

/// The ratio of a part to a whole that may be zero.
fn share(part: u64, whole: u64) -> String {
    percent(part as f64 / whole.max(1) as f64)
}

fn time(nanos: f64) -> String {
    units::show(Duration::from_nanos(nanos.round() as u64))
}

/// The names of the rows of percentiles.
const PERCENTILE_ROWS: [&str; 4] = ["     p50", "     p90", "     p99", "     p99.9"];

/// The rows below the mean of a time: its percentiles and the maximum.
fn spread(
    of: fn(&Figures) -> &Histogram,
    formula: fn(&ClosedForm) -> Option<[f64; 4]>,
) -> impl Iterator<Item = Row> {
    let percentile = move |at: usize| {
        Row::new(PERCENTILE_ROWS[at], move |figures| time(of(figures).percentile(PERCENTILES[at]) as f64))
            .beside(move |form| formula(form).map(|times| time(times[at])))
    };
    let longest = Row::new("     longest", move |figures| time(of(figures).most() as f64));
    (0..PERCENTILES.len()).map(percentile).chain([longest])
}

fn rows(plan: &Plan) -> Vec<Row> {
    let any = |of: fn(&Figures) -> bool| plan.cases.iter().any(|case| of(&case.trials.figures));
    let mut rows = vec![
        Row::new("throughput", |figures| PerSecond(figures.throughput()).to_string()),
        Row::new("refused", |figures| percent(figures.lost_share()))
            .beside(|form| form.rejected.map(percent)),
    ];
    if any(|figures| figures.in_caller > 0) {
        rows.push(Row::new("ran in caller", |figures| share(figures.in_caller, figures.arrived)));
    }
    rows.push(
        Row::new("had to wait", |figures| share(figures.waited, figures.completed))
            .beside(|form| form.waited.map(percent)),
    );
    rows.push(
        Row::new("wait mean", |figures| time(figures.waits.mean())).beside(|form| form.wait_mean.map(time)),
    );
    rows.extend(spread(|figures| &figures.waits, |form| form.wait));
    rows.push(
        Row::new("total mean", |figures| time(figures.totals.mean()))
            .beside(|form| form.total_mean.map(time)),
    );
    rows.extend(spread(|figures| &figures.totals, |form| form.total));
    rows.extend(levels(any(|figures| figures.levels.mean_cores() > 0.0)));
    if plan.cases.iter().any(|case| case.meets.is_some()) {
        rows.push(Row("target", Box::new(verdict), Box::new(|_| None)));
        rows.push(Row("breaks at load", Box::new(headroom), Box::new(|_| None)));
    }
    rows
}

/// Threads, queue and cores over time.
fn levels(computes: bool) -> Vec<Row> {
    let mut rows = vec![
        Row::new("threads mean", |figures| three(figures.levels.mean_threads())),
        Row::new("     busy", |figures| three(figures.levels.mean_busy()))
            .beside(|form| form.busy.map(three)),
        Row::new("     peak", |figures| units::show_count(figures.levels.peak_threads as u64)),
        Row::new("utilisation", |figures| percent(figures.levels.utilisation())),
    ];
    if computes {
        rows.push(Row::new("cores busy", |figures| three(figures.levels.mean_cores())));
    }
    rows.extend([
        Row::new("queue mean", |figures| three(figures.levels.mean_queue())),
        Row::new("     peak", |figures| units::show_count(figures.levels.peak_queue as u64)),
        Row::new("drained after", |figures| time(figures.drain as f64)),
    ]);
    rows
}

/// The other side of Little's law: tasks per second × mean time in the pool.
pub(super) fn by_little(figures: &Figures) -> f64 {
    figures.throughput() * figures.totals.mean() / 1e9
}

/// The figures of one load.
pub(super) fn grid(plan: &Plan) -> Grid {
    let rows = rows(plan);
    let mut columns = Vec::new();
    for case in &plan.cases {
        let cells = rows.iter().map(|Row(_, cell, _)| cell(case)).collect();
        columns.push(Column { head: case.pool.name.clone(), cells, is_formula: false });
        if let Some(Ok(formula)) = &case.formula {
            let cells = rows.iter().map(|Row(_, _, cell)| cell(formula).unwrap_or_default()).collect();
            columns.push(Column { head: formula.name.to_owned(), cells, is_formula: true });
        }
    }
    Grid { rows: rows.iter().map(|Row(name, ..)| *name).collect(), columns }
}
