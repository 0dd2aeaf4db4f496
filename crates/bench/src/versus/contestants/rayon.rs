//! The crate `rayon`: `spawn`, which does not keep the order.

use rayon::{ThreadPool, ThreadPoolBuilder};

use super::{Done, Pool, Promise, Shape, wait, with_channel};

pub(super) struct Rayon(ThreadPool);

impl Pool for Rayon {
    const NAME: &'static str = "rayon";
    const PROMISE: Promise = Promise::Other;
    type Handle = Done;

    fn new(shape: Shape) -> Option<Self> {
        match shape {
            Shape::Fixed { workers, .. } => {
                Some(Rayon(ThreadPoolBuilder::new().num_threads(workers).build().expect("threads start")))
            }
            _ => None,
        }
    }

    fn execute(&self, f: impl FnOnce() + Send + 'static) {
        self.0.spawn(f);
    }

    fn submit(&self, f: impl FnOnce() + Send + 'static) -> Done {
        let (f, done) = with_channel(f);
        self.0.spawn(f);
        done
    }

    fn join(done: Done) {
        wait(done);
    }

    fn close(self) {
        drop(self.0);
    }
}
