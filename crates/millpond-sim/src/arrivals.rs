//! When tasks arrive.

use std::sync::Arc;

use crate::chance::Chance;
use crate::lengths::Mix;
use crate::{Nanos, Task};

/// One stream of arrivals. Rates are per second.
#[derive(Debug, Clone, PartialEq)]
pub enum Arrivals {
    /// At equal intervals, the first at time zero.
    Constant(f64),
    /// A Poisson process.
    Poisson(f64),
    /// At a rate that changes linearly and then remains constant.
    Ramp {
        /// The initial rate.
        from: f64,
        /// The final rate.
        to: f64,
        /// Duration of the change.
        over: Nanos,
    },
    /// Many tasks at the same time, once or periodically.
    Burst {
        /// Number of tasks in a burst.
        count: u64,
        /// Interval between bursts. `None`: a single burst.
        every: Option<Nanos>,
    },
    /// Recorded times, sorted; the first is zero.
    Times(Arc<[Nanos]>),
}

/// When the arrivals end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// After this number of tasks.
    Count(u64),
    /// At this time.
    Until(Nanos),
    /// When all streams have ended.
    None,
}

impl Arrivals {
    /// Multiplies the load by `factor`: a higher rate, larger bursts, or recorded times closer
    /// together.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Arrivals {
        match self {
            Arrivals::Constant(rate) => Arrivals::Constant(rate * factor),
            Arrivals::Poisson(rate) => Arrivals::Poisson(rate * factor),
            Arrivals::Ramp { from, to, over } => {
                Arrivals::Ramp { from: from * factor, to: to * factor, over: *over }
            }
            Arrivals::Burst { count, every } => {
                Arrivals::Burst { count: ((*count as f64 * factor).round() as u64).max(1), every: *every }
            }
            Arrivals::Times(times) => {
                Arrivals::Times(times.iter().map(|at| (*at as f64 / factor).round() as Nanos).collect())
            }
        }
    }

    /// Whether the arrivals end without a limit.
    pub fn end(&self) -> bool {
        matches!(self, Arrivals::Burst { every: None, .. } | Arrivals::Times(_))
    }
}

/// The state of one stream.
#[derive(Debug, Clone)]
struct Source {
    arrivals: Arrivals,
    chance: Chance,
    /// Number of arrivals so far.
    count: u64,
    /// Poisson: time of the last arrival.
    at: f64,
    /// Time of the next arrival.
    next: Option<Nanos>,
}

impl Source {
    fn new(arrivals: Arrivals, chance: Chance) -> Source {
        let mut source = Source { arrivals, chance, count: 0, at: 0.0, next: None };
        source.step();
        source
    }

    fn step(&mut self) {
        let k = self.count;
        self.count += 1;
        self.next = match &self.arrivals {
            Arrivals::Constant(rate) => Some((k as f64 * 1e9 / rate).round() as Nanos),
            Arrivals::Poisson(rate) => {
                self.at += self.chance.exponential() * 1e9 / rate;
                Some(self.at.round() as Nanos)
            }
            Arrivals::Ramp { from, to, over } => Some(ramp(k as f64, *from, *to, *over)),
            Arrivals::Burst { count, every: None } => (k < *count).then_some(0),
            Arrivals::Burst { count, every: Some(every) } => Some((k / count).saturating_mul(*every)),
            Arrivals::Times(times) => times.get(k as usize).copied(),
        };
    }
}

/// The time at which `k` tasks have arrived, at a rate that changes from `from` to `to` and then
/// remains constant. Solves a quadratic equation in the form that never divides by `to - from`.
fn ramp(k: f64, from: f64, to: f64, over: Nanos) -> Nanos {
    let length = over as f64 / 1e9;
    let during_ramp = f64::midpoint(from, to) * length;
    let at = if k < during_ramp {
        let slope = (to - from) / length;
        2.0 * k / (from + (from * from + 2.0 * slope * k).max(0.0).sqrt()).max(f64::MIN_POSITIVE)
    } else {
        length + (k - during_ramp) / to
    };
    (at * 1e9).round() as Nanos
}

/// All tasks in order of arrival.
#[derive(Debug, Clone)]
pub struct Stream<'a> {
    sources: Vec<Source>,
    limit: Limit,
    mix: &'a Mix,
    chance: Chance,
    count: u64,
}

impl<'a> Stream<'a> {
    /// Merges streams. Each stream has its own random numbers, and so do the durations: a change in
    /// one stream does not move the arrivals of another.
    pub fn new(arrivals: &[Arrivals], limit: Limit, mix: &'a Mix, seed: u64) -> Stream<'a> {
        let sources = arrivals
            .iter()
            .enumerate()
            .map(|(at, arrivals)| Source::new(arrivals.clone(), Chance::new(seed, at + 1)))
            .collect();
        Stream { sources, limit, mix, chance: Chance::new(seed, 0), count: 0 }
    }
}

impl Iterator for Stream<'_> {
    type Item = Task;

