//! The phrases of a workload file: `array 4`, `block 500ms`, `exponential 20ms`, `>= 1`.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error, Visitor};

use crate::{lengths, units};

/// Deserialises a phrase in quotes. For any other value the error names the expected form.
struct Phrase<T>(&'static str, PhantomData<T>);

impl<T: TryFrom<String, Error = String>> Visitor<'_> for Phrase<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        T::try_from(text.to_owned()).map_err(E::custom)
    }
}

macro_rules! phrases {
    ($($name:ty: $wanted:literal,)*) => {$(
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$name, D::Error> {
                deserializer.deserialize_str(Phrase($wanted, PhantomData))
            }
        }
    )*};
}

phrases! {
    Time: "a time in quotes, such as \"50ms\"",
    Rate: "a rate in quotes, such as \"200/s\"",
    Length: "a time in quotes, such as \"50ms\", \"10ms..30ms\" or \"exponential 20ms\"",
    Queue: "a queue in quotes, such as \"array 100\"",
    Policy: "a policy in quotes, such as \"abort\"",
}

/// A duration in the file: `"50ms"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Time(pub(super) Duration);

impl TryFrom<String> for Time {
    type Error = String;

    fn try_from(text: String) -> Result<Time, String> {
        units::duration(&text).map(Time)
    }
}

/// A rate in the file: `"200/s"`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rate(pub(super) f64);

impl TryFrom<String> for Rate {
    type Error = String;

    fn try_from(text: String) -> Result<Rate, String> {
        match units::rate(&text)? {
            rate if rate > 0.0 => Ok(Rate(rate)),
            _ => Err(format!("'{text}' is not a rate above zero")),
        }
    }
}

/// How long a task takes: constant or random.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Length(pub(crate) millpond_sim::Length);

impl Length {
    pub(crate) const ZERO: Length = Length(millpond_sim::Length::Fixed(0.0));
}

impl TryFrom<String> for Length {
    type Error = String;

    fn try_from(text: String) -> Result<Length, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        lengths::length(&text, &words).map(Length)
    }
}

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use millpond_sim::Length as L;
        let time = |nanos: f64| plain(Duration::from_nanos(nanos as u64));
        match self.0 {
            L::Fixed(length) => f.write_str(&time(length)),
            L::Uniform(from, to) => write!(f, "{} to {}", time(from), time(to)),
            L::Exponential(middle) | L::LogNormal(middle, _) => write!(f, "about {}", time(middle)),
        }
    }
}

/// A readable duration: `1 s`, `1.5 s`, `20 ms`.
pub(super) fn plain(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    if seconds == 0.0 || seconds >= 1.0 { format!("{seconds} s") } else { format!("{} ms", seconds * 1e3) }
}

/// The queue of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Queue {
    Array(usize),
    Linked,
    LinkedBounded(usize),
    Synchronous,
    Priority,
    Delay,
}

impl TryFrom<String> for Queue {
    type Error = String;

    fn try_from(text: String) -> Result<Queue, String> {
        let wanted = "array N, linked, linked N, synchronous, priority or delay";
        let words: Vec<&str> = text.split_whitespace().collect();
        let size = |n: &str| units::count(n).map(|n| n as usize);
        match words.as_slice() {
            ["array", n] => size(n).map(Queue::Array),
            ["linked", n] => size(n).map(Queue::LinkedBounded),
            ["linked"] => Ok(Queue::Linked),
            ["synchronous"] => Ok(Queue::Synchronous),
            ["priority"] => Ok(Queue::Priority),
            ["delay"] => Ok(Queue::Delay),
            ["array"] => Err("an array queue has a capacity: write array 100".to_owned()),
            _ => Err(format!("unknown queue '{text}'; use {wanted}")),
        }
    }
}

impl fmt::Display for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Queue::Array(n) => write!(f, "array queue of {n}"),
            Queue::Linked => f.write_str("unbounded linked queue"),
            Queue::LinkedBounded(n) => write!(f, "linked queue of {n}"),
            Queue::Synchronous => f.write_str("synchronous queue"),
            Queue::Priority => f.write_str("priority queue"),
            Queue::Delay => f.write_str("delay queue"),
        }
    }
}

/// What happens to a task that does not fit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum Policy {
    #[default]
    Abort,
    CallerRuns,
    Discard,
    DiscardOldest,
    /// Waits for room, with a timeout if there is one.
    Block(Option<Duration>),
    /// A custom policy of the lab: counts, warns, and returns the task.
    CountAndWarn,
}

impl TryFrom<String> for Policy {
    type Error = String;

