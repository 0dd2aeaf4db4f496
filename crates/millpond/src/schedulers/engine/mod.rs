//! The one engine behind all schedulers with threads: slots, lanes and timers.
//!
//! A *slot* is the place of one thread, with a line of what waits for it. A *lane* is a worker, or a series without one; it has
//! its home in a slot. Four shapes of slots make the kinds of scheduler: a fixed number of slots (single, parallel), slots that
//! come with demand and go after a time (bounded-elastic), the same with a fresh thread for every task, and slots whose
//! "thread" is a task in somebody else's executor.
//!
//! All of it is under one lock ([`state`]), held for a few instructions and never while user code runs; only what a lane
//! has ready has a lock of its own ([`ready`]). That a submission
//! hands its task straight to a free slot is what makes counts exact: a task that finds a free thread is running from that
//! moment, whenever the thread wakes up.
//!
//! Why nothing is stranded: something enters a line only under the lock, and only if the slot's thread is busy or on its
//! way. A thread looks at its line (and, if work may move, at all lines) under the lock before it parks, and
//! says that it is parked under the same lock; whoever then finds it parked and has work wakes it, or leaves that to somebody
//! who has been woken and has not come yet. Dispose and submit
//! meet under the lock too: either the submission sees the phase, or the dispose sees the task.

mod courier;
mod dispatch;
mod ending;
mod lane;
mod lane_queue;
mod line;
mod scheduler;
mod slot;
mod start;
mod state;
mod submit;
mod threads;

#[cfg(all(test, loom))]
#[path = "../../loom_tests/schedulers.rs"]
mod models;

#[cfg(all(test, not(loom)))]
mod tests;

use std::fmt;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use self::courier::{Courier, Perform, drop_elsewhere};
use self::state::{Deferred, Due, Phase, State};
use super::SchedulerStats;
use super::hooks::{Decorators, SlotInfo};
use super::job::{Job, JobOwner, Location};
use super::waiters::{Ends, Waiters};
use crate::executor::RejectReason;
use crate::interrupt::Interrupted;
use crate::sync::{Arc, AtomicBool, Mutex, MutexGuard, Ordering, Weak, deadline_after};
use crate::task::TaskId;
use crate::task::{Help, OwnerEntry, Place, TaskOwner};
use crate::time::alarm::{Alarm, Ring, RingsOn};
use crate::time::clock::Clock;

pub(super) use self::scheduler::Slots;
pub(super) use self::threads::{NotCarried, ThreadSource, in_non_blocking_thread};

/// How slots come and go.
#[derive(Debug, Clone, Copy)]
pub(super) enum Shape {
    /// There are as many as may be, and each gets its share by turns.
    Fixed,
    /// They come with demand, and go when they were idle for `ttl`.
    Elastic { ttl: Duration },
    /// They come with demand and go with it, and every task has a fresh thread.
    PerTask,
    /// As before; a thread works as long as its line lasts. For threads that are not ours.
    Bursts,
}

/// What a scheduler is made of.
pub(super) struct Plan {
    /// What `Display` writes.
    pub(super) name: String,
    pub(super) shape: Shape,
    /// Work may move from a busy slot to a free one.
    pub(super) soft: bool,
    pub(super) max: usize,
    /// How many tasks may wait for each slot; `usize::MAX`: no bound.
    pub(super) cap: usize,
    pub(super) carrier: ThreadSource,
    pub(super) clock: Clock,
    pub(super) timing: bool,
}

pub(crate) struct Engine {
    name: Arc<str>,
    /// For its threads, to know whom they work for, and for the handles of its tasks, to find it.
    address: OwnerEntry,
    shape: Shape,
    carrier: ThreadSource,
    clock: Clock,
    timing: bool,
    max: usize,
    alarm: Alarm,
    /// Does what the timer thread must not do.
    courier: Courier<Perform>,
    /// Those who wait for the end.
    waiters: Waiters,
    /// An end has begun: a copy of the phase, written under the lock, so that a look does not need it.
    disposed: AtomicBool,
    state: Mutex<State>,
    me: Weak<Engine>,
}

/// Shared by the user's clones and the workers, and not by the threads: when it goes, nobody can submit any more.
pub(super) struct Handle {
    pub(super) engine: Arc<Engine>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.engine.begin_drain();
    }
}

