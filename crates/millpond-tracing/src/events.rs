//! [`TracingObserver`]: pool events as `tracing` events.

use std::sync::Arc;
use std::time::Instant;

use millpond::monitor::{Actor, Event, Observer, Settings, Subscription};
use millpond::{PoolRef, RejectReason, TaskInfo, registry};
use tracing::{debug, error, info, warn};

use crate::limit::Limit;

/// Writes the events of all registered pools until the subscription is dropped.
///
/// # Examples
/// ```
/// let _events = millpond_tracing::observe(); // keep it for as long as the program runs
/// ```
pub fn observe() -> Subscription {
    registry::observe(Arc::new(TracingObserver::new()))
}

/// Writes pool events as `tracing` events with the target `millpond`.
///
/// | level | what happened | fields beside `pool` |
/// |---|---|---|
/// | error | a task panicked | `task`, `name`, `reason` |
/// | error | a thread could not be started | `reason` |
/// | warn | a task was rejected | `task`, `name`, `reason`, `unreported` |
/// | info | the settings changed | `version`, `by`, `reason`, `old`, `new` |
/// | info | the pool was paused or resumed | `by`, `reason` |
/// | debug | a pool was built or has terminated | |
/// | debug | a thread started or stops | `thread` |
///
/// Under overload a pool rejects thousands of tasks per second, and a log line for each would add
/// to the load. So each pool writes at most one such event per second; `unreported` is the number
/// left out since the previous one. The metrics count all rejections.
#[derive(Debug, Default)]
pub struct TracingObserver {
    refusals: Limit,
}

impl TracingObserver {
    /// Makes an observer, for [`registry::observe`].
    pub fn new() -> TracingObserver {
        TracingObserver::default()
    }

    fn refused(&self, pool: &Arc<str>, task: &TaskInfo, reason: RejectReason) {
        let Some(unreported) = self.refusals.pass(pool, Instant::now()) else { return };
        let (id, name, reason) = (task.id(), task.name(), reason.as_str());
        warn!(target: "millpond", pool = &**pool, task = %id, name, reason, unreported, "task was refused");
    }
}

impl Observer for TracingObserver {
    fn event(&self, pool: &PoolRef, event: &Event<'_>) {
        let label = pool.label().unwrap_or_default();
        let pool = &*label;
        match *event {
            Event::Created => debug!(target: "millpond", pool, "pool was built"),
            Event::Ended => {
                self.refusals.forget(pool);
                debug!(target: "millpond", pool, "pool has terminated");
            }
            Event::Changed { old, new, by } => changed(pool, old, new, by),
            Event::Rejected { task, reason } => self.refused(&label, task, reason),
            Event::Panicked { task, message } => {
                let (id, name) = (task.id(), task.name());
                error!(target: "millpond", pool, task = %id, name, reason = message, "task panicked");
            }
            Event::WorkerStarted { worker } => {
                debug!(target: "millpond", pool, thread = worker.name(), "thread started");
            }
            Event::WorkerStopped { worker } => {
                debug!(target: "millpond", pool, thread = worker.name(), "thread stops");
            }
            Event::WorkerFailed { error } => {
                error!(target: "millpond", pool, reason = %error, "thread could not be started");
            }
            Event::Paused { by } => {
                info!(target: "millpond", pool, by = &*by.who, reason = &*by.reason, "paused")
            }
            Event::Resumed { by } => {
                info!(target: "millpond", pool, by = &*by.who, reason = &*by.reason, "resumed")
            }
            _ => {} // added by a later version of the library
        }
    }
}

/// Writes the settings event. `old` and `new` name only the settings that differ.
fn changed(pool: &str, old: &Settings, new: &Settings, by: &Actor) {
    let (before, after) = difference(old, new);
    let (version, by, reason) = (new.version, &*by.who, &*by.reason);
    info!(target: "millpond", pool, version, by, reason, old = before, new = after, "settings changed");
}

/// The settings that differ, as text: old values and new values.
fn difference(old: &Settings, new: &Settings) -> (String, String) {
    let (old, new) = (fields(old), fields(new));
    let differ = old.into_iter().zip(new).filter(|(old, new)| old != new);
    let (old, new): (Vec<_>, Vec<_>) = differ.unzip();
    (old.join(", "), new.join(", "))
}

fn fields(settings: &Settings) -> [String; 7] {
    let capacity = settings.queue_capacity.map_or_else(|| "unbounded".to_owned(), |tasks| tasks.to_string());
    [
        format!("core_pool_size {}", settings.core_pool_size),
        format!("maximum_pool_size {}", settings.maximum_pool_size),
        format!("keep_alive_time {:?}", settings.keep_alive_time),
        format!("core_threads_time_out {}", settings.core_threads_time_out),
        format!("queue_capacity {capacity}"),
        format!("policy {}", settings.policy.as_str()),
        format!("timing {}", settings.timing.as_str()),
    ]
}
