//! Runs a pool with many seeds, in parallel.

use std::thread;

use millpond::{ThreadPoolExecutor, executors};
use millpond_sim::{Figures, Goal, Observe, Pool, simulate_stream};

use super::progress::Progress;
use super::target::Target;
use super::workload::Workload;
use crate::error::Error;

/// A pool is recommended only if means are this many standard deviations within their limits.
const MARGIN: f64 = 3.0;

/// The result of one run, compared with the target.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Run {
    pub(super) seed: u64,
    pub(super) held: bool,
    pub(super) lost: f64,
    /// For each time limit, the share of late tasks.
    pub(super) late: Vec<f64>,
    pub(super) peak_queue: usize,
}

/// Several runs of one pool with different seeds: individual and merged results.
#[derive(Debug, Clone)]
pub(super) struct Trials {
    pub(super) runs: Vec<Run>,
    /// The merged figures of all runs. Curves over time are those of the first run.
    pub(super) figures: Figures,
}

impl Trials {
    pub(super) fn new(target: Option<&Target>, runs: Vec<(u64, Figures)>) -> Trials {
        let summary = |(seed, figures): &(u64, Figures)| Run {
            seed: *seed,
            held: target.is_none_or(|target| target.is_met(figures)),
            lost: figures.lost_share(),
            late: figures.late.iter().map(|late| *late as f64 / figures.completed.max(1) as f64).collect(),
            peak_queue: figures.levels.peak_queue,
        };
        let summaries = runs.iter().map(summary).collect();
        let figures = runs.into_iter().map(|(_, figures)| figures).reduce(|mut all, next| {
            all.merge(&next);
            all
        });
        Trials { runs: summaries, figures: figures.expect("there is at least one run") }
    }

    /// The number of runs that met the target.
    pub(super) fn held(&self) -> usize {
        self.runs.iter().filter(|run| run.held).count()
    }

    pub(super) fn all_held(&self) -> bool {
        self.held() == self.runs.len()
    }

    /// The smallest and the largest share of refused tasks in a run.
    pub(super) fn lost_range(&self) -> (f64, f64) {
        let lost = self.runs.iter().map(|run| run.lost);
        (lost.clone().fold(f64::INFINITY, f64::min), lost.fold(0.0, f64::max))
    }

    /// Whether the share of refused tasks is safely within the target.
    pub(super) fn surely_loses_few(&self, target: &Target) -> bool {
        self.is_safe(target.lost, |run| run.lost)
    }

    /// Whether every run met the target, and other seeds are expected to.
    pub(super) fn is_sure(&self, target: &Target) -> bool {
        let times = target.times.iter().enumerate();
        self.all_held()
            && self.surely_loses_few(target)
            && times.into_iter().all(|(at, time)| self.is_safe(time.late(), |run| run.late[at]))
    }

    fn is_safe(&self, limit: f64, of: impl Fn(&Run) -> f64) -> bool {
        let (mean, deviation) = spread(self.runs.iter().map(&of));
        mean + MARGIN * deviation <= limit + 1e-12
    }

    /// A queue length that hardly any run exceeds, for targets that allow no refused task.
    ///
    /// The largest queue length of a run follows an extreme value distribution. For a Gumbel
    /// distribution, one run in a thousand exceeds the mean by five standard deviations.
    pub(super) fn long_enough_queue(&self) -> usize {
        let (mean, deviation) = spread(self.runs.iter().map(|run| run.peak_queue as f64));
        (mean + 5.0 * deviation).ceil() as usize
    }
}

/// Mean and standard deviation of a sample.
fn spread(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let count = values.clone().count() as f64;
    let mean = values.clone().sum::<f64>() / count;
    let squares: f64 = values.map(|value| (value - mean).powi(2)).sum();
    (mean, if count > 1.0 { (squares / (count - 1.0)).sqrt() } else { 0.0 })
}

/// Runs simulations on all cores.
#[derive(Debug)]
pub(super) struct Runner {
    workers: ThreadPoolExecutor,
    pub(super) progress: Progress,
}

