//! [`JoinError`], the reason why a join returns no value, and [`Panic`], a caught panic.

use std::any::Any;
use std::error::Error;
use std::fmt;

use crate::interrupt::Interrupted;
use crate::sync::Exclusive;

/// The reason why a join returns no value.
#[derive(Debug)]
#[non_exhaustive]
pub enum JoinError {
    /// The task was cancelled.
    Cancelled,
    /// The task panicked.
    Panicked(Panic),
    /// The task was discarded, removed or drained, and was dropped without having run.
    Abandoned,
    /// The task waited for longer than its pool allows
    /// ([`Builder::max_queue_time`](crate::Builder::max_queue_time)), and was dropped without
    /// having run.
    Expired,
    /// The waiting thread was interrupted. This is not the outcome of the task, which continues.
    Interrupted,
    /// The result was already taken.
    Taken,
    /// The task is joined by itself, or by a task that it runs inline and waits for. Or it is
    /// pending behind the joining task in the same lane or
    /// [`single_worker`](crate::schedulers::single_worker). It could never end. This is not the
    /// outcome of the task; another thread can still join it.
    ///
    /// A task that reaches its lane only while the other one already waits is not detected, except
    /// for a spawned future.
    ///
    /// A handle that is awaited returns this only inside `reactive::block_on` of a worker, and only
    /// if it cannot resolve while that thread blocks. It does so at once, also inside a timeout.
    ///
    /// # Examples
    /// ```
    /// use millpond::{JoinError, TaskHandle, executors};
    /// use std::sync::mpsc;
    ///
    /// let pool = executors::fixed(1)?;
    /// let (give, given) = mpsc::channel::<TaskHandle<()>>();
    /// let (tell, told) = mpsc::channel();
    /// let task = pool.submit(move || tell.send(given.recv().unwrap().join()).unwrap())?;
    /// give.send(task).unwrap();
    /// assert!(matches!(told.recv()?, Err(JoinError::WouldDeadlock)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    WouldDeadlock,
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cancelled => f.write_str("the task was cancelled"),
            Self::Panicked(panic) => write!(f, "the task panicked: {panic}"),
            Self::Abandoned => f.write_str("the task was dropped without having run"),
            Self::Expired => f.write_str("the task waited in the queue for too long and did not run"),
            Self::Interrupted => f.write_str("interrupted while waiting for the task, which continues"),
            Self::Taken => f.write_str("the task's result was already taken"),
            Self::WouldDeadlock => f.write_str(
                "the task would wait for itself: it is joined by itself or by a task that it waits for",
            ),
        }
    }
}

impl Error for JoinError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Panicked(panic) => Some(panic),
            _ => None,
        }
    }
}

impl From<Interrupted> for JoinError {
    fn from(_: Interrupted) -> Self {
        Self::Interrupted
    }
}

/// The payload of a panic.
pub(crate) type Payload = Box<dyn Any + Send>;

/// A caught panic: its message, and the original payload.
pub struct Panic {
    message: Option<String>,
    /// `Exclusive`, because an error should be `Sync` and a payload need not be.
    payload: Exclusive<Payload>,
}

impl Panic {
    pub(crate) fn new(payload: Payload) -> Self {
        let message = if let Some(text) = payload.downcast_ref::<&'static str>() {
            Some((*text).to_owned())
        } else {
            payload.downcast_ref::<String>().cloned()
        };
        Panic { message, payload: Exclusive::new(payload) }
    }

    /// Returns the panic message, if the payload is a string, like that of `panic!`.
    pub fn message(&self) -> Option<&str> {
        self.message.as_deref()
    }

    /// Returns the payload, for [`std::panic::resume_unwind`] or a downcast.
    pub fn into_payload(self) -> Box<dyn Any + Send> {
        self.payload.into_inner()
    }
}

impl fmt::Debug for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Panic").field("message", &self.message).finish_non_exhaustive()
    }
}

impl fmt::Display for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message().unwrap_or("a payload that is not a string"))
    }
}

impl Error for Panic {}
