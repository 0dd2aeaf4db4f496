//! [`Disposable`]: the handle to scheduled work.

use std::fmt;
use std::time::Duration;

use super::job::{JobOwner, JobRef};
use crate::interrupt::Interrupted;
use crate::panic::catch;
use crate::sync::Weak;
use crate::task::TaskId;

/// The handle to scheduled work: cancels it and reports its state. Dropping the handle has no
/// effect.
///
/// # Examples
/// ```
/// use millpond::schedulers::{self, SchedulerExt};
/// use std::time::Duration;
///
/// let tea = schedulers::parallel().schedule_after(Duration::from_secs(3600), || println!("tea"))?;
/// assert!(tea.dispose());
/// assert!(tea.is_cancelled() && !tea.dispose());
/// # Ok::<(), millpond::Rejected>(())
/// ```
#[derive(Clone)]
pub struct Disposable {
    kind: Kind,
}

#[derive(Clone)]
enum Kind {
    Job(JobRef, Weak<dyn JobOwner>),
    /// A job without a scheduler. Disposing of it runs it.
    Callback(JobRef),
    /// Work that ended before its handle was created.
    Over,
}

impl Disposable {
    pub(super) fn of(job: JobRef, owner: Weak<dyn JobOwner>) -> Disposable {
        Disposable { kind: Kind::Job(job, owner) }
    }

    pub(super) fn over() -> Disposable {
        Disposable { kind: Kind::Over }
    }

    /// Creates a disposable that calls `f` once, when it is disposed. For custom schedulers.
    ///
    /// It is not connected to any work. [`wait`](Self::wait) waits until it is disposed and `f` has
    /// returned.
    ///
    /// # Examples
    /// ```
    /// use millpond::schedulers::Disposable;
    ///
    /// let goodbye = Disposable::from_fn(|| println!("goodbye"));
    /// assert!(goodbye.dispose() && !goodbye.dispose());
    /// ```
    pub fn from_fn(f: impl FnOnce() + Send + 'static) -> Disposable {
        let callback = move || _ = catch(f);
        let job = JobRef::of(TaskId::fresh(), callback, Duration::ZERO, None);
        Disposable { kind: Kind::Callback(job) }
    }

    /// Cancels the work. Returns true if this call cancelled it, false if it was already cancelled
    /// or has ended. Does not wait for a running body.
    ///
    /// Waiting work will not run, and its captures are dropped at once. A running body is
    /// interrupted, unless the call comes from that body. A periodic task does not run again.
    pub fn dispose(&self) -> bool {
        match &self.kind {
            Kind::Job(job, owner) => job.dispose(owner),
            Kind::Callback(job) => run_callback(job),
            Kind::Over => false,
        }
    }

    /// Returns true if no further run will start: the work has ended or is cancelled.
    pub fn is_disposed(&self) -> bool {
        match &self.kind {
            Kind::Job(job, _) => job.is_disposed(),
            Kind::Callback(job) => !job.is_pending(),
            Kind::Over => true,
        }
    }

    /// Returns true if the work was cancelled, by this handle, its worker or its scheduler.
    pub fn is_cancelled(&self) -> bool {
        match &self.kind {
            Kind::Job(job, _) => job.is_cancelled(),
            Kind::Callback(job) => !job.is_pending(),
            Kind::Over => false,
        }
    }

    /// Blocks until no run is under way and none will start, for at most `timeout`. Returns false
    /// on timeout.
    ///
    /// If the caller is a task of the same scheduler and the work can start now, the caller runs it
    /// in place, so that it does not block its own scheduler. Some work can only start or end after
    /// the calling task has returned: the task itself, and later work of its own lane. For such
    /// work this returns `Ok(false)` at once.
    ///
    /// # Errors
    /// Returns [`Interrupted`] if the calling thread is interrupted while it waits.
    pub fn wait(&self, timeout: Duration) -> Result<bool, Interrupted> {
        match &self.kind {
            Kind::Job(job, owner) => job.wait(Some(owner), timeout),
            Kind::Callback(job) => job.wait(None, timeout),
            Kind::Over => Ok(true),
        }
    }

    /// As [`wait`](Self::wait), for work that has no further run. Returns true at once for a
    /// callback, which is not connected to any run.
    pub(super) fn wait_for_last_run(&self, timeout: Duration) -> Result<bool, Interrupted> {
        match &self.kind {
            Kind::Callback(_) => Ok(true),
            _ => self.wait(timeout),
        }
    }
}

/// Runs a callback. Returns false if it has already begun.
fn run_callback(job: &JobRef) -> bool {
    let has_run = job.is_pending() && job.run(&mut |run| run(), &|_, _| {}).is_some();
    if has_run {
        job.finish();
    }
    has_run
}

impl fmt::Debug for Disposable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Disposable")
            .field("disposed", &self.is_disposed())
            .field("cancelled", &self.is_cancelled())
            .finish()
    }
}
