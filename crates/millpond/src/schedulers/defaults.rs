//! Defaults from the environment, read once.

use std::time::Duration;

use crate::sync::OnceLock;

/// What schedulers are made with that were not told otherwise; see [`defaults`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Defaults {
    /// Threads of the parallel scheduler.
    pub pool_size: usize,
    /// Threads of the bounded-elastic scheduler.
    pub bounded_elastic_size: usize,
    /// Tasks that may wait for each of those.
    pub bounded_elastic_queue_size: usize,
    /// How long each of those may be idle.
    pub bounded_elastic_ttl: Duration,
    /// A fresh thread for every task of the bounded-elastic scheduler.
    pub bounded_elastic_on_virtual_threads: bool,
}

/// The defaults in force.
pub fn defaults() -> &'static Defaults {
    static DEFAULTS: OnceLock<Defaults> = OnceLock::new();
    DEFAULTS.get_or_init(|| {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Defaults {
            pool_size: cores,
            bounded_elastic_size: 10 * cores,
            bounded_elastic_queue_size: 100_000,
            bounded_elastic_ttl: Duration::from_secs(60),
            bounded_elastic_on_virtual_threads: false,
        }
    })
}
