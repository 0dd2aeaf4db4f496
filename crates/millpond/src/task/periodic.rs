//! Periodic tasks: [`PeriodicTask`], and the rule for when the next run is due.

use std::borrow::Cow;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

pub(crate) use super::decorate::Body;
use super::info::TaskInfo;
use super::work::{Ran, Work};
use crate::sync::{Arc, AtomicU64, Exclusive, Mutex, Ordering};
use crate::time::clock::{Clock, Tick};

/// How a fixed-rate task handles runs whose time passed while it was busy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MissedTicks {
    /// Each missed run takes place, one directly after the other, until the task is on time again.
    /// This is the JDK's behaviour.
    #[default]
    CatchUp,
    /// One run takes place at once for all missed runs. Then the task is back on its grid.
    Coalesce,
    /// Missed runs are skipped: the task waits for the next time of its grid.
    Skip,
}

/// What happens to a periodic task when a run panics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnPanic {
    /// The task ends, and its handle resolves with the panic. The default on executors, as in the
    /// JDK.
    End,
    /// The task continues with the next run, and its handle stays pending. The default on
    /// schedulers. The panic is reported to [`Hooks::panicked`](crate::Hooks::panicked) of an
    /// executor, or to the error hooks of [`schedulers::on_error`](crate::schedulers::on_error).
    Continue,
}

/// Work that runs periodically, with its name and its handling of missed runs and panics.
///
/// # Examples
/// ```
/// use millpond::{MissedTicks, PeriodicTask, executors};
/// use std::time::Duration;
///
/// let pool = executors::scheduled(1);
/// let flush = PeriodicTask::new(|| println!("flushed")).named("flush");
/// let flush = flush.missed_ticks(MissedTicks::Skip);
/// let series = pool.schedule_at_fixed_rate_task(Duration::ZERO, Duration::from_secs(1), flush)?;
/// series.cancel(true);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a periodic task does nothing until it is scheduled"]
pub struct PeriodicTask {
    pub(crate) info: TaskInfo,
    /// Taken out when the task is scheduled. `Exclusive` makes the task `Sync` until then.
    pub(crate) body: Exclusive<Body>,
    pub(crate) missed: MissedTicks,
    /// `None` for the default of the executor or scheduler.
    pub(crate) on_panic: Option<OnPanic>,
    /// Where each run stores when the next run is due; `None` if the schedule is fixed.
    pub(crate) answer: Option<Arc<Answer>>,
}

impl PeriodicTask {
    /// Creates a periodic task from a closure.
    pub fn new(f: impl FnMut() + Send + 'static) -> PeriodicTask {
        PeriodicTask {
            info: TaskInfo::fresh(),
            body: Exclusive::new(Box::new(f)),
            missed: MissedTicks::default(),
            on_panic: None,
            answer: None,
        }
    }

    /// Sets the name, for hooks and error messages.
    pub fn named(mut self, name: impl Into<Cow<'static, str>>) -> PeriodicTask {
        self.info.set_name(name.into());
        self
    }

    /// Sets how the task handles missed runs. Default: [`MissedTicks::CatchUp`]. Has no effect with
    /// a fixed delay.
    pub fn missed_ticks(mut self, missed: MissedTicks) -> PeriodicTask {
        self.missed = missed;
        self
    }

    /// Sets whether the task continues after a run that panics. Default: [`OnPanic::End`] on an
    /// executor, [`OnPanic::Continue`] on a scheduler.
    ///
    /// # Examples
    /// ```
    /// use millpond::{OnPanic, PeriodicTask, executors};
    /// use std::sync::mpsc;
    /// use std::time::Duration;
    ///
    /// let pool = executors::scheduled(1);
    /// let (send, runs) = mpsc::channel();
    /// let flush = PeriodicTask::new(move || {
    ///     let _ = send.send(());
    ///     std::panic::resume_unwind(Box::new("the disk is full"));
    /// });
    /// let series = pool.schedule_with_fixed_delay_task(
    ///     Duration::ZERO,
    ///     Duration::from_millis(1),
    ///     flush.on_panic(OnPanic::Continue),
    /// )?;
    /// assert_eq!(runs.iter().take(3).count(), 3);
    /// assert!(!series.is_done());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_panic(mut self, on_panic: OnPanic) -> PeriodicTask {
        self.on_panic = Some(on_panic);
        self
    }
}

