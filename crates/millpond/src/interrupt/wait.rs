//! Waiting threads: [`WaitCell`] is one wait of one thread, [`WaitList`] a list of waits.
//!
//! A thread that has to wait puts an entry with its cell into a list, under the lock that guards
//! the list, and waits on the cell. A thread that can end the wait removes the entry under the same
//! lock and notifies the cell. So an entry is in the list if and only if no thread has decided to
//! notify it. A waiter that gives up removes its entry, and learns from the result whether it was
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

/// What an interrupt does to a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnInterrupt {
    /// Ends the wait. The flag stays set until the caller takes it.
    Return,
    /// The wait goes on. The flag stays set.
    Keep,
}

/// One wait of one thread, its owner. Can be used again after [`reset`](Self::reset).
#[derive(Debug)]
pub(crate) struct WaitCell {
    thread: Arc<ThreadContext>,
    /// Two bits, [`NOTIFIED`] and [`PARKED`].
    ///
    /// Both are set by read-modify-writes, so one of the two comes second. If that is `NOTIFIED`,
    /// the notifier sees `PARKED` and unparks the owner. If it is `PARKED`, the owner sees
    /// `NOTIFIED` and does not park. So notifying an owner that still spins costs no unpark.
    ///
    /// `NOTIFIED` is set with Release in `mark_notified` and read with Acquire in `is_notified`:
    /// the owner sees what the notifier wrote.
    state: AtomicU8,
}

impl WaitCell {
    /// A cell for the calling thread.
    #[inline]
    pub(crate) fn for_this_thread() -> WaitCell {
        WaitCell::of(ThreadContext::current())
    }

    /// A cell for the calling thread, which does not wait on the cell alone: it checks
    /// [`is_notified`](Self::is_notified) beside other conditions. A notifier always unparks it.
    pub(crate) fn among_other_conditions() -> Arc<WaitCell> {
        Arc::new(WaitCell { thread: ThreadContext::current(), state: AtomicU8::new(PARKED) })
    }

    /// A cell for `thread`, which must be the thread that waits on it.
    #[inline]
    pub(crate) fn of(thread: Arc<ThreadContext>) -> WaitCell {
        WaitCell { thread, state: AtomicU8::new(0) }
    }

    /// Ends the wait. At most one system call.
    pub(crate) fn notify(&self) {
        self.mark_notified();
        self.unpark();
    }

    /// The first half of [`notify`](Self::notify), for a caller that holds a lock. Returns false if
    /// the cell was notified before.
    #[inline]
    pub(crate) fn mark_notified(&self) -> bool {
        self.state.fetch_or(NOTIFIED, Ordering::Release) & NOTIFIED == 0
    }

    /// The second half of [`notify`](Self::notify), after the lock is released. Returns false if
    /// the owner has not parked.
    ///
    /// By now the owner may wait for something else, which is harmless: every wait checks its
    /// condition again.
    #[inline]
    pub(crate) fn unpark(&self) -> bool {
        // Relaxed: the caller's `mark_notified` accessed the same word, so nothing older is read.
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

    /// Makes the cell ready for another wait. A notification that comes before this call ends no
    /// wait, so the owner checks its condition afterwards. Owner only.
    pub(crate) fn reset(&self) {
        // Acquire; pairs with the Release in `mark_notified`: that check sees what the notifier
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

    /// The owner.
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

/// Wakes a thread that polls a future.
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
    /// Ends the wait. A waker is user code, so no lock may be held; its panic is caught.
    pub(crate) fn notify(self) {
        match self {
            Waiting::Thread(cell) => cell.notify(),
            Waiting::Task(waker) => _ = catch(|| waker.wake()),
        }
    }
}

/// How long a call may wait.
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

    /// The end of the wait. `None` means never.
    pub(crate) fn deadline(self) -> Option<Instant> {
        match self {
            Timeout::Forever => None,
            Timeout::For(timeout) => deadline_after(timeout),
        }
    }
}

/// True if `deadline` has passed. A thread that backs off checks this too: on a busy machine each
/// yield may take milliseconds.
#[inline]
pub(crate) fn is_past(deadline: Option<Instant>) -> bool {
    deadline.is_some_and(|deadline| deadline <= Instant::now())
}

/// A thread that waits at a queue, and the item that passes between it and the thread that serves
/// it.
pub(crate) struct Waiter<T> {
    cell: WaitCell,
    /// Of a putter: the item, until the putter is served. Of a taker: the item, once the taker is
    /// served.
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
    /// A waiter for the calling thread, with the item it puts, if any.
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

    /// Blocks until notified, interrupted or past `deadline`. Returns false in the last case. Owner
    /// only. Searches before it parks, for as long as `budget` says.
    ///
    /// Leaves the interrupt flag set: while the waiter is in a list, the flag tells other threads
    /// not to serve it. After leaving the list the owner takes the flag, unless it was served: then
    /// the flag is for its next call.
    pub(crate) fn search_and_park(&self, budget: &SearchBudget, deadline: Option<Instant>) -> bool {
        budget.search(|| self.is_notified() || self.is_interrupted() || is_past(deadline));
        self.park(deadline)
    }

    /// As `search_and_park`, without the search.
    pub(crate) fn park(&self, deadline: Option<Instant>) -> bool {
        self.cell.wait(deadline, OnInterrupt::Return) != Wake::TimedOut
    }

    /// Takes the item. Owner only, and not while the waiter is in a list.
    pub(crate) fn take_item(&self) -> Option<T> {
        self.item.lock().take()
    }
}

impl<T> Waiters<T> {
    /// Removes the waiter to be served next: the oldest that is not interrupted. An interrupted one
    /// is about to leave with an error, as a call does that finds the flag set.
    pub(crate) fn next(&mut self) -> Option<Arc<Waiter<T>>> {
        self.take_first(|waiter| !waiter.is_interrupted())
    }
}
