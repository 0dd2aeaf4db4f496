//! Shutdown and termination of a pool, and waiting for termination or for an idle pool.
//!
//! The run state advances from Running to Terminated, see [`Ctl`](super::control::Ctl). `shutdown`
//! lets workers drain the queue. `shutdown_now` drains it itself and interrupts running tasks.
//! [`try_terminate`](PoolInner::try_terminate) is called after every step that may complete the
//! shutdown: a worker exited, a task left the queue, a spawn failed, the state advanced.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use super::ThreadPoolExecutor;
use super::control::Snapshot;
use super::inner::PoolInner;
use super::queue::TaskQueue;
use crate::executor::close_and_wait;
use crate::interrupt::wait::{Key, Waiting};
use crate::interrupt::{Interrupted, ThreadContext};
use crate::monitor::{Event, RunState};
use crate::panic::{catch, catch_value};
use crate::sync::{Arc, Ordering, deadline_after, fence};
use crate::task::{Task, WorksForScheduler, works_for};

impl PoolInner {
    /// Returns true if the calling thread runs a task or a hook of this pool.
    pub(super) fn is_current(&self) -> bool {
        works_for(self.owner_number())
    }

    pub(super) fn is_terminated(&self) -> bool {
        self.control().load().state() == RunState::Terminated
    }

    /// Race "enqueue / shutdown": advances the state, calls `order`, and reads the queue in
    /// `after_removal`, which calls `try_terminate`.
    pub(super) fn shutdown(self: &Arc<Self>) {
        let before = self.control().advance_to(RunState::Shutdown);
        self.queue().order();
        self.cancel_unwanted_after_shutdown();
        self.recheck_all();
        if before.is_some_and(Snapshot::is_paused) {
            self.resumed_by_shutdown();
            self.start_for_queued(usize::MAX); // as in `resume`
        }
        if self.has_stranded() {
            self.rescue_queue();
        }
        self.after_removal();
    }

    /// Returns the drained tasks. A submitter that enqueues concurrently takes its task back, or
    /// finds that it has been drained.
    pub(super) fn shutdown_now(&self) -> Vec<Task> {
        let before = self.control().advance_to(RunState::Stop);
        self.queue().order(); // race "enqueue / shutdown"
        fence(Ordering::SeqCst); // race "task start / stop": pairs with `interrupt_new_epoch_if_stopped`
        self.recheck_all();
        self.queue().order_takes(); // race "task start / stop": pairs with `read_control_before_task`
        let threads = self.workers().threads();
        threads.iter().for_each(|thread| thread.interrupt_all());
        if before.is_some_and(Snapshot::is_paused) {
            self.resumed_by_shutdown();
        }
        self.hand_back(self.queue().drain())
    }

    /// Race "task start / stop": called by a task's thread when its interrupt epoch begins.
    /// `shutdown_now` advances the state, fences and interrupts all epochs. Either it interrupts
    /// this epoch, or this thread sees the state.
    pub(super) fn interrupt_new_epoch_if_stopped(&self) {
        fence(Ordering::SeqCst);
        if self.control().load().state() >= RunState::Stop {
            ThreadContext::with_current(|me| me.restore_interrupt());
        }
    }

    /// Reads the control word for a worker that has received a task after its epoch began. In Stop,
    /// interrupts the worker: race "task start / stop". Avoids the fence for first-in-first-out
    /// queues.
    ///
    /// These queues dequeue a task under the head lock. `shutdown_now` takes that lock between
    /// advancing the state and interrupting. If the task was dequeued before, the interrupt reaches
    /// this epoch. If after, this thread sees the state.
    ///
    /// The caller learns from the word whether the pool is paused.
    pub(super) fn read_control_before_task(&self, me: &ThreadContext) -> Snapshot {
        if !matches!(self.queue(), TaskQueue::Fifo(_)) {
            fence(Ordering::SeqCst);
        }
        let seen = self.control().load();
        if seen.state() >= RunState::Stop {
            me.restore_interrupt();
        }
        seen
    }

