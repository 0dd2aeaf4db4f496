//! The roster: which workers there are, and how one is added.
//!
//! Adding a worker reserves its place, calls the user's thread factory, and undoes the reservation if there will be no
//! thread. What a worker then does is in `worker.rs`.

use std::io;

use super::control::{RunState, Snapshot};
use super::inner::PoolInner;
use super::queue::TaskQueue;
use super::stats::{Totals, WorkerCounters};
use super::worker;
use crate::interrupt::ThreadContext;
use crate::sync::{Arc, AtomicBool, Mutex, Ordering, fence};
use crate::task::Task;
use crate::threads::{ThreadBody, WorkerBody, WorkerInfo, call_factory};

/// One worker, from the decision to have it until it has left.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) info: WorkerInfo,
    pub(super) counters: WorkerCounters,
    /// Runs a task, hooks included, or has a first task to run. Written by the worker only.
    pub(super) active: AtomicBool,
    /// Its thread is known to come. Touched under the roster's lock.
    confirmed: AtomicBool,
    start: Mutex<Start>,
}

/// How far the start of a worker's thread has come, and the task that waits for it.
#[derive(Debug)]
struct Start {
    phase: Phase,
    first: Option<Task>,
    /// The thread, once it is there: for interrupts.
    thread: Option<Arc<ThreadContext>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The factory is at work.
    Spawning,
    /// The factory has promised that the thread will come.
    Promised,
    /// The thread is there, and the body belongs to it.
    Running,
    /// There will be no thread.
    Failed,
}

impl Worker {
    fn new(info: WorkerInfo, first: Option<Task>) -> Arc<Worker> {
        Arc::new(Worker {
            info,
            counters: WorkerCounters::default(),
            active: AtomicBool::new(first.is_some()),
            confirmed: AtomicBool::new(false),
            start: Mutex::new(Start { phase: Phase::Spawning, first, thread: None }),
        })
    }

    /// The thread is there. False: too late, the spawn has been declared failed.
    fn start(&self) -> bool {
        let mut start = self.start.lock();
        let in_time = matches!(start.phase, Phase::Spawning | Phase::Promised);
        if in_time {
            start.phase = Phase::Running;
            start.thread = Some(ThreadContext::current());
        }
        in_time
    }

    /// The body was dropped. True: nobody else will clear up after it.
    fn dropped_unrun(&self) -> bool {
        let mut start = self.start.lock();
        let was = start.phase;
        if matches!(was, Phase::Spawning | Phase::Promised) {
            start.phase = Phase::Failed;
        }
        was == Phase::Promised
    }

    /// The factory has returned. Fails if there is no thread and none will come.
    fn promised(&self, returned: io::Result<()>) -> io::Result<()> {
        let mut start = self.start.lock();
        match (start.phase, returned) {
            (Phase::Running, _) => Ok(()),
            (Phase::Spawning, Ok(())) => {
                start.phase = Phase::Promised;
                Ok(())
            }
            (_, Err(error)) => {
                start.phase = Phase::Failed;
                Err(error)
            }
            (_, Ok(())) => {
                Err(io::Error::other("the thread factory dropped the worker body without running it"))
            }
        }
    }

    pub(super) fn take_first(&self) -> Option<Task> {
        self.start.lock().first.take()
    }

    pub(super) fn is_active(&self) -> bool {
        self.active.load(Ordering::Relaxed)
    }
}

/// All workers that have not wholly left.
#[derive(Debug, Default)]
pub(super) struct Workers {
    workers: Vec<Arc<Worker>>,
    /// Workers on the roster that are counted and not confirmed.
    unconfirmed: usize,
    last_number: usize,
    pub(super) largest: usize,
    /// What workers counted that have left.
    retired: Totals,
}

impl Workers {
    pub(super) fn remove(&mut self, worker: &Arc<Worker>) {
        self.workers.retain(|listed| !Arc::ptr_eq(listed, worker));
        self.retired += worker.counters.totals();
    }

    /// Some worker is on its way out, though it is not counted any more.
    pub(super) fn has_leavers(&self) -> bool {
        !self.workers.is_empty()
    }

    pub(super) fn active_count(&self) -> usize {
        self.workers.iter().filter(|worker| worker.is_active()).count()
    }

    /// Tasks that run in place.
    pub(super) fn in_place(&self) -> usize {
        self.workers.iter().map(|worker| worker.counters.in_place()).sum()
    }

    pub(super) fn totals(&self) -> Totals {
        let mut totals = self.retired;
        for worker in &self.workers {
            totals += worker.counters.totals();
        }
        totals
    }
}

/// What a worker's thread does.
struct WorkerLife {
    pool: Arc<PoolInner>,
    worker: Arc<Worker>,
}

impl ThreadBody for WorkerLife {
    fn live(self: Box<Self>) {
        if self.worker.start() {
            worker::work(&self.pool, &self.worker);
        }
    }

