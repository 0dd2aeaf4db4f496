//! The phrases on the command line: `poisson 200/s`, `90% 5ms, 10% exponential 200ms`, `core=4,max=16,queue=100`.

use std::fmt;
use std::path::PathBuf;

use millpond::growth::GrowthRule;
use millpond_sim::{Arrivals, Kind, Length, Nanos, Policy, Pool};

use crate::units;

/// The 99th percentile of a standard normal distribution.
const NORMAL_P99: f64 = 2.326_347_874_040_841;
/// What an idle thread is kept for where nobody tells, as in the library.
const KEEP_ALIVE: Nanos = 60_000_000_000;

/// A length of time that fits into our nanoseconds.
pub(super) fn nanos(text: &str) -> Result<Nanos, String> {
    let duration = units::duration(text)?;
    match Nanos::try_from(duration.as_nanos()) {
        Ok(nanos) if nanos <= 3_153_600_000_000_000_000 => Ok(nanos),
        _ => Err(format!("'{text}' is longer than a hundred years; give a shorter time")),
    }
}

/// As [`nanos`], and more than nothing.
pub(super) fn some_nanos(text: &str) -> Result<Nanos, String> {
    match nanos(text)? {
        0 => Err(format!("'{text}' is no time at all; it must be above zero")),
        nanos => Ok(nanos),
    }
}

/// `200/s`: from one in eleven days to a thousand million in a second.
fn rate(text: &str) -> Result<f64, String> {
    match units::rate(text)? {
        rate if (1e-6..=1e9).contains(&rate) => Ok(rate),
        _ => Err(format!("'{text}' is no rate to plan with; it is from 0.000001/s to 1G/s")),
    }
}

/// Arrivals as they stand on the command line: a file is not read yet, and a ramp may not know how long it is.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ArrivalWords {
    Ready(Arrivals),
    Ramp(f64, f64),
    File { path: PathBuf, column: Option<String>, unit: TimeUnit },
}

/// What a number in a file counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TimeUnit {
    Seconds,
    Millis,
    Micros,
    Nanos,
}

impl TimeUnit {
    /// Powers of ten from this to nanoseconds.
    pub(super) fn digits(self) -> u32 {
        match self {
            TimeUnit::Seconds => 9,
            TimeUnit::Millis => 6,
            TimeUnit::Micros => 3,
            TimeUnit::Nanos => 0,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            TimeUnit::Seconds => "seconds",
            TimeUnit::Millis => "milliseconds",
            TimeUnit::Micros => "microseconds",
            TimeUnit::Nanos => "nanoseconds",
        }
    }
}

/// `constant 200/s`, `poisson 200/s`, `ramp 10/s..500/s over 30s`, `burst 100 every 1s`, `FILE.csv column C in ms`.
pub(super) fn arrivals(text: &str) -> Result<ArrivalWords, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let ready = |arrivals| Ok(ArrivalWords::Ready(arrivals));
    match words.as_slice() {
        ["constant", per] => ready(Arrivals::Constant(rate(per)?)),
        ["poisson", per] => ready(Arrivals::Poisson(rate(per)?)),
        ["ramp", rates] => ramp(text, rates).map(|(from, to)| ArrivalWords::Ramp(from, to)),
        ["ramp", rates, "over", time] => {
            let (from, to) = ramp(text, rates)?;
            ready(Arrivals::Ramp { from, to, over: some_nanos(time)? })
        }
        ["burst", count] => ready(Arrivals::Burst { count: tasks(count)?, every: None }),
        ["burst", count, "every", time] => {
            ready(Arrivals::Burst { count: tasks(count)?, every: Some(some_nanos(time)?) })
        }
        [kind @ ("constant" | "poisson"), ..] => {
            Err(format!("'{text}' is not understood; write {kind} 200/s"))
        }
        ["ramp", ..] => Err(format!("'{text}' is not understood; write ramp 10/s..500/s over 30s")),
        ["burst", ..] => Err(format!("'{text}' is not understood; write burst 100, or burst 100 every 1s")),
        _ if text.contains(".csv") || words.first() == Some(&"csv") => file(text),
        _ => Err(format!(
            "'{text}' is no way to arrive; there are constant, poisson, ramp, burst and FILE.csv"
        )),
    }
}

fn tasks(text: &str) -> Result<u64, String> {
    match units::count(text)? {
        0 => Err("a burst of no tasks is none; give a number above zero".to_owned()),
        count => Ok(count),
    }
}