    fn next(&mut self) -> Option<Task> {
        if matches!(self.limit, Limit::Count(most) if self.count >= most) {
            return None;
        }
        // The first stream wins a tie.
        let source = self.sources.iter_mut().min_by_key(|source| source.next.unwrap_or(Nanos::MAX))?;
        let arrival = source.next?;
        if matches!(self.limit, Limit::Until(end) if arrival >= end) {
            return None;
        }
        source.step();
        let (wait, compute) = self.mix.draw(&mut self.chance, self.count);
        self.count += 1;
        Some(Task { arrival, wait, compute })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lengths::{Kind, Length};

    const S: Nanos = 1_000_000_000;

    fn times(arrivals: &[Arrivals], limit: Limit, seed: u64) -> Vec<Nanos> {
        let mix = Mix::new(vec![Kind { weight: 1.0, length: Length::Fixed(1.0), cpu: 0.0 }]);
        Stream::new(arrivals, limit, &mix, seed).map(|task| task.arrival).collect()
    }

    #[test]
    fn constant_rate_spaces_tasks_evenly_up_to_its_limit() {
        let constant = [Arrivals::Constant(10.0)];
        let until = times(&constant, Limit::Until(S), 1);
        assert_eq!(until, (0..10).map(|k| k * S / 10).collect::<Vec<_>>());
        assert_eq!(times(&constant, Limit::Count(10), 1), until);
    }

    #[test]
    fn poisson_arrivals_have_the_right_mean_and_variance() {
        let one = times(&[Arrivals::Poisson(1000.0)], Limit::Until(100 * S), 7);
        // Mean and variance are both 100 000. The tolerance is five standard deviations.
        assert!(one.len().abs_diff(100_000) < 1582, "{}", one.len());
        let mut per_second = [0_i32; 100];
        one.iter().for_each(|at| per_second[(at / S) as usize] += 1);
        let variance = per_second.iter().map(|n| f64::from(n - 1000).powi(2)).sum::<f64>() / 100.0;
        assert!((500.0..1600.0).contains(&variance), "{variance}");
        assert_eq!(one, times(&[Arrivals::Poisson(1000.0)], Limit::Until(100 * S), 7));
        assert_ne!(one, times(&[Arrivals::Poisson(1000.0)], Limit::Until(100 * S), 8));
    }

    #[test]
    fn ramp_has_its_mean_rate_and_then_stays_at_its_end() {
        let ramp = Arrivals::Ramp { from: 20.0, to: 380.0, over: 2 * S };
        let all = times(&[ramp], Limit::Until(3 * S), 1);
        let within = |from: Nanos, to: Nanos| all.iter().filter(|at| (from..to).contains(at)).count();
        assert!(all.is_sorted());
        // 20 + 90 in the first second, 200 + 90 in the second, then 380 in each.
        assert!(within(0, S).abs_diff(110) <= 1, "{}", within(0, S));
        assert!(within(S, 2 * S).abs_diff(290) <= 1, "{}", within(S, 2 * S));
        assert!(within(2 * S, 3 * S).abs_diff(380) <= 1, "{}", within(2 * S, 3 * S));
    }

    #[test]
    fn ramp_may_begin_at_zero_and_may_go_down() {
        let up = times(&[Arrivals::Ramp { from: 0.0, to: 100.0, over: S }], Limit::Until(S), 1);
        assert!(up.len().abs_diff(50) <= 1 && up.is_sorted(), "{up:?}");
        let down = times(&[Arrivals::Ramp { from: 100.0, to: 20.0, over: S }], Limit::Until(2 * S), 1);
        assert!(down.len().abs_diff(80) <= 1 && down.is_sorted(), "{down:?}");
    }

    #[test]
    fn bursts_come_once_or_periodically() {
        let once = Arrivals::Burst { count: 3, every: None };
        assert_eq!(times(&[once], Limit::None, 1), [0, 0, 0]);
        let again = Arrivals::Burst { count: 2, every: Some(S) };
        assert_eq!(times(&[again], Limit::Until(3 * S), 1), [0, 0, S, S, 2 * S, 2 * S]);
    }

    #[test]
    fn streams_are_merged_in_order_of_time() {
        let both = [Arrivals::Constant(2.0), Arrivals::Times([0, S / 4, S].into())];
        assert_eq!(times(&both, Limit::Until(2 * S), 1), [0, 0, S / 4, S / 2, S, S, 3 * S / 2]);
    }

    #[test]
    fn ten_times_the_load_is_ten_times_the_rate() {
        for arrivals in [
            Arrivals::Constant(50.0),
            Arrivals::Poisson(50.0),
            Arrivals::Ramp { from: 10.0, to: 90.0, over: 20 * S },
            Arrivals::Burst { count: 50, every: Some(S) },
        ] {
            let limit = Limit::Until(20 * S);
            let (one, ten) =
                (times(std::slice::from_ref(&arrivals), limit, 1), times(&[arrivals.scaled(10.0)], limit, 1));
            let ratio = ten.len() as f64 / one.len() as f64;
            assert!((9.5..10.5).contains(&ratio), "{arrivals:?}: {ratio}");
        }
        let written = Arrivals::Times([0, S, 5 * S].into());
        assert_eq!(times(&[written.scaled(10.0)], Limit::None, 1), [0, S / 10, S / 2]);
    }
}
