//! Handles of tasks: join, await, cancel, and find again after a restart.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use millpond::{JoinError, TaskHandle};
use serde::de::DeserializeOwned;

use crate::cluster::Core;
use crate::engine::CancelAnswer;
use crate::error::{EngineError, RemoteError};
use crate::hub::{Outcome, Place, Slot};
use crate::id::TaskId;
use crate::state::State;

/// What the engine reports about a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RemoteState {
    /// The task is in this state.
    Known(State),
    /// There is no record of the task.
    Gone,
    /// The engine has not answered for some time.
    Unreachable {
        /// Start of that time.
        since: Instant,
    },
}

/// The handle of a task in a cluster. Dropping it detaches the task, which continues.
///
/// It is also a future, for any runtime: one thread per cluster wakes all futures.
#[must_use = "dropping the handle detaches the task; use `detach` to say so"]
pub struct RemoteHandle<R> {
    id: TaskId,
    slot: Arc<Slot>,
    /// Resolved by a delivery to the slot.
    outcome: TaskHandle<Outcome>,
    core: Arc<Core>,
    cancel_on_drop: bool,
    result: PhantomData<fn() -> R>,
}

impl<R> RemoteHandle<R> {
    pub(crate) fn new(id: TaskId, (slot, outcome): Place, core: Arc<Core>) -> RemoteHandle<R> {
        RemoteHandle { id, slot, outcome, core, cancel_on_drop: false, result: PhantomData }
    }

    /// The id of the task: store it to [`find`](crate::Cluster::find) the task after a restart.
    pub fn id(&self) -> TaskId {
        self.id
    }

    /// Returns true if the outcome has arrived in this process. Does not call the engine.
    pub fn is_done(&self) -> bool {
        self.outcome.is_done()
    }

    /// Reads the state of the task from the engine.
    pub fn state(&self) -> RemoteState {
        match self.core.engine.fetch(&[self.id]) {
            Ok(mut records) => match records.pop().flatten() {
                Some(record) => RemoteState::Known(record.state),
                None => RemoteState::Gone,
            },
            Err(_) => {
                let since = self.core.hub.unreachable_since().unwrap_or_else(Instant::now);
                RemoteState::Unreachable { since }
            }
        }
    }

    /// Cancels the task. A waiting task will not run; a running one is asked to stop, by the
    /// interrupt flag of its thread.
    ///
    /// # Errors
    /// An [`EngineError`] if the engine fails.
    pub fn cancel(&self) -> Result<CancelAnswer, EngineError> {
        self.core.cancel(self.id)
    }

    /// Returns a handle that cancels the task while another thread joins it.
    pub fn canceller(&self) -> RemoteCanceller {
        RemoteCanceller { id: self.id, core: Arc::clone(&self.core) }
    }

    /// Cancels the task if this handle is dropped before the outcome has arrived.
    pub fn cancel_on_drop(mut self) -> RemoteHandle<R> {
        self.cancel_on_drop = true;
        self
    }

    /// Drops the handle; the task continues.
    pub fn detach(self) {}

    /// The handler's latest report by [`TaskContext::progress`](crate::TaskContext::progress).
    ///
    /// # Errors
    /// [`RemoteError::Engine`] or [`RemoteError::Decode`].
    pub fn progress<T: DeserializeOwned>(&self) -> Result<Option<T>, RemoteError> {
        let record = self.core.engine.fetch(&[self.id])?.pop().flatten();
        let Some(progress) = record.and_then(|record| record.progress) else { return Ok(None) };
        serde_json::from_slice(&progress).map(Some).map_err(|error| RemoteError::Decode(error.to_string()))
    }
}

impl<R: DeserializeOwned> RemoteHandle<R> {
    /// Waits for the outcome. Keeps trying while the engine does not answer.
    ///
    /// In a handler, if no worker has begun the task and this worker has a handler for it, it runs
    /// in the calling thread.
    ///
    /// # Errors
    /// A [`RemoteError`] if there is no result. After [`RemoteError::Interrupted`] the task
    /// continues.
    pub fn join(mut self) -> Result<R, RemoteError> {
        self.wait(Duration::MAX).expect("a wait without a deadline ends with an outcome")
    }

    /// Waits up to `timeout` for the outcome. `None`: not done yet.
    pub fn join_timeout(&mut self, timeout: Duration) -> Option<Result<R, RemoteError>> {
        self.wait(timeout)
    }

    /// Returns the outcome if it has arrived. Never blocks.
    pub fn try_join(&mut self) -> Option<Result<R, RemoteError>> {
        self.outcome.try_join().map(|outcome| decode(self.id, outcome))
    }

    fn wait(&mut self, timeout: Duration) -> Option<Result<R, RemoteError>> {
        if !self.is_done() {
            crate::worker::run_in_place(&self.core, self.id);
        }
        self.outcome.join_timeout(timeout).map(|outcome| decode(self.id, outcome))
    }
}

fn decode<R: DeserializeOwned>(id: TaskId, outcome: Result<Outcome, JoinError>) -> Result<R, RemoteError> {
    match outcome {
        Ok(Outcome::Succeeded(result)) => {
            serde_json::from_slice(&result).map_err(|error| RemoteError::Decode(error.to_string()))
        }
        Ok(Outcome::Cancelled) => Err(RemoteError::Cancelled),
        Ok(Outcome::Dead(letter)) => Err(RemoteError::Dead(letter)),
        Err(JoinError::Interrupted) => Err(RemoteError::Interrupted),
        Err(JoinError::Taken) => Err(RemoteError::Taken),
        // A slot outlives its handle, so no promise is dropped unresolved.
        Ok(Outcome::Gone) | Err(_) => Err(RemoteError::ResultGone(id)),
    }
}

impl<R: DeserializeOwned> Future for RemoteHandle<R> {
    type Output = Result<R, RemoteError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        Pin::new(&mut this.outcome).poll(context).map(|outcome| decode(this.id, outcome))
    }
}

impl<R> Drop for RemoteHandle<R> {
    fn drop(&mut self) {
        if self.is_done() {
            return;
        }
        self.core.hub.unregister(self.id, &self.slot);
        if self.cancel_on_drop {
            // The error is lost: the handle is being dropped.
            let _ = self.core.cancel(self.id);
        }
    }
}

impl<R> fmt::Debug for RemoteHandle<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteHandle")
            .field("id", &self.id)
            .field("is_done", &self.is_done())
            .finish_non_exhaustive()
    }
}

/// Cancels a task, from any thread.
#[derive(Clone)]
pub struct RemoteCanceller {
    id: TaskId,
    core: Arc<Core>,
}

impl RemoteCanceller {
    /// The id of the task.
    pub fn id(&self) -> TaskId {
        self.id
    }

    /// See [`RemoteHandle::cancel`].
    ///
    /// # Errors
    /// An [`EngineError`] if the engine fails.
    pub fn cancel(&self) -> Result<CancelAnswer, EngineError> {
        self.core.cancel(self.id)
    }
}

impl fmt::Debug for RemoteCanceller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteCanceller").field("id", &self.id).finish_non_exhaustive()
    }
}