    fn try_from(text: String) -> Result<Policy, String> {
        let wanted = "abort, caller-runs, discard, discard-oldest, block, block TIME or count-and-warn";
        let words: Vec<&str> = text.split_whitespace().collect();
        match words.as_slice() {
            ["abort"] => Ok(Policy::Abort),
            ["caller-runs"] => Ok(Policy::CallerRuns),
            ["discard"] => Ok(Policy::Discard),
            ["discard-oldest"] => Ok(Policy::DiscardOldest),
            ["block"] => Ok(Policy::Block(None)),
            ["block", time] => units::duration(time).map(|time| Policy::Block(Some(time))),
            ["count-and-warn"] => Ok(Policy::CountAndWarn),
            _ => Err(format!("unknown policy '{text}'; use {wanted}")),
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Policy::Abort => f.write_str("abort"),
            Policy::CallerRuns => f.write_str("caller runs"),
            Policy::Discard => f.write_str("discard"),
            Policy::DiscardOldest => f.write_str("discard oldest"),
            Policy::Block(None) => f.write_str("block"),
            Policy::Block(Some(time)) => write!(f, "block up to {}", plain(*time)),
            Policy::CountAndWarn => f.write_str("count and warn"),
        }
    }
}

/// The expected value of a figure: `4`, `">= 1"`, `"<= 10"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(try_from = "BoundWord")]
pub(crate) enum Bound {
    Exactly(u64),
    AtLeast(u64),
    AtMost(u64),
}

#[derive(serde::Deserialize)]
#[serde(untagged, expecting = "a number, or text such as \">= 1\"")]
enum BoundWord {
    Number(u64),
    Text(String),
}

impl TryFrom<BoundWord> for Bound {
    type Error = String;

    fn try_from(word: BoundWord) -> Result<Bound, String> {
        let text = match word {
            BoundWord::Number(n) => return Ok(Bound::Exactly(n)),
            BoundWord::Text(text) => text,
        };
        if let Some(n) = text.strip_prefix(">=") {
            units::count(n).map(Bound::AtLeast)
        } else if let Some(n) = text.strip_prefix("<=") {
            units::count(n).map(Bound::AtMost)
        } else {
            units::count(&text).map(Bound::Exactly)
        }
    }
}

impl Bound {
    pub(crate) fn allows(self, value: u64) -> bool {
        match self {
            Bound::Exactly(n) => value == n,
            Bound::AtLeast(n) => value >= n,
            Bound::AtMost(n) => value <= n,
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bound::Exactly(n) => write!(f, "{n}"),
            Bound::AtLeast(n) => write!(f, "at least {n}"),
            Bound::AtMost(n) => write!(f, "at most {n}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(text: &str) -> Result<Queue, String> {
        Queue::try_from(text.to_owned())
    }

    #[test]
    fn queues_and_policies_are_read_from_words() {
        assert_eq!(queue("array 4"), Ok(Queue::Array(4)));
        assert_eq!(queue("linked 1k"), Ok(Queue::LinkedBounded(1000)));
        assert_eq!(queue("linked"), Ok(Queue::Linked));
        assert!(queue("array").unwrap_err().contains("write array 100"));
        assert!(queue("heap 4").unwrap_err().starts_with("unknown queue 'heap 4'; use array N"));

        let policy = |text: &str| Policy::try_from(text.to_owned());
        assert_eq!(policy("block 500ms"), Ok(Policy::Block(Some(Duration::from_millis(500)))));
        assert_eq!(policy("discard-oldest"), Ok(Policy::DiscardOldest));
        assert!(policy("panic").is_err());
        assert!(policy("block soon").unwrap_err().contains("'soon' is not a duration"));
    }

    #[test]
    fn lengths_are_fixed_or_drawn_by_lot() {
        use millpond_sim::Length as L;
        let length = |text: &str| Length::try_from(text.to_owned());
        assert_eq!(length("20ms"), Ok(Length(L::Fixed(20e6))));
        assert_eq!(length("10ms..30ms"), Ok(Length(L::Uniform(10e6, 30e6))));
        assert_eq!(length("exponential 5ms"), Ok(Length(L::Exponential(5e6))));
        assert_eq!(length("log-normal 5ms sigma 1.5"), Ok(Length(L::LogNormal(5e6, 1.5))));
        assert!(length("30ms..10ms").unwrap_err().contains("ends before it begins"));
        assert_eq!(length("10ms..30ms").unwrap().to_string(), "10 ms to 30 ms");
    }

    #[test]
    fn bounds_allow_what_they_say() {
        let bound = |text: &str| Bound::try_from(BoundWord::Text(text.to_owned())).unwrap();
        assert!(bound(">= 1").allows(1) && !bound(">= 1").allows(0));
        assert!(bound("<= 2").allows(2) && !bound("<= 2").allows(3));
        assert!(bound("3").allows(3) && !bound("3").allows(4));
    }
}
