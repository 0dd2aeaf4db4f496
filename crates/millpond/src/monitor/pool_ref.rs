//! [`PoolRef`]: a weak reference to a pool, for observers.

use std::any::Any;
use std::fmt;

use super::change::{Change, ChangeError};
use super::settings::{Actor, Settings};
use super::snapshot::{Kind, PoolSnapshot};
use super::views::{Waiting, WorkerView};
use crate::sync::{Arc, Weak};

/// The interface of pools and schedulers for observers.
pub(crate) trait Monitored: Send + Sync {
    fn snapshot(&self) -> PoolSnapshot;
    fn settings(&self) -> Settings;
    fn workers(&self) -> Vec<WorkerView>;
    fn waiting(&self, limit: usize) -> Waiting;

    fn set_paused(self: Arc<Self>, paused: bool, by: &Actor);
    fn is_paused(&self) -> bool;
    fn reconfigure(self: Arc<Self>, change: Change) -> Result<Settings, ChangeError>;

    /// Drops the reference of an observer. Implementations call the function [`release`].
    fn release(self: Arc<Self>);
}

/// Drops the strong reference that an observer obtained from a weak one.
///
/// If it is the last reference, dropping it runs user code: destructors of tasks, hooks and
/// policies. An observer must not run these, so a short-lived thread does.
pub(crate) fn release<T: Send + 'static>(observed: Arc<T>) {
    let Some(last) = Arc::into_inner(observed) else { return };
    if cfg!(loom) {
        return drop(last); // models have no system threads
    }
    let thread = std::thread::Builder::new().name("millpond-drop".to_owned());
    // If no thread can be started, `spawn` drops the value here.
    let _ = thread.spawn(move || drop(last));
}

/// A strong reference to an observed pool. Released on drop.
struct Observed(Option<Arc<dyn Monitored>>);

impl Drop for Observed {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(Monitored::release);
    }
}

/// The facts about a pool that remain known after its end. Never changes.
pub(crate) struct Identity {
    name: Arc<str>,
    kind: Kind,
    /// The pool is in the registry's list, and observers receive its events.
    is_listed: bool,
    /// The value from which [`PoolRef::upgrade`] creates a handle.
    handle: Weak<dyn Any + Send + Sync>,
}

impl Identity {
    pub(crate) fn new(
        name: Arc<str>,
        kind: Kind,
        is_listed: bool,
        handle: Weak<dyn Any + Send + Sync>,
    ) -> Self {
        Identity { name, kind, is_listed, handle }
    }

    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }

    pub(super) fn is_listed(&self) -> bool {
        self.is_listed
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    pub(crate) fn handle(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        self.handle.upgrade()
    }
}

/// A reference to a pool that does not keep it running. Created by
/// [`downgrade`](crate::ThreadPoolExecutor::downgrade) and by [`registry`](crate::registry).
///
/// Use it in a task, a cache or an observer that uses the pool only while another owner keeps it.
/// The pool shuts down when its last handle is dropped, no matter how many `PoolRef`s exist. After
/// its last worker has exited, the methods return `None`.
///
/// # Examples
/// ```
/// let pool = millpond::executors::fixed(1)?;
/// let weak = pool.downgrade();
/// assert_eq!(weak.upgrade().unwrap().submit(|| 7)?.join()?, 7);
/// assert_eq!(weak.snapshot().unwrap().stats.submitted, 1);
/// pool.close();
/// drop(pool);
/// assert!(weak.upgrade().is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct PoolRef(Arc<Entry>);

struct Entry {
    identity: Identity,
    label: Arc<str>,
    monitored: Weak<dyn Monitored>,
}

impl PoolRef {
    pub(super) fn new(identity: Identity, label: Arc<str>, monitored: Weak<dyn Monitored>) -> Self {
        PoolRef(Arc::new(Entry { identity, label, monitored }))
    }

    pub(crate) fn identity(&self) -> &Identity {
        &self.0.identity
    }

    /// Returns the label, even if the pool is gone.
    pub(crate) fn last_label(&self) -> &Arc<str> {
        &self.0.label
    }

    pub(super) fn is_alive(&self) -> bool {
        self.0.monitored.strong_count() > 0
    }

    fn observe<R>(&self, look: impl FnOnce(&Arc<dyn Monitored>) -> R) -> Option<R> {
        let observed = Observed(Some(self.0.monitored.upgrade()?));
        observed.0.as_ref().map(look)
    }

    /// Returns the name of the pool, or `None` if it is gone.
    pub fn name(&self) -> Option<Arc<str>> {
        self.is_alive().then(|| Arc::clone(&self.identity().name))
    }

    /// Returns the name of the pool, made unique in the process, or `None` if it is gone.
    pub fn label(&self) -> Option<Arc<str>> {
        self.is_alive().then(|| Arc::clone(&self.0.label))
    }

