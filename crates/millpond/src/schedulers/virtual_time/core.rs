//! [`Core`]: the queue and the time that all instances share, and the execution of due work.

use std::thread::{self, ThreadId};
use std::time::Duration;

use super::instance::Instance;
use crate::executor::RejectReason;
use crate::interrupt::TaskFrame;
use crate::schedulers::end::Phase;
use crate::schedulers::job::{Job, JobOwner, JobRef, Location};
use crate::schedulers::stats::Counters;
use crate::sync::{Arc, Mutex, Weak};
use crate::task::inline::run_inline;
use crate::task::{Help, Outcome, OwnerEntry, Place, TaskId, TaskOwner, WorksForScheduler};
use crate::time::clock::Tick;
use crate::time::heap::{Key, TimerQueue};

/// The state of one worker.
#[derive(Default)]
pub(super) struct LaneCell {
    /// The worker accepts no more work.
    is_closed: bool,
    queued: usize,
}

/// A reference to a worker's state, which is locked only under the lock of the core.
pub(super) type LaneRef = Arc<Mutex<LaneCell>>;

/// A job that waits for its due time or runs.
#[derive(Clone)]
struct Item {
    job: JobRef,
    instance: Arc<Instance>,
    lane: Option<LaneRef>,
}

/// Selects items by their owner.
#[derive(Clone, Copy)]
pub(super) enum OwnedBy<'a> {
    Instance(&'a Instance),
    Lane(&'a LaneRef),
}

impl OwnedBy<'_> {
    fn includes(self, item: &Item) -> bool {
        match self {
            OwnedBy::Instance(instance) => instance.is_root() || std::ptr::eq(instance, &*item.instance),
            OwnedBy::Lane(lane) => item.lane.as_ref().is_some_and(|mine| Arc::ptr_eq(mine, lane)),
        }
    }
}

pub(super) struct Core {
    state: Mutex<State>,
    /// The instance that owns the time.
    root: Arc<Instance>,
    /// Task handles find this scheduler by this entry.
    owner: OwnerEntry,
    me: Weak<Core>,
}

struct State {
    now: Tick,
    /// The time at which the advance under way ends; never before `now`.
    target: Tick,
    /// The thread that runs due work.
    advancing: Option<ThreadId>,
    queue: TimerQueue<Item>,
    /// Periodic items with a period of zero that have already run at the current time. They are due
    /// as soon as the time moves.
    resting: TimerQueue<Item>,
    last_number: u64,
    /// The running items, outermost first.
    running: Vec<Item>,
}

impl Core {
    pub(super) fn new(root: Arc<Instance>) -> Arc<Core> {
        let start = Tick::from_nanos(0);
        Arc::new_cyclic(|me: &Weak<Core>| Core {
            state: Mutex::new(State {
                now: start,
                target: start,
                advancing: None,
                queue: TimerQueue::new(),
                resting: TimerQueue::new(),
                last_number: 0,
                running: Vec::new(),
            }),
            root,
            owner: OwnerEntry::of_scheduler(Weak::clone(me) as Weak<dyn TaskOwner>),
            me: Weak::clone(me),
        })
    }

    pub(super) fn root(&self) -> &Arc<Instance> {
        &self.root
    }

    pub(super) fn owner_number(&self) -> u64 {
        self.owner.number()
    }

    pub(super) fn job_owner(&self) -> Weak<dyn JobOwner> {
        Weak::clone(&self.me) as Weak<dyn JobOwner>
    }

    pub(super) fn now(&self) -> Tick {
        self.state.lock().now
    }

    pub(super) fn is_advanced_by_this_thread(&self) -> bool {
        self.state.lock().advancing == Some(thread::current().id())
    }

    // ---- figures and phases

    /// Returns the phase of an instance, which ends no later than the root.
    pub(super) fn phase_of(&self, instance: &Instance) -> Phase {
        self.root.phase().max(instance.phase())
    }

    pub(super) fn counters_of(&self, instance: &Instance) -> Counters {
        let _state = self.state.lock();
        instance.counters()
    }

