//! [`Disposable`]: the handle to scheduled work.

use std::fmt;
use std::time::Duration;

use super::end::Waiters;
use super::job::{Job, JobOwner};
use crate::interrupt::Interrupted;
use crate::panic::catch;
use crate::sync::{Arc, AtomicBool, Exclusive, Mutex, Ordering, Weak};

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
    Job(Arc<Job>, Weak<dyn JobOwner>),
    Callback(Arc<DisposeCallback>),
    /// Work that ended before its handle existed.
    Over,
}

/// A disposable that is only a callback.
struct DisposeCallback {
    /// `None` once it is disposed.
    callback: Mutex<Option<Callback>>,
    /// True once the callback has returned.
    is_over: AtomicBool,
    waiters: Waiters,
}

/// Exclusive because it is only moved out, never called by reference.
type Callback = Exclusive<Box<dyn FnOnce() + Send>>;

impl DisposeCallback {
    fn dispose(&self) -> bool {
        let taken = self.callback.lock().take(); // ends the lock: the callback is user code
        let Some(callback) = taken else { return false };
        catch(callback.into_inner());
        self.is_over.store(true, Ordering::Release);
        self.waiters.wake_all();
        true
    }

    fn is_disposed(&self) -> bool {
        self.callback.lock().is_none()
    }

    fn wait(&self, timeout: Duration) -> Result<bool, Interrupted> {
        // Acquire: pairs with the Release store in `dispose`, to see what the callback did.
        self.waiters.wait(timeout, || self.is_over.load(Ordering::Acquire))
    }
}

impl Disposable {
    pub(super) fn of(job: Arc<Job>, owner: Weak<dyn JobOwner>) -> Disposable {
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
        let callback = Mutex::new(Some(Exclusive::new(Box::new(f) as Box<dyn FnOnce() + Send>)));
        let is_over = AtomicBool::new(false);
        let callback = DisposeCallback { callback, is_over, waiters: Waiters::default() };
        Disposable { kind: Kind::Callback(Arc::new(callback)) }
    }

    /// Cancels the work. Returns true if this call did it, false if it was cancelled before or has
    /// ended.
    ///
    /// Work that waits does not run, and its captures are dropped at once. A running body is
    /// interrupted, unless the call comes from that body. A periodic task does not run again.
    pub fn dispose(&self) -> bool {
        match &self.kind {
            Kind::Job(job, owner) => job.dispose(owner),
            Kind::Callback(callback) => callback.dispose(),
            Kind::Over => false,
        }
    }

    /// Returns true if no further run will start: the work has ended or is cancelled.
    pub fn is_disposed(&self) -> bool {
        match &self.kind {
            Kind::Job(job, _) => job.is_disposed(),
            Kind::Callback(callback) => callback.is_disposed(),
            Kind::Over => true,
        }
    }

    /// Returns true if the work was cancelled, by this handle, its worker or its scheduler.
    pub fn is_cancelled(&self) -> bool {
        match &self.kind {
            Kind::Job(job, _) => job.is_cancelled(),
            Kind::Callback(callback) => callback.is_disposed(),
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
            Kind::Job(job, owner) => job.wait(owner, timeout),
            Kind::Callback(callback) => callback.wait(timeout),
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

impl fmt::Debug for Disposable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Disposable")
            .field("disposed", &self.is_disposed())
            .field("cancelled", &self.is_cancelled())
            .finish()
    }
}