    /// Advances to Terminated if the pool has nothing left to wait for.
    ///
    /// Race "enqueue / shutdown": every thread reads the state, calls `order` and reads the queue.
    /// So it sees the tasks of all submitters that did not see Shutdown. Model:
    /// `submit_against_termination`.
    pub(super) fn try_terminate(&self) {
        loop {
            let seen = self.control().load();
            let may_end = match seen.state() {
                RunState::Running | RunState::Tidying | RunState::Terminated => false,
                RunState::Shutdown => {
                    self.queue().order();
                    self.queue().is_empty()
                }
                RunState::Stop => true,
            };
            if !may_end {
                return;
            }
            if seen.workers() > 0 {
                return self.wake_worker_to_exit();
            }
            // Both under the lock, which also guards the reservation of permits: a worker that has
            // started and given its permit back since `seen` is still listed, or has removed itself
            // after its `worker_stopped` hook.
            // Model: `worker_start_and_exit_against_termination`.
            let workers = self.workers();
            if !workers.is_empty() {
                return; // workers are exiting, and the last one calls this again
            }
            let tidied = self.control().try_tidy(seen);
            drop(workers);
            if tidied {
                return self.terminate();
            }
        }
    }

    /// Wakes one worker that waits for a task or a due time that no longer matters. The worker
    /// exits and calls `try_terminate`, which wakes the next one.
    fn wake_worker_to_exit(&self) {
        self.interrupt_newest_in_queue();
        if matches!(self.queue(), TaskQueue::Delayed(_)) {
            self.idle().wake_one(|| None);
        }
    }

    fn terminate(&self) {
        if self.hooks().is_some() || self.me().is_observed() {
            // Hooks and observers count as tasks of the pool: they must not wait for its
            // termination.
            let _inside = WorksForScheduler::new(self.owner_number());
            self.hooks().iter().for_each(|hooks| _ = catch(|| hooks.terminated()));
            self.me().tell(&Event::Ended);
        }
        self.control().advance_to(RunState::Terminated);
        self.termination_waiters().notify_all();
    }

    /// A waiter lists itself and then reads the state. `terminate` advances the state and then
    /// takes the lock of the list. If the waiter took the lock first, it is notified. Otherwise it
    /// sees the state.
    fn await_termination(&self, timeout: Duration) -> Result<bool, Interrupted> {
        if self.is_terminated() || timeout.is_zero() {
            return Ok(self.is_terminated());
        }
        self.termination_waiters().wait(deadline_after(timeout), || self.is_terminated())
    }

    /// Race "wait idle / last task ends", waiter: enlist, fence, read the counts.
    fn wait_idle(&self, timeout: Duration) -> Result<bool, Interrupted> {
        let is_idle = self.is_idle(); // read once: it may change at any moment
        if is_idle || timeout.is_zero() {
            return Ok(is_idle);
        }
        self.idle_waiters().wait(deadline_after(timeout), || {
            fence(Ordering::SeqCst); // pairs with `notify_if_idle`
            self.is_idle()
        })
    }

    /// Race "wait idle / last task ends", notifier: fence, read the list of waiters. Called after
    /// every step that may make the pool idle: a task ended, was removed, cancelled or taken back,
    /// or its reserved worker did not start. A worker calls this only when it found the queue empty
    /// and is about to park or exit, so a busy pool does not pay for the fence.
    #[inline]
    pub(super) fn notify_if_idle(&self) {
        fence(Ordering::SeqCst); // pairs with `wait_idle`
        if !self.idle_waiters().is_empty() {
            self.notify_idle_waiters();
        }
    }

    #[cold]
    fn notify_idle_waiters(&self) {
        // The `len` method of a custom queue may panic.
        self.idle_waiters().notify_if(|| catch_value(|| self.is_idle()) == Some(true));
    }
}

/// A future that is ready when the pool has terminated. It owns no `Handle`, so it does not keep
/// the pool from shutting down.
struct Terminated {
    pool: Arc<PoolInner>,
    key: Option<Key>,
}

impl Terminated {
    fn unlist(&mut self) {
        if let Some(key) = self.key.take() {
            self.pool.termination_waiters().remove(key);
        }
    }
}

