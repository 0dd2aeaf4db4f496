//! The worker thread: it dequeues tasks, runs them, parks and exits.
//!
//! A worker exits when the pool is above its maximum size, or when a worker that may time out has
//! been idle for the keep-alive time. It also exits in Stop, and in Shutdown when the queue is
//! empty. It gives its permit back first, and then checks the queue once more: race "enqueue / last
//! worker exits".

use std::time::Duration;

use super::control::Snapshot;
use super::counters::Counter;
use super::idle::{Dequeued, ParkOptions, ParkSlot, WakeReason};
use super::inner::PoolInner;
use super::queue::delayed::{DelayedQueue, KeepAliveEnd};
use super::queue::{TaskQueue, with_time};
use super::run::{WorkerIdentity, run_task};
use super::spawn::WorkerThread;
use super::workers::Worker;
use crate::interrupt::{self, Interrupted, ThreadContext};
use crate::monitor::{Event, RunState};
use crate::panic::{catch, catch_value};
use crate::queue::BlockingQueue;
use crate::sync::{Arc, Ordering, backoff, deadline_after, fence};
use crate::task::{Task, work_for};
use crate::threads::{ThreadBody, body_dropped};

impl ThreadBody for WorkerThread {
    fn live(self: Box<Self>) {
        if self.worker.begin() {
            self.pool.counters().add(Counter::ThreadStarted);
            WorkerLoop::new(&self.pool, &self.worker).run();
        }
    }

    /// The factory reported success but dropped the body later. The first task is admitted again.
    fn never_started(self: Box<Self>) {
        if !self.worker.body_dropped() {
            return;
        }
        let pool = &self.pool;
        pool.thread_start_failed(&body_dropped());
        if let Some(task) = pool.undo_reservation(&self.worker) {
            pool.remove_outstanding();
            let admitted = pool.admit(task);
            pool.counters().undo(Counter::FirstTask); // after the task has been counted again
            if let Err(refused) = admitted {
                let (task, ..) = refused.into_refusal().into_parts();
                task.drop_caught(); // its handle resolves as abandoned
            }
            pool.notify_if_idle(); // until now the task counted twice, or as active
        }
        pool.rescue_queue();
    }
}

/// The end of the current keep-alive time in a scheduled pool. Wake-ups for other reasons do not
/// restart it.
#[derive(Default)]
struct KeepAlive(Option<(u64, KeepAliveEnd)>);

impl KeepAlive {
    /// Returns the end of the keep-alive time. Restarts it if the generation of the settings has
    /// changed.
    fn end(&mut self, generation: u64, start: impl FnOnce() -> KeepAliveEnd) -> KeepAliveEnd {
        match self.0 {
            Some((started_in, end)) if started_in == generation => end,
            _ => self.0.insert((generation, start())).1,
        }
    }
}

/// The limits of a worker's idle time.
#[derive(Clone, Copy)]
struct IdleLimit {
    /// The longest wait. `None` if only a task or a change ends the wait.
    keep_alive: Option<Duration>,
    /// True if the keep-alive time is over and the worker stays only because the queue is not
    /// empty.
    stays: bool,
    /// The generation of the pool (settings and run state) that the worker has read. It rechecks if
    /// the pool's is newer.
    generation: u64,
}

impl IdleLimit {
    fn options(self) -> ParkOptions {
        let deadline = self.keep_alive.and_then(deadline_after);
        ParkOptions { deadline, timed: deadline.is_some(), stays: self.stays, leads: false }
    }
}

/// The state of one worker thread.
struct WorkerLoop<'a> {
    pool: &'a Arc<PoolInner>,
    worker: &'a Arc<Worker>,
    me: Arc<ThreadContext>,
    slot: Arc<ParkSlot>,
}

impl<'a> WorkerLoop<'a> {
    fn new(pool: &'a Arc<PoolInner>, worker: &'a Arc<Worker>) -> Self {
        WorkerLoop { pool, worker, me: ThreadContext::current(), slot: ParkSlot::for_this_thread() }
    }

    /// Runs tasks until the worker exits.
    fn run(&self) {
        self.start();
        let (mut task, since) = self.worker.take_first().unzip();
        self.pool.resume_lap(self.worker, since.flatten());
        loop {
            if task.is_none() {
                self.next_task(&mut task);
            }
            if task.is_none() {
                break;
            }
            let ok = self.run_one(&mut task);
            if !ok && !self.continues_after_panic() {
                break;
            }
        }
        self.exit();
    }

