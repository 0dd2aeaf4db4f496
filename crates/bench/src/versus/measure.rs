//! Rounds: in each, every contestant does the work of the case once. Every round begins with
//! another contestant.

use std::time::{Duration, Instant};

use crate::contestants::field::Contestant;
use crate::machine::Load;
use crate::workloads::{Case, Failure, Outcome, Workload};

/// The remaining time, divided among the remaining cases.
pub(crate) struct Schedule {
    begin: Instant,
    whole: Duration,
    cases: usize,
    least: usize,
    most: usize,
}

impl Schedule {
    /// A quick run ends within three minutes, a whole one within twenty. A part of that is
    /// reserved for rounds that exceed their time.
    pub(crate) fn new(quick: bool, cases: usize) -> Schedule {
        let (seconds, least, most) = if quick { (120, 3, 7) } else { (960, 5, 21) };
        Schedule { begin: Instant::now(), whole: Duration::from_secs(seconds), cases, least, most }
    }

    /// The budget of the next case.
    pub(crate) fn budget(&mut self) -> Budget {
        // A part of the share is left to cases that need more for the minimum number of rounds.
        let time = self.left() / self.cases.max(1) as u32 / 2;
        self.cases = self.cases.saturating_sub(1);
        // On a slow or busy machine the last cases get few rounds instead of none.
        let least = if time.is_zero() { 2 } else { self.least };
        Budget { least, most: self.most, time }
    }

    pub(crate) fn left(&self) -> Duration {
        self.whole.saturating_sub(self.begin.elapsed())
    }
}

/// The budget of a case.
pub(crate) struct Budget {
    /// The minimum number of rounds, regardless of time.
    pub(crate) least: usize,
    pub(crate) most: usize,
    /// The time after which no further round begins.
    pub(crate) time: Duration,
}

/// The results of a case.
pub(crate) struct Measured {
    pub(crate) workload: &'static Workload,
    pub(crate) case: Case,
    /// In the order of the contestants, without those that do not support the case.
    pub(crate) rows: Vec<Row>,
    pub(crate) rounds: usize,
    /// The share of the machine that other processes used.
    pub(crate) others: Option<f64>,
    /// The distance between two cores before each contestant began, in nanoseconds.
    pub(crate) distances: Vec<f64>,
}

pub(crate) struct Row {
    /// The index of the contestant.
    pub(crate) index: usize,
    /// For each metric the figures of all rounds, or the failure.
    pub(crate) figures: Result<Vec<Vec<f64>>, String>,
}

impl Row {
    /// Returns false if the contestant does not support the case.
    fn take(&mut self, outcome: Outcome) -> bool {
        let Ok(all) = &mut self.figures else { return true };
        match outcome {
            Ok(figures) => figures.into_iter().zip(all).for_each(|(figure, rounds)| rounds.push(figure)),
            Err(Failure::NotOffered) => return false,
            Err(Failure::Wrong(what)) => self.figures = Err(what),
        }
        true
    }

    /// Median and spread of a metric. `None` after a failure, or if the system does not report it.
    pub(crate) fn figure(&self, metric: usize) -> Option<Figure> {
        Figure::of(self.figures.as_ref().ok()?.get(metric)?.iter().copied())
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Figure {
    pub(crate) median: f64,
    /// The quartiles. The extremes would describe the machine rather than the contestant.
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Figure {
    /// `None` without figures.
    pub(crate) fn of(all: impl Iterator<Item = f64>) -> Option<Figure> {
        // A figure that the system does not report is NaN.
        let mut sorted: Vec<f64> = all.filter(|figure| figure.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        // With three or fewer figures these are the extremes.
        let quarter = sorted.len().checked_sub(1)? / 4;
        let (low, high) = (sorted[quarter], sorted[sorted.len() - 1 - quarter]);
        Some(Figure { median: median(&sorted), low, high })
    }

    /// Half of the distance between the quartiles, relative to the median.
    pub(crate) fn spread(self) -> f64 {
        if self.median > 0.0 { (self.high - self.low) / 2.0 / self.median } else { 0.0 }
    }
}

fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 }
}

/// Receives the progress of a measurement.
pub(crate) trait Progress {
    /// Called when a contestant begins.
    fn begins(&mut self, round: usize, name: &str);
    /// Called when it has ended.
    fn ended(&mut self, round: usize, name: &str, outcome: &Outcome);
}

/// Measures all contestants.
pub(crate) fn measure(
    workload: &'static Workload,
    case: Case,
    contestants: &[Contestant],
    budget: &Budget,
    progress: &mut dyn Progress,
) -> Measured {
    let empty = || Ok(vec![Vec::new(); workload.metrics.len()]);
    let mut rows: Vec<Row> = (0..contestants.len()).map(|index| Row { index, figures: empty() }).collect();
    let load = || Load::now(contestants.iter().filter_map(Contestant::process));
    let before = load();
    let begin = Instant::now();
    let mut rounds = 0;
    let mut distances = Vec::new();
    let least = workload.rounds(budget.least);
    while rounds < least || (rounds < budget.most && begin.elapsed() < budget.time) {
        let first = rounds % rows.len().max(1);
        rows.rotate_left(first);
        rows.retain_mut(|row| {
            let contestant = &contestants[row.index];
            if row.figures.is_err() {
                return true;
            }
            progress.begins(rounds + 1, contestant.name);
            distances.extend(bench::distance::nanos());
            let outcome = contestant.run(&case);
            progress.ended(rounds + 1, contestant.name, &outcome);
            if workload.wants_new_process() {
                contestant.rest();
            }
            row.take(outcome)
        });
        rows.sort_by_key(|row| row.index);
        rounds += 1;
    }
    let others = before.zip(load()).and_then(|(before, now)| now.others_since(before));
    Measured { workload, case, rows, rounds, others, distances }
}
