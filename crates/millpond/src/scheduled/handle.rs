//! [`ScheduledHandle`]: a [`TaskHandle`] with a due time.

use std::fmt;
use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::sync::Arc;
use crate::task::periodic::Timing;
use crate::task::{CancelOnDrop, JoinError, TaskHandle};
use crate::time::clock::{Clock, Tick};

/// A handle to a delayed or periodic task. Adds [`remaining_delay`](Self::remaining_delay) and
/// [`is_periodic`](Self::is_periodic) to [`TaskHandle`].
///
/// Dropping the handle detaches the task, which continues. A periodic task has no value: its handle
/// resolves with [`JoinError::Cancelled`], [`JoinError::Panicked`] or [`JoinError::Abandoned`], and
/// a join blocks until then. Only [`Next::Stop`](crate::Next::Stop) ends a periodic task with
/// `Ok(())`.
///
/// # Examples
/// ```
/// use millpond::{JoinError, executors};
/// use std::time::Duration;
///
/// let pool = executors::scheduled(1);
/// let period = Duration::from_millis(1);
/// let clock = pool.schedule_at_fixed_rate(Duration::ZERO, period, || println!("tick"))?;
/// assert!(clock.is_periodic());
/// clock.cancel(false);
/// assert!(matches!(clock.join(), Err(JoinError::Cancelled)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "dropping a handle detaches the task; it runs all the same"]
pub struct ScheduledHandle<T> {
    handle: TaskHandle<T>,
    when: When,
}

/// When the task, or its next run, is due.
pub(super) enum When {
    Once(Tick, Clock),
    Periodic(Arc<Timing>),
}

impl<T> ScheduledHandle<T> {
    #[inline(always)]
    pub(super) fn new(handle: TaskHandle<T>, when: When) -> Self {
        ScheduledHandle { handle, when }
    }

    /// Returns the time until the task or its next run is due, by the pool's clock.
    ///
    /// Zero from the due time on, also while the task runs and afterwards. `Duration::MAX` if it is
    /// never due.
    pub fn remaining_delay(&self) -> Duration {
        match &self.when {
            When::Once(due, clock) => due.since(clock.tick()),
            When::Periodic(timing) => timing.due().since(timing.clock().tick()),
        }
    }

    /// Returns true for a periodic task.
    pub fn is_periodic(&self) -> bool {
        matches!(self.when, When::Periodic(_))
    }

    /// Blocks until the task has ended and returns its value; see [`TaskHandle::join`].
    ///
    /// # Errors
    /// See [`TaskHandle::join`].
    pub fn join(self) -> Result<T, JoinError> {
        self.handle.join()
    }

    /// Converts the handle into one that cancels the task when dropped, and interrupts it if it is
    /// running.
    pub fn cancel_on_drop(self) -> CancelOnDrop<T> {
        self.handle.cancel_on_drop()
    }

    /// Converts the handle into a plain [`TaskHandle`].
    pub fn into_handle(self) -> TaskHandle<T> {
        self.handle
    }
}

impl<T> Deref for ScheduledHandle<T> {
    type Target = TaskHandle<T>;

    fn deref(&self) -> &TaskHandle<T> {
        &self.handle
    }
}

impl<T> DerefMut for ScheduledHandle<T> {
    fn deref_mut(&mut self) -> &mut TaskHandle<T> {
        &mut self.handle
    }
}

impl<T> Future for ScheduledHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.handle).poll(context)
    }
}

impl<T> fmt::Debug for ScheduledHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScheduledHandle")
            .field("id", &self.id())
            .field("state", &self.state())
            .field("periodic", &self.is_periodic())
            .field("remaining_delay", &self.remaining_delay())
            .finish()
    }
}
