//! Changes of a running pool: sizes, keep-alive time, queue capacity, policy, thread factory, and
//! prestarted threads.

use std::io;
use std::thread::JoinHandle;
use std::time::Duration;

use super::ThreadPoolExecutor;
use super::growth::GrowthRule;
use super::inner::PoolInner;
use super::policy::{Handler, RejectedExecutionHandler};
use super::queue::TaskQueue;
use super::spawn::Limit;
use crate::ConfigError;
use crate::monitor::{Actor, Change, ChangeError, Event, Settings};
use crate::sync::Arc;
use crate::threads::WorkerBody;

impl PoolInner {
    pub(super) fn reconfigure(self: &Arc<Self>, change: Change) -> Result<Settings, ChangeError> {
        if self.is_terminated() {
            return Err(ChangeError::Ended);
        }
        self.check_supported(&change)?;
        let handler = match change.new_policy() {
            Some(policy) => Some(Handler::of(policy).ok_or(OWN_POLICY)?),
            None => None,
        };
        self.change(change.author(), handler, |old| change.applied_to(old))
    }

    fn check_supported(&self, change: &Change) -> Result<(), ChangeError> {
        let unsupported = |setting, why| Err(ChangeError::Unsupported { setting, why });
        let is_scheduled = matches!(self.queue(), TaskQueue::Delayed(_));
        if is_scheduled && change.sets_maximum() {
            return unsupported("maximum_pool_size", "a scheduled pool has core threads only");
        }
        if is_scheduled && change.new_policy().is_some() {
            return unsupported("policy", "a scheduled pool has room for every task");
        }
        if change.new_capacity().is_none() {
            return Ok(());
        }
        match self.queue() {
            TaskQueue::Fifo(_) => Ok(()),
            TaskQueue::Handoff => unsupported(CAPACITY, "a synchronous queue holds no tasks"),
            TaskQueue::Priority(..) => unsupported(CAPACITY, "a priority queue has no bound"),
            TaskQueue::Delayed(_) | TaskQueue::Blocking { always: true, .. } => {
                unsupported(CAPACITY, "a delay queue has no bound")
            }
            TaskQueue::Blocking { .. } => {
                unsupported(CAPACITY, "only the owner of a custom queue can set it")
            }
        }
    }

    /// Changes the settings in one step, together with the policy if there is a `handler`.
    fn change(
        self: &Arc<Self>,
        by: &Actor,
        handler: Option<Handler>,
        change: impl FnOnce(&Settings) -> Result<Settings, ChangeError>,
    ) -> Result<Settings, ChangeError> {
        let mut replaced = None;
        let (old, new) = self.settings().change(change, |new| {
            self.queue().set_capacity(new.queue_capacity.unwrap_or(usize::MAX));
            replaced = handler.map(|handler| self.policy().replace(handler));
            if new.timing != self.meter().timing() {
                self.set_timing(new.timing);
            }
        })?;
        drop(replaced); // user code, so outside of the lock
        self.react(&old, &new);
        self.me().tell(&Event::Changed { old: &old, new: &new, by });
        Ok(new)
    }

    /// Acts on a change of settings: idle workers recheck if they may have to exit earlier, and
    /// waiting submitters if there may be room. A raised core size starts threads for queued tasks;
    /// in an eager pool, a raised maximum size does too.
    ///
    /// Race "wait for room / make room": the capacity was changed under the tail lock, and now the
    /// list is read. A submitter lists itself, and then tries to push under that lock. Model:
    /// `waiting_for_room_against_a_larger_capacity`.
    fn react(self: &Arc<Self>, old: &Settings, new: &Settings) {
        let workers = self.control().load().workers();
        let (core, old_core) = (new.core_pool_size, old.core_pool_size);
        if workers > new.maximum_pool_size
            || (core != old_core && workers > core)
            || new.keep_alive_time != old.keep_alive_time
            || (new.core_threads_time_out && !old.core_threads_time_out)
        {
            self.recheck_all();
        } else {
            self.submitters().notify_all();
        }
        let mut added = core.saturating_sub(old_core);
        if self.rule() == GrowthRule::Eager {
            added = added.max(new.maximum_pool_size.saturating_sub(old.maximum_pool_size));
        }
        if added > 0 {
            self.start_for_queued(added);
        }
    }

    /// Starts at most `wanted` threads for queued tasks: up to the core size, or in an eager pool
    /// up to the maximum size while no worker is free.
    pub(super) fn start_for_queued(self: &Arc<Self>, wanted: usize) {
        let limit = match self.rule() {
            GrowthRule::QueueFirst => Limit::Core,
            GrowthRule::Eager => Limit::Maximum,
        };
        let mut wanted = wanted.min(self.queue().try_len().unwrap_or(usize::MAX));
        while wanted > 0
            && !self.has_free_worker(self.control().load())
            && self.add_worker(None, limit).is_ok()
            && !self.queue().is_empty()
        {
            wanted -= 1;
        }
    }
}

const CAPACITY: &str = "queue_capacity";
const OWN_POLICY: ChangeError = ChangeError::Unsupported {
    setting: "policy",
    why: "a custom policy can only be set with `set_rejected_execution_handler`",
};

