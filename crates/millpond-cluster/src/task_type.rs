//! Task types, and tasks that are not submitted yet.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use serde::Serialize;

use crate::engine::{NewTask, PAYLOAD_LIMIT};
use crate::error::SubmitReason;
use crate::id::{SubmitterId, TaskId};
use crate::retry::Backoff;
use crate::state::{Options, Priority, Unique, UniqueKey};

/// The name of a kind of task, with the types of its arguments and its result. Submitter and worker
/// share it.
///
/// The name is stored. To rename a task type, let workers accept the old name too, with
/// [`WorkerBuilder::also`](crate::WorkerBuilder::also).
///
/// # Examples
/// ```
/// use millpond_cluster::TaskType;
///
/// const SQUARE: TaskType<u64, u64> = TaskType::new("square");
/// assert_eq!(SQUARE.name(), "square");
/// ```
pub struct TaskType<A, R> {
    name: Cow<'static, str>,
    types: PhantomData<fn(A) -> R>,
}

impl<A, R> TaskType<A, R> {
    /// A task type with this name.
    pub const fn new(name: &'static str) -> TaskType<A, R> {
        TaskType { name: Cow::Borrowed(name), types: PhantomData }
    }

    /// A task type whose name is not known at compile time.
    pub const fn dynamic(name: String) -> TaskType<A, R> {
        TaskType { name: Cow::Owned(name), types: PhantomData }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl<A: Serialize, R> TaskType<A, R> {
    /// Makes a task with these arguments. Options can be added before it is submitted.
    pub fn task(&self, args: &A) -> RemoteTask<R> {
        RemoteTask::new(&self.name, serde_json::to_vec(args).map_err(|error| error.to_string()))
    }
}

impl<A, R> fmt::Debug for TaskType<A, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TaskType").field(&self.name).finish()
    }
}

impl<A, R> Clone for TaskType<A, R> {
    fn clone(&self) -> Self {
        TaskType { name: self.name.clone(), types: PhantomData }
    }
}

/// A task that has not been accepted yet. `R` is the type of its result.
#[must_use = "a task does nothing until it is submitted"]
pub struct RemoteTask<R> {
    id: TaskId,
    name: String,
    args: Result<Vec<u8>, String>,
    class: Priority,
    delay: Duration,
    deadline: Option<Duration>,
    options: Options,
    types: PhantomData<fn() -> R>,
}

fn millis(duration: Duration) -> u64 {
    // The maximum that an engine's clock can count.
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX).min(i64::MAX as u64 / 4)
}

impl<R> RemoteTask<R> {
    fn new(name: &str, args: Result<Vec<u8>, String>) -> RemoteTask<R> {
        RemoteTask {
            id: TaskId::fresh(),
            name: name.to_owned(),
            args,
            class: Priority::default(),
            delay: Duration::ZERO,
            deadline: None,
            options: Options::default(),
            types: PhantomData,
        }
    }

    /// Sets the id; the default is a fresh one. Submitting twice with one id submits once.
    pub fn id(mut self, id: impl Into<TaskId>) -> Self {
        self.id = id.into();
        self
    }

    /// The id of the task.
    pub fn task_id(&self) -> TaskId {
        self.id
    }

    /// Delays the task: it waits in the engine before it is ready.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Sets the priority.
    pub fn priority(mut self, class: Priority) -> Self {
        self.class = class;
        self
    }

    /// Reserves a unique key in the queue. While the key is held, submitting another task with it
    /// returns the handle of the first one.
    pub fn unique(mut self, key: impl Into<String>, until: Unique) -> Self {
        self.options.unique = Some(UniqueKey { key: key.into(), until });
        self
    }

    /// Sets how many failures make the task a dead letter; at least 1, default 5.
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.options.max_attempts = Some(attempts.max(1));
        self
    }

    /// Sets how many lost workers make the task a dead letter; at least 1, default 3.
    pub fn max_crashes(mut self, crashes: u32) -> Self {
        self.options.max_crashes = Some(crashes.max(1));
        self
    }

    /// Sets the wait between attempts; the default is exponential from 1 second to 10 minutes.
    pub fn retry(mut self, backoff: Backoff) -> Self {
        self.options.backoff = Some(backoff);
        self
    }

    /// Interrupts an attempt after this time. An attempt that ignores the interrupt is not repeated
    /// while it runs.
    pub fn attempt_timeout(mut self, timeout: Duration) -> Self {
        self.options.attempt_timeout_ms = Some(millis(timeout));
        self
    }

    /// Ends the task as a dead letter if it has not ended this long after its acceptance.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Sets how long the result is kept; default 1 hour.
    pub fn keep_result(mut self, time: Duration) -> Self {
        self.options.keep_result_ms = Some(millis(time));
        self
    }

    /// The task in the form that engines accept.
    pub(crate) fn encode(&self, queue: &str, submitter: SubmitterId) -> Result<NewTask, SubmitReason> {
        let args = self.args.as_ref().map_err(|error| SubmitReason::Encode(error.clone()))?;
        if args.len() > PAYLOAD_LIMIT {
            return Err(SubmitReason::TooLarge { bytes: args.len(), limit: PAYLOAD_LIMIT });
        }
        Ok(NewTask {
            id: self.id,
            queue: queue.to_owned(),
            name: self.name.clone(),
            class: self.class,
            delay: self.delay,
            deadline: self.deadline,
            codec: 0,
            args: args.clone(),
            options: self.options.clone(),
            submitter,
            retry_of: None,
            over_capacity: false,
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

impl<R> Clone for RemoteTask<R> {
    fn clone(&self) -> Self {
        RemoteTask {
            id: self.id,
            name: self.name.clone(),
            args: self.args.clone(),
            class: self.class,
            delay: self.delay,
            deadline: self.deadline,
            options: self.options.clone(),
            types: PhantomData,
        }
    }
}

impl<R> fmt::Debug for RemoteTask<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the arguments, which may be confidential.
        f.debug_struct("RemoteTask")
            .field("id", &self.id)
            .field("name", &self.name)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
