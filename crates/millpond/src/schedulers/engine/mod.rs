//! The one engine behind all schedulers with threads: slots, lanes and timers.
//!
//! A *slot* is the place of one thread, with a line of what waits for it. A *lane* is a worker, or a series without one; it has
//! its home in a slot. Four shapes of slots make the kinds of scheduler: a fixed number of slots (single, parallel), slots that
//! come with demand and go after a time (bounded-elastic), the same with a fresh thread for every task, and slots whose
//! "thread" is a task in somebody else's executor.
//!
//! All of it is under one lock ([`state`]), held for a few instructions and never while user code runs. That a submission
//! hands its task straight to a free slot is what makes counts exact: a task that finds a free thread is running from that
//! moment, whenever the thread wakes up.
//!
//! Why nothing is stranded: something enters a line only under the lock, and only if the slot's thread is busy or on its
//! way. A thread looks at its line (and, if work may move, at all lines) under the lock before it parks, and
//! says that it is parked under the same lock; whoever then finds it parked and has work wakes it. Dispose and submit
//! meet under the lock too: either the submission sees the phase, or the dispose sees the task.

mod lane;
mod state;
mod thread;

#[cfg(all(test, loom))]
#[path = "../../loom_tests/schedulers.rs"]
mod models;

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use self::lane::LaneHandle;
use self::state::{After, EndWaiter, Full, Phase, SlotRef, State, Thread, Timed};
use super::hooks::{self, Decorators};
use super::job::{Disposable, Job, JobHome, Spot, Work};
use super::{Scheduler, SchedulerStats, Worker};
use crate::clock::Clock;
use crate::executor::{RejectReason, Rejected, SchedulerFacts};
use crate::interrupt::{Interrupted, Sleeper, Wake};
use crate::periodic::{PeriodicTask, Rhythm};
use crate::sync::{Arc, Mutex, MutexGuard, Weak, deadline_after};
use crate::task::{Task, TaskInfo};
use crate::timers::{Alarm, Ring};

pub(crate) use self::lane::LaneCore;
pub(super) use self::thread::{Carrier, NotCarried, in_non_blocking_thread};

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
    pub(super) carrier: Carrier,
    pub(super) clock: Clock,
    pub(super) timing: bool,
}

pub(crate) struct Engine {
    name: Arc<str>,
    shape: Shape,
    carrier: Carrier,
    clock: Clock,
    timing: bool,
    max: usize,
    alarm: Alarm,
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

/// After this time a thread that could not be started is tried again, if work relies on it whose submitter is gone.
const SOON: Duration = Duration::from_millis(50);

/// Work on its way in.
struct Order {
    info: TaskInfo,
    work: Work,
    delay: Duration,
    rhythm: Option<Rhythm>,
}

/// How a look under the lock ended.
enum Step {
    Taken,
    /// First the decorators are to be told of this slot.
    Announce(state::Permit),
    Refused(RejectReason, Option<Full>),
}

impl Engine {
    fn new(plan: Plan) -> Arc<Engine> {
        let name: Arc<str> = plan.name.into();
        let cap = if plan.cap == usize::MAX { u64::MAX } else { plan.cap as u64 };
        Arc::new_cyclic(|me: &Weak<Engine>| Engine {
            name: Arc::clone(&name),
            shape: plan.shape,
            carrier: plan.carrier,
            alarm: Alarm::new(plan.clock.clone(), Weak::clone(me) as Weak<dyn Ring>),
            clock: plan.clock,
            timing: plan.timing,
            max: plan.max,
            state: Mutex::new(State::new(Weak::clone(me), name, plan.shape, plan.soft, plan.max, cap)),
            me: Weak::clone(me),
        })
    }

    // ---- the lock

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Does something under the lock, and afterwards what that left to be done.
    fn locked<R>(self: &Arc<Self>, f: impl FnOnce(&mut State, &mut After) -> R) -> R {
        let (result, after) = self.under_lock(f);
        if let Err(failed) = self.perform(after) {
            self.nobody_to_tell(&failed);
        }
        result
    }

    fn under_lock<R>(&self, f: impl FnOnce(&mut State, &mut After) -> R) -> (R, After) {
        let mut after = After::default();
        let mut state = self.lock();
        let result = f(&mut state, &mut after);
        // Only ever moved forward here: an alarm that rings too early finds nothing to do.
        let next = state.next_time();
        if let Some(next) = next
            && state.alarm.is_none_or(|set| next < set)
            && self.alarm.set(Some(next))
        {
            state.alarm = Some(next);
        }
        drop(state);
        (result, after)
    }

