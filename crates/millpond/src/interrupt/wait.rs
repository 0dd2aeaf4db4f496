//! Waiting threads: [`WaitCell`] is one wait of one thread, [`WaitList`] is a list of waits.
//!
//! To wait, a thread adds an entry with its cell to a list, under the lock that guards the list.
//! Then it waits on the cell. A thread that can end the wait removes the entry under the same lock
//! and notifies the cell. So an entry is in the list if and only if no thread has decided to notify
//! it. A waiter that gives up removes its entry, and learns from the result whether it was
//! notified.

use std::ops::Deref;
use std::task::Waker;
use std::time::{Duration, Instant};

use super::context::{ThreadContext, Wake};
use crate::panic::catch;
use crate::sync::backoff::SearchBudget;
use crate::sync::{Arc, AtomicU8, Ordering, SpinLock, deadline_after};

pub(crate) use super::wait_list::{Key, WaitList};

/// Set by the notifier.
const NOTIFIED: u8 = 1;
/// Set by the owner before it parks.
const PARKED: u8 = 2;

/// The effect of an interrupt on a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnInterrupt {
    /// Ends the wait. The flag stays set until the caller takes it.
    Return,
    /// The wait continues. The flag stays set.
    Keep,
}

/// One wait of one thread, its owner. Can be used again after [`reset`](Self::reset).
#[derive(Debug)]
pub(crate) struct WaitCell {
    thread: Arc<ThreadContext>,
    /// Two bits, [`NOTIFIED`] and [`PARKED`].
    ///
    /// Both bits are set by read-modify-writes, so one of them is set second. If that is
    /// `NOTIFIED`, the notifier sees `PARKED` and unparks the owner. If it is `PARKED`, the owner
    /// sees `NOTIFIED` and does not park. So notifying an owner that still spins costs no unpark.
    ///
    /// `NOTIFIED` is set with Release in `mark_notified` and read with Acquire in `is_notified`, so
    /// the owner sees what the notifier wrote.
    state: AtomicU8,
}

impl WaitCell {
    /// Creates a cell for the calling thread.
    #[inline]
    pub(crate) fn for_this_thread() -> WaitCell {
        WaitCell::of(ThreadContext::current())
    }

    /// Creates a cell for a thread that waits for several conditions, among them
    /// [`is_notified`](Self::is_notified). A notifier always unparks it.
    pub(crate) fn among_other_conditions() -> Arc<WaitCell> {
        Arc::new(WaitCell { thread: ThreadContext::current(), state: AtomicU8::new(PARKED) })
    }

    /// Creates a cell for `thread`, which must be the thread that waits on it.
    #[inline]
    pub(crate) fn of(thread: Arc<ThreadContext>) -> WaitCell {
        WaitCell { thread, state: AtomicU8::new(0) }
    }

    /// Ends the wait. Makes at most one system call.
    pub(crate) fn notify(&self) {
        self.mark_notified();
        self.unpark();
    }

    /// The first half of [`notify`](Self::notify), for a caller that holds a lock. Returns false if
    /// the cell had already been notified.
    #[inline]
    pub(crate) fn mark_notified(&self) -> bool {
        self.state.fetch_or(NOTIFIED, Ordering::Release) & NOTIFIED == 0
    }

    /// The second half of [`notify`](Self::notify), after the lock has been released. Returns false
    /// if the owner has not parked.
    ///
    /// The owner may already wait for something else. That is harmless, because every wait checks
    /// its condition again.
    #[inline]
    pub(crate) fn unpark(&self) -> bool {
        // Relaxed: `mark_notified` of the caller accessed the same word, so no older value is read.
        let parked = self.state.load(Ordering::Relaxed) & PARKED != 0;
        if parked {
            self.thread.unpark();
        }
        parked
    }

    #[inline]
    pub(crate) fn is_notified(&self) -> bool {
        self.state.load(Ordering::Acquire) & NOTIFIED != 0
    }

    /// Prepares the cell for another wait. An earlier notification does not end that wait, so the
    /// owner must check its condition after this call. Owner only.
    pub(crate) fn reset(&self) {
        // Acquire; pairs with the Release in `mark_notified`: the check sees what the notifier
        // wrote.
        self.state.swap(0, Ordering::Acquire);
    }

    /// Parks until notified, interrupted (see [`OnInterrupt`]) or past `deadline`. Owner only.
    pub(crate) fn wait(&self, deadline: Option<Instant>, on_interrupt: OnInterrupt) -> Wake {
        if self.is_notified() {
            return Wake::Ready;
        }
        self.state.fetch_or(PARKED, Ordering::Relaxed); // only the order of the two bits matters
        let interrupted = || on_interrupt == OnInterrupt::Return && self.thread.is_interrupted();
        let ended = || self.is_notified() || interrupted();
        self.thread.wait_through_interrupts(deadline, ended);
        if self.is_notified() {
            Wake::Ready
        } else if interrupted() {
            Wake::Interrupted
        } else {
            Wake::TimedOut
        }
    }

