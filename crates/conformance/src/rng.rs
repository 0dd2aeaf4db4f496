//! A small random number generator: a seed gives the same scenarios on every machine and with every
//! version.

/// SplitMix64: one word of state, good enough to choose steps.
#[derive(Debug, Clone)]
pub struct Rng {
    state: u64,
}

impl Rng {
    /// A generator for this seed.
    pub fn new(seed: u64) -> Rng {
        Rng { state: seed }
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number from `low` to `high`, both included.
    pub fn range(&mut self, low: i64, high: i64) -> i64 {
        let span = high.abs_diff(low) + 1;
        low + i64::try_from(self.bits() % span).expect("spans are small")
    }

    /// True in `percent` of 100 cases.
    pub fn chance(&mut self, percent: i64) -> bool {
        self.range(0, 99) < percent
    }

    /// One of `choices`, which must not be empty.
    pub fn pick<T: Clone>(&mut self, choices: &[T]) -> T {
        let at = self.range(0, choices.len() as i64 - 1);
        choices[at as usize].clone()
    }

    /// One of `choices`, each with its weight.
    pub fn weighted<T: Copy>(&mut self, choices: &[(i64, T)]) -> T {
        let total: i64 = choices.iter().map(|(weight, _)| weight).sum();
        let mut at = self.range(0, total - 1);
        for (weight, choice) in choices {
            at -= weight;
            if at < 0 {
                return *choice;
            }
        }
        unreachable!("the weights sum up to {total}")
    }
}