    /// Returns a snapshot of all figures of the pool, or `None` if it is gone. Does not block.
    pub fn snapshot(&self) -> Option<PoolSnapshot> {
        self.observe(|pool| pool.snapshot())
    }

    /// Returns what each worker is doing; see
    /// [`ThreadPoolExecutor::workers`](crate::ThreadPoolExecutor::workers). Returns `None` if the
    /// pool is gone.
    ///
    /// For a scheduler, these are its threads, ordered by number. All schedulers of one kind share
    /// one sequence of thread numbers. A task that is assigned to a thread and has not started has
    /// no `running_for`. Of tasks that run inside one another, only the outermost is listed.
    ///
    /// A scheduler over an executor has no threads. It lists its submissions to the executor that
    /// have not ended: those that run, and the first 1,000 that have not started, as
    /// [`Starting`](super::WorkerState::Starting). Their name is that of the scheduler, their
    /// number is 0, and their thread is unknown. If the executor is a pool, the threads are listed
    /// as its workers.
    ///
    /// # Examples
    /// ```
    /// use millpond::schedulers::{self, Scheduler, SchedulerExt};
    ///
    /// let mail = schedulers::new_single("mail")?;
    /// assert!(mail.schedule(|| println!("sent"))?.wait(std::time::Duration::MAX)?);
    /// let workers = mail.pool_ref().and_then(|mail| mail.workers()).unwrap();
    /// assert_eq!(workers[0].state.as_str(), "idle");
    /// assert!(workers[0].name.starts_with("mail-"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn workers(&self) -> Option<Vec<WorkerView>> {
        self.observe(|pool| pool.workers())
    }

    /// Returns the first waiting tasks; see
    /// [`ThreadPoolExecutor::waiting`](crate::ThreadPoolExecutor::waiting). Returns `None` if the
    /// pool is gone.
    ///
    /// A scheduler lists tasks that could start, oldest first, and then tasks that are not due,
    /// earliest first. It is locked while it visits its threads and about `limit` tasks. If more
    /// tasks wait, it takes the first ones of its queues, then those behind running tasks of
    /// workers, then delayed ones: those due within about 1 ms, then others in the order of its
    /// timers. If some of these entries were cancelled, fewer tasks are returned. Work that waits
    /// in the executor below a scheduler is listed by [`workers`](Self::workers).
    ///
    /// # Examples
    /// ```
    /// use millpond::schedulers::{self, Scheduler, SchedulerExt};
    /// use std::time::Duration;
    ///
    /// let mail = schedulers::new_single("mail")?;
    /// mail.schedule_after(Duration::from_secs(60), || println!("reminded"))?;
    /// let waiting = mail.pool_ref().and_then(|mail| mail.waiting(100)).unwrap();
    /// assert_eq!((waiting.total, waiting.oldest), (1, None));
    /// assert!(waiting.tasks[0].due_in.is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn waiting(&self, limit: usize) -> Option<Waiting> {
        self.observe(|pool| pool.waiting(limit))
    }

    /// Returns the current settings, or `None` if the pool is gone. Does not block.
    pub fn settings(&self) -> Option<Settings> {
        self.observe(|pool| pool.settings())
    }

    /// Changes settings; see
    /// [`ThreadPoolExecutor::reconfigure`](crate::ThreadPoolExecutor::reconfigure). Returns `None`
    /// if the pool is gone.
    ///
    /// # Errors
    /// Returns [`ChangeError`] with the reason. Nothing has changed then.
    pub fn reconfigure(&self, change: Change) -> Option<Result<Settings, ChangeError>> {
        self.observe(|pool| Arc::clone(pool).reconfigure(change))
    }

    /// Pauses the pool; see [`ThreadPoolExecutor::pause`](crate::ThreadPoolExecutor::pause).
    /// Returns `None` if the pool is gone.
    pub fn pause(&self, by: &Actor) -> Option<()> {
        self.observe(|pool| Arc::clone(pool).set_paused(true, by))
    }

    /// Resumes the pool; see [`ThreadPoolExecutor::resume`](crate::ThreadPoolExecutor::resume).
    /// Returns `None` if the pool is gone.
    pub fn resume(&self, by: &Actor) -> Option<()> {
        self.observe(|pool| Arc::clone(pool).set_paused(false, by))
    }

    /// Returns true while the pool is paused, or `None` if it is gone.
    pub fn is_paused(&self) -> Option<bool> {
        self.observe(|pool| pool.is_paused())
    }
}

/// Two references are equal if they refer to the same pool.
impl PartialEq for PoolRef {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for PoolRef {}

impl fmt::Debug for PoolRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolRef")
            .field("label", &self.0.label)
            .field("handles", &self.identity().handle.strong_count())
            .finish()
    }
}
