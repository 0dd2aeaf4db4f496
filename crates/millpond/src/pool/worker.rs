//! The life of a worker: fetch a task, run it, rest, leave.

use std::time::Duration;

use super::control::RunState;
use super::hooks::Hooks;
use super::idle::{ParkOptions, ParkSlot, WakeReason};
use super::inner::{InQueue, PoolInner};
use super::queue::TaskQueue;
use super::queue::delayed::Keep;
use super::workers::Worker;
use crate::interrupt::{self, TaskFrame, ThreadContext};
use crate::panic::{catch, catch_value, drop_caught};
use crate::queue::BlockingQueue;
use crate::sync::{Arc, Ordering, deadline_after, fence};
use crate::task::inline;
use crate::task::{Help, Outcome, Panic, Payload, Place, RunEvent, current_worker, work_for, works_for};
use crate::task::{Task, TaskId, TaskInfo};

/// After so long a queue that did not tell how many tasks it has is asked again.
const ASK_AGAIN: Duration = Duration::from_millis(10);

/// What a worker's thread is known by, and a temporary thread that runs a task in its stead.
struct Identity {
    pool: Arc<PoolInner>,
    worker: Arc<Worker>,
}

/// The life of a worker thread.
pub(super) fn work(pool: &Arc<PoolInner>, worker: &Arc<Worker>) {
    let me = ThreadContext::current();
    let identity = Identity { pool: Arc::clone(pool), worker: Arc::clone(worker) };
    work_for(pool.home.number(), Some(Arc::new(identity)));
    pool.confirm(worker);
    if let Some(hooks) = &pool.hooks {
        catch(|| hooks.worker_started(&worker.info));
    }
    let life = Life { pool, worker, me: &me, slot: ParkSlot::for_this_thread() };
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
        let ok = life.run(&mut task);
        if !ok && !life.replaced() {
            break;
        }
    }
    if let Some(hooks) = &pool.hooks {
        catch(|| hooks.worker_stopped(&worker.info));
    }
    work_for(0, None);
    pool.workers.lock().remove(worker);
    // We may have been called for a task that we leave to others: W5 of `idle.rs`. And we make room for another thread:
    // the fence pairs with the one in `admit_when_room`.
    pool.queue.order();
    fence(Ordering::SeqCst);
    pool.wake_one();
    pool.room.made();
    pool.after_removal();
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
    pool: &'a Arc<PoolInner>,
    worker: &'a Arc<Worker>,
    me: &'a Arc<ThreadContext>,
    slot: Arc<ParkSlot>,
}

