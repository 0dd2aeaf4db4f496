//! [`TwoLockQueue`]: first in, first out, with a lock at each end.
//!
//! The unfair array queue and the linked queue use it. Putters lock the back, takers lock the
//! front, and usually neither accesses the other end. New items collect at the back. A taker that
//! finds the front empty takes over all of them at once, by swapping two rings. Two counters hold
//! how many items have entered and left. Each is written at its own end, and read at the other end
//! only when the queue seems full or empty.
//!
//! A thread that cannot proceed backs off, and then waits in a list. The list is at the *other*
//! end, under the lock of the threads that can end the wait: takers wait at the back, putters at
//! the front. So checking for waiters only reads a field under a lock that is held anyway, and
//! needs no fence.
//!
//! - A putter waits with its item. A taker that frees a slot moves the item into the queue and
//!   wakes the putter, whose call is then complete.
//! - A taker is only notified to check again. While a notified taker has not checked yet, no other
//!   taker is notified, even if more items arrive, because a wake-up costs as much as moving
//!   hundreds of items. A notified taker that leaves, with or without an item, notifies the next
//!   one if items are left.
//!
//! Both locks are held for a few instructions only. A call that passes items to user code borrows
//! all items. Until it returns them, putters continue at the back and takers wait. A thread that
//! needs both locks takes the lock of the front first.

use std::fmt::DebugStruct;
use std::mem;

use super::error::OfferError;
use super::one_lock::Store;
use super::ring::Ring;
use crate::interrupt::wait::{Key, Timeout, Waiter, Waiters, is_past};
use crate::interrupt::{self, Interrupted};
use crate::sync::backoff::SearchBudget;
use crate::sync::{Arc, AtomicUsize, Mutex, Ordering};
use crate::sync::{SpinLock, SpinLockGuard};

pub(super) struct TwoLockQueue<T> {
    front: End<Front<T>>,
    back: End<Back<T>>,
    /// The largest number of items. `usize::MAX` means unbounded. Written with both locks held, so
    /// it does not change under either one. Relaxed: without a lock it is only a hint.
    capacity: AtomicUsize,
    /// Held by the call that has borrowed the items. Locked before the other locks, or on its own
    /// to wait until the items are returned.
    borrowing: Mutex<()>,
}

/// One end of the queue. Aligned to two cache lines, because processors prefetch lines in pairs.
#[repr(align(128))]
struct End<S> {
    state: SpinLock<S>,
    /// The number of items that have passed this end, modulo 2^64. Written with the lock held.
    ///
    /// The Release store in `pass` pairs with the Acquire load in `passed`. A thread that reads
    /// "entered" and then "left" finds a difference of at most the capacity, because the putter had
    /// seen the free slot. A thread that reads them in the other order finds a difference of at
    /// least zero.
    passed: AtomicUsize,
    /// How long threads that wait for this end poll before they park.
    search: SearchBudget,
}

impl<S> End<S> {
    fn new(state: S) -> Self {
        End { state: SpinLock::new(state), passed: AtomicUsize::new(0), search: SearchBudget::for_task() }
    }

    #[inline]
    fn passed(&self) -> usize {
        self.passed.load(Ordering::Acquire)
    }

    /// Counts `n` more items. The caller must hold the lock.
    #[inline]
    fn pass(&self, n: usize) {
        let passed = self.passed.load(Ordering::Relaxed); // only the holder of the lock writes it
        self.passed.store(passed.wrapping_add(n), Ordering::Release);
    }
}

/// Invariant while both locks are free: a putter waits only if the queue is full, or the putter is
/// interrupted and about to leave.
struct Front<T> {
    /// The oldest items. Empty while the items are borrowed.
    items: Ring<T>,
    /// The items are borrowed. Every call that takes, moves or inspects items waits.
    lent: bool,
    /// Putters that wait for a free slot.
    putters: Waiters<T>,
}

