//! Workers: add one, fetch a task, run it, leave.

use std::cell::RefCell;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::core::PoolCore;
use super::ctl::{RunState, Snapshot};
use super::feed::Feed;
use super::hooks::{WorkerBody, WorkerInfo, call_quietly};
use super::idle::{Rest, Seat};
use super::stats::{Totals, WorkerCounters};
use crate::handle::{Help, Outcome, Panic};
use crate::interrupt::{self, Nested, Sleeper};
use crate::sync::{
    Arc, AtomicBool, Mutex, Ordering, deadline_after, fence, mutant, spin_until, thread_local,
};
use crate::task::{Task, TaskId};

/// One worker, from the decision to have it until it has left.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) info: WorkerInfo,
    pub(super) counters: WorkerCounters,
    /// Runs a task, hooks included. Written by the worker only.
    active: AtomicBool,
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
    thread: Option<Arc<Sleeper>>,
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
            active: AtomicBool::new(false),
            confirmed: AtomicBool::new(false),
            start: Mutex::new(Start { phase: Phase::Spawning, first, thread: None }),
        })
    }

    /// The thread is there. False: too late, the spawn has been declared failed.
    pub(super) fn start(&self) -> bool {
        let mut start = self.start.lock();
        let in_time = matches!(start.phase, Phase::Spawning | Phase::Promised);
        if in_time {
            start.phase = Phase::Running;
            start.thread = Some(Sleeper::current());
        }
        in_time
    }

    /// The body was dropped. True: nobody else will clear up after it.
    pub(super) fn dropped_unrun(&self) -> bool {
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

    fn take_first(&self) -> Option<Task> {
        self.start.lock().first.take()
    }

    pub(super) fn is_active(&self) -> bool {
        self.active.load(Ordering::Relaxed)
    }
}

/// All workers that have not wholly left.
#[derive(Debug, Default)]
pub(super) struct Roster {
    workers: Vec<Arc<Worker>>,
    /// Workers on the roster that are counted and not confirmed.
    unconfirmed: usize,
    last_number: usize,
    pub(super) largest: usize,
    /// What workers counted that have left.
    retired: Totals,
}

