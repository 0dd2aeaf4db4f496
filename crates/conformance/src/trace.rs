//! A trace: one JSON object per scenario.

use serde::ser::{Serialize, SerializeTuple, Serializer};
use serde_json::Value;

/// The outcome of one scenario.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
#[serde(untagged)]
pub enum Trace {
    /// Of kind pool.
    Pool(PoolTrace),
    /// Of kind queue.
    Queue(QueueTrace),
    /// Of kind scheduled.
    Scheduled(ScheduledTrace),
    /// The scenario could not be played to its end.
    Error {
        /// The id of the scenario, or null if it could not be read.
        id: Value,
        /// The reason.
        error: String,
    },
}

/// Whether the pool or queue could be constructed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Construct {
    /// Constructed, and every step was played.
    Ok,
    /// Rejected, and no step was played.
    IllegalArgument,
}

/// Trace of a scenario of kind pool.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct PoolTrace {
    /// The scenario's.
    pub id: Value,
    /// `"pool"`.
    pub kind: &'static str,
    /// Whether the pool could be constructed.
    pub construct: Construct,
    /// One record per step.
    pub steps: Vec<Record>,
}

/// The effects of one step.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Record {
    /// The step's operation.
    pub op: &'static str,
    /// The return value.
    pub result: Value,
    /// Events since the previous record, until the pool was at rest.
    pub events: Vec<Event>,
    /// The pool at rest.
    pub obs: Observed,
}

/// An event of a task or of the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The before-hook of a task.
    Before(i64),
    /// The body began on a worker.
    Start(i64),
    /// The body ran on the thread that plays the scenario.
    Caller(i64),
    /// The body was interrupted and blocks again.
    Interrupted(i64),
    /// The body ended.
    End(i64, End),
    /// The after-hook of a task. True if it received a panic.
    After(i64, bool),
    /// The terminated hook of the pool.
    Terminated,
}

/// How a body ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// It returned: the gate was open.
    Ok,
    /// It failed.
    Failed,
    /// It returned because it was interrupted.
    Interrupted,
}

impl Event {
    /// The task of the event; none for the end of the pool.
    pub fn task(self) -> Option<i64> {
        match self {
            Event::Before(t)
            | Event::Start(t)
            | Event::Caller(t)
            | Event::Interrupted(t)
            | Event::End(t, _)
            | Event::After(t, _) => Some(t),
            Event::Terminated => None,
        }
    }
}

impl Serialize for Event {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Event::Before(t) => ("before", t).serialize(serializer),
            Event::Start(t) => ("start", t).serialize(serializer),
            Event::Caller(t) => ("caller", t).serialize(serializer),
            Event::Interrupted(t) => ("interrupted", t).serialize(serializer),
            Event::End(t, how) => ("end", t, how).serialize(serializer),
            Event::After(t, failed) => ("after", t, failed).serialize(serializer),
            Event::Terminated => {
                let mut tuple = serializer.serialize_tuple(1)?;
                tuple.serialize_element("terminated")?;
                tuple.end()
            }
        }
    }
}

/// Sorts the events of a step in which several workers moved: by task, each task's in their real
/// order, the end of the pool last.
pub fn sort_by_task(events: &mut [Event]) {
    events.sort_by_key(|event| event.task().unwrap_or(i64::MAX));
}

/// The observables of a pool at rest.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[expect(missing_docs, reason = "the names are those of the pool's methods and of the trace format")]
pub struct Observed {
    pub pool_size: usize,
    pub active: usize,
    pub queued: Vec<i64>,
    pub largest: usize,
    pub completed: u64,
    pub shutdown: bool,
    pub terminating: bool,
    pub terminated: bool,
    pub core: usize,
    pub max: usize,
    pub keep_alive_ms: u64,
    pub allow_core_timeout: bool,
}

/// Trace of a scenario of kind queue.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct QueueTrace {
    /// The scenario's.
    pub id: Value,
    /// `"queue"`.
    pub kind: &'static str,
    /// Whether the queue could be constructed.
    pub construct: Construct,
    /// One result per step.
    pub results: Vec<Value>,
}

/// Trace of a scenario of kind scheduled.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct ScheduledTrace {
    /// The scenario's.
    pub id: Value,
    /// `"scheduled"`.
    pub kind: &'static str,
    /// Whether the pool could be constructed.
    pub construct: Construct,
    /// One record per step.
    pub steps: Vec<ScheduledRecord>,
}

/// The effects of one step.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct ScheduledRecord {
    /// The step's operation.
    pub op: &'static str,
    /// The return value; for an `advance`, the runs that began.
    pub result: Value,
    /// After an `advance`: the pool at the beginning of the slot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub obs: Option<ScheduledObserved>,
}

/// The observables of a scheduled pool at the beginning of a slot.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[expect(missing_docs, reason = "the names are those of the pool's methods and of the trace format")]
pub struct ScheduledObserved {
    pub active: usize,
    pub queue_size: usize,
    pub completed: u64,
    pub shutdown: bool,
    pub terminated: bool,
    /// Every task that has a handle, and its state.
    pub futures: Vec<(i64, &'static str)>,
}
