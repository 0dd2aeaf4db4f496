//! The pipe: first in, first out, with a lock of its own at each end.
//!
//! The unfair array queue and the linked queue are pipes. Those who put meet at the back, those who take at the front,
//! and as a rule neither sees the other: what is put gathers at the back, and a taker that finds nothing at the front
//! fetches all of it at once, by exchanging two rings. Two counters tell how many items have come in and how many have
//! gone out. Each is written at its own end, and read at the other only when there seems to be no room, or no item.
//!
//! A thread that cannot go on looks again for a while, and then waits in a line. The line stands at the *other* end, under
//! the lock of those who can end the wait: takers wait at the back, putters at the front. So to look for somebody who waits
//! is to look at a field under a lock that is held anyway, and needs no fence.
//!
//! - A putter waits with its item in its hand. Who makes room moves the item in and wakes the putter, whose call is done.
//! - A taker is only called to look. As long as one was called and has not looked nobody else is called, however many
//!   items come in: to wake a thread costs as much as to move hundreds of items. Who was called calls the next one if
//!   items are left when it goes, with an item or without.
//!
//! Both locks are held for moments only. Who wants to show the items to user code borrows them: until they are
//! returned items can still come in at the back, and takers wait. If both locks are needed the front's is taken first.

use std::fmt::DebugStruct;
use std::mem;

use super::error::OfferError;
use super::one_lock::Store;
use super::ring::Ring;
use crate::interrupt::wait::{Key, Timeout, Waiter, Waiters, is_past};
use crate::interrupt::{self, Interrupted};
use crate::sync::backoff::snooze;
use crate::sync::{Arc, AtomicUsize, Mutex, Ordering};
use crate::sync::{SpinLock, SpinLockGuard};

pub(super) struct TwoLockQueue<T> {
    front: End<Front<T>>,
    back: End<Back<T>>,
    /// The most items the pipe may hold; `usize::MAX`: no bound. Written with both locks held, so it stands still
    /// under either. Relaxed: to those who hold none it is a hint.
    capacity: AtomicUsize,
    /// TimerTask by who has borrowed the items. Taken before the other locks, or alone: to wait for their return.
    borrowing: Mutex<()>,
}

/// One end, in cache lines of its own: two, because they are fetched in pairs.
#[repr(align(128))]
struct End<S> {
    state: SpinLock<S>,
    /// How many items have passed here, in or out, modulo the size of the word. Written with the lock held.
    ///
    /// Release when written, Acquire when read: who reads what has come in, and then what has gone out, finds at most the
    /// capacity between the two, because who put an item in had seen the room for it; who reads them the other way
    /// round finds no less than zero.
    passed: AtomicUsize,
}

impl<S> End<S> {
    fn new(state: S) -> Self {
        End { state: SpinLock::new(state), passed: AtomicUsize::new(0) }
    }

    #[inline]
    fn passed(&self) -> usize {
        self.passed.load(Ordering::Acquire)
    }

    /// Counts `n` more. The caller holds the lock.
    #[inline]
    fn pass(&self, n: usize) {
        let passed = self.passed.load(Ordering::Relaxed); // nobody else writes it now
        self.passed.store(passed.wrapping_add(n), Ordering::Release);
    }
}

/// Invariant, whenever both locks are free: a putter waits only if the pipe is full, or it is interrupted and
/// about to leave.
struct Front<T> {
    /// The oldest items; none while they are lent.
    items: Ring<T>,
    /// The items have been borrowed. All that would take, move or show items waits.
    lent: bool,
    /// Those who wait for room.
    putters: Waiters<T>,
}

/// Invariant, whenever both locks are free: if there are items, and a taker waits that is not interrupted, then one
/// has been called.
struct Back<T> {
    /// The items that came after those at the front.
    items: Ring<T>,
    /// How many items had gone out when last looked: there is at least the room that they left.
    gone: usize,
    /// Those who wait for items.
    takers: Waiters<()>,
    /// Somebody was taken out of the line and called, and has not answered yet.
    notified: bool,
}

impl<T> Back<T> {
    /// Chooses a taker to be woken, unless one is on its way. For whoever knows that there are items.
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
    /// An empty pipe whose items go into `items`, which is empty too.
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

