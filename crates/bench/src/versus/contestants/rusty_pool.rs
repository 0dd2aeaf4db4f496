//! The crate `rusty_pool`.

use std::time::Duration;

use rusty_pool::{JoinHandle, ThreadPool};

use super::{Pool, Shape};

pub(super) struct RustyPool(ThreadPool);

impl Pool for RustyPool {
    const NAME: &'static str = "rusty_pool";
    type Handle = JoinHandle<()>;

    fn new(shape: Shape) -> Option<Self> {
        let keep_alive = Duration::from_secs(60);
        match shape {
            Shape::Fixed { workers, .. } => Some(RustyPool(ThreadPool::new(workers, workers, keep_alive))),
            // It grows beyond its core size when all threads are busy.
            Shape::Elastic { most } => Some(RustyPool(ThreadPool::new(0, most, keep_alive))),
            _ => None,
        }
    }

    fn execute(&self, f: impl FnOnce() + Send + 'static) {
        self.0.execute(f);
    }

    fn submit(&self, f: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
        self.0.evaluate(f)
    }

    fn join(handle: JoinHandle<()>) {
        handle.await_complete();
    }

    fn close(self) {
        self.0.shutdown_join();
    }
}
