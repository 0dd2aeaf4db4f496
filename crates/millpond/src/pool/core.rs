//! What the users' handles and the workers share: admission of tasks, settings, shutdown and termination.
//!
//! The README beside this file tells the protocols; here each step carries the name it has there.

use std::fmt;
use std::io;
use std::time::Duration;

use super::ctl::{Ctl, MOST_WORKERS, RunState, Snapshot};
use super::feed::Feed;
use super::growth::{self, Admission, GrowthRule, Load};
use super::hooks::{Hooks, ThreadFactory, call_quietly};
use super::idle::Idle;
use super::policy::Handler;
use super::room::Room;
use super::stats::Counters;
use super::worker::{self, NotAdded, Roster};
use crate::ConfigError;
use crate::executor::{PoolFacts, RejectReason, Rejected};
use crate::handle::{Help, Home};
use crate::interrupt::{Interrupted, Interrupter, Sleeper, Wake};
use crate::sync::{
    Arc, AtomicBool, AtomicU64, AtomicUsize, Mutex, Ordering, Weak, deadline_after, fence, mutant,
};
use crate::task::{Task, TaskId};

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

pub(super) struct PoolCore {
    /// N in `pool-N`.
    pub(super) number: u64,
    pub(super) name_prefix: String,
    pub(super) ctl: Ctl,
    pub(super) feed: Feed,
    pub(super) idle: Idle,
    pub(super) room: Room,
    pub(super) rule: GrowthRule,
    pub(super) remove_on_cancel: bool,
    pub(super) hooks: Option<Arc<dyn Hooks>>,
    pub(super) handler: Mutex<Handler>,
    pub(super) factory: Mutex<Arc<ThreadFactory>>,
    /// The truth about the settings; changes are made under this lock, so that each sees the others whole.
    settings: Mutex<Settings>,
    /// Copies of core, maximum and core time-out, for a look without the lock.
    core: AtomicUsize,
    maximum: AtomicUsize,
    core_times_out: AtomicBool,
    /// Grows with every change that an idle worker must react to: settings, run state.
    generation: AtomicU64,
    pub(super) roster: Mutex<Roster>,
    /// The workers that block in a queue of the `Blocking` kind, so that they can be made to look around.
    pub(super) in_queue: Mutex<Vec<(Arc<Sleeper>, Interrupter)>>,
    pub(super) counters: Counters,
    /// Eager pools only: tasks accepted and not settled. Lowered before a handle resolves, so that a
    /// submit after a join finds the worker free.
    outstanding: AtomicUsize,
    /// Threads in `await_termination`.
    waiting_for_end: Mutex<Vec<Arc<Sleeper>>>,
    home: Weak<dyn Home>,
}

/// What a builder has gathered.
pub(super) struct Plan {
    pub(super) number: u64,
    pub(super) name_prefix: String,
    pub(super) settings: Settings,
    pub(super) feed: Feed,
    pub(super) rule: GrowthRule,
    pub(super) remove_on_cancel: bool,
    pub(super) hooks: Option<Arc<dyn Hooks>>,
    pub(super) handler: Handler,
    pub(super) factory: Arc<ThreadFactory>,
}

/// A task that was not taken, and why.
pub(super) struct Refusal {
    pub(super) task: Task,
    pub(super) reason: RejectReason,
    pub(super) source: Option<io::Error>,
}

impl Refusal {
    pub(super) fn new(task: Task, reason: RejectReason) -> Self {
        Refusal { task, reason, source: None }
    }
}

/// Eager pools only: counts a task in, and out again if it is not accepted, also when a queue of the user's panics.
struct Counted<'a>(&'a PoolCore);

impl<'a> Counted<'a> {
    fn new(pool: &'a PoolCore) -> Self {
        if pool.rule == GrowthRule::Eager {
            pool.outstanding.fetch_add(1, Ordering::SeqCst);
        }
        Counted(pool)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.task_gone();
    }
}

