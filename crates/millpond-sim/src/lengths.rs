//! How long tasks take, and how much of that time they use a core.

use std::sync::Arc;

use crate::Nanos;
use crate::chance::Chance;

/// A distribution of times, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Length {
    /// Constant.
    Fixed(f64),
    /// Uniform from the first to the second.
    Uniform(f64, f64),
    /// Exponential with this mean.
    Exponential(f64),
    /// Log-normal with this median and this standard deviation of the logarithm.
    LogNormal(f64, f64),
}

impl Length {
    /// Draws a random value.
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
    /// How many tasks are of this kind, relative to the weights of the others.
    pub weight: f64,
    /// How long a task takes with a core to itself.
    pub length: Length,
    /// The fraction of its time in which a task uses a core. In the rest it waits.
    pub cpu: f64,
}

/// The durations of all tasks: drawn from a mixture of kinds, or recorded.
#[derive(Debug, Clone, PartialEq)]
pub struct Mix(Source);

#[derive(Debug, Clone, PartialEq)]
enum Source {
    Kinds(Vec<Kind>),
    Recorded {
        lengths: Arc<[Nanos]>,
        cpu: f64,
        /// Whether the n-th task takes the n-th duration. Otherwise durations are drawn at random.
        in_order: bool,
    },
}

impl Mix {
    /// A mixture of kinds.
    ///
    /// # Panics
    /// If `kinds` is empty, or a weight is not above zero.
    pub fn new(kinds: Vec<Kind>) -> Mix {
        assert!(
            !kinds.is_empty() && kinds.iter().all(|kind| kind.weight > 0.0),
            "a mix needs kinds with weights above zero"
        );
        Mix(Source::Kinds(kinds))
    }

    /// Recorded durations, drawn at random with equal probability.
    ///
    /// # Panics
    /// If `lengths` is empty.
    pub fn recorded(lengths: Arc<[Nanos]>, cpu: f64) -> Mix {
        assert!(!lengths.is_empty(), "a recording needs durations");
        Mix(Source::Recorded { lengths, cpu, in_order: false })
    }

    /// Recorded durations in their order: the n-th task takes the n-th.
    ///
    /// # Panics
    /// If `lengths` is empty.
    pub fn recorded_in_order(lengths: Arc<[Nanos]>, cpu: f64) -> Mix {
        assert!(!lengths.is_empty(), "a recording needs durations");
        Mix(Source::Recorded { lengths, cpu, in_order: true })
    }

    /// The kinds that were given to `new`. Empty if the durations are recorded.
    pub fn kinds(&self) -> &[Kind] {
        match &self.0 {
            Source::Kinds(kinds) => kinds,
            Source::Recorded { .. } => &[],
        }
    }

    /// The number of recorded durations, or `None` if there is a mixture.
    pub fn recorded_count(&self) -> Option<usize> {
        match &self.0 {
            Source::Kinds(_) => None,
            Source::Recorded { lengths, .. } => Some(lengths.len()),
        }
    }

    /// Whether every seed gives the same durations.
    pub fn is_deterministic(&self) -> bool {
        match &self.0 {
            Source::Kinds(kinds) => matches!(kinds.as_slice(), [Kind { length: Length::Fixed(_), .. }]),
            Source::Recorded { lengths, in_order, .. } => *in_order || lengths.len() == 1,
        }
    }

    /// Draws the waiting time and the computing time of task `number`.
    pub(crate) fn draw(&self, chance: &mut Chance, number: u64) -> (Nanos, Nanos) {
        let (length, cpu) = match &self.0 {
            Source::Kinds(kinds) => {
                let kind = choose(kinds, chance);
                (kind.length.draw(chance).round(), kind.cpu)
            }
            Source::Recorded { lengths, cpu, in_order } => {
                let count = lengths.len();
                let at = if *in_order { number as usize } else { (chance.unit() * count as f64) as usize };
                (lengths[at.min(count - 1)] as f64, *cpu)
            }
        };
        let compute = (length * cpu).round();
        ((length - compute) as Nanos, compute as Nanos)
    }

