//! [`SynchronousQueue`]: without capacity; each item is handed directly from a putter to a taker.
//!
//! A call serves a thread that waits on the other side, or waits itself. One spin lock guards both
//! lists of waiters. Threads wait on one side only, apart from interrupted ones that are about to
//! leave. A waiting thread is notified when its call is complete, so it never has to try again.

use std::fmt;
use std::time::Duration;

use super::one_lock::by_field;
use super::{BlockingQueue, OfferError, PutError};
use crate::interrupt::wait::{Key, Timeout, Waiter, Waiters, is_past};
use crate::interrupt::{self, Interrupted};
use crate::sync::{AdaptiveBackoff, Arc, AtomicUsize, Ordering};
use crate::sync::{SpinLock, SpinLockGuard};

/// A queue without capacity: `put` blocks until a `take` receives its item, and vice versa.
///
/// `offer` succeeds only if a thread waits in `take` or `poll_timeout`. `poll` succeeds only if a
/// thread waits in `put` or `offer_timeout`. The queue always reports that it is both empty and
/// full. [`drain_to`](BlockingQueue::drain_to) takes the items of threads that wait in `put`. A
/// `put` succeeds if and only if its item was taken.
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
    rendezvous: Rendezvous<T>,
}

impl<T> SynchronousQueue<T> {
    /// Creates a queue that serves the thread that arrived last, whose data is likely in the cache.
    pub fn new() -> Self {
        SynchronousQueue { rendezvous: Rendezvous::new(false) }
    }

    /// Creates a queue that serves waiting threads in order of arrival.
    pub fn fair() -> Self {
        SynchronousQueue { rendezvous: Rendezvous::new(true) }
    }

    /// Returns true if waiting threads are served in order of arrival.
    pub fn is_fair(&self) -> bool {
        self.rendezvous.fair
    }
}

impl<T> Default for SynchronousQueue<T> {
    /// The same as [`new`](Self::new).
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Send> BlockingQueue<T> for SynchronousQueue<T> {
    by_field!(T, rendezvous: put and the rest);
}

impl<T> fmt::Debug for SynchronousQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut description = f.debug_struct("SynchronousQueue");
        self.rendezvous.describe(&mut description);
        description.field("fair", &self.is_fair()).finish()
    }
}

/// Aligned to two cache lines. All fields that every exchange writes are in the first one.
#[repr(C, align(128))]
struct Rendezvous<T> {
    waiting: SpinLock<Waiting<T>>,
    /// The number of exchanges so far. Written with the lock held. Relaxed: only the back-off reads
    /// it.
    exchanged: AtomicUsize,
    backoff: AdaptiveBackoff,
    fair: bool,
}

struct Waiting<T> {
    takers: Waiters<T>,
    putters: Waiters<T>,
}

type Guard<'a, T> = SpinLockGuard<'a, Waiting<T>>;

impl<T> Rendezvous<T> {
    fn new(fair: bool) -> Self {
        let waiting = Waiting { takers: Waiters::new(), putters: Waiters::new() };
        Rendezvous {
            waiting: SpinLock::new(waiting),
            exchanged: AtomicUsize::new(0),
            backoff: AdaptiveBackoff::default(),
            fair,
        }
    }

    fn offer(&self, item: T) -> Result<(), T> {
        self.give(item).map_err(|(item, _)| item)
    }

    /// Hands `item` to a taker. Blocks for at most `timeout` until one arrives.
    fn put(&self, item: T, timeout: Timeout) -> Result<(), OfferError<T>> {
        if interrupt::interrupted() {
            return Err(OfferError::Interrupted(item));
        }
        let Err((item, mut waiting)) = self.give(item) else { return Ok(()) };
        if timeout.is_zero() {
            drop(waiting);
            return Err(OfferError::TimedOut(item));
        }
        let me = Waiter::new(Some(item));
        let key = waiting.putters.push(Arc::clone(&me));
        drop(waiting);
        if self.is_served(&me, key, timeout, |waiting| &mut waiting.putters) {
            return Ok(());
        }
        let item = me.take_item().expect("a putter that was not served holds its item");
        Err(if me.take_interrupt() { OfferError::Interrupted(item) } else { OfferError::TimedOut(item) })
    }

    fn poll(&self) -> Option<T> {
        self.receive().ok()
    }

    /// Takes an item from a putter. Blocks for at most `timeout` until one arrives.
    fn take(&self, timeout: Timeout) -> Result<Option<T>, Interrupted> {
        interrupt::check()?;
        let mut waiting = match self.receive() {
            Ok(item) => return Ok(Some(item)),
            Err(waiting) => waiting,
        };
        if timeout.is_zero() {
            return Ok(None);
        }
        let me = Waiter::new(None);
        let key = waiting.takers.push(Arc::clone(&me));
        drop(waiting);
        if self.is_served(&me, key, timeout, |waiting| &mut waiting.takers) {
            return Ok(Some(me.take_item().expect("a taker that was served holds its item")));
        }
        if me.take_interrupt() { Err(Interrupted) } else { Ok(None) }
    }

