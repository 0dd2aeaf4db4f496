//! What the users' handles and the workers share: settings, shutdown and termination.
//!
//! The README beside this file tells the protocols; here each step carries the name it has there.

use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

use super::control::{Ctl, MOST_WORKERS, RunState};
use super::growth::GrowthRule;
use super::hooks::Hooks;
use super::idle::IdleWorkers;
use super::policy::{BuiltinPolicy, Handler};
use super::queue::TaskQueue;
use super::queue_time::QueueTime;
use super::stats::Counters;
use super::submitters::BlockedSubmitters;
use super::watch::Watchers;
use super::worker;
use super::workers::Workers;
use crate::ConfigError;
use crate::interrupt::Interrupter;
use crate::interrupt::wait::WaitList;
use crate::panic::catch;
use crate::sync::{Arc, AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Mutex, Ordering, Weak, fence};
use crate::task::{CancelQueue, Help, OwnerEntry, Panic, Place, Removal, TaskOwner, WorksForScheduler};
use crate::task::{Task, TaskId, TaskInfo};
use crate::threads::ThreadFactory;

/// The settings that can change while the pool runs. `core <= maximum`, `maximum > 0`, and core threads time out
/// only with a keep-alive above zero.
#[derive(Debug, Clone, Copy)]
pub(super) struct Settings {
    pub(super) core: usize,
    pub(super) maximum: usize,
    pub(super) keep_alive: Duration,
    pub(super) core_times_out: bool,
}

impl Settings {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        if self.maximum == 0 {
            return Err(ConfigError::ZeroMaximum { core: self.core });
        }
        if self.core > self.maximum {
            return Err(ConfigError::CoreExceedsMaximum { core: self.core, maximum: self.maximum });
        }
        if self.core_times_out && self.keep_alive.is_zero() {
            return Err(ConfigError::ZeroKeepAlive { keep_alive: self.keep_alive });
        }
        Ok(())
    }
}

pub(super) struct PoolInner {
    /// N in `pool-N`, for messages.
    pub(super) number: NonZeroU32,
    pub(super) name_prefix: String,
    pub(super) control: Ctl,
    pub(super) queue: TaskQueue,
    pub(super) idle: IdleWorkers,
    pub(super) room: BlockedSubmitters,
    pub(super) rule: GrowthRule,
    /// A task that goes to the queue may go there straight: the rule is the usual one, and no time limit is to be kept.
    pub(super) has_short_way: bool,
    /// The limit of `max_queue_time`, if there is one.
    pub(super) queue_time: Option<QueueTime>,
    /// Tasks that are cancelled leave the queue at once. Of a scheduled pool the queue itself knows that.
    remove_on_cancel: bool,
    pub(super) hooks: Option<Arc<dyn Hooks>>,
    pub(super) handler: Mutex<Handler>,
    /// A copy of the handler's mark, a [`BuiltinPolicy`], for a look without the lock.
    usual_policy: AtomicU8,
    pub(super) factory: Mutex<Arc<ThreadFactory>>,
    /// The truth about the settings; changes are made under this lock, so that each sees the others whole.
    settings: Mutex<Settings>,
    /// Copies of core, maximum and core time-out, for a look without the lock.
    core: AtomicUsize,
    maximum: AtomicUsize,
    core_times_out: AtomicBool,
    /// Grows with every change that an idle worker must react to: settings, run state.
    generation: AtomicU64,
    pub(super) workers: Mutex<Workers>,
    /// The workers that block in a queue of the `Blocking` kind, so that they can be made to look around.
    pub(super) in_queue: Mutex<WaitList<InQueue>>,
    pub(super) counters: Counters,
    /// Eager pools only: tasks accepted and not settled. Lowered before a handle resolves, so that a
    /// submit after a join finds the worker free.
    pub(super) outstanding: AtomicUsize,
    /// Tasks were left in the queue to a thread that then could not be started.
    pub(super) stranded: AtomicBool,
    pub(super) end_watchers: Watchers,
    pub(super) idle_watchers: Watchers,
    /// Where tasks that wait here can find us.
    pub(super) home: OwnerEntry,
}

