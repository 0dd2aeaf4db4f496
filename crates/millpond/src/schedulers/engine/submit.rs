//! Submission of work: hooks, decorators, capacity, and taking work back if no thread starts for
//! it.

use std::io;
use std::time::Duration;

use super::deferred::Deferred;
use super::lane_queue::LaneQueue;
use super::model::{Full, LaneRef, Permit, SlotRef, StartFailure, Waits};
use super::state::State;
use super::{Engine, RETRY_DELAY};
use crate::executor::{RejectReason, Rejected, SchedulerFacts};
use crate::monitor::Event;
use crate::schedulers::decorators::Decorators;
use crate::schedulers::disposable::Disposable;
use crate::schedulers::end::Phase;
use crate::schedulers::handle::Backend;
use crate::schedulers::job::{JobOwner, JobRef};
use crate::schedulers::work::Submission;
use crate::sync::{Arc, Weak};
use crate::task::periodic::Schedule;
use crate::time::alarm::{Ring, RingsOn};

/// The result of one attempt to accept work under the lock.
enum Attempt {
    Accepted,
    /// Decorators must be notified of this slot first.
    Announce(Permit),
    Refused(RejectReason, Option<Full>),
}

impl From<Result<(), Full>> for Attempt {
    fn from(accepted: Result<(), Full>) -> Attempt {
        match accepted {
            Ok(()) => Attempt::Accepted,
            Err(full) => Attempt::Refused(RejectReason::Saturated, Some(full)),
        }
    }
}

impl Engine {
    /// Accepts a job without a lane.
    pub(super) fn submit_job(self: &Arc<Self>, delay: Duration, job: JobRef) -> Result<Disposable, Rejected> {
        if job.is_periodic() {
            self.accept(job, |state, deferred, job, permit| {
                with_permit(state, permit, |state, permit| {
                    let due = self.clock.tick_after(delay);
                    state.accept_periodic(job, permit, due, deferred).into()
                })
            })
        } else if delay.is_zero() {
            let since = self.meter.stamp();
            self.accept(job, |state, deferred, job, permit| {
                with_permit(state, permit, |state, permit| {
                    state.accept_now(job, permit, since, deferred).into()
                })
            })
        } else {
            self.submit_delayed(delay, job)
        }
    }

    /// Accepts a delayed job without a lane. It needs no slot yet, so it defers no effects.
    fn submit_delayed(self: &Arc<Self>, delay: Duration, job: JobRef) -> Result<Disposable, Rejected> {
        let due = self.clock.tick_after(delay);
        let mut state = self.lock();
        let attempt = match state.phase() {
            Phase::Live => state.accept_delayed(&job, due).into(),
            _ => Attempt::Refused(RejectReason::Shutdown, None),
        };
        let rings = self.set_alarm(&mut state);
        drop(state);
        if rings {
            Arc::clone(self).ring(RingsOn::AdvancingThread);
        }
        match attempt {
            Attempt::Refused(reason, full) => Err(self.rejected(job.refused(reason), full, None)),
            _ => Ok(self.disposable(job)),
        }
    }

    /// Accepts a job of a lane.
    pub(super) fn submit_to_lane(
        self: &Arc<Self>,
        lane: LaneRef,
        queue: &LaneQueue,
        delay: Duration,
        job: JobRef,
    ) -> Result<Disposable, Rejected> {
        if delay.is_zero() && !job.is_periodic() && queue.try_push(lane.index, &job, &self.meter) {
            return Ok(self.disposable(job));
        }
        let waits = if delay.is_zero() {
            Waits::Accepted(self.meter.stamp())
        } else {
            Waits::Due(self.clock.tick_after(delay))
        };
        self.accept(job, |state, deferred, job, permit| {
            let home = state.home_of_open_lane(lane);
            let is_announced = permit.is_some();
            // The lane has a permit of its own.
            permit.into_iter().for_each(|permit| state.release(permit, deferred));
            let Some(home) = home else { return Attempt::Refused(RejectReason::WorkerDisposed, None) };
            if !is_announced && state.needs_announcement(home) {
                return Attempt::Announce(state.hold(home));
            }
            state.accept_in_lane(lane, job, waits, deferred).into()
        })
    }

    /// Creates the job of submitted work, unless a check without the lock refuses it.
    pub(super) fn make_job(
        &self,
        delay: Duration,
        work: impl Submission,
        lane: Option<u32>,
    ) -> Result<JobRef, Rejected> {
        let refusal = if self.is_disposed() {
            Err((RejectReason::Shutdown, None))
        } else {
            self.check_timing(delay, work.schedule())
        };
        if let Err((reason, source)) = refusal {
            return Err(self.rejected(Rejected::new(work.into_task(), reason), None, source));
        }
        work.entered(self.owner.number(), lane.map_or(u64::MAX, u64::from));
        work.into_job(delay, &|| self.job_owner()).map_err(|rejected| self.rejected(rejected, None, None))
    }

    fn check_timing(
        &self,
        delay: Duration,
        schedule: Option<Schedule>,
    ) -> Result<(), (RejectReason, Option<io::Error>)> {
        let has_period = matches!(schedule, Some(Schedule::Rate(period, _)) if !period.is_zero());
        if !self.has_timing && (!delay.is_zero() || has_period) {
            return Err((RejectReason::NotTimeCapable, None));
        }
        let needs_alarm = self.has_timing && (!delay.is_zero() || schedule.is_some());
        match self.alarm.prepare() {
            Err(error) if needs_alarm => Err((RejectReason::SpawnFailed, Some(error))),
            _ => Ok(()), // without an alarm, idle slots are only kept longer
        }
    }