    fn start(&self) {
        let identity = WorkerIdentity { pool: Arc::clone(self.pool), worker: Arc::clone(self.worker) };
        work_for(self.pool.owner_number(), Some(Arc::new(identity)));
        self.pool.confirm_worker(self.worker);
        if let Some(hooks) = self.pool.hooks() {
            catch(|| hooks.worker_started(self.worker.info()));
        }
        self.pool.me().tell(&Event::WorkerStarted { worker: self.worker.info() });
        self.me.next_epoch();
        self.pool.interrupt_new_epoch_if_stopped();
    }

    /// The worker has already given its permit back. Another thread may have woken it for a task,
    /// so it wakes another worker: race "enqueue / park". The free permit is capacity that a
    /// waiting submitter can use.
    fn exit(&self) {
        let pool = self.pool;
        self.worker.leave();
        pool.pause_lap(self.worker);
        if let Some(hooks) = pool.hooks() {
            catch(|| hooks.worker_stopped(self.worker.info()));
        }
        pool.me().tell(&Event::WorkerStopped { worker: self.worker.info() });
        work_for(0, None);
        pool.workers().remove(self.worker);
        pool.queue().order();
        fence(Ordering::SeqCst); // race "wait for room / make room": pairs with `admit_task`
        pool.wake_one();
        pool.submitters().notify_first();
        pool.after_removal();
    }

    /// Runs a task. Its interrupt epoch began when the previous task ended. Returns false after a
    /// panic that no handle keeps.
    fn run_one(&self, task: &mut Option<Task>) -> bool {
        task.iter().for_each(|task| self.worker.begin_task(task));
        if self.pool.read_control_before_task(&self.me).is_paused() {
            self.hold_while_paused();
        }
        // Panics of user code are caught where it is called. This catch only protects the worker
        // from a bug in the pool.
        let ok = catch_value(|| run_task(self.pool, self.worker, task, false)).unwrap_or(false);
        if task.is_some() {
            task.take().into_iter().for_each(Task::drop_caught);
        }
        self.worker.end_task();
        self.me.next_epoch();
        ok
    }

    /// Blocks while the pool is paused: it was paused after this worker had taken its task. This
    /// time counts as wait time of the task.
    #[cold]
    fn hold_while_paused(&self) {
        let since = self.pool.meter().now();
        self.pool.pause_lap(self.worker);
        self.pool.hold_while_paused();
        self.pool.resume_lap(self.worker, since);
        self.pool.read_control_before_task(&self.me);
    }

    /// After a panic that no handle keeps, a JDK worker dies and is replaced. Here the thread
    /// itself is the replacement, if the pool may have one. Otherwise it gives its permit back.
    fn continues_after_panic(&self) -> bool {
        let pool = self.pool;
        loop {
            let seen = pool.control().load();
            if pool.may_add_worker(seen, false) && seen.workers() <= pool.settings().maximum() {
                return true;
            }
            if pool.control().try_remove_worker(seen) {
                return self.recheck_before_exit();
            }
        }
    }
}

