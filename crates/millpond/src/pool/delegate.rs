//! The macro [`delegate_lifecycle`] for executors with a field `pool`.

/// Defines `stats` and the methods for shutdown and termination of an executor by delegation to its
/// field `pool`. Leaves out `shutdown` and `shutdown_now`, whose documentation differs.
macro_rules! delegate_lifecycle {
    () => {
        $crate::executor::delegate_to_pool! {
            /// Returns true once a shutdown has begun.
            pub fn is_shutdown(&self) -> bool;
            /// Returns true once all tasks and workers have ended after a shutdown.
            pub fn is_terminated(&self) -> bool;
            /// Blocks until the executor has terminated, for at most `timeout` of real time.
            /// Returns false on timeout. Termination takes precedence over a pending interrupt.
            ///
            /// # Errors
            /// [`Interrupted`](crate::Interrupted) if the calling thread is interrupted while it
            /// waits.
            pub fn await_termination(
                &self, timeout: ::std::time::Duration
            ) -> Result<bool, $crate::Interrupted>;
            /// Blocks until no task is running and no queued task is due, for at most `timeout`;
            /// see [`ThreadPoolExecutor::wait_idle`](crate::ThreadPoolExecutor::wait_idle).
            ///
            /// # Errors
            /// [`Interrupted`](crate::Interrupted) if the calling thread is interrupted while it
            /// waits.
            pub fn wait_idle(&self, timeout: ::std::time::Duration) -> Result<bool, $crate::Interrupted>;
            /// Shuts down and blocks until all tasks have ended, including delayed tasks that still
            /// have to run; see [`ExecutorService::close`](crate::ExecutorService::close).
            ///
            /// Inside a task of this executor the call does not wait.
            pub fn close(&self);
            /// Shuts down in two steps, like a [`ThreadPoolExecutor`].
            ///
            /// [`ThreadPoolExecutor`]: crate::ThreadPoolExecutor::shutdown_gracefully
            pub fn shutdown_gracefully(
                &self, grace: ::std::time::Duration, force: ::std::time::Duration
            ) -> $crate::ShutdownReport;
            /// Returns a snapshot of all statistics. Each run of a periodic task counts as a task.
            pub fn stats(&self) -> $crate::PoolStats;
        }

        /// Returns a future that is ready when the executor has terminated; see
        /// [`ThreadPoolExecutor::terminated`](crate::ThreadPoolExecutor::terminated).
        pub fn terminated(&self) -> impl Future<Output = ()> + Send + Sync + Unpin + 'static + use<> {
            self.pool.terminated()
        }
    };
}
pub(crate) use delegate_lifecycle;
