//! Numbers drawn by lot: the same for the same seed, on every machine.
//!
//! Logarithms and the like come from a library in Rust: those of the operating systems differ in the last digit.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// A series of lots.
#[derive(Debug, Clone)]
pub struct Chance(Xoshiro256PlusPlus);

impl Chance {
    /// A series of numbers of its own for each `stream`, so that a change in one does not disturb the others.
    pub fn new(seed: u64, stream: usize) -> Chance {
        let mut numbers = Xoshiro256PlusPlus::seed_from_u64(seed);
        (0..stream).for_each(|_| numbers.jump());
        Chance(numbers)
    }

    /// From 0 to 1, never 0 itself.
    pub fn unit(&mut self) -> f64 {
        ((self.0.next_u64() >> 11) as f64 + 1.0) / (1u64 << 53) as f64
    }

    /// Exponential with mean 1.
    pub fn exponential(&mut self) -> f64 {
        -libm::log(self.unit())
    }

    /// Normal with mean 0 and deviation 1: a point in the unit circle (the polar method). Its second number is not kept, so
    /// that a task's draw does not depend on the one before.
    pub(crate) fn normal(&mut self) -> f64 {
        loop {
            let (x, y) = (2.0 * self.unit() - 1.0, 2.0 * self.unit() - 1.0);
            let square = x * x + y * y;
            if square < 1.0 && square > 0.0 {
                return x * (-2.0 * libm::log(square) / square).sqrt();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known numbers: whoever changes the generator changes every plan that was ever printed with a seed.
    #[test]
    fn a_seed_means_the_same_numbers_for_ever() {
        let draw = |seed, stream| {
            let mut chance = Chance::new(seed, stream);
            [chance.unit(), chance.exponential(), chance.normal()].map(f64::to_bits)
        };
        assert_eq!(draw(1, 0), draw(1, 0));
        assert_ne!(draw(1, 0), draw(2, 0));
        assert_ne!(draw(1, 0), draw(1, 1));
        assert_eq!(draw(1, 0), [4605485571977896057, 4598923716387423598, 13824730353368830361]);
    }

    #[test]
    fn draws_have_the_moments_that_they_should() {
        let mut chance = Chance::new(3, 0);
        let n = 200_000;
        let mut moments = |mut draw: Box<dyn FnMut(&mut Chance) -> f64>| {
            let values: Vec<f64> = (0..n).map(|_| draw(&mut chance)).collect();
            let mean = values.iter().sum::<f64>() / n as f64;
            (mean, values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / n as f64)
        };
        // Five standard errors.
        let (mean, variance) = moments(Box::new(Chance::exponential));
        assert!((mean - 1.0).abs() < 0.0112 && (variance - 1.0).abs() < 0.0317, "{mean} {variance}");
        let (mean, variance) = moments(Box::new(Chance::normal));
        assert!(mean.abs() < 0.0112 && (variance - 1.0).abs() < 0.0159, "{mean} {variance}");
        let (mean, variance) = moments(Box::new(Chance::unit));
        assert!((mean - 0.5).abs() < 0.0033 && (variance - 1.0 / 12.0).abs() < 0.0009, "{mean} {variance}");
    }
}
