//! The measurements: tables of loads and variants.
//!
//! Four threads, a deadline of 250 ms and 2 % slow queries give a capacity of 4 / (0.98 × 9 ms +
//! 0.02 × 250 ms) = 290 requests per second, if slow queries are cancelled at the deadline. Without
//! slow queries the capacity is 4 / 9 ms = 440.

use std::time::Duration;

use crate::args::Options;
use crate::database::Query;
use crate::load::Load;

pub(crate) struct Table {
    pub(crate) title: &'static str,
    pub(crate) rounds: usize,
    /// Heading and load of each group of rows.
    pub(crate) loads: Vec<(&'static str, Load)>,
    pub(crate) variants: Vec<Variant>,
}

/// A way to run the server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Variant {
    pub(crate) label: &'static str,
    pub(crate) backend: &'static str,
    pub(crate) queue: usize,
    pub(crate) max_queue_time: Duration,
}

const fn variant(label: &'static str, backend: &'static str, queue: usize, max_queue_millis: u64) -> Variant {
    Variant { label, backend, queue, max_queue_time: Duration::from_millis(max_queue_millis) }
}

const USUAL: [Variant; 3] = [
    variant("millpond", "millpond", 32, 0),
    variant("plain", "plain", 32, 0),
    variant("careful", "careful", 32, 0),
];

const LONG_QUEUE: [Variant; 4] = [
    variant("millpond, queue 32", "millpond", 32, 0),
    variant("millpond, queue 1000", "millpond", 1000, 0),
    variant("careful, queue 1000", "careful", 1000, 0),
    variant("millpond, queue 1000, max_queue_time 100 ms", "millpond", 1000, 100),
];

pub(crate) const KEYS: [&str; 4] = ["overload", "fast", "long-queue", "point"];

/// The requested tables.
pub(crate) fn tables(options: &Options) -> Vec<Table> {
    let is_chosen = |key: &&str| options.only.is_empty() || options.only.iter().any(|only| only == key);
    KEYS.into_iter().filter(is_chosen).map(|key| table(key, options)).collect()
}

fn table(key: &str, options: &Options) -> Table {
    let load = |rate, slow, seconds: f64| Load {
        connections: 400,
        rate,
        query: Query::Fast,
        slow,
        seconds: options.seconds.unwrap_or(seconds),
        seed: 1,
    };
    let (title, loads, variants): (_, Vec<(&str, Load)>, &[Variant]) = match key {
        "overload" => {
            let loads = [("0.5 × (140/s)", 140.0), ("1.5 × (420/s)", 420.0), ("3 × (840/s)", 840.0)];
            let loads = loads.map(|(label, rate)| (label, load(rate, 0.02, 6.0)));
            ("Queries of 9 ms, 2 % of 1 s", loads.into(), &USUAL)
        }
        "fast" => {
            let loads = [("0.5 × (220/s)", 220.0), ("1.5 × (660/s)", 660.0), ("3 × (1320/s)", 1320.0)];
            ("Queries of 9 ms", loads.map(|(label, rate)| (label, load(rate, 0.0, 4.0))).into(), &USUAL)
        }
        "long-queue" => {
            ("A queue of 1000 instead of 32", vec![("3 × (840/s)", load(840.0, 0.02, 6.0))], &LONG_QUEUE)
        }
        _ => {
            let point = Load { connections: 64, query: Query::Point, ..load(1000.0, 0.0, 4.0) };
            ("Point queries of 10 µs", vec![("1000/s", point)], &USUAL)
        }
    };
    let rounds = options.rounds.unwrap_or(if key == "point" { 5 } else { 3 });
    Table { title, rounds, loads, variants: variants.to_vec() }
}
