//! Plays a scenario of kind pool: one driver thread, one record per step, each taken when the pool
//! is at rest.

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use millpond::{
    ConfigError, RejectReason, Rejected, Task, TaskId, TaskOf, ThreadPoolExecutor, WorkQueue, policy,
};
use serde_json::{Value, json};

use crate::PlayError;
use crate::future::Future;
use crate::gate::{Gate, Passage};
use crate::ledger::{Ledger, Recorder};
use crate::scenario::{GateState, KeepAlive, OnInterrupt, Policy, PoolConfig, PoolStep, QueueSpec, TaskSpec};
use crate::settle::{Witness, settle};
use crate::trace::{Construct, End, Event, Observed, PoolTrace, Record, sort_by_task};

/// Plays `steps` on a pool built from `config`.
///
/// # Errors
/// If the scenario cannot be played, if the pool does not come to rest, or if the run was too slow.
pub fn play(id: &Value, config: &PoolConfig, steps: &[PoolStep]) -> Result<PoolTrace, PlayError> {
    let trace = |construct, steps| PoolTrace { id: id.clone(), kind: "pool", construct, steps };
    let tasks = announce(steps)?;
    let ledger = Arc::new(Ledger::default());
    let Some(pool) = build(config, &ledger)? else {
        return Ok(trace(Construct::IllegalArgument, Vec::new()));
    };
    let mut player = Player { pool, ledger, tasks, handed_in: 0, drained: Vec::new(), queue: config.queue };
    let records = player.play_all(steps, Stretch::new(config.keep_alive_ms));
    player.end_pool();
    let records = records?; // a failed run may have threads that never end
    player.await_end()?;
    Ok(trace(Construct::Ok, records))
}

/// All tasks named by steps, with their initial gates.
fn announce(steps: &[PoolStep]) -> Result<BTreeMap<i64, Slot>, PlayError> {
    let mut tasks: BTreeMap<i64, Slot> = BTreeMap::new();
    for step in steps {
        if let PoolStep::Execute(spec) | PoolStep::Submit(spec) = step
            && tasks.insert(spec.t, Slot::new(spec.clone())).is_some()
        {
            return Err(PlayError::Failed(format!("task {} is handed in twice", spec.t)));
        }
    }
    for t in steps.iter().filter_map(PoolStep::task) {
        let gate = GateState::Closed;
        let spec = TaskSpec { t, priority: 0, gate, on_interrupt: OnInterrupt::Exit };
        tasks.entry(t).or_insert_with(|| Slot::new(spec));
    }
    Ok(tasks)
}

/// The pool. `None` if its configuration is rejected.
fn build(config: &PoolConfig, ledger: &Arc<Ledger>) -> Result<Option<ThreadPoolExecutor>, PlayError> {
    let (Ok(core), Ok(max), Ok(keep_alive)) =
        (usize::try_from(config.core), usize::try_from(config.max), u64::try_from(config.keep_alive_ms))
    else {
        return Ok(None);
    };
    let Some(queue) = work_queue(config.queue)? else { return Ok(None) };
    let builder = ThreadPoolExecutor::builder()
        .core_pool_size(core)
        .maximum_pool_size(max)
        .keep_alive_time(Duration::from_millis(keep_alive))
        .allow_core_thread_time_out(config.allow_core_timeout)
        .work_queue(queue)
        .hooks(Recorder(Arc::clone(ledger)))
        .remove_on_cancel(false);
    let builder = match config.policy {
        Policy::Abort => builder.rejected_execution_handler(policy::Abort),
        Policy::CallerRuns => builder.rejected_execution_handler(policy::CallerRuns),
        Policy::Discard => builder.rejected_execution_handler(policy::Discard),
        Policy::DiscardOldest => builder.rejected_execution_handler(policy::DiscardOldest),
    };
    Ok(builder.build().ok())
}

/// The work queue. `None` if its capacity cannot be expressed in the API.
fn work_queue(spec: QueueSpec) -> Result<Option<WorkQueue>, PlayError> {
    let sized = |n: i64, make: fn(usize) -> WorkQueue| usize::try_from(n).ok().map(make);
    Ok(match spec {
        QueueSpec::Array { capacity } => sized(capacity, WorkQueue::array),
        QueueSpec::Linked { capacity: Some(capacity) } => sized(capacity, WorkQueue::linked_bounded),
        QueueSpec::Linked { capacity: None } => Some(WorkQueue::linked()),
        QueueSpec::Synchronous => Some(WorkQueue::synchronous()),
        QueueSpec::Priority => Some(WorkQueue::priority()),
        QueueSpec::Delay => return Err(PlayError::failed("a pool scenario has no delay queue")),
    })
}

