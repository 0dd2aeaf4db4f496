//! What is left to chance, and when tasks arrive.

use std::time::Duration;

use super::super::workload::{Arrivals, Length, Limit, TaskPlan};

/// A small generator of random numbers: the same seed, the same numbers. (SplitMix64.)
#[derive(Debug)]
pub(super) struct Chance(u64);

impl Chance {
    pub(super) fn new(seed: u64) -> Chance {
        Chance(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 to 1, never 0 itself.
    fn unit(&mut self) -> f64 {
        ((self.next() >> 11) as f64 + 1.0) / (1u64 << 53) as f64
    }

    /// Exponential with mean 1.
    fn exponential(&mut self) -> f64 {
        -self.unit().ln()
    }

    pub(super) fn length(&mut self, length: Length) -> Duration {
        match length {
            Length::Fixed(length) => length,
            Length::Uniform(from, to) => from + (to - from).mul_f64(self.unit()),
            Length::Exponential(mean) => mean.mul_f64(self.exponential()),
        }
    }

    /// One of `mix`, by weight.
    pub(super) fn choose<'a>(&mut self, mix: &'a [TaskPlan]) -> &'a TaskPlan {
        let (last, others) = mix.split_last().expect("a mix has been checked to have a task");
        if others.is_empty() {
            return last;
        }
        let mut at = self.unit() * mix.iter().map(|task| task.weight).sum::<f64>();
        for task in others {
            at -= task.weight;
            if at <= 0.0 {
                return task;
            }
        }
        last
    }
}

/// When the tasks arrive, counted from the beginning of the step.
pub(super) fn times(arrivals: &Arrivals, chance: &mut Chance) -> Vec<Duration> {
    match arrivals {
        Arrivals::Burst { count } => vec![Duration::ZERO; *count],
        Arrivals::Constant { rate, limit } => collect(*limit, |k| k as f64 / rate),
        Arrivals::Poisson { rate, limit } => {
            let mut at = 0.0;
            collect(*limit, |_| {
                at += chance.exponential() / rate;
                at
            })
        }
        Arrivals::Ramp { from, to, limit } => {
            let length = match limit {
                Limit::During(time) => time.as_secs_f64(),
                Limit::Count(count) => 2.0 * *count as f64 / (from + to),
            };
            collect(*limit, |k| ramp(k as f64, *from, *to, length))
        }
    }
}

/// When `k` tasks have arrived, at a rate that goes from `from` to `to` within `length`: a quadratic equation, in the
/// form that divides by nothing small.
fn ramp(k: f64, from: f64, to: f64, length: f64) -> f64 {
    let slope = (to - from) / length;
    2.0 * k / (from + (from * from + 2.0 * slope * k).max(0.0).sqrt())
}

fn collect(limit: Limit, mut at: impl FnMut(usize) -> f64) -> Vec<Duration> {
    match limit {
        Limit::Count(count) => (0..count).map(|k| Duration::from_secs_f64(at(k))).collect(),
        Limit::During(time) => {
            let times = (0..).map(|k| Duration::from_secs_f64(at(k)));
            times.take_while(|at| *at < time).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_rate_spaces_tasks_evenly_and_keeps_to_its_limit() {
        let mut chance = Chance::new(1);
        let limit = Limit::During(Duration::from_secs(1));
        let times = times(&Arrivals::Constant { rate: 10.0, limit }, &mut chance);
        assert_eq!(times.len(), 10);
        assert_eq!(times[3], Duration::from_millis(300));
    }

    #[test]
    fn a_ramp_brings_the_tasks_that_its_mean_rate_promises_and_more_of_them_later() {
        let mut chance = Chance::new(1);
        let limit = Limit::During(Duration::from_secs(2));
        let times = times(&Arrivals::Ramp { from: 20.0, to: 380.0, limit }, &mut chance);
        assert!((395..=401).contains(&times.len()), "{}", times.len());
        assert!(times.is_sorted());
        let early = times.iter().filter(|at| **at < Duration::from_secs(1)).count();
        assert!((108..=112).contains(&early), "{early}");
    }

    #[test]
    fn a_ramp_downwards_comes_to_its_end() {
        let times =
            times(&Arrivals::Ramp { from: 30.0, to: 10.0, limit: Limit::Count(20) }, &mut Chance::new(1));
        assert_eq!(times.len(), 20);
        assert!(times.is_sorted() && times[19] < Duration::from_secs(1), "{times:?}");
    }

    #[test]
    fn poisson_arrivals_have_their_rate_and_the_same_seed_gives_the_same_times() {
        let arrivals = Arrivals::Poisson { rate: 1000.0, limit: Limit::During(Duration::from_secs(10)) };
        let one = times(&arrivals, &mut Chance::new(7));
        assert!((9_600..=10_400).contains(&one.len()), "{}", one.len());
        assert_eq!(one, times(&arrivals, &mut Chance::new(7)));
        assert_ne!(one, times(&arrivals, &mut Chance::new(8)));
    }

    #[test]
    fn a_mix_is_drawn_by_weight() {
        let task = |weight| TaskPlan { weight, ..TaskPlan::default() };
        let mix = [task(3.0), task(1.0)];
        let mut chance = Chance::new(3);
        let first = (0..10_000).filter(|_| chance.choose(&mix).weight == 3.0).count();
        assert!((7_300..=7_700).contains(&first), "{first}");
    }
}
