//! The methods of a scheduled pool for monitoring and control.

#[cfg(doc)]
use super::ScheduledBuilder;
use super::ScheduledThreadPoolExecutor;
use crate::monitor::{Actor, Change, ChangeError, PoolSnapshot, Settings, Waiting, WorkerView};
#[cfg(doc)]
use crate::pool::ThreadPoolExecutor;
use crate::pool::delegate_to_pool;

/// Monitoring and control; see [`monitor`](crate::monitor).
impl ScheduledThreadPoolExecutor {
    delegate_to_pool! {
        /// Returns the name set by [`ScheduledBuilder::name`], or `pool-N`.
        pub fn name(&self) -> &str;
        /// Returns the name of the pool, made unique in the process; see
        /// [`ThreadPoolExecutor::label`].
        pub fn label(&self) -> &str;
        /// Returns a snapshot of the pool: counts, settings and times. Does not block.
        pub fn snapshot(&self) -> PoolSnapshot;
        /// Returns the state of each worker; see [`ThreadPoolExecutor::workers`].
        pub fn workers(&self) -> Vec<WorkerView>;
        /// Returns the first queued tasks; see [`ThreadPoolExecutor::waiting`].
        pub fn waiting(&self, limit: usize) -> Waiting;
        /// Returns the current settings.
        pub fn settings(&self) -> Settings;
        /// Changes any subset of the settings; see [`ThreadPoolExecutor::reconfigure`].
        ///
        /// # Errors
        /// [`ChangeError`] with the cause. Nothing changes then.
        pub fn reconfigure(&self, change: Change) -> Result<Settings, ChangeError>;
        /// Pauses the pool: workers finish their current tasks and take no more until
        /// [`resume`](Self::resume). Tasks that become due wait. See [`ThreadPoolExecutor::pause`].
        pub fn pause(&self);
        /// Like [`pause`](Self::pause), with an author and a reason for observers.
        pub fn pause_by(&self, by: &Actor);
        /// Ends a [`pause`](Self::pause): workers take tasks again.
        pub fn resume(&self);
        /// Like [`resume`](Self::resume), with an author and a reason for observers.
        pub fn resume_by(&self, by: &Actor);
        /// Returns true while the pool is paused.
        pub fn is_paused(&self) -> bool;
    }
}
