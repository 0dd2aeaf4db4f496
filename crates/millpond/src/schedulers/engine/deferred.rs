//! [`Deferred`]: the effects of a critical section that are performed after the lock is released.

use std::thread::JoinHandle;

use super::Engine;
use super::model::Start;
use crate::interrupt::wait::WaitCell;
use crate::schedulers::decorators::{Decorators, SlotInfo};
use crate::schedulers::job::JobRef;
use crate::sync::Arc;

/// Effects that may block or call user code. Filled under the lock, performed without it.
#[derive(Debug, Default)]
pub(super) struct Deferred {
    /// Threads to unpark. Their cells are already marked as notified.
    pub(super) wake: Vec<Arc<WaitCell>>,
    /// Slots that need a thread.
    pub(super) start: Vec<Start>,
    /// Jobs to cancel. They have been removed from all queues.
    pub(super) cancel: Vec<JobRef>,
    /// Periodic jobs whose current run is the last.
    pub(super) end_after_run: Vec<JobRef>,
    /// Removed slots, with the decorators to notify.
    pub(super) closed: Vec<(SlotInfo, Decorators)>,
    /// The alarm was set to a time that had already passed, so it must ring now.
    pub(super) ring: bool,
    /// The scheduler has ended.
    pub(super) ended: bool,
    /// Events to send: (the end has resumed a paused scheduler, the scheduler has ended).
    pub(super) news: (bool, bool),
    /// The reference that kept a draining engine alive. Dropped without the lock, because the lock
    /// is inside the engine.
    pub(super) engine: Option<Arc<Engine>>,
    /// Threads that have exited. Their results may contain user code to drop.
    pub(super) exited: Vec<JoinHandle<()>>,
}

impl Deferred {
    /// Unparks the threads. Comes before every call of user code, which may wait for them: no other
    /// thread unparks a thread that is marked as notified.
    pub(super) fn unpark(&mut self) {
        self.wake.drain(..).for_each(|cell| _ = cell.unpark());
    }

    /// Returns true if an effect other than unparking threads is due. Such effects may run user
    /// code.
    pub(super) fn may_call_user_code(&self) -> bool {
        !(self.start.is_empty()
            && self.cancel.is_empty()
            && self.end_after_run.is_empty()
            && self.closed.is_empty()
            && self.exited.is_empty()
            && self.engine.is_none())
            || self.ended
            || self.ring
    }
}