impl PoolCore {
    pub(super) fn new(plan: Plan) -> Arc<PoolCore> {
        Arc::new_cyclic(|me: &Weak<PoolCore>| PoolCore {
            number: plan.number,
            name_prefix: plan.name_prefix,
            ctl: Ctl::new(),
            feed: plan.feed,
            idle: Idle::default(),
            room: Room::default(),
            rule: plan.rule,
            remove_on_cancel: plan.remove_on_cancel,
            hooks: plan.hooks,
            handler: Mutex::new(plan.handler),
            factory: Mutex::new(plan.factory),
            core: AtomicUsize::new(plan.settings.core),
            maximum: AtomicUsize::new(plan.settings.maximum),
            core_times_out: AtomicBool::new(plan.settings.core_times_out),
            settings: Mutex::new(plan.settings),
            generation: AtomicU64::new(0),
            roster: Mutex::new(Roster::default()),
            in_queue: Mutex::new(Vec::new()),
            counters: Counters::default(),
            outstanding: AtomicUsize::new(0),
            waiting_for_end: Mutex::new(Vec::new()),
            home: Weak::clone(me) as Weak<dyn Home>,
        })
    }

    // ---- settings

    pub(super) fn settings(&self) -> Settings {
        *self.settings.lock()
    }

    pub(super) fn core_size(&self) -> usize {
        self.core.load(Ordering::Relaxed)
    }

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
    pub(super) fn look_around(&self) {
        self.generation.fetch_add(1, Ordering::SeqCst);
        self.idle.call_all();
        self.call_all_in_queue();
        self.room.changed();
    }

    fn call_all_in_queue(&self) {
        let in_queue = std::mem::take(&mut *self.in_queue.lock());
        for (_, interrupter) in in_queue {
            interrupter.interrupt();
        }
    }

    /// Tasks were taken out of the queue by somebody who is not a worker. One that blocks in the queue may have stayed
    /// only for them.
    fn taken_out(&self) {
        if matches!(self.feed, Feed::Blocking { .. }) && self.feed.is_empty() {
            self.call_all_in_queue();
        }
        self.try_terminate();
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }

    // ---- admission

    /// Takes `task` by the growth rule, or says why not.
    pub(super) fn admit(self: &Arc<Self>, task: Task) -> Result<(), Refusal> {
        self.admit_as(task, false)
    }

    /// As `admit`. `in_earnest`: asks the queue itself for room, under its lock, and does not trust the look
    /// from outside; the argument in `room.rs` needs that.
    fn admit_as(self: &Arc<Self>, task: Task, in_earnest: bool) -> Result<(), Refusal> {
        let counted = Counted::new(self);
        task.entered(&self.home);
        let placed = self.place(task, in_earnest);
        match &placed {
            Ok(()) => std::mem::forget(counted), // until it is settled
            Err(refusal) => refusal.task.left(),
        }
        placed
    }

    fn place(self: &Arc<Self>, mut task: Task, in_earnest: bool) -> Result<(), Refusal> {
        let mut room = in_earnest.then_some(true);
        loop {
            let seen = self.ctl.load();
            if !seen.is_running() {
                return Err(Refusal::new(task, RejectReason::Shutdown));
            }
            if self.feed.takes_all() {
                return self.enqueue(task, seen);
            }
            let queue_has_room = room.unwrap_or_else(|| self.feed.has_room(&self.idle));
            if !queue_has_room && self.relieve_queue() {
                room = in_earnest.then_some(true);
                continue;
            }
            let load = Load {
                workers: seen.workers(),
                core: self.core_size(),
                maximum: self.maximum(),
                queue_has_room,
                worker_is_free: self.outstanding() <= seen.workers(),
            };
            let limit = match growth::admit(self.rule, load) {
                Admission::Reject => return Err(Refusal::new(task, RejectReason::Saturated)),
                Admission::Queue => {
                    let id = task.id();
                    match self.feed.offer(task, &self.idle) {
                        Ok(()) => return self.published(id),
                        Err(back) => {
                            task = back;
                            room = Some(false);
                            continue;
                        }
                    }
                }
                Admission::CoreThread => worker::Limit::Core,
                Admission::ExtraThread => worker::Limit::Maximum,
            };
            // An eager pool that has grown meanwhile may have a free worker now.
            let only_if = (self.rule == GrowthRule::Eager).then_some(seen);
            match self.add_worker_if(only_if, Some(task), limit) {
                Ok(()) => return Ok(()),
                Err(NotAdded { first, cause }) => {
                    task = first.expect("a worker that was not added gives its first task back");
                    if let Some(error) = cause {
                        return self.queue_instead(task, error);
                    }
                    // A limit was reached or the state changed under our hands: decide anew.
                }
            }
        }
    }

