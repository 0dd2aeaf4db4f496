//! Submitters that wait for room, on behalf of the blocking policy.
//!
//! A submitter takes a ticket, then tries again to hand its task in, and sleeps if that fails. Whoever makes room
//! looks afterwards whether somebody holds a ticket. Both go through the lock of the queue's head (or of the idle list)
//! in between: if the submitter came first, its ticket is seen; if the room came first, the try succeeds.

use crate::interrupt::Sleeper;
use crate::sync::{Arc, AtomicBool, AtomicUsize, Mutex, Ordering};

#[derive(Debug, Default)]
pub(super) struct Room {
    /// The number of tickets, for a look without the lock. Written under the lock.
    waiting: AtomicUsize,
    /// In order of arrival.
    tickets: Mutex<Vec<Arc<Call>>>,
}

#[derive(Debug)]
struct Call {
    sleeper: Arc<Sleeper>,
    /// Somebody made room for this one, and it has not tried yet.
    called: AtomicBool,
}

/// The right to be told about room; given back when dropped.
#[derive(Debug)]
pub(super) struct Ticket<'a> {
    room: &'a Room,
    call: Arc<Call>,
}

impl Room {
    pub(super) fn take_ticket(&self, sleeper: &Arc<Sleeper>) -> Ticket<'_> {
        let call = Arc::new(Call { sleeper: Arc::clone(sleeper), called: AtomicBool::new(false) });
        let mut tickets = self.tickets.lock();
        tickets.push(Arc::clone(&call));
        self.waiting.store(tickets.len(), Ordering::Relaxed);
        drop(tickets);
        Ticket { room: self, call }
    }

    /// There is room for one more task: tells the first who has not been told yet.
    pub(super) fn made(&self) {
        if self.waiting.load(Ordering::Relaxed) != 0 {
            self.call_next();
        }
    }

    #[cold]
    fn call_next(&self) {
        let tickets = self.tickets.lock();
        if let Some(call) = tickets.iter().find(|call| !call.called.load(Ordering::Relaxed)) {
            call.called.store(true, Ordering::Release);
            call.sleeper.unpark();
        }
    }

    /// Something changed that concerns everybody: the run state, or a limit.
    pub(super) fn changed(&self) {
        for call in self.tickets.lock().iter() {
            call.called.store(true, Ordering::Release);
            call.sleeper.unpark();
        }
    }
}

impl Ticket<'_> {
    pub(super) fn is_called(&self) -> bool {
        self.call.called.load(Ordering::Acquire)
    }

    /// Before a try: room made from now on is another call.
    pub(super) fn about_to_try(&self) {
        self.call.called.store(false, Ordering::Relaxed);
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        let mut tickets = self.room.tickets.lock();
        tickets.retain(|call| !Arc::ptr_eq(call, &self.call));
        self.room.waiting.store(tickets.len(), Ordering::Relaxed);
        drop(tickets);
        // A call that came too late for us is for the next.
        if self.is_called() {
            self.room.made();
        }
    }
}
