//! The list of workers, and the start of one worker's thread.
//!
//! A worker is listed from the reservation of its permit in the control word until its
//! `worker_stopped` hook has returned. `spawn` adds workers; `worker` is the body of their threads.

use std::io;

use super::counters::{Totals, WorkerCounters};
use crate::interrupt::ThreadContext;
use crate::monitor::{Laps, Progress, WorkerState};
use crate::sync::{Arc, AtomicBool, AtomicU64, Mutex, Ordering};
use crate::sys;
use crate::task::{Task, TaskId, TaskInfo};
use crate::threads::{WorkerInfo, body_dropped};
use crate::time::clock::Tick;

/// One worker.
#[derive(Debug)]
pub(super) struct Worker {
    info: WorkerInfo,
    counters: WorkerCounters,
    laps: Laps,
    /// The number of the task that the worker runs, hooks included, or of its first task; 0 if
    /// there is none. Written only by the worker once its thread runs.
    current: AtomicU64,
    /// The last named task that the worker began, without its context, which must not outlive the
    /// task. Unnamed tasks do not change it.
    named: Mutex<Option<TaskInfo>>,
    /// True once the thread exists or the factory has promised it. Guarded by the lock of the list.
    confirmed: AtomicBool,
    start: Mutex<Start>,
}

/// The progress of the start of a worker's thread.
#[derive(Debug)]
struct Start {
    state: StartState,
    /// The first task of the thread, and when it was accepted.
    first: Option<(Task, Option<Tick>)>,
    /// The thread, once it runs: the target of interrupts.
    thread: Option<Arc<ThreadContext>>,
    os_thread_id: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StartState {
    /// The thread factory has been called and has not returned.
    Spawning,
    /// The factory has returned a thread, which does not run yet.
    Promised,
    /// The thread runs the worker body.
    Running,
    /// The thread will run no more tasks.
    Leaving,
    /// No thread will run the worker body.
    Failed,
}

impl Worker {
    pub(super) fn info(&self) -> &WorkerInfo {
        &self.info
    }

    pub(super) fn counters(&self) -> &WorkerCounters {
        &self.counters
    }

    pub(super) fn laps(&self) -> &Laps {
        &self.laps
    }

    pub(super) fn progress(&self) -> Progress {
        Progress { thread: self.info.number(), finished: self.counters.finished() }
    }

    /// Publishes the current task. The name comes first and together with the id, so a reader never
    /// combines the name of one task with the id of another.
    #[inline]
    pub(super) fn begin_task(&self, task: &Task) {
        if task.name().is_some() {
            self.publish_name(task.info());
        }
        // Relaxed: ordered by the counters, see `stats`.
        self.current.store(task.id().number(), Ordering::Relaxed);
    }

    #[cold]
    fn publish_name(&self, info: &TaskInfo) {
        let info = info.without_context();
        let before = self.named.lock().replace(info);
        drop(before);
    }

    #[inline]
    pub(super) fn end_task(&self) {
        self.current.store(0, Ordering::Relaxed);
    }

    /// Returns the current task, its name, and when it began. The start time is returned only if
    /// the worker ran the same task before and after the time was read.
    pub(super) fn current_task(&self) -> Option<(TaskId, Option<String>, Option<Tick>)> {
        let number = self.current.load(Ordering::Relaxed);
        let since = self.laps.since();
        let is_same = self.current.load(Ordering::Relaxed) == number;
        let id = TaskId::from_number(Some(number).filter(|number| *number != 0)?);
        let named = self.named.lock();
        let name = named.as_ref().filter(|info| info.id() == id).and_then(TaskInfo::name).map(str::to_owned);
        Some((id, name, since.filter(|_| is_same)))
    }

    /// Returns the state of a worker that has no task, and the thread id of the operating system.
    pub(super) fn thread_state(&self) -> (WorkerState, Option<u64>) {
        let start = self.start.lock();
        let state = match start.state {
            StartState::Spawning | StartState::Promised | StartState::Failed => WorkerState::Starting,
            StartState::Running => WorkerState::Idle,
            StartState::Leaving => WorkerState::Leaving,
        };
        (state, start.os_thread_id)
    }

    /// Called when the worker has given its permit back and will exit.
    pub(super) fn leave(&self) {
        self.start.lock().state = StartState::Leaving;
    }

    pub(super) fn is_active(&self) -> bool {
        self.current.load(Ordering::Relaxed) != 0
    }

    /// Sets the first task, before the thread is spawned.
    pub(super) fn set_first(&self, first: Option<Task>, now: Option<Tick>) {
        self.start.lock().first = first.map(|task| (task, now));
    }

    pub(super) fn has_first(&self) -> bool {
        self.start.lock().first.is_some()
    }

    /// Takes the first task, and the time when it was accepted.
    pub(super) fn take_first(&self) -> Option<(Task, Option<Tick>)> {
        self.start.lock().first.take()
    }