    /// Does what is to be done without the lock. Fails if a thread could not be started.
    fn perform(self: &Arc<Self>, after: After) -> Result<(), NotCarried> {
        let mut outcome = Ok(());
        after.cancel.iter().for_each(|job| job.cancel_taken_out());
        after.end_series.iter().for_each(|job| job.end_series());
        after.wake.iter().for_each(|sleeper| sleeper.unpark());
        for (slot, ticket) in after.carry {
            if let Err(failed) = self.carry(slot, ticket) {
                outcome = Err(failed);
            }
        }
        for (slot, decorators) in after.closed {
            decorators.closed(&slot);
        }
        for waiter in after.ended {
            match waiter {
                EndWaiter::Thread(sleeper) => sleeper.unpark(),
                EndWaiter::Task(waker) => hooks::quietly_wake(waker),
            }
        }
        outcome
    }

    /// A thread could not be started for work whose submitter is gone. A thread of our own is tried again soon; if
    /// somebody else's executor refuses, the work is cancelled.
    #[cold]
    fn nobody_to_tell(self: &Arc<Self>, failed: &NotCarried) {
        if self.carrier.is_ours() {
            self.locked(|state, _| state.retry = Some(self.clock.tick_after(SOON)));
        } else {
            self.locked(|state, after| state.abandon_slot(failed.slot, after));
            self.dispose_if_shut_down(failed.reason);
        }
    }

    fn dispose_if_shut_down(self: &Arc<Self>, reason: RejectReason) {
        if !self.carrier.is_ours() && reason == RejectReason::Shutdown {
            self.dispose();
        }
    }

    // ---- work comes in

    fn check_timing(
        &self,
        delay: Duration,
        rhythm: Option<Rhythm>,
    ) -> Result<(), (RejectReason, Option<io::Error>)> {
        let later = |rhythm| matches!(rhythm, Some(Rhythm::Rate(period, _)) if !period.is_zero());
        if !self.timing && (!delay.is_zero() || later(rhythm)) {
            return Err((RejectReason::NotTimeCapable, None));
        }
        let needs_alarm = self.timing && (!delay.is_zero() || rhythm.is_some());
        match self.alarm.prepare() {
            Err(error) if needs_alarm => Err((RejectReason::SpawnFailed, Some(error))),
            _ => Ok(()), // without it idle slots are not let go, which is no reason to refuse anything
        }
    }

    /// Makes the job of an order, if nothing speaks against it before the lock is taken.
    fn make_job(&self, order: Order) -> Result<Arc<Job>, Rejected> {
        let Order { info, work, delay, rhythm } = order;
        let home = Weak::clone(&self.me) as Weak<dyn JobHome>;
        if self.is_disposed() {
            let job = Job::new(info, work, rhythm, home);
            return Err(self.rejected(&job, RejectReason::Shutdown, None));
        }
        if let Err((reason, source)) = self.check_timing(delay, rhythm) {
            let job = Job::new(info, work, rhythm, home);
            let rejected = self.rejected(&job, reason, None);
            return Err(match source {
                Some(source) => rejected.because(source),
                None => rejected,
            });
        }
        match hooks::pass_schedule_hooks(&info, work) {
            Ok(work) => Ok(Job::new(info, work, rhythm, home)),
            Err(rejected) => {
                self.lock().counted.rejected += 1;
                Err(rejected.by_scheduler(SchedulerFacts { name: Arc::clone(&self.name), full: None }))
            }
        }
    }

    fn rejected(&self, job: &Job, reason: RejectReason, full: Option<Full>) -> Rejected {
        self.lock().counted.rejected += 1;
        let full = full.map(|full| (full.would_be, full.cap));
        job.refused(reason).by_scheduler(SchedulerFacts { name: Arc::clone(&self.name), full })
    }

