//! The bounded-elastic scheduler, with lanes that move between threads, and with lanes that stay on
//! one thread as in Reactor.

use std::time::Duration;

use millpond::schedulers::{Affinity, BoundedElasticScheduler, Scheduler, SchedulerExt, Worker};

use super::{Elastic, Millpond, Pool};

pub(super) struct Moving(BoundedElasticScheduler);
pub(super) struct Pinned(BoundedElasticScheduler);

fn scheduler(threads: usize, affinity: Affinity) -> BoundedElasticScheduler {
    let builder =
        BoundedElasticScheduler::builder().max_threads(threads).queue_capacity_per_thread(usize::MAX);
    builder.affinity(affinity).build().expect("the sizes are valid")
}

fn close(scheduler: &BoundedElasticScheduler) {
    let ended = scheduler.dispose_gracefully(Duration::from_secs(60));
    assert_eq!(ended, Ok(true), "all tasks have run");
}

macro_rules! elastic {
    ($type:ident, $name:expr, $affinity:expr) => {
        impl Elastic for $type {
            const NAME: &'static str = $name;
            type Lane = Worker;

            fn new(threads: usize) -> Self {
                $type(scheduler(threads, $affinity))
            }

            fn execute(&self, f: impl FnOnce() + Send + 'static) {
                self.0.schedule(f).expect("it is open");
            }

            fn lane(&self) -> Worker {
                self.0.create_worker()
            }

            fn on(&self, lane: &Worker, f: impl FnOnce() + Send + 'static) {
                lane.schedule(f).expect("it is open");
            }

            fn close(self) {
                close(&self.0);
            }
        }
    };
}

elastic!(Moving, Millpond::NAME, Affinity::Soft);
elastic!(Pinned, "millpond, pinned", Affinity::Strict);
