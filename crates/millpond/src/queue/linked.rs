//! [`LinkedBlockingQueue`]: first in, first out, unbounded or with a capacity that can change.

use std::fmt;
use std::time::Duration;

use super::one_lock::by_field;
use super::ring::Ring;
use super::two_lock::TwoLockQueue;
use super::{BlockingQueue, OfferError, PutError};
use crate::config::ConfigError;
use crate::interrupt::Interrupted;
use crate::interrupt::wait::Timeout;

/// A first-in, first-out queue, unbounded or with a capacity that
/// [`set_capacity`](Self::set_capacity) changes while the queue is in use.
///
/// Its memory grows and shrinks with the number of items. The JDK's name is kept, but the items are
/// stored in a ring, so no memory is allocated per item.
///
/// # Examples
/// ```
/// use millpond::queue::{BlockingQueue, LinkedBlockingQueue};
///
/// let queue = LinkedBlockingQueue::from_iter(["a", "b", "c"]);
/// assert_eq!(queue.remaining_capacity(), usize::MAX);
/// queue.set_capacity(2)?;
/// assert_eq!((queue.len(), queue.remaining_capacity()), (3, 0)); // what is in stays in
/// assert_eq!(queue.poll(), Some("a"));
/// assert_eq!(queue.offer("d"), Err("d"));
/// # Ok::<(), millpond::ConfigError>(())
/// ```
pub struct LinkedBlockingQueue<T> {
    inner: TwoLockQueue<T>,
}

impl<T> LinkedBlockingQueue<T> {
    /// Creates an empty, unbounded queue.
    pub fn unbounded() -> Self {
        LinkedBlockingQueue { inner: TwoLockQueue::new(Ring::new(), usize::MAX) }
    }

    /// Creates an empty queue for `capacity` items. `usize::MAX` means unbounded.
    ///
    /// # Errors
    /// Returns [`ConfigError::ZeroCapacity`] if `capacity` is 0.
    pub fn bounded(capacity: usize) -> Result<Self, ConfigError> {
        let queue = Self::unbounded();
        queue.set_capacity(capacity)?;
        Ok(queue)
    }

    /// Returns the largest number of items that the queue can hold. `usize::MAX` means unbounded.
    pub fn capacity(&self) -> usize {
        self.inner.capacity()
    }

    /// Changes the capacity. `usize::MAX` means unbounded.
    ///
    /// A larger capacity admits as many waiting putters as fit. If the new capacity is below the
    /// current length, all items stay, and no item is admitted until the length is below the
    /// capacity.
    ///
    /// # Errors
    /// Returns [`ConfigError::ZeroCapacity`] if `capacity` is 0. The capacity is then unchanged.
    pub fn set_capacity(&self, capacity: usize) -> Result<(), ConfigError> {
        if capacity == 0 {
            return Err(ConfigError::ZeroCapacity { queue: "LinkedBlockingQueue" });
        }
        self.inner.set_capacity(capacity);
        Ok(())
    }
}

impl<T> Default for LinkedBlockingQueue<T> {
    /// Creates an empty, unbounded queue.
    fn default() -> Self {
        Self::unbounded()
    }
}

impl<T> FromIterator<T> for LinkedBlockingQueue<T> {
    /// Creates an unbounded queue that holds the items in their order.
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let queue = Self::unbounded();
        for item in items {
            if queue.inner.offer(item).is_err() {
                unreachable!("a queue without a bound has room");
            }
        }
        queue
    }
}

impl<T: Send> BlockingQueue<T> for LinkedBlockingQueue<T> {
    by_field!(T, inner: put and the rest);
}

impl<T> fmt::Debug for LinkedBlockingQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut description = f.debug_struct("LinkedBlockingQueue");
        self.inner.describe(&mut description);
        description.field("capacity", &self.capacity()).finish()
    }
}
