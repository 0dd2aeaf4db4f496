//! How work comes in: hooks, decorators, capacity, and what is undone if a thread does not start.

use std::io;
use std::time::Duration;

use super::lane::LaneRef;
use super::lane_queue::LaneQueue;
use super::slot::{Permit, SlotRef};
use super::state::{Deferred, Full, Phase, State};
use super::threads::NotCarried;
use super::{Engine, SOON};
use crate::executor::{RejectReason, Rejected, SchedulerFacts};
use crate::schedulers::hooks::{self, Decorators};
use crate::schedulers::job::{Disposable, Job, JobOwner, Work};
use crate::sync::{Arc, Weak};
use crate::task::Task;
use crate::task::periodic::Schedule;

/// Work on its way in.
pub(super) struct Order {
    pub(super) work: Work,
    pub(super) delay: Duration,
    pub(super) rhythm: Option<Schedule>,
    /// The index of its lane.
    pub(super) lane: Option<u32>,
}

/// How a look under the lock ended.
enum Step {
    Taken,
    /// First the decorators are to be told of this slot.
    Announce(Permit),
    Refused(RejectReason, Option<Full>),
}

impl Engine {
    fn check_timing(
        &self,
        delay: Duration,
        rhythm: Option<Schedule>,
    ) -> Result<(), (RejectReason, Option<io::Error>)> {
        let later = |rhythm| matches!(rhythm, Some(Schedule::Rate(period, _)) if !period.is_zero());
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
        let Order { work, delay, rhythm, lane } = order;
        if self.is_disposed() {
            let job = Job::new(work, rhythm);
            return Err(self.rejected(&job, RejectReason::Shutdown, None));
        }
        if let Err((reason, source)) = self.check_timing(delay, rhythm) {
            let job = Job::new(work, rhythm);
            let rejected = self.rejected(&job, reason, None);
            return Err(match source {
                Some(source) => rejected.because(source),
                None => rejected,
            });
        }
        work.entered(self.address.number(), lane.map_or(u64::MAX, u64::from));
        match hooks::pass_schedule_hooks(work) {
            Ok(work) => Ok(Job::new(work, rhythm)),
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
        mut step: impl FnMut(&mut State, &mut Deferred, &Arc<Job>, Option<Permit>) -> Step,
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
                let outcome = step(state, after, &job, permit.take());
                if matches!(outcome, Step::Taken) {
                    state.counted.submitted += 1;
                }
                outcome
            });
            let mut taken = Ok(());
            self.perform(after, |failed| {
                if let Err(refused) = self.take_back(&job, failed) {
                    taken = Err(refused);
                }
            });
            match outcome {
                Step::Taken => return taken.map(|()| self.disposable(job)),
                Step::Refused(reason, full) => return Err(self.rejected(&job, reason, full)),
                Step::Announce(for_slot) => {
                    if !self.announce(for_slot.slot()) {
                        self.locked(|state, after| {
                            let slot = for_slot.slot();
                            state.give_back(for_slot, after);
                            state.remove_if_unused(slot, after);
                        });
                        return Err(self.rejected(&job, RejectReason::CallbackPanicked, None));
                    }
                    permit = Some(for_slot);
                }
            }
        }
    }

    /// The thread for a job that is in could not be started: takes the job back, unless somebody else has it by now.
    #[cold]
    fn take_back(self: &Arc<Self>, job: &Arc<Job>, failed: NotCarried) -> Result<(), Rejected> {
        let undone = self.locked(|state, after| {
            let undone = state.undo(job, after);
            if undone {
                state.counted.submitted -= 1;
            }
            if self.carrier.is_ours() && state.is_stuck() {
                state.retry = Some(self.clock.tick_after(SOON)); // others relied on that thread
                state.hand_head_to_idle(after);
            }
            state.end_if_done(after);
            undone
        });
        if !undone {
            self.nobody_to_tell(&failed); // it may be that what came after the job has no thread now
            return Ok(());
        }
        self.dispose_if_shut_down(failed.reason);
        let rejected = self.rejected(job, failed.reason, None);
        Err(match failed.source {
            Some(source) => rejected.because(source),
            None => rejected,
        })
    }

    fn disposable(&self, job: Arc<Job>) -> Disposable {
        Disposable::of(job, Weak::clone(&self.me) as Weak<dyn JobOwner>)
    }

    /// Tells the decorators of a slot that is used for the first time. False: one of them panicked.
    fn announce(self: &Arc<Self>, slot: SlotRef) -> bool {
        let info = self.info(slot.index);
        let Some(told) = Decorators::announce(&info) else { return false };
        self.decorate(slot, told);
        true
    }

    /// Gives a slot its decorators, who have been told of it, and returns those that it has.
    ///
    /// Somebody else may have done the same meanwhile, or the slot is gone: then these are not its decorators, and are told of
    /// its end at once, as nobody else will. So each who was told that a slot was created is told once that it was closed.
    pub(super) fn decorate(self: &Arc<Self>, slot: SlotRef, told: Decorators) -> Decorators {
        let mut told = Some(told); // those that are not taken are not dropped under the lock
        let taken = self.locked(|state, _| {
            let there = state.slot(slot)?;
            let mine = || told.take().unwrap_or_else(Decorators::none);
            Some(there.decorators.get_or_insert_with(mine).clone())
        });
        if let Some(not_taken) = told {
            not_taken.closed(&self.info(slot.index));
        }
        taken.unwrap_or_else(Decorators::none)
    }

    pub(super) fn submit(self: &Arc<Self>, task: Task, delay: Duration) -> Result<Disposable, Rejected> {
        let job = self.make_job(Order { work: Work::Once(task), delay, rhythm: None, lane: None })?;
        if delay.is_zero() { self.submit_now(job) } else { self.submit_later(job, delay) }
    }

    fn submit_now(self: &Arc<Self>, job: Arc<Job>) -> Result<Disposable, Rejected> {
        self.take(job, |state, after, job, permit| {
            let permit = match held(state, permit) {
                Ok(permit) => permit,
                Err(announce) => return announce,
            };
            match state.put(job, permit, false, after) {
                Ok(()) => Step::Taken,
                Err(full) => Step::Refused(RejectReason::Saturated, Some(full)),
            }
        })
    }

    fn submit_later(self: &Arc<Self>, job: Arc<Job>, delay: Duration) -> Result<Disposable, Rejected> {
        self.take(job, |state, _, job, _| {
            if let Err(full) = state.take_place_anywhere() {
                return Step::Refused(RejectReason::Saturated, Some(full));
            }
            state.waiting += 1;
            state.delay(job, self.clock.tick_after(delay));
            Step::Taken
        })
    }

    /// A series without a worker is a lane of its own.
    pub(super) fn submit_series(self: &Arc<Self>, order: Order) -> Result<Disposable, Rejected> {
        let delay = order.delay;
        let job = self.make_job(order)?;
        self.take(job, |state, after, job, permit| {
            let permit = match held(state, permit) {
                Ok(permit) => permit,
                Err(announce) => return announce,
            };
            if let Err(full) = state.take_place(permit.slot()) {
                state.give_back(permit, after);
                return Step::Refused(RejectReason::Saturated, Some(full));
            }
            let lane = state.new_lane(permit, true);
            state.put_into_lane(lane, job, Some(self.clock.tick_after(delay)), after);
            Step::Taken
        })
    }

    pub(super) fn submit_to_lane(
        self: &Arc<Self>,
        lane: LaneRef,
        ready: &LaneQueue,
        work: Work,
        delay: Duration,
        rhythm: Option<Schedule>,
    ) -> Result<Disposable, Rejected> {
        let job = self.make_job(Order { work, delay, rhythm, lane: Some(lane.index()) })?;
        if delay.is_zero() && !job.is_series() && ready.try_push(lane, &job) {
            return Ok(self.disposable(job));
        }
        self.take(job, |state, after, job, permit| {
            let open = state.lanes.get(lane).filter(|cell| !cell.closed && !cell.finishing);
            let Some(home) = open.map(|cell| cell.home) else {
                if let Some(permit) = permit {
                    state.give_back(permit, after);
                }
                return Step::Refused(RejectReason::WorkerDisposed, None);
            };
            match permit {
                Some(permit) => state.give_back(permit, after), // the lane has one
                None if needs_announcement(state, home) => {
                    return Step::Announce(state.hold(home.index));
                }
                None => {}
            }
            let at_once = delay.is_zero() && !job.is_series() && state.could_start_now(lane);
            if at_once {
                state.force_place(home);
            } else if let Err(full) = state.take_place(home) {
                return Step::Refused(RejectReason::Saturated, Some(full));
            }
            let due = (!delay.is_zero()).then(|| self.clock.tick_after(delay));
            state.put_into_lane(lane, job, due, after);
            state.open_lane(lane);
            Step::Taken
        })
    }

    pub(super) fn create_lane(self: &Arc<Self>) -> (LaneRef, Arc<LaneQueue>) {
        let _ = self.alarm.prepare(); // as in `check_timing`
        self.locked(|state, _| {
            if state.phase != Phase::Live {
                return (LaneRef::CLOSED, LaneQueue::new());
            }
            let index = state.pick();
            let permit = state.hold(index);
            let lane = state.new_lane(permit, false);
            let ready = state.lanes.get(lane).map(|cell| Arc::clone(&cell.ready));
            (lane, ready.unwrap_or_else(LaneQueue::new))
        })
    }
}

/// The permit that was given, or one for a slot that is picked now, if decorators know that slot.
fn held(state: &mut State, permit: Option<Permit>) -> Result<Permit, Step> {
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