impl Life<'_> {
    /// Waits for a task, and puts it there. If there is none: leave; we are not counted any more.
    #[inline]
    fn next_task(&self, into: &mut Option<Task>) {
        let pool = self.pool;
        let seen = pool.control.load();
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
            let seen = pool.control.load();
            if seen.state() >= RunState::Stop || (seen.state() == RunState::Shutdown && pool.queue.is_empty())
            {
                if pool.control.try_remove_worker(seen) && !self.stays() {
                    return None;
                }
                continue;
            }
            let delayed = pool.core_times_out() || seen.workers() > pool.core_size();
            if (seen.workers() > pool.maximum() || (delayed && timed_out))
                && (seen.workers() > 1 || pool.queue.is_empty())
            {
                if pool.control.try_remove_worker(seen) && !self.stays() {
                    return None;
                }
                continue;
            }
            if let Some(task) = self.fetch() {
                return Some(task);
            }
            // DelayedQueue out, and not to leave, because there are tasks that nobody can have yet: wait for those.
            let stay_for_tasks = delayed
                && timed_out
                && matches!(pool.queue, TaskQueue::Blocking { .. } | TaskQueue::Delayed(_));
            pool.tell_if_idle();
            let rest = self.rest(delayed, stay_for_tasks, generation, &mut keep);
            pool.queue.order(); // W5
            match rest {
                WakeReason::Assigned(task) => {
                    self.wake_another();
                    return Some(task);
                }
                WakeReason::Called => timed_out = false,
                WakeReason::TimedOut => timed_out = true,
            }
        }
    }

    /// A task, if one waits in the plain queue; and if there is another, somebody to look at it.
    #[inline]
    fn fetch_quickly(&self, into: &mut Option<Task>) {
        let TaskQueue::Fifo(fifo) = &self.pool.queue else { return };
        fifo.pop_into(into);
        if into.is_some() {
            self.pool.room.made();
            self.wake_another();
        }
    }

    /// A task, if there is one; and if there is another, somebody to look at it.
    fn fetch(&self) -> Option<Task> {
        let pool = self.pool;
        if !matches!(pool.queue, TaskQueue::Fifo(_) | TaskQueue::Priority(..) | TaskQueue::Delayed(_)) {
            return None; // those are not polled
        }
        let mut task = pool.poll();
        // What waits in a queue in time, and could not be had, is not due.
        let in_vain = matches!(pool.queue, TaskQueue::Delayed(_)) && !pool.queue.is_empty();
        // A model of a whole pool has too many schedules with it; it has a model of its own.
        if task.is_none() && !in_vain && !cfg!(loom) && pool.idle.search(|| !pool.queue.is_empty()) {
            pool.queue.order(); // W5
            task = pool.poll();
        }
        if task.is_some() {
            self.wake_another();
        }
        task
    }

    /// We have a task: if there is another, somebody should have it.
    fn wake_another(&self) {
        let pool = self.pool;
        match &pool.queue {
            TaskQueue::Delayed(delayed) => delayed.ensure_watched(&pool.idle),
            queue => pool.idle.wake_another(|| !queue.is_empty(), || pool.poll()),
        }
    }

    /// Sleeps until there is something to look at, for at most the keep-alive time if `timed`; as long as there are tasks in
    /// the queue if `stay_for_tasks`.
    fn rest(&self, timed: bool, stay_for_tasks: bool, generation: u64, keep: &mut KeepAlive) -> WakeReason {
        let pool = self.pool;
        let keep_alive = timed.then(|| pool.settings().keep_alive);
        if let TaskQueue::Delayed(queue) = &pool.queue {
            let keep = keep_alive.map(|time| keep.until(generation, || queue.keep_for(time)));
            let keep = keep.filter(|_| !stay_for_tasks);
            return queue.rest(&pool.idle, &self.slot, keep, stay_for_tasks, || {
                fence(Ordering::SeqCst); // W2
                let in_vain = stay_for_tasks && pool.queue.is_empty();
                in_vain || pool.generation() != generation || self.nothing_more_will_come()
            });
        }
        if let TaskQueue::Blocking { queue, .. } = &pool.queue {
            return self.rest_in(&**queue, keep_alive, stay_for_tasks, generation);
        }
        if let TaskQueue::Fifo(fifo) = &pool.queue
            && !cfg!(loom)
        {
            fifo.trim();
        }
        let by_hand = matches!(pool.queue, TaskQueue::Handoff);
        let deadline = keep_alive.and_then(deadline_after);
        let options = ParkOptions { deadline, timed: deadline.is_some(), ..ParkOptions::default() };
        pool.idle.rest(&self.slot, options, by_hand, || {
            pool.queue.order(); // W2
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
    ) -> WakeReason {
        let pool = self.pool;
        // Listed before the second look: as in `recheck_all`. Whoever takes the last task out, by hand or as a worker
        // that then leaves, calls those on the list (`after_removal`): either it finds us there, or we find the queue empty.
        let key = pool
            .in_queue
            .lock()
            .push(InQueue { interrupter: interrupt::current_without_callbacks(), for_tasks: stay_for_tasks });
        fence(Ordering::SeqCst);
        let in_vain = self.nothing_more_will_come() || (stay_for_tasks && pool.queue.is_empty());
        // In shutdown nobody calls us if the queue, which did not say so, is empty.
        let is_silent = || !pool.control.load().is_running() && pool.queue.len_if_it_tells().is_none();
        let taken = if pool.generation() != generation || in_vain {
            Ok(None)
        } else {
            // A panic of a foreign queue is that queue's affair; we look around and come back.
            catch_value(|| match keep_alive {
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
                WakeReason::Assigned(task)
            }
            Ok(None) if pool.generation() == generation => WakeReason::TimedOut,
            _ => WakeReason::Called,
        }
    }

    fn has_reason_to_stay_awake(&self, generation: u64) -> bool {
        !self.pool.queue.is_empty() || self.pool.generation() != generation || self.nothing_more_will_come()
    }

    /// In shutdown a worker must not wait for a task when there is none, for nobody will call it: the others leave, and
    /// the last task may have been taken after we looked at the queue and before we listed ourselves.
    fn nothing_more_will_come(&self) -> bool {
        !self.pool.control.load().is_running() && self.pool.queue.is_empty()
    }

    /// After we took ourselves off the count (C1): true if we are needed after all, and counted again.
    ///
    /// C2 and C3 pair with `PoolInner::confirm_admitted`, as is told there.
    fn stays(&self) -> bool {
        let pool = self.pool;
        pool.queue.order(); // C2
        loop {
            let seen = pool.control.load();
            let waiting = !pool.queue.is_empty(); // C3
            let core = if pool.core_times_out() { 0 } else { pool.core_size() };
            let wanted = match seen.state() {
                RunState::Running => core.max(usize::from(waiting)),
                RunState::Shutdown if waiting => core.max(1),
                _ => 0,
            };
            if seen.workers() >= wanted.min(pool.maximum()) {
                return false;
            }
            if pool.control.try_add_worker(seen) {
                pool.note_size(&mut pool.workers.lock());
                return true;
            }
        }
    }

    /// A task or hook has unwound through this worker: true if it goes on, as the one who replaces it.
    fn replaced(&self) -> bool {
        let pool = self.pool;
        pool.queue.order(); // before the look at the queue of a pool in shutdown, as C2
        loop {
            let seen = pool.control.load();
            if pool.may_have_worker(seen, false) && seen.workers() <= pool.maximum() {
                return true;
            }
            if pool.control.try_remove_worker(seen) {
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
        let ok = catch_value(|| run_task(self.pool, self.worker, task, false)).unwrap_or(false);
        if task.is_some() {
            task.take().into_iter().for_each(Task::drop_caught); // something got by
        }
        self.worker.active.store(false, Ordering::Relaxed);
        self.me.next_epoch();
        ok
    }
}

/// Runs a task between its hooks, and counts it; there is none afterwards. False: something unwound that nobody keeps.
#[inline]
fn run_task(pool: &Arc<PoolInner>, worker: &Worker, task: &mut Option<Task>, nested: bool) -> bool {
    if pool.shed(task) {
        return true;
    }
    let ok = match &pool.hooks {
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
    ok
}

#[inline(never)]
fn run_between(hooks: &dyn Hooks, pool: &Arc<PoolInner>, worker: &Worker, task: &mut Option<Task>) -> bool {
    let Some(info) = task.as_ref().map(|task| task.info().clone()) else { return true };
    if !catch(|| hooks.before_execute(&info)) {
        settled(pool, worker, Outcome::Panicked);
        task.take().into_iter().for_each(Task::drop_caught);
        return false;
    }
    let panic = run_counted(pool, worker, task, Some((hooks, &info)), false).map(Panic::new);
    let harmed = !catch(|| hooks.after_execute(&info, panic.as_ref()));
    let ok = panic.is_none() && !harmed;
    drop_panic(panic);
    ok
}

/// `comes_back`: the worker looks at the queue as soon as we return.
#[inline(always)]
fn run_counted(
    pool: &Arc<PoolInner>,
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
                catch(|| hooks.panicked(info, panic));
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
fn queue_again(pool: &Arc<PoolInner>, series: &mut Option<Task>, comes_back: bool) {
    series.take().into_iter().for_each(|series| pool.run_again(series, comes_back));
}

fn settled(pool: &PoolInner, worker: &Worker, outcome: Outcome) {
    worker.counters.settled(outcome);
    pool.task_gone();
}

#[cold]
fn drop_payload(payload: Payload) {
    drop_panic(Some(Panic::new(payload)));
}

/// A panic's payload is the user's, and so is its destructor.
fn drop_panic(panic: Option<Panic>) {
    drop_caught(panic);
}

/// Runs the waiting task `id` here, inside what runs now, if this thread is a worker of `pool`.
pub(super) fn run_inline(pool: &PoolInner, id: TaskId, place: &Place) -> Help {
    let me = current_worker().and_then(|worker| worker.downcast::<Identity>().ok());
    let Some(me) = me.filter(|me| std::ptr::eq(&*me.pool, pool)) else {
        return Help::Done;
    };
    if let Some(later) = pool.queue.not_yet(id, place) {
        return later;
    }
    if let Some(task) = pool.queue.remove(id, Some(place)) {
        pool.room.made();
        inline::run_inline(|| run_nested(&me, task));
    }
    Help::Done
}

/// Runs a task in a frame of its own, with its own interrupt flag.
///
/// On the worker's thread, or on a temporary one while the worker waits for it: either way nobody
/// else writes the worker's counters.
fn run_nested(me: &Identity, task: Task) {
    let _frame = TaskFrame::enter();
    me.pool.interrupt_if_stopping();
    me.worker.counters.begin_in_place();
    run_task(&me.pool, &me.worker, &mut Some(task), true);
    me.worker.counters.end_in_place();
}

/// Tells whether the calling thread is a worker of `pool`.
pub(super) fn is_worker_of(pool: &PoolInner) -> bool {
    works_for(pool.home.number())
}
