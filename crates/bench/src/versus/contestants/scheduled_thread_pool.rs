//! The crate `scheduled-thread-pool`. A cancelled task stays until it is due.

use std::time::Duration;

use scheduled_thread_pool::{JobHandle, OnPoolDropBehavior, ScheduledThreadPool};

use super::{Promise, Timers};

pub(super) struct Scheduled(ScheduledThreadPool);

impl Timers for Scheduled {
    const NAME: &'static str = "scheduled-thread-pool";
    const PROMISE: Promise = Promise::LazyCancel;
    type Key = JobHandle;

    fn new(workers: usize) -> Self {
        let builder = ScheduledThreadPool::builder().num_threads(workers);
        Scheduled(builder.on_drop_behavior(OnPoolDropBehavior::DiscardPendingScheduled).build())
    }

    fn schedule(&self, delay: Duration, f: impl FnOnce() + Send + 'static) -> JobHandle {
        self.0.execute_after(delay, f)
    }

    fn cancel(&self, key: JobHandle) {
        key.cancel();
    }

    fn close(self) {
        drop(self.0);
    }
}
