//! The life of a worker: fetch a task, run it, rest, leave.

use std::time::Duration;

use super::core::{InQueue, PoolCore};
use super::ctl::RunState;
use super::feed::Feed;
use super::hooks::Hooks;
use super::idle::{Nap, Rest, Seat};
use super::roster::Worker;
use super::timed::Keep;
use crate::handle::{Help, Outcome, Panic, Payload, Place, RunEvent, current_worker, work_for, works_for};
use crate::inline::run_inline;
use crate::interrupt::{self, Nested, Sleeper};
use crate::queue::BlockingQueue;
use crate::quiet::{drop_quietly, quietly, returned};
use crate::sync::{Arc, Ordering, deadline_after, fence};
use crate::task::{Task, TaskId, TaskInfo};

/// After so long a queue that did not tell how many tasks it has is asked again.
const ASK_AGAIN: Duration = Duration::from_millis(10);

/// What a worker's thread is known by, and a temporary thread that runs a task in its stead.
struct Identity {
    pool: Arc<PoolCore>,
    worker: Arc<Worker>,
}

/// The life of a worker thread.
pub(super) fn work(pool: &Arc<PoolCore>, worker: &Arc<Worker>) {
    let me = Sleeper::current();
    let identity = Identity { pool: Arc::clone(pool), worker: Arc::clone(worker) };
    work_for(pool.home.number(), Some(Arc::new(identity)));
    pool.confirm(worker);
    if let Some(hooks) = &pool.hooks {
        quietly(|| hooks.worker_started(&worker.info));
    }
    let life = Life { pool, worker, me: &me, seat: Seat::for_this_thread() };
    me.next_epoch();
    pool.interrupt_if_stopping();
    let mut task = worker.take_first();
    loop {
        if task.is_none() {
            life.next_task(&mut task);
        }
        if task.is_none() {
            break;
        }
        let unharmed = life.run(&mut task);
        if !unharmed && !life.replaced() {
            break;
        }
    }
    if let Some(hooks) = &pool.hooks {
        quietly(|| hooks.worker_stopped(&worker.info));
    }
    work_for(0, None);
    pool.roster.lock().remove(worker);
    // We may have been called for a task that we leave to others: W5 of `idle.rs`. And we make room for another thread:
    // the fence pairs with the one in `admit_when_room`.
    pool.feed.order();
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
    /// Waits for a task, and puts it there. If there is none: leave; we are not counted any more.
    #[inline]
    fn next_task(&self, into: &mut Option<Task>) {
        let pool = self.pool;
        let seen = pool.ctl.load();
        if seen.is_running() && seen.workers() <= pool.maximum() {
            self.fetch_quickly(into); // the most common case, in short
        }
        if into.is_none() {
            *into = self.wait_for_task();
        }
    }

    #[inline(never)]
    fn wait_for_task(&self) -> Option<Task> {
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
            pool.tell_if_idle();
            let rest = self.rest(timed, stay_for_tasks, generation, &mut keep);
            pool.feed.order(); // W5
            match rest {
                Rest::Handed(task) => {
                    self.pass_on();
                    return Some(task);
                }
                Rest::Called => timed_out = false,
                Rest::TimedOut => timed_out = true,
            }
        }
    }

    /// A task, if one waits in the plain queue; and if there is another, somebody to look at it.
    #[inline]
    fn fetch_quickly(&self, into: &mut Option<Task>) {
        let Feed::Fifo(fifo) = &self.pool.feed else { return };
        fifo.pop_into(into);
        if into.is_some() {
            self.pool.room.made();
            self.pass_on();
        }
    }

    /// A task, if there is one; and if there is another, somebody to look at it.
    fn fetch(&self) -> Option<Task> {
        let pool = self.pool;
        if !matches!(pool.feed, Feed::Fifo(_) | Feed::Priority(..) | Feed::Timed(_)) {
            return None; // those are not polled
        }
        let mut task = pool.poll();
        // What waits in a queue in time, and could not be had, is not due.
        let in_vain = matches!(pool.feed, Feed::Timed(_)) && !pool.feed.is_empty();
        // A model of a whole pool has too many schedules with it; it has a model of its own.
        if task.is_none() && !in_vain && !cfg!(loom) && pool.idle.look_for(|| !pool.feed.is_empty()) {
            pool.feed.order(); // W5
            task = pool.poll();
        }
        if task.is_some() {
            self.pass_on();
        }
        task
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
                fence(Ordering::SeqCst); // W2
                let in_vain = stay_for_tasks && pool.feed.is_empty();
                in_vain || pool.generation() != generation || self.nothing_more_will_come()
            });
        }
        if let Feed::Blocking { queue, .. } = &pool.feed {
            return self.rest_in(&**queue, keep_alive, stay_for_tasks, generation);
        }
        if let Feed::Fifo(fifo) = &pool.feed
            && !cfg!(loom)
        {
            fifo.trim();
        }
        let by_hand = matches!(pool.feed, Feed::HandOver);
        let deadline = keep_alive.and_then(deadline_after);
        let nap = Nap { deadline, timed: deadline.is_some(), ..Nap::default() };
        pool.idle.rest(&self.seat, nap, by_hand, || {
            pool.feed.order(); // W2
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
        let key = pool
            .in_queue
            .lock()
            .push(InQueue { interrupter: interrupt::current_without_callbacks(), for_tasks: stay_for_tasks });
        fence(Ordering::SeqCst);
        let in_vain = self.nothing_more_will_come() || (stay_for_tasks && pool.feed.is_empty());
        // In shutdown nobody calls us if the queue, which did not say so, is empty.
        let is_silent = || !pool.ctl.load().is_running() && pool.feed.len_if_it_tells().is_none();
        let taken = if pool.generation() != generation || in_vain {
            Ok(None)
        } else {
            // A panic of a foreign queue is that queue's affair; we look around and come back.
            returned(|| match keep_alive {
                Some(keep_alive) if !stay_for_tasks => queue.poll_timeout(keep_alive),
                _ if is_silent() => queue.poll_timeout(ASK_AGAIN),
                _ => queue.take().map(Some),
            })
            .unwrap_or(Err(interrupt::Interrupted))
        };
        self.me.next_epoch(); // an interrupt that comes now is late
        drop(pool.in_queue.lock().remove(key));
        match taken {
            Ok(Some(task)) => {
                self.worker.active.store(true, Ordering::Relaxed);
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
        !self.pool.ctl.load().is_running() && self.pool.feed.is_empty()
    }

    /// After we took ourselves off the count (C1): true if we are needed after all, and counted again.
    ///
    /// C2 and C3 pair with `PoolCore::published`, as is told there.
    fn stays(&self) -> bool {
        let pool = self.pool;
        pool.feed.order(); // C2
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
        pool.feed.order(); // before the look at the queue of a pool in shutdown, as C2
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

    /// Runs a task with an interrupt flag of its own: its epoch began when the task before it had ended. False:
    /// something unwound that nobody keeps.
    fn run(&self, task: &mut Option<Task>) -> bool {
        self.worker.active.store(true, Ordering::Relaxed);
        self.pool.interrupt_if_stopped(self.me);
        // All that is the user's is caught where it is called. Should anything get by, the worker must not be lost.
        let unharmed = returned(|| run_task(self.pool, self.worker, task, false)).unwrap_or(false);
        if task.is_some() {
            task.take().into_iter().for_each(Task::drop_quietly); // something got by
        }
        self.worker.active.store(false, Ordering::Relaxed);
        self.me.next_epoch();
        unharmed
    }
}

/// Runs a task between its hooks, and counts it; there is none afterwards. False: something unwound that nobody keeps.
#[inline]
fn run_task(pool: &Arc<PoolCore>, worker: &Worker, task: &mut Option<Task>, nested: bool) -> bool {
    if pool.shed(task) {
        return true;
    }
    let unharmed = match &pool.hooks {
        None => match run_counted(pool, worker, task, None, !nested) {
            None => true,
            Some(payload) => {
                drop_payload(payload);
                false
            }
        },
        Some(hooks) => run_between(&**hooks, pool, worker, task),
    };
    worker.counters.finished();
    unharmed
}

#[inline(never)]
fn run_between(hooks: &dyn Hooks, pool: &Arc<PoolCore>, worker: &Worker, task: &mut Option<Task>) -> bool {
    let Some(info) = task.as_ref().map(|task| task.info().clone()) else { return true };
    if !quietly(|| hooks.before_execute(&info)) {
        settled(pool, worker, Outcome::Panicked);
        task.take().into_iter().for_each(Task::drop_quietly);
        return false;
    }
    let panic = run_counted(pool, worker, task, Some((hooks, &info)), false).map(Panic::new);
    let harmed = !quietly(|| hooks.after_execute(&info, panic.as_ref()));
    let unharmed = panic.is_none() && !harmed;
    drop_panic(panic);
    unharmed
}

/// `comes_back`: the worker looks at the queue as soon as we return.
#[inline(always)]
fn run_counted(
    pool: &Arc<PoolCore>,
    worker: &Worker,
    task: &mut Option<Task>,
    hooks: Option<(&dyn Hooks, &TaskInfo)>,
    comes_back: bool,
) -> Option<Payload> {
    let running = task.as_mut()?;
    pool.cancel_if_too_late(running);
    let ended = running.run_reporting(|event| match event {
        RunEvent::Settled(outcome) => settled(pool, worker, outcome),
        RunEvent::SeriesEnded => pool.counters.series_ended_by_panic(),
        RunEvent::Panicked(panic) => {
            if let Some((hooks, info)) = hooks {
                quietly(|| hooks.panicked(info, panic));
            }
        }
    });
    if ended.again {
        queue_again(pool, task, comes_back);
    } else {
        Task::clear(task); // where it lies: to move it would cost as much as to run it
    }
    ended.panic
}

#[inline(never)]
fn queue_again(pool: &Arc<PoolCore>, series: &mut Option<Task>, comes_back: bool) {
    series.take().into_iter().for_each(|series| pool.run_again(series, comes_back));
}

fn settled(pool: &PoolCore, worker: &Worker, outcome: Outcome) {
    worker.counters.settled(outcome);
    pool.task_gone();
}

#[cold]
fn drop_payload(payload: Payload) {
    drop_panic(Some(Panic::new(payload)));
}

/// A panic's payload is the user's, and so is its destructor.
fn drop_panic(panic: Option<Panic>) {
    drop_quietly(panic);
}

/// Runs the waiting task `id` here, inside what runs now, if this thread is a worker of `pool`.
pub(super) fn run_here(pool: &PoolCore, id: TaskId, place: &Place) -> Help {
    let me = current_worker().and_then(|worker| worker.downcast::<Identity>().ok());
    let Some(me) = me.filter(|me| std::ptr::eq(&*me.pool, pool)) else {
        return Help::Done;
    };
    if let Some(later) = pool.feed.not_yet(id, place) {
        return later;
    }
    if let Some(task) = pool.feed.remove(id, Some(place)) {
        pool.room.made();
        run_inline(|| run_nested(&me, task));
    }
    Help::Done
}

/// Runs a task in a frame of its own, with its own interrupt flag.
///
/// On the worker's thread, or on a temporary one while the worker waits for it: either way nobody
/// else writes the worker's counters.
fn run_nested(me: &Identity, task: Task) {
    let _frame = Nested::enter();
    me.pool.interrupt_if_stopping();
    me.worker.counters.begin_in_place();
    run_task(&me.pool, &me.worker, &mut Some(task), true);
    me.worker.counters.end_in_place();
}

/// Tells whether the calling thread is a worker of `pool`.
pub(super) fn is_worker_of(pool: &PoolCore) -> bool {
    works_for(pool.home.number())
}
