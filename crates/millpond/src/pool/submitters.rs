//! Submitters that wait for room in a full pool, in order of arrival: blocked threads and suspended tasks.
//!
//! A submitter takes a ticket, tries again to hand its task in, and waits if that fails. A thread
//! that makes room afterwards notifies the holder of the oldest ticket. Both go through the lock of
//! the queue's head (or of the idle list) in between: if the ticket came first, the thread that makes
//! room sees it; if the room came first, the try succeeds.
//! Model: `loom_tests::pool::waiting_for_room_against_making_it`.
//!
//! A notified ticket leaves the list, and returns to its old place before its holder tries again. So
//! each unit of room goes to one ticket, and one that gives up a notified ticket passes it on.
//! Model: `loom_tests::pool::a_dropped_async_submitter_passes_its_room_on`.
//!
//! An asynchronous submitter that finds others waiting lines up behind them without a try. BlockedSubmitters that
//! was made while all tickets were notified is then known to their holders only, so each of them
//! offers what is left to the next ticket when it leaves ([`BlockedSubmitter`]'s destructor). The newcomer saw
//! one of them in the list, so its own ticket is there when that one leaves.
//! Model: `loom_tests::pool::async_submitters_behind_each_other_all_get_room`.

use std::ops::Deref;
use std::task::Waker;

use super::inner::PoolInner;
use crate::interrupt::wait::{Key, WaitList, Waiting};
use crate::panic::drop_caught;
use crate::sync::{AtomicUsize, Mutex, Ordering};

#[derive(Debug, Default)]
pub(super) struct BlockedSubmitters {
    /// The number of tickets in the list, for a look without the lock. Written under the lock.
    waiting: AtomicUsize,
    tickets: Mutex<WaitList<Waiting>>,
}

impl BlockedSubmitters {
    /// There is room for one more task: notifies the oldest ticket.
    pub(super) fn made(&self) {
        if self.is_waited_for() {
            self.notify_next();
        }
    }

    /// Somebody waits for room and has not been notified.
    pub(super) fn is_waited_for(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) != 0
    }

    #[cold]
    fn notify_next(&self) {
        let next = self.change(WaitList::pop_first);
        if let Some(next) = next {
            next.notify();
        }
    }

    /// The run state or a limit has changed: all try again.
    pub(super) fn changed(&self) {
        let all = self.change(|tickets| tickets.take_all(|_| true));
        all.into_iter().for_each(Waiting::notify);
    }

    fn change<R>(&self, change: impl FnOnce(&mut WaitList<Waiting>) -> R) -> R {
        let mut tickets = self.tickets.lock();
        let result = change(&mut tickets);
        self.waiting.store(tickets.len(), Ordering::Relaxed);
        result
    }
}

/// The right to be told about room; given back when dropped. A blocked thread borrows the pool, a future owns a share of it.
#[derive(Debug)]
pub(super) struct BlockedSubmitter<P: Deref<Target = PoolInner>> {
    pool: P,
    key: Key,
    /// No other ticket was in the list when this one was taken.
    pub(super) was_first: bool,
}

impl<P: Deref<Target = PoolInner>> BlockedSubmitter<P> {
    /// Adds a waiting thread or task as the last in line.
    pub(super) fn take(pool: P, who: Waiting) -> Self {
        let (was_first, key) = pool.room.change(|tickets| (tickets.is_empty(), tickets.push(who)));
        BlockedSubmitter { pool, key, was_first }
    }

    /// Before another try, after the ticket was notified: room made from now on notifies it again.
    pub(super) fn rejoin(&mut self, who: Waiting) {
        self.key = self.pool.room.change(|tickets| tickets.rejoin(self.key, who));
    }

    /// Replaces the waker of a ticket that has not been notified. Gives it back if it has been.
    pub(super) fn set_waker(&self, waker: Waker) -> Result<(), Waker> {
        let mut new = Some(waker);
        let old = self.pool.room.change(|tickets| {
            let entry = tickets.get_mut(self.key)?;
            new.take().map(|waker| std::mem::replace(entry, Waiting::Task(waker)))
        });
        drop_caught(old); // user code, so not under the lock
        new.map_or(Ok(()), Err)
    }
}

impl<P: Deref<Target = PoolInner>> Drop for BlockedSubmitter<P> {
    fn drop(&mut self) {
        let room = &self.pool.room;
        let removed = room.change(|tickets| tickets.remove(self.key));
        // BlockedSubmitters that this ticket was told of and did not use, or that nobody was told of, is for the next.
        if room.is_waited_for() && self.pool.may_have_room() {
            room.made();
        }
        drop_caught(removed);
    }
}
