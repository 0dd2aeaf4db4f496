//! Adds workers: reserves a permit, calls the thread factory, and undoes the reservation on
//! failure.
//!
//! A failed start leaves no trace: the first task is returned, and list and control word are
//! restored. While a start is in progress, its worker holds a permit, so other threads may rely on
//! it and leave their tasks in the queue. If the start then fails,
//! [`rescue_queue`](PoolInner::rescue_queue) acts like the last worker in the race "enqueue / last
//! worker exits".

use std::io;

use super::control::Snapshot;
use super::counters::Counter;
use super::inner::PoolInner;
use super::workers::Worker;
use crate::monitor::{Event, RunState};
use crate::sync::{Arc, Ordering, fence};
use crate::task::{Task, TaskId};
use crate::threads::{WorkerBody, call_factory};

/// The pool size up to which a worker may be added.
#[derive(Debug, Clone, Copy)]
pub(super) enum Limit {
    Core,
    Maximum,
    /// Up to the maximum, and only if the control word has not changed since this snapshot.
    Unchanged(Snapshot),
}

/// The error if a worker was not added. Without a cause, the limit or the run state forbids it.
#[derive(Debug)]
pub(super) struct NotAdded {
    pub(super) first: Option<Task>,
    pub(super) cause: Option<io::Error>,
}

/// The body of a worker's thread, which the thread factory receives. `worker` implements it.
pub(super) struct WorkerThread {
    pub(super) pool: Arc<PoolInner>,
    pub(super) worker: Arc<Worker>,
}

impl PoolInner {
    /// Adds a worker that first runs `first`. On failure, the error contains `first`.
    pub(super) fn add_worker(self: &Arc<Self>, first: Option<Task>, limit: Limit) -> Result<(), NotAdded> {
        let added = match self.reserve_worker(limit, first.as_ref().map(Task::id)) {
            Some(worker) => {
                let now = first.as_ref().and_then(|_| self.meter().now());
                worker.set_first(first, now);
                self.start_worker(&worker)
            }
            None => Err(NotAdded { first, cause: None }),
        };
        if added.is_err() {
            self.rescue_queue();
        }
        added
    }

    /// Returns true if the run state permits a new worker: in Running, and in Shutdown only to
    /// drain the queue.
    pub(super) fn may_add_worker(&self, seen: Snapshot, with_task: bool) -> bool {
        match seen.state() {
            RunState::Running => true,
            RunState::Shutdown => !with_task && !self.queue().is_empty(),
            _ => false,
        }
    }

    fn is_below(&self, limit: Limit, seen: Snapshot) -> bool {
        match limit {
            Limit::Core => seen.workers() < self.settings().core().min(self.settings().maximum()),
            Limit::Maximum => seen.workers() < self.settings().maximum(),
            Limit::Unchanged(expected) => seen == expected && seen.workers() < self.settings().maximum(),
        }
    }

    /// Takes a permit and lists the worker. Both happen under the lock of the list, so that
    /// `note_size` knows which permits belong to confirmed workers.
    fn reserve_worker(&self, limit: Limit, first: Option<TaskId>) -> Option<Arc<Worker>> {
        loop {
            let seen = self.control().load();
            // Reads the length of a custom queue, so the lock is taken later.
            if !self.may_add_worker(seen, first.is_some()) || !self.is_below(limit, seen) {
                return None;
            }
            let mut workers = self.workers();
            if self.control().try_add_worker(seen) {
                if first.is_some() {
                    self.counters().add(Counter::FirstTask); // before a reader can see the worker, see `stats`
                }
                return Some(workers.add(self.name_prefix(), first));
            }
        }
    }

