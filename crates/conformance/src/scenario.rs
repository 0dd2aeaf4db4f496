//! A scenario: one JSON object per line, read and written with serde.
//!
//! Numbers are `i64` even where only sizes make sense, because a scenario may use a core size of -1
//! to check that it is rejected. Unknown fields are ignored. Unknown operations are an error.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::time::TimeKind;

/// A scenario: a name, and what to play.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Scenario {
    /// Copied into the trace; unique in a file.
    pub id: Value,
    /// The family of scenarios it belongs to, for information.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// What to play.
    #[serde(flatten)]
    pub program: Program,
}

/// What to play, by kind.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Program {
    /// A thread pool.
    Pool {
        /// How the pool is built.
        config: PoolConfig,
        /// What is done with it.
        steps: Vec<PoolStep>,
    },
    /// A blocking queue, played by one thread.
    Queue {
        /// How the queue is built.
        config: QueueConfig,
        /// What is done with it.
        steps: Vec<QueueStep>,
    },
    /// A scheduled pool, played by the clock.
    Scheduled {
        /// How the pool is built.
        config: ScheduledConfig,
        /// What is done with it, and when.
        steps: Vec<ScheduledStep>,
    },
}

/// How much time playing a scenario takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// As little as the machine can.
    Quick,
    /// Mostly waiting.
    Sleeping,
    /// All steps have fixed times, to a few milliseconds.
    Clocked,
}

impl Program {
    /// How much time playing it takes, if scheduled pools use `time`.
    pub fn pace(&self, time: TimeKind) -> Pace {
        let sleeps = match self {
            Program::Pool { steps, .. } => steps.iter().any(|s| matches!(s, PoolStep::Sleep { .. })),
            Program::Queue { steps, .. } => steps.iter().any(|s| matches!(s, QueueStep::Sleep { .. })),
            Program::Scheduled { .. } if time == TimeKind::Real => return Pace::Clocked,
            Program::Scheduled { .. } => false,
        };
        if sleeps { Pace::Sleeping } else { Pace::Quick }
    }
}

/// How a pool is built.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PoolConfig {
    /// Core size.
    pub core: i64,
    /// Maximum size.
    pub max: i64,
    /// Keep-alive time.
    pub keep_alive_ms: i64,
    /// Whether core threads time out too.
    #[serde(default)]
    pub allow_core_timeout: bool,
    /// The work queue.
    pub queue: QueueSpec,
    /// The handling of tasks that do not fit.
    #[serde(default)]
    pub policy: Policy,
}

/// The three classes of keep-alive times, which decide when idle workers must have expired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeepAlive {
    /// So short that expiry is awaited after every step.
    Instant,
    /// Expiry is awaited after a long sleep, and must not happen before.
    Timed,
    /// So long that nothing expires.
    Never,
}

impl KeepAlive {
    /// The class of a keep-alive time in milliseconds.
    pub fn of(ms: i64) -> KeepAlive {
        match ms {
            ..=10 => KeepAlive::Instant,
            11..30_000 => KeepAlive::Timed,
            _ => KeepAlive::Never,
        }
    }
}

/// How a queue is built.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct QueueConfig {
    /// The kind, and for some kinds the capacity.
    pub queue: QueueSpec,
}

/// A kind of queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum QueueSpec {
    /// Bounded, first in, first out.
    Array {
        /// Maximum number of items.
        capacity: i64,
    },
    /// First in, first out, bounded or not.
    Linked {
        /// Maximum number of items; `None`: unbounded.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        capacity: Option<i64>,
    },
    /// Without capacity: hands items over.
    Synchronous,
    /// Smallest first.
    Priority,
    /// Earliest due first; only for scenarios of kind queue.
    Delay,
}

/// What a pool does with a task that it has no room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// Rejects it.
    #[default]
    Abort,
    /// The caller runs it.
    CallerRuns,
    /// Drops it.
    Discard,
    /// Drops the head of the queue instead.
    DiscardOldest,
}

