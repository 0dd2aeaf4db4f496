//! Every metric of a pool, as data: name, meaning, type, and how to read it from a snapshot.
//!
//! Exporters for other systems use this list, so that all publish the same names and values.
//! `docs/metrics.md` explains each metric.
//!
//! # Examples
//! ```
//! use millpond_prometheus::catalog::{METRICS, Value};
//!
//! let pool = millpond::executors::fixed(2)?;
//! let snapshot = pool.snapshot();
//! for metric in &METRICS {
//!     for sample in metric.samples(&snapshot) {
//!         if let Value::Integer(value) = sample.value {
//!             println!("{} {:?} {value}", metric.name, sample.labels);
//!         }
//!     }
//! }
//! # Ok::<(), millpond::ConfigError>(())
//! ```

use std::time::Duration;

use millpond::monitor::{HistogramSnapshot, Kind, PoolSnapshot};

/// How the values of a metric behave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Type {
    /// It only grows while the pool lives.
    Counter,
    /// It goes up and down.
    Gauge,
    /// A distribution of times.
    Histogram,
}

/// A value of a metric.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Value<'a> {
    /// A count of threads, tasks or events; a number; or 0 and 1 for false and true.
    Integer(u64),
    /// A time. Exporters publish seconds.
    Seconds(Duration),
    /// A distribution of times.
    Histogram(&'a HistogramSnapshot),
}

/// A value of a metric, with all its labels except `pool`.
#[derive(Debug, Clone)]
pub struct Sample<'a> {
    /// Names and values of the labels, without `pool`. Every value comes from a fixed set.
    pub labels: Vec<(&'static str, &'static str)>,
    /// The value.
    pub value: Value<'a>,
}

/// One metric of a pool.
#[derive(Debug)]
pub struct Metric {
    /// The name, valid in Prometheus.
    pub name: &'static str,
    /// The meaning, in one sentence.
    pub help: &'static str,
    /// The type.
    pub kind: Type,
    read: Read,
}

impl Metric {
    /// Reads the samples of this metric. A metric whose value is unbounded has none.
    pub fn samples<'a>(&self, snapshot: &'a PoolSnapshot) -> Vec<Sample<'a>> {
        (self.read)(snapshot)
    }
}

