//! One worker of a scheduler, as a scheduler of its own.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use super::{Disposable, PeriodicTask, Scheduler, SchedulerStats, Worker};
use crate::executor::Rejected;
use crate::interrupt::Interrupted;
use crate::sync::Arc;
use crate::task::Task;

/// One worker of `original`, as a scheduler: everything given to it, and to its workers, runs one at a time in one lane.
///
/// Disposing of it disposes of that lane and leaves `original` alone; a graceful end lets the lane finish.
pub fn single_worker(original: &dyn Scheduler) -> Arc<dyn Scheduler> {
    let name = format!("singleWorker({original})");
    Arc::new(SingleWorker { worker: original.create_worker(), name })
}

struct SingleWorker {
    worker: Worker,
    name: String,
}

impl Scheduler for SingleWorker {
    fn schedule_task(&self, task: Task) -> Result<Disposable, Rejected> {
        self.worker.schedule_task(task)
    }

    fn schedule_task_after(&self, delay: Duration, task: Task) -> Result<Disposable, Rejected> {
        self.worker.schedule_task_after(delay, task)
    }

    fn schedule_periodically_task(
        &self,
        initial: Duration,
        period: Duration,
        task: PeriodicTask,
    ) -> Result<Disposable, Rejected> {
        self.worker.schedule_periodically_task(initial, period, task)
    }

    fn create_worker(&self) -> Worker {
        todo!()
    }

    fn dispose(&self) {
        self.worker.dispose();
    }

    fn dispose_gracefully(&self, _timeout: Duration) -> Result<bool, Interrupted> {
        todo!()
    }

    fn disposal(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        todo!()
    }

    fn is_disposed(&self) -> bool {
        self.worker.is_disposed()
    }

    fn stats(&self) -> SchedulerStats {
        SchedulerStats { name: self.name.clone(), ..SchedulerStats::default() }
    }
}
