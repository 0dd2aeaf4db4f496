//! [`CurrentSpan`]: carries the span of the submitter into the task.

use millpond::monitor::{Captured, Propagate};
use tracing::Span;

/// Carries the current span of the submitter into the task, for
/// [`Builder::propagate`](millpond::Builder::propagate).
///
/// The span is captured at submission and entered around the run, on any thread. A periodic task
/// captures it once. The span remains open until the task has ended or was dropped. A task that was
/// submitted outside of all spans has none.
///
/// Use it for tasks that belong to their submitter, such as the queries of a request. A long-lived
/// task that is started inside a request would keep the span of that request open: run it on a pool
/// without `CurrentSpan`, or submit it inside [`Span::none`].
///
/// # Examples
/// ```
/// use millpond::ThreadPoolExecutor;
/// use millpond_tracing::CurrentSpan;
/// use tracing::{Span, info_span};
/// # tracing::subscriber::set_global_default(tracing_subscriber::registry())?;
///
/// let pool = ThreadPoolExecutor::builder().propagate(CurrentSpan).build()?;
/// let request = info_span!("request", id = 7);
/// let in_task = request.in_scope(|| pool.submit(Span::current))?.join()?;
/// assert_eq!(in_task, request);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct CurrentSpan;

impl Propagate for CurrentSpan {
    fn capture(&self) -> Option<Box<dyn Captured>> {
        let span = Span::current();
        if span.is_none() { None } else { Some(Box::new(CapturedSpan(span))) }
    }
}

struct CapturedSpan(Span);

impl Captured for CapturedSpan {
    fn enter(&mut self, run: &mut dyn FnMut()) {
        self.0.in_scope(run);
    }
}