fn ramp(text: &str, rates: &str) -> Result<(f64, f64), String> {
    let (from, to) = rates
        .split_once("..")
        .ok_or_else(|| format!("'{text}' goes nowhere; write ramp 10/s..500/s over 30s"))?;
    // It may begin at nothing, but must lead somewhere.
    let from = if units::rate(from)? == 0.0 { 0.0 } else { rate(from)? };
    Ok((from, rate(to)?))
}

fn file(text: &str) -> Result<ArrivalWords, String> {
    let mut rest = text.trim().strip_prefix("csv ").unwrap_or(text.trim());
    let mut unit = TimeUnit::Seconds;
    if let Some((before, name)) = rest.rsplit_once(" in ") {
        unit = match name.trim() {
            "s" => TimeUnit::Seconds,
            "ms" => TimeUnit::Millis,
            "us" => TimeUnit::Micros,
            "ns" => TimeUnit::Nanos,
            other => return Err(format!("'{other}' is no unit of a timestamp; there are s, ms, us and ns")),
        };
        rest = before;
    }
    let mut column = None;
    if let Some((before, name)) = rest.rsplit_once(" column ") {
        column = Some(name.trim().to_owned());
        rest = before;
    }
    Ok(ArrivalWords::File { path: PathBuf::from(rest.trim()), column, unit })
}

/// One kind of task on the command line. What it does not say is decided by the other arguments.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct KindWords {
    weight: f64,
    length: Length,
    cpu: Option<f64>,
}

impl KindWords {
    /// With this share of computing where it names none.
    pub(super) fn kind(self, cpu: f64) -> Kind {
        Kind { weight: self.weight, length: self.length, cpu: self.cpu.unwrap_or(cpu) }
    }
}

/// All kinds of task on the command line.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct MixWords(pub(super) Vec<KindWords>);

/// `20ms`, `exponential 20ms`, or several with their shares: `90% 5ms, 10% exponential 200ms cpu 80%`.
pub(super) fn mix(text: &str) -> Result<MixWords, String> {
    let parts: Vec<&str> = text.split(',').map(str::trim).collect();
    if let [one] = parts.as_slice() {
        let (weight, kind) = split_weight(one)?;
        if weight.is_some_and(|weight| (weight - 1.0).abs() > 1e-9) {
            return Err(format!("'{text}' tells only of a part of the tasks; add the others after a comma"));
        }
        return self::kind(kind, 1.0).map(|kind| MixWords(vec![kind]));
    }
    let mut kinds = Vec::new();
    for part in parts {
        match split_weight(part)? {
            (Some(weight), _) if weight <= 0.0 => {
                return Err(format!("'{part}' never occurs; leave it out, or give it a share above 0%"));
            }
            (Some(weight), words) => kinds.push(kind(words, weight)?),
            (None, _) => {
                return Err(format!("'{part}' does not say how many of the tasks; write 10% {part}"));
            }
        }
    }
    let whole: f64 = kinds.iter().map(|kind| kind.weight).sum();
    if (whole - 1.0).abs() > 1e-6 {
        return Err(format!("the shares in '{text}' make {:.4}%; they must make 100%", whole * 100.0));
    }
    Ok(MixWords(kinds))
}

/// The share that a part begins with, if any, and the rest.
fn split_weight(part: &str) -> Result<(Option<f64>, &str), String> {
    match part.split_once(char::is_whitespace) {
        Some((weight, rest)) if weight.ends_with('%') => Ok((Some(units::share(weight)?), rest)),
        _ => Ok((None, part)),
    }
}

fn kind(text: &str, weight: f64) -> Result<KindWords, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let (words, cpu) = match words.as_slice() {
        [before @ .., "cpu", share] => (before, Some(units::share(share)?)),
        all => (all, None),
    };
    let length = length(text, words)?;
    Ok(KindWords { weight, length, cpu })
}