/// A worker that blocks in its queue.
pub(super) struct InQueue {
    pub(super) interrupter: Interrupter,
    /// It is past its keep-alive time, and stays only because the queue is not empty.
    pub(super) for_tasks: bool,
}

/// What a builder has gathered.
pub(super) struct Plan {
    pub(super) number: u64,
    pub(super) name_prefix: String,
    pub(super) settings: Settings,
    pub(super) queue: TaskQueue,
    pub(super) rule: GrowthRule,
    pub(super) queue_time: Option<QueueTime>,
    pub(super) remove_on_cancel: bool,
    pub(super) hooks: Option<Arc<dyn Hooks>>,
    pub(super) handler: Handler,
    pub(super) factory: Arc<ThreadFactory>,
}

impl PoolInner {
    pub(super) fn new(plan: Plan) -> Arc<PoolInner> {
        let pool = Arc::new_cyclic(|me: &Weak<PoolInner>| PoolInner {
            number: u32::try_from(plan.number).ok().and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MAX),
            name_prefix: plan.name_prefix,
            control: Ctl::new(),
            queue: plan.queue,
            idle: IdleWorkers::default(),
            room: BlockedSubmitters::default(),
            rule: plan.rule,
            has_short_way: plan.rule != GrowthRule::Eager && plan.queue_time.is_none(),
            queue_time: plan.queue_time,
            remove_on_cancel: plan.remove_on_cancel,
            hooks: plan.hooks,
            usual_policy: AtomicU8::new(plan.handler.usual as u8),
            handler: Mutex::new(plan.handler),
            factory: Mutex::new(plan.factory),
            core: AtomicUsize::new(plan.settings.core),
            maximum: AtomicUsize::new(plan.settings.maximum),
            core_times_out: AtomicBool::new(plan.settings.core_times_out),
            settings: Mutex::new(plan.settings),
            generation: AtomicU64::new(0),
            workers: Mutex::new(Workers::default()),
            in_queue: Mutex::default(),
            counters: Counters::default(),
            outstanding: AtomicUsize::new(0),
            stranded: AtomicBool::new(false),
            end_watchers: Watchers::default(),
            idle_watchers: Watchers::default(),
            home: OwnerEntry::new(Weak::clone(me) as Weak<dyn TaskOwner>),
        });
        if let TaskQueue::Delayed(delayed) = &pool.queue {
            let weak = Arc::downgrade(&pool);
            delayed.clock().tell(weak);
            delayed.remove_on_cancel.store(plan.remove_on_cancel, Ordering::Relaxed);
        }
        pool
    }

    // ---- settings

    pub(super) fn settings(&self) -> Settings {
        *self.settings.lock()
    }

    #[inline]
    pub(super) fn core_size(&self) -> usize {
        self.core.load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn maximum(&self) -> usize {
        self.maximum.load(Ordering::Relaxed).min(MOST_WORKERS)
    }

    pub(super) fn core_times_out(&self) -> bool {
        self.core_times_out.load(Ordering::Relaxed)
    }

    /// Changes the settings by `change`, if what comes out of it can be; returns them as they were and are.
    pub(super) fn change_settings(
        &self,
        change: impl FnOnce(&mut Settings),
    ) -> Result<(Settings, Settings), ConfigError> {
        let mut settings = self.settings.lock();
        let old = *settings;
        let mut new = old;
        change(&mut new);
        new.check()?;
        *settings = new;
        self.core.store(new.core, Ordering::Relaxed);
        self.maximum.store(new.maximum, Ordering::Relaxed);
        self.core_times_out.store(new.core_times_out, Ordering::Relaxed);
        Ok((old, new))
    }

    /// Makes every idle worker look around: after a change of settings or run state.
    ///
    /// A worker reads the generation, then the settings, lists itself as idle, and reads the generation again. If
    /// it listed itself before our `call_all`, that finds it; if after, it took the list's lock after us and sees
    /// the new generation. Either way no worker sleeps on what it read before.
    pub(super) fn recheck_all(&self) {
        self.generation.fetch_add(1, Ordering::SeqCst);
        self.idle.call_all();
        self.call_all_in_queue();
        self.room.changed();
    }

    fn call_all_in_queue(&self) {
        let in_queue = self.in_queue.lock().take_all(|_| true);
        for listed in in_queue {
            listed.interrupter.interrupt();
        }
    }

    /// Tasks were taken out of the queue by somebody who does not come back for more. A worker that blocks in the queue
    /// may have stayed only for them.
    pub(super) fn after_removal(&self) {
        fence(Ordering::SeqCst); // pairs with the one in `Life::rest_in`
        match &self.queue {
            TaskQueue::Blocking { .. } if self.queue.is_empty() => {
                let stay = |listed: &InQueue| listed.for_tasks.then(|| listed.interrupter.clone());
                let staying: Vec<_> = self.in_queue.lock().iter().filter_map(stay).collect();
                staying.iter().for_each(Interrupter::interrupt);
            }
            TaskQueue::Delayed(_) if self.queue.is_empty() => self.idle.call_if(|options| options.stays),
            _ => {}
        }
        self.tell_if_idle();
        self.try_terminate();
    }

    /// Tasks may wait: makes sure that somebody who is awake will look at them. The caller has done S2.
    pub(super) fn wake_one(&self) {
        match &self.queue {
            TaskQueue::Delayed(delayed) => delayed.ensure_watched(&self.idle),
            TaskQueue::Fifo(_) | TaskQueue::Priority(..) => {
                self.idle.wake_another(|| !self.queue.is_empty(), || self.poll());
            }
            _ => {} // nobody sleeps for what is in a queue
        }
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }

    // ---- the policy

    #[inline]
    pub(super) fn usual_policy(&self) -> BuiltinPolicy {
        BuiltinPolicy::from_u8(self.usual_policy.load(Ordering::Relaxed))
    }

    /// Puts `new` in force, and returns the policy that was.
    pub(super) fn set_policy(&self, new: Handler) -> Handler {
        let mut handler = self.handler.lock();
        self.usual_policy.store(new.usual as u8, Ordering::Relaxed); // under the lock, as all changes of it
        std::mem::replace(&mut *handler, new)
    }

    /// Tells the hooks that a task panicked that no worker runs.
    pub(super) fn tell_panicked(&self, info: &TaskInfo, panic: &Panic) {
        if let Some(hooks) = &self.hooks {
            catch(|| hooks.panicked(info, panic));
        }
    }

    // ---- taking tasks out

    /// The next task for a worker; tells who waits for room.
    pub(super) fn poll(&self) -> Option<Task> {
        let task = self.queue.poll();
        if task.is_some() {
            self.room.made();
        }
        task
    }

    /// A task that was accepted leaves the pool without having run, to whoever asked for it.
    pub(super) fn hand_back(&self, mut tasks: Vec<Task>) -> Vec<Task> {
        if matches!(self.queue, TaskQueue::Delayed(_)) {
            tasks = tasks.into_iter().map(Task::once).collect();
        }
        for task in &tasks {
            task.left();
            self.task_gone();
            self.room.made();
        }
        self.counters.handed_back(tasks.len());
        self.after_removal();
        tasks
    }

    pub(super) fn remove(&self, id: TaskId) -> Option<Task> {
        let task = self.queue.remove(id, None)?;
        self.hand_back(vec![task]).pop()
    }

    /// The policy's victim: the head of the queue.
    pub(super) fn evict(&self) -> Option<Task> {
        let task = self.queue.poll()?;
        self.hand_back(vec![task]).pop()
    }

    /// Takes out all cancelled tasks.
    pub(super) fn purge(&self) -> usize {
        let purged = self.queue.remove_if(Task::is_cancelled);
        let count = purged.len();
        for task in purged {
            self.forget_cancelled(task);
        }
        self.after_removal();
        count
    }

    /// A cancelled task has been taken out of the queue.
    pub(super) fn forget_cancelled(&self, task: Task) {
        self.counters.cancelled_in_queue();
        self.task_gone();
        self.room.made();
        task.drop_caught();
    }

    // ---- shutdown

    pub(super) fn shutdown(self: &Arc<Self>) {
        self.control.advance_to(RunState::Shutdown); // B1
        self.queue.order(); // B2, before `try_terminate` looks at the queue (B3)
        self.throw_out();
        self.recheck_all();
        if self.stranded.load(Ordering::SeqCst) {
            self.rescue_queue();
        }
        self.try_terminate();
    }

    pub(super) fn shutdown_now(&self) -> Vec<Task> {
        self.control.advance_to(RunState::Stop);
        self.queue.order(); // B2
        fence(Ordering::SeqCst); // pairs with the one in `interrupt_if_stopping`
        self.recheck_all();
        self.queue.order_takes(); // see `interrupt_if_stopped`
        self.interrupt_workers();
        // A submit that put its task in before it saw the state takes it back, or finds that we have it.
        self.hand_back(self.queue.drain())
    }

    /// Goes on to Terminated if nothing is left to wait for.
    ///
    /// Called after every step that may have been the last: a worker left, a task was taken out, a spawn failed,
    /// the state advanced.
    pub(super) fn try_terminate(&self) {
        loop {
            let seen = self.control.load();
            let may_end = match seen.state() {
                RunState::Running | RunState::Tidying | RunState::Terminated => false,
                RunState::Shutdown => self.queue.is_empty(), // B3
                RunState::Stop => true,
            };
            if !may_end {
                return;
            }
            if seen.workers() > 0 {
                // One that blocks in its queue may not know that nothing will come any more.
                let newest = self.in_queue.lock().pop_last();
                if let Some(listed) = newest {
                    listed.interrupter.interrupt();
                }
                // Nor one that waits for a time which will not come. It leaves, and asks again for the next.
                if matches!(self.queue, TaskQueue::Delayed(_)) {
                    self.idle.call_one(|| None);
                }
                return;
            }
            if self.workers.lock().has_leavers() {
                return; // the last of them will ask again
            }
            if self.control.try_tidy(seen) {
                return self.terminate();
            }
        }
    }

    fn terminate(&self) {
        if let Some(hooks) = &self.hooks {
            // Inside the hook the pool is not waited for, as inside a task.
            let _inside = WorksForScheduler::new(self.home.number());
            catch(|| hooks.terminated());
        }
        self.control.advance_to(RunState::Terminated);
        self.end_watchers.notify_all();
    }

    pub(super) fn is_terminated(&self) -> bool {
        self.control.load().state() == RunState::Terminated
    }
}

