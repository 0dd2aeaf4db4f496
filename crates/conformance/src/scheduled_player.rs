//! Plays a scenario of kind scheduled: steps at the beginning of slots, task runs in the middle.
//!
//! A slot has 100 ms. In real time every event must happen within its window of some tens of
//! milliseconds. If one is late, the run is discarded.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use millpond::{RejectReason, Rejected, ScheduledThreadPoolExecutor, Task, TaskId};
use serde_json::{Value, json};

use crate::PlayError;
use crate::diary::{Again, Body, Counter, Diary};
use crate::future::Future;
use crate::scenario::{ScheduledConfig, ScheduledStep, TimedSpec};
use crate::time::{HALF_SLOT, Time, TimeKind};
use crate::trace::{Construct, ScheduledObserved, ScheduledRecord, ScheduledTrace};

const SLOT: Duration = Duration::from_millis(100);
/// Steps must begin and end within this time of their slot's beginning.
const STEP_WINDOW: Duration = Duration::from_millis(25);
/// Ten minutes of slots.
const MAX_SLOTS: u64 = 6000;
/// After this time the pool is assumed never to come to rest.
const LIMIT: Duration = Duration::from_secs(20);

/// Plays `steps` on a pool built from `config`.
///
/// # Errors
/// If the scenario cannot be played, or the run was too slow.
pub fn play(
    id: &Value,
    config: &ScheduledConfig,
    steps: &[ScheduledStep],
    time: TimeKind,
) -> Result<ScheduledTrace, PlayError> {
    let trace = |construct, steps| ScheduledTrace { id: id.clone(), kind: "scheduled", construct, steps };
    check(steps)?;
    let diary = Arc::new(Diary::new(Time::begin(time), config.core <= 1));
    let Some(pool) = build(config, &diary) else {
        return Ok(trace(Construct::IllegalArgument, Vec::new()));
    };
    let mut player = Player {
        pool,
        diary,
        slot: 0,
        futures: BTreeMap::new(),
        names: BTreeMap::new(),
        ids: BTreeMap::new(),
        drained: Vec::new(),
    };
    let records = steps.iter().map(|step| player.play(step)).collect::<Result<Vec<_>, _>>();
    player.end_pool();
    let records = records?; // a failed run may have threads that never end
    player.await_end()?;
    Ok(trace(Construct::Ok, records))
}

fn check(steps: &[ScheduledStep]) -> Result<(), PlayError> {
    let slots = |step: &ScheduledStep| if let ScheduledStep::Advance { slots } = step { *slots } else { 0 };
    let length: u64 = steps.iter().map(|step| u64::from(slots(step))).sum();
    if length > MAX_SLOTS {
        return Err(PlayError::Failed(format!("{length} slots are too many, the most is {MAX_SLOTS}")));
    }
    let mut names: Vec<i64> = steps.iter().filter_map(|step| Some(step.handed_in()?.t)).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(PlayError::Failed(format!("task {} is handed in twice", pair[0]))),
        None => Ok(()),
    }
}

/// The pool. `None` if its configuration is rejected.
fn build(config: &ScheduledConfig, diary: &Arc<Diary>) -> Option<ScheduledThreadPoolExecutor> {
    ScheduledThreadPoolExecutor::builder()
        .core_pool_size(usize::try_from(config.core).ok()?)
        .clock(diary.time.clock())
        .hooks(Counter(Arc::clone(diary)))
        .remove_on_cancel_policy(false)
        .build()
        .ok()
}

struct Player {
    pool: ScheduledThreadPoolExecutor,
    diary: Arc<Diary>,
    /// The current slot.
    slot: u32,
    futures: BTreeMap<i64, Future>,
    names: BTreeMap<TaskId, i64>,
    ids: BTreeMap<i64, TaskId>,
    /// Kept until the end, so that their handles stay pending, as the reference's do.
    drained: Vec<Task>,
}

/// One snapshot of the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Look {
    hooks: [usize; 4],
    busy: usize,
    overdue: bool,
    active: usize,
    size: usize,
    idle: usize,
    queued: usize,
    /// Whether a queued task should be running by now.
    due: bool,
    shutdown: bool,
    terminated: bool,
}

