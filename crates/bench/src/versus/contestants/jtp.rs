//! The crate `jtp`. Its queue is always bounded.

use jtp::{RejectedTaskHandler, ThreadPool, ThreadPoolBuilder};

use super::{Done, Pool, Shape, wait, with_channel};

pub(super) struct Jtp(ThreadPool);

impl Pool for Jtp {
    const NAME: &'static str = "jtp";
    type Handle = Done;

    fn new(shape: Shape) -> Option<Self> {
        let (workers, capacity, handler) = match shape {
            Shape::Fixed { workers, most } => (workers, most, RejectedTaskHandler::Abort),
            Shape::CallerRuns { workers, capacity } => (workers, capacity, RejectedTaskHandler::CallerRuns),
            Shape::Rejecting { workers, capacity } => (workers, capacity, RejectedTaskHandler::Abort),
            Shape::Discarding { workers, capacity } => (workers, capacity, RejectedTaskHandler::Discard),
            Shape::Blocking { .. } | Shape::Elastic { .. } => return None,
        };
        let builder = ThreadPoolBuilder::new().core_pool_size(workers).max_pool_size(workers);
        Some(Jtp(builder.channel_capacity(capacity).rejected_handler(handler).build()))
    }

    fn execute(&self, f: impl FnOnce() + Send + 'static) {
        self.0.execute(f).expect("it is open and has room");
    }

    fn submit(&self, f: impl FnOnce() + Send + 'static) -> Done {
        let (f, done) = with_channel(f);
        self.execute(f);
        done
    }

    fn join(done: Done) {
        wait(done);
    }

    fn try_execute(&self, f: impl FnOnce() + Send + 'static) -> bool {
        self.0.execute(f).is_ok()
    }

    fn close(self) {
        self.0.wait().expect("no task panics");
    }
}
