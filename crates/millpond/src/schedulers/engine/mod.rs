//! The engine of all schedulers with threads: slots, lanes and timers.
//!
//! A *slot* is the place of one thread. A *lane* is the serial queue of a worker, or of a periodic
//! task without a worker. Each lane has a home slot. The [`Shape`] of the slots determines the kind
//! of scheduler:
//! - a fixed number of slots (single, parallel);
//! - slots on demand that expire when idle (bounded-elastic);
//! - slots on demand with a new thread for every task;
//! - slots whose threads are tasks of an executor.
//!
//! One lock guards all of the state ([`state`]). It is held for a few instructions and never while
//! user code runs. Only the ready jobs of a lane have their own lock ([`lane_queue`]). A critical
//! section collects the effects that must happen without the lock in a [`Deferred`]. `README.md` in
//! the parent folder states the invariants and the races.

mod courier;
mod deferred;
mod help;
mod lane_handle;
mod lane_queue;
mod model;
mod monitor;
mod removal_queue;
mod source;
mod start;
mod state;
mod submit;
mod threads;

#[cfg(all(test, loom))]
#[path = "../../loom_tests/schedulers.rs"]
mod models;

use std::fmt;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use self::courier::{Courier, drop_elsewhere, on_helper_thread};
use self::deferred::Deferred;
use self::lane_handle::LaneHandle;
use self::model::StartFailure;
use self::state::State;
use super::decorators::{Decorators, SlotInfo};
use super::disposable::Disposable;
use super::end::{Ends, Lifecycle, OnLastDrop};
use super::handle::{Backend, Handle};
use super::job::{Job, JobOwner, JobRef};
use super::stats::SchedulerStats;
use super::work::Submission;
use super::worker::Worker;
use crate::executor::{RejectReason, Rejected};
use crate::interrupt::Interrupted;
use crate::monitor::registry::Registration;
use crate::monitor::{Event, Meter, Monitored, PanicLog, PoolRef, Settings, panics};
use crate::panic::drop_caught;
use crate::sync::{Arc, IN_MODEL, Mutex, MutexGuard, Weak, deadline_after};
use crate::task::{
    Help, OwnerEntry, Panic, Place, TaskId, TaskInfo, TaskOwner, WorksForScheduler, works_for,
};
use crate::time::alarm::{Alarm, Ring, RingsOn};
use crate::time::clock::Clock;

pub(super) use self::model::{Plan, Shape};
pub(super) use self::source::ThreadSource;
pub(super) use self::threads::is_in_non_blocking_thread;

/// A scheduler on the engine.
pub(super) type EngineScheduler = Handle<Engine>;

pub(super) fn new_scheduler(plan: Plan) -> EngineScheduler {
    let engine = Engine::new(plan);
    engine.registration.tell(&Event::Created);
    Handle::new(engine)
}

pub(super) struct Engine {
    name: Arc<str>,
    /// Task handles find this scheduler by this entry, and its threads are marked with its number.
    owner: OwnerEntry,
    source: ThreadSource,
    clock: Clock,
    has_timing: bool,
    max_slots: usize,
    alarm: Alarm,
    /// Performs effects that the timer thread must not perform.
    courier: Courier<(Arc<Engine>, Deferred)>,
    lifecycle: Arc<Lifecycle>,
    state: Mutex<State>,
    meter: Arc<Meter>,
    me: Weak<Engine>,
    registration: Registration,
    settings: Mutex<Settings>,
    panics: PanicLog,
}

/// Delay before a failed thread start is retried, if no submitter waits for its result.
const RETRY_DELAY: Duration = Duration::from_millis(50);

impl Engine {
    fn new(plan: Plan) -> Arc<Engine> {
        let name: Arc<str> = plan.name.as_str().into();
        let lifecycle = Arc::new(Lifecycle::default());
        let settings = monitor::settings(&plan);
        // One pair of histograms for all slots: they are written under the lock.
        let meter = Arc::new(Meter::new(plan.clock.clone(), settings.timing, 1));
        let state = State::new(&plan, Arc::clone(&name), Arc::clone(&lifecycle), &meter);
        let identity = monitor::identity(&plan);
        Arc::new_cyclic(|me: &Weak<Engine>| Engine {
            name,
            owner: OwnerEntry::of_scheduler(Weak::clone(me) as Weak<dyn TaskOwner>),
            source: plan.source,
            alarm: Alarm::new(plan.clock.clone(), Weak::clone(me) as Weak<dyn Ring>),
            clock: plan.clock,
            has_timing: plan.has_timing,
            max_slots: plan.max_slots,
            courier: Courier::new(|(engine, deferred)| engine.perform_unattended(deferred)),
            lifecycle,
            state: Mutex::new(state),
            meter,
            me: Weak::clone(me),
            registration: Registration::new(identity, Weak::clone(me) as Weak<dyn Monitored>),
            settings: Mutex::new(settings),
            panics: PanicLog::default(),
        })
    }