fn length(text: &str, words: &[&str]) -> Result<Length, String> {
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
            Ok(Length::LogNormal(median, libm::log(p99 / median) / NORMAL_P99))
        }
        ["log-normal", median, "sigma", sigma] => {
            let sigma = units::amount(sigma)?;
            if sigma > 5.0 {
                return Err(format!("'{text}' is wider than anything real; sigma is at most 5"));
            }
            Ok(Length::LogNormal(some_nanos(median)? as f64, sigma))
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

fn uniform(range: &str) -> Result<Length, String> {
    let (from, to) = range.split_once("..").expect("looked at");
    let (from, to) = (nanos(from)?, nanos(to)?);
    if from > to {
        return Err(format!("'{range}' ends before it begins"));
    }
    Ok(Length::Uniform(from as f64, to as f64))
}

/// A pool and what to call it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NamedPool {
    pub(super) name: String,
    pub(super) pool: Pool,
}

/// `core=4,max=16,queue=100,keep-alive=10s,eager,policy=block 1s`, `fixed 4`, `cached`; with a name: `small: fixed 4`.
pub(super) fn pool(text: &str) -> Result<NamedPool, String> {
    let (name, settings) = match text.split_once(':') {
        Some((name, settings)) => (Some(name.trim()).filter(|name| !name.is_empty()), settings),
        None => (None, text),
    };
    let mut draft = Draft::default();
    for setting in settings.split(',') {
        let setting = setting.replace('=', " ");
        draft.set(&setting.split_whitespace().collect::<Vec<_>>())?;
    }
    let pool = draft.finish(text)?;
    Ok(NamedPool { name: name.map_or_else(|| short_name(&pool), str::to_owned), pool })
}

#[derive(Debug, Default)]
struct Draft {
    core: Option<usize>,
    maximum: Option<usize>,
    queue: Option<Option<usize>>,
    keep_alive: Option<Nanos>,
    core_time_out: bool,
    eager: bool,
    policy: Option<Policy>,
}

impl Draft {
    fn set(&mut self, words: &[&str]) -> Result<(), String> {
        match words {
            ["fixed", threads] => {
                let threads = size(threads)?;
                put(&mut self.core, threads, "core")?;
                put(&mut self.maximum, threads, "max")
            }
            ["cached"] => {
                put(&mut self.core, 0, "core")?;
                put(&mut self.maximum, usize::MAX, "max")?;
                put(&mut self.queue, Some(0), "queue")
            }
            ["core", threads] => put(&mut self.core, size(threads)?, "core"),
            ["max", "unlimited"] => put(&mut self.maximum, usize::MAX, "max"),
            ["max", threads] => put(&mut self.maximum, size(threads)?, "max"),
            ["queue", queue @ ..] => put(&mut self.queue, self::queue(queue)?, "queue"),
            ["keep-alive", time] => put(&mut self.keep_alive, nanos(time)?, "keep-alive"),
            ["core-time-out"] => {
                self.core_time_out = true;
                Ok(())
            }
            ["eager"] => {
                self.eager = true;
                Ok(())
            }
            ["policy", policy @ ..] => put(&mut self.policy, self::policy(policy)?, "policy"),
            [] => Err("a setting of the pool is empty; take the comma away".to_owned()),
            other => Err(format!(
                "'{}' is no setting of a pool; there are core=N, max=N, queue=N, keep-alive=TIME, core-time-out, \
                 eager, policy=NAME, fixed N and cached",
                other.join(" ")
            )),
        }
    }

    fn finish(self, text: &str) -> Result<Pool, String> {
        let Some(core) = self.core else {
            return Err(format!("'{text}' has no core size; write core=4, fixed 4 or cached"));
        };
        let maximum = self.maximum.unwrap_or(core);
        if maximum == 0 {
            return Err(format!("'{text}' has no threads; max must be above zero"));
        }
        if maximum < core {
            return Err(format!("'{text}' has max={maximum} below core={core}; raise max or lower core"));
        }
        Ok(Pool {
            core,
            maximum,
            queue: self.queue.unwrap_or(None),
            keep_alive: self.keep_alive.unwrap_or(KEEP_ALIVE),
            core_time_out: self.core_time_out,
            rule: if self.eager { GrowthRule::Eager } else { GrowthRule::QueueFirst },
            policy: self.policy.unwrap_or(Policy::Abort),
        })
    }
}

fn put<T>(place: &mut Option<T>, value: T, name: &str) -> Result<(), String> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(format!("{name} is set twice; once is enough")),
    }
}

fn size(text: &str) -> Result<usize, String> {
    match units::count(text)? {
        count if count <= 100_000_000 => Ok(count as usize),
        _ => Err(format!("'{text}' is more than any pool has; it is at most 100M")),
    }
}