    fn facts(&self, full: Option<Full>) -> SchedulerFacts {
        let full = full.map(|full| (full.would_be, full.cap));
        SchedulerFacts { name: Arc::clone(&self.name), full }
    }

    fn rejected(&self, rejected: Rejected, full: Option<Full>, source: Option<io::Error>) -> Rejected {
        let reason = rejected.reason();
        self.lock().count_rejected(reason);
        self.registration.tell(&Event::Rejected { task: rejected.task().info(), reason });
        let rejected = rejected.by_scheduler(self.facts(full));
        match source {
            Some(source) => rejected.because(source),
            None => rejected,
        }
    }

    /// Accepts `job` by calling `attempt` under the lock. If a new slot has to be announced to
    /// decorators first, calls `attempt` again with a permit for that slot.
    fn accept(
        self: &Arc<Self>,
        job: JobRef,
        mut attempt: impl FnMut(&mut State, &mut Deferred, &JobRef, Option<Permit>) -> Attempt,
    ) -> Result<Disposable, Rejected> {
        let mut permit = None;
        loop {
            let (outcome, deferred) = self.under_lock(|state, deferred| {
                let permit = permit.take();
                if state.phase() == Phase::Live {
                    return attempt(state, deferred, &job, permit);
                }
                permit.into_iter().for_each(|permit| state.release(permit, deferred));
                Attempt::Refused(RejectReason::Shutdown, None)
            });
            let mut accepted = Ok(());
            self.perform(deferred, |failure| {
                if let Err(rejected) = self.take_back(&job, failure) {
                    accepted = Err(rejected);
                }
            });
            match outcome {
                Attempt::Accepted => return accepted.map(|()| self.disposable(job)),
                Attempt::Refused(reason, full) => return Err(self.rejected(job.refused(reason), full, None)),
                Attempt::Announce(for_slot) => match self.announce(for_slot) {
                    Some(announced) => permit = Some(announced),
                    None => {
                        let refused = job.refused(RejectReason::CallbackPanicked);
                        return Err(self.rejected(refused, None, None));
                    }
                },
            }
        }
    }

    /// Takes an accepted job back because no thread started, unless another thread has taken it.
    #[cold]
    fn take_back(self: &Arc<Self>, job: &JobRef, failure: StartFailure) -> Result<(), Rejected> {
        let undone = self.locked(|state, deferred| {
            let undone = state.undo(job, failure.start.slot, deferred);
            if self.source.is_own() && state.has_stuck_slot() {
                state.set_retry(self.clock.tick_after(RETRY_DELAY)); // other work relies on it
                state.relieve_stuck(deferred);
            }
            state.end_if_done(deferred);
            undone
        });
        if !undone || !self.source.is_own() {
            // Other work may rely on the thread: later work of the slot, or a job of the same lane
            // that the submission started.
            self.start_failed(&failure);
        }
        if !undone {
            return Ok(());
        }
        self.dispose_if_shut_down(failure.reason);
        Err(self.rejected(job.refused(failure.reason), None, failure.source))
    }

    fn disposable(&self, job: JobRef) -> Disposable {
        Disposable::of(job, self.job_owner())
    }

    fn job_owner(&self) -> Weak<dyn JobOwner> {
        Weak::clone(&self.me) as Weak<dyn JobOwner>
    }

    /// Announces a slot to the decorators before its first use. Releases the permit and returns
    /// `None` if a decorator panicked.
    fn announce(self: &Arc<Self>, permit: Permit) -> Option<Permit> {
        let slot = permit.slot();
        if let Some(announced) = Decorators::announce(&self.slot_info(slot.index)) {
            self.decorate(slot, announced);
            return Some(permit);
        }
        self.locked(|state, deferred| {
            state.release(permit, deferred);
            state.remove_if_unused(slot, deferred);
        });
        None
    }

    /// Gives a slot its decorators, which have been notified of it. Returns the decorators that it
    /// has.
    ///
    /// Another thread may have done this already, or the slot may have been removed. Then the
    /// decorators in `announced` are not used, and are notified at once that the slot is closed. So
    /// every `slot_created` is followed by one `slot_closed`.
    pub(super) fn decorate(self: &Arc<Self>, slot: SlotRef, announced: Decorators) -> Decorators {
        let mut announced = Some(announced); // if not taken, it is dropped without the lock
        let taken = self.locked(|state, _| state.decorate(slot, &mut announced));
        if let Some(not_taken) = announced {
            not_taken.closed(&self.slot_info(slot.index));
        }
        taken.unwrap_or_else(Decorators::none)
    }
}

/// Calls `accept` with `permit`, or with a permit for a newly picked slot. If that slot has not
/// been announced to the decorators, returns `Announce` instead.
fn with_permit(
    state: &mut State,
    permit: Option<Permit>,
    accept: impl FnOnce(&mut State, Permit) -> Attempt,
) -> Attempt {
    let (permit, is_new) = match permit {
        Some(permit) => (permit, false),
        None => (state.hold_picked(), true),
    };
    if is_new && state.needs_announcement(permit.slot()) {
        return Attempt::Announce(permit);
    }
    accept(state, permit)
}
