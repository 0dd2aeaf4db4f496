//! The smallest pool that meets a target: first the fewest threads, then the shortest queue.
//!
//! The search asks for more than the target at the planned load. A pool must
//! 1. have more threads than the load keeps busy,
//! 2. meet the target at a load that is larger by the headroom, by the exact formula where there is
//!    one and on a few seeds otherwise,
//! 3. meet the target at the planned load in every one of many runs with other seeds, with three
//!    standard deviations to spare.
//!
//! A longer queue refuses fewer tasks but makes them wait longer. So the best queue for a number of
//! threads is the shortest that refuses few enough; if that is too slow, every queue is. The search
//! assumes that more threads are no worse, which holds unless they compete for the cores.

mod candidates;
#[cfg(test)]
mod tests;

use millpond_sim::{Nanos, Pool};

use self::candidates::Candidates;
use super::target::Target;
use super::trials::{Runner, Trials};
use super::workload::{Offered, Workload};
use crate::error::Error;

/// Larger numbers of threads to try too, for the chart.
const FEW_MORE: usize = 4;
/// Number of seeds of the second step. The third step has others.
pub(super) const SEARCH_SEEDS: u64 = 4;
/// The search ends at this number of threads.
const MOST_THREADS: usize = 100_000;
/// The largest headroom to search for, in percent.
const MOST_HEADROOM: u32 = 100;

/// How to search.
#[derive(Debug, Clone, Copy)]
pub(super) struct Settings {
    /// Number of runs of the third step.
    pub(super) runs: u64,
    /// The load of the second step is larger by this share.
    pub(super) headroom: f64,
}

/// A number of threads that was tried, with the best queue for it, under the load with headroom.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Try {
    pub(super) threads: usize,
    pub(super) queue: usize,
    /// The percentile of the target's first time limit.
    pub(super) time: Nanos,
    pub(super) lost: f64,
    pub(super) meets: bool,
}

/// The smallest pool.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) pool: Pool,
    pub(super) trials: Trials,
    pub(super) breaks: Headroom,
}

/// The result of a search.
#[derive(Debug)]
pub(super) struct Answer {
    /// `None`: no pool meets the target.
    pub(super) found: Option<Found>,
    /// All numbers of threads that were tried, in order.
    pub(super) tries: Vec<Try>,
    /// The result with a thread for every task, under the load with headroom.
    pub(super) unlimited: Trials,
    /// The load bound for the load with headroom.
    pub(super) least: Option<usize>,
}

/// How much more load a pool tolerates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Headroom {
    /// The target is missed at this many percent more load, and met at one percent less.
    BreaksAt(u32),
    /// The target is met at twice the load.
    Doubles,
}

/// The seeds of the runs that judge a pool.
pub(super) fn judged_seeds(workload: &Workload, runs: u64) -> impl Iterator<Item = u64> + use<> {
    let first = workload.seed;
    (0..if workload.is_random() { runs } else { 1 }).map(move |at| first.wrapping_add(at))
}

/// The seeds of the search.
fn search_seeds(workload: &Workload) -> impl Iterator<Item = u64> + use<> {
    let first = workload.seed.wrapping_add(1 << 32);
    (0..if workload.is_random() { SEARCH_SEEDS } else { 1 }).map(move |at| first.wrapping_add(at))
}

/// Searches.
pub(super) fn smallest(
    runner: &Runner,
    workload: &Workload,
    target: &Target,
    settings: Settings,
) -> Result<Answer, Error> {
    let loaded = workload.scaled(1.0 + settings.headroom).shortened();
    let offered = Offered::of(&loaded);
    let least = offered.least_threads().unwrap_or(1);
    if least > MOST_THREADS {
        return Err(Error::new(format_args!(
            "the load keeps {least} threads busy; a plan searches up to {MOST_THREADS}, so split the load over several pools"
        )));
    }
    let unlimited = runner.trials(&loaded, &Pool::unlimited(), Some(target), search_seeds(&loaded));
    let most = unlimited.figures.levels.peak_threads.clamp(least, MOST_THREADS);
    let mut candidates = Candidates::new(runner, &loaded, target);
    let mut search = Search { runner, workload, target, settings, most, candidates: &mut candidates };
    let found = if offered.exceeds_cores() { None } else { search.run(least, &unlimited) };
    Ok(Answer { found, tries: candidates.into_tries(), unlimited, least: offered.least_threads() })
}