/// Invariant while both locks are free: if items exist and a taker that is not interrupted waits,
/// then some taker is notified.
struct Back<T> {
    /// The items that arrived after those at the front.
    items: Ring<T>,
    /// The number of items that had left at the last check. At least this many slots have been
    /// freed.
    gone: usize,
    /// Takers that wait for items.
    takers: Waiters<()>,
    /// A taker has been removed from the list and notified, and has not called `answer` yet.
    notified: bool,
}

impl<T> Back<T> {
    /// Notifies a taker, unless one is already notified. Requires that items exist. The caller must
    /// unpark the returned taker.
    #[inline]
    fn notify_taker(&mut self) -> Option<Arc<Waiter<()>>> {
        if self.notified || self.takers.is_empty() {
            return None;
        }
        let taker = self.takers.next()?;
        taker.mark_notified();
        self.notified = true;
        Some(taker)
    }
}

impl<T> TwoLockQueue<T> {
    /// Creates an empty queue that uses the memory of `items`, which must be empty.
    pub(super) fn new(items: Ring<T>, capacity: usize) -> Self {
        let front = Front { items: items.another(), lent: false, putters: Waiters::new() };
        let back = Back { items, gone: 0, takers: Waiters::new(), notified: false };
        TwoLockQueue {
            front: End::new(front),
            back: End::new(back),
            capacity: AtomicUsize::new(capacity),
            borrowing: Mutex::new(()),
        }
    }

    #[inline]
    pub(super) fn offer(&self, item: T) -> Result<(), T> {
        let mut back = self.back.state.lock();
        if !self.has_room(&mut back) {
            return Err(item);
        }
        back.items.push(item);
        self.back.pass(1);
        let notified = back.notify_taker();
        drop(back);
        unpark(notified);
        Ok(())
    }

    /// Inserts `item`. Blocks for at most `timeout`.
    #[inline]
    pub(super) fn put(&self, item: T, timeout: Timeout) -> Result<(), OfferError<T>> {
        if interrupt::interrupted() {
            return Err(OfferError::Interrupted(item));
        }
        match self.offer(item) {
            Ok(()) => Ok(()),
            Err(item) if timeout.is_zero() => Err(OfferError::TimedOut(item)),
            Err(item) => self.put_later(item, timeout),
        }
    }

    #[cold]
    fn put_later(&self, mut item: T, timeout: Timeout) -> Result<(), OfferError<T>> {
        let deadline = timeout.deadline();
        loop {
            // 1. Back off until a slot is free.
            self.front.search.search(|| !self.is_full() || interrupt::is_interrupted() || is_past(deadline));
            if interrupt::interrupted() {
                return Err(OfferError::Interrupted(item));
            }
            match self.offer(item) {
                Ok(()) => return Ok(()),
                Err(refused) => item = refused,
            }
            // 2. Enter the list, unless a slot is free. No item leaves while this thread holds the
            //    lock. So if the queue is full now, it stays full until a taker gets the lock and
            //    finds this waiter.
            let mut front = self.front.state.lock();
            if !self.is_full() {
                continue;
            }
            let me = Waiter::new(Some(item));
            let key = front.putters.push(Arc::clone(&me));
            drop(front);
            me.park(deadline);
            // 3. A waiter that is no longer in the list was served.
            if me.is_notified() || self.front.state.lock().putters.remove(key).is_none() {
                return Ok(());
            }
            let item = me.take_item().expect("a putter that was not served holds its item");
            let interrupted = me.take_interrupt();
            return Err(if interrupted { OfferError::Interrupted(item) } else { OfferError::TimedOut(item) });
        }
    }

    #[inline]
    pub(super) fn poll(&self) -> Option<T> {
        let mut front = self.front.state.lock();
        if front.items.len() == 0 {
            front = self.fetch(front);
        }
        let item = front.items.pop()?;
        self.front.pass(1);
        self.refill_and_unlock(front);
        Some(item)
    }