    /// Returns the owner.
    pub(crate) fn thread(&self) -> &ThreadContext {
        &self.thread
    }

    #[inline]
    pub(crate) fn is_interrupted(&self) -> bool {
        self.thread.is_interrupted()
    }

    /// Reads and clears the owner's interrupt flag. Owner only.
    #[inline]
    pub(crate) fn take_interrupt(&self) -> bool {
        self.thread.take_interrupt()
    }
}

/// Notifies the cell as the waker of a thread that polls a future.
impl std::task::Wake for WaitCell {
    fn wake(self: Arc<Self>) {
        self.notify();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.notify();
    }
}

/// A thread that is blocked, or an asynchronous task that is suspended.
#[derive(Debug)]
pub(crate) enum Waiting {
    Thread(Arc<WaitCell>),
    Task(Waker),
}

impl Waiting {
    /// Ends the wait. A waker is user code, so no lock may be held. Its panic is caught.
    pub(crate) fn notify(self) {
        match self {
            Waiting::Thread(cell) => cell.notify(),
            Waiting::Task(waker) => _ = catch(|| waker.wake()),
        }
    }
}

/// The time limit of a call that may wait.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Timeout {
    Forever,
    For(Duration),
}

impl Timeout {
    /// True if the call may not wait at all.
    pub(crate) fn is_zero(self) -> bool {
        matches!(self, Timeout::For(timeout) if timeout.is_zero())
    }

    /// Returns the end of the wait. `None` means no limit.
    pub(crate) fn deadline(self) -> Option<Instant> {
        match self {
            Timeout::Forever => None,
            Timeout::For(timeout) => deadline_after(timeout),
        }
    }
}

/// True if `deadline` has passed. A thread that backs off checks this too, because on a busy
/// machine each yield may take milliseconds.
#[inline]
pub(crate) fn is_past(deadline: Option<Instant>) -> bool {
    deadline.is_some_and(|deadline| deadline <= Instant::now())
}

/// A thread that waits at a queue, and the item that it passes to or receives from another thread.
pub(crate) struct Waiter<T> {
    cell: WaitCell,
    /// A putter's item until the putter is served. A taker's item once the taker is served.
    item: SpinLock<Option<T>>,
}

/// The waiters of one side of a queue, in order of arrival. Guarded by the queue's lock.
pub(crate) type Waiters<T> = WaitList<Arc<Waiter<T>>>;

impl<T> Deref for Waiter<T> {
    type Target = WaitCell;

    #[inline]
    fn deref(&self) -> &WaitCell {
        &self.cell
    }
}

impl<T> Waiter<T> {
    /// Creates a waiter for the calling thread, with the item that it puts, if any.
    pub(crate) fn new(item: Option<T>) -> Arc<Self> {
        Arc::new(Waiter { cell: WaitCell::for_this_thread(), item: SpinLock::new(item) })
    }

    /// Serves a taker. The caller holds the queue's lock and has removed the waiter from its list.
    pub(crate) fn give(&self, item: T) {
        *self.item.lock() = Some(item);
        self.mark_notified();
    }

    /// Serves a putter: takes its item. The caller holds the queue's lock and has removed the
    /// waiter from its list.
    pub(crate) fn receive(&self) -> T {
        let item = self.take_item().expect("a putter in the list holds its item");
        self.mark_notified();
        item
    }

    /// Blocks until notified, interrupted or past `deadline`. Returns false at the deadline. Owner
    /// only. Polls before it parks, within `budget`.
    ///
    /// The interrupt flag stays set. While the waiter is in a list, the flag tells other threads
    /// not to serve it. After leaving the list the owner takes the flag, unless it was served: then
    /// the flag is left for its next call.
    pub(crate) fn search_and_park(&self, budget: &SearchBudget, deadline: Option<Instant>) -> bool {
        budget.search(|| self.is_notified() || self.is_interrupted() || is_past(deadline));
        self.park(deadline)
    }

    /// Like `search_and_park`, without polling.
    pub(crate) fn park(&self, deadline: Option<Instant>) -> bool {
        self.cell.wait(deadline, OnInterrupt::Return) != Wake::TimedOut
    }

    /// Takes the item. Owner only, and not while the waiter is in a list.
    pub(crate) fn take_item(&self) -> Option<T> {
        self.item.lock().take()
    }
}

impl<T> Waiters<T> {
    /// Removes the next waiter to be served: the oldest one that is not interrupted. An interrupted
    /// waiter is about to leave with an error.
    pub(crate) fn next(&mut self) -> Option<Arc<Waiter<T>>> {
        self.take_first(|waiter| !waiter.is_interrupted())
    }
}
