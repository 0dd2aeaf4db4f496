//! Us.

use std::time::Duration;

use millpond::{TaskHandle, ThreadPoolExecutor, WorkQueue, executors, policy};

use super::{Pool, Shape};

pub(super) struct Millpond(ThreadPoolExecutor);

impl Pool for Millpond {
    const NAME: &'static str = "millpond";
    type Handle = TaskHandle<()>;

    fn new(shape: Shape) -> Option<Self> {
        let bounded = |workers, capacity| {
            ThreadPoolExecutor::builder()
                .core_pool_size(workers)
                .maximum_pool_size(workers)
                .work_queue(WorkQueue::array(capacity))
        };
        let pool = match shape {
            Shape::Fixed { workers, .. } => executors::fixed(workers),
            Shape::Blocking { workers, capacity } => {
                bounded(workers, capacity).rejected_execution_handler(policy::Block::forever()).build()
            }
            Shape::CallerRuns { workers, capacity } => {
                bounded(workers, capacity).rejected_execution_handler(policy::CallerRuns).build()
            }
            Shape::Rejecting { workers, capacity } => bounded(workers, capacity).build(),
            Shape::Elastic { .. } => Ok(executors::cached()),
        };
        Some(Millpond(pool.expect("the sizes are valid")))
    }

    fn execute(&self, f: impl FnOnce() + Send + 'static) {
        self.0.execute(f).expect("it is open and has room");
    }

    fn submit(&self, f: impl FnOnce() + Send + 'static) -> TaskHandle<()> {
        self.0.submit(f).expect("it is open and has room")
    }

    fn join(handle: TaskHandle<()>) {
        handle.join().expect("it ran");
    }

    fn try_execute(&self, f: impl FnOnce() + Send + 'static) -> bool {
        self.0.execute(f).is_ok()
    }

    fn close(self) {
        self.0.shutdown();
        let ended = self.0.await_termination(Duration::from_secs(60));
        assert_eq!(ended, Ok(true), "all tasks have run");
    }
}
