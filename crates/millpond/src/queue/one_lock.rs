//! [`OneLockQueue`]: a store of items with lists of waiting takers and waiting putters.
//!
//! The fair array queue uses it with a ring, the priority queue with a heap. One lock guards the
//! store and both lists. A call serves waiting threads directly: a putter hands its item to the
//! first waiting taker, and a taker that frees a slot moves the item of the first waiting putter
//! into the store. So a thread is woken when its call is complete, and never has to try again. No
//! later call overtakes, and a thread that gives up has no notification to pass on.

use std::fmt::DebugStruct;

use super::error::OfferError;
use crate::interrupt::wait::{Timeout, Waiter, Waiters};
use crate::interrupt::{self, Interrupted};
use crate::sync::backoff::SearchBudget;
use crate::sync::{Arc, AtomicUsize, Mutex, MutexGuard, Ordering};

/// Defines the methods of a `BlockingQueue<T>` that forward to a field. A queue whose putters never
/// wait uses `the rest` and defines `put` itself.
macro_rules! by_field {
    ($t:ident, $field:ident: put and the rest) => {
        by_field!($t, $field: the rest);

        #[inline]
        fn put(&self, item: $t) -> Result<(), PutError<$t>> {
            self.$field.put(item, Timeout::Forever).map_err(|error| PutError::Interrupted(error.into_inner()))
        }

        fn offer_timeout(&self, item: $t, timeout: Duration) -> Result<(), OfferError<$t>> {
            self.$field.put(item, Timeout::For(timeout))
        }
    };
    ($t:ident, $field:ident: the rest) => {
        fn offer(&self, item: $t) -> Result<(), $t> {
            self.$field.offer(item)
        }

        fn poll(&self) -> Option<$t> {
            self.$field.poll()
        }

        #[inline]
        fn take(&self) -> Result<$t, Interrupted> {
            self.$field.take(Timeout::Forever).map(|item| item.expect("a wait without a timeout ends with an item"))
        }

        fn poll_timeout(&self, timeout: Duration) -> Result<Option<$t>, Interrupted> {
            self.$field.take(Timeout::For(timeout))
        }

        fn len(&self) -> usize {
            self.$field.len()
        }

        fn remaining_capacity(&self) -> usize {
            self.$field.remaining_capacity()
        }

        fn drain_to(&self, into: &mut Vec<$t>, max: usize) -> usize {
            self.$field.drain_to(into, max)
        }

        fn remove_if(&self, matches: &mut dyn FnMut(&$t) -> bool) -> Vec<$t> {
            self.$field.remove_if(matches)
        }

        fn for_each(&self, see: &mut dyn FnMut(&$t)) {
            self.$field.for_each(see);
        }

        fn clear(&self) {
            self.$field.clear();
        }

        fn peek(&self) -> Option<$t>
        where
            $t: Clone,
        {
            self.$field.peek()
        }
    };
}
pub(super) use by_field;

/// Implements `FromIterator` and `Extend` for an unbounded queue with `new` and `insert`, with the
/// bounds that these two require.
macro_rules! extend_by_insert {
    ($queue:ident, [$($new:tt)+], $insert:ident) => {
        impl<T: $($new)+> FromIterator<T> for $queue<T> {
            fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
                let mut queue = Self::new();
                queue.extend(items);
                queue
            }
        }

        impl<T: $insert> Extend<T> for $queue<T> {
            fn extend<I: IntoIterator<Item = T>>(&mut self, items: I) {
                (&*self).extend(items);
            }
        }

        impl<T: $insert> Extend<T> for &$queue<T> {
            fn extend<I: IntoIterator<Item = T>>(&mut self, items: I) {
                items.into_iter().for_each(|item| self.insert(item));
            }
        }
    };
}
pub(super) use extend_by_insert;

/// The items of a queue, in queue order.
///
/// User code (comparisons, closures) runs only in methods whose comment says so. It may panic; the
/// store must then stay consistent.
pub(super) trait Store<T> {
    /// The position of a new item.
    type Place;

    /// Finds the position of an item for a directly following `insert`. May run user code if the
    /// store is unbounded.
    fn place_for(&self, item: &T) -> Self::Place;