    fn slot_info(&self, index: usize) -> SlotInfo {
        SlotInfo::new(Arc::clone(&self.name), index)
    }

    /// Returns a number that is unique among live engines.
    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Returns true if the calling thread works for this scheduler, even if it belongs to another
    /// one.
    fn is_current(&self) -> bool {
        works_for(self.owner.number())
    }

    /// Creates the alarm. On failure, idle slots are only kept longer than their time to live.
    fn prepare_alarm(&self) {
        let _ = self.alarm.prepare();
    }

    // ---- the lock

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Changes the state under the lock, then performs the deferred effects.
    fn locked<R>(self: &Arc<Self>, change: impl FnOnce(&mut State, &mut Deferred) -> R) -> R {
        let (result, deferred) = self.under_lock(change);
        self.perform_unattended(deferred);
        result
    }

    /// Changes the state under the lock. The caller must perform the returned effects.
    fn under_lock<R>(&self, change: impl FnOnce(&mut State, &mut Deferred) -> R) -> (R, Deferred) {
        let mut deferred = Deferred::default();
        let mut state = self.lock();
        let result = change(&mut state, &mut deferred);
        deferred.exited.append(&mut state.take_exited());
        deferred.ring = self.set_alarm(&mut state);
        drop(state);
        (result, deferred)
    }

    /// Moves the alarm forward if necessary. Returns true if its time has already passed.
    fn set_alarm(&self, state: &mut State) -> bool {
        let Some(next) = state.next_alarm() else { return false };
        if !self.alarm.set(Some(next)) {
            return false;
        }
        state.alarm_set(next);
        // A manual clock may have been advanced since this thread read it. `advance` stores the
        // time and then checks the alarms; this thread sets the alarm and then reads the time.
        // Whichever comes second sees the other.
        self.clock.tells() && next <= self.clock.tick()
    }

    /// Performs effects of work whose submitter does not wait for the thread start.
    fn perform_unattended(self: &Arc<Self>, mut deferred: Deferred) {
        start::postpone(self.address(), &mut deferred.start);
        self.perform(deferred, |failure| self.start_failed(&failure));
    }

    /// Performs effects. Calls `failed` for each thread that could not be started.
    ///
    /// The destructors of cancelled work must not wait for later effects: they run as a part of the
    /// scheduler, if it cannot end before these effects.
    fn perform(self: &Arc<Self>, mut deferred: Deferred, failed: impl FnMut(StartFailure)) {
        deferred.unpark();
        if deferred.ring {
            Arc::clone(self).ring(RingsOn::AdvancingThread);
        }
        let is_awaited = !deferred.start.is_empty() || !deferred.closed.is_empty();
        let works = is_awaited.then(|| WorksForScheduler::new(self.owner.number()));
        Job::cancel_all_removed(&deferred.cancel);
        deferred.end_after_run.iter().for_each(|job| job.end_after_run());
        drop(works);
        self.start_threads(deferred.start, failed);
        if !deferred.closed.is_empty() {
            self.tell_closed(&deferred.closed);
        }
        let (was_resumed, has_ended) = deferred.news;
        if was_resumed {
            self.tell_resumed();
        }
        if deferred.ended {
            self.retire(); // even if no thread waits for the end
            if has_ended {
                self.registration.tell(&Event::Ended);
            }
            self.lifecycle.waiters().wake_all();
        }
    }

    /// Notifies the decorators of removed slots. The scheduler has not ended before they have
    /// returned.
    #[cold]
    fn tell_closed(self: &Arc<Self>, closed: &[(SlotInfo, Decorators)]) {
        let works = WorksForScheduler::new(self.owner.number()); // a decorator must not wait for the end
        for (slot, decorators) in closed {
            decorators.closed(slot);
        }
        drop(works);
        self.locked(|state, deferred| state.slots_closed(closed.len(), deferred));
    }