    /// Takes `job` by `step`, which is tried under the lock, again after decorators have been told of a new slot.
    fn take(
        self: &Arc<Self>,
        job: Arc<Job>,
        mut step: impl FnMut(&mut State, &mut After, Option<state::Permit>) -> Step,
    ) -> Result<Disposable, Rejected> {
        let mut permit = None;
        loop {
            let (outcome, after) = self.under_lock(|state, after| {
                if state.phase != Phase::Live {
                    if let Some(permit) = permit.take() {
                        state.give_back(permit, after);
                    }
                    return Step::Refused(RejectReason::Shutdown, None);
                }
                let outcome = step(state, after, permit.take());
                if matches!(outcome, Step::Taken) {
                    state.counted.submitted += 1;
                }
                outcome
            });
            let performed = self.perform(after);
            match outcome {
                Step::Taken => return self.taken(job, performed),
                Step::Refused(reason, full) => return Err(self.rejected(&job, reason, full)),
                Step::Announce(for_slot) => {
                    if !self.announce(for_slot.slot()) {
                        let slot = for_slot.slot();
                        drop(for_slot);
                        self.locked(|state, after| state.remove_if_unused(slot, after));
                        return Err(self.rejected(&job, RejectReason::CallbackPanicked, None));
                    }
                    permit = Some(for_slot);
                }
            }
        }
    }

    /// The job is in. If the thread for it could not be started it is taken back, unless somebody else has it by now.
    fn taken(
        self: &Arc<Self>,
        job: Arc<Job>,
        performed: Result<(), NotCarried>,
    ) -> Result<Disposable, Rejected> {
        let Err(failed) = performed else { return Ok(Disposable::of(job)) };
        let undone = self.locked(|state, after| {
            let undone = state.undo(&job, after);
            if undone {
                state.counted.submitted -= 1;
            }
            if self.carrier.is_ours() && state.is_stuck() {
                state.retry = Some(self.clock.tick_after(SOON)); // others relied on that thread
            }
            state.end_if_done(after);
            undone
        });
        self.dispose_if_shut_down(failed.reason);
        if !undone {
            return Ok(Disposable::of(job));
        }
        let rejected = self.rejected(&job, failed.reason, None);
        Err(match failed.source {
            Some(source) => rejected.because(source),
            None => rejected,
        })
    }

    /// Tells the decorators of a slot that is used for the first time. False: one of them panicked.
    fn announce(self: &Arc<Self>, slot: SlotRef) -> bool {
        let info = self.lock().info(slot.index);
        let Some(decorators) = Decorators::announce(&info) else { return false };
        self.locked(|state, _| {
            if let Some(there) = state.slot(slot) {
                there.decorators.get_or_insert(decorators);
            }
        });
        true
    }

    fn submit(self: &Arc<Self>, task: Task, delay: Duration) -> Result<Disposable, Rejected> {
        let info = task.info().clone();
        let job = self.make_job(Order { info, work: Work::Once(task), delay, rhythm: None })?;
        if delay.is_zero() { self.submit_now(job) } else { self.submit_later(job, delay) }
    }

    fn submit_now(self: &Arc<Self>, job: Arc<Job>) -> Result<Disposable, Rejected> {
        let me = Arc::clone(&job);
        self.take(job, move |state, after, permit| {
            let permit = match held(state, permit) {
                Ok(permit) => permit,
                Err(announce) => return announce,
            };
            match state.put(&me, permit, false, after) {
                Ok(()) => Step::Taken,
                Err(full) => Step::Refused(RejectReason::Saturated, Some(full)),
            }
        })
    }

    fn submit_later(self: &Arc<Self>, job: Arc<Job>, delay: Duration) -> Result<Disposable, Rejected> {
        let me = Arc::clone(&job);
        self.take(job, move |state, _, _| {
            if let Err(full) = state.take_place_anywhere() {
                return Step::Refused(RejectReason::Saturated, Some(full));
            }
            let number = state.next();
            state.waiting += 1;
            let key = state.timers.insert(self.clock.tick_after(delay), number, Timed::Job(Arc::clone(&me)));
            *me.spot.lock() = Spot::Timers(key);
            Step::Taken
        })
    }

    /// A series without a worker is a lane of its own.
    fn submit_series(self: &Arc<Self>, order: Order) -> Result<Disposable, Rejected> {
        let delay = order.delay;
        let job = self.make_job(order)?;
        let me = Arc::clone(&job);
        self.take(job, move |state, after, permit| {
            let permit = match held(state, permit) {
                Ok(permit) => permit,
                Err(announce) => return announce,
            };
            if let Err(full) = state.take_place(permit.slot()) {
                state.give_back(permit, after);
                return Step::Refused(RejectReason::Saturated, Some(full));
            }
            let lane = LaneCore::new(state.next(), permit.slot(), Some(permit), false);
            lane.cell.lock().finishing = true;
            state.lanes.insert(lane.id, Arc::clone(&lane));
            state.into_lane(&lane, Arc::clone(&me), self.clock.tick_after(delay), after);
            Step::Taken
        })
    }

