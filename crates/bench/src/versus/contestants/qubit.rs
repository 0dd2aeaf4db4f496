//! The crate `qubit-thread-pool`: its fixed pool, which does not guarantee an order.

use std::convert::Infallible;

use qubit_executor::TaskHandle;
use qubit_executor::service::ExecutorService;
use qubit_thread_pool::FixedThreadPool;

use super::{Pool, Promise, Shape};

pub(super) struct Qubit(FixedThreadPool);

/// It requires a closure that can be called again and may fail.
fn again(f: impl FnOnce() + Send + 'static) -> impl FnMut() -> Result<(), Infallible> + Send + 'static {
    let mut f = Some(f);
    move || {
        if let Some(f) = f.take() {
            f();
        }
        Ok(())
    }
}

impl Pool for Qubit {
    const NAME: &'static str = "qubit";
    const PROMISE: Promise = Promise::Other;
    type Handle = TaskHandle<(), Infallible>;

    fn new(shape: Shape) -> Option<Self> {
        let builder = FixedThreadPool::builder().pool_size(shape.workers());
        let builder = match shape {
            Shape::Fixed { .. } => builder.unbounded_queue(),
            Shape::Rejecting { capacity, .. } => builder.queue_capacity(capacity),
            Shape::Blocking { .. }
            | Shape::CallerRuns { .. }
            | Shape::Discarding { .. }
            | Shape::Elastic { .. } => return None,
        };
        Some(Qubit(builder.build().expect("threads start")))
    }

    fn execute(&self, f: impl FnOnce() + Send + 'static) {
        self.0.submit(again(f)).expect("it is open");
    }

    fn submit(&self, f: impl FnOnce() + Send + 'static) -> Self::Handle {
        self.0.submit_callable(again(f)).expect("it is open")
    }

    fn join(handle: Self::Handle) {
        handle.get().expect("it ran");
    }

    fn try_execute(&self, f: impl FnOnce() + Send + 'static) -> bool {
        self.0.submit(again(f)).is_ok()
    }

    fn close(self) {
        self.0.shutdown();
        self.0.wait_termination();
    }
}
