//! [`SubmitAsync`]: a submission that waits for room without blocking a thread.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::ThreadPoolExecutor;
use super::inner::PoolInner;
use super::submitters::BlockedSubmitter;
use crate::executor::Rejected;
use crate::sync::Arc;
use crate::task::TaskHandle;
use crate::task::{Task, TaskOf};

/// The future of [`ThreadPoolExecutor::submit_async`]: resolves when the pool has accepted the task, or never will.
///
/// It does nothing until it is polled, and it needs no particular runtime. Once it has been polled, poll it when it is
/// woken, or drop it: until then those behind it in line are not told of the room that it was woken for.
#[must_use = "futures do nothing unless they are polled"]
pub struct SubmitAsync<T> {
    pool: ThreadPoolExecutor,
    /// `None` once the task has been accepted or refused.
    parts: Option<(Task, TaskHandle<T>)>,
    /// The place in line, once it had to wait.
    ticket: Option<BlockedSubmitter<Arc<PoolInner>>>,
}

impl<T: Send + 'static> SubmitAsync<T> {
    pub(super) fn new(pool: &ThreadPoolExecutor, f: impl FnOnce() -> T + Send + 'static) -> Self {
        let (task, handle) = TaskOf::bare(f);
        SubmitAsync { pool: pool.clone(), parts: Some((task.into_task(), handle)), ticket: None }
    }
}

impl<T: Send + 'static> Future for SubmitAsync<T> {
    type Output = Result<TaskHandle<T>, Rejected>;

    /// # Panics
    /// If the future has resolved before.
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let (task, handle) = this.parts.take().expect("`SubmitAsync` polled after it resolved");
        match this.pool.core().poll_admission(task, &mut this.ticket, context.waker()) {
            Ok(Ok(())) => Poll::Ready(Ok(handle)),
            Ok(Err(refusal)) => {
                this.pool.count_rejected(&refusal.task, refusal.reason);
                Poll::Ready(Err(this.pool.core().rejected(refusal)))
            }
            Err(task) => {
                this.parts = Some((task, handle));
                Poll::Pending
            }
        }
    }
}

/// Not self-referential, whatever `T` is.
impl<T> Unpin for SubmitAsync<T> {}

impl<T> fmt::Debug for SubmitAsync<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SubmitAsync")
            .field("pool", &self.pool)
            .field("waits", &self.ticket.is_some())
            .finish_non_exhaustive()
    }
}
