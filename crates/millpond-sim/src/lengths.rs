//! How long tasks take, and how much of it they compute.

use crate::Nanos;
use crate::chance::Chance;

/// A distribution of times, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Length {
    /// Always the same.
    Fixed(f64),
    /// Anything from the one to the other is as likely.
    Uniform(f64, f64),
    /// With this mean.
    Exponential(f64),
    /// With this median, and this deviation of its logarithm.
    LogNormal(f64, f64),
}

impl Length {
    /// Draws one by lot.
    pub fn draw(self, chance: &mut Chance) -> f64 {
        match self {
            Length::Fixed(length) => length,
            Length::Uniform(from, to) => from + (to - from) * chance.unit(),
            Length::Exponential(mean) => mean * chance.exponential(),
            Length::LogNormal(median, sigma) => median * libm::exp(sigma * chance.normal()),
        }
    }

    /// The mean.
    pub fn mean(self) -> f64 {
        match self {
            Length::Fixed(length) => length,
            Length::Uniform(from, to) => f64::midpoint(from, to),
            Length::Exponential(mean) => mean,
            Length::LogNormal(median, sigma) => median * libm::exp(sigma * sigma / 2.0),
        }
    }

    /// The mean of the square.
    pub fn square(self) -> f64 {
        match self {
            Length::Fixed(length) => length * length,
            Length::Uniform(from, to) => (from * from + from * to + to * to) / 3.0,
            Length::Exponential(mean) => 2.0 * mean * mean,
            Length::LogNormal(median, sigma) => median * median * libm::exp(2.0 * sigma * sigma),
        }
    }
}

/// One kind of task.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Kind {
    /// How many of all tasks are of this kind, in proportion to the others.
    pub weight: f64,
    /// How long it takes with a core to itself.
    pub length: Length,
    /// The share of its time that a task computes; the rest it waits for others.
    pub cpu: f64,
}

/// The kinds of task that there are.
#[derive(Debug, Clone, PartialEq)]
pub struct Mix(Vec<Kind>);

impl Mix {
    /// A mixture of these.
    ///
    /// # Panics
    /// If there is none, or a weight is not above zero.
    pub fn new(kinds: Vec<Kind>) -> Mix {
        assert!(
            !kinds.is_empty() && kinds.iter().all(|kind| kind.weight > 0.0),
            "a mix has kinds, and each has a weight"
        );
        Mix(kinds)
    }

    /// The kinds, as they were given.
    pub fn kinds(&self) -> &[Kind] {
        &self.0
    }

    /// How long a task waits for others, and how long it computes.
    pub(crate) fn draw(&self, chance: &mut Chance) -> (Nanos, Nanos) {
        let kind = self.choose(chance);
        let length = kind.length.draw(chance).round();
        let compute = (length * kind.cpu).round();
        ((length - compute) as Nanos, compute as Nanos)
    }

    fn choose(&self, chance: &mut Chance) -> &Kind {
        let (last, others) = self.0.split_last().expect("there is one");
        if others.is_empty() {
            return last;
        }
        let mut at = chance.unit() * self.weight();
        for kind in others {
            at -= kind.weight;
            if at <= 0.0 {
                return kind;
            }
        }
        last
    }

    fn weight(&self) -> f64 {
        self.0.iter().map(|kind| kind.weight).sum()
    }

    fn average(&self, of: impl Fn(&Kind) -> f64) -> f64 {
        self.0.iter().map(|kind| kind.weight * of(kind)).sum::<f64>() / self.weight()
    }

    /// The mean length of a task in nanoseconds, as are the others.
    pub fn mean(&self) -> f64 {
        self.average(|kind| kind.length.mean())
    }

    /// The mean of the square of its length.
    pub fn mean_square(&self) -> f64 {
        self.average(|kind| kind.length.square())
    }

    /// How long a task computes on average.
    pub fn mean_compute(&self) -> f64 {
        self.average(|kind| kind.length.mean() * kind.cpu)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: f64 = 1e6;

    fn kind(weight: f64, length: Length, cpu: f64) -> Kind {
        Kind { weight, length, cpu }
    }

    #[test]
    fn each_kind_of_length_has_the_mean_and_the_square_that_it_claims() {
        for length in [
            Length::Fixed(20.0 * MS),
            Length::Uniform(10.0 * MS, 30.0 * MS),
            Length::Exponential(20.0 * MS),
            Length::LogNormal(20.0 * MS, 0.8),
        ] {
            let mut chance = Chance::new(5, 0);
            let n = 200_000;
            let values: Vec<f64> = (0..n).map(|_| length.draw(&mut chance)).collect();
            let mean = values.iter().sum::<f64>() / n as f64;
            let square = values.iter().map(|value| value * value).sum::<f64>() / n as f64;
            let error = ((square - mean * mean) / n as f64).sqrt();
            assert!((mean - length.mean()).abs() <= 4.0 * error, "{length:?}: {mean}");
            assert!((square / length.square() - 1.0).abs() < 0.05, "{length:?}: {square}");
        }
    }

    #[test]
    fn half_of_a_log_normal_is_below_its_median() {
        let mut chance = Chance::new(5, 0);
        let length = Length::LogNormal(20.0 * MS, 1.5);
        let below = (0..100_000).filter(|_| length.draw(&mut chance) < 20.0 * MS).count();
        assert!((49_200..=50_800).contains(&below), "{below}");
    }

    #[test]
    fn a_mixture_is_drawn_by_weight_and_split_by_its_shares() {
        let mix = Mix::new(vec![
            kind(3.0, Length::Fixed(10.0 * MS), 0.25),
            kind(1.0, Length::Fixed(100.0 * MS), 1.0),
        ]);
        let mut chance = Chance::new(7, 0);
        let draws: Vec<_> = (0..40_000).map(|_| mix.draw(&mut chance)).collect();
        let short = draws.iter().filter(|draw| **draw == (7_500_000, 2_500_000)).count();
        let long = draws.iter().filter(|draw| **draw == (0, 100_000_000)).count();
        assert_eq!(short + long, 40_000);
        assert!((29_560..=30_440).contains(&short), "{short}");
        assert!((mix.mean() - 32.5 * MS).abs() < 1.0);
        assert!((mix.mean_compute() - 26.875 * MS).abs() < 1.0);
        assert!((mix.mean_square() / (2575.0 * MS * MS) - 1.0).abs() < 1e-12);
    }
}
