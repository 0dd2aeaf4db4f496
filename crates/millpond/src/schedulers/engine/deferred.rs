//! [`Deferred`]: what a change under the scheduler's lock leaves to be done without it.

use std::thread::JoinHandle;

use super::Engine;
use super::model::Start;
use crate::interrupt::wait::WaitCell;
use crate::schedulers::decorators::{Decorators, SlotInfo};
use crate::schedulers::job::JobRef;
use crate::sync::Arc;

/// Effects that block or call user code. Filled under the lock, performed after it.
#[derive(Debug, Default)]
pub(super) struct Deferred {
    /// Threads to unpark. They are marked as notified.
    pub(super) wake: Vec<Arc<WaitCell>>,
    /// Slots that need a thread.
    pub(super) start: Vec<Start>,
    /// Jobs that were removed from all queues, to be cancelled.
    pub(super) cancel: Vec<JobRef>,
    /// Periodic jobs whose current run is the last.
    pub(super) end_after_run: Vec<JobRef>,
    /// Slots that were removed, with the decorators to tell.
    pub(super) closed: Vec<(SlotInfo, Decorators)>,
    /// The alarm was set to a time that has passed.
    pub(super) ring: bool,
    /// The scheduler has ended.
    pub(super) ended: bool,
    /// For observers: its end has resumed it; it has ended.
    pub(super) news: (bool, bool),
    /// Dropped without the lock, which is inside it.
    pub(super) engine: Option<Arc<Engine>>,
    /// Threads that have exited. Their results may be user code to drop.
    pub(super) exited: Vec<JoinHandle<()>>,
}

impl Deferred {
    /// Returns true if something other than waking threads is to be done, which may run user code.
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