    fn never_started(self: Box<Self>) {
        if self.worker.dropped_unrun() {
            self.pool.spawn_failed_late(&self.worker);
        }
    }
}

/// Up to which size a worker may be added.
#[derive(Debug, Clone, Copy)]
pub(super) enum Limit {
    Core,
    Maximum,
}

/// A worker was not added. No cause: the limit or the run state forbids it.
#[derive(Debug)]
pub(super) struct NotAdded {
    pub(super) first: Option<Task>,
    pub(super) cause: Option<io::Error>,
}

impl PoolInner {
    fn limit(&self, limit: Limit) -> usize {
        match limit {
            Limit::Core => self.core_size().min(self.maximum()),
            Limit::Maximum => self.maximum(),
        }
    }

    /// A running pool may have a new worker; one in shutdown only to empty its queue.
    pub(super) fn may_have_worker(&self, seen: Snapshot, with_task: bool) -> bool {
        match seen.state() {
            RunState::Running => true,
            RunState::Shutdown => !with_task && !self.queue.is_empty(),
            _ => false,
        }
    }

    /// Adds a worker that begins with `first`. Whatever fails leaves no trace, and `first` comes back.
    pub(super) fn add_worker(self: &Arc<Self>, first: Option<Task>, limit: Limit) -> Result<(), NotAdded> {
        self.add_worker_if(None, first, limit)
    }

    /// As `add_worker`, but only if the control word is still `seen`.
    pub(super) fn add_worker_if(
        self: &Arc<Self>,
        seen: Option<Snapshot>,
        first: Option<Task>,
        limit: Limit,
    ) -> Result<(), NotAdded> {
        let added = self.try_add_worker(seen, first, limit);
        if added.is_err() {
            self.rescue_queue();
        }
        added
    }

    fn try_add_worker(
        self: &Arc<Self>,
        only_if: Option<Snapshot>,
        first: Option<Task>,
        limit: Limit,
    ) -> Result<(), NotAdded> {
        // 1. Reserve.
        let with_task = first.is_some();
        let worker = self.enlist(only_if, first, limit)?;
        // 2. The state may have advanced meanwhile. `shutdown_now` interrupts those on the roster after it
        // advanced the state: either it sees this worker there, or we see the state.
        fence(Ordering::SeqCst);
        let spawned = match self.control.load().state() {
            RunState::Running => Some(self.spawn(&worker)),
            RunState::Shutdown if !with_task => Some(self.spawn(&worker)),
            _ => None,
        };
        // 3. Undo, or done.
        let cause = match spawned {
            Some(Ok(())) => {
                self.confirm(&worker);
                return Ok(());
            }
            Some(Err(error)) => Some(error),
            None => None,
        };
        let first = self.unenlist(&worker);
        if first.is_some() {
            self.counters.no_first_task();
        }
        Err(NotAdded { first, cause })
    }

    /// Counts a worker and puts it on the roster, both under the roster's lock, so that `note_size` can tell how many
    /// of those counted are there in truth.
    fn enlist(
        &self,
        only_if: Option<Snapshot>,
        first: Option<Task>,
        limit: Limit,
    ) -> Result<Arc<Worker>, NotAdded> {
        loop {
            let seen = self.control.load();
            // The queue may be the user's: it is asked before we take a lock.
            if only_if.is_some_and(|expected| expected != seen)
                || !self.may_have_worker(seen, first.is_some())
                || seen.workers() >= self.limit(limit)
            {
                return Err(NotAdded { first, cause: None });
            }
            let mut workers = self.workers.lock();
            if self.control.try_add_worker(seen) {
                return Ok(self.register(&mut workers, first));
            }
        }
    }

    fn register(&self, workers: &mut Workers, first: Option<Task>) -> Arc<Worker> {
        if first.is_some() {
            self.counters.first_task(); // before the worker can be seen, or can run it
        }
        workers.unconfirmed += 1;
        workers.last_number += 1;
        let number = workers.last_number;
        let name = format!("{}{number}", self.name_prefix).into();
        let worker = Worker::new(WorkerInfo { name, number }, first);
        workers.workers.push(Arc::clone(&worker));
        worker
    }

    /// The worker's thread is known to come: when the factory says so, or when it is there before that.
    pub(super) fn confirm(&self, worker: &Worker) {
        let mut workers = self.workers.lock();
        if worker.confirmed.swap(true, Ordering::Relaxed) {
            return;
        }
        workers.unconfirmed -= 1;
        self.note_size(&mut workers);
    }

    /// Remembers the largest size, threads that are still to come left out.
    pub(super) fn note_size(&self, workers: &mut Workers) {
        let size = self.control.load().workers().saturating_sub(workers.unconfirmed);
        workers.largest = workers.largest.max(size);
    }

