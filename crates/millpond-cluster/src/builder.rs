//! Settings of a cluster, and the addresses of engines.

use std::sync::Arc;
use std::time::Duration;

use crate::cluster::{Cluster, Core};
use crate::engine::{Engine, MemoryEngine, QueueChange, Retention};
use crate::error::OpenError;

/// What `submit` does when the queue is full. An accepted task is never discarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnFull {
    /// Refuses the task.
    #[default]
    Abort,
    /// Waits for room, up to the timeout if there is one.
    Block(Option<Duration>),
    /// Runs the task in the submitting thread if a worker of this process has a handler for it;
    /// otherwise refuses it.
    CallerRuns,
}

/// Settings of a cluster.
#[derive(Debug, Clone)]
pub struct ClusterBuilder {
    queue: String,
    capacity: Option<u64>,
    retention: Option<Retention>,
    on_full: OnFull,
    lease: Duration,
}

impl Default for ClusterBuilder {
    fn default() -> ClusterBuilder {
        ClusterBuilder {
            queue: "default".to_owned(),
            capacity: None,
            retention: None,
            on_full: OnFull::default(),
            lease: Duration::from_secs(30),
        }
    }
}

impl ClusterBuilder {
    /// Sets the queue; the default is `default`.
    pub fn queue(mut self, name: &str) -> Self {
        self.queue = name.to_owned();
        self
    }

    /// Limits how many tasks may wait in the queue, for all processes. By default there is no
    /// limit.
    pub fn capacity(mut self, tasks: u64) -> Self {
        self.capacity = Some(tasks);
        self
    }

    /// Sets how many finished records the queue keeps, for all processes; by default 100,000
    /// records and 256 MiB.
    pub fn retention(mut self, retention: Retention) -> Self {
        self.retention = Some(retention);
        self
    }

    /// Sets what `submit` does when the queue is full.
    pub fn on_full(mut self, policy: OnFull) -> Self {
        self.on_full = policy;
        self
    }

    /// Sets how long a worker may miss renewals before other workers take its tasks; at least 1
    /// second, default 30.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Opens the engine at an address. See [`Cluster::open`].
    ///
    /// # Errors
    /// An [`OpenError`] if the address is invalid, a setting is out of range or the engine refuses.
    pub fn open(self, address: &str) -> Result<Cluster, OpenError> {
        let engine = engine_at(address)?;
        self.with_engine(engine)
    }

    /// Uses an existing engine.
    ///
    /// # Errors
    /// An [`OpenError`] if a setting is out of range or the engine refuses.
    pub fn with_engine(self, engine: Arc<dyn Engine>) -> Result<Cluster, OpenError> {
        if self.lease < Duration::from_secs(1) || self.lease > Duration::from_secs(24 * 3600) {
            let what = format!("lease is {:?} but must be between 1 second and 1 day", self.lease);
            return Err(OpenError::Setting(what));
        }
        if self.queue.is_empty() || self.queue.len() > 200 {
            let what = format!(
                "the name of a queue has 1 to 200 bytes, but '{}' has {}",
                self.queue,
                self.queue.len()
            );
            return Err(OpenError::Setting(what));
        }
        if self.capacity == Some(0) {
            return Err(OpenError::Setting("capacity is 0, so nothing could ever be accepted".to_owned()));
        }
        let change = QueueChange { mode: None, capacity: self.capacity.map(Some), retention: self.retention };
        if change != QueueChange::default() {
            engine.queue(&self.queue, &change)?;
        }
        Ok(Cluster { core: Core::start(engine, self.on_full, self.lease)?, queue: self.queue.into() })
    }
}

/// Opens the engine that an address names.
fn engine_at(address: &str) -> Result<Arc<dyn Engine>, OpenError> {
    let (kind, rest) = address.split_once(':').unwrap_or((address, ""));
    match kind {
        "memory" if rest.is_empty() => Ok(Arc::new(MemoryEngine::new())),
        #[cfg(feature = "sqlite")]
        "sqlite" => {
            let (path, durability) = sqlite_address(address, rest)?;
            Ok(Arc::new(crate::engine::SqliteEngine::open(path, durability)?))
        }
        _ => Err(OpenError::Address(format!(
            "'{address}' names no engine: use sqlite:FILE, sqlite:FILE?durability=relaxed or memory:"
        ))),
    }
}

#[cfg(feature = "sqlite")]
fn sqlite_address<'a>(
    address: &str,
    rest: &'a str,
) -> Result<(&'a str, crate::engine::Durability), OpenError> {
    use crate::engine::Durability;

    let (path, options) = rest.split_once('?').unwrap_or((rest, ""));
    if path.is_empty() {
        return Err(OpenError::Address(format!("'{address}' names no file: use sqlite:FILE")));
    }
    let mut durability = Durability::Durable;
    for option in options.split('&').filter(|option| !option.is_empty()) {
        durability = match option {
            "durability=durable" => Durability::Durable,
            "durability=relaxed" => Durability::Relaxed,
            _ => {
                return Err(OpenError::Address(format!(
                    "'{option}' in '{address}' is not an option: use durability=durable or durability=relaxed"
                )));
            }
        };
    }
    Ok((path, durability))
}

/// See [`Admin::migrate`](crate::Admin::migrate).
pub(crate) fn migrate(address: &str) -> Result<u32, OpenError> {
    match address.split_once(':') {
        #[cfg(feature = "sqlite")]
        Some(("sqlite", rest)) => Ok(crate::engine::SqliteEngine::migrate(sqlite_address(address, rest)?.0)?),
        _ => Ok(engine_at(address)?.schema_version()?),
    }
}