/// A scheduled pool's queue may outlive it, in the memory of who has cancelled there; what waits in it must not.
impl Drop for PoolInner {
    fn drop(&mut self) {
        if let TaskQueue::Delayed(delayed) = &self.queue {
            delayed.remove_if(|_, _| true).into_iter().for_each(Task::drop_caught);
        }
    }
}

impl TaskOwner for PoolInner {
    fn cancelled(&self, id: TaskId, place: &Place) {
        if let TaskQueue::Delayed(delayed) = &self.queue {
            if delayed.remove_cancelled(Removal::new(id, place)).was_last {
                self.emptied();
            }
        } else if self.remove_on_cancel
            && let Some(task) = self.queue.remove(id, Some(place))
        {
            self.forget_cancelled(task);
            self.after_removal();
        }
    }

    fn cancel_queue(&self) -> Option<Arc<dyn CancelQueue>> {
        match &self.queue {
            TaskQueue::Delayed(delayed) => Some(Arc::clone(delayed) as Arc<dyn CancelQueue>),
            _ => None,
        }
    }

    /// One entry is always the last that goes, and whoever takes that one out tells. The rest of `forget_cancelled` is for
    /// pools that are eager or have bounds.
    fn emptied(&self) {
        self.after_removal();
    }

    /// A worker that was called from another processor may have been put behind the one that called it, and stay there for a
    /// millisecond, while the one that becomes free here has nothing to do. So one more is called, from here.
    fn is_waited_for(self: Arc<Self>) -> bool {
        if self.queue.len_if_it_tells().is_some_and(|len| len > self.idle.called()) {
            self.relieve_queue();
        }
        !self.is_stranded()
    }

    fn run_inline(&self, id: TaskId, place: &Place) -> Help {
        worker::run_inline(self, id, place)
    }
}

impl fmt::Debug for PoolInner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolInner")
            .field("number", &self.number)
            .field("control", &self.control.load())
            .field("queue", &self.queue)
            .finish_non_exhaustive()
    }
}
