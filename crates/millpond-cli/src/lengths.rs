//! How long tasks take, as people write it: the same phrases for `lab` and for `plan`.

use millpond_sim::{Length, Nanos};

use crate::units;

/// The 99th percentile of a standard normal distribution.
pub(crate) const NORMAL_P99: f64 = 2.326_347_874_040_841;

/// In nanoseconds. What is longer is a slip of the pen, and sums of it would not fit into a number.
const HUNDRED_YEARS: Nanos = 3_153_600_000_000_000_000;

/// A length of time that fits into our nanoseconds.
pub(crate) fn nanos(text: &str) -> Result<Nanos, String> {
    let duration = units::duration(text)?;
    match Nanos::try_from(duration.as_nanos()) {
        Ok(nanos) if nanos <= HUNDRED_YEARS => Ok(nanos),
        _ => Err(format!("'{text}' is longer than a hundred years; give a shorter time")),
    }
}

/// As [`nanos`], and more than nothing.
pub(crate) fn some_nanos(text: &str) -> Result<Nanos, String> {
    match nanos(text)? {
        0 => Err(format!("'{text}' is no time at all; it must be above zero")),
        nanos => Ok(nanos),
    }
}

/// The length that `words` tell, which stand in `text`: `20ms`, `10ms..30ms`, `exponential 20ms`,
/// `log-normal 20ms p99 200ms`.
pub(crate) fn length(text: &str, words: &[&str]) -> Result<Length, String> {
    let time = |text: &str| nanos(text).map(|nanos| nanos as f64);
    match words {
        ["fixed", length] => time(length).map(Length::Fixed),
        ["exponential", mean] => time(mean).map(Length::Exponential),
        ["uniform", range] if range.contains("..") => uniform(range),
        ["log-normal", median, "p99", p99] => {
            let (median, p99) = (some_nanos(median)? as f64, time(p99)?);
            if p99 < median {
                return Err(format!("'{text}' has its p99 below its median; the first time is the median"));
            }
            log_normal(text, median, libm::log(p99 / median) / NORMAL_P99)
        }
        ["log-normal", median, "sigma", sigma] => {
            let sigma = units::amount(sigma)?;
            if sigma > 5.0 {
                return Err(format!("'{text}' is wider than anything real; sigma is at most 5"));
            }
            log_normal(text, some_nanos(median)? as f64, sigma)
        }
        ["log-normal", ..] => Err(format!(
            "'{text}' is not understood; write log-normal MEDIAN p99 TIME, such as log-normal 20ms p99 200ms"
        )),
        [range] if range.contains("..") => uniform(range),
        [length] => time(length).map(Length::Fixed),
        _ => Err(format!(
            "'{text}' is no duration; there are 20ms, 10ms..30ms, exponential 20ms and log-normal 20ms p99 200ms"
        )),
    }
}

/// A wide one has a mean far above its median, which has to be a time as any other.
fn log_normal(text: &str, median: f64, sigma: f64) -> Result<Length, String> {
    match Length::LogNormal(median, sigma) {
        length if length.mean() <= HUNDRED_YEARS as f64 => Ok(length),
        _ => Err(format!("'{text}' has a mean of more than a hundred years; give shorter times")),
    }
}

fn uniform(range: &str) -> Result<Length, String> {
    let (from, to) = range.split_once("..").expect("looked at");
    let (from, to) = (nanos(from)?, nanos(to)?);
    if from > to {
        return Err(format!("'{range}' ends before it begins"));
    }
    Ok(Length::Uniform(from as f64, to as f64))
}