impl Look {
    fn is_at_rest(&self) -> bool {
        let [before, after, started, stopped] = self.hooks;
        let waits = self.idle > 0;
        self.size == self.busy + self.idle
            && self.active == self.busy
            && before.wrapping_sub(after) == self.busy
            && started.wrapping_sub(stopped) == self.size
            && !self.overdue
            && !(waits && self.due)
            // While one worker is busy, others may wait for it to end.
            && !(waits && self.shutdown && self.queued == 0 && self.busy == 0)
            && !(self.shutdown && self.size == 0 && !self.terminated)
    }
}

impl Player {
    fn play(&mut self, step: &ScheduledStep) -> Result<ScheduledRecord, PlayError> {
        self.check_window()?;
        let result = self.call(step)?;
        let observes = matches!(step, ScheduledStep::Advance { .. });
        let obs = observes.then(|| self.observe());
        self.check_window()?;
        Ok(ScheduledRecord { op: step.op(), result, obs })
    }

    /// Steps are played at the beginning of their slot.
    fn check_window(&self) -> Result<(), PlayError> {
        let begun = SLOT * self.slot;
        match self.diary.spoiled() {
            Some(why) => Err(PlayError::TooSlow(why)),
            None if self.diary.time.now() > begun + STEP_WINDOW => {
                Err(PlayError::TooSlow("a step began or ended late in its slot"))
            }
            None => Ok(()),
        }
    }

    fn call(&mut self, step: &ScheduledStep) -> Result<Value, PlayError> {
        let pool = self.pool.clone();
        Ok(match step {
            ScheduledStep::Schedule(task) => {
                let mut body = self.body(task, Again::Never);
                let handle = pool.schedule(millis(task.delay_ms), move || body.run());
                let accepted = handle.map(|handle| (handle.id(), Future::new(handle.into_handle())));
                self.keep(task.t, accepted)?
            }
            ScheduledStep::AtFixedRate { task, period_ms } => self.series(task, *period_ms, Again::Rate)?,
            ScheduledStep::WithFixedDelay { task, period_ms } => {
                self.series(task, *period_ms, Again::Delay)?
            }
            ScheduledStep::Cancel { t } => {
                self.futures.get_mut(t).map_or(json!("no_future"), |future| json!(future.cancel(false)))
            }
            ScheduledStep::Remove { t } => json!(self.ids.get(t).is_some_and(|id| pool.remove(*id))),
            ScheduledStep::Purge => done(|| _ = pool.purge()),
            ScheduledStep::FutureGet { t, timeout_ms } => match self.futures.get_mut(t) {
                Some(future) => future.get(millis(*timeout_ms))?,
                None => json!("no_future"),
            },
            ScheduledStep::SetRemoveOnCancel { value } => done(|| pool.set_remove_on_cancel_policy(*value)),
            ScheduledStep::SetContinuePeriodic { value } => {
                done(|| pool.set_continue_existing_periodic_tasks_after_shutdown_policy(*value))
            }
            ScheduledStep::SetExecuteDelayed { value } => {
                done(|| pool.set_execute_existing_delayed_tasks_after_shutdown_policy(*value))
            }
            ScheduledStep::Shutdown => done(|| pool.shutdown()),
            ScheduledStep::ShutdownNow => self.shutdown_now(),
            ScheduledStep::Advance { slots } => self.advance(*slots)?,
        })
    }

    fn body(&self, task: &TimedSpec, again: Again) -> Body {
        self.diary.expect(task.t, millis(task.delay_ms));
        Body::new(task, again, &self.diary)
    }

    fn series(
        &mut self,
        task: &TimedSpec,
        period_ms: i64,
        again: fn(Duration) -> Again,
    ) -> Result<Value, PlayError> {
        if period_ms < 0 {
            return Ok(json!("illegal_argument"));
        }
        let (delay, period) = (millis(task.delay_ms), millis(period_ms));
        let mut body = self.body(task, again(period));
        let run = move || _ = body.run();
        let handle = match again(period) {
            Again::Rate(period) => self.pool.schedule_at_fixed_rate(delay, period, run),
            _ => self.pool.schedule_with_fixed_delay(delay, period, run),
        };
        self.keep(task.t, handle.map(|handle| (handle.id(), Future::new(handle.into_handle()))))
    }

