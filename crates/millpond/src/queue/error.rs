//! The errors of queues. The error of a call that received an item contains the item.
//!
//! `Debug` and `Display` omit the item, so they work for items of any type.

use std::fmt;

/// The queue is full. Contains the item.
///
/// # Examples
/// ```
/// use millpond::queue::{ArrayBlockingQueue, BlockingQueue, QueueFull};
///
/// let queue = ArrayBlockingQueue::new(1)?;
/// queue.add("first")?;
/// let QueueFull(item) = queue.add("second").unwrap_err();
/// assert_eq!(item, "second");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct QueueFull<T>(pub T);

impl<T> QueueFull<T> {
    /// Returns the item that was not inserted.
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T> fmt::Debug for QueueFull<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("QueueFull(..)")
    }
}

impl<T> fmt::Display for QueueFull<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the queue is full: it holds as many items as its capacity allows")
    }
}

impl<T> std::error::Error for QueueFull<T> {}

/// The queue has no item that can be taken now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueEmpty;

impl fmt::Display for QueueEmpty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the queue has nothing to take")
    }
}

impl std::error::Error for QueueEmpty {}

/// A [`put`](super::BlockingQueue::put) was interrupted. Contains the item.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum PutError<T> {
    /// The thread was interrupted. Its interrupt flag has been cleared.
    Interrupted(T),
}

impl<T> PutError<T> {
    /// Returns the item that was not inserted.
    pub fn into_inner(self) -> T {
        let PutError::Interrupted(item) = self;
        item
    }
}

impl<T> fmt::Debug for PutError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Interrupted(..)")
    }
}

impl<T> fmt::Display for PutError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("interrupted while waiting for room in the queue")
    }
}

impl<T> std::error::Error for PutError<T> {}

/// An [`offer_timeout`](super::BlockingQueue::offer_timeout) timed out or was interrupted. Contains
/// the item.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum OfferError<T> {
    /// The queue was full for the whole time.
    TimedOut(T),
    /// The thread was interrupted. Its interrupt flag has been cleared.
    Interrupted(T),
}

impl<T> OfferError<T> {
    /// Returns the item that was not inserted.
    pub fn into_inner(self) -> T {
        match self {
            OfferError::TimedOut(item) | OfferError::Interrupted(item) => item,
        }
    }
}

impl<T> fmt::Debug for OfferError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OfferError::TimedOut(_) => f.write_str("TimedOut(..)"),
            OfferError::Interrupted(_) => f.write_str("Interrupted(..)"),
        }
    }
}

impl<T> fmt::Display for OfferError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OfferError::TimedOut(_) => f.write_str("timed out while waiting for room in the queue"),
            OfferError::Interrupted(_) => f.write_str("interrupted while waiting for room in the queue"),
        }
    }
}

impl<T> std::error::Error for OfferError<T> {}