    fn submit_to_lane(
        self: &Arc<Self>,
        lane: &Arc<LaneCore>,
        info: TaskInfo,
        work: Work,
        delay: Duration,
        rhythm: Option<Rhythm>,
    ) -> Result<Disposable, Rejected> {
        let job = self.make_job(Order { info, work, delay, rhythm })?;
        let me = Arc::clone(&job);
        self.take(job, move |state, after, permit| {
            let cell = lane.cell.lock();
            let closed = cell.closed || cell.finishing;
            drop(cell);
            if closed {
                if let Some(permit) = permit {
                    state.give_back(permit, after);
                }
                return Step::Refused(RejectReason::WorkerDisposed, None);
            }
            match permit {
                Some(permit) => state.give_back(permit, after), // the lane has one
                None if needs_announcement(state, lane.home) => {
                    return Step::Announce(state.hold(lane.home.index));
                }
                None => {}
            }
            let at_once = delay.is_zero() && !me.is_series() && state.could_start_now(lane);
            if at_once {
                state.force_place(lane.home);
            } else if let Err(full) = state.take_place(lane.home) {
                return Step::Refused(RejectReason::Saturated, Some(full));
            }
            state.into_lane(lane, Arc::clone(&me), self.clock.tick_after(delay), after);
            Step::Taken
        })
    }

    fn create_lane(self: &Arc<Self>) -> Arc<LaneCore> {
        let _ = self.alarm.prepare(); // as in `check_timing`
        self.locked(|state, _| {
            let id = state.next();
            if state.phase != Phase::Live {
                return LaneCore::new(id, SlotRef { index: usize::MAX, id: 0 }, None, true);
            }
            let index = state.pick();
            let permit = state.hold(index);
            let lane = LaneCore::new(id, permit.slot(), Some(permit), false);
            state.lanes.insert(id, Arc::clone(&lane));
            lane
        })
    }

    // ---- the end

    pub(super) fn is_disposed(&self) -> bool {
        self.lock().phase != Phase::Live
    }