    /// A full queue, and a worker that sleeps or is just falling asleep: it can have the next task.
    fn relieve_queue(&self) -> bool {
        matches!(self.feed, Feed::Fifo(_)) && self.idle.relieve(|| self.poll())
    }

    /// A thread for `task` could not be started: if others live they may have it, else it goes back.
    #[cold]
    fn queue_instead(self: &Arc<Self>, task: Task, error: io::Error) -> Result<(), Refusal> {
        let id = task.id();
        let offered =
            if self.ctl.load().workers() == 0 { Err(task) } else { self.feed.offer(task, &self.idle) };
        match offered {
            Ok(()) => self.published(id),
            Err(task) => Err(Refusal { task, reason: RejectReason::SpawnFailed, source: Some(error) }),
        }
    }

    /// For a queue that every task passes through: puts it there, and starts threads for it as if it had not.
    fn enqueue(self: &Arc<Self>, task: Task, seen: Snapshot) -> Result<(), Refusal> {
        let id = task.id();
        if let Err(task) = self.feed.offer(task, &self.idle) {
            return Err(Refusal::new(task, RejectReason::Saturated));
        }
        if seen.workers() < self.core_size() {
            // If it fails, `published` sees to it that there is one at least.
            let _ = self.add_worker(None, worker::Limit::Core);
        }
        self.published(id)
    }

    /// The task `id` is in the queue (A1): makes sure that somebody will take it from there.
    ///
    /// Against `shutdown` (B1 sets the run state, B2 fence, B3 looks at the queue): one fence is first. If ours, B3
    /// sees the task, and the pool does not end before it has run. If theirs, A3 sees the state and we
    /// take the task back. Model: `loom_tests::pool::submit_against_shutdown`.
    ///
    /// Against the last worker's leaving (C1 lowers the count, C2 fence, C3 looks at the queue): if our fence
    /// is first, C3 sees the task and the worker stays; if theirs, A3 sees no worker and we add one. Model:
    /// `loom_tests::pool::submit_against_last_worker_leaves`.
    ///
    /// Against a worker falling asleep: see `idle.rs`, where this fence is S2.
    fn published(self: &Arc<Self>, id: TaskId) -> Result<(), Refusal> {
        if mutant("publish_and_hope") {
            self.idle.call_one(|| self.poll());
            return Ok(());
        }
        fence(Ordering::SeqCst); // A2
        let seen = self.ctl.load(); // A3
        if !seen.is_running() {
            return self.take_back_at_shutdown(id);
        }
        if seen.workers() == 0 {
            self.revive(id)?;
        }
        if !matches!(self.feed, Feed::HandOver) {
            self.idle.call_one(|| self.poll());
        }
        Ok(())
    }

    #[cold]
    fn take_back_at_shutdown(&self, id: TaskId) -> Result<(), Refusal> {
        match self.feed.take_back(id) {
            Some(task) => {
                self.try_terminate(); // it may have been the last thing to wait for
                Err(Refusal::new(task, RejectReason::Shutdown))
            }
            None => Ok(()), // a worker has it, or `shutdown_now` has handed it back
        }
    }