impl Future for Terminated {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.unlist();
        if !self.pool.is_terminated() {
            let (key, _) = self.pool.termination_waiters().push(Waiting::Task(context.waker().clone()));
            self.key = Some(key);
            if !self.pool.is_terminated() {
                return Poll::Pending;
            }
            self.unlist();
        }
        Poll::Ready(())
    }
}

impl Drop for Terminated {
    fn drop(&mut self) {
        self.unlist();
    }
}

/// The result of [`shutdown_gracefully`](crate::ThreadPoolExecutor::shutdown_gracefully).
#[derive(Debug)]
pub struct ShutdownReport {
    /// How the work ended.
    pub outcome: ShutdownOutcome,
    /// How long the shutdown took.
    pub elapsed: Duration,
    /// The tasks that never ran, in queue order.
    pub never_run: Vec<Task>,
}

/// How the work of a pool ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShutdownOutcome {
    /// All work ended by itself within the grace period.
    Drained,
    /// The work ended after running tasks were interrupted and queued tasks were taken back.
    Interrupted,
    /// A task was still running when the call returned, for example because it ignores its
    /// interrupt.
    StillRunning,
}

impl fmt::Display for ShutdownOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Drained => "all work ended within the grace period",
            Self::Interrupted => "the work ended after an interrupt",
            Self::StillRunning => "some work is still running",
        })
    }
}

/// Shutdown and waiting.
impl ThreadPoolExecutor {
    /// Shuts the pool down: rejects new tasks and lets queued and running tasks complete. Does not
    /// block.
    pub fn shutdown(&self) {
        self.inner().shutdown();
    }

    /// Rejects new tasks, interrupts running tasks and returns the queued ones, in queue order.
    ///
    /// Does not block. A task that ignores interrupts keeps running. The returned tasks can be run
    /// or submitted elsewhere. Dropping one resolves its handle as abandoned.
    pub fn shutdown_now(&self) -> Vec<Task> {
        self.inner().shutdown_now()
    }

    /// Returns true once a shutdown has begun.
    pub fn is_shutdown(&self) -> bool {
        self.state() != RunState::Running
    }

    /// Returns true from the beginning of a shutdown until the pool has terminated.
    pub fn is_terminating(&self) -> bool {
        self.is_shutdown() && !self.is_terminated()
    }

    /// Returns true once all tasks and workers have ended after a shutdown.
    pub fn is_terminated(&self) -> bool {
        self.inner().is_terminated()
    }

    /// Blocks until the pool has terminated, for at most `timeout`. Returns false on timeout.
    ///
    /// Termination takes precedence over a pending interrupt. Inside a task or a hook of this pool
    /// the call returns `Ok(false)` at once, because the pool cannot terminate before they return.
    ///
    /// # Errors
    /// [`Interrupted`] if the calling thread is interrupted while it waits.
    pub fn await_termination(&self, timeout: Duration) -> Result<bool, Interrupted> {
        if self.inner().is_current() {
            return Ok(self.is_terminated());
        }
        self.inner().await_termination(timeout)
    }