    fn len(&self) -> usize {
        0
    }

    fn remaining_capacity(&self) -> usize {
        0
    }

    /// Takes the items of waiting putters, up to `max`. Takes no more than were waiting at the
    /// call, because new putters may arrive as fast as others leave.
    fn drain_to(&self, into: &mut Vec<T>, max: usize) -> usize {
        let before = into.len();
        let waiting = self.waiting.lock().putters.len();
        into.extend((0..max.min(waiting)).map_while(|_| self.poll()));
        into.len() - before
    }

    fn remove_if(&self, _matches: &mut dyn FnMut(&T) -> bool) -> Vec<T> {
        Vec::new()
    }

    fn clear(&self) {}

    fn for_each(&self, _see: &mut dyn FnMut(&T)) {}

    fn peek(&self) -> Option<T> {
        None
    }

    /// Adds the length and the numbers of waiting threads to a description.
    fn describe(&self, f: &mut fmt::DebugStruct<'_, '_>) {
        let waiting = self.waiting.lock();
        let (takers, putters) = (waiting.takers.len(), waiting.putters.len());
        drop(waiting);
        f.field("len", &self.len()).field("waiting_takers", &takers).field("waiting_putters", &putters);
    }

    /// Hands `item` to a waiting taker. If there is none, returns the item and the lock, so that
    /// the caller can enter the list.
    #[inline]
    fn give(&self, item: T) -> Result<(), (T, Guard<'_, T>)> {
        let mut waiting = self.waiting.lock();
        let Some(taker) = self.next(&mut waiting.takers) else { return Err((item, waiting)) };
        taker.give(item);
        self.exchange(waiting, &taker);
        Ok(())
    }

    /// Takes the item of a waiting putter. If there is none, returns the lock, so that the caller
    /// can enter the list.
    #[inline]
    fn receive(&self) -> Result<T, Guard<'_, T>> {
        let mut waiting = self.waiting.lock();
        let Some(putter) = self.next(&mut waiting.putters) else { return Err(waiting) };
        let item = putter.receive();
        self.exchange(waiting, &putter);
        Ok(item)
    }

    /// Removes the waiter to be served next. Interrupted waiters are about to leave and are not
    /// served.
    #[inline]
    fn next(&self, waiters: &mut Waiters<T>) -> Option<Arc<Waiter<T>>> {
        let is_served = |waiter: &Arc<Waiter<T>>| !waiter.is_interrupted();
        if self.fair { waiters.take_first(is_served) } else { waiters.take_last(is_served) }
    }

    /// Blocks until served, interrupted or timed out. Returns true if served. Removes the caller
    /// from its list.
    fn is_served(
        &self,
        me: &Waiter<T>,
        key: Key,
        timeout: Timeout,
        list: impl FnOnce(&mut Waiting<T>) -> &mut Waiters<T>,
    ) -> bool {
        let deadline = timeout.deadline();
        self.backoff
            .snooze(|| me.is_notified() || is_past(deadline), || self.exchanged.load(Ordering::Relaxed));
        me.park(deadline);
        me.is_notified() || list(&mut self.waiting.lock()).remove(key).is_none()
    }

    /// Counts an exchange and wakes the thread that was served.
    #[inline]
    fn exchange(&self, waiting: Guard<'_, T>, served: &Waiter<T>) {
        self.exchanged.store(self.exchanged.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        drop(waiting);
        if served.unpark() {
            self.backoff.expect_woken();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use crate::queue::{BlockingQueue, SynchronousQueue};
    use crate::sync::{AtomicUsize, Ordering};

    #[test]
    fn items_change_hands_and_a_putter_that_leaves_keeps_its_own() {
        const EACH: usize = if cfg!(miri) { 8 } else { 1000 };
        const A_MOMENT: Duration = Duration::from_micros(20);
        for queue in [SynchronousQueue::new(), SynchronousQueue::fair()] {
            let (taken, sum) = (AtomicUsize::new(0), AtomicUsize::new(0));
            std::thread::scope(|s| {
                for _ in 0..2 {
                    s.spawn(|| {
                        for n in 1..=EACH {
                            let mut item = Box::new(n); // boxed: detects lost or doubled items
                            while let Err(error) = queue.offer_timeout(item, A_MOMENT) {
                                item = error.into_inner();
                            }
                        }
                    });
                    s.spawn(|| {
                        while taken.load(Ordering::Relaxed) < 2 * EACH {
                            if let Ok(Some(item)) = queue.poll_timeout(A_MOMENT) {
                                sum.fetch_add(*item, Ordering::Relaxed);
                                taken.fetch_add(1, Ordering::Relaxed);
                            }
                        }
                    });
                }
            });
            assert_eq!(sum.into_inner(), EACH * (EACH + 1));
            assert_eq!(queue.poll(), None);
        }
    }
}
