//! Rounds: in each, every contestant does the work of the case once, and every round begins with another one.

use std::time::{Duration, Instant};

use crate::contestants::Contestant;
use crate::machine::Load;
use crate::workloads::{Case, Failure, Workload};

/// How long a case may take.
pub(crate) struct Budget {
    /// So many rounds, however long they take.
    pub(crate) least: usize,
    pub(crate) most: usize,
    /// After that no further round begins.
    pub(crate) time: Duration,
}

/// What came out of a case.
pub(crate) struct Measured {
    pub(crate) workload: &'static Workload,
    pub(crate) case: Case,
    /// In the order of the contestants; those that have nothing of this kind are not in it.
    pub(crate) rows: Vec<Row>,
    pub(crate) rounds: usize,
    /// The share of the machine that others used meanwhile.
    pub(crate) others: Option<f64>,
}

pub(crate) struct Row {
    /// Which contestant.
    pub(crate) index: usize,
    /// For each metric the figures of all rounds, or what went wrong.
    pub(crate) figures: Result<Vec<Vec<f64>>, String>,
}

impl Row {
    /// Median and spread of a metric. None if something went wrong.
    pub(crate) fn figure(&self, metric: usize) -> Option<Figure> {
        let mut rounds = self.figures.as_ref().ok()?.get(metric)?.clone();
        rounds.sort_by(f64::total_cmp);
        let (least, most) = (*rounds.first()?, *rounds.last()?);
        Some(Figure { median: median(&rounds), least, most })
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Figure {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

impl Figure {
    /// Half of the range, as a share of the median.
    pub(crate) fn spread(self) -> f64 {
        if self.median > 0.0 { (self.most - self.least) / 2.0 / self.median } else { 0.0 }
    }
}

fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 }
}

/// Measures all contestants. `progress` is told the round and the contestant.
pub(crate) fn measure(
    workload: &'static Workload,
    case: Case,
    contestants: &[Box<dyn Contestant>],
    budget: &Budget,
    mut progress: impl FnMut(usize, &str),
) -> Measured {
    let empty = || Ok(vec![Vec::new(); workload.metrics.len()]);
    let mut rows: Vec<Row> = (0..contestants.len()).map(|index| Row { index, figures: empty() }).collect();
    let child = contestants.iter().find_map(|contestant| contestant.process());
    let before = Load::now(child);
    let begin = Instant::now();
    let mut rounds = 0;
    while rounds < budget.least || (rounds < budget.most && begin.elapsed() < budget.time) {
        let first = rounds % rows.len().max(1);
        rows.rotate_left(first);
        rows.retain_mut(|row| {
            let contestant = &contestants[row.index];
            progress(rounds + 1, contestant.name());
            once(&**contestant, &case, row)
        });
        rows.sort_by_key(|row| row.index);
        rounds += 1;
    }
    let others = before.zip(Load::now(child)).and_then(|(before, now)| now.others_since(before));
    Measured { workload, case, rows, rounds, others }
}

/// False: the contestant has nothing of this kind.
fn once(contestant: &dyn Contestant, case: &Case, row: &mut Row) -> bool {
    let Ok(all) = &mut row.figures else { return true };
    match contestant.run(case) {
        Ok(figures) => figures.into_iter().zip(all).for_each(|(figure, rounds)| rounds.push(figure)),
        Err(Failure::NotOffered) => return false,
        Err(Failure::Wrong(what)) => row.figures = Err(what),
    }
    true
}