    pub(super) fn begin_drain(self: &Arc<Self>) {
        self.locked(|state, after| {
            if state.phase == Phase::Live {
                state.phase = Phase::Draining;
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
            if first {
                state.throw_out_all(after);
            }
            state.end_if_done(after);
            first
        });
        if first {
            self.carrier.retire(true);
        }
    }

    fn wait_for_end(self: &Arc<Self>, timeout: Duration) -> Result<bool, Interrupted> {
        let deadline = deadline_after(timeout);
        let me = Sleeper::current();
        self.lock().waiting_for_end.push(EndWaiter::Thread(Arc::clone(&me)));
        let wake = me.wait(deadline, || self.lock().has_ended());
        self.lock()
            .waiting_for_end
            .retain(|waiter| !matches!(waiter, EndWaiter::Thread(sleeper) if Arc::ptr_eq(sleeper, &me)));
        match wake {
            Wake::Ready => {
                self.join_threads();
                self.carrier.retire(false);
                let left = deadline
                    .map_or(Duration::MAX, |at| at.saturating_duration_since(std::time::Instant::now()));
                self.carrier.await_retirement(left)
            }
            Wake::TimedOut => Ok(false),
            Wake::Interrupted => Err(Interrupted),
        }
    }

    /// All threads have done their last work. Waits for the operating system to be through with them too.
    fn join_threads(&self) {
        let exited = std::mem::take(&mut self.lock().exited);
        for thread in exited {
            if thread.thread().id() != std::thread::current().id() {
                let _ = thread.join(); // a panic of a thread that a factory wrapped around ours is not our affair
            }
        }
    }

    fn stats(&self) -> SchedulerStats {
        let state = self.lock();
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

/// The permit that was given, or one for a slot that is picked now, if decorators know that slot.
fn held(state: &mut State, permit: Option<state::Permit>) -> Result<state::Permit, Step> {
    if let Some(permit) = permit {
        return Ok(permit);
    }
    let index = state.pick();
    let permit = state.hold(index);
    if needs_announcement(state, permit.slot()) { Err(Step::Announce(permit)) } else { Ok(permit) }
}

fn needs_announcement(state: &mut State, slot: SlotRef) -> bool {
    let Some(there) = state.slot(slot) else { return false };
    if there.decorators.is_none() && !hooks::there_are_decorators() {
        there.decorators = Some(Decorators::none());
    }
    there.decorators.is_none()
}

impl JobHome for Engine {
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
            thread::help(&me, job);
        }
    }
}

impl Ring for Engine {
    fn ring(&self) {
        let Some(me) = self.me.upgrade() else { return };
        me.alarm.rang();
        me.locked(|state, after| {
            state.alarm = None;
            let now = me.clock.tick();
            if state.retry.is_some_and(|retry| retry <= now) {
                state.retry = None;
                state.retry_threads(after);
            }
            while let Some((_, _, timed)) = state.timers.pop_due(now) {
                match timed {
                    Timed::Lane(lane) => {
                        lane.cell.lock().timer = None;
                        state.start_lane(&lane, after);
                    }
                    Timed::Job(job) => {
                        *job.spot.lock() = Spot::Nowhere;
                        let index = state.pick();
                        let permit = state.hold(index);
                        let put = state.put(&job, permit, true, after);
                        debug_assert!(put.is_ok(), "it had a place");
                    }
                }
            }
            if let Shape::Elastic { ttl } = me.shape {
                state.evict(now, ttl, after);
            }
            state.end_if_done(after);
        });
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A scheduler on the engine. A cheap handle.
#[derive(Clone)]
pub(super) struct Slots {
    handle: Arc<Handle>,
}

impl Slots {
    pub(super) fn new(plan: Plan) -> Slots {
        Slots { handle: Arc::new(Handle { engine: Engine::new(plan) }) }
    }

    fn engine(&self) -> &Arc<Engine> {
        &self.handle.engine
    }
}

impl Scheduler for Slots {
    fn schedule_task(&self, task: Task) -> Result<Disposable, Rejected> {
        self.engine().submit(task, Duration::ZERO)
    }

    fn schedule_task_after(&self, delay: Duration, task: Task) -> Result<Disposable, Rejected> {
        self.engine().submit(task, delay)
    }

    fn schedule_periodically_task(
        &self,
        initial: Duration,
        period: Duration,
        task: PeriodicTask,
    ) -> Result<Disposable, Rejected> {
        let (info, body, rhythm) = task.into_series(period);
        let order = Order { info, work: Work::Body(body), delay: initial, rhythm: Some(rhythm) };
        self.engine().submit_series(order)
    }

    fn create_worker(&self) -> Worker {
        let lane = self.engine().create_lane();
        Worker::from_lane(Arc::new(LaneHandle { handle: Arc::clone(&self.handle), lane }))
    }

    fn dispose(&self) {
        self.engine().dispose();
    }

    fn dispose_gracefully(&self, timeout: Duration) -> Result<bool, Interrupted> {
        let engine = self.engine();
        engine.begin_drain();
        if thread::is_current(engine) {
            return Ok(false); // it would wait for itself
        }
        engine.wait_for_end(timeout)
    }

    fn disposal(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(Disposal { engine: Arc::clone(self.engine()) })
    }

    fn is_disposed(&self) -> bool {
        self.engine().is_disposed()
    }

    fn stats(&self) -> SchedulerStats {
        self.engine().stats()
    }
}

impl fmt::Debug for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stats().fmt(f)
    }
}

impl fmt::Display for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.engine().name)
    }
}

/// The graceful end as a future.
struct Disposal {
    engine: Arc<Engine>,
}

impl Future for Disposal {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let engine = &self.engine;
        engine.begin_drain();
        let mut state = engine.lock();
        if state.has_ended() {
            drop(state);
            engine.join_threads();
            engine.carrier.retire(false);
            return Poll::Ready(());
        }
        let waker = context.waker();
        let known = |waiter: &EndWaiter| matches!(waiter, EndWaiter::Task(task) if task.will_wake(waker));
        if !state.waiting_for_end.iter().any(known) {
            state.waiting_for_end.push(EndWaiter::Task(waker.clone()));
        }
        Poll::Pending
    }
}
