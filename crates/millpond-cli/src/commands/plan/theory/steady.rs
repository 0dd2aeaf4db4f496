//! M/M/c and M/M/c/K in the steady state: the share of lost tasks and the distribution of times.
//!
//! An arriving task that finds `j` tasks waiting and all `c` threads busy starts after `j + 1`
//! tasks have ended. This takes an Erlang-distributed time with `j + 1` steps at rate c·mu. The
//! sums over `j` are rewritten as sums over Poisson probabilities, which are negligible outside of
//! a narrow range. All terms are positive and stored as logarithms, so nothing cancels or
//! overflows.

use std::ops::RangeInclusive;

use millpond_sim::Judged;

use super::erlang_b;

/// A pool of threads with Poisson arrivals and exponential durations.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Steady {
    /// Offered load: rate × mean duration.
    load: f64,
    pub(crate) threads: usize,
    /// Queue capacity. `None`: unbounded, and `load` is below `threads`.
    pub(crate) places: Option<usize>,
    /// Mean duration of a task in nanoseconds.
    mean: f64,
    /// The sum of the states with an idle thread, relative to the state in which all are busy and
    /// no task waits.
    before: f64,
}

/// Probabilities of the states that an arriving task finds. Logarithms, relative to the state in
/// which all threads are busy and no task waits.
#[derive(Debug, Clone, Copy)]
struct States {
    /// ln(load / threads).
    ratio: f64,
    places: usize,
    /// ln of the sum of all states.
    all: f64,
    /// Probability that a thread is idle.
    idle: f64,
    lost: f64,
}

/// ln(1 + r + r² + … ), `terms` of them, for r = e^`ratio`.
fn ln_geometric(ratio: f64, terms: f64) -> f64 {
    if terms <= 0.0 {
        return f64::NEG_INFINITY;
    }
    if (ratio * terms).abs() < 1e-9 {
        return libm::log(terms);
    }
    let ln_ratio_of = |ratio: f64| libm::log(libm::expm1(ratio * terms) / libm::expm1(ratio));
    if ratio < 0.0 { ln_ratio_of(ratio) } else { ratio * (terms - 1.0) + ln_geometric(-ratio, terms) }
}

fn ln_poisson(k: f64, mean: f64) -> f64 {
    k * libm::log(mean) - mean - libm::lgamma(k + 1.0)
}

/// The numbers around the largest term of a sum of Poisson probabilities that are not negligible.
fn around(largest: f64) -> RangeInclusive<usize> {
    let margin = 13.0 * largest.sqrt() + 50.0;
    (largest - margin).max(0.0) as usize..=(largest + margin) as usize
}

impl Steady {
    pub(crate) fn new(load: f64, threads: usize, places: Option<usize>, mean: f64) -> Steady {
        Steady { load, threads, places, mean, before: 1.0 / erlang_b(load, threads) - 1.0 }
    }

    /// The same with another queue.
    pub(crate) fn with_places(self, places: usize) -> Steady {
        Steady { places: Some(places), ..self }
    }

    fn states(&self) -> Option<States> {
        let places = self.places?;
        let ratio = libm::log(self.load / self.threads as f64);
        let ln_before = libm::log(self.before);
        let full = ln_geometric(ratio, places as f64 + 1.0);
        let larger = ln_before.max(full);
        let all = larger + libm::log(libm::exp(ln_before - larger) + libm::exp(full - larger));
        let lost = libm::exp(ratio * places as f64 - all);
        Some(States { ratio, places, all, idle: libm::exp(ln_before - all), lost })
    }

    /// The share of refused tasks.
    pub(crate) fn lost(&self) -> f64 {
        match self.states() {
            Some(states) if states.lost.is_nan() => 0.0, // so rare that it is below the smallest number
            Some(states) => states.lost,
            None => 0.0,
        }
    }