    // ---- failed starts

    /// Handles a failed thread start for work whose submitter has returned. An own thread is
    /// started again later. If an executor refused, the work is cancelled.
    #[cold]
    fn start_failed(self: &Arc<Self>, failure: &StartFailure) {
        self.dispose_if_shut_down(failure.reason); // first: this cancels the rest of a lane at once
        let retry = self.source.is_own().then(|| self.clock.tick_after(RETRY_DELAY));
        self.locked(|state, deferred| state.start_failed(failure.start, retry, deferred));
    }

    fn dispose_if_shut_down(self: &Arc<Self>, reason: RejectReason) {
        if !self.source.is_own() && reason == RejectReason::Shutdown {
            self.dispose();
        }
    }

    // ---- the end

    /// Returns true if all work is done and no thread is left.
    fn is_done(&self) -> bool {
        let is_done = self.lock().has_ended();
        if is_done {
            self.retire();
        }
        is_done
    }

    /// Shuts down the owned executor, if any, and dismisses the courier: the scheduler has ended.
    fn retire(&self) {
        self.source.shut_down(false, &self.name);
        if let Some(courier) = self.courier.dismiss() {
            self.lock().remember_thread(courier);
        }
    }

    /// Joins the threads, at most until `deadline`. A join of std has no timeout and cannot be
    /// interrupted, so this polls whether they have finished, every 50 µs to 5 ms. Usually they
    /// have, unless a thread factory continues to use the thread.
    fn join_until(&self, deadline: Option<Instant>) -> Result<bool, Interrupted> {
        if IN_MODEL {
            // A model must not depend on when the system ends a thread.
            return self.lifecycle.waiters().wait(Duration::MAX, || self.join_threads(|_| true));
        }
        const SHORTEST: Duration = Duration::from_micros(50);
        const LONGEST: Duration = Duration::from_millis(5);
        let mut pause = SHORTEST;
        loop {
            let left = time_left(deadline);
            let joined = || self.join_threads(JoinHandle::is_finished);
            if self.lifecycle.waiters().wait(pause.min(left), joined)? {
                return Ok(true);
            }
            if left.is_zero() {
                return Ok(false);
            }
            pause = LONGEST.min(pause * 2);
        }
    }

    /// Joins the threads on a helper thread, which then wakes the waiters. Returns true if no
    /// thread is left to join, or if no helper can be started: all work is done in any case.
    fn join_elsewhere(&self) -> bool {
        let mut state = self.lock();
        let threads = state.take_to_join(|_| true);
        let (count, all) = (threads.len(), state.has_joined_all());
        drop(state);
        if count == 0 {
            return all;
        }
        let me = self.me.upgrade();
        if on_helper_thread(move || _ = me.map(|me| me.join_taken(threads))) {
            return false;
        }
        self.lock().joined(count);
        self.lifecycle.waiters().wake_all(); // no caller waits for these threads any more
        true
    }

    /// Joins those threads that have left their slots and are `selected`. If another caller joins
    /// them already, that caller wakes this one to check again. Returns true if no thread is left
    /// to join.
    fn join_threads(&self, selected: impl Fn(&JoinHandle<()>) -> bool) -> bool {
        let mut state = self.lock();
        let threads = state.take_to_join(|thread| is_me(thread) || selected(thread));
        if threads.is_empty() {
            return state.has_joined_all();
        }
        drop(state);
        self.join_taken(threads)
    }

    /// Joins threads that were taken for that, except the calling one. Returns true if no thread is
    /// left to join.
    fn join_taken(&self, threads: Vec<JoinHandle<()>>) -> bool {
        let count = threads.len();
        for thread in threads.into_iter().filter(|thread| !is_me(thread)) {
            drop_caught(thread.join()); // a panic here is that of the thread factory
        }
        let mut state = self.lock();
        state.joined(count);
        let all = state.has_joined_all();
        drop(state);
        self.lifecycle.waiters().wake_all();
        all
    }
}

fn is_me(thread: &JoinHandle<()>) -> bool {
    thread.thread().id() == std::thread::current().id()
}

impl Ends for Engine {
    fn lifecycle(&self) -> &Lifecycle {
        &self.lifecycle
    }

    fn begin_drain(&self) {
        if let Some(me) = self.me.upgrade() {
            me.locked(|state, deferred| state.begin_drain(&me, deferred));
        }
    }