    /// Counts a refused submission.
    pub(super) fn count_rejected(&self, instance: &Instance, reason: RejectReason) {
        let _state = self.state.lock();
        self.count(instance, |counters| counters.reject(reason));
    }

    /// Counts for an instance and for the root. Requires the core's lock.
    fn count(&self, instance: &Instance, change: impl Fn(&mut Counters)) {
        instance.count(&change);
        if !instance.is_root() {
            self.root.count(&change);
        }
    }

    fn wake_waiters(&self, instance: &Instance) {
        instance.lifecycle().waiters().wake_all();
        if !instance.is_root() {
            self.root.lifecycle().waiters().wake_all();
        }
    }

    /// Returns the reason to refuse a submission now, or `None` if it can be accepted.
    pub(super) fn refusal(&self, instance: &Instance, lane: Option<&LaneRef>) -> Option<RejectReason> {
        let _state = self.state.lock();
        self.refusal_under_lock(instance, lane)
    }

    fn refusal_under_lock(&self, instance: &Instance, lane: Option<&LaneRef>) -> Option<RejectReason> {
        match lane {
            _ if self.phase_of(instance) != Phase::Live => Some(RejectReason::Shutdown),
            Some(lane) if lane.lock().is_closed => Some(RejectReason::WorkerDisposed),
            _ => None,
        }
    }

    // ---- submitting and removing

    /// Accepts a job that is due after `delay`.
    pub(super) fn submit(
        &self,
        job: &JobRef,
        instance: &Arc<Instance>,
        lane: Option<&LaneRef>,
        delay: Duration,
    ) -> Result<(), RejectReason> {
        let mut state = self.state.lock();
        if let Some(reason) = self.refusal_under_lock(instance, lane) {
            return Err(reason);
        }
        let (job, instance) = (job.clone(), Arc::clone(instance));
        let due = state.now.plus(delay);
        self.accept(&mut state, Item { job, instance, lane: lane.cloned() }, Some(due));
        Ok(())
    }

    /// Accepts an item that waits until `due`, or until the time moves if `due` is `None`.
    fn accept(&self, state: &mut State, item: Item, due: Option<Tick>) {
        self.count(&item.instance, Counters::accept);
        if let Some(lane) = &item.lane {
            lane.lock().queued += 1;
        }
        state.insert(item, due);
    }

    /// Advances the phase of an instance. On a disposal, removes all its items and interrupts
    /// running ones. On a graceful end, removes only periodic items.
    pub(super) fn end(&self, instance: &Instance, phase: Phase) {
        let mut state = self.state.lock();
        instance.lifecycle().advance(phase);
        let owner = OwnedBy::Instance(instance);
        let removed = self.remove(&mut state, owner, phase != Phase::Disposed);
        let running = state.running_of(owner);
        drop(state);
        self.cancel_removed(&removed);
        match phase {
            Phase::Disposed => Job::cancel_all_removed(&running),
            _ => running.iter().filter(|job| job.is_periodic()).for_each(|job| job.end_after_run()),
        }
        self.wake_waiters(instance);
    }

    /// Closes a lane: removes its items and interrupts the running one.
    pub(super) fn close_lane(&self, lane: &LaneRef) {
        let mut state = self.state.lock();
        lane.lock().is_closed = true;
        let removed = self.remove(&mut state, OwnedBy::Lane(lane), false);
        let running = state.running_of(OwnedBy::Lane(lane));
        drop(state);
        self.cancel_removed(&removed);
        Job::cancel_all_removed(&running);
    }

    pub(super) fn queued_in(&self, lane: &LaneRef) -> usize {
        let _state = self.state.lock();
        lane.lock().queued
    }

    /// Removes all items of an owner, or only the periodic ones.
    fn remove(&self, state: &mut State, owner: OwnedBy<'_>, only_periodic: bool) -> Vec<Item> {
        let selected = |item: &Item| owner.includes(item) && (item.job.is_periodic() || !only_periodic);
        let mut items = state.queue.remove_if(selected);
        items.extend(state.resting.remove_if(selected));
        for item in &items {
            leave_queue(item);
            self.count(&item.instance, Counters::cancel);
        }
        items
    }

