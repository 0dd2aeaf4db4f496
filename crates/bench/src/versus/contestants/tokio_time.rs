//! The crate `tokio`: a task for each timer, which sleeps until it is due, accurate to 1 ms.

use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

use super::{Promise, Timers};

pub(super) struct Time(Runtime);

impl Timers for Time {
    const NAME: &'static str = "tokio time";
    const PROMISE: Promise = Promise::Other;
    type Key = JoinHandle<()>;

    fn new(workers: usize) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(workers).enable_time().build();
        Time(runtime.expect("threads start"))
    }

    fn schedule(&self, delay: Duration, f: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
        self.0.spawn(async move {
            tokio::time::sleep(delay).await;
            f();
        })
    }

    fn cancel(&self, key: JoinHandle<()>) {
        key.abort();
    }

    fn close(self) {
        self.0.shutdown_timeout(Duration::from_secs(60));
    }
}