/// Deferred this time a thread that could not be started is tried again, if work relies on it whose submitter is gone.
const SOON: Duration = Duration::from_millis(50);

impl Engine {
    fn new(plan: Plan) -> Arc<Engine> {
        let name: Arc<str> = plan.name.into();
        let cap = if plan.cap == usize::MAX { u64::MAX } else { plan.cap as u64 };
        Arc::new_cyclic(|me: &Weak<Engine>| Engine {
            name: Arc::clone(&name),
            address: OwnerEntry::of_scheduler(Weak::clone(me) as Weak<dyn TaskOwner>),
            shape: plan.shape,
            carrier: plan.carrier,
            alarm: Alarm::new(plan.clock.clone(), Weak::clone(me) as Weak<dyn Ring>),
            clock: plan.clock.clone(),
            timing: plan.timing,
            max: plan.max,
            courier: Courier::new(),
            waiters: Waiters::default(),
            disposed: AtomicBool::new(false),
            state: Mutex::new(State::new(plan.clock, name, plan.shape, plan.soft, plan.max, cap)),
            me: Weak::clone(me),
        })
    }

    fn info(&self, index: usize) -> SlotInfo {
        SlotInfo { scheduler: Arc::clone(&self.name), index }
    }

    // ---- the lock

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Does something under the lock, and afterwards what that left to be done.
    fn locked<R>(self: &Arc<Self>, f: impl FnOnce(&mut State, &mut Deferred) -> R) -> R {
        let (result, after) = self.under_lock(f);
        self.see_to(after);
        result
    }

    /// Does what is to be done without the lock, for work whose submitters are gone.
    fn see_to(self: &Arc<Self>, mut after: Deferred) {
        start::put_off(self, &mut after.carry);
        self.perform(after, |failed| self.nobody_to_tell(&failed));
    }

    fn under_lock<R>(&self, f: impl FnOnce(&mut State, &mut Deferred) -> R) -> (R, Deferred) {
        let mut after = Deferred::default();
        let mut state = self.lock();
        let result = f(&mut state, &mut after);
        after.gone.append(&mut state.gone);
        // Only ever moved forward here: an alarm that rings too early finds nothing to do.
        let next = state.next_time();
        if let Some(next) = next
            && state.alarm.is_none_or(|set| next < set)
            && self.alarm.set(Some(next))
        {
            state.alarm = Some(next);
            // A manual clock may have been moved since we read it, and have looked for alarms before this one was set. It
            // moves first and looks then, we set first and look then: not both can miss the other.
            after.ring = self.clock.tells() && next <= self.clock.tick();
        }
        drop(state);
        (result, after)
    }

    /// Does what is to be done without the lock. Tells `not_carried` of each thread that could not be started: timers that ring
    /// together may need several.
    fn perform(self: &Arc<Self>, after: Deferred, not_carried: impl FnMut(NotCarried)) {
        if after.ring {
            Arc::clone(self).ring(RingsOn::AdvancingThread);
        }
        after.cancel.iter().for_each(|job| job.cancel_taken_out());
        after.end_series.iter().for_each(|job| job.end_series());
        after.wake.iter().for_each(|cell| _ = cell.unpark());
        self.start(after.carry, not_carried);
        if !after.closed.is_empty() {
            self.tell_closed(&after.closed);
        }
        if after.ended {
            self.see_off(); // whether somebody waits for the end or not
            self.waiters.wake_all();
        }
    }

    /// Tells decorators of slots that are gone. A scheduler has not ended before they know.
    #[cold]
    fn tell_closed(self: &Arc<Self>, closed: &[(SlotInfo, Decorators)]) {
        for (slot, decorators) in closed {
            decorators.closed(slot);
        }
        self.locked(|state, after| {
            state.closing -= closed.len();
            state.end_if_done(after);
        });
    }

    /// A thread could not be started for work whose submitter is gone. A thread of our own is tried again soon; if
    /// somebody else's executor refuses, the work is cancelled, and so it is if it has been thrown away meanwhile.
    #[cold]
    fn nobody_to_tell(self: &Arc<Self>, failed: &NotCarried) {
        self.dispose_if_shut_down(failed.reason); // first: what else is in the lane need not be refused one by one
        self.locked(|state, after| {
            if self.carrier.is_ours() && state.phase != Phase::Disposed {
                state.retry = Some(self.clock.tick_after(SOON));
                state.hand_head_to_idle(after); // some thread may have become free since it was found to be busy
            } else if state.slot(failed.slot).is_some_and(|slot| slot.ticket == failed.ticket) {
                state.abandon_slot(failed.slot, after); // nobody has tried again since
            }
            state.end_if_done(after);
        });
    }

