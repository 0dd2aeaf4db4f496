//! The life of a worker: fetch a task, run it, rest, leave.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use super::core::{InQueue, PoolCore};
use super::ctl::RunState;
use super::feed::Feed;
use super::hooks::call_quietly;
use super::idle::{Nap, Rest, Seat};
use super::roster::Worker;
use super::timed::Keep;
use crate::handle::{Help, Outcome, Panic, Payload};
use crate::interrupt::{self, Nested, Sleeper};
use crate::queue::BlockingQueue;
use crate::sync::{Arc, Ordering, deadline_after, fence, mutant, thread_local};
use crate::task::{Task, TaskId};

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
    pool.call_somebody();
    pool.room.made();
    pool.taken_out();
}

/// When the keep-alive time of a worker of a scheduled pool is over. It is woken for other reasons in between.
#[derive(Default)]
struct KeepAlive(Option<(u64, Keep)>);

impl KeepAlive {
    /// Begins anew with every generation.
    fn until(&mut self, generation: u64, begin: impl FnOnce() -> Keep) -> Keep {
        match self.0 {
            Some((seen, until)) if seen == generation => until,
            _ => self.0.insert((generation, begin())).1,
        }
    }
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
        let mut keep = KeepAlive::default();
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
            let stay_for_tasks =
                timed && timed_out && matches!(pool.feed, Feed::Blocking { .. } | Feed::Timed(_));
            match self.rest(timed, stay_for_tasks, generation, &mut keep) {
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
        if !matches!(pool.feed, Feed::Fifo(_) | Feed::Priority(..) | Feed::Timed(_)) {
            return None; // those are not polled
        }
        let look_again = || pool.idle.look_for(|| !pool.feed.is_empty());
        let task = pool.poll().or_else(|| look_again().then(|| pool.poll()).flatten())?;
        self.pass_on();
        Some(task)
    }

    /// We have a task: if there is another, somebody should have it.
    fn pass_on(&self) {
        let pool = self.pool;
        match &pool.feed {
            Feed::Timed(timed) => timed.see_to_it(&pool.idle),
            feed => pool.idle.pass_on(|| !feed.is_empty(), || pool.poll()),
        }
    }

    /// Sleeps until there is something to look at, for at most the keep-alive time if `timed`; as long as there are tasks in
    /// the queue if `stay_for_tasks`.
    fn rest(&self, timed: bool, stay_for_tasks: bool, generation: u64, keep: &mut KeepAlive) -> Rest {
        let pool = self.pool;
        let keep_alive = timed.then(|| pool.settings().keep_alive);
        if let Feed::Timed(queue) = &pool.feed {
            let keep = keep_alive.map(|time| keep.until(generation, || queue.keep_for(time)));
            let keep = keep.filter(|_| !stay_for_tasks);
            return queue.rest(&pool.idle, &self.seat, keep, stay_for_tasks, || {
                let in_vain = stay_for_tasks && pool.feed.is_empty();
                in_vain || pool.generation() != generation || self.nothing_more_will_come()
            });
        }
        if let Feed::Blocking { queue, .. } = &pool.feed {
            return self.rest_in(&**queue, keep_alive, stay_for_tasks, generation);
        }
        if let Feed::Fifo(fifo) = &pool.feed {
            fifo.trim();
        }
        let by_hand = matches!(pool.feed, Feed::HandOver);
        let deadline = keep_alive.and_then(deadline_after);
        let nap = Nap { deadline, timed: deadline.is_some(), ..Nap::default() };
        pool.idle.rest(&self.seat, nap, by_hand, || {
            if by_hand {
                pool.room.made(); // we are a place for a task
            }
            self.has_reason_to_stay_awake(generation) // W3
        })
    }

    /// Blocks in a queue that knows better than we when a task may be had.
    fn rest_in(
        &self,
        queue: &dyn BlockingQueue<Task>,
        keep_alive: Option<Duration>,
        stay_for_tasks: bool,
        generation: u64,
    ) -> Rest {
        let pool = self.pool;
        // Listed before the second look: as in `look_around`. Whoever takes the last task out, by hand or as a worker
        // that then leaves, calls those on the list (`taken_out`): either it finds us there, or we find the queue empty.
        pool.in_queue.lock().push(InQueue {
            sleeper: Arc::clone(self.me),
            interrupter: interrupt::current(),
            for_tasks: stay_for_tasks,
        });
        fence(Ordering::SeqCst);
        let in_vain = self.nothing_more_will_come() || (stay_for_tasks && pool.feed.is_empty());
        let taken = if pool.generation() != generation || in_vain {
            Ok(None)
        } else {
            // A panic of a foreign queue is that queue's affair; we look around and come back.
            catch_unwind(AssertUnwindSafe(|| match keep_alive {
                Some(keep_alive) if !stay_for_tasks => queue.poll_timeout(keep_alive),
                _ => queue.take().map(Some),
            }))
            .unwrap_or(Err(interrupt::Interrupted))
        };
        self.me.next_epoch(); // an interrupt that comes now is late
        pool.in_queue.lock().retain(|listed| !Arc::ptr_eq(&listed.sleeper, self.me));
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
        let ran = catch_unwind(AssertUnwindSafe(|| run_task(self.pool, self.worker, task, false)));
        let unharmed = ran.unwrap_or(false);
        self.worker.active.store(false, Ordering::Relaxed);
        self.me.next_epoch();
        unharmed
    }
}

/// Runs a task between its hooks, and counts it. False: something unwound that nobody keeps.
fn run_task(pool: &Arc<PoolCore>, worker: &Worker, task: Task, nested: bool) -> bool {
    let unharmed = match &pool.hooks {
        None => {
            let panic = run_counted(pool, worker, task, !nested).map(Panic::new);
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
                let panic = run_counted(pool, worker, task, false).map(Panic::new);
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

/// `comes_back`: the worker looks at the queue as soon as we return.
fn run_counted(pool: &Arc<PoolCore>, worker: &Worker, task: Task, comes_back: bool) -> Option<Payload> {
    pool.cancel_if_too_late(&task);
    let ended = task.run_settled(&mut |outcome| settled(pool, worker, outcome));
    if let Some(series) = ended.again {
        pool.run_again(series, comes_back);
    }
    ended.panic
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
    let me = WORKER.try_with(|slot| slot.borrow().clone()).ok().flatten();
    let Some((my_pool, worker)) = me.filter(|(mine, _)| std::ptr::eq(&**mine, pool)) else {
        return Help::Done;
    };
    if let Some(later) = my_pool.feed.not_yet(id, place) {
        return later;
    }
    let Some(task) = my_pool.feed.remove(id, Some(place)) else {
        return Help::Done;
    };
    my_pool.room.made();
    let _frame = Nested::enter();
    my_pool.interrupt_if_stopping();
    run_task(&my_pool, &worker, task, true);
    Help::Done
}

/// Tells whether the calling thread is a worker of `pool`.
pub(super) fn is_worker_of(pool: &PoolCore) -> bool {
    WORKER
        .try_with(|slot| slot.borrow().as_ref().is_some_and(|(mine, _)| std::ptr::eq(&**mine, pool)))
        .unwrap_or(false)
}
