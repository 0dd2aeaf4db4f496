//! Blocking queues: the trait, its errors, and five implementations.
//!
//! - [`ArrayBlockingQueue`]: first in, first out, with a fixed capacity; optionally fair.
//! - [`LinkedBlockingQueue`]: first in, first out, unbounded or with a capacity that can change.
//! - [`SynchronousQueue`]: without capacity; each `put` hands its item to a `take`.
//! - [`PriorityBlockingQueue`]: unbounded, least item first; equal items in order of arrival.
//! - [`DelayQueue`]: unbounded; an item can be taken when it is due, earliest first.
//!
//! An interrupt ends every blocking call (see [`interrupt`](crate::interrupt)), and every blocking
//! call has a variant with a timeout. A failed insertion returns its item. `&Q`, `Box<Q>` and
//! `Arc<Q>` of a queue are queues too. So a caller can give one clone of an `Arc` to a pool, keep
//! another, and inspect the queue.
//!
//! # Examples
//! ```
//! use millpond::queue::{ArrayBlockingQueue, BlockingQueue};
//! use std::thread;
//!
//! let queue = ArrayBlockingQueue::new(2)?;
//! thread::scope(|s| {
//!     s.spawn(|| (1..=100).for_each(|n| queue.put(n).unwrap())); // waits while the queue is full
//!     let sum: i32 = (1..=100).map(|_| queue.take().unwrap()).sum();
//!     assert_eq!(sum, 5050);
//! });
//! # Ok::<(), millpond::ConfigError>(())
//! ```

mod array;
mod delay;
mod error;
mod heap;
mod linked;
mod one_lock;
mod priority;
mod ring;
mod synchronous;
mod two_lock;

use std::time::Duration;

use crate::interrupt::Interrupted;
use crate::sync::Arc;

pub use array::ArrayBlockingQueue;
pub use delay::{DelayQueue, Delayed};
pub use error::{OfferError, PutError, QueueEmpty, QueueFull};
pub use linked::LinkedBlockingQueue;
pub use priority::PriorityBlockingQueue;
pub use synchronous::SynchronousQueue;

/// A queue for many threads, with blocking insertion and removal.
///
/// | | fails at once | waits | waits for a time |
/// |---|---|---|---|
/// | insert | [`offer`], [`add`] | [`put`] | [`offer_timeout`] |
/// | remove | [`poll`], [`remove_head`] | [`take`] | [`poll_timeout`] |
/// | inspect | [`peek`], [`element`] | | |
///
/// A call that may block fails if the thread is interrupted, even if it would not have to block.
/// The exceptions are `put` and `offer_timeout` of the unbounded priority and delay queues, which
/// never block.
///
/// Some user code may run while the queue is locked: the closures given to
/// [`remove_if`](Self::remove_if), [`retain`](Self::retain) and [`for_each`](Self::for_each),
/// comparison functions, and the `Clone` and `PartialEq` implementations of items. It must not call
/// the queue. Destructors of items run without the lock. If any of this code panics, the queue
/// stays consistent.
///
/// [`offer`]: Self::offer
/// [`add`]: Self::add
/// [`put`]: Self::put
/// [`offer_timeout`]: Self::offer_timeout
/// [`poll`]: Self::poll
/// [`remove_head`]: Self::remove_head
/// [`take`]: Self::take
/// [`poll_timeout`]: Self::poll_timeout
/// [`peek`]: Self::peek
/// [`element`]: Self::element
///
/// # Examples
/// The trait is object-safe:
/// ```
/// use millpond::queue::{BlockingQueue, LinkedBlockingQueue, SynchronousQueue};
///
/// let queues: [Box<dyn BlockingQueue<u8>>; 2] =
///     [Box::new(LinkedBlockingQueue::unbounded()), Box::new(SynchronousQueue::new())];
/// assert_eq!(queues.map(|queue| queue.offer(7)), [Ok(()), Err(7)]);
/// ```
pub trait BlockingQueue<T: Send>: Send + Sync {
    /// Inserts `item` if that is possible at once. Does not block.
    ///
    /// # Errors
    /// Returns the item if the queue is full.
    fn offer(&self, item: T) -> Result<(), T>;

    /// Inserts `item`. Blocks while the queue is full.
    ///
    /// # Errors
    /// Returns [`PutError::Interrupted`] with the item if the thread is interrupted before or
    /// during the wait.
    fn put(&self, item: T) -> Result<(), PutError<T>>;