    /// Undoes `enlist`, except that the first task still counts as accepted.
    fn unenlist(&self, worker: &Arc<Worker>) -> Option<Task> {
        let first = worker.take_first();
        let mut workers = self.workers.lock();
        workers.remove(worker);
        // Once: whoever started it may still be about to confirm it, if its thread was promised and then did not come.
        if !worker.confirmed.swap(true, Ordering::Relaxed) {
            workers.unconfirmed -= 1;
        }
        self.control.remove_worker();
        drop(workers);
        fence(Ordering::SeqCst); // pairs with the one in `admit_when_room`
        self.room.made();
        self.try_terminate();
        first
    }

    /// Tries to have a worker for a queue that has none.
    ///
    /// While a thread is being started its worker is counted, and others leave their tasks in the queue to it. If
    /// the start then fails, we are to them what a last worker is that leaves (C1 was `remove_worker`). We try once
    /// more; if that fails too, the tasks are stranded: they wait until a later submit or prestart has more luck, or who
    /// joins one of them (`is_stranded`). In shutdown there will be none: they are given up, and their handles resolve as abandoned.
    pub(super) fn rescue_queue(self: &Arc<Self>) {
        self.queue.order(); // C2
        if !self.needs_rescue() {
            return;
        }
        let added = self.try_add_worker(None, None, Limit::Maximum);
        let failed = matches!(added, Err(NotAdded { cause: Some(_), .. }));
        // Before the look at the state; `shutdown` advances that before it looks here.
        self.stranded.store(failed, Ordering::SeqCst);
        let now = self.control.load();
        if failed && now.workers() == 0 && now.state() == RunState::Shutdown {
            self.hand_back(self.queue.drain()).into_iter().for_each(Task::drop_caught);
        }
    }

    /// Tasks wait, and there is no worker, though there may be one.
    fn needs_rescue(&self) -> bool {
        let seen = self.control.load();
        seen.workers() == 0 && self.may_have_worker(seen, false) && !self.queue.is_empty()
    }

    /// For somebody who waits for a task: tries again to have a worker, if all who tried before have failed. True: tasks wait, and
    /// no worker is there for them, or only such as may not come.
    pub(super) fn is_stranded(self: &Arc<Self>) -> bool {
        if self.queue.is_empty() {
            return false;
        }
        if self.stranded.load(Ordering::SeqCst) {
            self.rescue_queue();
        }
        let may_have_one = self.may_have_worker(self.control.load(), false);
        let workers = self.workers.lock();
        may_have_one && self.control.load().workers() <= workers.unconfirmed
    }

    /// Calls the thread factory. None of our locks is held, and its panic stays here.
    fn spawn(self: &Arc<Self>, worker: &Arc<Worker>) -> io::Result<()> {
        let factory = Arc::clone(&self.factory.lock());
        let life = WorkerLife { pool: Arc::clone(self), worker: Arc::clone(worker) };
        let returned = call_factory(&*factory, WorkerBody::new(worker.info.clone(), life));
        worker.promised(returned.map(drop))
    }

    /// The factory promised a thread, and later dropped its body: the first task must not be lost.
    fn spawn_failed_late(self: &Arc<Self>, worker: &Arc<Worker>) {
        if let Some(task) = self.unenlist(worker) {
            self.task_gone();
            let admitted = self.admit(task);
            self.counters.no_first_task(); // not before it is counted again
            if let Err(refusal) = admitted {
                refusal.task.drop_caught(); // its handle resolves as abandoned
            }
        }
        self.rescue_queue();
    }

    /// At the beginning of a task's epoch, on its thread. `shutdown_now` advances the state, fences, and interrupts
    /// what it finds running: either it finds this epoch, or we find the state.
    pub(super) fn interrupt_if_stopping(&self) {
        fence(Ordering::SeqCst);
        if self.control.load().state() >= RunState::Stop {
            ThreadContext::with_current(|me| me.restore_interrupt());
        }
    }

    /// The same for a worker that was given a task after its epoch began, without the fence if that can be spared.
    ///
    /// From the plain queue a task is taken with the queue's head locked, by us or by whoever called us, and our epoch
    /// began before. `shutdown_now` takes its turn with that lock between advancing the state and interrupting. If the task was taken before, the interrupt finds our epoch; if after, we find the state.
    pub(super) fn interrupt_if_stopped(&self, me: &ThreadContext) {
        if !matches!(self.queue, TaskQueue::Fifo(_)) {
            fence(Ordering::SeqCst);
        }
        if self.control.load().state() >= RunState::Stop {
            me.restore_interrupt();
        }
    }

    /// Interrupts what runs. A thread that is not there yet finds the run state when it begins its first task.
    pub(super) fn interrupt_workers(&self) {
        let threads: Vec<_> = self
            .workers
            .lock()
            .workers
            .iter()
            .filter_map(|worker| worker.start.lock().thread.clone())
            .collect();
        for thread in threads {
            thread.interrupt_all();
        }
    }
}
