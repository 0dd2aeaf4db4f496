//! Submitters that wait for room in a full pool, in order of arrival.
//!
//! A submitter takes a ticket, tries again to hand its task in, and waits if that fails. A thread
//! that makes room afterwards notifies the holder of the oldest ticket. Both go through the lock of
//! the queue's head (or of the idle list) in between: if the ticket came first, the thread that makes
//! room sees it; if the room came first, the try succeeds.
//! Model: `loom_tests::pool::waiting_for_room_against_making_it`.
//!
//! A notified ticket leaves the list, and returns to its old place before its holder tries again. So
//! each unit of room goes to one ticket, and one that gives up a notified ticket passes it on.

use crate::interrupt::wait::{Key, WaitList, Waiting};
use crate::sync::{AtomicUsize, Mutex, Ordering};

#[derive(Debug, Default)]
pub(super) struct Room {
    /// The number of tickets in the list, for a look without the lock. Written under the lock.
    waiting: AtomicUsize,
    tickets: Mutex<WaitList<Waiting>>,
}

/// The right to be told about room; given back when dropped.
#[derive(Debug)]
pub(super) struct Ticket<'a> {
    room: &'a Room,
    key: Key,
}

impl Room {
    /// Adds a waiting thread or task as the last in line.
    pub(super) fn take_ticket(&self, who: Waiting) -> Ticket<'_> {
        let key = self.change(|tickets| tickets.push(who));
        Ticket { room: self, key }
    }

    /// There is room for one more task: notifies the oldest ticket.
    pub(super) fn made(&self) {
        if self.waiting.load(Ordering::Relaxed) != 0 {
            self.notify_next();
        }
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

impl Ticket<'_> {
    /// Before another try, after the ticket was notified: room made from now on notifies it again.
    pub(super) fn rejoin(&mut self, who: Waiting) {
        self.key = self.room.change(|tickets| tickets.rejoin(self.key, who));
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        let removed = self.room.change(|tickets| tickets.remove(self.key));
        if removed.is_none() {
            self.room.made(); // notified, and not used: it is for the next
        }
    }
}
