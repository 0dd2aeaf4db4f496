//! [`Delivery`]: items that a future on a scheduler delivers, for
//! [`SubscribeOn`](super::SubscribeOn) and [`MapOn`](super::MapOn).

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::pipe::{Out, Outlet};
use super::spawn::spawn_on_worker;
use super::task::in_last_turn;
use crate::executor::{RejectReason, Rejected};
use crate::interrupt;
use crate::schedulers::Worker;
use crate::task::{CancelOnDrop, JoinError, Panic};

/// The reason why a stream on a scheduler ended early. It is the last item of the stream.
#[derive(Debug)]
#[non_exhaustive]
pub enum StreamError {
    /// Code on the scheduler panicked.
    Panicked(Panic),
    /// The scheduler rejected the work at the first poll of the stream.
    Refused(RejectReason),
    /// The scheduler ended, or rejected the work after the first poll.
    CutOff,
}

impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Panicked(panic) => write!(f, "the stream panicked: {panic}"),
            Self::Refused(reason) => {
                write!(f, "the stream could not start: the scheduler {}", reason.predicate())
            }
            Self::CutOff => f.write_str("the stream was cut off: its scheduler accepts no more work"),
        }
    }
}

impl Error for StreamError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Panicked(panic) => Some(panic),
            Self::Refused(_) | Self::CutOff => None,
        }
    }
}

/// Items that a future on a scheduler pushes into a pipe.
pub(super) struct Delivery<T> {
    /// The first field, so it is dropped first: the future is cancelled before its items are
    /// dropped.
    future: CancelOnDrop<()>,
    outlet: Outlet<T>,
}

impl<T> Delivery<T> {
    /// Runs `future`, which fills the other end of `outlet`, on `worker`.
    pub(super) fn start<F>(worker: Worker, future: F, outlet: Outlet<T>) -> Result<Self, StreamError>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let refused = |rejected: Rejected| StreamError::Refused(rejected.reason());
        let future = spawn_on_worker(worker, future).map_err(refused)?.cancel_on_drop();
        Ok(Delivery { future, outlet })
    }

    /// Returns the next item. The stream ends with `None` or an error.
    pub(super) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<T, StreamError>>> {
        match self.outlet.poll_out(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Out::Item(item)) => Poll::Ready(Some(Ok(item))),
            Poll::Ready(Out::End) => Poll::Ready(None),
            // The future was dropped before it finished. Its handle has the reason, now or soon.
            Poll::Ready(Out::Cut) => Pin::new(&mut self.future).poll(context).map(|outcome| {
                Some(Err(match outcome {
                    Err(JoinError::Panicked(panic)) => StreamError::Panicked(panic),
                    _ => StreamError::CutOff,
                }))
            }),
        }
    }
}

/// Counts the items of one turn: at most `most`, so that other work gets its turn too. An interrupt
/// ends the turn after the current item, and the last turn processes no item. So a cancel or the
/// end of a scheduler waits for one item only.
///
/// A turn that is not the last one always processes its first item. On an executor that polls on
/// the caller's thread, the interrupt flag stays set from one turn to the next, and turns without
/// an item would make no progress.
pub(super) fn turn_of(most: usize) -> impl Iterator<Item = usize> {
    (0..most).take_while(|taken| !in_last_turn() && (*taken == 0 || !interrupt::is_interrupted()))
}

/// Ends the turn and requests the next one.
pub(super) fn again(context: &Context<'_>) -> Poll<()> {
    context.waker().wake_by_ref();
    Poll::Pending
}
