//! The crate `threadfin`. Its `execute` always creates a handle.

use threadfin::{Task, ThreadPool};

use super::{Pool, Shape};

pub(super) struct Threadfin(ThreadPool);

impl Pool for Threadfin {
    const NAME: &'static str = "threadfin";
    type Handle = Task<()>;

    fn new(shape: Shape) -> Option<Self> {
        let builder = ThreadPool::builder();
        let builder = match shape {
            Shape::Fixed { workers, .. } => builder.size(workers),
            Shape::Blocking { workers, capacity } | Shape::Rejecting { workers, capacity } => {
                builder.size(workers).queue_limit(capacity)
            }
            Shape::Elastic { most } => builder.size(0..=most),
            Shape::CallerRuns { .. } | Shape::Discarding { .. } => return None,
        };
        Some(Threadfin(builder.build()))
    }

    fn execute(&self, f: impl FnOnce() + Send + 'static) {
        drop(self.0.execute(f));
    }

    fn submit(&self, f: impl FnOnce() + Send + 'static) -> Task<()> {
        self.0.execute(f)
    }

    fn join(task: Task<()>) {
        task.join();
    }

    fn try_execute(&self, f: impl FnOnce() + Send + 'static) -> bool {
        self.0.try_execute(f).is_ok()
    }

    fn close(self) {
        self.0.join();
    }
}