    /// Inserts `item`. Blocks for at most `timeout` while the queue is full. A timeout of zero does
    /// not block; `Duration::MAX` blocks without limit.
    ///
    /// # Errors
    /// Returns [`OfferError`] with the item on a timeout or if the thread is interrupted.
    fn offer_timeout(&self, item: T, timeout: Duration) -> Result<(), OfferError<T>>;

    /// Removes and returns the head of the queue. Returns `None` if no item can be taken now. Does
    /// not block.
    fn poll(&self) -> Option<T>;

    /// Removes and returns the head of the queue. Blocks while there is none.
    ///
    /// # Errors
    /// Returns [`Interrupted`] if the thread is interrupted before or during the wait. No item is
    /// removed in that case.
    fn take(&self) -> Result<T, Interrupted>;

    /// Removes and returns the head of the queue. Blocks for at most `timeout` while there is none.
    /// Returns `None` on a timeout.
    ///
    /// A timeout of zero does not block; `Duration::MAX` blocks without limit.
    ///
    /// # Errors
    /// Returns [`Interrupted`] if the thread is interrupted before or during the wait. No item is
    /// removed in that case.
    fn poll_timeout(&self, timeout: Duration) -> Result<Option<T>, Interrupted>;

    /// Returns the number of items in the queue.
    fn len(&self) -> usize;

    /// Returns how many more items fit now. `usize::MAX` if the queue is unbounded.
    fn remaining_capacity(&self) -> usize;

    /// Moves up to `max` items, in queue order, to the end of `into` and returns their number.
    ///
    /// Does not wait for items. Takes the items that [`poll`](Self::poll) would take. Waiting
    /// putters get the freed slots.
    fn drain_to(&self, into: &mut Vec<T>, max: usize) -> usize;

    /// Removes all items for which `matches` returns true, and returns them in queue order.
    ///
    /// Calls `matches` once for each item, in queue order. If `matches` panics, no item is removed.
    fn remove_if(&self, matches: &mut dyn FnMut(&T) -> bool) -> Vec<T>;

    /// Calls `see` with every item, in queue order.
    fn for_each(&self, see: &mut dyn FnMut(&T));

    /// Inserts `item` if that is possible at once. As [`offer`](Self::offer), but with an error
    /// type.
    ///
    /// # Errors
    /// Returns [`QueueFull`] with the item if the queue is full.
    fn add(&self, item: T) -> Result<(), QueueFull<T>> {
        self.offer(item).map_err(QueueFull)
    }

    /// Inserts the items in order until one does not fit. Returns the number of inserted items.
    ///
    /// # Errors
    /// Returns [`QueueFull`] with the first item that did not fit. Earlier items are in the queue,
    /// later ones are still in the iterator.
    ///
    /// # Examples
    /// ```
    /// use millpond::queue::{ArrayBlockingQueue, BlockingQueue, QueueFull};
    ///
    /// let queue = ArrayBlockingQueue::new(2)?;
    /// let mut items = [1, 2, 3, 4].into_iter();
    /// assert_eq!(queue.add_all(&mut items), Err(QueueFull(3)));
    /// assert_eq!((queue.to_vec(), items.next()), (vec![1, 2], Some(4)));
    /// # Ok::<(), millpond::ConfigError>(())
    /// ```
    fn add_all(&self, items: &mut dyn Iterator<Item = T>) -> Result<usize, QueueFull<T>> {
        let mut added = 0;
        for item in items {
            self.add(item)?;
            added += 1;
        }
        Ok(added)
    }

    /// Removes and returns the head of the queue. As [`poll`](Self::poll), but with an error type.
    ///
    /// # Errors
    /// Returns [`QueueEmpty`] if no item can be taken now.
    fn remove_head(&self) -> Result<T, QueueEmpty> {
        self.poll().ok_or(QueueEmpty)
    }

    /// Returns true if the queue has no items.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes and drops all items.
    fn clear(&self) {
        drop(self.remove_if(&mut |_| true));
    }

    /// Removes and drops all items for which `keep` returns false.
    ///
    /// Calls `keep` once for each item, in queue order. If `keep` panics, no item is removed.
    fn retain(&self, keep: &mut dyn FnMut(&T) -> bool) {
        drop(self.remove_if(&mut |item| !keep(item)));
    }

