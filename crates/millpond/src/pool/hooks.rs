//! [`Hooks`]: callbacks for users who observe a pool.

use crate::executor::RejectReason;
use crate::sync::Arc;
use crate::task::Panic;
use crate::task::TaskInfo;
use crate::threads::WorkerInfo;

/// Callbacks for the events of a pool. By default they do nothing.
///
/// The pool holds no lock while a hook runs, so hooks may call the pool. A hook that panics does
/// not harm the pool: the worker continues as if it had been replaced.
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
    /// Called on the worker thread before it runs a task. If this hook panics, the task does not
    /// run, its handle resolves as abandoned, and `after_execute` is not called.
    ///
    /// For a periodic task, such a panic counts as a panic of the run. It is reported to
    /// [`panicked`](Self::panicked), and [`OnPanic`](crate::OnPanic) decides whether the series
    /// continues.
    fn before_execute(&self, task: &TaskInfo) {
        let _ = task;
    }

    /// Called on the worker thread after it has run a task. `panic` is the panic of the task.
    ///
    /// As in the JDK, `panic` is always `None` for a task with a handle, because the handle keeps
    /// the panic. See [`panicked`](Self::panicked) for all panics.
    fn after_execute(&self, task: &TaskInfo, panic: Option<&Panic>) {
        let _ = (task, panic);
    }

    /// Called when a task panics, on the thread that ran it, before its handle resolves and before
    /// `after_execute`.
    ///
    /// Called for every task that this pool runs, or lets the submitter run: tasks with or without
    /// a handle, each run of a periodic task, tasks of a scope, and polls of a future. Also called
    /// for a task that was cancelled while it ran, although its handle has already resolved. Not
    /// called for tasks that left the pool and run elsewhere.
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
    /// drop(pool.submit(|| std::panic::resume_unwind(Box::new("broken")))?); // nothing joins it
    /// assert_eq!(reports.recv()?, "unnamed: broken");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn panicked(&self, task: &TaskInfo, panic: &Panic) {
        let _ = (task, panic);
    }

    /// Called once, after all workers have exited after a shutdown, on the thread that terminates
    /// the pool.
    fn terminated(&self) {}

    /// Called when a task is refused, on the submitting thread, before the rejection policy.
    fn rejected(&self, task: &TaskInfo, reason: RejectReason) {
        let _ = (task, reason);
    }

    /// Called when a worker starts, on its thread.
    fn worker_started(&self, worker: &WorkerInfo) {
        let _ = worker;
    }

    /// Called when a worker exits, on its thread. `terminated` is called after all of these calls.
    fn worker_stopped(&self, worker: &WorkerInfo) {
        let _ = worker;
    }
}

/// Shared hooks: the owner keeps a clone and reads the collected data.
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
