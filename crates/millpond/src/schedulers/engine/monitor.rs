//! What observers see of a scheduler: its name, settings, snapshots and events.
//!
//! A scheduler appears as a pool. [`SchedulerStats`](crate::schedulers::SchedulerStats) documents
//! how the figures map. They are read under the scheduler's lock; observers are called without it.

use std::any::Any;
use std::time::{Duration, Instant};

use super::Engine;
use super::model::{Plan, Shape};
use super::source::Refusal;
use super::state::ThreadView;
use crate::monitor::{
    Actor, Change, ChangeError, Event, Identity, Kind, MOST_LISTED, Monitored, PolicyKind, PoolSnapshot,
    QueueKind, Settings, Timing, Waiting, WorkerView, release,
};
use crate::sync::{Arc, Weak};
use crate::threads::WorkerInfo;

pub(super) fn identity(plan: &Plan) -> Identity {
    let no_handle: Weak<dyn Any + Send + Sync> = Weak::<()>::new();
    Identity::new(plan.registered_name(), Kind::Scheduler, true, no_handle)
}

/// Returns the initial settings of a scheduler.
pub(super) fn settings(plan: &Plan) -> Settings {
    let (core_pool_size, keep_alive_time) = match plan.shape {
        Shape::Fixed => (plan.max_slots, Duration::ZERO),
        Shape::Elastic { ttl } => (0, ttl),
        Shape::PerTask | Shape::Bursts => (0, Duration::ZERO),
    };
    let is_bounded = plan.queue_capacity != usize::MAX;
    Settings {
        version: 1,
        core_pool_size,
        maximum_pool_size: plan.max_slots,
        keep_alive_time,
        core_threads_time_out: false,
        queue: QueueKind::Linked,
        queue_capacity: is_bounded.then(|| plan.queue_capacity.saturating_mul(plan.max_slots)),
        policy: PolicyKind::Abort,
        timing: Timing::default(),
    }
}

impl Monitored for Engine {
    fn snapshot(&self) -> PoolSnapshot {
        let settings = self.settings.lock().clone();
        let mut state = self.lock();
        let stats = state.pool_stats(&settings);
        let (delayed_count, rejected, starts) = (state.delayed(), state.rejected(), state.starts());
        let (ages, paused) = (state.ages(), state.is_paused());
        let (wait, run) = (self.meter.wait(), self.meter.run());
        drop(state);
        let (threads_started, thread_start_failures) = starts;
        let identity = self.registration.identity();
        PoolSnapshot {
            name: Arc::clone(identity.name()),
            label: Arc::clone(self.registration.last_label()),
            kind: identity.kind(),
            taken: Instant::now(),
            stats,
            settings,
            paused,
            delayed_count,
            wait,
            run,
            busy: ages.busy(),
            oldest_wait: ages.oldest_wait(),
            longest_running: ages.longest_running(),
            rejected,
            threads_started,
            thread_start_failures,
            last_panics: self.panics.records(),
        }
    }

    fn settings(&self) -> Settings {
        self.settings.lock().clone()
    }

    fn workers(&self) -> Vec<WorkerView> {
        let mut threads = self.lock().thread_views();
        threads.sort_by_key(ThreadView::number);
        let of_executor = WorkerInfo::new(Arc::clone(self.registration.identity().name()), 0);
        let view = |thread: ThreadView| {
            let own = self.source.worker(thread.number());
            thread.of_worker(own.as_ref().unwrap_or(&of_executor))
        };
        threads.into_iter().map(view).collect()
    }

    fn waiting(&self, limit: usize) -> Waiting {
        let view = self.lock().waiting(limit.min(MOST_LISTED));
        view.sorted() // without the lock
    }

    fn reconfigure(self: Arc<Self>, change: Change) -> Result<Settings, ChangeError> {
        let answer = self.change(&change);
        release(self);
        answer
    }

    fn set_paused(self: Arc<Self>, paused: bool, by: &Actor) {
        if paused && self.locked(|state, deferred| state.pause(deferred)) {
            self.registration.tell(&Event::Paused { by });
        }
        if !paused && self.locked(|state, deferred| state.resume(deferred)) {
            self.registration.tell(&Event::Resumed { by });
        }
        release(self);
    }

    fn is_paused(&self) -> bool {
        self.lock().is_paused()
    }

    fn release(self: Arc<Self>) {
        release(self);
    }
}

impl Engine {
    /// Applies a change of settings. Only the timing of a scheduler can change.
    fn change(&self, change: &Change) -> Result<Settings, ChangeError> {
        if self.lock().has_ended() {
            return Err(ChangeError::Ended);
        }
        let mut settings = self.settings.lock();
        let new = change.applied_to(&settings)?;
        refuse_fixed(&settings, &new)?;
        let old = std::mem::replace(&mut *settings, new.clone());
        self.meter.set_timing(new.timing);
        drop(settings);
        self.registration.tell(&Event::Changed { old: &old, new: &new, by: change.author() });
        Ok(new)
    }

    #[cold]
    pub(super) fn tell_resumed(&self) {
        self.registration.tell(&Event::Resumed { by: &Actor::new("the program", "shutdown") });
    }

    pub(super) fn tell_started(&self, worker: &WorkerInfo) {
        self.lock().count_start(true);
        self.registration.tell(&Event::WorkerStarted { worker });
    }

    pub(super) fn tell_stopped(&self, worker: &WorkerInfo) {
        self.registration.tell(&Event::WorkerStopped { worker });
    }

    /// Reports that an own thread could not be started. A refusal by an executor is not reported.
    pub(super) fn tell_start_failed(&self, refusal: &Refusal) {
        if let Some(error) = refusal.cause().filter(|_| self.source.is_own()) {
            self.lock().count_start(false);
            self.registration.tell(&Event::WorkerFailed { error });
        }
    }
}

/// Returns an error if a setting other than the timing differs.
fn refuse_fixed(old: &Settings, new: &Settings) -> Result<(), ChangeError> {
    let sizes = "a scheduler keeps the number of threads with which it was created";
    let queues = "a scheduler keeps the queues with which it was created";
    let fixed = [
        ("core_pool_size", old.core_pool_size == new.core_pool_size, sizes),
        ("maximum_pool_size", old.maximum_pool_size == new.maximum_pool_size, sizes),
        (
            "keep_alive_time",
            old.keep_alive_time == new.keep_alive_time,
            "a scheduler keeps the time to live with which it was created",
        ),
        ("core_threads_time_out", old.core_threads_time_out == new.core_threads_time_out, sizes),
        ("queue_capacity", old.queue_capacity == new.queue_capacity, queues),
        ("policy", old.policy == new.policy, "a scheduler returns refused tasks to their submitters"),
    ];
    let changed = fixed.into_iter().find(|(_, is_same, _)| !is_same);
    changed.map_or(Ok(()), |(setting, _, why)| Err(ChangeError::Unsupported { setting, why }))
}
