//! Changing a running pool: sizes, keep-alive time, policy, thread factory, and prestarted threads.

use std::io;
use std::thread::JoinHandle;
use std::time::Duration;

use super::ThreadPoolExecutor;
use super::policy::{Handler, RejectedExecutionHandler};
use super::settings::Settings;
use super::spawn::Limit;
use crate::ConfigError;
use crate::sync::Arc;
use crate::threads::WorkerBody;

/// Settings.
impl ThreadPoolExecutor {
    /// Returns the core size: the number of threads that are started before the queue is used, and
    /// kept.
    pub fn core_pool_size(&self) -> usize {
        self.inner().settings().get().core
    }

    /// Sets the core size.
    ///
    /// Raising it starts threads for queued tasks. After lowering it, threads above the core size
    /// exit when they have been idle for the keep-alive time.
    ///
    /// # Errors
    /// [`ConfigError`] if it exceeds the maximum size. Nothing changes then.
    pub fn set_core_pool_size(&self, threads: usize) -> Result<(), ConfigError> {
        let pool = self.inner();
        let (old, new) = pool.settings().change(|settings| settings.core = threads)?;
        if pool.control().load().workers() > new.core {
            pool.recheck_all();
        } else if new.core > old.core {
            pool.submitters().notify_all();
            let mut wanted = (new.core - old.core).min(pool.queue().try_len().unwrap_or(usize::MAX));
            while wanted > 0 && self.prestart_core_thread() && !pool.queue().is_empty() {
                wanted -= 1;
            }
        }
        Ok(())
    }

    /// Returns the maximum number of threads.
    pub fn maximum_pool_size(&self) -> usize {
        self.inner().settings().get().maximum
    }

    /// Sets the maximum size. Idle threads above it exit at once, busy ones after their task.
    ///
    /// # Errors
    /// [`ConfigError`] if it is 0 or below the core size. Nothing changes then.
    pub fn set_maximum_pool_size(&self, threads: usize) -> Result<(), ConfigError> {
        self.change(|settings| settings.maximum = threads)
    }

    /// Returns how long an idle thread above the core size waits for work before it exits.
    pub fn keep_alive_time(&self) -> Duration {
        self.inner().settings().get().keep_alive
    }

    /// Sets how long an idle thread above the core size waits for work before it exits. Threads
    /// that are idle now restart their wait.
    ///
    /// # Errors
    /// [`ConfigError`] if it is zero while core threads time out. Nothing changes then.
    pub fn set_keep_alive_time(&self, time: Duration) -> Result<(), ConfigError> {
        self.change(|settings| settings.keep_alive = time)
    }

    /// Returns true if idle core threads exit too.
    pub fn allows_core_thread_time_out(&self) -> bool {
        self.inner().settings().get().core_times_out
    }

    /// Sets whether idle core threads exit too, after the keep-alive time.
    ///
    /// # Errors
    /// [`ConfigError`] if they should and the keep-alive time is zero. Nothing changes then.
    pub fn allow_core_thread_time_out(&self, allow: bool) -> Result<(), ConfigError> {
        self.change(|settings| settings.core_times_out = allow)
    }

    /// Changes a setting. Idle workers recheck if they might exit earlier now, and blocked
    /// submitters if there may be room for another thread.
    fn change(&self, change: impl FnOnce(&mut Settings)) -> Result<(), ConfigError> {
        let pool = self.inner();
        let (old, new) = pool.settings().change(change)?;
        if pool.control().load().workers() > new.maximum
            || new.keep_alive != old.keep_alive
            || (new.core_times_out && !old.core_times_out)
        {
            pool.recheck_all();
        } else {
            pool.submitters().notify_all();
        }
        Ok(())
    }

    /// Replaces the rejection policy, from the next rejection on.
    pub fn set_rejected_execution_handler(&self, handler: impl RejectedExecutionHandler) {
        let old = self.inner().policy().replace(Handler::new(handler));
        drop(old); // user code, so outside of the lock
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

    /// Starts one core thread, which waits for work.
    ///
    /// Returns false if the core size is reached, the pool is shut down, or the thread cannot be
    /// started.
    pub fn prestart_core_thread(&self) -> bool {
        self.inner().add_worker(None, Limit::Core).is_ok()
    }

    /// Starts all missing core threads and returns how many were started.
    pub fn prestart_all_core_threads(&self) -> usize {
        std::iter::repeat_with(|| self.prestart_core_thread()).take_while(|started| *started).count()
    }
}
