//! Macros for delegating methods, for executors with a field `pool`.

/// Implements the executor traits, `Display` and `Debug` by delegating to the field `pool`.
macro_rules! delegate_executor_service {
    ($type:ident) => {
        impl $crate::Executor for $type {
            fn execute_task(&self, task: $crate::Task) -> Result<(), $crate::Rejected> {
                $type::execute_task(self, task)
            }
        }

        impl $crate::ExecutorService for $type {
            fn shutdown(&self) {
                self.pool.shutdown();
            }
            fn shutdown_now(&self) -> Vec<$crate::Task> {
                self.pool.shutdown_now()
            }
            fn is_shutdown(&self) -> bool {
                self.pool.is_shutdown()
            }
            fn is_terminated(&self) -> bool {
                self.pool.is_terminated()
            }
            fn await_termination(&self, timeout: std::time::Duration) -> Result<bool, $crate::Interrupted> {
                self.pool.await_termination(timeout)
            }
            fn close(&self) {
                self.pool.close();
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.pool.fmt(f)
            }
        }

        impl std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_tuple(stringify!($type)).field(&format_args!("{self}")).finish()
            }
        }
    };
}
pub(crate) use delegate_executor_service;

/// Defines methods that call the method of the same name on the field `pool`.
macro_rules! delegate_to_pool {
    ($($(#[$meta:meta])* pub fn $name:ident(&self $(, $arg:ident: $type:ty)*) $(-> $result:ty)?;)*) => {$(
        $(#[$meta])*
        pub fn $name(&self $(, $arg: $type)*) $(-> $result)? {
            self.pool.$name($($arg),*)
        }
    )*};
}
pub(crate) use delegate_to_pool;

/// Defines `stats` and the methods for shutdown and termination of an executor by delegation to its
/// field `pool`. Leaves out `shutdown` and `shutdown_now`, whose documentation differs.
macro_rules! delegate_lifecycle {
    () => {
        $crate::pool::delegate_to_pool! {
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
