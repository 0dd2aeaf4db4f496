//! The figures of all pools under one load: a row for each figure, a column for each pool and for each formula.

use std::time::Duration;

use millpond_sim::{Figures, Histogram};

use super::super::theory::{ClosedForm, PERCENTILES};
use super::super::words::PerSecond;
use super::super::{Case, Plan};
use super::{percent, three};
use crate::units;

/// A column: what stands at its head, and its cells.
#[derive(Debug)]
pub(super) struct Column {
    pub(super) head: String,
    pub(super) cells: Vec<String>,
    /// A formula; it belongs to the pool before it.
    pub(super) is_formula: bool,
}

/// What stands before the rows, and the columns.
#[derive(Debug)]
pub(super) struct Grid {
    pub(super) rows: Vec<&'static str>,
    pub(super) columns: Vec<Column>,
}

type Cell = fn(&Case) -> String;
type FormulaCell = fn(&ClosedForm) -> Option<String>;

/// One row: its name, what a pool shows in it, and what a formula does.
struct Row(&'static str, Cell, FormulaCell);

const NOTHING: FormulaCell = |_| None;

fn time(nanos: f64) -> String {
    units::show(Duration::from_nanos(nanos.round() as u64))
}

fn percentile(of: &Histogram, at: usize) -> String {
    time(of.percentile(PERCENTILES[at]) as f64)
}

fn rows(plan: &Plan) -> Vec<Row> {
    let any = |of: fn(&Figures) -> bool| plan.cases.iter().any(|case| of(&case.figures));
    let mut rows = vec![
        Row("throughput", |case| PerSecond(case.figures.throughput()).to_string(), NOTHING),
        Row("refused", |case| percent(case.figures.lost_share()), |formula| formula.rejected.map(percent)),
    ];
    if any(|figures| figures.in_caller > 0) {
        rows.push(Row(
            "ran in caller",
            |case| percent(case.figures.in_caller as f64 / case.figures.arrived.max(1) as f64),
            NOTHING,
        ));
    }
    rows.extend([
        Row(
            "had to wait",
            |case| percent(case.figures.waited as f64 / case.figures.completed.max(1) as f64),
            |formula| formula.waited.map(percent),
        ),
        Row("wait mean", |case| time(case.figures.waits.mean()), |formula| formula.wait_mean.map(time)),
        Row(
            "     p50",
            |case| percentile(&case.figures.waits, 0),
            |formula| formula.wait.map(|w| time(w[0])),
        ),
        Row(
            "     p90",
            |case| percentile(&case.figures.waits, 1),
            |formula| formula.wait.map(|w| time(w[1])),
        ),
        Row(
            "     p99",
            |case| percentile(&case.figures.waits, 2),
            |formula| formula.wait.map(|w| time(w[2])),
        ),
        Row(
            "     p99.9",
            |case| percentile(&case.figures.waits, 3),
            |formula| formula.wait.map(|w| time(w[3])),
        ),
        Row("     longest", |case| time(case.figures.waits.most() as f64), NOTHING),
        Row("total mean", |case| time(case.figures.totals.mean()), |formula| formula.total_mean.map(time)),
        Row("     p50", |case| percentile(&case.figures.totals, 0), NOTHING),
        Row("     p90", |case| percentile(&case.figures.totals, 1), NOTHING),
        Row("     p99", |case| percentile(&case.figures.totals, 2), NOTHING),
        Row("     p99.9", |case| percentile(&case.figures.totals, 3), NOTHING),
        Row("     longest", |case| time(case.figures.totals.most() as f64), NOTHING),
        Row("threads mean", |case| three(case.figures.levels.mean_threads()), NOTHING),
        Row("     busy", |case| three(case.figures.levels.mean_busy()), |formula| formula.busy.map(three)),
        Row("     peak", |case| units::show_count(case.figures.levels.peak_threads as u64), NOTHING),
        Row("utilisation", |case| percent(case.figures.levels.utilisation()), NOTHING),
    ]);
    if any(|figures| figures.levels.mean_cores() > 0.0) {
        rows.push(Row("cores busy", |case| three(case.figures.levels.mean_cores()), NOTHING));
    }
    rows.extend([
        Row("queue mean", |case| three(case.figures.levels.mean_queue()), NOTHING),
        Row("     peak", |case| units::show_count(case.figures.levels.peak_queue as u64), NOTHING),
        Row("tasks inside", |case| three(case.figures.levels.mean_inside()), NOTHING),
        Row("     by Little", |case| three(by_little(&case.figures)), NOTHING),
        Row("drained after", |case| time(case.figures.drain() as f64), NOTHING),
    ]);
    if plan.cases.iter().any(|case| case.meets.is_some()) {
        rows.push(Row(
            "target",
            |case| match case.meets {
                Some(true) => "met".to_owned(),
                Some(false) => "MISSED".to_owned(),
                None => String::new(),
            },
            NOTHING,
        ));
    }
    rows
}

/// The other side of Little's law: tasks per second, times how long each is inside.
pub(super) fn by_little(figures: &Figures) -> f64 {
    figures.throughput() * figures.totals.mean() / 1e9
}

/// All of it.
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
