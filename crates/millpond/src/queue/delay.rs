//! The queue in time: unbounded; an item can be taken once it is due, earliest first.
//!
//! Nobody polls the clock. Of the threads that wait the one at the front of the line leads: it sleeps until the
//! earliest item is due. All others sleep until they are called. The leader is called when an earlier item
//! comes in; whoever leaves the front of the line, served or not, calls the one behind, which leads from then on.

use std::fmt;
use std::time::{Duration, Instant};

use super::heap::Heap;
use super::wait::{Timeout, Waiter, Waiters};
use super::{BlockingQueue, OfferError, PutError};
use crate::interrupt::wait::Key;
use crate::interrupt::{self, Interrupted};
use crate::sync::{Arc, AtomicUsize, Mutex, MutexGuard, Ordering};

/// Something that a [`DelayQueue`] holds back until its time.
pub trait Delayed {
    /// When the item may be taken. Asked once, when the item goes into a queue.
    fn due(&self) -> Instant;
}

impl<D: Delayed + ?Sized> Delayed for Box<D> {
    fn due(&self) -> Instant {
        (**self).due()
    }
}

impl<D: Delayed + ?Sized> Delayed for Arc<D> {
    fn due(&self) -> Instant {
        (**self).due()
    }
}

/// An unbounded queue whose items can be taken only once they are due.
///
/// The head is the item that is due first, whether its time has come or not; of items due at the same instant the one
/// that came first. `poll`, `take`, `remove_head` and `drain_to` deliver due items only, all that looks at the
/// queue or removes by choice sees the others too. `put` and `offer_timeout` never wait and never fail, also
/// when the thread is interrupted.
///
/// # Examples
/// ```
/// use millpond::queue::{BlockingQueue, DelayQueue, Delayed};
/// use std::time::{Duration, Instant};
///
/// struct Reminder(&'static str, Instant);
/// impl Delayed for Reminder {
///     fn due(&self) -> Instant {
///         self.1
///     }
/// }
///
/// let queue = DelayQueue::new();
/// let start = Instant::now();
/// queue.add(Reminder("supper", start + Duration::from_secs(3600)))?;
/// assert!(queue.poll().is_none()); // not yet
/// queue.add(Reminder("tea", start + Duration::from_millis(20)))?;
/// assert_eq!(queue.take()?.0, "tea");
/// assert!(start.elapsed() >= Duration::from_millis(20));
/// assert_eq!(queue.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct DelayQueue<T> {
    state: Mutex<State<T>>,
    /// Copy of `heap.len()`. Written with the lock held. Relaxed: a hint as soon as it is read.
    len: AtomicUsize,
}

/// Invariant, whenever the lock is free: if there are items and threads that wait, the thread at the front of the line
/// sleeps no longer than until the head is due, or it has been called and not looked yet.
struct State<T> {
    heap: Heap<Entry<T>>,
    /// Everyone who waits, the leader at the front. They stay in the line until they leave it themselves.
    takers: Waiters<()>,
    /// Grows with every insertion, so that items due at the same instant keep their order of arrival.
    next_number: u64,
}

struct Entry<T> {
    due: Instant,
    number: u64,
    item: T,
}

impl<T> Entry<T> {
    fn before(&self, other: &Self) -> bool {
        (self.due, self.number) < (other.due, other.number)
    }
}

impl<T> State<T> {
    fn pop(&mut self) -> Option<T> {
        self.heap.pop(Entry::before).map(|entry| entry.item)
    }

    /// Removes the head if it is due.
    fn pop_due(&mut self) -> Option<T> {
        let due = self.heap.first()?.due;
        if due <= Instant::now() { self.pop() } else { None }
    }

    /// How long the leader may sleep; all others sleep until called.
    fn time_to_lead(&self, me: Key) -> Option<Instant> {
        self.leads(me).then(|| self.heap.first().map(|head| head.due))?
    }

    fn leads(&self, me: Key) -> bool {
        self.takers.first_key() == Some(me)
    }

    /// Tells the leader to look at the head again; it is to be woken, unless it has been called already or
    /// there is nothing to look at.
    fn call_leader(&self) -> Option<Arc<Waiter<()>>> {
        let leader = self.takers.first()?;
        (self.heap.len() > 0 && leader.mark_notified()).then(|| Arc::clone(leader))
    }

    /// Takes `me` out of the line. If that was the leader the next one leads, and has to know: a call that `me`
    /// was given and did not answer is thereby passed on.
    fn leave(&mut self, me: Key) -> Option<Arc<Waiter<()>>> {
        let led = self.leads(me);
        self.takers.remove(me);
        if led { self.call_leader() } else { None }
    }
}

impl<T> DelayQueue<T> {
    /// Makes an empty queue.
    pub fn new() -> Self {
        let state = State { heap: Heap::new(), takers: Waiters::new(), next_number: 0 };
        DelayQueue { state: Mutex::new(state), len: AtomicUsize::new(0) }
    }

