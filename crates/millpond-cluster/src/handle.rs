//! Handles on tasks: join, await, cancel, and find again after a restart.

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

/// What a handle can say about its task without waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RemoteState {
    /// The task is in this state.
    Known(State),
    /// There is no record of the task.
    Gone,
    /// The engine does not answer since that time.
    Unreachable {
        /// Since when.
        since: Instant,
    },
}

/// A handle on a task in a cluster. Dropping it detaches; the task goes on.
///
/// It is also a future, for any runtime: one thread per cluster wakes all of them.
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

    /// Tells whether the outcome has arrived here. Does not ask the engine.
    pub fn is_done(&self) -> bool {
        self.outcome.is_done()
    }

    /// Asks the engine where the task is in its life.
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

    /// Cancels the task. One that waits will not run; one that runs is asked to stop, by the
    /// interrupt flag of its thread.
    ///
    /// # Errors
    /// An [`EngineError`] if the engine could not be asked.
    pub fn cancel(&self) -> Result<CancelAnswer, EngineError> {
        self.core.cancel(self.id)
    }

    /// A way to cancel the task while another thread joins it.
    pub fn canceller(&self) -> RemoteCanceller {
        RemoteCanceller { id: self.id, core: Arc::clone(&self.core) }
    }

    /// Cancels the task when this handle is dropped before the outcome has arrived.
    pub fn cancel_on_drop(mut self) -> RemoteHandle<R> {
        self.cancel_on_drop = true;
        self
    }

    /// Drops the handle; the task goes on.
    pub fn detach(self) {}

    /// What the handler reported last with [`TaskContext::progress`](crate::TaskContext::progress).
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
    /// Waits for the outcome. If the engine cannot be reached, it keeps trying.
    ///
    /// In a handler, a task that no worker has begun runs here and now instead, if this worker has
    /// a handler for it.
    ///
    /// # Errors
    /// A [`RemoteError`] if there is no result. After [`RemoteError::Interrupted`] the task goes
    /// on.
    pub fn join(mut self) -> Result<R, RemoteError> {
        self.wait(Duration::MAX).expect("a wait without a deadline ends with an outcome")
    }

    /// Waits for the outcome for that long. `None`: not done yet.
    pub fn join_timeout(&mut self, timeout: Duration) -> Option<Result<R, RemoteError>> {
        self.wait(timeout)
    }

    /// The outcome, if it has arrived. Never blocks.
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
        // A slot outlives its handle, so that no promise is dropped before it is kept.
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
            // A failure has no listener any more.
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

/// Cancels a task, from anywhere.
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

    /// As [`RemoteHandle::cancel`].
    ///
    /// # Errors
    /// An [`EngineError`] if the engine could not be asked.
    pub fn cancel(&self) -> Result<CancelAnswer, EngineError> {
        self.core.cancel(self.id)
    }
}

impl fmt::Debug for RemoteCanceller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteCanceller").field("id", &self.id).finish_non_exhaustive()
    }
}
