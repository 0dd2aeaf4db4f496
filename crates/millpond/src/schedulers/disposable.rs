//! [`Disposable`]: the handle to scheduled work.

use std::fmt;
use std::time::Duration;

use super::job::{JobOwner, JobRef};
use crate::interrupt::Interrupted;
use crate::panic::catch;
use crate::sync::Weak;
use crate::task::TaskId;

/// The handle to scheduled work: cancels it and answers questions about it. Dropping the handle
/// changes nothing.
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
    /// A job that no scheduler has. Disposing of it runs it.
    Callback(JobRef),
    /// Work that ended before its handle existed.
    Over,
}

impl Disposable {
    pub(super) fn of(job: JobRef, owner: Weak<dyn JobOwner>) -> Disposable {
        Disposable { kind: Kind::Job(job, owner) }
    }

    pub(super) fn over() -> Disposable {
        Disposable { kind: Kind::Over }
    }

    /// Makes a disposable that calls `f` once, when it is disposed: for schedulers of your own.
    ///
    /// It knows of no work. [`wait`](Self::wait) waits until it is disposed and `f` has returned.
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

    /// Cancels the work. Returns true if this call did it, false if it was cancelled before or has
    /// ended.
    ///
    /// Work that waits does not run, and its captures are dropped at once. A running body is
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

    /// Waits until no run is under way and none will start, at most `timeout`. Returns true if that
    /// is so.
    ///
    /// A task of the same scheduler that waits for work which could start now runs that work in
    /// place, so that it does not block its own scheduler. For work that can only start or end
    /// after the calling task has returned (the task itself, and later work of its own lane) it
    /// returns `Ok(false)` at once.
    ///
    /// # Errors
    /// [`Interrupted`] if the calling thread is interrupted while it waits.
    pub fn wait(&self, timeout: Duration) -> Result<bool, Interrupted> {
        match &self.kind {
            Kind::Job(job, owner) => job.wait(Some(owner), timeout),
            Kind::Callback(job) => job.wait(None, timeout),
            Kind::Over => Ok(true),
        }
    }

    /// As [`wait`](Self::wait), for work that is known to have no further run. A callback knows of
    /// no runs.
    pub(super) fn wait_for_last_run(&self, timeout: Duration) -> Result<bool, Interrupted> {
        match &self.kind {
            Kind::Callback(_) => Ok(true),
            _ => self.wait(timeout),
        }
    }
}

/// Runs a callback. Returns false if it has begun before.
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