    /// Removes the head once it is due, waiting as long as there is patience.
    fn take_within(&self, timeout: Timeout) -> Result<Option<T>, Interrupted> {
        interrupt::check()?;
        let mut state = self.state.lock();
        let item = state.pop_due();
        if item.is_some() || timeout.is_none() {
            self.unlock(state, None);
            return Ok(item);
        }
        let deadline = timeout.deadline();
        let me = Waiter::new(None);
        let key = state.takers.push(Arc::clone(&me));
        loop {
            let until = earliest(deadline, state.time_to_lead(key));
            drop(state);
            let in_time = me.snooze_and_park(until);
            state = self.state.lock();
            me.reset(); // whatever the call was about, we look at it now
            let interrupted = me.take_interrupt();
            let item = if interrupted { None } else { state.pop_due() };
            let too_late = !in_time && until == deadline;
            if interrupted || item.is_some() || too_late {
                let next = state.leave(key);
                self.unlock(state, next);
                return if interrupted { Err(Interrupted) } else { Ok(item) };
            }
        }
    }

    /// Ends a change: publishes the length, frees the lock, and only then wakes who was called.
    fn unlock(&self, state: MutexGuard<'_, State<T>>, called: Option<Arc<Waiter<()>>>) {
        self.len.store(state.heap.len(), Ordering::Relaxed);
        drop(state);
        if let Some(called) = called {
            called.unpark();
        }
    }
}

impl<T: Delayed> DelayQueue<T> {
    fn insert(&self, item: T) {
        let due = item.due(); // user code: before the lock
        let mut state = self.state.lock();
        let entry = Entry { due, number: state.next_number, item };
        state.next_number += 1;
        let place = state.heap.place_for(|other| entry.before(other));
        state.heap.insert(place, entry);
        let called = if place == 0 { state.call_leader() } else { None };
        self.unlock(state, called);
    }
}

/// The earlier of two instants, where `None` is never.
fn earliest(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    a.into_iter().chain(b).min()
}

impl<T> Default for DelayQueue<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Delayed> FromIterator<T> for DelayQueue<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut queue = Self::new();
        queue.extend(items);
        queue
    }
}

impl<T: Delayed> Extend<T> for DelayQueue<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, items: I) {
        (&*self).extend(items);
    }
}

impl<T: Delayed> Extend<T> for &DelayQueue<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, items: I) {
        items.into_iter().for_each(|item| self.insert(item));
    }
}

impl<T: Delayed + Send> BlockingQueue<T> for DelayQueue<T> {
    /// Inserts `item`. Never fails.
    fn offer(&self, item: T) -> Result<(), T> {
        self.insert(item);
        Ok(())
    }

    /// Inserts `item`. Never waits, never fails.
    fn put(&self, item: T) -> Result<(), PutError<T>> {
        self.insert(item);
        Ok(())
    }

    /// Inserts `item`. Never waits, never fails.
    fn offer_timeout(&self, item: T, _: Duration) -> Result<(), OfferError<T>> {
        self.insert(item);
        Ok(())
    }

    fn poll(&self) -> Option<T> {
        let mut state = self.state.lock();
        let item = state.pop_due();
        self.unlock(state, None);
        item
    }

    fn take(&self) -> Result<T, Interrupted> {
        self.take_within(Timeout::Forever).map(|item| item.expect("timeout for ever does not end"))
    }

    fn poll_timeout(&self, timeout: Duration) -> Result<Option<T>, Interrupted> {
        self.take_within(Timeout::For(timeout))
    }

    fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    fn remaining_capacity(&self) -> usize {
        usize::MAX
    }

    fn drain_to(&self, into: &mut Vec<T>, max: usize) -> usize {
        let before = into.len();
        let mut state = self.state.lock();
        into.extend(std::iter::from_fn(|| state.pop_due()).take(max));
        self.unlock(state, None);
        into.len() - before
    }

    fn remove_if(&self, matches: &mut dyn FnMut(&T) -> bool) -> Vec<T> {
        let mut state = self.state.lock();
        let removed = state.heap.remove_if(Entry::before, |entry| matches(&entry.item));
        self.unlock(state, None);
        removed.into_iter().map(|entry| entry.item).collect()
    }

    fn for_each(&self, see: &mut dyn FnMut(&T)) {
        self.state.lock().heap.for_each(Entry::before, |entry| see(&entry.item));
    }

    fn clear(&self) {
        let mut state = self.state.lock();
        let all = state.heap.take_all();
        self.unlock(state, None);
        drop(all);
    }

    fn peek(&self) -> Option<T>
    where
        T: Clone,
    {
        self.state.lock().heap.first().map(|entry| entry.item.clone())
    }
}

impl<T> fmt::Debug for DelayQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock();
        let (len, takers) = (state.heap.len(), state.takers.len());
        drop(state);
        f.debug_struct("DelayQueue").field("len", &len).field("waiting_takers", &takers).finish()
    }
}
