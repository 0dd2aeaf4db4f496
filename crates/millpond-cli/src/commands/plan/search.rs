//! The smallest pool that meets a target: first as few threads as possible, then as few places in the queue.
//!
//! Every candidate gets the very same tasks. More places let more tasks in and make them wait longer; so for a number of
//! threads the best queue is the shortest that does not refuse too many, and if that one is too slow, no other will do.
//! More threads are taken to be no worse, which holds unless they crowd the cores.

use millpond_sim::{self as sim, Figures, Goal, Judged, Nanos, Pool, Task, World};

/// What is wanted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target {
    pub(super) of: Judged,
    /// Of a hundred tasks that run, 99 take no longer.
    pub(super) p99: Nanos,
    /// The share of the tasks that may be refused.
    pub(super) lost: f64,
}

impl Target {
    /// Does a run, with the goal that [`Target::goal`] makes, meet it?
    pub(super) fn is_met(&self, figures: &Figures) -> bool {
        !figures.given_up
            && figures.lost() <= self.most_lost(figures.arrived)
            && figures.late <= most_late(figures.completed)
    }

    fn most_lost(&self, arrived: u64) -> u64 {
        // A little more than nothing, lest 0.1 % of a thousand be none.
        (self.lost * arrived as f64 + 1e-6) as u64
    }

    /// Counts who is late, and never gives up.
    pub(super) fn goal(&self) -> Goal {
        Goal { of: self.of, limit: self.p99, most_late: u64::MAX, most_lost: u64::MAX }
    }

    /// The time that is judged.
    pub(super) fn judged<'a>(&self, figures: &'a Figures) -> &'a sim::Histogram {
        match self.of {
            Judged::Wait => &figures.waits,
            Judged::Total => &figures.totals,
        }
    }
}

fn most_late(completed: u64) -> u64 {
    completed / 100
}

/// So many threads above the smallest number are tried as well.
const FEW_MORE: usize = 4;

/// A candidate that was tried, with the best queue for its number of threads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Try {
    pub(super) threads: usize,
    pub(super) queue: usize,
    pub(super) p99: Nanos,
    pub(super) lost: f64,
    pub(super) meets: bool,
}

/// What the search came to.
#[derive(Debug)]
pub(super) struct Answer {
    /// The smallest pool, and how it does. `None`: no pool meets the target.
    pub(super) found: Option<(Pool, Figures)>,
    /// All numbers of threads that were tried, by size.
    pub(super) tries: Vec<Try>,
    /// How it is if nobody waits for a thread: as many threads as tasks.
    pub(super) unlimited: Figures,
}

/// Searches. `tell` is told what is being tried.
pub(super) fn smallest(tasks: &[Task], world: World, target: Target, tell: &dyn Fn(usize)) -> Answer {
    let mut search = Search { tasks, world, target, tell, tries: Vec::new() };
    let unlimited = search.run(&Pool { maximum: usize::MAX, ..Pool::fixed(0, Some(0)) }, target.goal());
    let most = unlimited.levels.peak_threads.max(1);
    // A guess to begin with: the threads that are busy on average.
    let guess = (unlimited.levels.mean_busy().ceil() as usize).clamp(1, most);
    let found = search.fewest_threads(guess, most).map(|threads| {
        let (pool, figures) = search.smallest_queue(threads);
        search.tries.retain(|tried| tried.threads != threads);
        search.note(&pool, &figures, true);
        // What would a few more bring? For the picture.
        for more in threads + 1..=(threads + FEW_MORE).min(most) {
            if search.tries.iter().all(|tried| tried.threads != more) {
                search.try_threads(more);
            }
        }
        (pool, figures)
    });
    search.tries.sort_by_key(|tried| tried.threads);
    Answer { found, tries: search.tries, unlimited }
}

struct Search<'a> {
    tasks: &'a [Task],
    world: World,
    target: Target,
    tell: &'a dyn Fn(usize),
    tries: Vec<Try>,
}

impl Search<'_> {
    fn run(&self, pool: &Pool, goal: Goal) -> Figures {
        sim::simulate(pool, self.world, self.tasks.iter().copied(), Some(goal), &mut ())
    }

    fn note(&mut self, pool: &Pool, figures: &Figures, meets: bool) {
        self.tries.push(Try {
            threads: pool.core,
            queue: pool.queue.unwrap_or(figures.levels.peak_queue),
            p99: self.target.judged(figures).percentile(0.99),
            lost: figures.lost_share(),
            meets,
        });
    }

    /// From `guess` up in growing steps, then between what fails and what does not. `None`: not even `most` are enough.
    fn fewest_threads(&mut self, guess: usize, most: usize) -> Option<usize> {
        let (mut fails, mut meets, mut step) = (0, guess, 1);
        while !self.try_threads(meets) {
            if meets == most {
                return None;
            }
            fails = meets;
            meets = (meets + step).min(most);
            step *= 2;
        }
        while meets - fails > 1 {
            let middle = usize::midpoint(fails, meets);
            if self.try_threads(middle) { meets = middle } else { fails = middle }
        }
        Some(meets)
    }

    /// For a number of threads that meets the target: the shortest queue with which it does.
    fn smallest_queue(&self, threads: usize) -> (Pool, Figures) {
        let (pool, figures) = self.shortest_queue(threads);
        if self.target.is_met(&figures) {
            return (pool, figures);
        }
        // Nearly as many refused as may be, and just those that were quick. An open queue has met it.
        let figures = self.run(&Pool::fixed(threads, None), self.target.goal());
        (Pool::fixed(threads, Some(figures.levels.peak_queue)), figures)
    }

    /// Can so many threads meet the target, with whatever queue?
    fn try_threads(&mut self, threads: usize) -> bool {
        (self.tell)(threads);
        let open = Pool::fixed(threads, None);
        let figures = self.run(&open, self.target.goal());
        if self.target.is_met(&figures) {
            self.note(&open, &figures, true);
            return true;
        }
        // Too slow. Fewer places make it faster, as far as tasks may be refused.
        let (pool, figures) = match self.target.most_lost(self.tasks.len() as u64) {
            0 => (open, figures),
            _ => self.shortest_queue(threads),
        };
        let meets = self.target.is_met(&figures);
        self.note(&pool, &figures, meets);
        meets
    }

    /// The shortest queue with which not too many tasks are refused.
    fn shortest_queue(&self, threads: usize) -> (Pool, Figures) {
        let most_lost = self.target.most_lost(self.tasks.len() as u64);
        let goal = Goal { most_lost, ..self.target.goal() };
        let takes = |queue: usize| {
            let figures = self.run(&Pool::fixed(threads, Some(queue)), goal);
            (!figures.given_up).then_some(figures)
        };
        let open = self.run(&Pool::fixed(threads, None), self.target.goal());
        // So long a queue refuses nobody.
        let (mut enough, mut figures) = (open.levels.peak_queue, open);
        let mut short: Option<usize> = None; // too short
        loop {
            let next = short.map_or(0, |short| short + 1);
            if next >= enough {
                break;
            }
            let middle = usize::midpoint(next, enough - 1);
            match takes(middle) {
                Some(better) => (enough, figures) = (middle, better),
                None => short = Some(middle),
            }
        }
        (Pool::fixed(threads, Some(enough)), figures)
    }
}

#[cfg(test)]
mod tests;
