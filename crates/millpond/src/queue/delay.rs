//! [`DelayQueue`]: unbounded, items become available when they are due, earliest first.
//!
//! No thread polls the clock. The first waiting thread is the leader: it waits until the earliest
//! item is due. All other threads wait until notified. The insertion of an earlier item notifies
//! the leader. A leader that stops waiting, with or without an item, notifies the next thread,
//! which becomes the leader.

use std::fmt;
use std::time::{Duration, Instant};

use super::one_lock::extend_by_insert;
use super::{BlockingQueue, OfferError, PutError};
use crate::interrupt::wait::{Key, Timeout, Waiter, Waiters};
use crate::interrupt::{self, Interrupted};
use crate::sync::backoff::SearchBudget;
use crate::sync::{Arc, AtomicUsize, Mutex, MutexGuard, Ordering};
use crate::time::heap::TimerQueue;

/// An item of a [`DelayQueue`], with the time from which it can be taken.
pub trait Delayed {
    /// Returns when the item may be taken. Called once, when the item is inserted into a queue.
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

/// An unbounded queue whose items can be taken only when they are due.
///
/// The head is the item with the earliest due time, even if it is not due yet. Among items due at
/// the same instant, the one inserted first comes first. `poll`, `take`, `remove_head` and
/// `drain_to` return due items only. Methods that inspect the queue, or remove chosen items,
/// include items that are not due yet. `put` and `offer_timeout` never block and never fail, even
/// if the thread is interrupted.
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
    /// Copy of `items.len()`. Written with the lock held. Relaxed: any reader must expect it to be
    /// outdated.
    len: AtomicUsize,
    /// How long takers poll before they park.
    search: SearchBudget,
}

/// Invariant while the lock is free, if items and waiting threads exist: the first thread waits at
/// most until the head is due, or it has been notified and has not checked the head yet.
struct State<T> {
    items: TimerQueue<T, Instant>,
    /// All waiting threads, the leader first. Each thread removes itself.
    takers: Waiters<()>,
    /// Increases with every insertion, so that items due at the same instant keep their order.
    next_number: u64,
}

impl<T> State<T> {
    /// Removes the head if it is due.
    fn pop_due(&mut self) -> Option<T> {
        self.items.pop_due(Instant::now()).map(|(_, _, item)| item)
    }

    /// Returns the time until which `me` may wait as the leader. Returns `None` for all other
    /// threads, which wait until notified.
    fn time_to_lead(&self, me: Key) -> Option<Instant> {
        self.leads(me).then(|| self.items.first_due())?
    }

    fn leads(&self, me: Key) -> bool {
        self.takers.first_key() == Some(me)
    }

    /// Notifies the leader to check the head again. Returns the leader if the caller must unpark
    /// it. Returns `None` if it was already notified or there is no item.
    fn notify_leader(&self) -> Option<Arc<Waiter<()>>> {
        let leader = self.takers.first()?;
        (!self.items.is_empty() && leader.mark_notified()).then(|| Arc::clone(leader))
    }

    /// Removes `me` from the waiting threads. If `me` was the leader, notifies the next leader.
    /// This also passes on a notification on which `me` has not acted.
    fn leave(&mut self, me: Key) -> Option<Arc<Waiter<()>>> {
        let led = self.leads(me);
        self.takers.remove(me);
        if led { self.notify_leader() } else { None }
    }
}

impl<T> DelayQueue<T> {
    /// Creates an empty queue.
    pub fn new() -> Self {
        let state = State { items: TimerQueue::new(), takers: Waiters::new(), next_number: 0 };
        DelayQueue { state: Mutex::new(state), len: AtomicUsize::new(0), search: SearchBudget::for_task() }
    }

    /// Removes the head when it is due. Blocks for at most `timeout`.
    fn take_within(&self, timeout: Timeout) -> Result<Option<T>, Interrupted> {
        interrupt::check()?;
        let mut state = self.state.lock();
        let item = state.pop_due();
        if item.is_some() || timeout.is_zero() {
            self.unlock(state, None);
            return Ok(item);
        }
        let deadline = timeout.deadline();
        let me = Waiter::new(None);
        let key = state.takers.push(Arc::clone(&me));
        loop {
            let until = earliest(deadline, state.time_to_lead(key));
            drop(state);
            let in_time = me.search_and_park(&self.search, until);
            state = self.state.lock();
            me.reset(); // the head is checked below, so an earlier notification is served
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

    /// Ends a critical section: publishes the length, releases the lock, then unparks the notified
    /// thread.
    fn unlock(&self, state: MutexGuard<'_, State<T>>, notified: Option<Arc<Waiter<()>>>) {
        self.len.store(state.items.len(), Ordering::Relaxed);
        drop(state);
        if let Some(notified) = notified {
            notified.unpark();
        }
    }
}

impl<T: Delayed> DelayQueue<T> {
    fn insert(&self, item: T) {
        let due = item.due(); // user code, so before the lock
        let mut state = self.state.lock();
        let number = state.next_number;
        state.next_number += 1;
        state.items.insert(due, number, item);
        let is_head = state.items.first() == Some((due, number));
        let notified = if is_head { state.notify_leader() } else { None };
        self.unlock(state, notified);
    }
}

/// Returns the earlier of two instants, where `None` means never.
fn earliest(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    a.into_iter().chain(b).min()
}

impl<T> Default for DelayQueue<T> {
    fn default() -> Self {
        Self::new()
    }
}

extend_by_insert!(DelayQueue, [Delayed], Delayed);

impl<T: Delayed + Send> BlockingQueue<T> for DelayQueue<T> {
    /// Inserts `item`. Never fails.
    fn offer(&self, item: T) -> Result<(), T> {
        self.insert(item);
        Ok(())
    }

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

    fn poll(&self) -> Option<T> {
        let mut state = self.state.lock();
        let item = state.pop_due();
        self.unlock(state, None);
        item
    }

    fn take(&self) -> Result<T, Interrupted> {
        self.take_within(Timeout::Forever)
            .map(|item| item.expect("a wait without a timeout ends with an item"))
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
        let removed = state.items.remove_if(matches);
        self.unlock(state, None);
        removed
    }

    fn for_each(&self, see: &mut dyn FnMut(&T)) {
        self.state.lock().items.for_each(|_, item| see(item));
    }

    fn clear(&self) {
        let mut state = self.state.lock();
        let all = std::mem::replace(&mut state.items, TimerQueue::new());
        self.unlock(state, None);
        drop(all);
    }

    fn peek(&self) -> Option<T>
    where
        T: Clone,
    {
        self.state.lock().items.first_item().cloned()
    }
}

impl<T> fmt::Debug for DelayQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock();
        let (len, takers) = (state.items.len(), state.takers.len());
        drop(state);
        f.debug_struct("DelayQueue").field("len", &len).field("waiting_takers", &takers).finish()
    }
}