/// Settings.
impl ThreadPoolExecutor {
    /// Returns the core size: the number of threads that start before the queue is used and stay
    /// when idle.
    pub fn core_pool_size(&self) -> usize {
        self.inner().settings().get().core_pool_size
    }

    /// Sets the core size. Does not block.
    ///
    /// Raising it starts threads for queued tasks. After lowering it, threads above the core size
    /// exit when they have been idle for the keep-alive time.
    ///
    /// # Errors
    /// [`ConfigError`] if it exceeds the maximum size. Nothing changes then.
    pub fn set_core_pool_size(&self, threads: usize) -> Result<(), ConfigError> {
        self.set(Change::new().core_pool_size(threads))
    }

    /// Returns the maximum number of threads.
    pub fn maximum_pool_size(&self) -> usize {
        self.inner().settings().get().maximum_pool_size
    }

    /// Sets the maximum size. Does not block. Idle threads above it exit at once, busy threads
    /// after their current task.
    ///
    /// # Errors
    /// [`ConfigError`] if it is 0 or below the core size. Nothing changes then.
    pub fn set_maximum_pool_size(&self, threads: usize) -> Result<(), ConfigError> {
        self.set(Change::new().maximum_pool_size(threads))
    }

    /// Returns how long an idle thread above the core size waits for work before it exits.
    pub fn keep_alive_time(&self) -> Duration {
        self.inner().settings().get().keep_alive_time
    }

    /// Sets how long an idle thread above the core size waits for work before it exits. Threads
    /// that are idle now restart their wait. Does not block.
    ///
    /// # Errors
    /// [`ConfigError`] if it is zero while core threads time out. Nothing changes then.
    pub fn set_keep_alive_time(&self, time: Duration) -> Result<(), ConfigError> {
        self.set(Change::new().keep_alive_time(time))
    }

    /// Returns true if idle core threads exit too.
    pub fn allows_core_thread_time_out(&self) -> bool {
        self.inner().settings().get().core_threads_time_out
    }

    /// Sets whether idle core threads exit too, after the keep-alive time. Does not block.
    ///
    /// # Errors
    /// [`ConfigError`] if `allow` is true and the keep-alive time is zero. Nothing changes then.
    pub fn allow_core_thread_time_out(&self, allow: bool) -> Result<(), ConfigError> {
        self.set(Change::new().core_threads_time_out(allow))
    }

    /// Changes any subset of the settings in one step: either all changes apply or none.
    ///
    /// Returns the new settings, whose version is higher by one. Does not block. Threads above a
    /// lowered size exit when they are idle. A raised core size starts threads for queued tasks. A
    /// raised queue capacity wakes submitters that wait for room. See [`Change`].
    ///
    /// # Errors
    /// [`ChangeError`] with the cause. Nothing changes then.
    ///
    /// # Examples
    /// ```
    /// use millpond::monitor::Change;
    ///
    /// let pool = millpond::executors::fixed(2)?;
    /// pool.reconfigure(Change::new().core_pool_size(8).maximum_pool_size(8))?;
    /// assert_eq!(pool.maximum_pool_size(), 8);
    /// let error = pool.reconfigure(Change::new().core_pool_size(9)).unwrap_err();
    /// assert_eq!(error.to_string(), "maximum_pool_size is 8 but core_pool_size is 9");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reconfigure(&self, change: Change) -> Result<Settings, ChangeError> {
        self.inner().reconfigure(change)
    }

    /// Applies a single setter. As in the JDK, this also works on a terminated pool.
    fn set(&self, change: Change) -> Result<(), ConfigError> {
        match self.inner().change(change.author(), None, |old| change.applied_to(old)) {
            Err(ChangeError::Invalid(error)) => Err(error),
            _ => Ok(()), // without an expected version there is no other error
        }
    }

    /// Replaces the rejection policy for all rejections from now on. Does not block.
    pub fn set_rejected_execution_handler(&self, handler: impl RejectedExecutionHandler) {
        let (handler, change) = (Handler::new(handler), Change::new());
        let policy = handler.kind();
        // This cannot fail: the other settings are the current ones.
        let _ = self.inner().change(change.author(), Some(handler), |old| {
            change.applied_to(old).map(|new| Settings { policy, ..new })
        });
    }

    /// Replaces the thread factory, for threads started from now on; see
    /// [`Builder::thread_factory`](crate::Builder::thread_factory).
    pub fn set_thread_factory(
        &self,
        factory: impl Fn(WorkerBody) -> io::Result<JoinHandle<()>> + Send + Sync + 'static,
    ) {
        let old = self.inner().replace_factory(Arc::new(factory));
        drop(old); // user code, so outside of the lock
    }

    /// Starts one core thread, which waits for work. Blocks while the thread factory runs.
    ///
    /// Returns false if the core size has been reached, the pool is shut down, or the thread cannot
    /// be started.
    pub fn prestart_core_thread(&self) -> bool {
        self.inner().add_worker(None, Limit::Core).is_ok()
    }

    /// Starts all missing core threads and returns how many were started.
    pub fn prestart_all_core_threads(&self) -> usize {
        std::iter::repeat_with(|| self.prestart_core_thread()).take_while(|started| *started).count()
    }
}
