//! [`PoolInner`]: the data that users' handles and workers share, and access to it.
//!
//! This file holds the data, the settings, and small operations on several parts (`wake_one`,
//! `recheck_all`). The modules after it in the table of `mod.rs` implement the protocols, each in
//! an `impl PoolInner`: `removal` and `lifecycle` (how tasks and the pool end), `spawn` (adds
//! workers), `admission` and `backpressure` (how tasks enter), `periodic`, `run` and `worker`.

use std::any::Any;
use std::fmt;

use super::control::{Ctl, MAX_WORKERS, Snapshot};
use super::counters::Counters;
use super::growth::GrowthRule;
use super::hooks::Hooks;
use super::idle::{Dequeued, IdleWorkers};
use super::policy::{CurrentPolicy, Handler};
use super::queue::TaskQueue;
use super::queue::fifo::Fifo;
use super::queue::time_limit::QueueTimeLimit;
use super::settings::LiveSettings;
use super::waiters::Waiters;
use super::workers::Workers;
use crate::executor::{PoolFacts, PoolName};
use crate::interrupt::Interrupter;
use crate::interrupt::wait::{Key, WaitList};
use crate::monitor::registry::Registration;
use crate::monitor::{Event, Identity, Kind, Meter, Monitored, PanicLog, Propagate, Settings, panics};
use crate::panic::catch;
use crate::sync::{Arc, AtomicBool, AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering, Weak, fence};
use crate::task::{OwnerEntry, Panic, Task, TaskInfo, TaskOwner};
use crate::threads::ThreadFactory;
use crate::time::clock::Clock;

pub(super) struct PoolInner {
    /// The entry in the registry, with the name.
    me: Registration,
    config: Config,
    /// True if [`plain_queue`](Self::plain_queue) applies. Never changes.
    is_plain: bool,
    control: Ctl,
    queue: TaskQueue,
    idle: IdleWorkers,
    settings: LiveSettings,
    policy: CurrentPolicy,
    factory: Mutex<Arc<ThreadFactory>>,
    workers: Mutex<Workers>,
    counters: Counters,
    panics: PanicLog,
    meter: Meter,
    /// Increases with every change that an idle worker must react to: settings and run state.
    generation: AtomicU64,
    /// The workers that block inside a `Blocking` queue. The pool interrupts them to make them
    /// recheck.
    in_queue: Mutex<WaitList<InQueue>>,
    /// Number of accepted tasks that are not settled, including a task whose admission is in
    /// progress. Counted by eager pools only. Decremented before a handle resolves, so a submit
    /// after a join finds the worker free. Too low after the owner of a custom queue has added
    /// tasks to it, until it really is zero.
    outstanding: AtomicUsize,
    /// True once a failed start has left queued tasks without a worker. Never cleared: a late clear
    /// would hide tasks that were stranded in the meantime. While it is false, joins and `shutdown`
    /// start no worker for tasks that the owner of a custom queue has added directly. The end of a
    /// pause, a failed start and a raised size do, because they start workers for all queued tasks.
    stranded: AtomicBool,
    submitters: Waiters,
    termination_waiters: Waiters,
    idle_waiters: Waiters,
    /// Workers that hold a task while the pool is paused.
    held: Waiters,
    /// The entry by which the handles of queued tasks find the pool.
    owner: OwnerEntry,
}

/// The options that never change.
pub(super) struct Config {
    pub(super) name: PoolName,
    pub(super) name_prefix: String,
    pub(super) rule: GrowthRule,
    pub(super) time_limit: Option<QueueTimeLimit>,
    /// True if cancelled tasks leave the queue at once. A scheduled pool keeps this flag in its
    /// queue.
    pub(super) remove_on_cancel: bool,
    pub(super) hooks: Option<Arc<dyn Hooks>>,
    pub(super) propagate: Option<Arc<dyn Propagate>>,
}

impl Config {
    fn allows_plain_queue(&self) -> bool {
        self.rule == GrowthRule::QueueFirst && self.time_limit.is_none() && self.propagate.is_none()
    }
}

/// A worker that blocks inside its queue.
struct InQueue {
    interrupter: Interrupter,
    /// True if the keep-alive time is over and the worker stays only because the queue is not
    /// empty.
    for_tasks: bool,
}