    /// Cancels the jobs of removed items. This may end their instances, so their waiters are woken.
    fn cancel_removed(&self, items: &[Item]) {
        items.iter().for_each(|item| _ = item.job.cancel_removed());
        items.iter().for_each(|item| self.wake_waiters(&item.instance));
    }

    // ---- running

    /// Moves the target time. Runs the work that is due up to it, unless another call is already
    /// doing so.
    pub(super) fn advance(&self, to: impl FnOnce(Tick) -> Tick) {
        /// The last possible time. `u64::MAX` means never.
        const LAST: u64 = u64::MAX - 1;
        let mut state = self.state.lock();
        state.target = to(state.target).min(Tick::from_nanos(LAST));
        if state.advancing.is_some() {
            return;
        }
        let _works = WorksForScheduler::new(self.owner.number());
        state.advancing = Some(thread::current().id());
        state.wake_resting();
        while let Some((due, item)) = state.pop_next() {
            self.start(&mut state, &item);
            drop(state);
            self.run(due, &item);
            state = self.state.lock();
        }
        state.advancing = None;
    }

    fn start(&self, state: &mut State, item: &Item) {
        leave_queue(item);
        self.count(&item.instance, Counters::start);
        state.running.push(item.clone());
    }

    /// Runs an item that has been started.
    fn run(&self, due: Tick, item: &Item) {
        let job = &item.job;
        let frame = TaskFrame::enter();
        let end = job.run(&mut |run| run(), &|_, _| {});
        drop(frame);
        let again = end.is_some_and(|end| end.again);
        let mut state = self.state.lock();
        state.running.retain(|running| !running.job.is(job));
        let outcome = end.map_or(Outcome::Cancelled, |end| end.outcome);
        self.count(&item.instance, |counters| counters.end(outcome));
        let accepts = self.refusal_under_lock(&item.instance, item.lane.as_ref()).is_none();
        // A cancel after this check finds the job in the queue.
        if again && accepts && !job.is_cancelled() {
            let now = state.now;
            let next = job.schedule().map(|schedule| schedule.next(due, now)).filter(|next| *next > now);
            self.accept(&mut state, item.clone(), next);
        }
        drop(state);
        if end.is_some() && !again {
            job.finish();
        } else if again && !accepts {
            job.end_after_run();
        }
        self.wake_waiters(&item.instance);
    }

    /// As `run`, inside another task. The calling thread may be a temporary one that acts for the
    /// advancing thread.
    fn run_nested(&self, due: Tick, item: &Item) {
        let before = self.state.lock().advancing.replace(thread::current().id());
        self.run(due, item);
        self.state.lock().advancing = before;
    }

    /// Takes the item that must run next for `job` to be done: the job itself, or the head of its
    /// lane. Returns `None` if the job cannot run now.
    fn claim(&self, job: &JobRef) -> Option<(Tick, Item)> {
        let mut state = self.state.lock();
        let (due, item) = state.claim(job)?;
        self.start(&mut state, &item);
        Some((due, item))
    }
}

/// Records that an item has left the queues.
fn leave_queue(item: &Item) {
    item.job.set_location(Location::Nowhere);
    if let Some(lane) = &item.lane {
        lane.lock().queued -= 1;
    }
}

impl State {
    fn insert(&mut self, item: Item, due: Option<Tick>) {
        self.last_number += 1;
        let (job, number) = (item.job.clone(), self.last_number);
        let key = match due {
            Some(due) => self.queue.insert(due, number, item),
            None => self.resting.insert(self.now, number, item),
        };
        job.set_location(Location::Timers(key));
    }

    fn wake_resting(&mut self) {
        while let Some((_, _, item)) = self.resting.pop() {
            self.insert(item, Some(self.now));
        }
    }

