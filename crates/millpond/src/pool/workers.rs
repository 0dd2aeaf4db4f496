//! The list of workers, and the start of one worker's thread.
//!
//! A worker is listed from the reservation of its permit in the control word until its thread has
//! wholly exited. `spawn` adds workers, `worker` is what their threads do.

use std::io;

use super::counters::{Totals, WorkerCounters};
use crate::interrupt::ThreadContext;
use crate::sync::{Arc, AtomicBool, Mutex, Ordering};
use crate::task::Task;
use crate::threads::WorkerInfo;

/// One worker.
#[derive(Debug)]
pub(super) struct Worker {
    info: WorkerInfo,
    counters: WorkerCounters,
    /// True while the worker runs a task, hooks included, or has a first task. Written by the
    /// worker only, once its thread runs.
    active: AtomicBool,
    /// True once the thread is known to exist or to come. Guarded by the lock of the list.
    confirmed: AtomicBool,
    start: Mutex<Start>,
}

/// How far the start of a worker's thread has come.
#[derive(Debug)]
struct Start {
    state: StartState,
    /// The task that the thread runs first.
    first: Option<Task>,
    /// The thread, once it runs: the target of interrupts.
    thread: Option<Arc<ThreadContext>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StartState {
    /// The thread factory has been called and has not returned.
    Spawning,
    /// The factory has returned a thread, which has not begun.
    Promised,
    /// The thread runs the worker body.
    Running,
    /// No thread will come.
    Failed,
}

impl Worker {
    pub(super) fn info(&self) -> &WorkerInfo {
        &self.info
    }

    pub(super) fn counters(&self) -> &WorkerCounters {
        &self.counters
    }

    pub(super) fn set_active(&self, active: bool) {
        self.active.store(active, Ordering::Relaxed); // ordered by the counters, see `stats`
    }

    /// Sets the first task, before the thread is spawned.
    pub(super) fn set_first(&self, first: Option<Task>) {
        self.start.lock().first = first;
    }

    pub(super) fn has_first(&self) -> bool {
        self.start.lock().first.is_some()
    }

    pub(super) fn take_first(&self) -> Option<Task> {
        self.start.lock().first.take()
    }

    /// Called on the new thread. Returns false if the start has already been declared failed.
    pub(super) fn begin(&self) -> bool {
        let mut start = self.start.lock();
        let in_time = matches!(start.state, StartState::Spawning | StartState::Promised);
        if in_time {
            start.state = StartState::Running;
            start.thread = Some(ThreadContext::current());
        }
        in_time
    }

    /// The body was dropped without running. Returns true if the caller must undo the reservation:
    /// before the factory has returned, its caller does that.
    pub(super) fn body_dropped(&self) -> bool {
        let mut start = self.start.lock();
        let before = start.state;
        if matches!(before, StartState::Spawning | StartState::Promised) {
            start.state = StartState::Failed;
        }
        before == StartState::Promised
    }

    /// The factory has returned. Fails if there is no thread and none will come.
    pub(super) fn factory_returned(&self, returned: io::Result<()>) -> io::Result<()> {
        let mut start = self.start.lock();
        match (start.state, returned) {
            (StartState::Running, _) => Ok(()),
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

/// The cause of a start that failed because the body of the thread was dropped.
pub(super) fn body_dropped() -> io::Error {
    io::Error::other("the thread factory dropped the worker body without running it")
}

/// The workers that have not wholly exited. Guarded by one mutex in `PoolInner`.
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
}

impl Workers {
    /// Lists a new worker. The caller has reserved its permit, under the same lock.
    pub(super) fn add(&mut self, name_prefix: &str, has_first: bool) -> Arc<Worker> {
        self.unconfirmed += 1;
        self.last_number += 1;
        let number = self.last_number;
        let worker = Arc::new(Worker {
            info: WorkerInfo::new(format!("{name_prefix}{number}").into(), number),
            counters: WorkerCounters::default(),
            active: AtomicBool::new(has_first),
            confirmed: AtomicBool::new(false),
            start: Mutex::new(Start { state: StartState::Spawning, first: None, thread: None }),
        });
        self.list.push(Arc::clone(&worker));
        worker
    }

    pub(super) fn remove(&mut self, worker: &Arc<Worker>) {
        self.list.retain(|listed| !Arc::ptr_eq(listed, worker));
        self.retired += worker.counters.totals();
    }

    /// Notes that the thread of `worker` will come, or that its start was undone. Returns false if
    /// that was known: the factory and the thread both confirm.
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
        self.list.iter().filter(|worker| worker.active.load(Ordering::Relaxed)).count()
    }

    /// Tasks that run inline inside another task.
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

    /// The threads that run now.
    pub(super) fn threads(&self) -> Vec<Arc<ThreadContext>> {
        self.list.iter().filter_map(|worker| worker.thread()).collect()
    }
}