/// All metrics of a pool. The label `pool` of every sample is [`PoolSnapshot::label`].
pub static METRICS: [Metric; 25] = [
    gauge("millpond_pool_threads", "Worker threads, by what they do.", |pool| {
        let (size, active) = (pool.stats.pool_size, pool.stats.active_count);
        let counts = [("active", active), ("idle", size.saturating_sub(active))];
        by("state", counts.map(|(state, count)| (state, count as u64)))
    }),
    gauge(
        "millpond_pool_core_threads",
        "Setting: threads that are kept, and started before tasks queue.",
        |pool| count(pool.settings.core_pool_size as u64),
    ),
    gauge("millpond_pool_max_threads", "Setting: the most threads. Absent if unbounded.", |pool| {
        optional(max_threads(pool).map(|threads| Value::Integer(threads as u64)))
    }),
    gauge("millpond_pool_largest_threads", "The most threads at any time so far.", |pool| {
        count(pool.stats.largest_pool_size as u64)
    }),
    gauge("millpond_pool_queued_tasks", "Tasks that wait for a thread.", |pool| count(queued(pool) as u64)),
    gauge(
        "millpond_pool_delayed_tasks",
        "Queued tasks with a time of their own, of a scheduled pool or a scheduler, due or not.",
        |pool| optional((pool.kind != Kind::Pool).then_some(Value::Integer(pool.delayed_count as u64))),
    ),
    gauge(
        "millpond_pool_queue_capacity_tasks",
        "Setting: the most tasks in the queue. Absent if unbounded.",
        |pool| {
            let bounded = pool.settings.queue_capacity.filter(|&capacity| capacity < UNBOUNDED_TASKS);
            optional(bounded.map(|capacity| Value::Integer(capacity as u64)))
        },
    ),
    gauge(
        "millpond_pool_oldest_wait_seconds",
        "How long the next task of the queue has waited; 0 if none waits.",
        |pool| seconds(pool.oldest_wait.unwrap_or_default()),
    ),
    gauge(
        "millpond_pool_longest_running_seconds",
        "How long the longest running task has run; 0 if none runs.",
        |pool| seconds(pool.longest_running.unwrap_or_default()),
    ),
    histogram(
        "millpond_pool_wait_seconds",
        "Time from acceptance of a task, or from its due time, to its start.",
        |pool| one(Value::Histogram(&pool.wait)),
    ),
    histogram("millpond_pool_run_seconds", "Time from start to end of a task.", |pool| {
        one(Value::Histogram(&pool.run))
    }),
    counter("millpond_pool_busy_seconds_total", "Time that worker threads spent in tasks.", |pool| {
        seconds(pool.busy)
    }),
    counter("millpond_pool_submitted_tasks_total", "Tasks that were accepted.", |pool| {
        count(pool.stats.submitted)
    }),
    counter("millpond_pool_tasks_total", "Accepted tasks that ended, by outcome.", |pool| {
        let stats = &pool.stats;
        let outcomes = [
            ("completed", stats.completed),
            ("panicked", stats.panicked),
            ("cancelled", stats.cancelled),
            ("expired", stats.expired),
            ("handed_back", stats.handed_back),
        ];
        by("outcome", outcomes)
    }),
    counter("millpond_pool_rejected_tasks_total", "Tasks that were refused, by reason.", |pool| {
        by("reason", pool.rejected.iter().map(|(reason, count)| (reason.as_str(), count)))
    }),
    counter(
        "millpond_pool_caller_ran_tasks_total",
        "Refused tasks that the policy ran on the submitting thread.",
        |pool| count(pool.rejected.caller_ran),
    ),
    counter(
        "millpond_pool_blocked_submits_total",
        "Submissions that the policy blocked until there was room.",
        |pool| count(pool.rejected.blocked),
    ),
    counter("millpond_pool_discarded_tasks_total", "Refused tasks that the policy dropped.", |pool| {
        count(pool.rejected.discarded)
    }),
    counter(
        "millpond_pool_evicted_tasks_total",
        "Refused tasks that took the place of a queued task, which the policy dropped.",
        |pool| count(pool.rejected.evicted),
    ),
    counter(
        "millpond_pool_periodic_tasks_ended_by_panic_total",
        "Periodic tasks that ended because a run panicked.",
        |pool| {
            let ended = pool.stats.periodic_ended_by_panic;
            optional((pool.kind != Kind::Pool).then_some(Value::Integer(ended)))
        },
    ),
    counter("millpond_pool_threads_started_total", "Worker threads that were started.", |pool| {
        count(pool.threads_started)
    }),
    counter(
        "millpond_pool_thread_start_failures_total",
        "Worker threads that could not be started.",
        |pool| count(pool.thread_start_failures),
    ),
    gauge("millpond_pool_paused", "1 while the pool is paused, else 0.", |pool| {
        count(u64::from(pool.paused))
    }),
    gauge("millpond_pool_settings_version", "Version of the settings; each change raises it by 1.", |pool| {
        count(pool.settings.version)
    }),
    gauge(
        "millpond_pool_info",
        "Always 1. The labels tell the kind of pool, queue and rejection policy.",
        |pool| {
            let labels = vec![
                ("kind", pool.kind.as_str()),
                ("queue", pool.settings.queue.as_str()),
                ("policy", pool.settings.policy.as_str()),
            ];
            vec![Sample { labels, value: Value::Integer(1) }]
        },
    ),
];

/// The library's value for "any number of threads".
const UNBOUNDED_THREADS: usize = (1 << 29) - 1;
/// Capacities from here on count as unbounded. A scheduler adds up the capacities of its queues.
const UNBOUNDED_TASKS: usize = isize::MAX as usize;

/// Maximum number of threads. A scheduled pool never exceeds its core size.
fn max_threads(pool: &PoolSnapshot) -> Option<usize> {
    let settings = &pool.settings;
    let maximum = match pool.kind {
        Kind::Scheduled => settings.core_pool_size.max(1),
        _ => settings.maximum_pool_size,
    };
    (maximum < UNBOUNDED_THREADS).then_some(maximum)
}

/// Number of tasks that are due: delayed tasks are counted separately.
fn queued(pool: &PoolSnapshot) -> usize {
    pool.stats.queued_count.saturating_sub(pool.delayed_count)
}

type Read = for<'a> fn(&'a PoolSnapshot) -> Vec<Sample<'a>>;

const fn counter(name: &'static str, help: &'static str, read: Read) -> Metric {
    Metric { name, help, kind: Type::Counter, read }
}

const fn gauge(name: &'static str, help: &'static str, read: Read) -> Metric {
    Metric { name, help, kind: Type::Gauge, read }
}

const fn histogram(name: &'static str, help: &'static str, read: Read) -> Metric {
    Metric { name, help, kind: Type::Histogram, read }
}

fn one(value: Value<'_>) -> Vec<Sample<'_>> {
    vec![Sample { labels: Vec::new(), value }]
}

fn optional(value: Option<Value<'_>>) -> Vec<Sample<'_>> {
    value.map_or_else(Vec::new, one)
}

fn count(value: u64) -> Vec<Sample<'static>> {
    one(Value::Integer(value))
}

fn seconds(value: Duration) -> Vec<Sample<'static>> {
    one(Value::Seconds(value))
}

/// One sample for each value of a label.
fn by(label: &'static str, values: impl IntoIterator<Item = (&'static str, u64)>) -> Vec<Sample<'static>> {
    let sample = |(name, value)| Sample { labels: vec![(label, name)], value: Value::Integer(value) };
    values.into_iter().map(sample).collect()
}