    /// The queue has the task `id`, and there is no worker.
    #[cold]
    fn revive(self: &Arc<Self>, id: TaskId) -> Result<(), Refusal> {
        let Err(NotAdded { cause: Some(error), .. }) = self.add_worker(None, worker::Limit::Maximum) else {
            return Ok(()); // there is one now, ours or somebody else's, or the pool is being shut down
        };
        if self.ctl.load().workers() > 0 {
            return Ok(()); // the second try was more lucky
        }
        match self.feed.take_back(id) {
            Some(task) => Err(Refusal { task, reason: RejectReason::SpawnFailed, source: Some(error) }),
            None => Ok(()),
        }
    }

    /// Hands `task` in as soon as there is room for it, waiting at most `timeout`.
    pub(super) fn admit_when_room(
        self: &Arc<Self>,
        mut task: Task,
        timeout: Duration,
    ) -> Result<(), Refusal> {
        let me = Sleeper::current();
        let deadline = deadline_after(timeout);
        let ticket = self.room.take_ticket(&me);
        loop {
            ticket.about_to_try();
            fence(Ordering::SeqCst); // for room that is made by a worker's leaving; pairs with `worker::leave`
            match self.admit_as(task, !mutant("guess_room")) {
                Err(refusal) if refusal.reason == RejectReason::Saturated => task = refusal.task,
                decided => return decided,
            }
            match me.wait(deadline, || ticket.is_called()) {
                Wake::Ready => {}
                Wake::TimedOut => return Err(Refusal::new(task, RejectReason::Saturated)),
                Wake::Interrupted => {
                    me.restore_interrupt();
                    return Err(Refusal::new(task, RejectReason::Interrupted));
                }
            }
        }
    }

    /// Eager pools only: tasks accepted or about to be, and not settled. If there are as many workers, each has one
    /// or will.
    fn outstanding(&self) -> usize {
        self.outstanding.load(Ordering::SeqCst)
    }

