//! [`Timers`]: a shared queue of alarms, ordered by due time.
//!
//! One thread may wait for the next alarm. No alarm is missed: the thread records its wake-up time
//! under the lock of the queue. A caller that adds an earlier alarm sees this time and wakes the
//! thread.

use std::fmt;

use super::heap::{Key, TimerQueue};
use super::tick::Tick;
use crate::interrupt::wait::WaitCell;
use crate::panic::catch;
use crate::sync::{Arc, Mutex, Weak};

/// The thread on which an alarm rings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RingsOn {
    /// The timer thread of the process. No user code may run there.
    TimerThread,
    /// A thread that has advanced a manual clock.
    AdvancingThread,
}

/// The receiver of an alarm.
pub(crate) trait Ring: Send + Sync {
    /// Called when the alarm is due, with no lock held. May drop the last reference to `self`.
    fn ring(self: Arc<Self>, on: RingsOn);
}

pub(super) struct Timers {
    state: Mutex<State>,
}

struct State {
    queue: TimerQueue<Weak<dyn Ring>>,
    next_number: u64,
    /// The waiting thread, and when it will wake by itself.
    parked: Option<(Arc<WaitCell>, Tick)>,
}

impl Timers {
    pub(super) fn new() -> Timers {
        let state = State { queue: TimerQueue::new(), next_number: 0, parked: None };
        Timers { state: Mutex::new(state) }
    }

    /// Rings all alarms that are due, in order.
    pub(super) fn ring_due(&self, now: Tick, on: RingsOn) {
        loop {
            let due = self.state.lock().queue.pop_due(now);
            let Some((_, _, receiver)) = due else { return };
            if let Some(receiver) = receiver.upgrade() {
                catch(move || receiver.ring(on)); // a panic must not stop the other alarms
            }
        }
    }

    /// Prepares `me`, the cell of the calling thread, for a wait until the next alarm. Returns when
    /// that alarm is due. A caller that adds an earlier alarm notifies `me`.
    pub(super) fn announce_wait(&self, me: &Arc<WaitCell>) -> Tick {
        let mut state = self.state.lock();
        let until = state.queue.first_due().unwrap_or(Tick::NEVER);
        me.reset(); // a notification in flight only ends the wait early
        state.parked = Some((Arc::clone(me), until));
        until
    }

    pub(super) fn add(&self, due: Tick, receiver: Weak<dyn Ring>) -> Key {
        let mut state = self.state.lock();
        let number = state.next_number;
        state.next_number += 1;
        let key = state.queue.insert(due, number, receiver);
        let too_late = state.parked.take_if(|(_, until)| due < *until);
        drop(state);
        if let Some((thread, _)) = too_late {
            thread.notify();
        }
        key
    }

    pub(super) fn remove(&self, key: Key) {
        self.state.lock().queue.remove(key);
    }
}

impl fmt::Debug for Timers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timers").field("alarms", &self.state.lock().queue.len()).finish_non_exhaustive()
    }
}
