//! Parsers for the phrases of the command line: `poisson 200/s`, `90% 5ms, 10% exponential 200ms`,
//! `core=4,max=16,queue=100`.

mod phrase;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use millpond::growth::GrowthRule;
use millpond_sim::{Arrivals, Kind, Length, Nanos, Policy, Pool};

pub(super) use self::phrase::{PerSecond, Phrase, percent, plain};
use crate::lengths::NORMAL_P99;
pub(super) use crate::lengths::{nanos, some_nanos};
use crate::{lengths, units};

use super::workload::MOST_TASKS;

/// Default keep-alive time, as in the library.
const KEEP_ALIVE: Nanos = 60_000_000_000;

/// `200/s`: from one task in eleven days to a billion per second.
fn rate(text: &str) -> Result<f64, String> {
    match units::rate(text)? {
        rate if (1e-6..=1e9).contains(&rate) => Ok(rate),
        _ => Err(format!("the rate '{text}' is out of range; give 0.000001/s to 1G/s")),
    }
}

/// Arrivals as given: the file has not been read, and the length of a ramp may be unknown.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ArrivalWords {
    Ready(Arrivals),
    Ramp(f64, f64),
    File(FileWords),
}

/// A column of a CSV file.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FileWords {
    pub(super) path: PathBuf,
    /// The first column if it is not named.
    pub(super) column: Option<String>,
    pub(super) unit: TimeUnit,
}

/// The unit of a number in a file.
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

/// `constant 200/s`, `poisson 200/s`, `ramp 10/s..500/s over 30s`, `burst 100 every 1s`,
/// `FILE.csv column C in ms`.
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
        _ if is_file(text) => file(text).map(ArrivalWords::File),
        _ => Err(format!(
            "unknown arrival process '{}'; use constant, poisson, ramp, burst or FILE.csv",
            words.first().unwrap_or(&"")
        )),
    }
}

/// The size of a burst. All of it waits at once, so it must fit into memory.
fn tasks(text: &str) -> Result<u64, String> {
    match units::count(text)? {
        0 => Err("a burst needs tasks; give a number above zero".to_owned()),
        count if count > MOST_TASKS => Err(format!(
            "a burst of {} tasks is too large; a plan simulates at most {} tasks in a run",
            units::show_count(count),
            units::show_count(MOST_TASKS)
        )),
        count => Ok(count),
    }
}

fn ramp(text: &str, rates: &str) -> Result<(f64, f64), String> {
    let (from, to) = rates
        .split_once("..")
        .ok_or_else(|| format!("'{text}' has no second rate; write ramp 10/s..500/s over 30s"))?;
    // The rate may begin at zero, but not end there.
    let from = if units::rate(from)? == 0.0 { 0.0 } else { rate(from)? };
    Ok((from, rate(to)?))
}

fn is_file(text: &str) -> bool {
    text.contains(".csv") || text.split_whitespace().next() == Some("csv")
}

fn file(text: &str) -> Result<FileWords, String> {
    let mut rest = text.trim().strip_prefix("csv ").unwrap_or(text.trim());
    let mut unit = TimeUnit::Seconds;
    if let Some((before, name)) = rest.rsplit_once(" in ") {
        unit = match name.trim() {
            "s" => TimeUnit::Seconds,
            "ms" => TimeUnit::Millis,
            "us" => TimeUnit::Micros,
            "ns" => TimeUnit::Nanos,
            other => return Err(format!("unknown unit '{other}' of a column; use s, ms, us or ns")),
        };
        rest = before;
    }
    let mut column = None;
    if let Some((before, name)) = rest.rsplit_once(" column ") {
        column = Some(name.trim().to_owned());
        rest = before;
    }
    Ok(FileWords { path: PathBuf::from(rest.trim()), column, unit })
}

/// One kind of task as given. Defaults come from other arguments.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct KindWords {
    weight: f64,
    length: Length,
    cpu: Option<f64>,
}

impl KindWords {
    /// Converts it to a kind of task. `cpu` is the default share of computing.
    pub(super) fn kind(self, cpu: f64) -> Kind {
        Kind { weight: self.weight, length: self.length, cpu: self.cpu.unwrap_or(cpu) }
    }
}

