//! The queue without room: every item goes from hand to hand.

use std::fmt;
use std::time::Duration;

use super::exchange::by_field;
use super::meeting::Meeting;
use super::seat::Order;
use super::wait::Patience;
use super::{BlockingQueue, OfferError, PutError};
use crate::interrupt::Interrupted;

/// A queue that holds nothing: a `put` waits for a `take` and a `take` for a `put`.
///
/// `offer` succeeds only if somebody waits in `take` or `poll_timeout`, and `poll` only if somebody waits in `put` or
/// `offer_timeout`. To all who look it is empty and full; [`drain_to`](BlockingQueue::drain_to) takes the items of
/// those who wait in `put`. A `put` that fails was not taken, one that succeeds was: there is no third way.
///
/// # Examples
/// ```
/// use millpond::queue::{BlockingQueue, SynchronousQueue};
/// use std::thread;
///
/// let queue = SynchronousQueue::new();
/// assert_eq!(queue.offer(1), Err(1)); // nobody there
/// thread::scope(|s| {
///     s.spawn(|| queue.put(2).unwrap());
///     assert_eq!(queue.take(), Ok(2));
/// });
/// ```
pub struct SynchronousQueue<T> {
    meeting: Meeting<T>,
    fair: bool,
}

impl<T> SynchronousQueue<T> {
    /// Makes a queue that serves who came last: a thread that has just begun to wait is still warm.
    pub fn new() -> Self {
        SynchronousQueue { meeting: Meeting::new(Order::LastFirst), fair: false }
    }

    /// Makes a queue that serves waiting threads in order of arrival.
    pub fn fair() -> Self {
        SynchronousQueue { meeting: Meeting::new(Order::FirstFirst), fair: true }
    }

    /// Tells whether waiting threads are served in order of arrival.
    pub fn is_fair(&self) -> bool {
        self.fair
    }
}

impl<T> Default for SynchronousQueue<T> {
    /// The same as [`new`](Self::new).
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Send> BlockingQueue<T> for SynchronousQueue<T> {
    by_field!(T, meeting: put and the rest);
}

impl<T> fmt::Debug for SynchronousQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut description = f.debug_struct("SynchronousQueue");
        self.meeting.describe(&mut description);
        description.field("fair", &self.fair).finish()
    }
}
