//! `invoke_all` and `invoke_any`, and [`InvokeError`].

use std::error::Error;
use std::fmt;
use std::time::Instant;

use super::{Executor, Rejected};
use crate::executor::completion::Completions;
use crate::interrupt::wait::is_past;
use crate::interrupt::{Interrupted, Wake};
use crate::task::TaskOf;
use crate::task::{Canceller, TaskHandle, TaskState};

/// The tasks of a batch. On drop, cancels those that are not done.
struct Batch(Vec<Canceller>);

impl Drop for Batch {
    /// Cancels queued tasks first: cancelling a running one frees its worker, which would start
    /// another.
    fn drop(&mut self) {
        let waiting = self.0.iter().filter(|task| task.state() == TaskState::Pending);
        for canceller in waiting.chain(&self.0) {
            canceller.cancel(true);
        }
    }
}

pub(super) fn invoke_all_until<X, T, F>(
    executor: &X,
    tasks: impl IntoIterator<Item = F>,
    deadline: Option<Instant>,
) -> Result<Vec<TaskHandle<T>>, InvokeError>
where
    X: Executor + ?Sized,
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    let mut batch = Batch(Vec::new());
    let mut handles = Vec::new();
    let mut late = false;
    for f in tasks {
        let (task, handle) = TaskOf::new(f).into_parts();
        late = late || is_past(deadline);
        if late {
            handle.cancel(false); // not submitted; the handle resolves as cancelled
        } else {
            executor.execute_task(task).map_err(InvokeError::Rejected)?;
        }
        batch.0.push(handle.canceller());
        handles.push(handle);
    }
    for handle in &handles {
        match handle.wait_done(deadline) {
            Wake::Ready => {}
            Wake::Interrupted => return Err(InvokeError::Interrupted),
            Wake::TimedOut => break,
        }
    }
    drop(batch);
    Ok(handles)
}

pub(super) fn invoke_any_until<X, T, E, F>(
    executor: &X,
    tasks: impl IntoIterator<Item = F>,
    deadline: Option<Instant>,
) -> Result<T, InvokeError>
where
    X: Executor + ?Sized,
    T: Send + 'static,
    E: Into<Box<dyn Error + Send + Sync>> + Send + 'static,
    F: FnOnce() -> Result<T, E> + Send + 'static,
{
    let completions = Completions::new();
    let mut tasks = tasks.into_iter();
    let mut started = Batch(Vec::new());
    let mut open = 0_usize;
    let mut last_failure: Option<Box<dyn Error + Send + Sync>> = None;
    loop {
        // 1. Start one more task, if there is one.
        let next = tasks.next();
        let all_started = next.is_none();
        if let Some(f) = next {
            started.0.push(completions.start(executor, f).map_err(InvokeError::Rejected)?);
            open += 1;
        }
        if open == 0 {
            return Err(last_failure.map_or(InvokeError::Empty, InvokeError::AllFailed));
        }
        // 2. Take a finished task. Wait for one only when all have been started.
        let finished =
            if all_started { Some(wait_for_next(&completions, deadline)?) } else { completions.poll() };
        let Some(mut handle) = finished else { continue };
        // 3. Return the first success.
        open -= 1;
        match handle.try_join().expect("only finished tasks arrive here") {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(error)) => last_failure = Some(error.into()),
            Err(error) => last_failure = Some(Box::new(error)),
        }
    }
}

fn wait_for_next<T: Send + 'static>(
    completions: &Completions<T>,
    deadline: Option<Instant>,
) -> Result<TaskHandle<T>, InvokeError> {
    match completions.next(deadline) {
        Ok(Some(handle)) => Ok(handle),
        Ok(None) => Err(InvokeError::TimedOut),
        Err(Interrupted) => Err(InvokeError::Interrupted),
    }
}

/// The reason why `invoke_all` or `invoke_any` failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum InvokeError {
    /// `invoke_any` was called without tasks.
    Empty,
    /// The executor refused a task. The others were cancelled.
    Rejected(Rejected),
    /// No task succeeded within the timeout.
    TimedOut,
    /// The calling thread was interrupted.
    Interrupted,
    /// No task succeeded. Contains the last failure.
    AllFailed(Box<dyn Error + Send + Sync>),
}

impl fmt::Display for InvokeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("invoke_any needs at least one task"),
            Self::Rejected(rejected) => write!(f, "a task of the batch was rejected: {rejected}"),
            Self::TimedOut => f.write_str("no task succeeded in time"),
            Self::Interrupted => f.write_str("interrupted while waiting for the tasks"),
            Self::AllFailed(last) => write!(f, "no task succeeded, the last failure was: {last}"),
        }
    }
}

impl Error for InvokeError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Rejected(rejected) => Some(rejected),
            Self::AllFailed(last) => Some(&**last),
            _ => None,
        }
    }
}