    /// Removes the head. Blocks for at most `timeout`.
    #[inline]
    pub(super) fn take(&self, timeout: Timeout) -> Result<Option<T>, Interrupted> {
        interrupt::check()?;
        match self.poll() {
            Some(item) => Ok(Some(item)),
            None if timeout.is_zero() => Ok(None),
            None => self.take_later(timeout),
        }
    }

    #[cold]
    fn take_later(&self, timeout: Timeout) -> Result<Option<T>, Interrupted> {
        let deadline = timeout.deadline();
        let mut me = None;
        loop {
            // 1. Back off until there is an item.
            self.back.search.search(|| self.len() > 0 || interrupt::is_interrupted() || is_past(deadline));
            interrupt::check()?;
            if let Some(item) = self.poll() {
                return Ok(Some(item));
            }
            // 2. Enter the list, unless there is an item. No item enters while this thread holds
            //    the lock. So if the queue is empty now, it stays empty until a putter gets the
            //    lock and finds this waiter.
            let me = me.get_or_insert_with(|| Waiter::new(None));
            let mut back = self.back.state.lock();
            if self.len() > 0 {
                continue;
            }
            let key = back.takers.push(Arc::clone(me));
            drop(back);
            let in_time = me.park(deadline);
            // 3. Check for an item before answering. An interrupted taker does not check, because
            //    it must not get an item that arrived after the interrupt.
            let item = if me.is_interrupted() { None } else { self.poll() };
            self.answer(me, key);
            if item.is_some() {
                return Ok(item);
            }
            if me.take_interrupt() {
                return Err(Interrupted);
            }
            if !in_time {
                return Ok(None);
            }
        }
    }

    /// Ends the wait of a taker and removes it from the list. If it was notified, another taker may
    /// now be notified. Notifies one here if items exist, because they may have arrived meanwhile.
    fn answer(&self, me: &Waiter<()>, key: Key) {
        let mut back = self.back.state.lock();
        let mut next = None;
        if back.takers.remove(key).is_none() {
            me.reset();
            back.notified = false;
            if self.len() > 0 {
                next = back.notify_taker();
            }
        }
        drop(back);
        unpark(next);
    }

    /// Returns the number of items at some moment during the call.
    pub(super) fn len(&self) -> usize {
        let mut gone = self.front.passed();
        loop {
            let come = self.back.passed();
            let gone_by_now = self.front.passed();
            if gone == gone_by_now {
                return come.wrapping_sub(gone); // none left while `come` was read
            }
            gone = gone_by_now;
        }
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity.load(Ordering::Relaxed)
    }

    fn is_full(&self) -> bool {
        self.len() >= self.capacity()
    }

    pub(super) fn remaining_capacity(&self) -> usize {
        match self.capacity() {
            usize::MAX => usize::MAX,
            capacity => capacity.saturating_sub(self.len()),
        }
    }

    /// Changes the capacity. Items beyond a lower one stay, and no item enters until the length is
    /// below it.
    pub(super) fn set_capacity(&self, capacity: usize) {
        let front = self.front.state.lock();
        let back = self.back.state.lock();
        self.capacity.store(capacity, Ordering::Relaxed);
        drop(back);
        self.refill_and_unlock(front);
    }

    pub(super) fn drain_to(&self, into: &mut Vec<T>, max: usize) -> usize {
        self.borrow(|items| {
            let drained = max.min(items.len());
            into.extend((0..drained).map_while(|_| items.pop()));
            drained
        })
    }

    pub(super) fn remove_if(&self, matches: &mut dyn FnMut(&T) -> bool) -> Vec<T> {
        self.borrow(|items| items.remove_if(matches))
    }

    pub(super) fn clear(&self) {
        drop(self.borrow(Ring::take_all));
    }

    pub(super) fn for_each(&self, see: &mut dyn FnMut(&T)) {
        self.borrow(|items| items.for_first(usize::MAX, see));
    }

    pub(super) fn peek(&self) -> Option<T>
    where
        T: Clone,
    {
        self.borrow(|items| items.first().cloned())
    }

