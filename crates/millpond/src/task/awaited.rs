//! Which tasks a future waits for: what `block_on` asks before it parks a worker.
//!
//! A worker that blocks on a future may be the only thread that can run the tasks which that future waits for. So while
//! it polls, the handles that are polled and not done are noted here, and `block_on` runs those in place that wait in a
//! pool of the calling thread, as `join` does.

use std::cell::RefCell;

use super::Canceller;
use crate::sync::thread_local;

thread_local! {
    /// The tasks noted in the poll that is under way; `None` if nobody asks.
    static AWAITED: RefCell<Option<Vec<Canceller>>> = nobody_asks();
}

fn nobody_asks() -> RefCell<Option<Vec<Canceller>>> {
    RefCell::new(None)
}

/// The handle of a task was polled on this thread, and the task is not done.
pub(super) fn note(task: impl FnOnce() -> Canceller) {
    let _ = AWAITED.try_with(|awaited| {
        if let Some(awaited) = &mut *awaited.borrow_mut() {
            awaited.push(task());
        }
    });
}

/// Whoever polls on this thread runs tasks in place: it wants to know also when one of them comes into a queue.
pub(super) fn is_asked_for() -> bool {
    AWAITED.try_with(|awaited| awaited.borrow().is_some()).unwrap_or(false)
}

/// Calls `poll`, and returns with its answer the tasks that it waits for.
#[cfg(feature = "futures")]
pub(crate) fn awaited_in<R>(poll: impl FnOnce() -> R) -> (R, Vec<Canceller>) {
    let mut asking = Asking(replace(Some(Vec::new())));
    let answer = poll();
    let awaited = replace(asking.0.take()).unwrap_or_default();
    std::mem::forget(asking);
    (answer, awaited)
}

/// Puts the list of an outer poll back, should the inner one panic.
#[cfg(feature = "futures")]
struct Asking(Option<Vec<Canceller>>);

#[cfg(feature = "futures")]
impl Drop for Asking {
    fn drop(&mut self) {
        replace(self.0.take());
    }
}

#[cfg(feature = "futures")]
fn replace(list: Option<Vec<Canceller>>) -> Option<Vec<Canceller>> {
    AWAITED.try_with(|awaited| awaited.replace(list)).unwrap_or(None)
}
