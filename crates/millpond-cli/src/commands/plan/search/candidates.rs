//! Candidates at one load: by the exact formula where there is one, by simulation on a few seeds
//! otherwise.

use std::collections::BTreeMap;

use millpond_sim::{Figures, Goal, Pool};

use super::super::target::Target;
use super::super::theory::{self, Steady};
use super::super::trials::Runner;
use super::super::workload::Workload;
use super::{Try, search_seeds};

/// The longest queue to compute with the formula.
const MOST_PLACES: usize = 10_000_000;

/// Cached results for one load.
pub(super) struct Candidates<'a> {
    runner: &'a Runner,
    workload: &'a Workload,
    target: &'a Target,
    tries: BTreeMap<usize, Try>,
    /// The shortest queues, by number of threads.
    queues: BTreeMap<usize, usize>,
}

impl<'a> Candidates<'a> {
    pub(super) fn new(runner: &'a Runner, workload: &'a Workload, target: &'a Target) -> Candidates<'a> {
        Candidates { runner, workload, target, tries: BTreeMap::new(), queues: BTreeMap::new() }
    }

    pub(super) fn into_tries(self) -> Vec<Try> {
        self.tries.into_values().collect()
    }

    /// Whether this number of threads meets the target with any queue.
    pub(super) fn carry(&mut self, threads: usize) -> bool {
        if let Some(tried) = self.tries.get(&threads) {
            return tried.meets;
        }
        self.runner.progress.tell(format!("tries {threads} threads"));
        let tried = match self.exact(threads) {
            Some(formula) => self.carry_exact(formula),
            None => self.carry_simulated(threads),
        };
        self.tries.insert(threads, tried);
        tried.meets
    }

    /// The shortest queue with which few enough tasks are refused; at least one place.
    pub(super) fn shortest_queue(&mut self, threads: usize) -> usize {
        if let Some(queue) = self.queues.get(&threads) {
            return *queue;
        }
        let queue = match self.exact(threads) {
            Some(formula) => self.exact_queue(formula),
            None => self.simulated_queue(threads).0,
        };
        self.queues.insert(threads, queue);
        queue
    }

    /// Whether `pool` meets the target under this load.
    pub(super) fn meets(&self, pool: &Pool) -> bool {
        match theory::of(self.workload, pool) {
            // The load exceeds the threads: the formula for an unbounded queue has no result.
            Some(Err(_)) => false,
            Some(Ok(formula)) => formula.meets(self.target).unwrap_or_else(|| self.meets_simulated(pool)),
            None => self.meets_simulated(pool),
        }
    }

    fn meets_simulated(&self, pool: &Pool) -> bool {
        self.target.is_met(&self.figures(pool, self.target.goal()))
    }

    /// The formula for this number of threads and a bounded queue, if it can judge the target.
    fn exact(&self, threads: usize) -> Option<Steady> {
        if self.target.lost == 0.0 { None } else { theory::steady(self.workload, threads) }
    }

    fn carry_exact(&mut self, formula: Steady) -> Try {
        let queue = self.exact_queue(formula);
        self.queues.insert(formula.threads, queue);
        let formula = formula.with_places(queue);
        let (lost, first) = (formula.lost(), self.target.first());
        let in_time =
            self.target.times.iter().all(|time| formula.late(time.of, time.limit as f64) <= time.late());
        Try {
            threads: formula.threads,
            queue,
            time: formula.percentile(first.of, first.share).round() as u64,
            lost,
            meets: in_time && lost <= self.target.lost,
        }
    }

    fn exact_queue(&self, formula: Steady) -> usize {
        let refuses_few = |places: usize| formula.with_places(places).lost() <= self.target.lost;
        let mut long = 1;
        while !refuses_few(long) && long < MOST_PLACES {
            long *= 2;
        }
        smallest(long / 2 + 1, long, refuses_few)
    }

    fn carry_simulated(&mut self, threads: usize) -> Try {
        let open = Pool::fixed(threads, None);
        let figures = self.figures(&open, self.target.goal());
        if self.target.is_met(&figures) {
            return self.tried(threads, figures.levels.peak_queue, &figures, true);
        }
        // Too slow. A shorter queue is faster, within the limit on refused tasks.
        let (queue, figures) = match self.target.lost {
            0.0 => (figures.levels.peak_queue, figures),
            _ => self.simulated_queue(threads),
        };
        self.queues.insert(threads, queue.max(1));
        self.tried(threads, queue, &figures, self.target.is_met(&figures))
    }

    fn tried(&self, threads: usize, queue: usize, figures: &Figures, meets: bool) -> Try {
        let time = self.target.first().seen(figures);
        Try { threads, queue: queue.max(1), time, lost: figures.lost_share(), meets }
    }

    /// The shortest queue and its figures. If it refuses exactly the tasks that would have been
    /// fast, the unbounded queue is better.
    fn simulated_queue(&self, threads: usize) -> (usize, Figures) {
        let open = self.figures(&Pool::fixed(threads, None), self.target.goal());
        let longest = open.levels.peak_queue.max(1);
        let most_lost = self.target.most_lost(open.arrived);
        let with = |queue: usize| {
            let goal = Goal { most_lost, ..self.target.goal() };
            self.figures(&Pool::fixed(threads, Some(queue)), goal)
        };
        let refuses_few = |queue: usize| {
            let figures = with(queue);
            !figures.given_up && self.target.loses_few(&figures)
        };
        let queue = smallest(1, longest, refuses_few);
        let figures = with(queue);
        if !self.target.is_met(&figures) && self.target.is_met(&open) {
            return (longest, open);
        }
        (queue, figures)
    }

    fn figures(&self, pool: &Pool, goal: Goal) -> Figures {
        let runs = self.runner.run(self.workload, pool, &goal, search_seeds(self.workload));
        let all = runs.into_iter().map(|(_, figures)| figures).reduce(|mut all, next| {
            all.merge(&next);
            all
        });
        all.expect("there is a search seed")
    }
}

/// The smallest number from `low` to `high` that is enough. `high` is assumed to be enough.
fn smallest(mut low: usize, mut high: usize, is_enough: impl Fn(usize) -> bool) -> usize {
    while low < high {
        let middle = usize::midpoint(low, high);
        if is_enough(middle) { high = middle } else { low = middle + 1 }
    }
    high
}