/// A task of the scenario, as the driver keeps it.
struct Slot {
    spec: TaskSpec,
    gate: Arc<Gate>,
    /// Known once the task was submitted.
    id: Option<TaskId>,
    /// The number of tasks submitted before.
    ordinal: usize,
    /// Present if a submit was accepted.
    future: Option<Future>,
}

impl Slot {
    fn new(spec: TaskSpec) -> Slot {
        let gate = Arc::new(Gate::new(spec.gate));
        Slot { spec, gate, id: None, ordinal: 0, future: None }
    }

    fn cancel(&mut self, may_interrupt: bool) -> Value {
        self.future.as_mut().map_or(json!("no_future"), |future| json!(future.cancel(may_interrupt)))
    }

    fn get(&mut self, timeout: Duration) -> Result<Value, PlayError> {
        self.future.as_mut().map_or(Ok(json!("no_future")), |future| future.get(timeout))
    }
}

/// The body of a task.
struct Body {
    t: i64,
    on_interrupt: OnInterrupt,
    gate: Arc<Gate>,
    ledger: Arc<Ledger>,
    driver: ThreadId,
}

/// The panic payload of the tasks of a scenario.
struct TaskFailure;

impl Body {
    fn run(self) -> i64 {
        let t = self.t;
        if thread::current().id() == self.driver {
            self.ledger.record(Event::Caller(t));
            return self.end(End::Ok);
        }
        self.ledger.record(Event::Start(t));
        loop {
            match self.gate.pass() {
                Passage::Open => return self.end(End::Ok),
                Passage::Fail => self.fail(),
                Passage::Interrupted => match self.on_interrupt {
                    OnInterrupt::Exit => return self.end(End::Interrupted),
                    OnInterrupt::Fail => self.fail(),
                    OnInterrupt::Ignore => self.ledger.record(Event::Interrupted(t)),
                },
            }
        }
    }

    fn end(&self, how: End) -> i64 {
        self.ledger.record(Event::End(self.t, how));
        self.t
    }

    fn fail(&self) -> ! {
        self.ledger.record(Event::End(self.t, End::Failed));
        resume_unwind(Box::new(TaskFailure)) // not `panic!`, which would call the panic hook
    }
}

/// The time between two long sleeps, in a scenario whose keep-alive time is neither short nor
/// infinite.
struct Stretch {
    keep_alive: Option<Duration>,
    begun: Instant,
}

impl Stretch {
    fn new(keep_alive_ms: i64) -> Stretch {
        let timed = KeepAlive::of(keep_alive_ms) == KeepAlive::Timed;
        let keep_alive = timed.then(|| Duration::from_millis(keep_alive_ms.unsigned_abs()));
        Stretch { keep_alive, begun: Instant::now() }
    }

    fn is_long_sleep(&self, step: &PoolStep) -> bool {
        match (step, self.keep_alive) {
            (PoolStep::Sleep { ms }, Some(keep_alive)) => millis(*ms) >= 3 * keep_alive,
            _ => false,
        }
    }

    /// If the time was too long, a worker may have expired too early.
    fn end(&self) -> Result<(), PlayError> {
        match self.keep_alive {
            Some(keep_alive) if self.begun.elapsed() > keep_alive * 3 / 4 => {
                Err(PlayError::TooSlow("a stretch took more than 3/4 of the keep-alive time"))
            }
            _ => Ok(()),
        }
    }
}

struct Player {
    pool: ThreadPoolExecutor,
    ledger: Arc<Ledger>,
    tasks: BTreeMap<i64, Slot>,
    handed_in: usize,
    /// Kept until the end, so that their handles stay pending, as the reference's do.
    drained: Vec<Task>,
    queue: QueueSpec,
}

impl Witness for Player {
    fn busy(&self) -> usize {
        self.tasks.values().filter(|slot| slot.gate.is_resting_place()).count()
    }
    fn threads(&self) -> usize {
        self.ledger.threads()
    }
    fn events(&self) -> u64 {
        self.ledger.count()
    }
}