impl fmt::Debug for PeriodicTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeriodicTask")
            .field("info", &self.info)
            .field("missed", &self.missed)
            .field("on_panic", &self.on_panic)
            .finish_non_exhaustive()
    }
}

/// The rule for when a periodic task runs.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Schedule {
    /// One period after the previous run was due.
    Rate(Duration, MissedTicks),
    /// One delay after the previous run ended.
    Delay(Duration),
}

impl Schedule {
    /// Returns when the next run is due, if the run that was due at `due` has ended at `now`.
    pub(crate) fn next(self, due: Tick, now: Tick) -> Tick {
        let (period, missed) = match self {
            Schedule::Delay(delay) => return now.plus(delay),
            Schedule::Rate(period, missed) => (period, missed),
        };
        if period.is_zero() {
            return now; // after all tasks that are due by now
        }
        let next = due.plus(period);
        if next >= now {
            return next;
        }
        let step = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX);
        let late = now.nanos() - next.nanos();
        match missed {
            MissedTicks::CatchUp => next,
            MissedTicks::Coalesce => Tick::from_nanos(next.nanos() + late / step * step),
            MissedTicks::Skip => next.plus(Duration::from_nanos(late.div_ceil(step).saturating_mul(step))),
        }
    }
}

/// When the next run is due: the result of a run of
/// [`schedule_repeating`](crate::ScheduledThreadPoolExecutor::schedule_repeating).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// This long after the run has ended. With `Duration::ZERO`, directly after all tasks that are
    /// due at that time.
    After(Duration),
    /// At this instant of the pool's clock ([`Clock::now`](crate::Clock::now)), or at once if it
    /// has passed.
    At(Instant),
    /// There is no next run. The handle resolves with `Ok(())`.
    Stop,
}

/// The answer of a run for the pool, which reads it on the same thread after the run.
#[derive(Debug)]
pub(crate) struct Answer(Mutex<Next>);

impl Answer {
    pub(crate) fn new() -> Arc<Answer> {
        Arc::new(Answer(Mutex::new(Next::Stop)))
    }

    pub(crate) fn set(&self, next: Next) {
        *self.0.lock() = next;
    }

    fn get(&self) -> Next {
        *self.0.lock()
    }
}

/// The source of the next due time.
#[derive(Debug)]
pub(crate) enum Plan {
    Fixed(Schedule),
    Answered(Arc<Answer>),
}

impl Plan {
    fn next(&self, due: Tick, clock: &Clock) -> Tick {
        match self {
            Plan::Fixed(schedule) => schedule.next(due, clock.tick()),
            Plan::Answered(answer) => match answer.get() {
                Next::After(delay) => clock.tick_after(delay),
                Next::At(moment) => clock.tick_at(moment),
                Next::Stop => Tick::NEVER,
            },
        }
    }
}

/// When the runs of one periodic task are due. Shared by its pool and its handle.
#[derive(Debug)]
pub(crate) struct Timing {
    plan: Plan,
    on_panic: OnPanic,
    clock: Clock,
    /// When the next or current run is due. Written by the pool between two runs.
    due: AtomicU64,
    /// The number of the task in the queue, which it keeps from run to run; `u64::MAX` until it has
    /// a number. Guarded by the lock of the queue.
    number: AtomicU64,
}

impl Timing {
    pub(crate) fn new(plan: Plan, on_panic: OnPanic, clock: Clock, first: Tick) -> Arc<Timing> {
        let number = AtomicU64::new(u64::MAX);
        Arc::new(Timing { plan, on_panic, clock, due: AtomicU64::new(first.nanos()), number })
    }

