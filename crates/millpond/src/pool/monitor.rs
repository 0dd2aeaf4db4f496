//! The monitoring interface of a pool: names, settings and snapshots.

use std::time::{Duration, Instant};

use super::ThreadPoolExecutor;
use super::counters::Counter;
use super::inner::PoolInner;
use super::queue::TaskQueue;
use crate::monitor::{
    Actor, Change, ChangeError, HistogramSnapshot, Monitored, PoolSnapshot, PoolStats, Settings, Waiting,
    WorkerView, release,
};
use crate::sync::Arc;

impl Monitored for PoolInner {
    fn snapshot(&self) -> PoolSnapshot {
        let identity = self.me().identity();
        let counters = self.counters();
        let rejected = counters.rejected();
        let stats = PoolStats { rejected: rejected.total(), ..self.stats() };
        let mut snapshot = PoolSnapshot {
            name: Arc::clone(identity.name()),
            label: Arc::clone(self.me().last_label()),
            kind: identity.kind(),
            taken: Instant::now(),
            stats,
            settings: self.settings().get(),
            paused: self.is_paused(),
            delayed_count: self.delayed_count(),
            wait: HistogramSnapshot::default(),
            run: HistogramSnapshot::default(),
            busy: Duration::ZERO,
            oldest_wait: None,
            longest_running: None,
            rejected,
            threads_started: counters.get(Counter::ThreadStarted),
            thread_start_failures: counters.get(Counter::ThreadStartFailed),
            last_panics: self.panics().records(),
        };
        self.read_times(&mut snapshot);
        snapshot
    }

    fn settings(&self) -> Settings {
        self.settings().get()
    }

    fn workers(&self) -> Vec<WorkerView> {
        self.worker_views()
    }

    fn waiting(&self, limit: usize) -> Waiting {
        self.waiting_tasks(limit)
    }

    fn reconfigure(self: Arc<Self>, change: Change) -> Result<Settings, ChangeError> {
        let answer = PoolInner::reconfigure(&self, change);
        release(self);
        answer
    }

    fn set_paused(self: Arc<Self>, paused: bool, by: &Actor) {
        if paused {
            self.pause(by);
        } else {
            self.resume(by);
        }
        release(self);
    }

    fn is_paused(&self) -> bool {
        PoolInner::is_paused(self)
    }

    fn release(self: Arc<Self>) {
        release(self);
    }
}

impl PoolInner {
    fn delayed_count(&self) -> usize {
        if let TaskQueue::Delayed(delayed) = self.queue() { delayed.len() } else { 0 }
    }
}

/// Monitoring.
impl ThreadPoolExecutor {
    /// Returns the name set by [`Builder::name`](crate::Builder::name), or `pool-N`.
    pub fn name(&self) -> &str {
        self.inner().name().get()
    }

    /// Returns the name of the pool, made unique in the process: the second pool `db` is `db#2`.
    ///
    /// No other pool gets this label before this pool is dropped.
    pub fn label(&self) -> &str {
        self.inner().me().last_label()
    }

    /// Returns a snapshot of the pool: counts, settings and times. Does not block.
    pub fn snapshot(&self) -> PoolSnapshot {
        Monitored::snapshot(&**self.inner())
    }

    /// Returns the current settings.
    pub fn settings(&self) -> Settings {
        self.inner().settings().get()
    }
}
