//! [`ArrayBlockingQueue`]: first in, first out, with a fixed capacity.

use std::fmt;
use std::time::Duration;

use super::one_lock::{OneLockQueue, by_field};
use super::ring::Ring;
use super::two_lock::TwoLockQueue;
use super::{BlockingQueue, OfferError, PutError};
use crate::config::ConfigError;
use crate::interrupt::Interrupted;
use crate::interrupt::wait::Timeout;

/// Up to this many slots are allocated at construction. A ring with a larger capacity grows as it
/// fills.
const UP_FRONT: usize = 1 << 16;

/// A first-in, first-out queue with a fixed capacity.
///
/// `put` blocks while the queue is full, `take` while it is empty. So memory stays bounded, and a
/// fast producer slows down to the speed of its consumer. A [`fair`](Self::fair) queue serves
/// waiting threads in order of arrival.
///
/// # Examples
/// ```
/// use millpond::queue::{ArrayBlockingQueue, BlockingQueue};
///
/// let queue = ArrayBlockingQueue::new(2)?;
/// queue.add('a')?;
/// queue.add('b')?;
/// assert_eq!(queue.offer('c'), Err('c'));
/// assert_eq!(queue.poll(), Some('a'));
/// assert_eq!(queue.remaining_capacity(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ArrayBlockingQueue<T> {
    inner: Inner<T>,
}

impl<T> ArrayBlockingQueue<T> {
    /// Creates an empty queue for `capacity` items. The order in which waiting threads are served
    /// is unspecified.
    ///
    /// # Errors
    /// Returns [`ConfigError::ZeroCapacity`] if `capacity` is 0, and [`ConfigError::NoMemory`] if
    /// there is no memory for the slots. Up to 65,536 slots are allocated at once.
    pub fn new(capacity: usize) -> Result<Self, ConfigError> {
        Self::with_fairness(capacity, false)
    }

    /// Creates an empty queue for `capacity` items that serves waiting threads in order of arrival.
    /// No call, not even `offer` or `poll`, gets an item or a slot before a thread that already
    /// waits for one.
    ///
    /// # Errors
    /// Returns [`ConfigError::ZeroCapacity`] if `capacity` is 0, and [`ConfigError::NoMemory`] if
    /// there is no memory for the slots. Up to 65,536 slots are allocated at once.
    pub fn fair(capacity: usize) -> Result<Self, ConfigError> {
        Self::with_fairness(capacity, true)
    }

    fn with_fairness(capacity: usize, fair: bool) -> Result<Self, ConfigError> {
        if capacity == 0 {
            return Err(ConfigError::ZeroCapacity { queue: "ArrayBlockingQueue" });
        }
        let slots = Ring::with_slots(capacity.min(UP_FRONT)).map_err(|_| ConfigError::NoMemory {
            queue: "ArrayBlockingQueue",
            capacity,
            item_size: size_of::<T>(),
        })?;
        let inner = if fair {
            Inner::Fair(OneLockQueue::new(slots, capacity))
        } else {
            Inner::Unfair(TwoLockQueue::new(slots, capacity))
        };
        Ok(ArrayBlockingQueue { inner })
    }

    /// Returns the largest number of items that the queue can hold.
    pub fn capacity(&self) -> usize {
        self.inner.capacity()
    }

    /// Returns true if waiting threads are served in order of arrival.
    pub fn is_fair(&self) -> bool {
        matches!(self.inner, Inner::Fair(_))
    }
}

/// The variant with two locks is faster. The variant with one lock can be fair: no thread
/// overtakes.
#[expect(
    clippy::large_enum_variant,
    reason = "a pipe keeps its ends apart, and a box would be one more step to each"
)]
enum Inner<T> {
    Fair(OneLockQueue<T, Ring<T>>),
    Unfair(TwoLockQueue<T>),
}

/// Defines methods that forward to the variant.
macro_rules! forward {
    ($(fn $name:ident($($arg:ident: $type:ty),*) $(-> $result:ty)?;)*) => {$(
        #[inline]
        fn $name(&self $(, $arg: $type)*) $(-> $result)? {
            match self {
                Inner::Fair(queue) => queue.$name($($arg),*),
                Inner::Unfair(queue) => queue.$name($($arg),*),
            }
        }
    )*};
}

impl<T> Inner<T> {
    forward! {
        fn offer(item: T) -> Result<(), T>;
        fn put(item: T, timeout: Timeout) -> Result<(), OfferError<T>>;
        fn poll() -> Option<T>;
        fn take(timeout: Timeout) -> Result<Option<T>, Interrupted>;
        fn len() -> usize;
        fn capacity() -> usize;
        fn remaining_capacity() -> usize;
        fn drain_to(into: &mut Vec<T>, max: usize) -> usize;
        fn remove_if(matches: &mut dyn FnMut(&T) -> bool) -> Vec<T>;
        fn for_each(see: &mut dyn FnMut(&T));
        fn clear();
        fn describe(f: &mut fmt::DebugStruct<'_, '_>);
    }

    fn peek(&self) -> Option<T>
    where
        T: Clone,
    {
        match self {
            Inner::Fair(queue) => queue.peek(),
            Inner::Unfair(queue) => queue.peek(),
        }
    }
}

impl<T: Send> BlockingQueue<T> for ArrayBlockingQueue<T> {
    by_field!(T, inner: put and the rest);
}

impl<T> fmt::Debug for ArrayBlockingQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut description = f.debug_struct("ArrayBlockingQueue");
        self.inner.describe(&mut description);
        description.field("capacity", &self.capacity()).field("fair", &self.is_fair()).finish()
    }
}
