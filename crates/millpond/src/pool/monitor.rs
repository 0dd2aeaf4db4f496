//! What observers see of a pool: names, settings, snapshots.

use std::time::{Duration, Instant};

use super::ThreadPoolExecutor;
use super::inner::PoolInner;
use super::queue::TaskQueue;
use crate::monitor::{HistogramSnapshot, Monitored, PoolSnapshot, PoolStats, Settings, Timing, release};
use crate::sync::Arc;

impl Monitored for PoolInner {
    fn snapshot(&self) -> PoolSnapshot {
        let identity = self.me().identity();
        let (threads_started, thread_start_failures) = self.counters().threads();
        let rejected = self.counters().rejected();
        let stats = PoolStats { rejected: rejected.total(), ..self.stats() };
        PoolSnapshot {
            name: Arc::clone(identity.name()),
            label: Arc::clone(self.me().last_label()),
            kind: identity.kind(),
            taken: Instant::now(),
            stats,
            settings: self.settings_in_force(),
            paused: false,
            delayed_count: self.delayed_count(),
            wait: HistogramSnapshot::default(),
            run: HistogramSnapshot::default(),
            busy: Duration::ZERO,
            oldest_wait: None,
            longest_running: None,
            rejected,
            threads_started,
            thread_start_failures,
            last_panics: self.panics().records(),
        }
    }

    fn settings(&self) -> Settings {
        self.settings_in_force()
    }

    fn release(self: Arc<Self>) {
        release(self);
    }
}

impl PoolInner {
    pub(super) fn settings_in_force(&self) -> Settings {
        let (settings, version) = self.settings().versioned();
        Settings {
            version,
            core_pool_size: settings.core,
            maximum_pool_size: settings.maximum,
            keep_alive_time: settings.keep_alive,
            core_threads_time_out: settings.core_times_out,
            queue: self.queue_kind(),
            queue_capacity: self.queue().capacity(),
            policy: self.policy().described(),
            timing: Timing::Sampled,
        }
    }

    fn delayed_count(&self) -> usize {
        if let TaskQueue::Delayed(delayed) = self.queue() { delayed.len() } else { 0 }
    }
}

/// Observing.
impl ThreadPoolExecutor {
    /// Returns the name of the pool: that of [`Builder::name`](crate::Builder::name), or `pool-N`.
    pub fn name(&self) -> &str {
        self.inner().name().get()
    }

    /// Returns the name of the pool, made unique in the process: the second pool `db` is `db#2`.
    ///
    /// The label is not given to another pool before this one is dropped.
    pub fn label(&self) -> &str {
        self.inner().me().last_label()
    }

    /// Returns all that is known about the pool now. Does not block.
    pub fn snapshot(&self) -> PoolSnapshot {
        Monitored::snapshot(&**self.inner())
    }

    /// Returns the settings in force.
    pub fn settings(&self) -> Settings {
        self.inner().settings_in_force()
    }
}
