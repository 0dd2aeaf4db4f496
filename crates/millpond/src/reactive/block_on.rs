//! [`block_on`]: runs a future on the calling thread.
//!
//! A worker that blocks may be the only thread that can run the tasks which the future waits for.
//! Each poll collects the handles that it finds pending, and the worker runs those tasks in place.
//! A task that cannot start yet is tried again later, whether or not its handle is polled again:
//! combinators such as `FuturesUnordered` poll only what was woken.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use crate::interrupt::wait::{OnInterrupt, WaitCell};
use crate::interrupt::{Interrupted, Wake};
use crate::sync::Arc;
use crate::task::{Canceller, TaskId, awaited_in, works_for_any};

/// Runs `future` on the calling thread until it is ready. Blocks, and can be interrupted. A future
/// that is ready takes precedence over a pending interrupt.
///
/// A calling worker runs tasks in place, as [`TaskHandle::join`] does, so it does not deadlock a
/// full pool. It runs those that the future waits for and that are still queued in the worker's own
/// pool or scheduler. This covers only handles that this thread polls, not those inside another
/// spawned future.
///
/// A handle that cannot resolve while a calling worker blocks is ready at once with
/// [`JoinError::WouldDeadlock`]: the handle of the calling task itself, of a task around it, or of
/// a pending task behind the calling one in its lane or
/// [`single_worker`](crate::schedulers::single_worker). That is so even if `future` waits for
/// something else too, such as a timeout.
///
/// [`TaskHandle::join`]: crate::TaskHandle::join
/// [`JoinError::WouldDeadlock`]: crate::JoinError::WouldDeadlock
///
/// # Errors
/// Returns [`Interrupted`] if the calling thread is interrupted while it waits. The future is then
/// dropped.
///
/// # Examples
/// ```
/// use millpond::{executors, reactive};
///
/// let pool = executors::fixed(1)?;
/// assert_eq!(reactive::block_on(pool.submit(|| 6 * 7)?)??, 42);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn block_on<F: Future>(future: F) -> Result<F::Output, Interrupted> {
    let me = Arc::new(WaitCell::for_this_thread());
    let waker = Waker::from(Arc::clone(&me));
    let mut future = pin!(future);
    let is_worker = works_for_any();
    let mut helper = Helper::default();
    loop {
        let mut poll = || future.as_mut().poll(&mut Context::from_waker(&waker));
        let (answer, awaited) = if is_worker { awaited_in(poll) } else { (poll(), Vec::new()) };
        if let Poll::Ready(output) = answer {
            return Ok(output);
        }
        // The poll has registered its wakers, so a task that is queued after this check wakes the
        // thread.
        let try_again = helper.help(awaited);
        if me.wait(try_again, OnInterrupt::Return) == Wake::Interrupted {
            me.take_interrupt();
            return Err(Interrupted);
        }
        me.reset(); // before the next poll
    }
}

/// The awaited tasks that could not start yet.
///
/// A wake-up touches only the tasks whose next attempt is due, as there may be thousands of others.
/// A task that has ended stays until its attempt would be the next one.
#[derive(Default)]
struct Helper {
    /// By the time of the next attempt.
    tasks: BTreeMap<(Instant, TaskId), Canceller>,
    /// The times in `tasks`.
    times: BTreeMap<TaskId, Instant>,
}

impl Helper {
    /// Runs those tasks that can start now: of `awaited`, and of the earlier ones whose next
    /// attempt is due. Returns the time of the next attempt.
    fn help(&mut self, awaited: Vec<Canceller>) -> Option<Instant> {
        if awaited.is_empty() && self.tasks.is_empty() {
            return None;
        }
        let now = Instant::now();
        awaited.into_iter().for_each(|task| self.insert(now, task));
        let mut later = Vec::new();
        while let Some(task) = self.pop_if(|at, _| at <= now) {
            later.extend(task.help().map(|again| (again, task)));
        }
        later.into_iter().for_each(|(again, task)| self.insert(again, task));
        while self.pop_if(|_, task| task.is_done()).is_some() {}
        self.tasks.first_key_value().map(|((at, _), _)| *at)
    }

    fn insert(&mut self, at: Instant, task: Canceller) {
        let id = task.id();
        if let Some(before) = self.times.insert(id, at) {
            self.tasks.remove(&(before, id));
        }
        self.tasks.insert((at, id), task);
    }

    /// Removes the first task if `condition` is true for it and its time.
    fn pop_if(&mut self, condition: impl FnOnce(Instant, &Canceller) -> bool) -> Option<Canceller> {
        let first = self.tasks.first_entry()?;
        let (at, id) = *first.key();
        if !condition(at, first.get()) {
            return None;
        }
        self.times.remove(&id);
        Some(first.remove())
    }
}