    /// Returns the next item of the advance under way, with its due time. Moves the time to it.
    fn pop_next(&mut self) -> Option<(Tick, Item)> {
        loop {
            if let Some((due, _, item)) = self.queue.pop_due(self.now) {
                return Some((due, item));
            }
            let next = self.queue.first_due().map_or(self.target, |due| due.min(self.target));
            if next == self.now {
                return None;
            }
            self.now = next;
            self.wake_resting();
        }
    }

    fn running_of(&self, owner: OwnedBy<'_>) -> Vec<JobRef> {
        self.running.iter().filter(|item| owner.includes(item)).map(|item| item.job.clone()).collect()
    }

    fn claim(&mut self, job: &JobRef) -> Option<(Tick, Item)> {
        let first = self.first_to_run(job)?;
        let due = self.queue.due(first)?; // not later than the due time of the job
        let item = self.queue.remove(first)?;
        Some((due, item))
    }

    /// Returns the item that must run next for `job` to be done. `None` if the job cannot run now:
    /// it is not due, is periodic, or its lane is in a run.
    fn first_to_run(&self, job: &JobRef) -> Option<Key> {
        let Location::Timers(key) = job.location() else { return None };
        let wanted = self.queue.get(key).filter(|item| item.job.is(job))?;
        if job.is_periodic() || self.queue.due(key)? > self.now {
            return None;
        }
        match &wanted.lane {
            Some(lane) if !self.running_of(OwnedBy::Lane(lane)).is_empty() => None,
            Some(lane) => self.first_of(OwnedBy::Lane(lane)),
            None => Some(key),
        }
    }

    fn first_of(&self, owner: OwnedBy<'_>) -> Option<Key> {
        let mut first = None;
        self.queue.for_each(|_, item| {
            if first.is_none() && owner.includes(item) {
                first = Some(item.job.location());
            }
        });
        match first? {
            Location::Timers(key) => Some(key),
            _ => None,
        }
    }

    /// Returns the waiting job of a task. Tasks with handles run once, so they never rest.
    fn find_task(&self, id: TaskId) -> Option<&JobRef> {
        self.queue.find(|item| item.job.is_of(id)).map(|item| &item.job)
    }

    /// Removes the item of `job` from its queue. Keys of the two queues may be equal, so compare
    /// the job too.
    fn remove_job(&mut self, job: &JobRef) -> Option<Item> {
        let Location::Timers(key) = job.location() else { return None };
        let is_it = |item: Option<&Item>| item.is_some_and(|item| item.job.is(job));
        if is_it(self.queue.get(key)) {
            self.queue.remove(key)
        } else if is_it(self.resting.get(key)) {
            self.resting.remove(key)
        } else {
            None
        }
    }
}

impl JobOwner for Core {
    fn cancelled(&self, job: &JobRef) {
        let mut state = self.state.lock();
        let Some(item) = state.remove_job(job) else { return };
        leave_queue(&item);
        self.count(&item.instance, Counters::cancel);
        drop(state);
        self.wake_waiters(&item.instance);
    }

    fn help(&self, job: &JobRef, _: &dyn Fn() -> bool) {
        if !self.is_advanced_by_this_thread() {
            return;
        }
        while let Some((due, item)) = self.claim(job) {
            run_inline(|| self.run_nested(due, &item));
        }
    }

    /// Asked after `help`, so a job that is still pending cannot run now. Only this thread runs
    /// work and moves the time, so nothing changes that before the current task returns.
    fn is_behind_this_thread(&self, job: &JobRef) -> bool {
        self.is_advanced_by_this_thread() && job.is_pending()
    }
}

/// Lets a task that joins another task run it in place.
impl TaskOwner for Core {
    /// Asked before `run_inline`, so work that can run now is not behind this thread.
    fn is_behind_this_thread(&self, id: TaskId, _: &Place) -> bool {
        let state = self.state.lock();
        state.advancing == Some(thread::current().id())
            && state.find_task(id).is_some_and(|job| state.first_to_run(job).is_none())
    }

    fn run_inline(&self, id: TaskId, _: &Place) -> Help {
        let found = self.state.lock().find_task(id).cloned();
        if let Some(job) = found {
            JobOwner::help(self, &job, &|| false);
        }
        Help::Done
    }
}