    /// A task that was counted in is settled, or leaves without having run.
    pub(super) fn task_gone(&self) {
        if self.rule == GrowthRule::Eager {
            self.outstanding.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// What an error message wants to know.
    pub(super) fn facts(&self) -> PoolFacts {
        PoolFacts {
            number: self.number,
            pool_size: self.ctl.load().workers(),
            maximum: self.maximum(),
            queued: self.feed.len(),
        }
    }

    pub(super) fn rejected(&self, refusal: Refusal) -> Rejected {
        let rejected = Rejected::new(refusal.task, refusal.reason).by(self.facts());
        match refusal.source {
            Some(source) => rejected.because(source),
            None => rejected,
        }
    }

    // ---- taking tasks out

    /// The next task for a worker; tells who waits for room.
    pub(super) fn poll(&self) -> Option<Task> {
        let task = self.feed.poll()?;
        self.room.made();
        Some(task)
    }

    /// A task that was accepted leaves the pool without having run, to whoever asked for it.
    pub(super) fn hand_back(&self, tasks: Vec<Task>) -> Vec<Task> {
        for task in &tasks {
            task.left();
            self.task_gone();
            self.room.made();
        }
        self.counters.handed_back(tasks.len());
        self.taken_out();
        tasks
    }

    pub(super) fn remove(&self, id: TaskId) -> Option<Task> {
        let task = self.feed.remove(id, None)?;
        self.hand_back(vec![task]).pop()
    }

    /// The policy's victim: the head of the queue.
    pub(super) fn evict(&self) -> Option<Task> {
        let task = self.feed.poll()?;
        self.hand_back(vec![task]).pop()
    }

    /// Takes out all cancelled tasks.
    pub(super) fn purge(&self) -> usize {
        let purged = self.feed.remove_if(Task::is_cancelled);
        let count = purged.len();
        for task in purged {
            self.forget_cancelled(task);
        }
        self.taken_out();
        count
    }

    /// A cancelled task has been taken out of the queue.
    fn forget_cancelled(&self, task: Task) {
        self.counters.cancelled_in_queue();
        self.task_gone();
        self.room.made();
        task.drop_quietly();
    }

    // ---- shutdown

    pub(super) fn shutdown(self: &Arc<Self>) {
        self.ctl.advance_to(RunState::Shutdown); // B1
        fence(Ordering::SeqCst); // B2, before `try_terminate` looks at the queue (B3)
        self.look_around();
        self.rescue_queue();
        self.try_terminate();
    }

    pub(super) fn shutdown_now(&self) -> Vec<Task> {
        self.ctl.advance_to(RunState::Stop);
        fence(Ordering::SeqCst);
        self.look_around();
        self.interrupt_workers();
        // A submit that put its task in before it saw the state takes it back, or finds that we have it.
        self.hand_back(self.feed.drain())
    }

    /// Goes on to Terminated if nothing is left to wait for.
    ///
    /// Called after every step that may have been the last: a worker left, a task was taken out, a spawn failed,
    /// the state advanced.
    pub(super) fn try_terminate(&self) {
        loop {
            let seen = self.ctl.load();
            let may_end = match seen.state() {
                RunState::Running | RunState::Tidying | RunState::Terminated => false,
                RunState::Shutdown => self.feed.is_empty(), // B3
                RunState::Stop => true,
            };
            if !may_end {
                return;
            }
            if seen.workers() > 0 {
                // One that blocks in its queue may not know that nothing will come any more.
                let sleeper = self.in_queue.lock().pop();
                if let Some((_, interrupter)) = sleeper {
                    interrupter.interrupt();
                }
                return;
            }
            if self.roster.lock().has_leavers() {
                return; // the last of them will ask again
            }
            if self.ctl.try_tidy(seen) {
                return self.terminate();
            }
        }
    }

    fn terminate(&self) {
        if let Some(hooks) = &self.hooks {
            call_quietly(|| hooks.terminated());
        }
        self.ctl.advance_to(RunState::Terminated);
        // Whoever listed itself before this sees no state yet and is woken here; whoever lists itself after takes
        // the lock after us, and sees the state.
        for waiting in std::mem::take(&mut *self.waiting_for_end.lock()) {
            waiting.unpark();
        }
    }

    pub(super) fn is_terminated(&self) -> bool {
        self.ctl.load().state() == RunState::Terminated
    }

    pub(super) fn await_termination(&self, timeout: Duration) -> Result<bool, Interrupted> {
        if self.is_terminated() || timeout.is_zero() {
            return Ok(self.is_terminated());
        }
        let me = Sleeper::current();
        self.waiting_for_end.lock().push(Arc::clone(&me));
        let wake = me.wait(deadline_after(timeout), || self.is_terminated());
        self.waiting_for_end.lock().retain(|waiting| !Arc::ptr_eq(waiting, &me));
        match wake {
            Wake::Ready => Ok(true),
            Wake::TimedOut => Ok(false),
            Wake::Interrupted => Err(Interrupted),
        }
    }
}

impl Home for PoolCore {
    fn cancelled(&self, id: TaskId, place: u64) {
        if !self.remove_on_cancel {
            return;
        }
        if let Some(task) = self.feed.remove(id, Some(place)) {
            self.forget_cancelled(task);
            self.taken_out();
        }
    }

    fn run_here(&self, id: TaskId, place: u64) -> Help {
        worker::run_here(self, id, place)
    }
}

impl fmt::Debug for PoolCore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolCore")
            .field("number", &self.number)
            .field("ctl", &self.ctl.load())
            .field("feed", &self.feed)
            .finish_non_exhaustive()
    }
}
