//! Rounds: in each, every contestant does the work of the case once, and every round begins with
//! another one.

use std::time::{Duration, Instant};

use crate::contestants::field::Contestant;
use crate::machine::Load;
use crate::workloads::{Case, Failure, Outcome, Workload};

/// The time that is left, divided among the cases that are left.
pub(crate) struct Schedule {
    begin: Instant,
    whole: Duration,
    cases: usize,
    least: usize,
    most: usize,
}

impl Schedule {
    /// A quick run is to end within three minutes, a whole one within fifteen: some of that is for
    /// what the last rounds take beyond their time.
    pub(crate) fn new(quick: bool, cases: usize) -> Schedule {
        let (seconds, least, most) = if quick { (120, 3, 7) } else { (720, 5, 21) };
        Schedule { begin: Instant::now(), whole: Duration::from_secs(seconds), cases, least, most }
    }

    /// For the next case.
    pub(crate) fn budget(&mut self) -> Budget {
        // A part of its share is left to those that need more than theirs for the least number of
        // rounds.
        let time = self.left() / self.cases.max(1) as u32 / 2;
        self.cases = self.cases.saturating_sub(1);
        // On a machine that is slow or busy the last cases have few rounds rather than none.
        let least = if time.is_zero() { 2 } else { self.least };
        Budget { least, most: self.most, time }
    }

    pub(crate) fn left(&self) -> Duration {
        self.whole.saturating_sub(self.begin.elapsed())
    }
}

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
    /// How far two cores were from each other before each contestant began, in nanoseconds.
    pub(crate) distances: Vec<f64>,
}

pub(crate) struct Row {
    /// Which contestant.
    pub(crate) index: usize,
    /// For each metric the figures of all rounds, or what went wrong.
    pub(crate) figures: Result<Vec<Vec<f64>>, String>,
}

impl Row {
    /// False: the contestant has nothing of this kind.
    fn take(&mut self, outcome: Outcome) -> bool {
        let Ok(all) = &mut self.figures else { return true };
        match outcome {
            Ok(figures) => figures.into_iter().zip(all).for_each(|(figure, rounds)| rounds.push(figure)),
            Err(Failure::NotOffered) => return false,
            Err(Failure::Wrong(what)) => self.figures = Err(what),
        }
        true
    }

    /// Median and spread of a metric. None if something went wrong, or the machine does not tell.
    pub(crate) fn figure(&self, metric: usize) -> Option<Figure> {
        Figure::of(self.figures.as_ref().ok()?.get(metric)?.iter().copied())
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Figure {
    pub(crate) median: f64,
    /// The quartiles: the extremes would tell more about the machine, and the more rounds, the more
    /// so.
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Figure {
    /// None: there are none, or the machine does not tell.
    pub(crate) fn of(all: impl Iterator<Item = f64>) -> Option<Figure> {
        // What the machine does not tell is not a number.
        let mut sorted: Vec<f64> = all.filter(|figure| figure.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        // Of three or fewer these are the extremes.
        let quarter = sorted.len().checked_sub(1)? / 4;
        let (low, high) = (sorted[quarter], sorted[sorted.len() - 1 - quarter]);
        Some(Figure { median: median(&sorted), low, high })
    }

    /// Half of the distance between the quartiles, as a share of the median.
    pub(crate) fn spread(self) -> f64 {
        if self.median > 0.0 { (self.high - self.low) / 2.0 / self.median } else { 0.0 }
    }
}

fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 }
}

/// Who is told how it goes.
pub(crate) trait Progress {
    /// A contestant begins.
    fn begins(&mut self, round: usize, name: &str);
    /// It has ended.
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