    /// Called on the new thread. Returns false if the start has already been declared failed.
    pub(super) fn begin(&self) -> bool {
        let os_thread_id = sys::thread_id();
        let mut start = self.start.lock();
        let in_time = matches!(start.state, StartState::Spawning | StartState::Promised);
        if in_time {
            start.os_thread_id = os_thread_id;
            start.state = StartState::Running;
            start.thread = Some(ThreadContext::current());
        }
        in_time
    }

    /// Called when the body was dropped without running. Returns true if the caller must undo the
    /// reservation. If the factory has not returned yet, the thread that called it does that.
    pub(super) fn body_dropped(&self) -> bool {
        let mut start = self.start.lock();
        let before = start.state;
        if matches!(before, StartState::Spawning | StartState::Promised) {
            start.state = StartState::Failed;
        }
        before == StartState::Promised
    }

    /// Called when the factory has returned. Fails if no thread will run the worker body.
    pub(super) fn factory_returned(&self, returned: io::Result<()>) -> io::Result<()> {
        let mut start = self.start.lock();
        match (start.state, returned) {
            (StartState::Running | StartState::Leaving, _) => Ok(()),
            (StartState::Spawning, Ok(())) => {
                start.state = StartState::Promised;
                Ok(())
            }
            (_, Err(error)) => {
                start.state = StartState::Failed;
                Err(error)
            }
            (_, Ok(())) => Err(body_dropped()),
        }
    }

    fn thread(&self) -> Option<Arc<ThreadContext>> {
        self.start.lock().thread.clone()
    }
}

/// The listed workers. Guarded by one mutex in `PoolInner`.
#[derive(Debug, Default)]
pub(super) struct Workers {
    list: Vec<Arc<Worker>>,
    /// Listed workers that hold a permit and are not confirmed.
    unconfirmed: usize,
    last_number: usize,
    /// The largest pool size so far.
    largest: usize,
    /// The counts of workers that have exited.
    retired: Totals,
    /// The time that exited workers spent in tasks, in nanoseconds.
    retired_busy: u64,
}

impl Workers {
    /// Lists a new worker. The caller has reserved its permit, under the same lock.
    pub(super) fn add(&mut self, name_prefix: &str, first: Option<TaskId>) -> Arc<Worker> {
        self.unconfirmed += 1;
        self.last_number += 1;
        let number = self.last_number;
        let worker = Arc::new(Worker {
            info: WorkerInfo::new(format!("{name_prefix}{number}").into(), number),
            counters: WorkerCounters::default(),
            laps: Laps::default(),
            current: AtomicU64::new(first.map_or(0, TaskId::number)),
            named: Mutex::new(None),
            confirmed: AtomicBool::new(false),
            start: Mutex::new(Start {
                state: StartState::Spawning,
                first: None,
                thread: None,
                os_thread_id: None,
            }),
        });
        self.list.push(Arc::clone(&worker));
        worker
    }

    pub(super) fn remove(&mut self, worker: &Arc<Worker>) {
        self.list.retain(|listed| !Arc::ptr_eq(listed, worker));
        self.retired += worker.counters.totals();
        self.retired_busy += worker.laps.busy(None);
    }

    /// Records that the thread of `worker` exists or is promised, or that its start was undone.
    /// Returns false if that was recorded before: the factory and the thread both confirm.
    pub(super) fn confirm(&mut self, worker: &Worker) -> bool {
        let is_new = !worker.confirmed.swap(true, Ordering::Relaxed);
        if is_new {
            self.unconfirmed -= 1;
        }
        is_new
    }

    /// Updates the largest size from the permits in use, without workers that may never start.
    pub(super) fn note_size(&mut self, permits: usize) {
        self.largest = self.largest.max(permits.saturating_sub(self.unconfirmed));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(super) fn unconfirmed(&self) -> usize {
        self.unconfirmed
    }

    pub(super) fn largest(&self) -> usize {
        self.largest
    }

    pub(super) fn active_count(&self) -> usize {
        self.list.iter().filter(|worker| worker.is_active()).count()
    }

    /// Returns the number of tasks that run inline inside another task.
    pub(super) fn inline_count(&self) -> usize {
        self.list.iter().map(|worker| worker.counters.inline()).sum()
    }

    pub(super) fn totals(&self) -> Totals {
        let mut totals = self.retired;
        for worker in &self.list {
            totals += worker.counters.totals();
        }
        totals
    }

    /// Returns the listed workers, including those that are starting or exiting.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Worker>> {
        self.list.iter()
    }

    /// Returns the time that exited workers spent in tasks, in nanoseconds.
    pub(super) fn retired_busy(&self) -> u64 {
        self.retired_busy
    }

    /// Returns the threads that run now.
    pub(super) fn threads(&self) -> Vec<Arc<ThreadContext>> {
        self.list.iter().filter_map(|worker| worker.thread()).collect()
    }
}
