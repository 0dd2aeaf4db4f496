//! [`Handle`]: the user's handle to a scheduler, generic over the kind of scheduler.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use super::disposable::Disposable;
use super::end::{Disposal, Ends, OnLastDrop};
use super::scheduler::{Scheduler, SchedulerId};
use super::stats::SchedulerStats;
use super::work::Submission;
use super::worker::Worker;
use crate::executor::Rejected;
use crate::interrupt::Interrupted;
use crate::monitor::PoolRef;
use crate::sync::Arc;

/// A kind of scheduler that ends when its last [`Handle`] and its last worker are dropped.
pub(super) trait Backend: Ends + Sized + 'static {
    /// Runs `work` after `delay`, or refuses it.
    fn submit(self: &Arc<Self>, delay: Duration, work: impl Submission) -> Result<Disposable, Rejected>;

    /// Creates a worker. The worker keeps `handle`, and so the scheduler, alive.
    fn create_worker(handle: &Arc<OnLastDrop<Self>>) -> Worker;

    fn dispose(self: &Arc<Self>);

    fn is_disposed(&self) -> bool;

    fn stats(&self) -> SchedulerStats;

    fn pool_ref(&self) -> Option<PoolRef> {
        None
    }
}

/// A cheap handle to a scheduler of kind `B`.
pub(super) struct Handle<B: Backend>(Arc<OnLastDrop<B>>);

impl<B: Backend> Handle<B> {
    pub(super) fn new(backend: Arc<B>) -> Handle<B> {
        Handle(OnLastDrop::new(backend))
    }

    pub(super) fn backend(&self) -> &Arc<B> {
        &self.0
    }
}

impl<B: Backend> Clone for Handle<B> {
    fn clone(&self) -> Self {
        Handle(Arc::clone(&self.0))
    }
}

impl<B: Backend> Scheduler for Handle<B> {
    scheduling_methods!(jobs | it, delay, work | it.backend().submit(delay, work));

    fn scheduler_id(&self) -> Option<SchedulerId> {
        Some(SchedulerId::of(&**self.backend()))
    }

    fn create_worker(&self) -> Worker {
        B::create_worker(&self.0)
    }

    fn dispose(&self) {
        self.backend().dispose();
    }

    fn dispose_gracefully(&self, timeout: Duration) -> Result<bool, Interrupted> {
        self.backend().dispose_gracefully(timeout)
    }

    fn disposal(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(Disposal::new(Arc::clone(self.backend())))
    }

    fn is_disposed(&self) -> bool {
        self.backend().is_disposed()
    }

    fn stats(&self) -> SchedulerStats {
        self.backend().stats()
    }

    fn pool_ref(&self) -> Option<PoolRef> {
        self.backend().pool_ref()
    }
}

impl<B: Backend> fmt::Debug for Handle<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stats().fmt(f)
    }
}

impl<B: Backend> fmt::Display for Handle<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.stats().name)
    }
}