    fn dispose_if_shut_down(self: &Arc<Self>, reason: RejectReason) {
        if !self.carrier.is_ours() && reason == RejectReason::Shutdown {
            self.dispose();
        }
    }

    // ---- the end

    pub(super) fn is_disposed(&self) -> bool {
        self.disposed.load(Ordering::Acquire)
    }

    pub(super) fn begin_drain(self: &Arc<Self>) {
        self.locked(|state, after| {
            if state.phase == Phase::Live {
                state.phase = Phase::Draining;
                self.disposed.store(true, Ordering::Release);
                state.until_the_end = Some(Arc::clone(self));
                state.drain(after);
            }
            state.end_if_done(after);
        });
    }

    pub(super) fn dispose(self: &Arc<Self>) {
        let first = self.locked(|state, after| {
            let first = state.phase < Phase::Disposed;
            state.phase = Phase::Disposed;
            self.disposed.store(true, Ordering::Release);
            if first {
                state.throw_out_all(after);
            }
            state.end_if_done(after);
            first
        });
        if first {
            self.carrier.retire(true, &self.name);
        }
    }

    fn wait_for_end(self: &Arc<Self>, timeout: Duration) -> Result<bool, Interrupted> {
        let deadline = deadline_after(timeout);
        let ended = match deadline {
            Some(at) => self.waiters.wait(timeout, || self.is_done())? && self.join_until(at)?,
            None => self.waiters.wait(timeout, || self.has_ended())?,
        };
        if !ended {
            return Ok(false);
        }
        let left = deadline.map_or(Duration::MAX, |at| at.saturating_duration_since(Instant::now()));
        self.carrier.await_retirement(left)
    }

    /// All work is done and no thread looks for more; an executor that is ours has been told.
    fn is_done(&self) -> bool {
        let done = self.lock().has_ended();
        if done {
            self.see_off();
        }
        done
    }

    /// The scheduler has ended: so does an executor that it owns, and its courier.
    fn see_off(&self) {
        self.carrier.retire(false, &self.name);
        if let Some(courier) = self.courier.dismiss() {
            self.lock().exited.push(courier);
        }
    }

    /// Joins the threads, at most until `at`. There is no join that time can end; so it looks again and again whether they have
    /// finished, which is so at once unless whoever starts them goes on with them after their life.
    fn join_until(&self, at: Instant) -> Result<bool, Interrupted> {
        const SHORTEST: Duration = Duration::from_micros(50);
        const LONGEST: Duration = Duration::from_millis(5);
        let mut pause = SHORTEST;
        loop {
            let left = at.saturating_duration_since(Instant::now());
            if self.waiters.wait(pause.min(left), || self.join_threads(JoinHandle::is_finished))? {
                return Ok(true);
            }
            if left.is_zero() {
                return Ok(false);
            }
            pause = LONGEST.min(pause * 2);
        }
    }

    /// Waits for the operating system to be through with those threads that have left and are `ripe`: one
    /// of those who ask does it, and then the others look again. True: none is left.
    fn join_threads(&self, ripe: impl Fn(&JoinHandle<()>) -> bool) -> bool {
        let me = std::thread::current().id();
        let is_me = |thread: &JoinHandle<()>| thread.thread().id() == me;
        let mut state = self.lock();
        let ripe: Vec<_> = state.exited.extract_if(.., |thread| is_me(thread) || ripe(thread)).collect();
        state.joining += ripe.len();
        if ripe.is_empty() {
            return state.exited.is_empty() && state.joining == 0;
        }
        drop(state);
        let joined = ripe.len();
        for thread in ripe.into_iter().filter(|thread| !is_me(thread)) {
            let _ = thread.join(); // a panic of a thread that a factory wrapped around ours is not our affair
        }
        let mut state = self.lock();
        state.joining -= joined;
        let all = state.exited.is_empty() && state.joining == 0;
        drop(state);
        self.waiters.wake_all();
        all
    }

