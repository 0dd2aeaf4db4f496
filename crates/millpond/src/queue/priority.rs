//! [`PriorityBlockingQueue`]: unbounded, least item first, equal items in order of arrival.

use std::cmp::Ordering;
use std::fmt;
use std::time::Duration;

use super::heap::Heap;
use super::one_lock::{OneLockQueue, Store, by_field, extend_by_insert};
use super::{BlockingQueue, OfferError, PutError};
use crate::interrupt::Interrupted;
use crate::interrupt::wait::Timeout;

/// An unbounded queue whose head is its least item, by `Ord` or by a comparison function.
///
/// Items that compare equal leave in order of arrival; the JDK's queue does not guarantee this.
/// Inspecting, draining and removing use the same order as taking. `put` and `offer_timeout` never
/// block and never fail, even if the thread is interrupted.
///
/// An item that is handed directly to a waiting thread is not compared. If a comparison panics, the
/// panic propagates to the caller that compares, and the queue keeps all items and their order.
///
/// # Examples
/// ```
/// use millpond::queue::{BlockingQueue, PriorityBlockingQueue};
///
/// let queue = PriorityBlockingQueue::from_iter([3, 1, 2]);
/// assert_eq!((queue.poll(), queue.poll()), (Some(1), Some(2)));
///
/// let by_length = PriorityBlockingQueue::by(|a: &&str, b: &&str| b.len().cmp(&a.len()));
/// by_length.add_all(&mut ["pond", "millpond", "mill"].into_iter())?;
/// assert_eq!(by_length.to_vec(), ["millpond", "pond", "mill"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct PriorityBlockingQueue<T> {
    inner: OneLockQueue<T, Sorted<T>>,
}

impl<T> PriorityBlockingQueue<T> {
    /// Creates an empty queue. The least item by `Ord` is the head.
    pub fn new() -> Self
    where
        T: Ord,
    {
        Self::with(Compare::Natural(T::cmp))
    }

    /// Creates an empty queue. The item for which `compare` returns `Less` comes first.
    ///
    /// `compare` runs while the queue is locked and must not call the queue. If it is inconsistent,
    /// the order is unspecified, but no item is lost.
    pub fn by(compare: impl Fn(&T, &T) -> Ordering + Send + Sync + 'static) -> Self {
        Self::with(Compare::By(Box::new(compare)))
    }

    /// Calls `inspect` with the head, while the queue is locked.
    pub(crate) fn with_first<R>(&self, inspect: impl FnOnce(Option<&T>) -> R) -> R {
        self.inner.with_first(inspect)
    }

    /// Calls `see` with the first `limit` items in queue order, while the queue is locked.
    pub(crate) fn for_first(&self, limit: usize, see: &mut dyn FnMut(&T)) {
        self.inner.for_first(limit, see);
    }

    fn with(compare: Compare<T>) -> Self {
        let store = Sorted { heap: Heap::new(), compare, next_number: 0 };
        PriorityBlockingQueue { inner: OneLockQueue::new(store, usize::MAX) }
    }
}

impl<T: Send> PriorityBlockingQueue<T> {
    fn insert(&self, item: T) {
        if self.inner.offer(item).is_err() {
            unreachable!("a queue without a bound has room");
        }
    }
}

impl<T: Ord> Default for PriorityBlockingQueue<T> {
    /// The same as [`new`](Self::new).
    fn default() -> Self {
        Self::new()
    }
}

extend_by_insert!(PriorityBlockingQueue, [Ord + Send], Send);

/// How items compare. `Natural` is a function pointer, because a box would require `T: 'static`.
enum Compare<T> {
    Natural(fn(&T, &T) -> Ordering),
    By(Box<Comparison<T>>),
}

type Comparison<T> = dyn Fn(&T, &T) -> Ordering + Send + Sync;

impl<T> Compare<T> {
    fn compare(&self, a: &T, b: &T) -> Ordering {
        match self {
            Compare::Natural(compare) => compare(a, b),
            Compare::By(compare) => compare(a, b),
        }
    }

    /// Orders by least item first, then by lowest number.
    fn before(&self, a: &Entry<T>, b: &Entry<T>) -> bool {
        self.compare(&a.item, &b.item).then_with(|| a.number.cmp(&b.number)).is_lt()
    }
}

/// The store: a heap of numbered items.
struct Sorted<T> {
    heap: Heap<Entry<T>>,
    compare: Compare<T>,
    /// Increases with every insertion, so that equal items keep their order of arrival.
    next_number: u64,
}

struct Entry<T> {
    number: u64,
    item: T,
}

impl<T> Store<T> for Sorted<T> {
    type Place = usize;

    fn place_for(&self, item: &T) -> usize {
        // Strictly less, so a new item stays behind equal ones.
        self.heap.place_for(|other| self.compare.compare(item, &other.item).is_lt())
    }

    fn insert(&mut self, place: usize, item: T) {
        self.heap.insert(place, Entry { number: self.next_number, item });
        self.next_number += 1;
    }

    fn pop(&mut self) -> Option<T> {
        let compare = &self.compare;
        self.heap.pop(|a, b| compare.before(a, b)).map(|entry| entry.item)
    }

    fn len(&self) -> usize {
        self.heap.len()
    }

    fn first(&self) -> Option<&T> {
        self.heap.first().map(|entry| &entry.item)
    }

    fn for_first(&self, limit: usize, see: &mut dyn FnMut(&T)) {
        self.heap.for_first(limit, |a, b| self.compare.before(a, b), |entry| see(&entry.item));
    }

    fn remove_if(&mut self, matches: &mut dyn FnMut(&T) -> bool) -> Vec<T> {
        let compare = &self.compare;
        let removed = self.heap.remove_if(|a, b| compare.before(a, b), |entry| matches(&entry.item));
        removed.into_iter().map(|entry| entry.item).collect()
    }

    fn take_all(&mut self) -> Vec<T> {
        self.heap.take_all().into_iter().map(|entry| entry.item).collect()
    }
}

impl<T: Send> BlockingQueue<T> for PriorityBlockingQueue<T> {
    by_field!(T, inner: the rest);

    /// Inserts `item`. Never blocks and never fails.
    fn put(&self, item: T) -> Result<(), PutError<T>> {
        self.insert(item);
        Ok(())
    }

    /// Inserts `item`. Never blocks and never fails.
    fn offer_timeout(&self, item: T, _: Duration) -> Result<(), OfferError<T>> {
        self.insert(item);
        Ok(())
    }
}

impl<T> fmt::Debug for PriorityBlockingQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut description = f.debug_struct("PriorityBlockingQueue");
        self.inner.describe(&mut description);
        description.finish_non_exhaustive() // a comparison function cannot be shown
    }
}