    fn insert(&mut self, place: Self::Place, item: T);

    /// Removes the head. May run user code. If that panics, no item is removed.
    fn pop(&mut self) -> Option<T>;

    fn len(&self) -> usize;

    fn first(&self) -> Option<&T>;

    /// Calls `see` with the first `limit` items in queue order. Runs user code.
    fn for_first(&self, limit: usize, see: &mut dyn FnMut(&T));

    /// Removes all matches and returns them in queue order. Runs user code. If that panics, no item
    /// is removed.
    fn remove_if(&mut self, matches: &mut dyn FnMut(&T) -> bool) -> Vec<T>;

    /// Removes and returns all items, in any order.
    fn take_all(&mut self) -> Vec<T>;
}

pub(super) struct OneLockQueue<T, S> {
    state: Mutex<State<T, S>>,
    /// Copy of `store.len()`, for readers without the lock. Written with the lock held.
    ///
    /// Relaxed: the value may be outdated at once. A caller that acts on it re-checks under the
    /// lock.
    len: AtomicUsize,
    /// The largest number of items in the store. `usize::MAX` means unbounded.
    capacity: usize,
    /// How long threads poll before they park.
    search: SearchBudget,
}

/// Invariants while the lock is free, and while user code runs under it:
/// 1. A taker waits only if the store is empty, or if the taker is interrupted and about to leave.
/// 2. A putter waits only if the store holds at least `capacity` items, or if the putter is
///    interrupted and about to leave.
/// 3. The store grows only while it holds fewer than `capacity` items.
/// 4. A waiter is in its list if and only if it has not been notified.
struct State<T, S> {
    store: S,
    takers: Waiters<T>,
    putters: Waiters<T>,
}

/// The destination of an accepted item.
enum Accepted<T, P> {
    ToTaker(Arc<Waiter<T>>),
    InStore(P),
}

impl<T, S: Store<T>> State<T, S> {
    /// Decides the destination of `item`. A returned taker has left its list and must be given the
    /// item.
    fn room_for(&mut self, item: &T, capacity: usize) -> Option<Accepted<T, S::Place>> {
        if let Some(taker) = self.takers.next() {
            return Some(Accepted::ToTaker(taker));
        }
        (self.store.len() < capacity).then(|| Accepted::InStore(self.store.place_for(item)))
    }

    /// If a slot is free, moves the item of the next waiting putter into the store. The caller must
    /// unpark the returned putter.
    fn refill(&mut self, capacity: usize) -> Option<Arc<Waiter<T>>> {
        if self.store.len() >= capacity {
            return None;
        }
        let putter = self.putters.next()?;
        let item = putter.receive();
        let place = self.store.place_for(&item);
        self.store.insert(place, item);
        Some(putter)
    }
}

impl<T, S: Store<T>> OneLockQueue<T, S> {
    /// Creates a queue that serves waiting threads in order of arrival. `capacity` must not be
    /// zero.
    pub(super) fn new(store: S, capacity: usize) -> Self {
        let len = AtomicUsize::new(store.len());
        let (takers, putters) = (Waiters::new(), Waiters::new());
        let search = SearchBudget::for_task();
        OneLockQueue { state: Mutex::new(State { store, takers, putters }), len, capacity, search }
    }

    pub(super) fn offer(&self, item: T) -> Result<(), T> {
        self.try_put(item).map_err(|(item, _)| item)
    }

    /// Inserts `item`. Blocks for at most `timeout`.
    #[inline(never)] // keeps the two-lock path of an array queue short
    pub(super) fn put(&self, item: T, timeout: Timeout) -> Result<(), OfferError<T>> {
        if interrupt::interrupted() {
            return Err(OfferError::Interrupted(item));
        }
        let Err((item, mut state)) = self.try_put(item) else { return Ok(()) };
        if timeout.is_zero() {
            drop(state);
            return Err(OfferError::TimedOut(item));
        }
        // Enter the list before backing off, so that no later call overtakes.
        let me = Waiter::new(Some(item));
        let key = state.putters.push(Arc::clone(&me));
        drop(state);

        me.search_and_park(&self.search, timeout.deadline());
        if me.is_notified() || self.state.lock().putters.remove(key).is_none() {
            return Ok(());
        }
        let item = me.take_item().expect("a putter that was not served holds its item");
        Err(if me.take_interrupt() { OfferError::Interrupted(item) } else { OfferError::TimedOut(item) })
    }