    /// Inserts `item`, waiting for as long as there is patience.
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
            // 1. Look for room.
            snooze(|| !self.is_full() || interrupt::is_interrupted() || is_past(deadline));
            if interrupt::interrupted() {
                return Err(OfferError::Interrupted(item));
            }
            match self.offer(item) {
                Ok(()) => return Ok(()),
                Err(refused) => item = refused,
            }
            // 2. Wait in line, unless there is room. No item goes out while we hold the lock; so if the pipe is full now
            // it stays so until somebody who takes has the lock, and finds us.
            let mut front = self.front.state.lock();
            if !self.is_full() {
                continue;
            }
            let me = Waiter::new(Some(item));
            let key = front.putters.push(Arc::clone(&me));
            drop(front);
            me.park(deadline);
            // 3. Out of the line means that somebody has moved the item in.
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
        let item = match front.items.pop() {
            Some(item) => item,
            None => {
                front = self.fetch(front);
                front.items.pop()?
            }
        };
        self.front.pass(1);
        self.refill_and_unlock(front);
        Some(item)
    }

    /// Removes the head, waiting for one as long as there is patience.
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
            // 1. Look for an item.
            snooze(|| self.len() > 0 || interrupt::is_interrupted() || is_past(deadline));
            interrupt::check()?;
            if let Some(item) = self.poll() {
                return Ok(Some(item));
            }
            // 2. Wait in line, unless there is an item. None comes in while we hold the lock; so if the pipe is empty now
            // it stays so until somebody who puts has the lock, and finds us.
            let me = me.get_or_insert_with(|| Waiter::new(None));
            let mut back = self.back.state.lock();
            if self.len() > 0 {
                continue;
            }
            let key = back.takers.push(Arc::clone(me));
            drop(back);
            let in_time = me.park(deadline);
            // 3. Look, unless interrupted: what comes after an interrupt is not for the interrupted. Only then answer.
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

    /// Ends a taker's wait. It leaves the line; or if it was called, another one may be called from now on, and has to be
    /// if there are items: they may have come while nobody else was called.
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

    /// The number of items, as it was at some moment of the call.
    pub(super) fn len(&self) -> usize {
        let mut gone = self.front.passed();
        loop {
            let come = self.back.passed();
            let gone_by_now = self.front.passed();
            if gone == gone_by_now {
                return come.wrapping_sub(gone); // none went while we read what had come
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

    /// Changes the bound. Items beyond a lower one stay; nothing gets in until they have gone.
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
        self.borrow(|items| items.for_each(see));
    }

    pub(super) fn peek(&self) -> Option<T>
    where
        T: Clone,
    {
        self.borrow(|items| items.first().cloned())
    }

    /// Adds what is going on to a description: how many items, how many threads waiting.
    pub(super) fn describe(&self, f: &mut DebugStruct<'_, '_>) {
        let putters = self.front.state.lock().putters.len();
        let takers = self.back.state.lock().takers.len();
        f.field("len", &self.len()).field("waiting_takers", &takers).field("waiting_putters", &putters);
    }

    /// Tells whether one more item fits. Looks at the other end only if none did when last looked.
    #[inline]
    fn has_room(&self, back: &mut Back<T>) -> bool {
        let (come, capacity) = (self.back.passed(), self.capacity());
        if come.wrapping_sub(back.gone) < capacity {
            return true;
        }
        back.gone = self.front.passed();
        come.wrapping_sub(back.gone) < capacity
    }

    /// Brings all items from the back to the front, where there are none. If that is because they are lent, waits for
    /// their return instead.
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

    /// Calls `f` with all items, which may take some out; what is left goes back, also if `f` panics.
    fn borrow<R>(&self, f: impl FnOnce(&mut Ring<T>) -> R) -> R {
        let _turn = self.borrowing.lock();
        f(&mut Borrowed::new(self).items)
    }

    /// Gives free places to waiting putters, as many as there are of both, and wakes these once the lock is free.
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

/// All items of a pipe, outside of it until this is dropped. Its maker holds `borrowing`.
struct Borrowed<'a, T> {
    queue: &'a TwoLockQueue<T>,
    items: Ring<T>,
    /// How many there were.
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
        older.append(&mut newer); // may move much: without the locks
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

/// Wakes who was called. No lock is held any more.
#[inline]
fn unpark(notified: Option<Arc<Waiter<()>>>) {
    if let Some(taker) = notified {
        taker.unpark();
    }
}
