//! Parses the durations of tasks, for `lab` and `plan`.

use millpond_sim::{Length, Nanos};

use crate::units;

/// The 99th percentile of a standard normal distribution.
pub(crate) const NORMAL_P99: f64 = 2.326_347_874_040_841;

/// In nanoseconds. A longer time is a typing error, and sums of such times would overflow.
const HUNDRED_YEARS: Nanos = 3_153_600_000_000_000_000;

/// A time of at most a hundred years, in nanoseconds.
pub(crate) fn nanos(text: &str) -> Result<Nanos, String> {
    let duration = units::duration(text)?;
    match Nanos::try_from(duration.as_nanos()) {
        Ok(nanos) if nanos <= HUNDRED_YEARS => Ok(nanos),
        _ => Err(format!("'{text}' is longer than a hundred years; give a shorter time")),
    }
}

/// Like [`nanos`], but not zero.
pub(crate) fn some_nanos(text: &str) -> Result<Nanos, String> {
    match nanos(text)? {
        0 => Err(format!("'{text}' is zero; give a time above zero")),
        nanos => Ok(nanos),
    }
}

/// Parses the `words` of `text`: `20ms`, `10ms..30ms`, `exponential 20ms`, `log-normal 20ms p99
/// 200ms`.
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
                return Err(format!("'{text}' has a sigma above 5; give at most 5"));
            }
            log_normal(text, some_nanos(median)? as f64, sigma)
        }
        ["log-normal", ..] => Err(format!(
            "'{text}' is not understood; write log-normal MEDIAN p99 TIME, such as log-normal 20ms p99 200ms"
        )),
        [range] if range.contains("..") => uniform(range),
        [length] => time(length).map(Length::Fixed),
        _ => Err(format!(
            "'{text}' is not a duration; use 20ms, 10ms..30ms, exponential 20ms or log-normal 20ms p99 200ms"
        )),
    }
}

/// Checks the mean too: for a wide distribution it is far above the median, and it must be a valid
/// time.
fn log_normal(text: &str, median: f64, sigma: f64) -> Result<Length, String> {
    match Length::LogNormal(median, sigma) {
        length if length.mean() <= HUNDRED_YEARS as f64 => Ok(length),
        _ => Err(format!("'{text}' has a mean of more than a hundred years; give shorter times")),
    }
}

fn uniform(range: &str) -> Result<Length, String> {
    let (from, to) = range.split_once("..").expect("callers check for the dots");
    let (from, to) = (nanos(from)?, nanos(to)?);
    if from > to {
        return Err(format!("'{range}' ends before it begins"));
    }
    Ok(Length::Uniform(from as f64, to as f64))
}