    fn keep(&mut self, t: i64, accepted: Result<(TaskId, Future), Rejected>) -> Result<Value, PlayError> {
        match accepted {
            Ok((id, future)) => {
                self.names.insert(id, t);
                self.ids.insert(t, id);
                self.futures.insert(t, future);
                Ok(json!("ok"))
            }
            Err(refused) => match refused.reason() {
                RejectReason::Shutdown => Ok(json!("rejected")),
                RejectReason::ZeroPeriod => Ok(json!("illegal_argument")),
                _ => Err(PlayError::Failed(format!("refused for no good reason: {refused}"))),
            },
        }
    }

    fn shutdown_now(&mut self) -> Value {
        let drained = self.pool.shutdown_now();
        let mut names: Vec<i64> = drained.iter().map(|task| self.name_of(task.id())).collect();
        names.sort_unstable(); // the reference's order is not determined
        self.drained.extend(drained);
        json!(names)
    }

    /// The name of a task; -1, which occurs in no trace, for an unknown task.
    fn name_of(&self, id: TaskId) -> i64 {
        self.names.get(&id).copied().unwrap_or(-1)
    }

    /// Waits for a later slot. Returns the runs that began meanwhile.
    fn advance(&mut self, slots: u32) -> Result<Value, PlayError> {
        self.slot += slots;
        let then = SLOT * self.slot;
        loop {
            if !self.diary.time.is_real() {
                self.settle()?; // due tasks run before the time moves on
            }
            let arrived = self.diary.time.pass(then);
            self.diary.tell();
            if arrived {
                break;
            }
        }
        self.settle()?;
        let mut halves: BTreeMap<u64, Vec<i64>> = BTreeMap::new();
        for (t, begun) in self.diary.take_runs() {
            if self.diary.time.is_real() && begun >= then {
                return Err(PlayError::TooSlow("a run began after its slot"));
            }
            let half = begun.as_nanos() / HALF_SLOT.as_nanos();
            halves.entry(half as u64).or_default().push(t);
        }
        halves.values_mut().for_each(|names| names.sort_unstable());
        Ok(halves.into_iter().map(|(half, names)| json!([half, names])).collect())
    }

    /// Waits until every worker is idle or in its busy run, in two consecutive snapshots without an
    /// event in between.
    fn settle(&self) -> Result<(), PlayError> {
        let begun = Instant::now();
        let mut before = None;
        loop {
            let look = self.look();
            if !look.is_at_rest() {
                if self.diary.time.is_real() {
                    self.check_window()?;
                }
                if begun.elapsed() > LIMIT {
                    return Err(PlayError::Failed(format!("the pool does not come to rest: {look:?}")));
                }
                before = None;
                thread::sleep(Duration::from_micros(100));
            } else if before == Some(look) {
                return Ok(());
            } else {
                before = Some(look);
            }
        }
    }

    fn look(&self) -> Look {
        let pool = &self.pool;
        let hooks = self.diary.hooks();
        let (busy, overdue) = self.diary.busy();
        let queued = pool.queued_tasks();
        Look {
            hooks,
            busy,
            overdue,
            active: pool.active_count(),
            size: pool.pool_size(),
            idle: pool.parked_workers().all,
            queued: queued.len(),
            due: queued.iter().any(|id| self.diary.is_due(self.name_of(*id))),
            shutdown: pool.is_shutdown(),
            terminated: pool.is_terminated(),
        }
    }

    fn observe(&self) -> ScheduledObserved {
        ScheduledObserved {
            active: self.pool.active_count(),
            queue_size: self.pool.queued_count(),
            completed: self.pool.completed_task_count(),
            shutdown: self.pool.is_shutdown(),
            terminated: self.pool.is_terminated(),
            futures: self.futures.iter().map(|(t, future)| (*t, future.state())).collect(),
        }
    }

    /// Ends a busy run, and ends the pool.
    fn end_pool(&self) {
        self.diary.end();
        drop(self.pool.shutdown_now());
    }

    /// With all tasks released the pool must terminate.
    fn await_end(&self) -> Result<(), PlayError> {
        match self.pool.await_termination(LIMIT) {
            Ok(true) => Ok(()),
            _ => Err(PlayError::failed("the pool does not end after the last step")),
        }
    }
}

fn done(call: impl FnOnce()) -> Value {
    call();
    json!("ok")
}

fn millis(ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}
