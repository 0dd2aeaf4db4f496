//! The macro [`inherent_executor_methods`] for executors.

/// Defines the methods of [`ExecutorExt`] as inherent methods, so that users need not import the
/// trait.
macro_rules! inherent_executor_methods {
    () => {
        /// Runs `f` without a handle. Does not block unless the rejection policy does.
        ///
        /// # Errors
        /// Returns [`Rejected`](crate::Rejected) if the pool is shut down or full, or if a thread
        /// could not be started. [`Rejected::into_task`](crate::Rejected::into_task) returns the
        /// work.
        ///
        /// # Examples
        /// ```
        /// let pool = millpond::executors::fixed(2)?;
        /// pool.execute(|| println!("on {:?}", std::thread::current().name()))?;
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        pub fn execute(&self, f: impl FnOnce() + Send + 'static) -> Result<(), $crate::Rejected> {
            self.execute_task($crate::Task::new(f))
        }

        $crate::executor::inherent_executor_methods!(but execute);
    };
    (but execute) => {
        /// Submits `f` and returns a handle to its result.
        ///
        /// Does not block unless the rejection policy does. Dropping the handle detaches the task
        /// and does not cancel it.
        ///
        /// # Errors
        /// Returns [`Rejected`](crate::Rejected) if the pool is shut down or full, or if a thread
        /// could not be started. [`Rejected::into_task`](crate::Rejected::into_task) returns the
        /// work. To retry and still get the result, keep the handle:
        /// [`TaskOf::into_parts`](crate::TaskOf::into_parts).
        ///
        /// # Examples
        /// ```
        /// let pool = millpond::executors::fixed(2)?;
        /// assert_eq!(pool.submit(|| 6 * 7)?.join()?, 42);
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        pub fn submit<T: Send + 'static>(
            &self,
            f: impl FnOnce() -> T + Send + 'static,
        ) -> Result<$crate::TaskHandle<T>, $crate::Rejected> {
            $crate::ExecutorExt::submit(self, f)
        }

        $crate::executor::inherent_executor_methods!(but execute and submit);
    };
    (but execute and submit) => {
        /// Submits a task with a name, priority or delay, and returns a handle to its result.
        ///
        /// # Errors
        /// As [`submit`](Self::submit).
        pub fn submit_task<T: Send + 'static>(
            &self,
            task: $crate::TaskOf<T>,
        ) -> Result<$crate::TaskHandle<T>, $crate::Rejected> {
            $crate::ExecutorExt::submit_task(self, task)
        }

        /// Runs all of `tasks`, blocks until all are done, and returns their handles in order; see
        /// [`ExecutorExt::invoke_all`](crate::ExecutorExt::invoke_all).
        ///
        /// # Errors
        /// Returns [`InvokeError`](crate::InvokeError) if a task is rejected or the calling thread
        /// is interrupted. The other tasks are then cancelled.
        ///
        /// # Examples
        /// ```
        /// let pool = millpond::executors::fixed(2)?;
        /// let squares = pool.invoke_all((1..=3).map(|n| move || n * n))?;
        /// let squares = squares.into_iter().map(|square| square.join());
        /// let squares: Result<Vec<i32>, _> = squares.collect();
        /// assert_eq!(squares?, [1, 4, 9]);
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        pub fn invoke_all<T, F>(
            &self,
            tasks: impl IntoIterator<Item = F>,
        ) -> Result<Vec<$crate::TaskHandle<T>>, $crate::InvokeError>
        where
            T: Send + 'static,
            F: FnOnce() -> T + Send + 'static,
        {
            $crate::ExecutorExt::invoke_all(self, tasks)
        }

        /// As [`invoke_all`](Self::invoke_all), but blocks for at most `timeout`. Tasks that are
        /// not done by then are cancelled.
        ///
        /// # Errors
        /// As [`invoke_all`](Self::invoke_all).
        pub fn invoke_all_timeout<T, F>(
            &self,
            tasks: impl IntoIterator<Item = F>,
            timeout: ::std::time::Duration,
        ) -> Result<Vec<$crate::TaskHandle<T>>, $crate::InvokeError>
        where
            T: Send + 'static,
            F: FnOnce() -> T + Send + 'static,
        {
            $crate::ExecutorExt::invoke_all_timeout(self, tasks, timeout)
        }

        /// Blocks until a task succeeds, returns its value and cancels the others; see
        /// [`ExecutorExt::invoke_any`](crate::ExecutorExt::invoke_any).
        ///
        /// # Errors
        /// Returns [`InvokeError`](crate::InvokeError) if there is no task, no task succeeds, a
        /// task is rejected, or the calling thread is interrupted.
        ///
        /// # Examples
        /// ```
        /// let pool = millpond::executors::fixed(2)?;
        /// let answer = pool.invoke_any([|| Err("no route"), || Ok(42)])?;
        /// assert_eq!(answer, 42);
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        pub fn invoke_any<T, E, F>(
            &self,
            tasks: impl IntoIterator<Item = F>,
        ) -> Result<T, $crate::InvokeError>
        where
            T: Send + 'static,
            E: Into<Box<dyn ::std::error::Error + Send + Sync>> + Send + 'static,
            F: FnOnce() -> Result<T, E> + Send + 'static,
        {
            $crate::ExecutorExt::invoke_any(self, tasks)
        }

        /// As [`invoke_any`](Self::invoke_any), but blocks for at most `timeout`.
        ///
        /// # Errors
        /// As [`invoke_any`](Self::invoke_any), and
        /// [`InvokeError::TimedOut`](crate::InvokeError::TimedOut).
        pub fn invoke_any_timeout<T, E, F>(
            &self,
            tasks: impl IntoIterator<Item = F>,
            timeout: ::std::time::Duration,
        ) -> Result<T, $crate::InvokeError>
        where
            T: Send + 'static,
            E: Into<Box<dyn ::std::error::Error + Send + Sync>> + Send + 'static,
            F: FnOnce() -> Result<T, E> + Send + 'static,
        {
            $crate::ExecutorExt::invoke_any_timeout(self, tasks, timeout)
        }
    };
}
pub(crate) use inherent_executor_methods;