impl Player {
    fn play_all(&mut self, steps: &[PoolStep], mut stretch: Stretch) -> Result<Vec<Record>, PlayError> {
        let mut records = Vec::with_capacity(steps.len());
        for step in steps {
            let long_sleep = stretch.is_long_sleep(step);
            if long_sleep {
                stretch.end()?;
            }
            records.push(self.play(step, long_sleep)?);
            if long_sleep {
                stretch.begun = Instant::now();
            }
        }
        stretch.end()?;
        Ok(records)
    }

    fn play(&mut self, step: &PoolStep, long_sleep: bool) -> Result<Record, PlayError> {
        let result = self.call(step)?;
        let instant =
            KeepAlive::of(self.keep_alive_ms().try_into().unwrap_or(i64::MAX)) == KeepAlive::Instant;
        settle(&self.pool, self, instant || long_sleep)?;
        let mut events = self.ledger.take();
        if step.moves_many() {
            sort_by_task(&mut events);
        }
        Ok(Record { op: step.op(), result, events, obs: self.observe() })
    }

    fn call(&mut self, step: &PoolStep) -> Result<Value, PlayError> {
        let pool = self.pool.clone();
        Ok(match step {
            PoolStep::Execute(spec) => self.execute(spec)?,
            PoolStep::Submit(spec) => self.submit(spec)?,
            PoolStep::Release { t } => self.turn_gate(*t, GateState::Open),
            PoolStep::Fail { t } => self.turn_gate(*t, GateState::Fail),
            PoolStep::Cancel { t, may_interrupt } => self.slot(*t).cancel(*may_interrupt),
            PoolStep::Remove { t } => json!(self.slot(*t).id.is_some_and(|id| pool.remove(id))),
            PoolStep::Purge => {
                pool.purge();
                json!("ok")
            }
            PoolStep::SetCore { n } => set(usize::try_from(*n), |n| pool.set_core_pool_size(n)),
            PoolStep::SetMax { n } => set(usize::try_from(*n), |n| pool.set_maximum_pool_size(n)),
            PoolStep::SetKeepAlive { ms } => {
                set(u64::try_from(*ms), |ms| pool.set_keep_alive_time(Duration::from_millis(ms)))
            }
            PoolStep::AllowCoreTimeout { value } => said(pool.allow_core_thread_time_out(*value)),
            PoolStep::SetPolicy { policy } => self.set_policy(*policy),
            PoolStep::PrestartCore => json!(pool.prestart_core_thread()),
            PoolStep::PrestartAll => json!(pool.prestart_all_core_threads()),
            PoolStep::Shutdown => {
                pool.shutdown();
                json!("ok")
            }
            PoolStep::ShutdownNow => self.shutdown_now(),
            PoolStep::AwaitTermination { ms } => {
                let ended = pool.await_termination(millis(*ms));
                json!(ended.map_err(|why| PlayError::Failed(format!("await_termination: {why}")))?)
            }
            PoolStep::Sleep { ms } => {
                thread::sleep(millis(*ms));
                json!("ok")
            }
            PoolStep::FutureGet { t, timeout_ms } => self.slot(*t).get(millis(*timeout_ms))?,
            PoolStep::Snapshot => {
                let states =
                    self.tasks.iter().filter_map(|(t, slot)| Some(json!([t, slot.future.as_ref()?.state()])));
                Value::Array(states.collect())
            }
        })
    }

    fn execute(&mut self, spec: &TaskSpec) -> Result<Value, PlayError> {
        let body = self.body(spec);
        let task = Task::new(move || {
            body.run();
        });
        let task = task.with_priority(ours(spec.priority));
        self.hand_in(spec.t, task.id());
        accepted(self.pool.execute_task(task).map(drop))
    }

    fn submit(&mut self, spec: &TaskSpec) -> Result<Value, PlayError> {
        let body = self.body(spec);
        let task = TaskOf::new(move || body.run()).with_priority(ours(spec.priority));
        self.hand_in(spec.t, task.id());
        let handle = self.pool.submit_task(task);
        let slot = self.slot(spec.t);
        accepted(handle.map(|handle| slot.future = Some(Future::new(handle))))
    }

