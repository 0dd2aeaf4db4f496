//! The crate `executors`: its pool that steals work.

use executors::Executor;
use executors::crossbeam_workstealing_pool::{self, ThreadPool};
use executors::parker::{DynamicThreadData, StaticParker};

use super::{Done, Pool, Promise, Shape, wait, with_channel};

pub(super) struct Executors(ThreadPool<StaticParker<DynamicThreadData>>);

impl Pool for Executors {
    const NAME: &'static str = "executors";
    const PROMISE: Promise = Promise::Other;
    type Handle = Done;

    fn new(shape: Shape) -> Option<Self> {
        match shape {
            Shape::Fixed { workers, .. } => Some(Executors(crossbeam_workstealing_pool::dyn_pool(workers))),
            _ => None,
        }
    }

    fn execute(&self, f: impl FnOnce() + Send + 'static) {
        self.0.execute(f);
    }

    fn submit(&self, f: impl FnOnce() + Send + 'static) -> Done {
        let (f, done) = with_channel(f);
        self.0.execute(f);
        done
    }

    fn join(done: Done) {
        wait(done);
    }

    fn close(self) {
        self.0.shutdown().expect("no task panics");
    }
}
