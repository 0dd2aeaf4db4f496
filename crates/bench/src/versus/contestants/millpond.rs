//! Millpond.

use std::sync::Arc;
use std::time::Duration;

use millpond::monitor::Timing;
use millpond::queue::{ArrayBlockingQueue, BlockingQueue, LinkedBlockingQueue, SynchronousQueue};
use millpond::schedulers::{Disposable, Scheduler, SchedulerExt, new_parallel};
use millpond::{
    ScheduledHandle, ScheduledThreadPoolExecutor, TaskHandle, ThreadPoolExecutor, WorkQueue, executors,
    policy,
};

use super::{Line, Pool, Queue, Shape, Timers};

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
            Shape::Discarding { workers, capacity } => {
                bounded(workers, capacity).rejected_execution_handler(policy::Discard).build()
            }
            Shape::Elastic { .. } => Ok(executors::cached()),
        };
        Some(Millpond(pool.expect("the sizes are valid")))
    }

    fn with_timing(workers: usize, timing: &str) -> Option<Self> {
        let timing = match timing {
            "off" => Timing::Off,
            "every" => Timing::Every,
            _ => Timing::Sampled,
        };
        let builder = ThreadPoolExecutor::builder().core_pool_size(workers).maximum_pool_size(workers);
        Some(Millpond(builder.timing(timing).build().expect("the sizes are valid")))
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

/// The queues alone.
pub(super) struct Queues;

#[derive(Clone)]
pub(super) enum AnyQueue {
    Array(Arc<ArrayBlockingQueue<u64>>),
    Linked(Arc<LinkedBlockingQueue<u64>>),
    Synchronous(Arc<SynchronousQueue<u64>>),
}

impl Queue for Queues {
    const NAME: &'static str = Millpond::NAME;
    type Sender = AnyQueue;
    type Receiver = AnyQueue;

    fn ends(line: Line, each: usize) -> Option<(Vec<AnyQueue>, Vec<AnyQueue>)> {
        let queue = match line {
            Line::Bounded(capacity) => {
                AnyQueue::Array(Arc::new(ArrayBlockingQueue::new(capacity).expect("it is not 0")))
            }
            Line::Unbounded => AnyQueue::Linked(Arc::new(LinkedBlockingQueue::unbounded())),
            Line::Rendezvous => AnyQueue::Synchronous(Arc::new(SynchronousQueue::new())),
        };
        Some((vec![queue.clone(); each], vec![queue; each]))
    }

    fn put(sender: &AnyQueue, item: u64) {
        let put = match sender {
            AnyQueue::Array(queue) => queue.put(item),
            AnyQueue::Linked(queue) => queue.put(item),
            AnyQueue::Synchronous(queue) => queue.put(item),
        };
        put.expect("nobody interrupts");
    }

    fn take(receiver: &AnyQueue) -> u64 {
        let taken = match receiver {
            AnyQueue::Array(queue) => queue.take(),
            AnyQueue::Linked(queue) => queue.take(),
            AnyQueue::Synchronous(queue) => queue.take(),
        };
        taken.expect("nobody interrupts")
    }
}

/// The scheduled pool, with removal of cancelled tasks.
pub(super) struct Scheduled(ScheduledThreadPoolExecutor);

impl Timers for Scheduled {
    const NAME: &'static str = Millpond::NAME;
    type Key = ScheduledHandle<()>;

    fn new(workers: usize) -> Self {
        let pool =
            ScheduledThreadPoolExecutor::builder().core_pool_size(workers).remove_on_cancel_policy(true);
        Scheduled(pool.build().expect("the sizes are valid"))
    }

    fn schedule(&self, delay: Duration, f: impl FnOnce() + Send + 'static) -> ScheduledHandle<()> {
        self.0.schedule(delay, f).expect("it is open")
    }

    fn cancel(&self, key: ScheduledHandle<()>) {
        assert!(key.cancel(false), "it was not due");
    }

    fn close(self) {
        self.0.shutdown();
        let ended = self.0.await_termination(Duration::from_secs(60));
        assert_eq!(ended, Ok(true), "nothing waits any more");
    }
}

/// The parallel scheduler.
pub(super) struct Parallel(Arc<dyn Scheduler>);

impl Timers for Parallel {
    const NAME: &'static str = "millpond parallel";
    type Key = Disposable;

    fn new(workers: usize) -> Self {
        Parallel(new_parallel(workers, "versus").expect("the size is valid"))
    }

    fn schedule(&self, delay: Duration, f: impl FnOnce() + Send + 'static) -> Disposable {
        self.0.schedule_after(delay, f).expect("it is open")
    }

    fn cancel(&self, key: Disposable) {
        assert!(key.dispose(), "it was not due");
    }

    fn close(self) {
        let ended = self.0.dispose_gracefully(Duration::from_secs(60));
        assert_eq!(ended, Ok(true), "nothing waits any more");
    }
}