    fn stats(&self) -> SchedulerStats {
        let mut state = self.lock();
        state.shut_all();
        let busy = state.busy();
        SchedulerStats {
            name: self.name.to_string(),
            disposed: state.phase != Phase::Live,
            max_threads: self.max,
            live_threads: state.live_threads,
            slots: state.count,
            busy,
            idle: state.count - busy,
            queued: state.waiting,
            remaining_capacity: state.remaining_capacity(),
            submitted: state.counted.submitted,
            completed: state.counted.completed,
            panicked: state.counted.panicked,
            cancelled: state.counted.cancelled,
            rejected: state.counted.rejected,
        }
    }
}
impl JobOwner for Engine {
    fn cancelled(&self, job: &Arc<Job>) {
        let Some(me) = self.me.upgrade() else { return };
        me.locked(|state, after| {
            if state.take_out(job, after).is_some() {
                state.counted.cancelled += 1;
            }
            state.end_if_done(after);
        });
    }

    fn help(&self, job: &Arc<Job>) {
        if let Some(me) = self.me.upgrade() {
            threads::help(&me, job);
        }
    }

    fn is_behind_this_thread(&self, job: &Arc<Job>) -> bool {
        self.lock().lane_runs_on_this_thread(job.spot())
    }
}

/// For handles of tasks.
impl TaskOwner for Engine {
    fn is_behind_this_thread(&self, id: TaskId, place: &Place) -> bool {
        let state = self.lock();
        let job = state.find_task(id, place.get());
        job.is_some_and(|job| state.lane_runs_on_this_thread(job.spot()))
    }

    fn run_inline(&self, id: TaskId, place: &Place) -> Help {
        self.me.upgrade().map_or(Help::Done, |me| threads::help_to_join(&me, id, place))
    }
}

impl Ring for Engine {
    fn ring(self: Arc<Self>, on: RingsOn) {
        self.alarm.rang();
        let (retries, after) = self.under_lock(|state, after| self.move_due(state, after));
        match on {
            RingsOn::AdvancingThread => self.see_to(after),
            RingsOn::TimerThread => self.leave_to_courier(after, retries),
        }
    }
}

impl Engine {
    /// Moves what is due to where it waits for a thread. True: something is tried again that failed before.
    fn move_due(&self, state: &mut State, after: &mut Deferred) -> bool {
        state.alarm = None;
        let now = self.clock.tick();
        let retries = state.retry.is_some_and(|retry| retry <= now);
        if retries {
            state.retry = None;
            state.retry_threads(after);
        }
        while let Some(due) = state.pop_due(now) {
            match due {
                Due::Lane(lane) => {
                    if let Some(cell) = state.lanes.get_mut(lane) {
                        cell.timer = None;
                    }
                    state.start_lane(lane, after);
                }
                Due::Job(job) => {
                    job.set_spot(Location::Nowhere);
                    let index = state.pick();
                    let permit = state.hold(index);
                    let put = state.put(&job, permit, true, after);
                    debug_assert!(put.is_ok(), "it had a place");
                }
            }
        }
        if let Shape::Elastic { ttl } = self.shape {
            state.evict(now, ttl, after);
        }
        state.end_if_done(after);
        retries
    }

    /// On the timer thread: wakes threads, and leaves everything else to the courier.
    fn leave_to_courier(self: Arc<Self>, mut after: Deferred, retries: bool) {
        after.wake.drain(..).for_each(|cell| _ = cell.unpark());
        let mut sent = if retries { self.courier.start() } else { Ok(()) };
        if after.is_for_courier() {
            sent = self.courier.send(Perform { engine: Arc::clone(&self), after });
        }
        if sent.is_err() {
            self.under_lock(|state, _| state.retry = Some(self.clock.tick_after(SOON)));
        }
        // Whoever had the other references may have dropped them meanwhile: then the rest of the engine is dropped here.
        if let Some(engine) = Arc::into_inner(self) {
            drop_elsewhere(engine);
        }
    }
}

impl Ends for Engine {
    fn begin_drain(&self) {
        if let Some(me) = self.me.upgrade() {
            Engine::begin_drain(&me);
        }
    }

    /// Also for the operating system.
    fn has_ended(&self) -> bool {
        self.is_done() && self.join_threads(|_| true)
    }

    fn waiters(&self) -> &Waiters {
        &self.waiters
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("name", &self.name).finish_non_exhaustive()
    }
}
