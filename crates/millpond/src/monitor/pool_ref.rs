//! [`PoolRef`]: a weak reference to a pool, and how an observer uses it.

use std::any::Any;
use std::fmt;

use super::change::{Change, ChangeError};
use super::settings::{Actor, Settings};
use super::snapshot::{Kind, PoolSnapshot};
use super::views::{Waiting, WorkerView};
use crate::sync::{Arc, Weak};

/// What pools and schedulers offer to observers.
pub(crate) trait Monitored: Send + Sync {
    fn snapshot(&self) -> PoolSnapshot;
    fn settings(&self) -> Settings;
    fn workers(&self) -> Vec<WorkerView>;
    fn waiting(&self, limit: usize) -> Waiting;

    fn set_paused(self: Arc<Self>, paused: bool, by: &Actor);
    fn is_paused(&self) -> bool;
    fn reconfigure(self: Arc<Self>, change: Change) -> Result<Settings, ChangeError>;

    /// Drops the reference of an observer. An implementation calls [`release`].
    fn release(self: Arc<Self>);
}

/// Drops a reference that an observer has upgraded.
///
/// If it has become the last one, dropping it runs destructors of the user: of tasks, hooks,
/// policies. An observer must not run these, so a short-lived thread does.
pub(crate) fn release<T: Send + 'static>(observed: Arc<T>) {
    let Some(last) = Arc::into_inner(observed) else { return };
    if cfg!(loom) {
        return drop(last); // a model has no threads of the system
    }
    let thread = std::thread::Builder::new().name("millpond-drop".to_owned());
    // Without a thread there is no better place than this one: `spawn` drops the value.
    let _ = thread.spawn(move || drop(last));
}

/// An observed pool. Released when dropped.
struct Observed(Option<Arc<dyn Monitored>>);

impl Drop for Observed {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(Monitored::release);
    }
}

/// What is known about a pool even after its end. Never changes.
pub(crate) struct Identity {
    name: Arc<str>,
    kind: Kind,
    /// The registry lists the pool, and observers are told about it.
    is_listed: bool,
    /// What [`PoolRef::upgrade`] makes a handle of.
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

/// A reference to a pool that does not keep it running. Made by
/// [`downgrade`](crate::ThreadPoolExecutor::downgrade) and by [`registry`](crate::registry).
///
/// For a task, a cache or an observer that uses the pool only while another owner keeps it. The
/// pool shuts down when its last handle is dropped, whatever `PoolRef`s exist. Then, once its last
/// worker has exited, the methods return `None`.
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

    /// The label, also of a pool that is gone.
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

    /// Returns all that is known about the pool now, or `None` if it is gone. Does not block.
    pub fn snapshot(&self) -> Option<PoolSnapshot> {
        self.observe(|pool| pool.snapshot())
    }

    /// Returns what each worker does now; see
    /// [`ThreadPoolExecutor::workers`](crate::ThreadPoolExecutor::workers). `None` if the pool is
    /// gone.
    ///
    /// Of a scheduler these are its threads, by number. All schedulers of one kind number their
    /// threads together. A task that a thread has been assigned and has not begun has no
    /// `running_for`. A task that runs inside another one is not shown, the outer one is.
    ///
    /// A scheduler over an executor has no threads. It lists what it has given to the executor and
    /// has not ended: what runs, and the first 1,000 that have not begun, as
    /// [`Starting`](super::WorkerState::Starting). The name is that of the scheduler, the number
    /// is 0, and the thread is not known; if the executor is a pool, its own workers are the
    /// threads.
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

    /// Returns the first tasks that wait; see
    /// [`ThreadPoolExecutor::waiting`](crate::ThreadPoolExecutor::waiting). `None` if the pool is
    /// gone.
    ///
    /// A scheduler lists tasks that could start, the oldest first, and then tasks whose time has
    /// not come, the next one first. It is locked while it looks at its threads and at about
    /// `limit` tasks. If more tasks wait, the first ones of its queues are taken, then those behind
    /// the running tasks of workers, then delayed ones: those that are due within about a
    /// millisecond, and others in the order of its timers. If some of these entries were
    /// cancelled, fewer tasks are returned. What waits in the executor below a scheduler is among
    /// its [`workers`](Self::workers).
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

    /// Returns the settings in force, or `None` if the pool is gone. Does not block.
    pub fn settings(&self) -> Option<Settings> {
        self.observe(|pool| pool.settings())
    }

    /// Changes settings; see
    /// [`ThreadPoolExecutor::reconfigure`](crate::ThreadPoolExecutor::reconfigure). `None` if the
    /// pool is gone.
    ///
    /// # Errors
    /// [`ChangeError`] with the cause. Nothing changes then.
    pub fn reconfigure(&self, change: Change) -> Option<Result<Settings, ChangeError>> {
        self.observe(|pool| Arc::clone(pool).reconfigure(change))
    }

    /// Pauses the pool; see [`ThreadPoolExecutor::pause`](crate::ThreadPoolExecutor::pause).
    /// `None` if the pool is gone.
    pub fn pause(&self, by: &Actor) -> Option<()> {
        self.observe(|pool| Arc::clone(pool).set_paused(true, by))
    }

    /// Resumes the pool; see [`ThreadPoolExecutor::resume`](crate::ThreadPoolExecutor::resume).
    /// `None` if the pool is gone.
    pub fn resume(&self, by: &Actor) -> Option<()> {
        self.observe(|pool| Arc::clone(pool).set_paused(false, by))
    }

    /// Returns true while the pool is paused. `None` if the pool is gone.
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
