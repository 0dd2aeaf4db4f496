//! The crate `tokio`: `spawn_blocking`, and lanes built on it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinHandle;

use super::{Elastic, Pool, Shape};

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
        // The runtime's own worker is an additional thread of the blocking pool.
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

type Job = Box<dyn FnOnce() + Send>;

/// The queued jobs of a lane. `None` if no thread runs it.
pub(super) type Lane = Arc<Mutex<Option<VecDeque<Job>>>>;

fn work(lane: &Lane) {
    let next = || {
        let mut jobs = lane.lock().expect("nobody panics with it");
        let next = jobs.as_mut().and_then(VecDeque::pop_front);
        if next.is_none() {
            *jobs = None;
        }
        next
    };
    while let Some(job) = next() {
        job();
    }
}

impl Elastic for Tokio {
    const NAME: &'static str = "tokio blocking";
    type Lane = Lane;

    fn new(threads: usize) -> Self {
        <Tokio as Pool>::new(Shape::Elastic { most: threads }).expect("it has that shape")
    }

    fn execute(&self, f: impl FnOnce() + Send + 'static) {
        Pool::execute(self, f);
    }

    fn lane(&self) -> Lane {
        Lane::default()
    }

    fn on(&self, lane: &Lane, f: impl FnOnce() + Send + 'static) {
        let job: Job = Box::new(f);
        let mut jobs = lane.lock().expect("nobody panics with it");
        if let Some(jobs) = jobs.as_mut() {
            return jobs.push_back(job);
        }
        *jobs = Some(VecDeque::from([job]));
        drop(jobs);
        let lane = Arc::clone(lane);
        Pool::execute(self, move || work(&lane));
    }

    fn close(self) {
        Pool::close(self);
    }
}
