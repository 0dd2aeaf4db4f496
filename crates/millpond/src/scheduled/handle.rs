//! [`ScheduledHandle`]: a [`TaskHandle`] that knows when its task is due.

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

/// The claim to a scheduled task's result, or the reins of a series. All of [`TaskHandle`], and when it is due.
///
/// Dropping it detaches: the task or series goes on. A series returns no value: its handle ends with
/// [`JoinError::Cancelled`], [`JoinError::Panicked`] or [`JoinError::Abandoned`], and until then joining it waits.
/// Only a run that answers [`Next::Stop`](crate::Next::Stop) ends its series with `Ok(())`.
///
/// # Examples
/// ```
/// use millpond::{JoinError, executors};
/// use std::time::Duration;
///
/// let pool = executors::scheduled(1);
/// let series = pool.schedule_at_fixed_rate(Duration::ZERO, Duration::from_millis(1), || println!("tick"))?;
/// assert!(series.is_periodic());
/// series.cancel(false);
/// assert!(matches!(series.join(), Err(JoinError::Cancelled)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "dropping a handle detaches the task; it runs all the same"]
pub struct ScheduledHandle<T> {
    handle: TaskHandle<T>,
    when: When,
}

pub(super) enum When {
    Once(Tick, Clock),
    Series(Arc<Timing>),
}

impl<T> ScheduledHandle<T> {
    #[inline(always)]
    pub(super) fn new(handle: TaskHandle<T>, when: When) -> Self {
        ScheduledHandle { handle, when }
    }

    /// How long it is, by the pool's clock, until the task or the next run of the series is due. Zero once it
    /// is due, also while it runs and after; `Duration::MAX` if that never comes.
    pub fn remaining_delay(&self) -> Duration {
        match &self.when {
            When::Once(due, clock) => due.since(clock.tick()),
            When::Series(timing) => timing.due().since(timing.clock().tick()),
        }
    }

    /// Tells whether it is a series.
    pub fn is_periodic(&self) -> bool {
        matches!(self.when, When::Series(_))
    }

    /// Waits for the task and returns what it returned; see [`TaskHandle::join`].
    ///
    /// # Errors
    /// As [`TaskHandle::join`].
    pub fn join(self) -> Result<T, JoinError> {
        self.handle.join()
    }

    /// Turns the handle into one that cancels the task when it is dropped, interrupting it if it runs.
    pub fn cancel_on_drop(self) -> CancelOnDrop<T> {
        self.handle.cancel_on_drop()
    }

    /// The plain handle.
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