struct Search<'a, 'c> {
    runner: &'a Runner,
    workload: &'a Workload,
    target: &'a Target,
    settings: Settings,
    /// With this number of threads, no task waits.
    most: usize,
    candidates: &'c mut Candidates<'a>,
}

impl Search<'_, '_> {
    fn run(&mut self, least: usize, unlimited: &Trials) -> Option<Found> {
        let busy = unlimited.figures.levels.mean_busy().ceil() as usize;
        let threads = self.fewest_threads(least, busy.clamp(least, self.most))?;
        let (pool, trials) = self.confirmed(threads)?;
        for more in pool.core + 1..=(pool.core + FEW_MORE).min(self.most) {
            self.candidates.carry(more);
        }
        let breaks = headroom(self.runner, self.workload, &pool, self.target, self.settings.headroom);
        Some(Found { pool, trials, breaks })
    }

    /// Searches from `guess` up in growing steps, then bisects. `None`: not even the largest number
    /// suffices.
    fn fewest_threads(&mut self, least: usize, guess: usize) -> Option<usize> {
        let (mut fails, mut meets, mut step) = (least - 1, guess, 1);
        while !self.candidates.carry(meets) {
            if meets == self.most {
                return None;
            }
            fails = meets;
            meets = (meets + step).min(self.most);
            step *= 2;
        }
        while meets - fails > 1 {
            let middle = usize::midpoint(fails, meets);
            if self.candidates.carry(middle) { meets = middle } else { fails = middle }
        }
        Some(meets)
    }

    /// Grows the pool until all judged runs are safely within the target.
    fn confirmed(&mut self, fewest: usize) -> Option<(Pool, Trials)> {
        let mut threads = fewest;
        let mut queue = self.first_queue(threads);
        loop {
            let pool = Pool::fixed(threads, Some(queue));
            self.runner.progress.tell(format!("confirms {threads} threads with a queue of {queue}"));
            let trials = self.judge(&pool);
            if trials.is_sure(self.target) {
                return Some((pool, trials));
            }
            if trials.surely_loses_few(self.target) {
                // Too slow, and more than twice as many threads as tasks need do not help.
                if threads > 2 * self.most {
                    return None;
                }
                threads += 1;
                queue = self.first_queue(threads);
            } else {
                queue += (queue / 8).max(1);
            }
        }
    }

    fn first_queue(&mut self, threads: usize) -> usize {
        let queue = self.candidates.shortest_queue(threads);
        if self.target.lost > 0.0 {
            return queue;
        }
        self.judge(&Pool::fixed(threads, None)).long_enough_queue().max(queue)
    }

    fn judge(&self, pool: &Pool) -> Trials {
        let seeds = judged_seeds(self.workload, self.settings.runs);
        self.runner.trials(self.workload, pool, Some(self.target), seeds)
    }
}

/// Searches for the load at which `pool` misses the target. Assumes that it is met at `known` more
/// load.
pub(super) fn headroom(
    runner: &Runner,
    workload: &Workload,
    pool: &Pool,
    target: &Target,
    known: f64,
) -> Headroom {
    runner.progress.tell("looks for the load at which the target is missed".to_owned());
    let breaks = |percent: u32| {
        let loaded = workload.scaled(1.0 + f64::from(percent) / 100.0).shortened();
        !Candidates::new(runner, &loaded, target).meets(pool)
    };
    let (mut holds, mut step) = ((known * 100.0).floor() as u32, 2);
    let mut fails = loop {
        let next = (holds + step).min(MOST_HEADROOM);
        if breaks(next) {
            break next;
        }
        if next == MOST_HEADROOM {
            return Headroom::Doubles;
        }
        (holds, step) = (next, step * 2);
    };
    while fails - holds > 1 {
        let middle = u32::midpoint(holds, fails);
        if breaks(middle) { fails = middle } else { holds = middle }
    }
    Headroom::BreaksAt(fails)
}