    /// Returns a future that is ready when the pool has terminated.
    ///
    /// The asynchronous form of [`await_termination`](Self::await_termination), for any runtime. It
    /// does not shut the pool down, and it does not keep the pool from shutting down when the last
    /// clone is dropped. A task of this pool must not block until the future is ready: unlike
    /// `await_termination`, it cannot tell that it would wait for itself.
    ///
    /// # Examples
    /// ```
    /// # fn block_on<F: Future>(future: F) -> F::Output {
    /// #     let mut future = std::pin::pin!(future);
    /// #     struct Unpark(std::thread::Thread);
    /// #     impl std::task::Wake for Unpark {
    /// #         fn wake(self: std::sync::Arc<Self>) { self.0.unpark() }
    /// #     }
    /// #     let waker = std::sync::Arc::new(Unpark(std::thread::current())).into();
    /// #     loop {
    /// #         match future.as_mut().poll(&mut std::task::Context::from_waker(&waker)) {
    /// #             std::task::Poll::Ready(output) => return output,
    /// #             std::task::Poll::Pending => std::thread::park(),
    /// #         }
    /// #     }
    /// # }
    /// let pool = millpond::executors::fixed(2)?;
    /// pool.execute(|| println!("the last words"))?;
    /// block_on(async {
    ///     pool.shutdown();
    ///     pool.terminated().await; // in a `timeout` of your runtime, and then `shutdown_now`
    /// });
    /// assert!(pool.is_terminated());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn terminated(&self) -> impl Future<Output = ()> + Send + Sync + Unpin + 'static + use<> {
        Terminated { pool: Arc::clone(self.inner()), key: None }
    }

    /// Blocks until no task is queued or running, for at most `timeout`. Returns false on timeout.
    ///
    /// Does not shut the pool down. Tasks submitted during the call may start afterwards. A worker
    /// counts as running until it has dropped its task and `after_execute` has returned. In a
    /// scheduled pool, delayed tasks that are not due do not count, and neither do periodic tasks
    /// between two runs. Inside a task of this pool the call returns false at once. A pool with a
    /// custom queue may seem idle while a worker dequeues a task.
    ///
    /// # Errors
    /// [`Interrupted`] if the calling thread is interrupted while it waits.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    ///
    /// let pool = millpond::executors::fixed(2)?;
    /// for part in 0..10 {
    ///     pool.execute(move || println!("part {part}"))?;
    /// }
    /// assert!(pool.wait_idle(Duration::MAX)?);
    /// assert_eq!(pool.stats().completed, 10);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn wait_idle(&self, timeout: Duration) -> Result<bool, Interrupted> {
        if self.inner().is_current() {
            return Ok(false);
        }
        self.inner().wait_idle(timeout)
    }

    /// Shuts down and blocks until all tasks have ended; see
    /// [`ExecutorService::close`](crate::ExecutorService::close).
    ///
    /// Inside a task or a hook of this pool the call does not wait.
    pub fn close(&self) {
        if self.inner().is_current() {
            self.shutdown();
        } else {
            close_and_wait(self);
        }
    }

    /// Shuts down in two steps: waits for the work to end, then interrupts it.
    ///
    /// First blocks up to `grace` until the work has ended by itself. Then interrupts running
    /// tasks, takes the queued ones back, and blocks up to `force` for the rest.
    ///
    /// An interrupt of the calling thread ends the current wait: during `grace` the second step
    /// begins at once, during `force` the call returns. The interrupt flag is set again afterwards.
    ///
    /// # Examples
    /// ```
    /// use millpond::{ShutdownOutcome, executors, interrupt};
    /// use std::time::Duration;
    ///
    /// let pool = executors::fixed(1)?;
    /// pool.execute(|| while interrupt::check().is_ok() { std::thread::yield_now() })?;
    /// pool.execute(|| println!("never runs"))?;
    ///
    /// let report = pool.shutdown_gracefully(Duration::from_millis(10), Duration::from_secs(60));
    /// assert_eq!(report.outcome, ShutdownOutcome::Interrupted);
    /// assert_eq!(report.never_run.len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn shutdown_gracefully(&self, grace: Duration, force: Duration) -> ShutdownReport {
        let begin = Instant::now();
        self.shutdown();
        let mut interrupted = false;
        // Inside a task of this pool the call waits too, which gives the other tasks time to end.
        let mut ended = |timeout| match self.inner().await_termination(timeout) {
            Ok(ended) => ended,
            Err(Interrupted) => {
                interrupted = true;
                self.is_terminated()
            }
        };
        let (outcome, never_run) = if ended(grace) {
            (ShutdownOutcome::Drained, Vec::new())
        } else {
            let never_run = self.shutdown_now();
            let ended = ended(force);
            (if ended { ShutdownOutcome::Interrupted } else { ShutdownOutcome::StillRunning }, never_run)
        };
        if interrupted {
            ThreadContext::with_current(|me| me.restore_interrupt());
        }
        ShutdownReport { outcome, elapsed: begin.elapsed(), never_run }
    }
}
