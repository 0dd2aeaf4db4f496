//! [`Propagated`]: the context of a submitting thread, carried to the thread that runs the task.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::error::Payload;
use crate::interrupt::RunId;
use crate::panic::drop_caught;
use crate::sync::backoff::Backoff;
use crate::sync::{Arc, Mutex};

/// A context that was captured on a submitting thread; see
/// [`Propagate`](crate::monitor::Propagate).
pub trait Captured: Send {
    /// Calls `run` with the context installed, once, on the thread that runs the task. Restores the
    /// previous context afterwards.
    ///
    /// `run` does not panic, because the panic of a task is caught inside. If this method panics or
    /// does not call `run`, the task counts as panicked. For a periodic task and a future, this
    /// method is called for every run.
    fn enter(&mut self, run: &mut dyn FnMut());
}

/// A captured context. Clones share it: the runs of a periodic task and the polls of a future.
#[derive(Clone)]
pub(crate) struct Propagated(Arc<Mutex<Context>>);

struct Context {
    /// `None` while a thread is inside the context, because no lock is held while user code runs.
    captured: Option<Box<dyn Captured>>,
    /// The number of the thread that entered last.
    inside: u64,
}

impl Drop for Context {
    /// The destructor of a context is user code. It runs wherever the last reference to the task is
    /// dropped, so its panic is caught here.
    fn drop(&mut self) {
        drop_caught(self.captured.take());
    }
}

impl Propagated {
    pub(crate) fn new(captured: Box<dyn Captured>) -> Self {
        Propagated(Arc::new(Mutex::new(Context { captured: Some(captured), inside: 0 })))
    }

    /// Calls `run` inside the context. Returns the panic of the context, if it panics.
    pub(super) fn enter(&self, run: &mut dyn FnMut()) -> Result<(), Payload> {
        let Some(mut captured) = self.take() else {
            run();
            return Ok(());
        };
        let entered = catch_unwind(AssertUnwindSafe(|| captured.enter(run)));
        self.0.lock().captured = Some(captured);
        entered
    }

    /// Takes the context out. Returns `None` if the calling thread is already inside. Another
    /// thread leaves the context soon: the next poll of a future may begin while the previous one
    /// restores its thread.
    fn take(&self) -> Option<Box<dyn Captured>> {
        let me = RunId::current().thread;
        let mut backoff = Backoff::default();
        loop {
            let mut context = self.0.lock();
            if let Some(captured) = context.captured.take() {
                context.inside = me;
                return Some(captured);
            }
            if context.inside == me {
                return None;
            }
            drop(context);
            backoff.spin();
        }
    }
}

impl fmt::Debug for Propagated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Propagated")
    }
}