    pub(crate) fn due(&self) -> Tick {
        Tick::from_nanos(self.due.load(Ordering::Relaxed))
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    pub(crate) fn on_panic(&self) -> OnPanic {
        self.on_panic
    }

    /// Called after a run. Returns when the next run is due.
    pub(crate) fn ended(&self) -> Tick {
        let next = self.plan.next(self.due(), &self.clock);
        self.due.store(next.nanos(), Ordering::Relaxed);
        next
    }

    /// Returns the number of the task, which becomes `fresh` if it has no number yet.
    pub(crate) fn number_or(&self, fresh: u64) -> u64 {
        let number = self.number.load(Ordering::Relaxed);
        if number != u64::MAX {
            return number;
        }
        self.number.store(fresh, Ordering::Relaxed);
        fresh
    }
}

impl PeriodicTask {
    fn is_stopped(&self) -> bool {
        self.answer.as_ref().is_some_and(|answer| answer.get() == Next::Stop)
    }
}

/// Each call performs one run. The executor or scheduler has set `on_panic`.
impl Work<()> for PeriodicTask {
    fn run(mut self) -> Ran<(), PeriodicTask> {
        if let Some(answer) = &self.answer {
            answer.set(Next::Stop); // the default, if the run sets nothing
        }
        match catch_unwind(AssertUnwindSafe(self.body.get_mut())) {
            Ok(()) if self.is_stopped() => Ran::Over(Ok(()), Some(self)),
            Ok(()) => Ran::Again(self),
            Err(payload) if self.on_panic == Some(OnPanic::Continue) => Ran::AgainAfterPanic(self, payload),
            Err(payload) => Ran::Over(Err(payload), Some(self)),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn next(missed: MissedTicks, due: u64, now: u64) -> u64 {
        Schedule::Rate(Duration::from_nanos(10), missed)
            .next(Tick::from_nanos(due), Tick::from_nanos(now))
            .nanos()
    }

    #[test]
    fn a_series_in_time_stays_on_its_grid_whatever_it_does_about_missed_runs() {
        for missed in [MissedTicks::CatchUp, MissedTicks::Coalesce, MissedTicks::Skip] {
            assert_eq!(next(missed, 100, 100), 110);
            assert_eq!(next(missed, 100, 109), 110);
            assert_eq!(next(missed, 100, 110), 110, "due now is not missed");
        }
    }

    #[test]
    fn missed_runs_are_made_up_for_or_merged_or_left_out() {
        assert_eq!(next(MissedTicks::CatchUp, 100, 135), 110);
        assert_eq!(next(MissedTicks::Coalesce, 100, 135), 130, "one run for 110, 120 and 130");
        assert_eq!(next(MissedTicks::Coalesce, 130, 135), 140, "then the grid");
        assert_eq!(next(MissedTicks::Skip, 100, 135), 140);
        assert_eq!(next(MissedTicks::Skip, 100, 130), 130, "the point that is now is not missed");
    }

    #[test]
    fn a_period_of_zero_means_now() {
        let rate = Schedule::Rate(Duration::ZERO, MissedTicks::CatchUp);
        assert_eq!(rate.next(Tick::from_nanos(5), Tick::from_nanos(35)).nanos(), 35);
    }

    #[test]
    fn a_fixed_delay_counts_from_the_end_of_the_run_and_never_overflows() {
        let delay = |delay, now| Schedule::Delay(delay).next(Tick::from_nanos(0), now);
        assert_eq!(delay(Duration::from_nanos(10), Tick::from_nanos(35)).nanos(), 45);
        assert_eq!(delay(Duration::MAX, Tick::from_nanos(35)), Tick::NEVER);
        let rate = Schedule::Rate(Duration::MAX, MissedTicks::Skip);
        assert_eq!(rate.next(Tick::from_nanos(5), Tick::from_nanos(35)), Tick::NEVER);
    }
}
