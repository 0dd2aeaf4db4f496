//! The crate `threadpool-executor`. Its `execute` always creates a handle.

use std::panic::AssertUnwindSafe;

use threadpool_executor::{Expectation, ThreadPool};

use super::{Pool, Shape};

pub(super) struct ThreadpoolExecutor(ThreadPool);

impl ThreadpoolExecutor {
    fn start(&self, f: impl FnOnce() + Send + 'static) -> Expectation<()> {
        let f = AssertUnwindSafe(f);
        let f = move || {
            // Capture the whole wrapper, not its field.
            let f = f;
            (f.0)();
        };
        self.0.execute(f).expect("it is open")
    }
}

impl Pool for ThreadpoolExecutor {
    const NAME: &'static str = "threadpool-executor";
    type Handle = Expectation<()>;

    fn new(shape: Shape) -> Option<Self> {
        match shape {
            Shape::Fixed { workers, .. } => Some(ThreadpoolExecutor(ThreadPool::new(workers))),
            _ => None,
        }
    }

    fn execute(&self, f: impl FnOnce() + Send + 'static) {
        drop(self.start(f));
    }

    fn submit(&self, f: impl FnOnce() + Send + 'static) -> Expectation<()> {
        self.start(f)
    }

    fn join(mut handle: Expectation<()>) {
        handle.get_result().expect("it ran");
    }

    fn close(self) {
        drop(self.0);
    }
}