/// Durations as given: kinds of task, or a column of a file.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum MixWords {
    Kinds(Vec<KindWords>),
    File(FileWords),
}

/// `20ms`, `exponential 20ms`, several with their shares (`90% 5ms, 10% exponential 200ms cpu
/// 80%`), or `FILE.csv column C in ms`.
pub(super) fn mix(text: &str) -> Result<MixWords, String> {
    if is_file(text) {
        return match file(text)? {
            FileWords { column: None, path, .. } => Err(format!(
                "'{text}' does not name the column of the durations; write {} column duration in ms",
                path.display()
            )),
            words => Ok(MixWords::File(words)),
        };
    }
    kinds(text).map(MixWords::Kinds)
}

fn kinds(text: &str) -> Result<Vec<KindWords>, String> {
    let parts: Vec<&str> = text.split(',').map(str::trim).collect();
    if let [one] = parts.as_slice() {
        let (weight, kind) = split_weight(one)?;
        if weight.is_some_and(|weight| (weight - 1.0).abs() > 1e-9) {
            return Err(format!("'{text}' covers only a part of the tasks; add the others after a comma"));
        }
        return self::kind(kind, 1.0).map(|kind| vec![kind]);
    }
    let mut kinds = Vec::new();
    for part in parts {
        match split_weight(part)? {
            (Some(weight), _) if weight <= 0.0 => {
                return Err(format!("'{part}' never occurs; remove it or give it a share above 0%"));
            }
            (Some(weight), words) => kinds.push(kind(words, weight)?),
            (None, "") => return Err(format!("a kind of task in '{text}' is empty; remove the comma")),
            (None, _) => {
                return Err(format!("'{part}' has no share of the tasks; write 10% {part}"));
            }
        }
    }
    let whole: f64 = kinds.iter().map(|kind| kind.weight).sum();
    if (whole - 1.0).abs() > 1e-6 {
        return Err(format!(
            "the shares in '{text}' add up to {:.4}%; they must add up to 100%",
            whole * 100.0
        ));
    }
    Ok(kinds)
}

/// Splits a part into its leading share, if there is one, and the rest.
fn split_weight(part: &str) -> Result<(Option<f64>, &str), String> {
    match part.split_once(char::is_whitespace) {
        Some((weight, rest)) if weight.ends_with('%') => Ok((Some(units::share(weight)?), rest)),
        None if part.ends_with('%') => Err(format!("'{part}' has no time; write {part} 20ms")),
        _ => Ok((None, part)),
    }
}

fn kind(text: &str, weight: f64) -> Result<KindWords, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let (words, cpu) = match words.as_slice() {
        [before @ .., "cpu", share] => (before, Some(units::share(share)?)),
        all => (all, None),
    };
    let length = lengths::length(text, words)?;
    Ok(KindWords { weight, length, cpu })
}

/// A pool and its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NamedPool {
    pub(super) name: String,
    pub(super) pool: Pool,
}

/// `core=4,max=16,queue=100,keep-alive=10s,eager,policy=block 1s`, `fixed 4`, `cached`; with a
/// name: `small: fixed 4`.
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
            [] => Err("a setting of the pool is empty; remove the comma".to_owned()),
            other => Err(format!(
                "unknown pool setting '{}'; use core=N, max=N, queue=N, keep-alive=TIME, core-time-out, \
                 eager, policy=NAME, fixed N or cached",
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
        Some(_) => Err(format!("{name} is set twice; set it once")),
    }
}

fn size(text: &str) -> Result<usize, String> {
    match units::count(text)? {
        count if count <= 100_000_000 => Ok(count as usize),
        _ => Err(format!("'{text}' is too large for a pool; give at most 100M")),
    }
}

fn queue(words: &[&str]) -> Result<Option<usize>, String> {
    match words {
        ["unbounded" | "linked"] => Ok(None),
        ["synchronous"] => Ok(Some(0)),
        ["array" | "linked", capacity] | [capacity] => size(capacity).map(Some),
        other => {
            Err(format!("unknown queue '{}'; use a number, 0 or synchronous, or unbounded", other.join(" ")))
        }
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
            "unknown policy '{}'; use abort, discard, discard-oldest, caller-runs, block or block TIME",
            other.join(" ")
        )),
    }
}

/// A short name for an unnamed pool, as a column heading.
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