    pub(super) fn poll(&self) -> Option<T> {
        self.try_take().ok()
    }

    /// Removes the head. Blocks for at most `timeout`.
    #[inline(never)] // as `put`
    pub(super) fn take(&self, timeout: Timeout) -> Result<Option<T>, Interrupted> {
        interrupt::check()?;
        let mut state = match self.try_take() {
            Ok(item) => return Ok(Some(item)),
            Err(state) => state,
        };
        if timeout.is_zero() {
            return Ok(None);
        }
        let me = Waiter::new(None);
        let key = state.takers.push(Arc::clone(&me));
        drop(state);

        me.search_and_park(&self.search, timeout.deadline());
        if me.is_notified() || self.state.lock().takers.remove(key).is_none() {
            return Ok(Some(me.take_item().expect("a taker that was served holds its item")));
        }
        if me.take_interrupt() { Err(Interrupted) } else { Ok(None) }
    }

    pub(super) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    pub(super) fn remaining_capacity(&self) -> usize {
        match self.capacity() {
            usize::MAX => usize::MAX,
            capacity => capacity.saturating_sub(self.len()),
        }
    }

    pub(super) fn drain_to(&self, into: &mut Vec<T>, max: usize) -> usize {
        let before = into.len();
        let mut state = self.state.lock();
        for _ in 0..max.min(state.store.len()) {
            into.extend(state.store.pop());
            self.note_len(&state); // before the next comparison, which may panic
        }
        self.refill_and_unlock(state);
        into.len() - before
    }

    pub(super) fn remove_if(&self, matches: &mut dyn FnMut(&T) -> bool) -> Vec<T> {
        let mut state = self.state.lock();
        let removed = state.store.remove_if(matches);
        self.refill_and_unlock(state);
        removed
    }

    pub(super) fn clear(&self) {
        let mut state = self.state.lock();
        let all = state.store.take_all();
        self.refill_and_unlock(state);
        drop(all);
    }

    pub(super) fn for_each(&self, see: &mut dyn FnMut(&T)) {
        self.for_first(usize::MAX, see);
    }

    pub(super) fn for_first(&self, limit: usize, see: &mut dyn FnMut(&T)) {
        self.state.lock().store.for_first(limit, see);
    }

    pub(super) fn peek(&self) -> Option<T>
    where
        T: Clone,
    {
        self.with_first(|first| first.cloned())
    }

    pub(super) fn with_first<R>(&self, inspect: impl FnOnce(Option<&T>) -> R) -> R {
        inspect(self.state.lock().store.first())
    }

    /// Adds the length and the numbers of waiting threads to a description.
    pub(super) fn describe(&self, f: &mut DebugStruct<'_, '_>) {
        let state = self.state.lock();
        let (takers, putters) = (state.takers.len(), state.putters.len());
        drop(state);
        f.field("len", &self.len()).field("waiting_takers", &takers).field("waiting_putters", &putters);
    }

    /// Inserts `item`, or returns it together with the lock, so that the caller can enter the list.
    ///
    /// If a comparison panics, `item` is dropped after the lock is released, because parameters
    /// outlive locals.
    fn try_put(&self, item: T) -> Result<(), (T, MutexGuard<'_, State<T, S>>)> {
        let mut state = self.state.lock();
        match state.room_for(&item, self.capacity()) {
            Some(Accepted::ToTaker(taker)) => {
                taker.give(item);
                drop(state);
                taker.unpark();
                Ok(())
            }
            Some(Accepted::InStore(place)) => {
                state.store.insert(place, item);
                self.note_len(&state);
                Ok(())
            }
            None => Err((item, state)),
        }
    }

