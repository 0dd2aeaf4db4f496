//! [`Propagate`]: carries a context from submitting threads to the threads that run their tasks.

use crate::task::Captured;

/// Captures the context of a submitting thread, so that the task runs inside it; see
/// [`Builder::propagate`](crate::Builder::propagate).
///
/// Used for tracing spans, request ids or locales. Any closure that returns an optional
/// [`Captured`] implements this trait.
pub trait Propagate: Send + Sync + 'static {
    /// Captures the context. Called on the submitting thread, once per task. Returns `None` if
    /// there is no context to carry.
    ///
    /// The context of a periodic task is captured once, when it is scheduled, and that of a future
    /// once, when it is spawned. If this method panics, the submission is refused with
    /// [`CallbackPanicked`](crate::RejectReason::CallbackPanicked).
    fn capture(&self) -> Option<Box<dyn Captured>>;
}

impl<F: Fn() -> Option<Box<dyn Captured>> + Send + Sync + 'static> Propagate for F {
    fn capture(&self) -> Option<Box<dyn Captured>> {
        self()
    }
}