/// The state of the gate that a task finds when it starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateState {
    /// The task blocks.
    #[default]
    Closed,
    /// The task returns.
    Open,
    /// The task fails.
    Fail,
}

/// What a task does when it is interrupted at its closed gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnInterrupt {
    /// Returns.
    #[default]
    Exit,
    /// Blocks again.
    Ignore,
    /// Fails.
    Fail,
}

/// A task and its options.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TaskSpec {
    /// Its name in the scenario.
    pub t: i64,
    /// Smallest first, in a priority queue.
    #[serde(default, skip_serializing_if = "is_default")]
    pub priority: i32,
    /// The initial state of the gate.
    #[serde(default, skip_serializing_if = "is_default")]
    pub gate: GateState,
    /// How it reacts to an interrupt.
    #[serde(default, skip_serializing_if = "is_default")]
    pub on_interrupt: OnInterrupt,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// One step of a scenario of kind pool.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names are those of the pool's methods and of the trace format")]
pub enum PoolStep {
    Execute(TaskSpec),
    Submit(TaskSpec),
    Release {
        t: i64,
    },
    Fail {
        t: i64,
    },
    Cancel {
        t: i64,
        #[serde(default)]
        may_interrupt: bool,
    },
    Remove {
        t: i64,
    },
    Purge,
    SetCore {
        n: i64,
    },
    SetMax {
        n: i64,
    },
    SetKeepAlive {
        ms: i64,
    },
    AllowCoreTimeout {
        value: bool,
    },
    SetPolicy {
        policy: Policy,
    },
    PrestartCore,
    PrestartAll,
    Shutdown,
    ShutdownNow,
    AwaitTermination {
        ms: i64,
    },
    Sleep {
        ms: i64,
    },
    FutureGet {
        t: i64,
        timeout_ms: i64,
    },
    Snapshot,
}

impl PoolStep {
    /// The name of the operation.
    pub fn op(&self) -> &'static str {
        match self {
            PoolStep::Execute(_) => "execute",
            PoolStep::Submit(_) => "submit",
            PoolStep::Release { .. } => "release",
            PoolStep::Fail { .. } => "fail",
            PoolStep::Cancel { .. } => "cancel",
            PoolStep::Remove { .. } => "remove",
            PoolStep::Purge => "purge",
            PoolStep::SetCore { .. } => "set_core",
            PoolStep::SetMax { .. } => "set_max",
            PoolStep::SetKeepAlive { .. } => "set_keep_alive",
            PoolStep::AllowCoreTimeout { .. } => "allow_core_timeout",
            PoolStep::SetPolicy { .. } => "set_policy",
            PoolStep::PrestartCore => "prestart_core",
            PoolStep::PrestartAll => "prestart_all",
            PoolStep::Shutdown => "shutdown",
            PoolStep::ShutdownNow => "shutdown_now",
            PoolStep::AwaitTermination { .. } => "await_termination",
            PoolStep::Sleep { .. } => "sleep",
            PoolStep::FutureGet { .. } => "future_get",
            PoolStep::Snapshot => "snapshot",
        }
    }

    /// The task of the step, if it has one.
    pub fn task(&self) -> Option<i64> {
        match self {
            PoolStep::Execute(spec) | PoolStep::Submit(spec) => Some(spec.t),
            PoolStep::Release { t }
            | PoolStep::Fail { t }
            | PoolStep::Cancel { t, .. }
            | PoolStep::Remove { t }
            | PoolStep::FutureGet { t, .. } => Some(*t),
            _ => None,
        }
    }

    /// Several workers may move at once in this step, so its events are sorted by task.
    pub fn moves_many(&self) -> bool {
        matches!(self, PoolStep::SetCore { .. } | PoolStep::PrestartAll | PoolStep::ShutdownNow)
    }
}

/// An item to insert.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Insert {
    /// The item.
    pub v: i64,
    /// When it is due, in a delay queue.
    #[serde(default, skip_serializing_if = "is_default")]
    pub delay_ms: i64,
}