    fn body(&self, spec: &TaskSpec) -> Body {
        Body {
            t: spec.t,
            on_interrupt: spec.on_interrupt,
            gate: Arc::clone(&self.tasks[&spec.t].gate),
            ledger: Arc::clone(&self.ledger),
            driver: thread::current().id(),
        }
    }

    /// Records a task's id before the pool gets the task, so that the hooks know its name.
    fn hand_in(&mut self, t: i64, id: TaskId) {
        self.ledger.name(id, t);
        let ordinal = self.handed_in;
        self.handed_in += 1;
        let slot = self.slot(t);
        slot.id = Some(id);
        slot.ordinal = ordinal;
    }

    fn turn_gate(&mut self, t: i64, state: GateState) -> Value {
        self.slot(t).gate.turn(state);
        json!("ok")
    }

    fn set_policy(&self, policy: Policy) -> Value {
        match policy {
            Policy::Abort => self.pool.set_rejected_execution_handler(policy::Abort),
            Policy::CallerRuns => self.pool.set_rejected_execution_handler(policy::CallerRuns),
            Policy::Discard => self.pool.set_rejected_execution_handler(policy::Discard),
            Policy::DiscardOldest => self.pool.set_rejected_execution_handler(policy::DiscardOldest),
        }
        json!("ok")
    }

    fn shutdown_now(&mut self) -> Value {
        let drained = self.pool.shutdown_now();
        let names: Vec<i64> = drained.iter().map(|task| self.ledger.name_of(task.id())).collect();
        self.drained.extend(drained);
        json!(names)
    }

    fn observe(&self) -> Observed {
        let pool = &self.pool;
        Observed {
            pool_size: pool.pool_size(),
            active: pool.active_count(),
            queued: self.queued(),
            largest: pool.largest_pool_size(),
            completed: pool.completed_task_count(),
            shutdown: pool.is_shutdown(),
            terminating: pool.is_terminating(),
            terminated: pool.is_terminated(),
            core: pool.core_pool_size(),
            max: pool.maximum_pool_size(),
            keep_alive_ms: self.keep_alive_ms(),
            allow_core_timeout: pool.allows_core_thread_time_out(),
        }
    }

    fn queued(&self) -> Vec<i64> {
        let ids = self.pool.queued_tasks();
        let mut queued: Vec<i64> = ids.into_iter().map(|id| self.ledger.name_of(id)).collect();
        if self.queue == QueueSpec::Priority {
            // The inner order of a priority queue is not determined.
            queued.sort_by_key(|t| self.tasks.get(t).map(|slot| (slot.spec.priority, slot.ordinal)));
        }
        queued
    }

    fn keep_alive_ms(&self) -> u64 {
        u64::try_from(self.pool.keep_alive_time().as_millis()).unwrap_or(u64::MAX)
    }

    fn slot(&mut self, t: i64) -> &mut Slot {
        self.tasks.get_mut(&t).expect("every task of a step was announced")
    }

    /// Opens all gates and ends the pool.
    fn end_pool(&self) {
        for slot in self.tasks.values() {
            slot.gate.turn(GateState::Open);
        }
        drop(self.pool.shutdown_now());
    }

    /// With all gates open and all tasks interrupted the pool must terminate.
    fn await_end(&self) -> Result<(), PlayError> {
        match self.pool.await_termination(Duration::from_secs(20)) {
            Ok(true) => Ok(()),
            _ => Err(PlayError::failed("the pool does not end after the last step")),
        }
    }
}

/// Millpond runs larger priorities first.
fn ours(priority: i32) -> i32 {
    priority.saturating_neg()
}

fn millis(ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}

/// Calls a setter, unless the number cannot be expressed in the API.
fn set<N, E>(n: Result<N, E>, setter: impl FnOnce(N) -> Result<(), ConfigError>) -> Value {
    n.map_or_else(|_| json!("illegal_argument"), |n| said(setter(n)))
}

fn said(outcome: Result<(), ConfigError>) -> Value {
    json!(if outcome.is_ok() { "ok" } else { "illegal_argument" })
}

fn accepted(outcome: Result<(), Rejected>) -> Result<Value, PlayError> {
    match outcome {
        Ok(()) => Ok(json!("ok")),
        Err(refused) => match refused.reason() {
            RejectReason::Saturated | RejectReason::Shutdown => Ok(json!("rejected")),
            _ => Err(PlayError::Failed(format!("not a matter of room: {refused}"))),
        },
    }
}
