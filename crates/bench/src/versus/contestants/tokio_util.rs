//! The crate `tokio-util`: `DelayQueue` in a mutex, with a task that runs the due entries.

use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio_util::time::DelayQueue;
use tokio_util::time::delay_queue::Key;

use super::{Promise, Timers};

type Queue = DelayQueue<Box<dyn FnOnce() + Send>>;

pub(super) struct Delays {
    runtime: Runtime,
    queue: Arc<Mutex<Queue>>,
}

async fn pump(queue: Arc<Mutex<Queue>>) {
    loop {
        let next =
            poll_fn(|context| match queue.lock().expect("nobody panics with it").poll_expired(context) {
                Poll::Ready(Some(expired)) => Poll::Ready(expired.into_inner()),
                // When it is empty, the next insertion wakes the task that polled it last.
                Poll::Ready(None) | Poll::Pending => Poll::Pending,
            });
        (next.await)();
    }
}

impl Timers for Delays {
    const NAME: &'static str = "tokio-util DelayQueue";
    const PROMISE: Promise = Promise::Coarse;
    type Key = Key;

    fn new(workers: usize) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(workers).enable_time().build();
        let runtime = runtime.expect("threads start");
        let queue = Arc::new(Mutex::new(DelayQueue::new()));
        runtime.spawn(pump(Arc::clone(&queue)));
        Delays { runtime, queue }
    }

    fn schedule(&self, delay: Duration, f: impl FnOnce() + Send + 'static) -> Key {
        let _context = self.runtime.enter();
        self.queue.lock().expect("nobody panics with it").insert(Box::new(f), delay)
    }

    fn cancel(&self, key: Key) {
        drop(self.queue.lock().expect("nobody panics with it").remove(&key));
    }

    fn close(self) {
        self.runtime.shutdown_timeout(Duration::from_secs(60));
    }
}
