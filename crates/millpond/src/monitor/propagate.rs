//! [`Propagate`]: carries a context from submitting threads to the threads that run their tasks.

use crate::task::Captured;

/// Captures the context of a submitting thread, so that its task runs inside it; see
/// [`Builder::propagate`](crate::Builder::propagate).
///
/// For tracing spans, request ids, locales. Any closure that returns an optional [`Captured`] is
/// one.
pub trait Propagate: Send + Sync + 'static {
    /// Called on the submitting thread, once per task. `None` if there is nothing to carry.
    ///
    /// A periodic task captures once, when it is scheduled, and a future once, when it is spawned.
    /// If this method panics, the submission is refused with
    /// [`CallbackPanicked`](crate::RejectReason::CallbackPanicked).
    fn capture(&self) -> Option<Box<dyn Captured>>;
}

impl<F: Fn() -> Option<Box<dyn Captured>> + Send + Sync + 'static> Propagate for F {
    fn capture(&self) -> Option<Box<dyn Captured>> {
        self()
    }
}