impl Runner {
    pub(super) fn new(progress: Progress) -> Result<Runner, Error> {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        Ok(Runner { workers: executors::fixed(cores)?, progress })
    }

    /// One run for each seed. A run that exceeds `goal` ends early.
    pub(super) fn run(
        &self,
        workload: &Workload,
        pool: &Pool,
        goal: &Goal,
        seeds: impl Iterator<Item = u64>,
    ) -> Vec<(u64, Figures)> {
        let observe = Observe { warm_up: workload.warm_up, goal: goal.clone() };
        let mut runs: Vec<(u64, Option<Figures>)> = seeds.map(|seed| (seed, None)).collect();
        self.progress.begin_runs(runs.len());
        self.workers.scope(|scope| {
            for (seed, place) in &mut runs {
                let (observe, seed) = (&observe, *seed);
                let task = move || {
                    *place = Some(one_run(workload, pool, observe, seed));
                    self.progress.end_run();
                };
                scope.execute(task).expect("the queue is unbounded and the pool is open");
            }
        });
        let done =
            |(seed, figures): (u64, Option<Figures>)| (seed, figures.expect("the scope waits for all"));
        runs.into_iter().map(done).collect()
    }

    /// Like [`Runner::run`], but never ends a run early.
    pub(super) fn trials(
        &self,
        workload: &Workload,
        pool: &Pool,
        target: Option<&Target>,
        seeds: impl Iterator<Item = u64>,
    ) -> Trials {
        let goal = target.map(Target::goal).unwrap_or_default();
        Trials::new(target, self.run(workload, pool, &goal, seeds))
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        self.workers.close();
    }
}

/// One simulation, repeated until it has enough tasks.
fn one_run(workload: &Workload, pool: &Pool, observe: &Observe, seed: u64) -> Figures {
    // Replays have seeds that no other run uses.
    let replay = |number: u64| {
        let seed = seed.wrapping_add(number << 40);
        simulate_stream(pool, workload.world, workload.tasks(seed), observe)
    };
    let mut figures = replay(0);
    for number in 1..workload.replays() {
        if figures.given_up {
            break;
        }
        figures.merge(&replay(number));
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trials(runs: &[(f64, f64, bool)]) -> Trials {
        let run = |(lost, late, held): &(f64, f64, bool)| Run {
            seed: 1,
            held: *held,
            lost: *lost,
            late: vec![*late],
            peak_queue: (*lost * 1000.0) as usize,
        };
        Trials { runs: runs.iter().map(run).collect(), figures: Figures::default() }
    }

    #[test]
    fn one_missed_run_or_a_wide_spread_is_not_sure() {
        use super::super::target::TimeLimit;
        let time = TimeLimit { of: millpond_sim::Judged::Total, share: 0.99, limit: 1 };
        let target = Target { times: vec![time], lost: 0.01 };
        assert!(trials(&[(0.0, 0.0, true); 20]).is_sure(&target));
        let mut one = [(0.0, 0.0, true); 20];
        one[7].2 = false;
        assert!(!trials(&one).is_sure(&target));
        // All runs are within the limit, but three deviations above the mean are not.
        let wide: Vec<_> = (0..20).map(|at| (if at % 2 == 0 { 0.0 } else { 0.009 }, 0.0, true)).collect();
        assert!(!trials(&wide).is_sure(&target));
        let narrow: Vec<_> = (0..20).map(|at| (if at % 2 == 0 { 0.004 } else { 0.005 }, 0.0, true)).collect();
        assert!(trials(&narrow).is_sure(&target));
        let late: Vec<_> = (0..20).map(|at| (0.0, if at % 2 == 0 { 0.001 } else { 0.008 }, true)).collect();
        assert!(!trials(&late).is_sure(&target));
    }

    #[test]
    fn a_queue_that_is_long_enough_exceeds_all_that_were_seen() {
        let seen = trials(&[(0.010, 0.0, true), (0.012, 0.0, true), (0.014, 0.0, true)]);
        assert_eq!(seen.long_enough_queue(), 22);
        assert_eq!(trials(&[(0.010, 0.0, true)]).long_enough_queue(), 10);
    }
}
