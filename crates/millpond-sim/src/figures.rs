//! The figures of one run or of several.

use crate::{Histogram, Levels, Nanos};

/// The figures of one run, or of several that were [merged](Figures::merge).
#[derive(Debug, Clone, Default)]
pub struct Figures {
    /// Tasks that arrived.
    pub arrived: u64,
    /// Tasks that ran.
    pub completed: u64,
    /// Tasks that were returned to the caller.
    pub rejected: u64,
    /// Tasks that were dropped on arrival, or later to make room for another.
    pub discarded: u64,
    /// Tasks that completed in the caller.
    pub in_caller: u64,
    /// Completed tasks that did not start at once.
    pub waited: u64,
    /// From arrival to start, in a worker or in the caller.
    pub waits: Histogram,
    /// From arrival to end.
    pub totals: Histogram,
    /// When the last task arrived. After a merge: in the first run.
    pub last_arrival: Nanos,
    /// When the last task ended. After a merge: in the first run.
    pub end: Nanos,
    /// The longest time from the last arrival to the end of the last task.
    pub drain: Nanos,
    /// The time over which tasks were counted, summed over all runs.
    pub counted_for: f64,
    /// Threads, queue and cores.
    pub levels: Levels,
    /// Late tasks, for each bound of the goal.
    pub late: Vec<u64>,
    /// Whether the run exceeded its goal and ended early. The other figures are then incomplete.
    pub given_up: bool,
}

impl Figures {
    /// Tasks that never ran.
    pub fn lost(&self) -> u64 {
        self.rejected + self.discarded
    }

    /// The fraction of the tasks that never ran.
    pub fn lost_share(&self) -> f64 {
        if self.arrived == 0 { 0.0 } else { self.lost() as f64 / self.arrived as f64 }
    }

    /// Completed tasks per second, until the last one ended.
    pub fn throughput(&self) -> f64 {
        if self.counted_for == 0.0 { 0.0 } else { self.completed as f64 * 1e9 / self.counted_for }
    }

    /// Adds the figures of another run of the same pool. The curves over time do not change.
    pub fn merge(&mut self, other: &Figures) {
        self.arrived += other.arrived;
        self.completed += other.completed;
        self.rejected += other.rejected;
        self.discarded += other.discarded;
        self.in_caller += other.in_caller;
        self.waited += other.waited;
        self.waits.merge(&other.waits);
        self.totals.merge(&other.totals);
        self.drain = self.drain.max(other.drain);
        self.counted_for += other.counted_for;
        self.levels.merge(&other.levels);
        self.late.resize(self.late.len().max(other.late.len()), 0);
        for (mine, others) in self.late.iter_mut().zip(&other.late) {
            *mine += others;
        }
        self.given_up |= other.given_up;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Arrivals, Kind, Length, Limit, Mix, Observe, Pool, Stream, World, simulate_stream};

    fn run(seed: u64) -> Figures {
        let mix = Mix::new(vec![Kind { weight: 1.0, length: Length::Exponential(8e6), cpu: 0.0 }]);
        let tasks = Stream::new(&[Arrivals::Poisson(500.0)], Limit::Count(5000), &mix, seed);
        let world = World { cores: 1, one_caller: false };
        simulate_stream(&Pool::fixed(4, Some(3)), world, tasks, &Observe::default())
    }

    #[test]
    fn merged_figures_are_those_of_both_runs() {
        let (one, other) = (run(1), run(2));
        let mut both = one.clone();
        both.merge(&other);
        assert_eq!(both.arrived, 10_000);
        assert_eq!(both.completed + both.lost(), 10_000);
        assert_eq!(both.waits.most(), one.waits.most().max(other.waits.most()));
        let mean = (one.totals.mean() * one.completed as f64 + other.totals.mean() * other.completed as f64)
            / both.completed as f64;
        assert!((both.totals.mean() / mean - 1.0).abs() < 1e-12);
        let busy = (one.levels.mean_busy() * one.counted_for + other.levels.mean_busy() * other.counted_for)
            / both.counted_for;
        assert!((both.levels.mean_busy() / busy - 1.0).abs() < 1e-9);
        // Little's law holds for the merged figures too.
        let by_little = both.throughput() * both.totals.mean() / 1e9;
        assert!((both.levels.mean_inside() / by_little - 1.0).abs() < 1e-9);
    }
}
