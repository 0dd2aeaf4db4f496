//! The crate `tokio`: `spawn_blocking`.

use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinHandle;

use super::{Pool, Shape};

pub(super) struct Tokio(Runtime);

impl Pool for Tokio {
    const NAME: &'static str = "tokio blocking";
    type Handle = (Handle, JoinHandle<()>);

    fn new(shape: Shape) -> Option<Self> {
        let threads = match shape {
            Shape::Fixed { workers, .. } => workers,
            Shape::Elastic { most } => most,
            _ => return None,
        };
        // The worker of the runtime itself is also a thread of the blocking pool, besides those.
        let runtime = Builder::new_multi_thread().worker_threads(1).max_blocking_threads(threads).build();
        Some(Tokio(runtime.expect("threads start")))
    }

    fn execute(&self, f: impl FnOnce() + Send + 'static) {
        drop(self.0.spawn_blocking(f));
    }

    fn submit(&self, f: impl FnOnce() + Send + 'static) -> Self::Handle {
        (self.0.handle().clone(), self.0.spawn_blocking(f))
    }

    fn join((runtime, handle): Self::Handle) {
        runtime.block_on(handle).expect("it ran");
    }

    fn close(self) {
        self.0.shutdown_timeout(Duration::from_secs(60));
    }
}