/// The options of a new pool.
pub(super) struct PoolOptions {
    pub(super) config: Config,
    /// True if the registry lists the pool.
    pub(super) is_listed: bool,
    pub(super) settings: Settings,
    pub(super) queue: TaskQueue,
    pub(super) handler: Handler,
    pub(super) factory: Arc<ThreadFactory>,
    pub(super) clock: Clock,
}

impl PoolInner {
    /// Creates the pool. `handle` is the users' handle, which is still under construction.
    pub(super) fn new(options: PoolOptions, handle: Weak<dyn Any + Send + Sync>) -> Arc<PoolInner> {
        let config = options.config;
        let kind = if let TaskQueue::Delayed(delayed) = &options.queue {
            delayed.set_remove_on_cancel(config.remove_on_cancel);
            Kind::Scheduled
        } else {
            Kind::Pool
        };
        let identity = Identity::new(Arc::clone(config.name.get()), kind, options.is_listed, handle);
        let (timing, maximum) = (options.settings.timing, options.settings.maximum_pool_size);
        let meter = Meter::new(options.clock, timing, maximum);
        let pool = Arc::new_cyclic(|me: &Weak<PoolInner>| PoolInner {
            me: Registration::new(identity, Weak::clone(me) as Weak<dyn Monitored>),
            is_plain: config.allows_plain_queue() && matches!(options.queue, TaskQueue::Fifo(_)),
            config,
            control: Ctl::new(),
            queue: options.queue,
            idle: IdleWorkers::default(),
            settings: LiveSettings::new(options.settings),
            policy: CurrentPolicy::new(options.handler),
            factory: Mutex::new(options.factory),
            workers: Mutex::default(),
            counters: Counters::default(),
            panics: PanicLog::default(),
            meter,
            generation: AtomicU64::new(0),
            in_queue: Mutex::default(),
            outstanding: AtomicUsize::new(0),
            stranded: AtomicBool::new(false),
            submitters: Waiters::default(),
            termination_waiters: Waiters::default(),
            idle_waiters: Waiters::default(),
            held: Waiters::default(),
            owner: OwnerEntry::new(Weak::clone(me) as Weak<dyn TaskOwner>),
        });
        if let TaskQueue::Delayed(delayed) = &pool.queue {
            let weak = Arc::downgrade(&pool);
            delayed.clock().tell(weak);
        }
        pool.set_timing(timing);
        pool
    }
}

/// Access to the parts.
impl PoolInner {
    #[inline]
    pub(super) fn control(&self) -> &Ctl {
        &self.control
    }

    #[inline]
    pub(super) fn queue(&self) -> &TaskQueue {
        &self.queue
    }

    #[inline]
    pub(super) fn idle(&self) -> &IdleWorkers {
        &self.idle
    }

    #[inline]
    pub(super) fn settings(&self) -> &LiveSettings {
        &self.settings
    }

    #[inline]
    pub(super) fn policy(&self) -> &CurrentPolicy {
        &self.policy
    }

    #[inline]
    pub(super) fn counters(&self) -> &Counters {
        &self.counters
    }

    pub(super) fn panics(&self) -> &PanicLog {
        &self.panics
    }