    /// Removes the head, or returns the lock, so that the caller can enter the list.
    fn try_take(&self) -> Result<T, MutexGuard<'_, State<T, S>>> {
        let mut state = self.state.lock();
        let Some(item) = state.store.pop() else { return Err(state) };
        let served = state.refill(self.capacity());
        self.note_len(&state);
        drop(state);
        if let Some(putter) = served {
            putter.unpark();
        }
        Ok(item)
    }

    /// Fills all free slots with items of waiting putters, and unlocks.
    fn refill_and_unlock(&self, mut state: MutexGuard<'_, State<T, S>>) {
        let mut served = Vec::new();
        while let Some(putter) = state.refill(self.capacity()) {
            served.push(putter);
        }
        self.note_len(&state);
        drop(state);
        served.iter().for_each(|putter| _ = putter.unpark());
    }

    fn note_len(&self, state: &State<T, S>) {
        self.len.store(state.store.len(), Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use crate::interrupt::{self, Interrupted};
    use crate::queue::{ArrayBlockingQueue, BlockingQueue, OfferError, PriorityBlockingQueue, PutError};
    use crate::sync::Arc;
    use crate::sync::backoff::in_next_snooze;

    const A_WHILE: Duration = Duration::from_secs(60);

    fn fair<T>(capacity: usize) -> Arc<ArrayBlockingQueue<T>> {
        Arc::new(ArrayBlockingQueue::fair(capacity).unwrap())
    }

    #[test]
    fn a_later_poll_does_not_overtake_a_taker_that_spins() {
        let queue = fair(1);
        in_next_snooze::call({
            let queue = Arc::clone(&queue);
            move || {
                queue.offer(1).unwrap();
                assert_eq!(queue.poll(), None, "the item belongs to the taker that came first");
                queue.offer(2).unwrap();
            }
        });
        assert_eq!((queue.take(), queue.poll()), (Ok(1), Some(2)));
    }

    #[test]
    fn a_later_offer_does_not_overtake_a_putter_that_spins() {
        let queue = fair(1);
        queue.offer(1).unwrap();
        in_next_snooze::call({
            let queue = Arc::clone(&queue);
            move || {
                assert_eq!(queue.poll(), Some(1));
                assert_eq!(queue.offer(3), Err(3), "the place belongs to the putter that came first");
            }
        });
        assert_eq!((queue.put(2), queue.poll(), queue.poll()), (Ok(()), Some(2), None));
    }

    /// An interrupt and then an item reach a spinning taker: the call fails and the item stays.
    fn interrupt_ends_takes<Q: BlockingQueue<u32> + 'static>(queue: Arc<Q>) {
        for timed in [false, true] {
            in_next_snooze::call({
                let (queue, me) = (Arc::clone(&queue), interrupt::current());
                move || {
                    me.interrupt();
                    queue.offer(1).unwrap();
                }
            });
            let taken = if timed { queue.poll_timeout(A_WHILE) } else { queue.take().map(Some) };
            assert_eq!(taken, Err(Interrupted));
            assert_eq!((queue.poll(), interrupt::interrupted()), (Some(1), false));
        }
    }

    #[test]
    fn an_interrupt_ends_a_take_that_spins() {
        interrupt_ends_takes(fair(1));
        interrupt_ends_takes(Arc::new(PriorityBlockingQueue::new()));
        interrupt_ends_takes(Arc::new(ArrayBlockingQueue::new(1).unwrap()));
    }

    #[test]
    fn an_interrupt_ends_a_put_that_spins() {
        for queue in [fair(1), Arc::new(ArrayBlockingQueue::new(1).unwrap())] {
            for timed in [false, true] {
                queue.offer(1).unwrap();
                in_next_snooze::call({
                    let (queue, me) = (Arc::clone(&queue), interrupt::current());
                    move || {
                        me.interrupt();
                        assert_eq!(queue.poll(), Some(1));
                    }
                });
                if timed {
                    assert_eq!(queue.offer_timeout(2, A_WHILE), Err(OfferError::Interrupted(2)));
                } else {
                    assert_eq!(queue.put(2), Err(PutError::Interrupted(2)));
                }
                assert_eq!((queue.poll(), interrupt::interrupted()), (None, false));
            }
        }
    }
}
