//! The target of a plan, and whether a run meets it.

use millpond_sim::{Bound, Figures, Goal, Histogram, Judged, Nanos};

/// Time limits, and the share of the tasks that may be refused.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Target {
    /// At least one. Charts and tables show the first.
    pub(super) times: Vec<TimeLimit>,
    pub(super) lost: f64,
}

/// A percentile of a time and its limit: p99 of the total time at most 50 ms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct TimeLimit {
    pub(super) of: Judged,
    /// 0.99 for p99.
    pub(super) share: f64,
    pub(super) limit: Nanos,
}

impl TimeLimit {
    /// How many of `completed` tasks may be late, by the nearest rank: 1 of 100, none of 99.
    fn most_late(&self, completed: u64) -> u64 {
        allowed(1.0 - self.share, completed)
    }

    /// The share of the tasks that may be late.
    pub(super) fn late(&self) -> f64 {
        1.0 - self.share
    }

    pub(super) fn histogram<'a>(&self, figures: &'a Figures) -> &'a Histogram {
        match self.of {
            Judged::Wait => &figures.waits,
            Judged::Total => &figures.totals,
        }
    }

    /// The value of the percentile in these figures.
    pub(super) fn seen(&self, figures: &Figures) -> Nanos {
        self.histogram(figures).percentile(self.share)
    }
}

/// The whole number of tasks in a share. Rounds up slightly, so that 0.1 % of 1000 is 1.
fn allowed(share: f64, of: u64) -> u64 {
    (share * of as f64 + 1e-6) as u64
}

impl Target {
    /// Counts late tasks and never ends a run early.
    pub(super) fn goal(&self) -> Goal {
        let bound = |time: &TimeLimit| Bound { of: time.of, limit: time.limit, most_late: u64::MAX };
        Goal { bounds: self.times.iter().map(bound).collect(), most_lost: u64::MAX }
    }

    /// Whether a run with [`Target::goal`] meets the target.
    pub(super) fn is_met(&self, figures: &Figures) -> bool {
        let late_enough = |(time, late): (&TimeLimit, &u64)| *late <= time.most_late(figures.completed);
        !figures.given_up && self.loses_few(figures) && self.times.iter().zip(&figures.late).all(late_enough)
    }

    pub(super) fn loses_few(&self, figures: &Figures) -> bool {
        figures.lost() <= self.most_lost(figures.arrived)
    }

    pub(super) fn most_lost(&self, arrived: u64) -> u64 {
        allowed(self.lost, arrived)
    }

    /// The time limit that charts and tables show.
    pub(super) fn first(&self) -> &TimeLimit {
        &self.times[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_met_to_the_very_task() {
        let time = TimeLimit { of: Judged::Total, share: 0.99, limit: 10_000_000 };
        let target = Target { times: vec![time], lost: 0.01 };
        let figures = |late, completed, rejected| Figures {
            arrived: completed + rejected,
            late: vec![late],
            completed,
            rejected,
            ..Figures::default()
        };
        assert!(target.is_met(&figures(1, 100, 0)));
        assert!(!target.is_met(&figures(2, 100, 0)));
        assert!(!target.is_met(&figures(1, 99, 0)));
        assert!(target.is_met(&figures(0, 99, 1)), "exactly 1 %");
        assert!(!target.is_met(&figures(0, 98, 2)));
    }

    #[test]
    fn every_time_limit_counts() {
        let time = |of, share| TimeLimit { of, share, limit: 10 };
        let target = Target { times: vec![time(Judged::Total, 0.9), time(Judged::Wait, 0.99)], lost: 0.0 };
        let figures = |late: [u64; 2]| Figures {
            arrived: 100,
            completed: 100,
            late: late.to_vec(),
            ..Figures::default()
        };
        assert!(target.is_met(&figures([10, 1])));
        assert!(!target.is_met(&figures([11, 1])) && !target.is_met(&figures([10, 2])));
    }
}
