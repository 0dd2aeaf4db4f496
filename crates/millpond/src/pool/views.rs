//! Inspection of a pool: what each worker runs, and which tasks are queued.

use super::ThreadPoolExecutor;
use super::inner::PoolInner;
use super::queue::QueuedTask;
use super::workers::Worker;
use crate::monitor::{MOST_LISTED, RunningTask, Waiting, WaitingTask, WorkerState, WorkerView};
use crate::time::clock::Tick;

impl PoolInner {
    pub(super) fn worker_views(&self) -> Vec<WorkerView> {
        let now = self.meter().now();
        let workers: Vec<_> = self.workers().iter().cloned().collect();
        workers.iter().map(|worker| worker_view(worker, now)).collect()
    }

    pub(super) fn waiting_tasks(&self, limit: usize) -> Waiting {
        let queued = self.queue().first_tasks(limit.min(MOST_LISTED));
        let now = self.meter().now();
        let view = |QueuedTask { info, since, due }: &QueuedTask| {
            let age =
                now.zip(*since).filter(|(now, since)| since <= now).map(|(now, since)| now.since(since));
            let due_in = now.zip(*due).map(|(now, due)| due.since(now));
            WaitingTask::new(info, age, due_in)
        };
        let head = now.and_then(|now| self.queue().head_since(now));
        Waiting {
            total: self.queue().try_len().unwrap_or(0),
            oldest: now.zip(head).map(|(now, since)| now.since(since)),
            tasks: queued.iter().map(view).collect(),
        }
    }
}

fn worker_view(worker: &Worker, now: Option<Tick>) -> WorkerView {
    let (started, os_thread_id) = worker.thread_state();
    let task = worker.current_task();
    let state = match started {
        WorkerState::Idle if task.is_some() => WorkerState::Running,
        state => state,
    };
    let age = |since| now.filter(|_| state == WorkerState::Running).map(|now| now.since(since));
    let task = task.map(|(id, name, since)| RunningTask::new(id, name, since.and_then(age)));
    WorkerView::new(worker.info(), os_thread_id, state, task)
}

/// Inspection.
impl ThreadPoolExecutor {
    /// Returns the state of each worker, its current task, and how long that task has been running.
    ///
    /// Does not block. If a task runs inline inside another task, only the outer task is shown.
    ///
    /// # Examples
    /// ```
    /// use millpond::{Task, executors, monitor::WorkerState};
    /// use std::sync::mpsc;
    ///
    /// let pool = executors::fixed(1)?;
    /// let (begin, begun) = mpsc::channel();
    /// let (end, ended) = mpsc::channel::<()>();
    /// let work = move || _ = begin.send(()).is_ok() && ended.recv().is_ok();
    /// pool.execute_task(Task::new(work).named("import"))?;
    /// begun.recv()?;
    /// let worker = &pool.workers()[0];
    /// assert_eq!(worker.state, WorkerState::Running);
    /// assert_eq!(worker.task.as_ref().and_then(|task| task.name.as_deref()), Some("import"));
    /// end.send(())?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn workers(&self) -> Vec<WorkerView> {
        self.inner().worker_views()
    }

    /// Returns the number of queued tasks, and the first `limit` of them, at most 1,000, with their
    /// ages.
    ///
    /// Locks the queue while it reads these entries. Cancelled entries are left out, so fewer tasks
    /// may be returned. A delay queue or a custom queue is listed only if it holds at most `limit`
    /// tasks. A scheduled pool first lists the tasks that are due within about a millisecond, and
    /// then others in the order of its timer wheel.
    ///
    /// # Examples
    /// ```
    /// let pool = millpond::executors::fixed(1)?;
    /// let waiting = pool.waiting(100);
    /// assert_eq!((waiting.total, waiting.tasks.len()), (0, 0));
    /// # Ok::<(), millpond::ConfigError>(())
    /// ```
    pub fn waiting(&self, limit: usize) -> Waiting {
        self.inner().waiting_tasks(limit)
    }
}