    /// Spawns the thread of a reserved worker, or undoes the reservation.
    fn start_worker(self: &Arc<Self>, worker: &Arc<Worker>) -> Result<(), NotAdded> {
        // Race "spawn / stop": `shutdown_now` advances the state and then interrupts the listed
        // workers. Either it finds this worker in the list, or this thread sees the state.
        fence(Ordering::SeqCst);
        let may_spawn = match self.control().load().state() {
            RunState::Running => true,
            RunState::Shutdown => !worker.has_first(),
            _ => false,
        };
        let cause = match may_spawn.then(|| self.spawn(worker)) {
            Some(Ok(())) => {
                self.confirm_worker(worker);
                return Ok(());
            }
            Some(Err(error)) => {
                self.thread_start_failed(&error);
                Some(error)
            }
            None => None,
        };
        let first = self.undo_reservation(worker);
        if first.is_some() {
            self.counters().undo(Counter::FirstTask);
            self.notify_if_idle(); // the reserved worker counted as active
        }
        Err(NotAdded { first, cause })
    }

    pub(super) fn thread_start_failed(&self, error: &io::Error) {
        self.counters().add(Counter::ThreadStartFailed);
        self.me().tell(&Event::WorkerFailed { error });
    }

    /// Calls the thread factory, which is user code, without holding a lock.
    fn spawn(self: &Arc<Self>, worker: &Arc<Worker>) -> io::Result<()> {
        let factory = self.factory();
        let body = WorkerThread { pool: Arc::clone(self), worker: Arc::clone(worker) };
        let returned = call_factory(&*factory, WorkerBody::new(worker.info().clone(), body));
        worker.factory_returned(returned.map(drop))
    }

    /// Called when the thread of `worker` runs, or when the factory has returned it.
    pub(super) fn confirm_worker(&self, worker: &Worker) {
        let mut workers = self.workers();
        if workers.confirm(worker) {
            workers.note_size(self.control().load().workers());
        }
    }

    /// Undoes `reserve_worker`, except that a first task still counts as accepted.
    pub(super) fn undo_reservation(&self, worker: &Arc<Worker>) -> Option<Task> {
        let first = worker.take_first().map(|(task, _)| task);
        let mut workers = self.workers();
        workers.remove(worker);
        // The thread that called the factory may still be about to confirm a promised worker.
        workers.confirm(worker);
        self.control().remove_worker();
        drop(workers);
        fence(Ordering::SeqCst); // race "wait for room / make room": pairs with `admit_task`
        self.submitters().notify_first();
        self.try_terminate();
        first
    }

    /// Starts a worker for queued tasks if the pool has no worker.
    ///
    /// If that fails too, the tasks are stranded: they wait until a later submit, prestart or join
    /// starts a worker (`retry_stranded`). In Shutdown they are dropped and their handles resolve
    /// as abandoned.
    pub(super) fn rescue_queue(self: &Arc<Self>) {
        self.queue().order(); // race "enqueue / last worker exits"
        let seen = self.control().load();
        if seen.workers() > 0 || !self.may_add_worker(seen, false) || self.queue().is_empty() {
            return;
        }
        let started = match self.reserve_worker(Limit::Maximum, None) {
            Some(worker) => self.start_worker(&worker),
            None => Ok(()),
        };
        if !matches!(started, Err(NotAdded { cause: Some(_), .. })) {
            return;
        }
        // Set before the read of the state. `shutdown` advances the state and then reads this flag.
        self.note_stranded();
        let now = self.control().load();
        if now.workers() == 0 && now.state() == RunState::Shutdown {
            self.hand_back(self.queue().drain()).into_iter().for_each(Task::drop_caught);
        }
    }

    /// Called for a thread that waits for a queued task. Tries again to start a worker if the tasks
    /// may be stranded. Returns false if tasks are queued and the pool has no confirmed
    /// worker.
    pub(super) fn retry_stranded(self: &Arc<Self>) -> bool {
        if self.queue().is_empty() {
            return true;
        }
        if self.has_stranded() && self.control().load().workers() == 0 {
            self.rescue_queue();
        }
        let may_add = self.may_add_worker(self.control().load(), false);
        let workers = self.workers();
        !may_add || self.control().load().workers() > workers.unconfirmed()
    }
}
