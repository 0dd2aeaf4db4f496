//! What users may watch: [`Hooks`].

use crate::executor::RejectReason;
use crate::sync::Arc;
use crate::task::Panic;
use crate::task::TaskInfo;
use crate::threads::WorkerInfo;

/// Callbacks at the turning points of a pool's life. All do nothing unless overridden.
///
/// None of the pool's locks is held while a hook runs, so hooks may call the pool. A hook that panics does not
/// hurt the pool: the worker goes on as if it had been replaced.
///
/// # Examples
/// ```
/// use millpond::{Hooks, Panic, TaskInfo, ThreadPoolExecutor};
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// #[derive(Default)]
/// struct Metrics {
///     begun: AtomicU64,
/// }
/// impl Hooks for Metrics {
///     fn before_execute(&self, _: &TaskInfo) {
///         self.begun.fetch_add(1, Ordering::Relaxed);
///     }
///     fn after_execute(&self, task: &TaskInfo, panic: Option<&Panic>) {
///         if let Some(panic) = panic {
///             eprintln!("{}: {panic}", task.name().unwrap_or("a task without a name"));
///         }
///     }
/// }
///
/// let metrics = Arc::new(Metrics::default());
/// let pool = ThreadPoolExecutor::builder().hooks(Arc::clone(&metrics)).build()?;
/// pool.execute(|| println!("work"))?;
/// pool.close();
/// assert_eq!(metrics.begun.load(Ordering::Relaxed), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Hooks: Send + Sync + 'static {
    /// Before a task runs, on its worker thread. If it panics, the task does not run, its handle resolves as
    /// abandoned, and `after_execute` is not called.
    fn before_execute(&self, task: &TaskInfo) {
        let _ = task;
    }

    /// After a task ran, on its worker thread. `panic` is what it panicked with; always `None` for a task that
    /// has a handle, because the handle keeps the panic. As in the JDK; see [`panicked`](Self::panicked) for all
    /// panics.
    fn after_execute(&self, task: &TaskInfo, panic: Option<&Panic>) {
        let _ = (task, panic);
    }

    /// When a task panics, on the thread that ran it, before its handle resolves and before `after_execute`.
    ///
    /// Called for every task that this pool runs or lets its caller run: with or without a handle, whether
    /// somebody has kept the handle or not; each run of a series, whether the series goes on
    /// ([`OnPanic::Continue`](crate::OnPanic)) or not; tasks of a scope; polls of a future. Also for a task that
    /// was cancelled while it ran, whose handle has resolved already. Not called for tasks that left the pool
    /// and that somebody else runs.
    ///
    /// # Examples
    /// ```
    /// use millpond::{Hooks, Panic, TaskInfo, ThreadPoolExecutor};
    /// use std::sync::mpsc;
    ///
    /// struct Report(mpsc::Sender<String>);
    /// impl Hooks for Report {
    ///     fn panicked(&self, task: &TaskInfo, panic: &Panic) {
    ///         let _ = self.0.send(format!("{}: {panic}", task.name().unwrap_or("unnamed")));
    ///     }
    /// }
    /// let (send, reports) = mpsc::channel();
    /// let pool = ThreadPoolExecutor::builder().hooks(Report(send)).build()?;
    /// drop(pool.submit(|| std::panic::resume_unwind(Box::new("broken")))?); // nobody will join it
    /// assert_eq!(reports.recv()?, "unnamed: broken");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn panicked(&self, task: &TaskInfo, panic: &Panic) {
        let _ = (task, panic);
    }

    /// Once, when all workers are gone after a shutdown, on the thread that noticed.
    fn terminated(&self) {}

    /// When a task is refused, on the submitting thread, before the rejection policy gets it.
    fn rejected(&self, task: &TaskInfo, reason: RejectReason) {
        let _ = (task, reason);
    }

    /// When a worker starts, on its thread.
    fn worker_started(&self, worker: &WorkerInfo) {
        let _ = worker;
    }

    /// When a worker leaves, on its thread. All of these come before `terminated`.
    fn worker_stopped(&self, worker: &WorkerInfo) {
        let _ = worker;
    }
}

/// Hooks that are shared, so that their owner can look at what they gathered.
impl<H: Hooks + ?Sized> Hooks for Arc<H> {
    fn before_execute(&self, task: &TaskInfo) {
        (**self).before_execute(task);
    }

    fn after_execute(&self, task: &TaskInfo, panic: Option<&Panic>) {
        (**self).after_execute(task, panic);
    }

    fn panicked(&self, task: &TaskInfo, panic: &Panic) {
        (**self).panicked(task, panic);
    }

    fn terminated(&self) {
        (**self).terminated();
    }

    fn rejected(&self, task: &TaskInfo, reason: RejectReason) {
        (**self).rejected(task, reason);
    }

    fn worker_started(&self, worker: &WorkerInfo) {
        (**self).worker_started(worker);
    }

    fn worker_stopped(&self, worker: &WorkerInfo) {
        (**self).worker_stopped(worker);
    }
}