    /// The share of the accepted tasks that take longer than `limit` nanoseconds.
    pub(crate) fn late(&self, of: Judged, limit: f64) -> f64 {
        let durations = limit / self.mean;
        let share = match (self.states(), of) {
            // All threads are never busy: no task waits.
            (Some(states), Judged::Wait) if !states.all.is_finite() => 0.0,
            (Some(states), Judged::Total) if !states.all.is_finite() => libm::exp(-durations),
            (Some(states), Judged::Wait) => self.waits_longer(&states, durations),
            (Some(states), Judged::Total) => {
                (states.idle / (1.0 - states.lost)) * libm::exp(-durations)
                    + self.waits_longer(&states, durations)
                    + self.starts_but_does_not_end(&states, durations)
            }
            (None, of) => self.late_unbounded(of, durations),
        };
        share.clamp(0.0, 1.0)
    }

    /// P(wait > t). A task behind j others waits longer than t if at most j of the c threads' tasks
    /// end within t.
    fn waits_longer(&self, states: &States, durations: f64) -> f64 {
        let mean = self.threads as f64 * durations;
        let longer = |k: usize| {
            let rest = ln_geometric(states.ratio, (states.places - k) as f64);
            let ended = if mean == 0.0 { 0.0 } else { ln_poisson(k as f64, mean) };
            libm::exp(ended + states.ratio * k as f64 + rest - states.all)
        };
        let range = if mean == 0.0 { 0..=0 } else { around(mean) };
        let sum: f64 = range.take_while(|k| *k < states.places).map(longer).sum();
        sum / (1.0 - states.lost)
    }

    /// P(0 < wait ≤ t < total): the task waited, has started, and is still running.
    fn starts_but_does_not_end(&self, states: &States, durations: f64) -> f64 {
        if durations == 0.0 || states.places == 0 {
            return 0.0;
        }
        let places = states.places as f64;
        let sum: f64 = if self.threads == 1 {
            let term = |k: usize| ln_poisson(k as f64, durations) + states.ratio * (k as f64 - 1.0);
            let likely = around((self.load * durations).min(places));
            likely.filter(|k| (1..=states.places).contains(k)).map(|k| libm::exp(term(k) - states.all)).sum()
        } else {
            let others = self.threads as f64 - 1.0;
            let (mean, step) = (others * durations, libm::log(self.threads as f64 / others));
            let grown = mean * self.load / others;
            let term = |k: usize| {
                let queues = ln_geometric(states.ratio + step, places.min(k as f64));
                libm::exp(ln_poisson(k as f64, mean) + step + queues - durations - states.all)
            };
            // Beyond the last place the geometric factor no longer grows.
            let largest = if grown <= mean { mean } else { grown.min(places).max(mean) };
            around(largest).filter(|k| *k > 0).map(term).sum()
        };
        sum / (1.0 - states.lost)
    }

    fn late_unbounded(&self, of: Judged, durations: f64) -> f64 {
        let waited = super::erlang_c(self.load, self.threads);
        let spare = self.threads as f64 - self.load;
        let (alone, behind) = (libm::exp(-durations), libm::exp(-spare * durations));
        match of {
            Judged::Wait => waited * behind,
            Judged::Total if (spare - 1.0).abs() < 1e-6 => {
                (1.0 - waited) * alone + waited * (1.0 + durations) * alone
            }
            Judged::Total => (1.0 - waited) * alone + waited * (spare * alone - behind) / (spare - 1.0),
        }
    }

    /// The percentile of a time, in nanoseconds.
    pub(crate) fn percentile(&self, of: Judged, share: f64) -> f64 {
        let is_late = |limit: f64| self.late(of, limit) > 1.0 - share;
        if !is_late(0.0) {
            return 0.0;
        }
        let (mut low, mut high) = (0.0, self.mean);
        while is_late(high) {
            (low, high) = (high, high * 2.0);
        }
        while high - low > 1e-9 * high {
            let middle = f64::midpoint(low, high);
            if is_late(middle) { low = middle } else { high = middle }
        }
        high
    }
}