/// Waiting for a task.
impl WorkerLoop<'_> {
    /// Waits for a task and stores it in `task`. Leaves `task` empty if the worker must exit; the
    /// permit has then been given back.
    #[inline]
    fn next_task(&self, task: &mut Option<Task>) {
        let seen = self.pool.control().load();
        if seen.takes_tasks() && seen.workers() <= self.pool.settings().maximum() {
            self.pop(task);
        }
        if task.is_none()
            && let Some((dequeued, since)) = self.wait_for_task()
        {
            self.pool.resume_lap(self.worker, since);
            *task = Some(dequeued);
        }
    }

    /// The fast path: takes a task from the plain queue.
    #[inline]
    fn pop(&self, task: &mut Option<Task>) {
        let TaskQueue::Fifo(fifo) = self.pool.queue() else { return };
        fifo.pop_into(task);
        if task.is_some() {
            self.pool.wake_one();
            self.pool.submitters().notify_first(); // user code, so last
        }
    }

    #[inline(never)]
    fn wait_for_task(&self) -> Option<Dequeued> {
        let pool = self.pool;
        let mut timed_out = false;
        let mut keep_alive = KeepAlive::default();
        loop {
            let generation = pool.generation();
            let seen = pool.control().load();
            let timed = pool.settings().core_times_out() || seen.workers() > pool.settings().core();
            if self.may_exit(seen, timed && timed_out) {
                if pool.control().try_remove_worker(seen) && !self.recheck_before_exit() {
                    return None;
                }
                continue;
            }
            if !seen.is_paused()
                && let Some(dequeued) = self.poll_or_search()
            {
                return Some(dequeued);
            }
            pool.pause_lap(self.worker);
            // Queued tasks that no worker may take now: not due, or held back by a pause.
            let stays = timed && timed_out && (pool.queue().holds_back() || seen.is_paused());
            let time = (timed && !stays).then(|| pool.settings().get().keep_alive_time);
            let limit = IdleLimit { keep_alive: time, stays, generation };
            pool.notify_if_idle();
            let wake =
                if seen.is_paused() { self.park_paused(limit) } else { self.park(limit, &mut keep_alive) };
            pool.queue().order(); // race "enqueue / park": `waking` was lowered, now read the queue
            match wake {
                WakeReason::Assigned(dequeued) => {
                    pool.wake_one();
                    return Some(dequeued);
                }
                WakeReason::Woken => timed_out = false,
                WakeReason::TimedOut => timed_out = true,
            }
        }
    }

    fn may_exit(&self, seen: Snapshot, keep_alive_over: bool) -> bool {
        match seen.state() {
            RunState::Running => {}
            RunState::Shutdown if !self.pool.queue().is_empty() => {}
            _ => return true,
        }
        (seen.workers() > self.pool.settings().maximum() || keep_alive_over)
            && (seen.workers() > 1 || self.pool.queue().is_empty())
    }

    /// Race "enqueue / last worker exits": the worker has given its permit back, calls `order` and
    /// then reads the queue. Returns true if the worker is needed and has taken a permit again.
    fn recheck_before_exit(&self) -> bool {
        let pool = self.pool;
        pool.queue().order();
        loop {
            let seen = pool.control().load();
            let has_tasks = !pool.queue().is_empty();
            let core = if pool.settings().core_times_out() { 0 } else { pool.settings().core() };
            let wanted = match seen.state() {
                RunState::Running => core.max(usize::from(has_tasks)),
                RunState::Shutdown if has_tasks => core.max(1),
                _ => 0,
            };
            if seen.workers() >= wanted.min(pool.settings().maximum()) {
                return false;
            }
            if pool.control().try_add_worker(seen) {
                pool.workers().note_size(pool.control().load().workers());
                return true;
            }
        }
    }

    /// Takes a queued task, or searches for one. On success wakes another worker if the queue holds
    /// more.
    fn poll_or_search(&self) -> Option<Dequeued> {
        let pool = self.pool;
        if matches!(pool.queue(), TaskQueue::Handoff | TaskQueue::Blocking { .. }) {
            return None; // these queues are not polled
        }
        let mut dequeued = pool.queue().poll();
        // An entry of a delayed queue that could not be taken is not due.
        let waits_for_time = matches!(pool.queue(), TaskQueue::Delayed(delayed) if delayed.len() > 0);
        // Loom models of whole pools skip the search to stay small. The search has its own model.
        if dequeued.is_none() && !waits_for_time && !cfg!(loom) {
            dequeued = self.search();
        }
        if dequeued.is_some() {
            pool.wake_one();
            pool.submitters().notify_first(); // user code, so last
        }
        dequeued
    }

    /// Searches for a task and takes it. A search longer than about 2 µs pauses the lap. The caller
    /// notifies the first submitter that waits for room.
    fn search(&self) -> Option<Dequeued> {
        let (pool, short, mut polls) = (self.pool, backoff::polls_of_short_search(), 0);
        let found = pool.idle().search(|| {
            let found = !pool.queue().is_empty();
            if !found && polls == short {
                pool.pause_lap(self.worker);
            }
            polls += 1;
            found
        });
        if !found {
            return None;
        }
        pool.queue().order(); // race "enqueue / park": a searching worker counts as waking
        match pool.is_paused() {
            true => None,
            false if polls > short => pool.queue().poll(),
            false => pool.poll_undated(),
        }
    }
}