fn queue(words: &[&str]) -> Result<Option<usize>, String> {
    match words {
        ["unbounded" | "linked"] => Ok(None),
        ["synchronous"] => Ok(Some(0)),
        ["array" | "linked", capacity] | [capacity] => size(capacity).map(Some),
        other => Err(format!(
            "'{}' is no queue; there are a number, 0 or synchronous, and unbounded",
            other.join(" ")
        )),
    }
}

fn policy(words: &[&str]) -> Result<Policy, String> {
    match words {
        ["abort"] => Ok(Policy::Abort),
        ["discard"] => Ok(Policy::Discard),
        ["discard-oldest"] => Ok(Policy::DiscardOldest),
        ["caller-runs"] => Ok(Policy::CallerRuns),
        ["block"] => Ok(Policy::Block(None)),
        ["block", time] => nanos(time).map(|time| Policy::Block(Some(time))),
        other => Err(format!(
            "'{}' is no policy; there are abort, discard, discard-oldest, caller-runs, block and block TIME",
            other.join(" ")
        )),
    }
}

/// What to call a pool that has no name: short, for the head of a column.
fn short_name(pool: &Pool) -> String {
    match (pool.core, pool.maximum, pool.queue) {
        (0, usize::MAX, Some(0)) => "cached".to_owned(),
        (core, maximum, None) if core == maximum => format!("fixed {core}"),
        (core, maximum, queue) => {
            let threads = if core == maximum {
                core.to_string()
            } else if maximum == usize::MAX {
                format!("{core}+")
            } else {
                format!("{core}-{maximum}")
            };
            match queue {
                None => threads,
                Some(queue) => format!("{threads} q{queue}"),
            }
        }
    }
}

/// Shows a pool with all that matters for it.
#[derive(Debug)]
pub(super) struct Told<'a, T>(pub(super) &'a T);

impl fmt::Display for Told<'_, Pool> {
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

impl fmt::Display for Told<'_, Arrivals> {
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
            Arrivals::Times(times) => write!(f, "{} as recorded", units::show_count(times.len() as u64)),
        }
    }
}

impl fmt::Display for Told<'_, Kind> {
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
        if cpu > 0.0 { write!(f, ", {} of it computing", percent(cpu)) } else { Ok(()) }
    }
}

/// A length of time as people write it: `20 ms`, `1.5 s`.
pub(super) fn plain(nanos: f64) -> String {
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

/// A share as people write it: `0.1%`, `12.5%`, with three digits.
pub(super) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    let text = match percent {
        p if p >= 99.95 => format!("{p:.1}"),
        p if p >= 9.995 => format!("{p:.1}"),
        p if p >= 0.995 => format!("{p:.2}"),
        p => format!("{p:.3}"),
    };
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}%")
}

/// A rate with three digits.
#[derive(Debug)]
pub(super) struct PerSecond(pub(super) f64);