    /// Returns a copy of the head of the queue, if there is one.
    fn peek(&self) -> Option<T>
    where
        T: Clone,
    {
        let mut head = None;
        self.for_each(&mut |item| {
            head.get_or_insert_with(|| item.clone());
        });
        head
    }

    /// Returns a copy of the head of the queue. As [`peek`](Self::peek), but with an error type.
    ///
    /// # Errors
    /// Returns [`QueueEmpty`] if the queue has no items.
    fn element(&self) -> Result<T, QueueEmpty>
    where
        T: Clone,
    {
        self.peek().ok_or(QueueEmpty)
    }

    /// Returns copies of all items, in queue order.
    fn to_vec(&self) -> Vec<T>
    where
        T: Clone,
    {
        let mut items = Vec::new();
        self.for_each(&mut |item| items.push(item.clone()));
        items
    }

    /// Returns true if an item equal to `item` is in the queue.
    fn contains(&self, item: &T) -> bool
    where
        T: PartialEq,
    {
        let mut found = false;
        self.for_each(&mut |other| found = found || other == item);
        found
    }

    /// Removes the first item equal to `item`. Returns false if there is none.
    fn remove(&self, item: &T) -> bool
    where
        T: PartialEq,
    {
        let mut found = false;
        let removed = self.remove_if(&mut |other| {
            let first = !found && other == item;
            found |= first;
            first
        });
        !removed.is_empty()
    }
}

/// Implements the trait for pointers to queues. Also forwards the provided methods, because a queue
/// may override them.
macro_rules! forward {
    ($($pointer:ty),*) => {$(
        impl<T: Send, Q: BlockingQueue<T> + ?Sized> BlockingQueue<T> for $pointer {
            fn offer(&self, item: T) -> Result<(), T> {
                (**self).offer(item)
            }
            fn put(&self, item: T) -> Result<(), PutError<T>> {
                (**self).put(item)
            }
            fn offer_timeout(&self, item: T, timeout: Duration) -> Result<(), OfferError<T>> {
                (**self).offer_timeout(item, timeout)
            }
            fn poll(&self) -> Option<T> {
                (**self).poll()
            }
            fn take(&self) -> Result<T, Interrupted> {
                (**self).take()
            }
            fn poll_timeout(&self, timeout: Duration) -> Result<Option<T>, Interrupted> {
                (**self).poll_timeout(timeout)
            }
            fn len(&self) -> usize {
                (**self).len()
            }
            fn remaining_capacity(&self) -> usize {
                (**self).remaining_capacity()
            }
            fn drain_to(&self, into: &mut Vec<T>, max: usize) -> usize {
                (**self).drain_to(into, max)
            }
            fn remove_if(&self, matches: &mut dyn FnMut(&T) -> bool) -> Vec<T> {
                (**self).remove_if(matches)
            }
            fn for_each(&self, see: &mut dyn FnMut(&T)) {
                (**self).for_each(see)
            }
            fn add(&self, item: T) -> Result<(), QueueFull<T>> {
                (**self).add(item)
            }
            fn add_all(&self, items: &mut dyn Iterator<Item = T>) -> Result<usize, QueueFull<T>> {
                (**self).add_all(items)
            }
            fn remove_head(&self) -> Result<T, QueueEmpty> {
                (**self).remove_head()
            }
            fn is_empty(&self) -> bool {
                (**self).is_empty()
            }
            fn clear(&self) {
                (**self).clear()
            }
            fn retain(&self, keep: &mut dyn FnMut(&T) -> bool) {
                (**self).retain(keep)
            }
            fn peek(&self) -> Option<T>
            where
                T: Clone,
            {
                (**self).peek()
            }
            fn element(&self) -> Result<T, QueueEmpty>
            where
                T: Clone,
            {
                (**self).element()
            }
            fn to_vec(&self) -> Vec<T>
            where
                T: Clone,
            {
                (**self).to_vec()
            }
            fn contains(&self, item: &T) -> bool
            where
                T: PartialEq,
            {
                (**self).contains(item)
            }
            fn remove(&self, item: &T) -> bool
            where
                T: PartialEq,
            {
                (**self).remove(item)
            }
        }
    )*};
}

forward!(&Q, Box<Q>, Arc<Q>);