    /// Also joins the threads, so that they no longer exist for the operating system either. Does
    /// not block: a helper thread joins those that have not exited yet, and then wakes the waiters.
    fn has_ended(&self) -> bool {
        self.is_done() && (self.join_threads(JoinHandle::is_finished) || self.join_elsewhere())
    }

    fn runs_on_this_thread(&self) -> bool {
        self.is_current()
    }

    fn wait_for_end(&self, timeout: Duration) -> Result<bool, Interrupted> {
        let deadline = deadline_after(timeout);
        let waiters = self.lifecycle.waiters();
        if !waiters.wait(timeout, || self.is_done())? || !self.join_until(deadline)? {
            return Ok(false);
        }
        self.source.await_termination(time_left(deadline))
    }
}

fn time_left(deadline: Option<Instant>) -> Duration {
    deadline.map_or(Duration::MAX, |at| at.saturating_duration_since(Instant::now()))
}

impl Backend for Engine {
    fn submit(self: &Arc<Self>, delay: Duration, work: impl Submission) -> Result<Disposable, Rejected> {
        let job = self.make_job(delay, work, None)?;
        self.submit_job(delay, job)
    }

    fn create_worker(handle: &Arc<OnLastDrop<Self>>) -> Worker {
        LaneHandle::create(handle)
    }

    fn dispose(self: &Arc<Self>) {
        if self.locked(|state, deferred| state.dispose(deferred)) {
            self.source.shut_down(true, &self.name);
        }
    }

    fn is_disposed(&self) -> bool {
        !self.lifecycle.is_live()
    }

    fn stats(&self) -> SchedulerStats {
        SchedulerStats { max_threads: self.max_slots, ..self.lock().stats() }
    }

    fn pool_ref(&self) -> Option<PoolRef> {
        Some((*self.registration).clone())
    }
}

impl JobOwner for Engine {
    /// Records and reports a panic before the handle of the task resolves.
    #[cold]
    fn panicked(&self, task: &TaskInfo, panic: &Panic) {
        self.panics.add(task, panic);
        self.registration.tell(&Event::Panicked { task, message: panics::message(panic) });
    }

    fn cancelled(&self, job: &JobRef) {
        if let Some(me) = self.me.upgrade() {
            me.locked(|state, deferred| state.job_cancelled(job, deferred));
        }
    }

    fn help(&self, job: &JobRef, stop: &dyn Fn() -> bool) {
        if let Some(me) = self.me.upgrade() {
            me.help_with(job, stop);
        }
    }

    fn is_behind_this_thread(&self, job: &JobRef) -> bool {
        self.lock().is_behind_this_thread(job.location())
    }
}

/// Task handles call these methods to find and run a waiting task.
impl TaskOwner for Engine {
    fn is_behind_this_thread(&self, id: TaskId, place: &Place) -> bool {
        let state = self.lock();
        let job = state.find_task(id, place.get());
        job.is_some_and(|job| state.is_behind_this_thread(job.location()))
    }

    fn run_inline(&self, id: TaskId, place: &Place) -> Help {
        self.me.upgrade().map_or(Help::Done, |me| me.help_to_join(id, place))
    }
}

impl Ring for Engine {
    fn ring(self: Arc<Self>, on: RingsOn) {
        self.alarm.rang();
        let (retries, deferred) = self.under_lock(State::alarm_rang);
        match on {
            RingsOn::AdvancingThread => self.perform_unattended(deferred),
            RingsOn::TimerThread => self.perform_by_courier(deferred, retries),
        }
    }
}

impl Engine {
    /// Runs on the timer thread: unparks threads and leaves all other effects to the courier.
    fn perform_by_courier(self: Arc<Self>, mut deferred: Deferred, retries: bool) {
        deferred.unpark();
        let sent = if deferred.may_call_user_code() {
            self.courier.send((Arc::clone(&self), deferred))
        } else if retries {
            self.courier.start()
        } else {
            Ok(None)
        };
        match sent {
            Ok(thread) => thread.into_iter().for_each(|thread| self.lock().remember_thread(thread)),
            Err(_) => {
                self.under_lock(|state, _| state.set_retry(self.clock.tick_after(RETRY_DELAY)));
            }
        }
        // If this is the last reference, the engine is dropped on another thread: it may contain
        // user code.
        if let Some(engine) = Arc::into_inner(self) {
            drop_elsewhere(engine);
        }
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("name", &self.name).finish_non_exhaustive()
    }
}