/// One step of a scenario of kind queue.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names are those of the queue's methods and of the trace format")]
pub enum QueueStep {
    Add(Insert),
    Offer(Insert),
    OfferTimeout {
        ms: i64,
        #[serde(flatten)]
        item: Insert,
    },
    Put(Insert),
    Poll,
    PollTimeout {
        ms: i64,
    },
    Take,
    Peek,
    Element,
    RemoveHead,
    RemoveItem {
        v: i64,
    },
    Contains {
        v: i64,
    },
    Size,
    IsEmpty,
    RemainingCapacity,
    DrainTo {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max: Option<i64>,
    },
    Clear,
    ToVec,
    Sleep {
        ms: i64,
    },
}

impl QueueStep {
    /// The item that the step inserts, if it inserts one.
    pub fn inserted(&self) -> Option<&Insert> {
        match self {
            QueueStep::Add(item)
            | QueueStep::Offer(item)
            | QueueStep::Put(item)
            | QueueStep::OfferTimeout { item, .. } => Some(item),
            _ => None,
        }
    }
}

/// How a scheduled pool is built.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ScheduledConfig {
    /// Core size.
    pub core: i64,
}

/// A delayed or periodic task, and its options.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TimedSpec {
    /// Its name in the scenario.
    pub t: i64,
    /// The delay of its first run, counted from the step.
    pub delay_ms: i64,
    /// The run, counted from 1, that fails at its end.
    #[serde(default, skip_serializing_if = "is_default")]
    pub fail_run: u32,
    /// The run, counted from 1, that takes time.
    #[serde(default, skip_serializing_if = "is_default")]
    pub busy_run: u32,
    /// Duration of the busy run in milliseconds.
    #[serde(default, skip_serializing_if = "is_default")]
    pub busy_ms: u64,
}

/// One step of a scenario of kind scheduled.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names are those of the pool's methods and of the trace format")]
pub enum ScheduledStep {
    Schedule(TimedSpec),
    AtFixedRate {
        period_ms: i64,
        #[serde(flatten)]
        task: TimedSpec,
    },
    WithFixedDelay {
        period_ms: i64,
        #[serde(flatten)]
        task: TimedSpec,
    },
    Cancel {
        t: i64,
    },
    Remove {
        t: i64,
    },
    Purge,
    FutureGet {
        t: i64,
        timeout_ms: i64,
    },
    SetRemoveOnCancel {
        value: bool,
    },
    SetContinuePeriodic {
        value: bool,
    },
    SetExecuteDelayed {
        value: bool,
    },
    Shutdown,
    ShutdownNow,
    Advance {
        slots: u32,
    },
}

impl ScheduledStep {
    /// The name of the operation.
    pub fn op(&self) -> &'static str {
        match self {
            ScheduledStep::Schedule(_) => "schedule",
            ScheduledStep::AtFixedRate { .. } => "at_fixed_rate",
            ScheduledStep::WithFixedDelay { .. } => "with_fixed_delay",
            ScheduledStep::Cancel { .. } => "cancel",
            ScheduledStep::Remove { .. } => "remove",
            ScheduledStep::Purge => "purge",
            ScheduledStep::FutureGet { .. } => "future_get",
            ScheduledStep::SetRemoveOnCancel { .. } => "set_remove_on_cancel",
            ScheduledStep::SetContinuePeriodic { .. } => "set_continue_periodic",
            ScheduledStep::SetExecuteDelayed { .. } => "set_execute_delayed",
            ScheduledStep::Shutdown => "shutdown",
            ScheduledStep::ShutdownNow => "shutdown_now",
            ScheduledStep::Advance { .. } => "advance",
        }
    }

    /// The task that the step submits, if it does.
    pub fn handed_in(&self) -> Option<&TimedSpec> {
        match self {
            ScheduledStep::Schedule(task)
            | ScheduledStep::AtFixedRate { task, .. }
            | ScheduledStep::WithFixedDelay { task, .. } => Some(task),
            _ => None,
        }
    }
}