    #[inline]
    pub(super) fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Locks the list of workers. While it is held, the only other pool locks that may be taken are
    /// those of the workers' laps.
    pub(super) fn workers(&self) -> MutexGuard<'_, Workers> {
        self.workers.lock()
    }

    /// Submitters that wait for room.
    #[inline]
    pub(super) fn submitters(&self) -> &Waiters {
        &self.submitters
    }

    pub(super) fn termination_waiters(&self) -> &Waiters {
        &self.termination_waiters
    }

    pub(super) fn idle_waiters(&self) -> &Waiters {
        &self.idle_waiters
    }

    /// Workers that hold a task while the pool is paused.
    pub(super) fn held(&self) -> &Waiters {
        &self.held
    }

    #[inline]
    pub(super) fn hooks(&self) -> Option<&Arc<dyn Hooks>> {
        self.config.hooks.as_ref()
    }

    #[inline]
    pub(super) fn propagates(&self) -> bool {
        self.config.propagate.is_some()
    }

    /// Attaches the context of the calling thread to `task`, if the pool propagates contexts.
    /// Returns false if the capture panicked.
    pub(super) fn carry_context(&self, task: &mut Task) -> bool {
        self.config.propagate.as_ref().is_none_or(|propagate| catch(|| task.carry(|| propagate.capture())))
    }

    pub(super) fn rule(&self) -> GrowthRule {
        self.config.rule
    }

    pub(super) fn name_prefix(&self) -> &str {
        &self.config.name_prefix
    }

    pub(super) fn name(&self) -> &PoolName {
        &self.config.name
    }

    pub(super) fn me(&self) -> &Registration {
        &self.me
    }

    #[inline]
    pub(super) fn time_limit(&self) -> Option<&QueueTimeLimit> {
        self.config.time_limit.as_ref()
    }

    pub(super) fn removes_on_cancel(&self) -> bool {
        self.config.remove_on_cancel
    }

    /// The number that identifies this pool in its tasks.
    #[inline]
    pub(super) fn owner_number(&self) -> u64 {
        self.owner.number()
    }

    pub(super) fn factory(&self) -> Arc<ThreadFactory> {
        Arc::clone(&self.factory.lock())
    }

    /// Installs `new` and returns the previous factory, to be dropped outside of the lock.
    pub(super) fn replace_factory(&self, new: Arc<ThreadFactory>) -> Arc<ThreadFactory> {
        std::mem::replace(&mut *self.factory.lock(), new)
    }

    /// Returns the queue if every admission may use the fast path: a first-in-first-out queue, the
    /// JDK's growth rule, no time limit and no context propagation.
    #[inline]
    pub(super) fn plain_queue(&self) -> Option<&Fifo> {
        match &self.queue {
            TaskQueue::Fifo(fifo) if self.is_plain => Some(fifo),
            _ => None,
        }
    }
}

/// Small operations on several parts.
impl PoolInner {
    /// Dequeues a task, and notifies the first submitter that waits for room.
    pub(super) fn poll(&self) -> Option<Dequeued> {
        self.queue.poll().inspect(|_| self.submitters.notify_first())
    }

    /// Dequeues a task, but does not determine how long a task of a first-in-first-out queue has
    /// waited. The caller notifies the first submitter that waits for room.
    pub(super) fn poll_undated(&self) -> Option<Dequeued> {
        match &self.queue {
            TaskQueue::Fifo(fifo) => fifo.pop().map(|task| (task, None)),
            queue => queue.poll(),
        }
    }

    /// Wakes an idle worker if queued tasks need one. For submitters, for workers that have taken a
    /// task, and for exiting workers. The caller has ordered itself after its change.
    #[inline]
    pub(super) fn wake_one(&self) {
        let may_start = || !self.control.load().is_paused(); // `resume` wakes all
        match &self.queue {
            TaskQueue::Delayed(delayed) if may_start() => delayed.ensure_watched(&self.idle),
            TaskQueue::Fifo(_) | TaskQueue::Priority(..) => {
                self.assign_head(|idle, head| {
                    idle.wake_one_if(|| !self.queue.is_empty() && may_start(), head)
                });
            }
            _ => {} // no worker parks for tasks in these queues
        }
    }

    /// Assigns the head of a first-in-first-out queue to a parked worker. Returns false if none is
    /// parked.
    pub(super) fn hand_head_to_idle(&self) -> bool {
        matches!(self.queue, TaskQueue::Fifo(_))
            && self.assign_head(|idle, head| idle.hand_head_to_idle(head))
    }

    /// Calls `wake`, which may wake a worker and assign the head of the queue to it. Then notifies
    /// the first submitter that waits for room. Its waker is user code, so it runs only when the
    /// worker is awake. Returns the result of `wake`.
    #[inline]
    pub(super) fn assign_head(
        &self,
        wake: impl FnOnce(&IdleWorkers, &mut dyn FnMut() -> Option<Dequeued>) -> bool,
    ) -> bool {
        let mut made_room = false;
        let woke = wake(&self.idle, &mut || self.queue.poll().inspect(|_| made_room = true));
        if made_room {
            self.submitters.notify_first();
        }
        woke
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }

