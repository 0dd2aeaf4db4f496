//! Loads and pools as text.

use std::fmt;

use millpond::growth::GrowthRule;
use millpond_sim::{Arrivals, Kind, Length, Policy, Pool};

use super::NORMAL_P99;
use crate::units;

/// Displays a pool, arrivals or a kind of task.
#[derive(Debug)]
pub(crate) struct Phrase<'a, T>(pub(crate) &'a T);

impl fmt::Display for Phrase<'_, Pool> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pool = self.0;
        write!(f, "core {}, max ", pool.core)?;
        if pool.maximum == usize::MAX {
            f.write_str("unlimited")?
        } else {
            write!(f, "{}", pool.maximum)?
        }
        match pool.queue {
            None => f.write_str(", unbounded queue")?,
            Some(0) => f.write_str(", synchronous queue")?,
            Some(capacity) => write!(f, ", queue {capacity}")?,
        }
        if pool.rule == GrowthRule::Eager {
            f.write_str(", eager")?;
        }
        if pool.core_time_out || pool.maximum > pool.core {
            write!(f, ", keep-alive {}", plain(pool.keep_alive as f64))?;
        }
        if pool.core_time_out {
            f.write_str(", core time-out")?;
        }
        match pool.policy {
            Policy::Abort => Ok(()),
            Policy::Discard => f.write_str(", discard"),
            Policy::DiscardOldest => f.write_str(", discard oldest"),
            Policy::CallerRuns => f.write_str(", caller runs"),
            Policy::Block(None) => f.write_str(", block"),
            Policy::Block(Some(most)) => write!(f, ", block up to {}", plain(most as f64)),
        }
    }
}

impl fmt::Display for Phrase<'_, Arrivals> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Arrivals::Constant(rate) => write!(f, "constant {}", PerSecond(*rate)),
            Arrivals::Poisson(rate) => write!(f, "Poisson {}", PerSecond(*rate)),
            Arrivals::Ramp { from, to, over } => {
                write!(f, "ramp {} to {} over {}", PerSecond(*from), PerSecond(*to), plain(*over as f64))
            }
            Arrivals::Burst { count, every: None } => write!(f, "{} at once", units::show_count(*count)),
            Arrivals::Burst { count, every: Some(every) } => {
                write!(f, "{} at once every {}", units::show_count(*count), plain(*every as f64))
            }
            Arrivals::Times(times) => write!(f, "{} recorded", units::show_count(times.len() as u64)),
        }
    }
}

impl fmt::Display for Phrase<'_, Kind> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Kind { weight, length, cpu } = *self.0;
        if weight < 1.0 {
            write!(f, "{} ", percent(weight))?;
        }
        match length {
            Length::Fixed(length) => f.write_str(&plain(length))?,
            Length::Uniform(from, to) => write!(f, "{} to {}", plain(from), plain(to))?,
            Length::Exponential(mean) => write!(f, "exponential {}", plain(mean))?,
            Length::LogNormal(median, sigma) => {
                let p99 = median * libm::exp(sigma * NORMAL_P99);
                write!(f, "log-normal {}, p99 {}", plain(median), plain(p99.round()))?;
            }
        }
        if cpu > 0.0 { write!(f, ", {} computing", percent(cpu)) } else { Ok(()) }
    }
}

/// A duration without trailing zeros: `20 ms`, `1.5 s`.
pub(crate) fn plain(nanos: f64) -> String {
    let (value, unit) = match nanos {
        0.0 => return "0".to_owned(),
        n if n >= 1e9 => (n / 1e9, "s"),
        n if n >= 1e6 => (n / 1e6, "ms"),
        n if n >= 1e3 => (n / 1e3, "us"),
        n => (n, "ns"),
    };
    let text = format!("{value:.3}");
    format!("{} {unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

/// A share with up to three digits: `0.1%`, `12.5%`.
pub(crate) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    let text = match percent {
        p if p >= 9.995 => format!("{p:.1}"),
        p if p >= 0.995 => format!("{p:.2}"),
        p => format!("{p:.3}"),
    };
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}%")
}

/// A rate with three digits, per minute or hour if it is small.
#[derive(Debug)]
pub(crate) struct PerSecond(pub(crate) f64);

impl fmt::Display for PerSecond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rate, unit) = match self.0 {
            rate if rate >= 0.1 || rate == 0.0 => (rate, "s"),
            rate if rate * 60.0 >= 1.0 => (rate * 60.0, "min"),
            rate => (rate * 3600.0, "h"),
        };
        if rate >= 1e4 {
            return write!(f, "{}/{unit}", units::show_count(rate.round() as u64));
        }
        let text = match rate {
            rate if rate >= 100.0 => format!("{rate:.1}"),
            rate if rate >= 10.0 => format!("{rate:.2}"),
            rate => format!("{rate:.3}"),
        };
        write!(f, "{}/{unit}", text.trim_end_matches('0').trim_end_matches('.'))
    }
}
