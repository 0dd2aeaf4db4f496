//! Random numbers that are the same for the same seed on every machine.
//!
//! Logarithms come from `libm`: those of the operating systems differ in the last digit.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// A random number generator.
#[derive(Debug, Clone)]
pub struct Chance(Xoshiro256PlusPlus);

impl Chance {
    /// Each `stream` of a seed has its own sequence, so a change in one does not affect the others.
    pub fn new(seed: u64, stream: usize) -> Chance {
        let mut numbers = Xoshiro256PlusPlus::seed_from_u64(seed);
        (0..stream).for_each(|_| numbers.jump());
        Chance(numbers)
    }

    /// Uniform from 0 (excluded) to 1.
    pub fn unit(&mut self) -> f64 {
        ((self.0.next_u64() >> 11) as f64 + 1.0) / (1u64 << 53) as f64
    }

    /// Exponential, with mean 1.
    pub fn exponential(&mut self) -> f64 {
        -libm::log(self.unit())
    }

    /// Normal, with mean 0 and standard deviation 1, by the polar method. Drops the method's second
    /// number, so that a draw does not depend on the previous one.
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

    /// Fixed values: a different generator would change every plan that was printed with a seed.
    #[test]
    fn a_seed_gives_known_numbers() {
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
    fn draws_have_the_expected_moments() {
        let mut chance = Chance::new(3, 0);
        let n = 200_000;
        let mut moments = |mut draw: Box<dyn FnMut(&mut Chance) -> f64>| {
            let values: Vec<f64> = (0..n).map(|_| draw(&mut chance)).collect();
            let mean = values.iter().sum::<f64>() / n as f64;
            (mean, values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / n as f64)
        };
        // The tolerance is five standard errors.
        let (mean, variance) = moments(Box::new(Chance::exponential));
        assert!((mean - 1.0).abs() < 0.0112 && (variance - 1.0).abs() < 0.0317, "{mean} {variance}");
        let (mean, variance) = moments(Box::new(Chance::normal));
        assert!(mean.abs() < 0.0112 && (variance - 1.0).abs() < 0.0159, "{mean} {variance}");
        let (mean, variance) = moments(Box::new(Chance::unit));
        assert!((mean - 0.5).abs() < 0.0033 && (variance - 1.0 / 12.0).abs() < 0.0009, "{mean} {variance}");
    }
}
