//! [`FutureWaiter`]: the thread or task that waits for a future.

use std::task::Waker;

use crate::panic::catch;
use crate::sync::Arc;
use crate::task::Waiter;

/// The waker to call when the future is done.
pub(super) enum FutureWaiter {
    AtTheEnd(Waker),
    /// Also woken when a turn is queued, which the waiter may have to run itself. In an `Arc`,
    /// because a waker is user code and must not be cloned under the lock.
    EachTurn(Arc<Waker>),
}

impl FutureWaiter {
    pub(super) fn new(waiter: Waiter) -> FutureWaiter {
        if waiter.runs_in_place() {
            FutureWaiter::EachTurn(Arc::new(waiter.into_waker()))
        } else {
            FutureWaiter::AtTheEnd(waiter.into_waker())
        }
    }

    pub(super) fn into_waker(self) -> Waker {
        match self {
            FutureWaiter::AtTheEnd(waker) => waker,
            FutureWaiter::EachTurn(waker) => Arc::unwrap_or_clone(waker),
        }
    }

    pub(super) fn wake(self) {
        catch(|| self.into_waker().wake());
    }
}