impl Roster {
    fn remove(&mut self, worker: &Arc<Worker>) {
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

    pub(super) fn totals(&self) -> Totals {
        let mut totals = self.retired;
        for worker in &self.workers {
            totals += worker.counters.totals();
        }
        totals
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

impl PoolCore {
    fn limit(&self, limit: Limit) -> usize {
        match limit {
            Limit::Core => self.core_size().min(self.maximum()),
            Limit::Maximum => self.maximum(),
        }
    }

    /// A running pool may have a new worker; one in shutdown only to empty its queue.
    fn may_have_worker(&self, seen: Snapshot, with_task: bool) -> bool {
        match seen.state() {
            RunState::Running => true,
            RunState::Shutdown => !with_task && !self.feed.is_empty(),
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
        if with_task {
            self.counters.first_task();
        }
        // 2. The state may have advanced meanwhile. `shutdown_now` interrupts those on the roster after it
        // advanced the state: either it sees this worker there, or we see the state.
        fence(Ordering::SeqCst);
        let spawned = match self.ctl.load().state() {
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
        Err(NotAdded { first: self.unenlist(&worker, with_task), cause })
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
            let seen = self.ctl.load();
            // The queue may be the user's: it is asked before we take a lock.
            if only_if.is_some_and(|expected| expected != seen)
                || !self.may_have_worker(seen, first.is_some())
                || seen.workers() >= self.limit(limit)
            {
                return Err(NotAdded { first, cause: None });
            }
            let mut roster = self.roster.lock();
            if self.ctl.try_add_worker(seen) {
                return Ok(self.register(&mut roster, first));
            }
        }
    }

    fn register(&self, roster: &mut Roster, first: Option<Task>) -> Arc<Worker> {
        roster.unconfirmed += 1;
        roster.last_number += 1;
        let number = roster.last_number;
        let name = format!("{}{number}", self.name_prefix).into();
        let worker = Worker::new(WorkerInfo { name, number }, first);
        roster.workers.push(Arc::clone(&worker));
        worker
    }

    /// The worker's thread is known to come: when the factory says so, or when it is there before that.
    fn confirm(&self, worker: &Worker) {
        let mut roster = self.roster.lock();
        if worker.confirmed.swap(true, Ordering::Relaxed) {
            return;
        }
        roster.unconfirmed -= 1;
        self.note_size(&mut roster);
    }

    /// Remembers the largest size, threads that are still to come left out.
    fn note_size(&self, roster: &mut Roster) {
        let size = self.ctl.load().workers().saturating_sub(roster.unconfirmed);
        roster.largest = roster.largest.max(size);
    }

    /// Undoes `enlist`.
    fn unenlist(&self, worker: &Arc<Worker>, with_task: bool) -> Option<Task> {
        let first = worker.take_first();
        if with_task {
            self.counters.no_first_task();
        }
        let mut roster = self.roster.lock();
        roster.remove(worker);
        if !worker.confirmed.load(Ordering::Relaxed) {
            roster.unconfirmed -= 1;
        }
        self.ctl.remove_worker();
        drop(roster);
        fence(Ordering::SeqCst); // pairs with the one in `admit_when_room`
        self.room.made();
        self.try_terminate();
        first
    }

    /// Tries to have a worker for a queue that has none.
    ///
    /// While a thread is being started its worker is counted, and others leave their tasks in the queue to it. If
    /// the start then fails, we are to them what a last worker is that leaves (C1 was `remove_worker`). We try once
    /// more; if that fails too, the tasks wait until a later submit or prestart has more luck. In shutdown there will be
    /// none: they are given up, and their handles resolve as abandoned.
    pub(super) fn rescue_queue(self: &Arc<Self>) {
        fence(Ordering::SeqCst); // C2
        let seen = self.ctl.load();
        if seen.workers() > 0 || !self.may_have_worker(seen, false) || self.feed.is_empty() {
            return;
        }
        let added = self.try_add_worker(None, None, Limit::Maximum);
        let failed = matches!(added, Err(NotAdded { cause: Some(_), .. }));
        let now = self.ctl.load();
        if failed && now.workers() == 0 && now.state() == RunState::Shutdown {
            self.hand_back(self.feed.drain()).into_iter().for_each(Task::drop_quietly);
        }
    }

    /// Calls the thread factory. None of our locks is held, and its panic stays here.
    fn spawn(self: &Arc<Self>, worker: &Arc<Worker>) -> io::Result<()> {
        let factory = Arc::clone(&self.factory.lock());
        let body = WorkerBody { pool: Arc::clone(self), worker: Arc::clone(worker) };
        let returned = catch_unwind(AssertUnwindSafe(|| factory(body)))
            .unwrap_or_else(|_| Err(io::Error::other("the thread factory panicked")));
        worker.promised(returned.map(drop))
    }

    /// The factory promised a thread, and later dropped its body: the first task must not be lost.
    pub(super) fn spawn_failed_late(self: &Arc<Self>, worker: &Arc<Worker>) {
        let with_task = worker.start.lock().first.is_some();
        let first = self.unenlist(worker, with_task);
        if let Some(task) = first {
            self.task_gone();
            if let Err(refusal) = self.admit(task) {
                refusal.task.drop_quietly(); // its handle resolves as abandoned
            }
        }
        self.rescue_queue();
    }

    /// At the beginning of a task's epoch, on its thread. `shutdown_now` advances the state, then interrupts
    /// what it finds running: either it finds this epoch, or we find the state.
    fn interrupt_if_stopping(&self) {
        fence(Ordering::SeqCst);
        if self.ctl.load().state() >= RunState::Stop {
            Sleeper::with_current(Sleeper::restore_interrupt);
        }
    }

    /// Interrupts what runs. A thread that is not there yet finds the run state when it begins its first task.
    pub(super) fn interrupt_workers(&self) {
        let threads: Vec<_> = self
            .roster
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

thread_local! {
    /// The worker that this thread is, and its pool.
    static WORKER: RefCell<Option<(Arc<PoolCore>, Arc<Worker>)>> = no_worker();
}

fn no_worker() -> RefCell<Option<(Arc<PoolCore>, Arc<Worker>)>> {
    RefCell::new(None)
}

/// The life of a worker thread.
pub(super) fn work(pool: &Arc<PoolCore>, worker: &Arc<Worker>) {
    let me = Sleeper::current();
    WORKER.with(|slot| *slot.borrow_mut() = Some((Arc::clone(pool), Arc::clone(worker))));
    pool.confirm(worker);
    if let Some(hooks) = &pool.hooks {
        call_quietly(|| hooks.worker_started(&worker.info));
    }
    let life = Life { pool, worker, me: &me, seat: Seat::for_this_thread() };
    let mut task = worker.take_first();
    while let Some(next) = task.or_else(|| life.next_task()) {
        let unharmed = life.run(next);
        if !unharmed && !life.replaced() {
            break;
        }
        task = None;
    }
    if let Some(hooks) = &pool.hooks {
        call_quietly(|| hooks.worker_stopped(&worker.info));
    }
    WORKER.with(|slot| *slot.borrow_mut() = None);
    pool.roster.lock().remove(worker);
    // We may have been called for a task that we leave to others, and we make room for another thread. The fence
    // is S2 of `idle.rs`, and pairs with the one in `admit_when_room`.
    fence(Ordering::SeqCst);
    if !pool.feed.is_empty() {
        pool.idle.call_one(|| pool.poll());
    }
    pool.room.made();
    pool.try_terminate();
}

/// What a worker thread has at hand.
struct Life<'a> {
    pool: &'a Arc<PoolCore>,
    worker: &'a Arc<Worker>,
    me: &'a Arc<Sleeper>,
    seat: Arc<Seat>,
}

impl Life<'_> {
    /// Waits for a task. `None`: leave; we are not counted any more.
    fn next_task(&self) -> Option<Task> {
        let pool = self.pool;
        let mut timed_out = false;
        loop {
            let generation = pool.generation();
            let seen = pool.ctl.load();
            if seen.state() >= RunState::Stop || (seen.state() == RunState::Shutdown && pool.feed.is_empty())
            {
                if pool.ctl.try_remove_worker(seen) && !self.stays() {
                    return None;
                }
                continue;
            }
            let timed = pool.core_times_out() || seen.workers() > pool.core_size();
            if (seen.workers() > pool.maximum() || (timed && timed_out))
                && (seen.workers() > 1 || pool.feed.is_empty())
            {
                if pool.ctl.try_remove_worker(seen) && !self.stays() {
                    return None;
                }
                continue;
            }
            if let Some(task) = self.fetch() {
                return Some(task);
            }
            // Timed out, and not to leave, because there are tasks that nobody can have yet: wait for those.
            let wait_on = timed_out && matches!(pool.feed, Feed::Blocking { .. });
            match self.rest(timed && !wait_on, generation) {
                Rest::Handed(task) => {
                    self.pass_on();
                    return Some(task);
                }
                Rest::Called => timed_out = false,
                Rest::TimedOut => timed_out = true,
            }
        }
    }

    /// A task, if there is one; and if there is another, somebody to look at it.
    fn fetch(&self) -> Option<Task> {
        let pool = self.pool;
        let look = || !pool.feed.is_empty();
        let expect_more = matches!(pool.feed, Feed::Fifo(_) | Feed::Priority(..));
        if !expect_more || !spin_until(look) {
            return None;
        }
        let task = pool.poll()?;
        self.pass_on();
        Some(task)
    }

    /// We have a task: if there is another, somebody should have it.
    fn pass_on(&self) {
        let pool = self.pool;
        pool.idle.pass_on(!pool.feed.is_empty(), || pool.poll());
    }

    /// Sleeps until there is something to look at, for at most the keep-alive time if `timed`.
    fn rest(&self, timed: bool, generation: u64) -> Rest {
        let pool = self.pool;
        let keep_alive = pool.settings().keep_alive;
        let deadline = if timed { deadline_after(keep_alive) } else { None };
        if let Feed::Blocking { queue, .. } = &pool.feed {
            return self.rest_in(&**queue, timed.then_some(keep_alive), generation);
        }
        let by_hand = matches!(pool.feed, Feed::HandOver);
        pool.idle.rest(&self.seat, deadline, by_hand, || {
            if by_hand {
                pool.room.made(); // we are a place for a task
            }
            self.has_reason_to_stay_awake(generation) // W3
        })
    }

    /// Blocks in a queue that knows better than we when a task may be had.
    fn rest_in(
        &self,
        queue: &dyn crate::queue::BlockingQueue<Task>,
        keep_alive: Option<std::time::Duration>,
        generation: u64,
    ) -> Rest {
        let pool = self.pool;
        // Listed before the second look at the generation: as in `look_around`.
        pool.in_queue.lock().push((Arc::clone(self.me), interrupt::current()));
        let taken = if pool.generation() != generation || self.nothing_more_will_come() {
            Ok(None)
        } else {
            // A panic of a foreign queue is that queue's affair; we look around and come back.
            catch_unwind(AssertUnwindSafe(|| match keep_alive {
                Some(keep_alive) => queue.poll_timeout(keep_alive),
                None => queue.take().map(Some),
            }))
            .unwrap_or(Err(interrupt::Interrupted))
        };
        self.me.next_epoch(); // an interrupt that comes now is late
        pool.in_queue.lock().retain(|(listed, _)| !Arc::ptr_eq(listed, self.me));
        match taken {
            Ok(Some(task)) => {
                pool.room.made();
                Rest::Handed(task)
            }
            Ok(None) if pool.generation() == generation => Rest::TimedOut,
            _ => Rest::Called,
        }
    }

    fn has_reason_to_stay_awake(&self, generation: u64) -> bool {
        !self.pool.feed.is_empty() || self.pool.generation() != generation || self.nothing_more_will_come()
    }

    /// In shutdown a worker must not wait for a task when there is none, for nobody will call it: the others leave, and
    /// the last task may have been taken after we looked at the queue and before we listed ourselves.
    fn nothing_more_will_come(&self) -> bool {
        !mutant("sleep_through_shutdown") && !self.pool.ctl.load().is_running() && self.pool.feed.is_empty()
    }

    /// After we took ourselves off the count (C1): true if we are needed after all, and counted again.
    ///
    /// C2 and C3 pair with `PoolCore::published`, as is told there.
    fn stays(&self) -> bool {
        let pool = self.pool;
        if mutant("leave_without_looking") {
            return false;
        }
        fence(Ordering::SeqCst); // C2
        loop {
            let seen = pool.ctl.load();
            let waiting = !pool.feed.is_empty(); // C3
            let core = if pool.core_times_out() { 0 } else { pool.core_size() };
            let wanted = match seen.state() {
                RunState::Running => core.max(usize::from(waiting)),
                RunState::Shutdown if waiting => core.max(1),
                _ => 0,
            };
            if seen.workers() >= wanted.min(pool.maximum()) {
                return false;
            }
            if pool.ctl.try_add_worker(seen) {
                pool.note_size(&mut pool.roster.lock());
                return true;
            }
        }
    }

    /// A task or hook has unwound through this worker: true if it goes on, as the one who replaces it.
    fn replaced(&self) -> bool {
        let pool = self.pool;
        fence(Ordering::SeqCst); // before the look at the queue of a pool in shutdown, as C2
        loop {
            let seen = pool.ctl.load();
            if pool.may_have_worker(seen, false) && seen.workers() <= pool.maximum() {
                return true;
            }
            if pool.ctl.try_remove_worker(seen) {
                return false;
            }
        }
    }

    /// Runs a task with an interrupt flag of its own. False: something unwound that nobody keeps.
    fn run(&self, task: Task) -> bool {
        self.me.next_epoch();
        self.worker.active.store(true, Ordering::Relaxed);
        self.pool.interrupt_if_stopping();
        // All that is the user's is caught where it is called. Should anything get by, the worker must not be lost.
        let ran = catch_unwind(AssertUnwindSafe(|| run_task(self.pool, self.worker, task)));
        let unharmed = ran.unwrap_or(false);
        self.worker.active.store(false, Ordering::Relaxed);
        self.me.next_epoch();
        unharmed
    }
}

/// Runs a task between its hooks, and counts it. False: something unwound that nobody keeps.
fn run_task(pool: &PoolCore, worker: &Worker, task: Task) -> bool {
    let unharmed = match &pool.hooks {
        None => {
            let panic = run_counted(pool, worker, task).map(Panic::new);
            let unharmed = panic.is_none();
            drop_panic(panic);
            unharmed
        }
        Some(hooks) => {
            let info = task.info().clone();
            if call_quietly(|| hooks.before_execute(&info)) {
                settled(pool, worker, Outcome::Panicked);
                task.drop_quietly();
                false
            } else {
                let panic = run_counted(pool, worker, task).map(Panic::new);
                let harmed = call_quietly(|| hooks.after_execute(&info, panic.as_ref()));
                let unharmed = panic.is_none() && !harmed;
                drop_panic(panic);
                unharmed
            }
        }
    };
    worker.counters.finished();
    unharmed
}

fn run_counted(pool: &PoolCore, worker: &Worker, task: Task) -> Option<Box<dyn std::any::Any + Send>> {
    task.run_settled(&mut |outcome| settled(pool, worker, outcome))
}

fn settled(pool: &PoolCore, worker: &Worker, outcome: Outcome) {
    worker.counters.settled(outcome);
    pool.task_gone();
}

/// A panic's payload is the user's, and so is its destructor.
fn drop_panic(panic: Option<Panic>) {
    call_quietly(|| drop(panic));
}

/// Runs the waiting task `id` here, inside what runs now, if this thread is a worker of `pool`.
pub(super) fn run_here(pool: &PoolCore, id: TaskId, place: u64) -> Help {
    let me = WORKER.with(|slot| slot.borrow().clone());
    let Some((my_pool, worker)) = me.filter(|(mine, _)| std::ptr::eq(&**mine, pool)) else {
        return Help::Done;
    };
    if let Some(due) = my_pool.feed.due(id) {
        return Help::NotBefore(due);
    }
    let Some(task) = my_pool.feed.remove(id, Some(place)) else {
        return Help::Done;
    };
    my_pool.room.made();
    let _frame = Nested::enter();
    my_pool.interrupt_if_stopping();
    run_task(&my_pool, &worker, task);
    Help::Done
}

/// Tells whether the calling thread is a worker of `pool`.
pub(super) fn is_worker_of(pool: &PoolCore) -> bool {
    WORKER
        .try_with(|slot| slot.borrow().as_ref().is_some_and(|(mine, _)| std::ptr::eq(&**mine, pool)))
        .unwrap_or(false)
}
