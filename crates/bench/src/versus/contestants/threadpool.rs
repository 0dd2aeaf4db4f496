//! The crate `threadpool`.

use threadpool::ThreadPool;

use super::{Done, Pool, Shape, wait, with_channel};

pub(super) struct Threadpool(ThreadPool);

impl Pool for Threadpool {
    const NAME: &'static str = "threadpool";
    type Handle = Done;

    fn new(shape: Shape) -> Option<Self> {
        match shape {
            Shape::Fixed { workers, .. } => Some(Threadpool(ThreadPool::new(workers))),
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
        self.0.join();
    }
}
