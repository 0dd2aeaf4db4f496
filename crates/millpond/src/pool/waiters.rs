//! [`Waiters`]: blocked threads and suspended asynchronous tasks, in order of arrival.
//!
//! A pool has four such lists. Submitters wait for room (`backpressure`). Threads and tasks wait
//! for termination, or until the pool is idle (`lifecycle`). Workers hold a task during a pause
//! (`pause`).
//!
//! Every user follows one pattern. The waiter adds itself and then checks its condition. The
//! notifier makes the condition true and then checks [`is_empty`](Waiters::is_empty). Both sides
//! put the lock or fence that their race in `README.md` names between the two steps.

use std::task::Waker;
use std::time::Instant;

use crate::interrupt::wait::{Key, OnInterrupt, WaitCell, WaitList, Waiting};
use crate::interrupt::{Interrupted, Wake};
use crate::panic::drop_caught;
use crate::sync::{Arc, AtomicUsize, Mutex, Ordering};

#[derive(Debug, Default)]
pub(super) struct Waiters {
    /// Length of `list`, for reads without the lock. Written under the lock.
    len: AtomicUsize,
    list: Mutex<WaitList<Waiting>>,
}

impl Waiters {
    /// Relaxed: the caller orders this read, see the module documentation.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.len.load(Ordering::Relaxed) == 0
    }

    fn locked<R>(&self, f: impl FnOnce(&mut WaitList<Waiting>) -> R) -> R {
        let mut list = self.list.lock();
        let result = f(&mut list);
        self.len.store(list.len(), Ordering::Relaxed);
        result
    }

    /// Adds a waiter at the end. The second value is true if the list was empty.
    pub(super) fn push(&self, waiter: Waiting) -> (Key, bool) {
        self.locked(|list| {
            let was_empty = list.is_empty();
            (list.push(waiter), was_empty)
        })
    }

    /// Adds a notified waiter again, at its old position in the order of arrival.
    pub(super) fn rejoin(&self, key: Key, waiter: Waiting) -> Key {
        self.locked(|list| list.rejoin(key, waiter))
    }

    /// Removes a waiter. Returns false if it is not listed, because it has been notified.
    pub(super) fn remove(&self, key: Key) -> bool {
        let removed = self.locked(|list| list.remove(key));
        let was_listed = removed.is_some();
        drop_caught(removed); // wakers are user code, so they are dropped outside of the lock
        was_listed
    }

    /// Replaces the waker of a listed waiter. Returns the waker if the waiter has been notified.
    pub(super) fn set_waker(&self, key: Key, waker: Waker) -> Result<(), Waker> {
        let mut new = Some(waker);
        let old = self.locked(|list| {
            let entry = list.get_mut(key)?;
            new.take().map(|waker| std::mem::replace(entry, Waiting::Task(waker)))
        });
        drop_caught(old); // user code, see `remove`
        new.map_or(Ok(()), Err)
    }

    /// Notifies the waiter that came first.
    #[inline]
    pub(super) fn notify_first(&self) {
        if !self.is_empty() {
            self.pop_and_notify();
        }
    }

    #[cold]
    fn pop_and_notify(&self) {
        let first = self.locked(WaitList::pop_first);
        first.into_iter().for_each(Waiting::notify);
    }

    pub(super) fn notify_all(&self) {
        let all = self.locked(|list| list.take_all(|_| true));
        all.into_iter().for_each(Waiting::notify);
    }

    /// Notifies all waiters if `is_over`, except waiters that were added after that check began.
    ///
    /// The condition may be false again for later waiters. They check it themselves once they are
    /// listed. They see all earlier writes of this thread, because it took the lock of the list
    /// first.
    pub(super) fn notify_if(&self, is_over: impl FnOnce() -> bool) {
        let last = self.locked(|list| list.last_number());
        if is_over() {
            let waiting = self.locked(|list| list.take_up_to(last));
            waiting.into_iter().for_each(Waiting::notify);
        }
    }

    /// Blocks until notified. Returns at once if `is_over`, which is checked after the thread is
    /// listed. Interrupts do not end the wait, and the flag stays set.
    pub(super) fn wait_through_interrupts(&self, is_over: impl FnOnce() -> bool) {
        let cell = Arc::new(WaitCell::for_this_thread());
        let (key, _) = self.push(Waiting::Thread(Arc::clone(&cell)));
        if !is_over() {
            cell.wait(None, OnInterrupt::Keep);
        }
        self.remove(key);
    }

    /// Blocks until notified, or until `deadline`. Returns at once if `is_over`, which is checked
    /// after the thread is listed. Returns false on timeout. An interrupt ends the wait and clears
    /// the flag.
    pub(super) fn wait(
        &self,
        deadline: Option<Instant>,
        is_over: impl Fn() -> bool,
    ) -> Result<bool, Interrupted> {
        let cell = Arc::new(WaitCell::for_this_thread());
        let (key, _) = self.push(Waiting::Thread(Arc::clone(&cell)));
        let wake = if is_over() { Wake::Ready } else { cell.wait(deadline, OnInterrupt::Return) };
        self.remove(key);
        match wake {
            Wake::Ready => Ok(true),
            Wake::TimedOut => Ok(is_over()),
            Wake::Interrupted => {
                cell.take_interrupt();
                Err(Interrupted)
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn list(waiters: &Waiters) -> (Key, Arc<WaitCell>) {
        let cell = Arc::new(WaitCell::for_this_thread());
        (waiters.push(Waiting::Thread(Arc::clone(&cell))).0, cell)
    }

    /// A worker that saw an idle pool may be preempted before it notifies. By then another thread
    /// may have submitted tasks and may wait for them.
    #[test]
    fn a_waiter_that_comes_after_the_check_is_not_notified() {
        let waiters = Waiters::default();
        let (_, early) = list(&waiters);
        let mut late = None;
        waiters.notify_if(|| {
            late = Some(list(&waiters));
            true
        });
        let (key, late) = late.expect("the check was made");
        assert!(early.is_notified());
        assert!(!late.is_notified() && waiters.remove(key));
    }

    #[test]
    fn a_failed_check_notifies_nobody() {
        let waiters = Waiters::default();
        let (key, cell) = list(&waiters);
        waiters.notify_if(|| false);
        assert!(!cell.is_notified() && waiters.remove(key));
    }
}