    /// Makes every idle worker and every waiting submitter check again, after a change of settings
    /// or run state.
    ///
    /// Race "change / park": a worker reads the generation, then settings and state, enlists, and
    /// reads the generation again. If it enlisted before `wake_all`, that call wakes it. Otherwise
    /// it took the list's lock later and sees the new generation.
    pub(super) fn recheck_all(&self) {
        self.generation.fetch_add(1, Ordering::SeqCst);
        self.idle.wake_all();
        let in_queue = self.in_queue.lock().take_all(|_| true);
        in_queue.iter().for_each(|worker| worker.interrupter.interrupt());
        self.submitters.notify_all();
    }

    /// Lists the calling worker before it blocks inside the queue.
    pub(super) fn enter_queue(&self, interrupter: Interrupter, for_tasks: bool) -> Key {
        let key = self.in_queue.lock().push(InQueue { interrupter, for_tasks });
        fence(Ordering::SeqCst); // race "last removal / park": pairs with `after_removal`
        key
    }

    pub(super) fn leave_queue(&self, key: Key) {
        let removed = self.in_queue.lock().remove(key);
        drop(removed);
    }

    /// Interrupts the worker that entered the queue last.
    pub(super) fn interrupt_newest_in_queue(&self) {
        let newest = self.in_queue.lock().pop_last();
        newest.iter().for_each(|worker| worker.interrupter.interrupt());
    }

    /// Interrupts the workers that block inside the queue and exit as soon as it is empty.
    pub(super) fn interrupt_those_in_queue_for_tasks(&self) {
        let for_tasks = |worker: &InQueue| worker.for_tasks.then(|| worker.interrupter.clone());
        let staying: Vec<_> = self.in_queue.lock().iter().filter_map(for_tasks).collect();
        staying.iter().for_each(Interrupter::interrupt);
    }

    /// Counts a task before its admission is decided. Eager pools only.
    pub(super) fn add_outstanding(&self) {
        if self.config.rule == GrowthRule::Eager {
            self.outstanding.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Removes a counted task that was settled, or that left without having run.
    pub(super) fn remove_outstanding(&self) {
        if self.config.rule == GrowthRule::Eager {
            // The owner of a custom queue may have added the task, which was not counted then.
            let one_less = |count: usize| Some(count.saturating_sub(1));
            _ = self.outstanding.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less);
        }
    }

    /// Eager pools only: true if there are at least as many workers as outstanding tasks, including
    /// the caller's task.
    #[inline]
    pub(super) fn has_free_worker(&self, seen: Snapshot) -> bool {
        self.config.rule == GrowthRule::Eager && self.outstanding.load(Ordering::SeqCst) <= seen.workers()
    }

    /// Returns true if queued tasks without a worker may be stranded.
    pub(super) fn has_stranded(&self) -> bool {
        self.stranded.load(Ordering::SeqCst)
    }

    pub(super) fn note_stranded(&self) {
        self.stranded.store(true, Ordering::SeqCst);
    }

    /// Records and reports a panic of a task, on the thread that ran it, before its handle
    /// resolves.
    #[cold]
    pub(super) fn report_panic(&self, info: &TaskInfo, panic: &Panic) {
        self.panics.add(info, panic);
        self.me.tell(&Event::Panicked { task: info, message: panics::message(panic) });
        if let Some(hooks) = self.hooks() {
            catch(|| hooks.panicked(info, panic));
        }
    }

    /// The facts for an error message.
    pub(super) fn facts(&self) -> PoolFacts {
        // A custom queue may panic, and the task must be returned even then.
        let queued = self.queue.try_len().unwrap_or(0);
        self.facts_of(self.control.load(), self.settings.maximum(), queued)
    }

    #[inline]
    pub(super) fn facts_of(&self, seen: Snapshot, maximum: usize, queued: usize) -> PoolFacts {
        let maximum = (maximum != MAX_WORKERS).then_some(maximum);
        PoolFacts::new(self.config.name.number(), seen.workers(), maximum, queued)
    }
}

/// A thread that cancels tasks may keep the queue of a scheduled pool alive. The tasks in it must
/// not outlive the pool.
impl Drop for PoolInner {
    fn drop(&mut self) {
        if let TaskQueue::Delayed(delayed) = &self.queue {
            delayed.remove_if(|_, _| true).into_iter().for_each(Task::drop_caught);
        }
    }
}

impl fmt::Debug for PoolInner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolInner")
            .field("name", &self.config.name.get())
            .field("control", &self.control.load())
            .field("queue", &self.queue)
            .finish_non_exhaustive()
    }
}
