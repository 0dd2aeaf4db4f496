//! The gate of a task: its body blocks there until the scenario opens the gate or an interrupt
//! arrives.
//!
//! The gate also knows whether its task is at rest there. It must learn of an interrupt before the
//! task does: the callback that the body registers runs inside the call that interrupts. So when
//! that call has returned, the task no longer counts as at rest.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use millpond::interrupt;

use crate::scenario::GateState;

/// A gate, shared by the driver and the task's body.
#[derive(Debug)]
pub struct Gate {
    inner: Mutex<Inner>,
    changed: Condvar,
}

#[derive(Debug)]
struct Inner {
    /// Changes at most once, from `Closed`.
    state: GateState,
    /// Whether the body waits in [`Gate::pass`].
    blocked: bool,
    /// Whether an interrupt has reached the body, which has not consumed it yet.
    interrupt_pending: bool,
}

/// Why a body left its gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passage {
    /// The gate is open.
    Open,
    /// The gate tells the body to fail.
    Fail,
    /// The body was interrupted at the closed gate; the interrupt is consumed.
    Interrupted,
}

impl Gate {
    /// A gate in this state.
    pub fn new(state: GateState) -> Gate {
        let inner = Inner { state, blocked: false, interrupt_pending: false };
        Gate { inner: Mutex::new(inner), changed: Condvar::new() }
    }

    /// Changes a closed gate to `state`. Any other gate stays as it is.
    pub fn turn(&self, state: GateState) {
        let mut inner = self.lock();
        if inner.state == GateState::Closed {
            inner.state = state;
            self.changed.notify_all();
        }
    }

    /// True if the body waits here and nothing is about to wake it.
    pub fn is_resting_place(&self) -> bool {
        let inner = self.lock();
        inner.blocked && inner.state == GateState::Closed && !inner.interrupt_pending
    }

    /// Blocks the body until the gate is not closed, or an interrupt arrives. Called on a worker
    /// thread.
    pub fn pass(self: &Arc<Self>) -> Passage {
        let gate = Arc::clone(self);
        // Registered before the lock is taken: if the flag is set already, the callback runs at
        // once on this thread.
        let registration = interrupt::current().on_interrupt(move || gate.note_interrupt());
        let passage = self.wait();
        drop(registration);
        if passage == Passage::Interrupted {
            interrupt::interrupted();
        }
        passage
    }

    fn wait(&self) -> Passage {
        let mut inner = self.lock();
        let passage = loop {
            match inner.state {
                GateState::Open => break Passage::Open,
                GateState::Fail => break Passage::Fail,
                GateState::Closed if inner.interrupt_pending => break Passage::Interrupted,
                GateState::Closed => {}
            }
            inner.blocked = true;
            inner = self.changed.wait(inner).unwrap_or_else(PoisonError::into_inner);
        };
        inner.blocked = false;
        inner.interrupt_pending = false;
        passage
    }

    fn note_interrupt(&self) {
        self.lock().interrupt_pending = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