    fn average(&self, of_kind: impl Fn(&Kind) -> f64, of_length: impl Fn(f64, f64) -> f64) -> f64 {
        match &self.0 {
            Source::Kinds(kinds) => {
                kinds.iter().map(|kind| kind.weight * of_kind(kind)).sum::<f64>() / weight(kinds)
            }
            Source::Recorded { lengths, cpu, .. } => {
                lengths.iter().map(|length| of_length(*length as f64, *cpu)).sum::<f64>()
                    / lengths.len() as f64
            }
        }
    }

    /// Mean duration in nanoseconds.
    pub fn mean(&self) -> f64 {
        self.average(|kind| kind.length.mean(), |length, _| length)
    }

    /// Mean of the squared duration.
    pub fn mean_square(&self) -> f64 {
        self.average(|kind| kind.length.square(), |length, _| length * length)
    }

    /// Mean computing time in nanoseconds.
    pub fn mean_compute(&self) -> f64 {
        self.average(|kind| kind.length.mean() * kind.cpu, |length, cpu| length * cpu)
    }

    /// Whether tasks use a core all the time.
    pub fn only_computes(&self) -> bool {
        match &self.0 {
            Source::Kinds(kinds) => kinds.iter().all(|kind| kind.cpu == 1.0),
            Source::Recorded { cpu, .. } => *cpu == 1.0,
        }
    }
}

fn weight(kinds: &[Kind]) -> f64 {
    kinds.iter().map(|kind| kind.weight).sum()
}

fn choose<'a>(kinds: &'a [Kind], chance: &mut Chance) -> &'a Kind {
    let (last, others) = kinds.split_last().expect("checked by `new`");
    if others.is_empty() {
        return last;
    }
    let mut at = chance.unit() * weight(kinds);
    for kind in others {
        at -= kind.weight;
        if at <= 0.0 {
            return kind;
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: f64 = 1e6;

    fn kind(weight: f64, length: Length, cpu: f64) -> Kind {
        Kind { weight, length, cpu }
    }

    #[test]
    fn each_distribution_has_its_mean_and_mean_square() {
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
    fn a_mixture_is_drawn_by_weight_and_split_by_cpu_share() {
        let mix = Mix::new(vec![
            kind(3.0, Length::Fixed(10.0 * MS), 0.25),
            kind(1.0, Length::Fixed(100.0 * MS), 1.0),
        ]);
        let mut chance = Chance::new(7, 0);
        let draws: Vec<_> = (0..40_000).map(|_| mix.draw(&mut chance, 0)).collect();
        let short = draws.iter().filter(|draw| **draw == (7_500_000, 2_500_000)).count();
        let long = draws.iter().filter(|draw| **draw == (0, 100_000_000)).count();
        assert_eq!(short + long, 40_000);
        assert!((29_560..=30_440).contains(&short), "{short}");
        assert!((mix.mean() - 32.5 * MS).abs() < 1.0);
        assert!((mix.mean_compute() - 26.875 * MS).abs() < 1.0);
        assert!((mix.mean_square() / (2575.0 * MS * MS) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn recorded_durations_come_in_order_or_at_random() {
        let lengths: Arc<[Nanos]> = [10, 30, 80].into();
        let mut chance = Chance::new(7, 0);
        let in_order = Mix::recorded_in_order(lengths.clone(), 0.5);
        let drawn: Vec<_> = (0..3).map(|number| in_order.draw(&mut chance, number)).collect();
        assert_eq!(drawn, [(5, 5), (15, 15), (40, 40)]);
        let random = Mix::recorded(lengths, 0.0);
        let mut counts = [0; 3];
        for number in 0..30_000 {
            let (wait, _) = random.draw(&mut chance, number);
            counts[[10, 30, 80].iter().position(|length| *length == wait).expect("a recorded one")] += 1;
        }
        assert!(counts.iter().all(|count| (9_600..=10_400).contains(count)), "{counts:?}");
        assert_eq!((random.mean(), random.mean_square()), (40.0, 7400.0 / 3.0));
        assert!(in_order.is_deterministic() && !random.is_deterministic());
    }
}