impl fmt::Display for PerSecond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            rate if rate >= 1e4 => write!(f, "{}/s", units::show_count(rate.round() as u64)),
            rate => {
                let text = if rate >= 100.0 { format!("{rate:.1}") } else { format!("{rate:.3}") };
                write!(f, "{}/s", text.trim_end_matches('0').trim_end_matches('.'))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    fn refused<T: fmt::Debug>(result: Result<T, String>, what_to_do: &str) {
        let error = result.expect_err(what_to_do);
        assert!(error.contains(what_to_do) && !error.contains('\n'), "{error}");
    }

    #[test]
    fn arrivals_are_read_as_people_say_them() {
        let ready = |text| match arrivals(text) {
            Ok(ArrivalWords::Ready(arrivals)) => arrivals,
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(ready("constant 200/s"), Arrivals::Constant(200.0));
        assert_eq!(ready("poisson 1.5k/s"), Arrivals::Poisson(1500.0));
        assert_eq!(
            ready("ramp 0/s..500/s over 30s"),
            Arrivals::Ramp { from: 0.0, to: 500.0, over: 30_000 * MS }
        );
        assert_eq!(ready("burst 100"), Arrivals::Burst { count: 100, every: None });
        assert_eq!(ready("burst 1k every 1s"), Arrivals::Burst { count: 1000, every: Some(1000 * MS) });
        assert_eq!(arrivals("ramp 1/s..5/s"), Ok(ArrivalWords::Ramp(1.0, 5.0)));
    }

    #[test]
    fn a_file_of_arrivals_may_name_its_column_and_its_unit() {
        let file = |path: &str, column: Option<&str>, unit| {
            Ok(ArrivalWords::File { path: path.into(), column: column.map(str::to_owned), unit })
        };
        assert_eq!(arrivals("a.csv"), file("a.csv", None, TimeUnit::Seconds));
        assert_eq!(arrivals("csv log of today"), file("log of today", None, TimeUnit::Seconds));
        assert_eq!(arrivals("my log.csv in ms"), file("my log.csv", None, TimeUnit::Millis));
        assert_eq!(
            arrivals("a.csv column started at in us"),
            file("a.csv", Some("started at"), TimeUnit::Micros)
        );
        refused(arrivals("a.csv in days"), "there are s, ms, us and ns");
    }

    #[test]
    fn arrivals_that_make_no_sense_are_refused_with_what_would() {
        refused(arrivals("sometimes"), "there are constant, poisson, ramp, burst and FILE.csv");
        refused(arrivals(""), "there are constant");
        refused(arrivals("poisson"), "write poisson 200/s");
        refused(arrivals("poisson 200 / s"), "write poisson 200/s");
        refused(arrivals("poisson often"), "'often' is not a number");
        refused(arrivals("constant 0/s"), "from 0.000001/s");
        refused(arrivals("ramp 10/s"), "write ramp 10/s..500/s over 30s");
        refused(arrivals("ramp 10/s..0/s over 3s"), "from 0.000001/s");
        refused(arrivals("ramp 1/s..2/s over 0"), "above zero");
        refused(arrivals("burst"), "write burst 100");
        refused(arrivals("burst 0"), "above zero");
        refused(arrivals("burst 1.5"), "not a whole number");
        refused(arrivals("burst 5 each 1s"), "burst 100 every 1s");
    }

    fn kinds(text: &str) -> Vec<Kind> {
        mix(text).unwrap().0.into_iter().map(|kind| kind.kind(0.25)).collect()
    }

    #[test]
    fn lengths_are_read_alone_or_as_a_mixture() {
        let one = |length| vec![Kind { weight: 1.0, length, cpu: 0.25 }];
        assert_eq!(kinds("20ms"), one(Length::Fixed(20e6)));
        assert_eq!(kinds("fixed 20ms"), one(Length::Fixed(20e6)));
        assert_eq!(kinds("10ms..30ms"), one(Length::Uniform(10e6, 30e6)));
        assert_eq!(kinds("uniform 10ms..30ms"), one(Length::Uniform(10e6, 30e6)));
        assert_eq!(kinds("exponential 20ms"), one(Length::Exponential(20e6)));
        assert_eq!(kinds("100% exponential 20ms"), one(Length::Exponential(20e6)));
        assert_eq!(kinds("log-normal 20ms sigma 0.8"), one(Length::LogNormal(20e6, 0.8)));
        let [Kind { length: Length::LogNormal(median, sigma), .. }] = kinds("log-normal 20ms p99 200ms")[..]
        else {
            panic!("not log-normal")
        };
        assert_eq!(median, 20e6);
        assert!((median * (sigma * NORMAL_P99).exp() - 200e6).abs() < 1.0, "{sigma}");
        assert_eq!(
            kinds("90% 5ms, 10% exponential 200ms cpu 80%"),
            [
                Kind { weight: 0.9, length: Length::Fixed(5e6), cpu: 0.25 },
                Kind { weight: 0.1, length: Length::Exponential(200e6), cpu: 0.8 },
            ]
        );
    }

    #[test]
    fn lengths_that_make_no_sense_are_refused_with_what_would() {
        refused(mix("long"), "'long' is not a duration");
        refused(mix(""), "is no duration");
        refused(mix("20"), "write 20ms or 20s");
        refused(mix("30ms..10ms"), "ends before it begins");
        refused(mix("gamma 20ms"), "there are 20ms, 10ms..30ms");
        refused(mix("log-normal 20ms"), "log-normal 20ms p99 200ms");
        refused(mix("log-normal 20ms p99 2ms"), "the first time is the median");
        refused(mix("log-normal 0 p99 2ms"), "above zero");
        refused(mix("log-normal 20ms sigma 9"), "at most 5");
        refused(mix("90% 5ms"), "add the others");
        refused(mix("90% 5ms, 20% 10ms"), "they must make 100%");
        refused(mix("90% 5ms, 10ms"), "write 10% 10ms");
        refused(mix("100% 5ms, 0% 10ms"), "leave it out");
        refused(mix("5ms cpu 120%"), "at most 100%");
        refused(mix("900000h"), "a hundred years");
    }

    #[test]
    fn pools_are_read_with_all_their_settings() {
        let usual = Pool {
            core: 4,
            maximum: 4,
            queue: None,
            keep_alive: KEEP_ALIVE,
            core_time_out: false,
            rule: GrowthRule::QueueFirst,
            policy: Policy::Abort,
        };
        assert_eq!(pool("core=4").unwrap().pool, usual);
        assert_eq!(pool("fixed 4").unwrap(), NamedPool { name: "fixed 4".to_owned(), pool: usual.clone() });
        assert_eq!(pool("small: core 4").unwrap().name, "small");
        let cached = Pool { core: 0, maximum: usize::MAX, queue: Some(0), ..usual.clone() };
        assert_eq!(pool("cached").unwrap(), NamedPool { name: "cached".to_owned(), pool: cached });
        let all = "core=4, max=16, queue=100, keep-alive=10s, eager, core-time-out, policy=block 500ms";
        assert_eq!(
            pool(all).unwrap(),
            NamedPool {
                name: "4-16 q100".to_owned(),
                pool: Pool {
                    maximum: 16,
                    queue: Some(100),
                    keep_alive: 10_000 * MS,
                    core_time_out: true,
                    rule: GrowthRule::Eager,
                    policy: Policy::Block(Some(500 * MS)),
                    ..usual
                },
            }
        );
        for (text, queue) in [
            ("unbounded", None),
            ("linked", None),
            ("linked 7", Some(7)),
            ("array 7", Some(7)),
            ("7", Some(7)),
            ("0", Some(0)),
            ("synchronous", Some(0)),
        ] {
            assert_eq!(pool(&format!("core=1,queue={text}")).unwrap().pool.queue, queue, "{text}");
        }
        for (text, policy) in [
            ("abort", Policy::Abort),
            ("discard", Policy::Discard),
            ("discard-oldest", Policy::DiscardOldest),
            ("caller-runs", Policy::CallerRuns),
            ("block", Policy::Block(None)),
        ] {
            assert_eq!(pool(&format!("core=1,policy={text}")).unwrap().pool.policy, policy, "{text}");
        }
    }

    #[test]
    fn pools_that_make_no_sense_are_refused_with_what_would() {
        refused(pool("max=4"), "write core=4, fixed 4 or cached");
        refused(pool(""), "take the comma away");
        refused(pool("core=0"), "max must be above zero");
        refused(pool("core=4,max=2"), "raise max or lower core");
        refused(pool("core=4,core=5"), "core is set twice");
        refused(pool("fixed 4,max=5"), "max is set twice");
        refused(pool("core=4,"), "take the comma away");
        refused(pool("core=many"), "'many' is not a number");
        refused(pool("core=4,size=5"), "'size 5' is no setting of a pool; there are core=N");
        refused(pool("core=4,queue=heap 5"), "'heap 5' is no queue");
        refused(pool("core=4,policy=panic"), "'panic' is no policy; there are abort");
        refused(pool("core=1G"), "at most 100M");
    }

    #[test]
    fn pools_are_told_with_what_matters_for_them() {
        let told = |text| Told(&pool(text).unwrap().pool).to_string();
        assert_eq!(told("fixed 4"), "core 4, max 4, unbounded queue");
        assert_eq!(told("cached"), "core 0, max unlimited, synchronous queue, keep-alive 60 s");
        assert_eq!(
            told("core=4,max=16,queue=100,keep-alive=1500ms,eager,policy=block 1s"),
            "core 4, max 16, queue 100, eager, keep-alive 1.5 s, block up to 1 s"
        );
    }

    #[test]
    fn shares_and_rates_are_shown_with_three_digits() {
        for (share, text) in [
            (0.0, "0%"),
            (0.001, "0.1%"),
            (0.00012, "0.012%"),
            (0.1234, "12.3%"),
            (1.0, "100%"),
            (0.05, "5%"),
        ] {
            assert_eq!(percent(share), text);
        }
        for (rate, text) in [(0.5, "0.5/s"), (199.84, "199.8/s"), (20_000.0, "20 000/s")] {
            assert_eq!(PerSecond(rate).to_string(), text);
        }
    }
}