    /// Adds the length and the numbers of waiting threads to a description.
    pub(super) fn describe(&self, f: &mut DebugStruct<'_, '_>) {
        let putters = self.front.state.lock().putters.len();
        let takers = self.back.state.lock().takers.len();
        f.field("len", &self.len()).field("waiting_takers", &takers).field("waiting_putters", &putters);
    }

    /// Returns true if one more item fits. Reads the other end only if the queue was full at the
    /// last check.
    #[inline]
    fn has_room(&self, back: &mut Back<T>) -> bool {
        let (come, capacity) = (self.back.passed(), self.capacity());
        if come.wrapping_sub(back.gone) < capacity {
            return true;
        }
        back.gone = self.front.passed();
        come.wrapping_sub(back.gone) < capacity
    }

    /// Moves all items from the back to an empty front. If the front is empty because its items are
    /// borrowed, waits for their return first.
    #[inline(never)]
    fn fetch<'a>(&'a self, mut front: SpinLockGuard<'a, Front<T>>) -> SpinLockGuard<'a, Front<T>> {
        while front.lent {
            drop(front);
            drop(self.borrowing.lock());
            front = self.front.state.lock();
        }
        if front.items.len() == 0 && self.back.passed() != self.front.passed() {
            front.items.rewind();
            mem::swap(&mut front.items, &mut self.back.state.lock().items);
        }
        front
    }

    /// Calls `f` with all items; `f` may remove some. The others return to the queue, even if `f`
    /// panics.
    fn borrow<R>(&self, f: impl FnOnce(&mut Ring<T>) -> R) -> R {
        let _turn = self.borrowing.lock();
        f(&mut Borrowed::new(self).items)
    }

    /// Fills all free slots with items of waiting putters, unlocks, and unparks these putters.
    #[inline]
    fn refill_and_unlock(&self, front: SpinLockGuard<'_, Front<T>>) {
        if !front.putters.is_empty() {
            self.refill(front);
        }
    }

    #[cold]
    fn refill(&self, mut front: SpinLockGuard<'_, Front<T>>) {
        let mut served = Vec::new();
        let mut back = self.back.state.lock();
        while self.has_room(&mut back)
            && let Some(putter) = front.putters.next()
        {
            back.items.push(putter.receive());
            self.back.pass(1);
            served.push(putter);
        }
        let notified = if served.is_empty() { None } else { back.notify_taker() };
        drop((back, front));
        served.iter().for_each(|putter| _ = putter.unpark());
        unpark(notified);
    }
}

/// All items of a queue, which return to it on drop. The creator must hold `borrowing`.
struct Borrowed<'a, T> {
    queue: &'a TwoLockQueue<T>,
    items: Ring<T>,
    /// The number of items that were borrowed.
    lent: usize,
}

impl<'a, T> Borrowed<'a, T> {
    fn new(queue: &'a TwoLockQueue<T>) -> Self {
        let mut front = queue.front.state.lock();
        let mut back = queue.back.state.lock();
        front.lent = true;
        let nothing = front.items.another();
        let mut older = mem::replace(&mut front.items, nothing);
        let mut newer = older.another();
        if older.len() == 0 {
            older.rewind();
            mem::swap(&mut older, &mut back.items); // both rings keep their memory
        } else {
            mem::swap(&mut newer, &mut back.items);
        }
        drop((back, front));
        older.append(&mut newer); // without the locks, because it may move many items
        Borrowed { queue, lent: older.len(), items: older }
    }
}

impl<T> Drop for Borrowed<'_, T> {
    fn drop(&mut self) {
        let removed = self.lent - self.items.len();
        let mut front = self.queue.front.state.lock();
        mem::swap(&mut front.items, &mut self.items);
        front.lent = false;
        self.queue.front.pass(removed);
        self.queue.refill_and_unlock(front);
    }
}

/// Unparks a notified taker. The caller must not hold a lock.
#[inline]
fn unpark(notified: Option<Arc<Waiter<()>>>) {
    if let Some(taker) = notified {
        taker.unpark();
    }
}