/// Parking.
impl WorkerLoop<'_> {
    fn park(&self, limit: IdleLimit, keep_alive: &mut KeepAlive) -> WakeReason {
        match self.pool.queue() {
            TaskQueue::Delayed(queue) => {
                let end = |time| keep_alive.end(limit.generation, || queue.keep_alive_end(time));
                self.park_until_due(queue, limit.keep_alive.map(end), limit)
            }
            TaskQueue::Blocking { queue, .. } => self.block_in(&**queue, limit),
            queue => self.park_idle(queue, limit),
        }
    }

    /// Parks until the pool is resumed or shut down, or until the keep-alive time is over.
    fn park_paused(&self, limit: IdleLimit) -> WakeReason {
        self.pool.idle().park(&self.slot, limit.options(), false, || {
            // Races "last removal / park" (pairs with `after_removal`) and "wait for room / make
            // room".
            fence(Ordering::SeqCst);
            self.pool.submitters().notify_first(); // a parked worker is capacity for a task
            self.must_recheck(limit)
        })
    }

    /// Returns true if settings or run state have changed, or if the tasks for which the worker
    /// stays are gone.
    fn must_recheck(&self, limit: IdleLimit) -> bool {
        self.pool.generation() != limit.generation || (limit.stays && self.pool.queue().is_empty())
    }

    /// Parks until a submitter wakes the worker, or until the keep-alive time is over.
    fn park_idle(&self, queue: &TaskQueue, limit: IdleLimit) -> WakeReason {
        let pool = self.pool;
        if let TaskQueue::Fifo(fifo) = queue
            && !cfg!(loom)
        {
            fifo.trim();
        }
        let is_handoff = matches!(queue, TaskQueue::Handoff);
        pool.idle().park(&self.slot, limit.options(), is_handoff, || {
            queue.order(); // race "enqueue / park"
            if is_handoff {
                pool.submitters().notify_first(); // a parked worker is capacity for a task
            }
            !queue.is_empty() || self.must_recheck(limit) || self.no_more_tasks_will_come()
        })
    }

    /// Parks on a delayed queue: as leader or standby until the first entry is due, otherwise until
    /// woken.
    fn park_until_due(
        &self,
        queue: &DelayedQueue,
        keep_alive: Option<KeepAliveEnd>,
        limit: IdleLimit,
    ) -> WakeReason {
        queue.park(self.pool.idle(), &self.slot, keep_alive, limit.stays, || {
            fence(Ordering::SeqCst); // race "last removal / park": pairs with `after_removal`
            self.must_recheck(limit) || self.no_more_tasks_will_come()
        })
    }

    /// Blocks inside a queue that knows better than the pool when a task is available.
    fn block_in(&self, queue: &dyn BlockingQueue<Task>, limit: IdleLimit) -> WakeReason {
        let pool = self.pool;
        // Races "change / park" and "last removal / park": `recheck_all` and `after_removal`
        // interrupt listed workers, so this one lists itself before it checks again.
        let key = pool.enter_queue(interrupt::current_without_callbacks(), limit.stays);
        let taken = if self.must_recheck(limit) || self.no_more_tasks_will_come() {
            Ok(None)
        } else {
            // A custom queue may panic. Then the worker checks everything again.
            let time = limit.keep_alive.or_else(|| self.silent_queue_poll());
            catch_value(|| time.map_or_else(|| queue.take().map(Some), |time| queue.poll_timeout(time)))
                .unwrap_or(Err(Interrupted))
        };
        self.me.next_epoch(); // an interrupt for this wait must not reach the next task
        pool.leave_queue(key);
        match taken {
            Ok(Some(task)) => {
                self.worker.begin_task(&task);
                pool.submitters().notify_first();
                WakeReason::Assigned(with_time(task))
            }
            Ok(None) if pool.generation() == limit.generation => WakeReason::TimedOut,
            _ => WakeReason::Woken,
        }
    }

    /// Returns a poll interval in Shutdown for a custom queue whose `len` panics: 10 ms. No thread
    /// can see that such a queue is empty, so no thread would interrupt this worker.
    fn silent_queue_poll(&self) -> Option<Duration> {
        const POLL_INTERVAL: Duration = Duration::from_millis(10);
        let is_silent = !self.pool.control().load().is_running() && self.pool.queue().try_len().is_none();
        is_silent.then_some(POLL_INTERVAL)
    }

    /// Returns true if the pool is shut down and the queue is empty. In Shutdown no submitter wakes
    /// a worker. The last task may have been taken after this worker read the queue and before it
    /// was listed. So the worker must not park for an empty queue.
    fn no_more_tasks_will_come(&self) -> bool {
        !self.pool.control().load().is_running() && self.pool.queue().is_empty()
    }
}
